/* SPDX-License-Identifier: MIT */
/*
 * tcp/chrono.c - how long a connection had something to send, and what it waited for
 *
 *     tx.c: sends, or cannot send          -+
 *                                           +-> chrono_set() -> info.c
 *     ack.c: all has arrived, or has room  -+
 *
 * At each instant a connection is in one state of enum chrono.  As in Linux, the time
 * in which it was busy includes the times in which a window or the send buffer limited
 * it.
 *
 * TCP_INFO reports the times: busy_time, rwnd_limited and sndbuf_limited.
 */
#include "tcp/snd.h"
#include "tcp/stack.h"
#include "tcp/timer.h"

static uint32_t *counter(struct tcp_conn *c, enum chrono what)
{
	switch (what) {
	case CHRONO_BUSY:
		return &c->busy_ms;
	case CHRONO_RWND_LIMITED:
		return &c->rwnd_ms;
	case CHRONO_SNDBUF_LIMITED:
		return &c->sndbuf_ms;
	default:
		return NULL;
	}
}

void chrono_change(struct tcp_conn *c, enum chrono what)
{
	uint32_t *before = counter(c, c->rec.chrono);

	if (before)
		*before += now_ms(c->stack) - c->chrono_start_ms;
	c->chrono_start_ms = now_ms(c->stack);
	c->rec.chrono = what;
}

/* The peer has acknowledged bytes. */
void chrono_acked(struct tcp_conn *c)
{
	if (c->rec.wants_room && snd_space(c)) {
		c->rec.wants_room = false;
		if (c->rec.chrono == CHRONO_SNDBUF_LIMITED)
			chrono_set(c, CHRONO_BUSY);
	}
	if (seq_eq(c->snd_una, c->snd_nxt) && !conn_has_unsent(c))
		chrono_set(c, CHRONO_UNSPEC);
}
