/* SPDX-License-Identifier: MIT */
/*
 * tcp/held.c - for how long a connection had something to do, and what it waited for
 *
 *     tx.c: what may be sent, and why no more -+
 *                                              +-> held_is() -> info.c
 *     ack.c: all has arrived, there is room   -+
 *
 * At each instant it is one of enum held.  As in Linux, the time for which a connection
 * was busy has the times in it for which it was held.
 *
 * Who runs it: TCP_INFO's busy_time, rwnd_limited and sndbuf_limited.
 */
#include "tcp/conn.h"

static uint32_t *counter(struct tcp_conn *c, enum held what)
{
	switch (what) {
	case HELD_BUSY:
		return &c->busy_ms;
	case HELD_RWND:
		return &c->rwnd_ms;
	case HELD_SNDBUF:
		return &c->sndbuf_ms;
	default:
		return NULL;
	}
}

void held_change(struct tcp_conn *c, enum held what)
{
	uint32_t *before = counter(c, c->rec.held);

	if (before)
		*before += now_ms(c->stack) - c->held_since_ms;
	c->held_since_ms = now_ms(c->stack);
	c->rec.held = what;
}

/* Bytes have arrived. */
void held_acked(struct tcp_conn *c)
{
	if (c->rec.wants_room && snd_space(c)) {
		c->rec.wants_room = false;
		if (c->rec.held == HELD_SNDBUF)
			held_is(c, HELD_BUSY);
	}
	if (seq_eq(c->snd_una, c->snd_nxt) && !conn_has_unsent(c))
		held_is(c, HELD_NOT);
}
