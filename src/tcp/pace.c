/* SPDX-License-Identifier: MIT */
/*
 * tcp/pace.c - segments that leave one by one
 *
 * The rate is the window's in a round trip, and somewhat more, so that the window stays
 * what limits: twice as much in slow start, 1.2 times then.  Each frame moves the instant
 * of the next one.  Timers are late by a tick or two; so much may be made up for, or
 * the rate would be lower than it should.
 *
 * Only for connections that were told to (tcp_set_pacing()).
 */
#include "tcp/conn.h"

#define SLOW_START_TENTHS 20
#define AVOIDANCE_TENTHS 12
#define LATE_NS (2ull << WHEEL_TICK_SHIFT)
#define FRAME_NS NS_PER_MS /* what one frame may hold of the rate */

/* How long so many bytes take. */
static uint64_t pace_ns(const struct tcp_conn *c, uint32_t bytes)
{
	uint64_t tenths =
	    c->cwnd < c->ssthresh ? SLOW_START_TENTHS : AVOIDANCE_TENTHS;
	/* In recovery it may be nothing, for a moment. */
	uint32_t cwnd = c->cwnd > c->mss ? c->cwnd : c->mss;

	return bytes * 10ull * conn_srtt_ns(c) / (tenths * cwnd);
}

/* Bytes a second; 0: not known yet. */
uint64_t pace_rate(const struct tcp_conn *c)
{
	uint64_t tenths =
	    c->cwnd < c->ssthresh ? SLOW_START_TENTHS : AVOIDANCE_TENTHS;

	return c->srtt_8us
		   ? c->cwnd * tenths * (NS_PER_S / 10) / conn_srtt_ns(c)
		   : 0;
}

/* Whether bytes may go now.  If not, the timer will tell when. */
bool pace_may_send(struct tcp_conn *c)
{
	if (!(c->flags & CONN_PACED) || c->stack->now_ns >= c->pace_at_ns)
		return true;
	c->flags |= CONN_PACE_WAITS;
	conn_timer_sync(c);
	return false;
}

/* Payload that a frame may have; @n otherwise. */
uint32_t pace_frame(const struct tcp_conn *c, uint32_t n, uint32_t room)
{
	uint64_t most, per_room;

	if (!(c->flags & CONN_PACED) || !c->srtt_8us || n <= 2 * room)
		return n;
	per_room = pace_ns(c, room);
	most = per_room ? FRAME_NS / per_room * room : n;
	most = most > 2 * room ? most : 2 * room;
	return (uint32_t)MIN((uint64_t)n, most);
}

void pace_sent(struct tcp_conn *c, uint32_t bytes)
{
	uint64_t now = c->stack->now_ns;

	if (!(c->flags & CONN_PACED) || !c->srtt_8us)
		return;
	if (c->pace_at_ns + LATE_NS < now)
		c->pace_at_ns = now - LATE_NS;
	c->pace_at_ns += pace_ns(c, bytes);
}

void pace_timeout(struct tcp_conn *c)
{
	if (!(c->flags & CONN_PACE_WAITS) || c->pace_at_ns > c->stack->now_ns)
		return;
	c->flags &= ~(uint32_t)CONN_PACE_WAITS;
	conn_set_pending(c, TX_DATA);
}
