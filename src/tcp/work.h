/* SPDX-License-Identifier: MIT */
/*
 * tcp/work.h - how many nodes a call touches, and how many it may
 *
 * Of what waits in queues there may be many thousand: no frame, no timer and no call of the
 * program's goes through all of it, or a peer could make it cost seconds.  What goes
 * through several nodes counts them; those that it gives back are not counted, because
 * each of them was paid for when it came.  tcp_most_work() tells.
 */
#pragma once

#include <stdint.h>

#include "base/compiler.h"
#include "tcp/tcp.h"

/* Where each part of a call stops, so that all of them stay below TCP_WORK_MAX. */
#define WORK_MAX TCP_WORK_MAX
#define WORK_SACK 40   /* looking for an ACK's blocks */
#define WORK_TEXT 16   /* all of an ACK that comes with text */
#define WORK_FILL 24   /* then no more gaps that a segment covers are filled */
#define WORK_RENEGE 16 /* ranges that the peer has forgotten */
#define WORK_CUT 32    /* ranges that do not fit the path any more */
#define WORK_REQSKS 32 /* of a listener that is gone */

struct work {
	int32_t n;     /* of this call */
	uint32_t most; /* of one */
};

/* Nodes were touched; less than 0: and given back. */
static inline void work_add(struct work *w, int32_t n) { w->n += n; }

/* A call is over: a frame, a timer, or one of the program's. */
static inline void work_end(struct work *w)
{
	if (likely(!w->n))
		return;
	if (w->n > (int32_t)w->most)
		w->most = (uint32_t)w->n;
	w->n = 0;
}
