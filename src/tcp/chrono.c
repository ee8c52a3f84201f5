/* SPDX-License-Identifier: MIT */
/*
 * tcp/chrono.c - for how long a connection had something to do, and what it waited for
 *
 *     tx.c: what may be sent, and why no more -+
 *                                              +-> chrono_set() -> info.c
 *     ack.c: all has arrived, there is room   -+
 *
 * At each instant it is one of enum chrono.  As in Linux, the time for which a connection
 * was busy has the times in it for which it was held.
 *
 * Who runs it: TCP_INFO's busy_time, rwnd_limited and sndbuf_limited.
 */
#include "tcp/conn.h"

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

/* Bytes have arrived. */
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
