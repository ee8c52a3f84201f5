/* SPDX-License-Identifier: MIT */
/*
 * tcp/work.h - how much work a call does, and how much it may do
 *
 * Queues may hold many thousands of ranges.  No frame, timer or call walks through all
 * of them, or a peer could make it take seconds.  Code that walks through ranges, runs
 * or half-open connections counts them as work.  Those that it frees do not count,
 * because each was paid for when it was made.  tcp_most_work() reports the largest
 * count.
 */
#pragma once

#include <stdint.h>

#include "base/compiler.h"
#include "tcp/tcp.h"

/* The limits of the parts of a call.  They keep each call at TCP_WORK_MAX at most. */
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

/* Adds @n touched elements; less than 0: elements that were also freed. */
static inline void work_add(struct work *w, int32_t n) { w->n += n; }

/* Ends a call: a frame, a timer, or a call of the program. */
static inline void work_end(struct work *w)
{
	if (likely(!w->n))
		return;
	if (w->n > (int32_t)w->most)
		w->most = (uint32_t)w->n;
	w->n = 0;
}
