/* SPDX-License-Identifier: MIT */
/*
 * tcp/pace.c - pacing: segments that leave one by one
 *
 * The rate is one window in a round trip, times 2 in slow start and times 1.2 later, so
 * that the window and not the pacing limits the connection.  Each frame sets the time
 * of the next one.  Timers fire a tick or two late; the connection may make up for that
 * much, or its rate would be lower than intended.
 *
 * It applies to connections with tcp_set_pacing() only.
 */
#include "tcp/snd.h"
#include "tcp/stack.h"
#include "tcp/timer.h"

#define SLOW_START_TENTHS 20
#define AVOIDANCE_TENTHS 12
#define LATE_NS (2ull << WHEEL_TICK_SHIFT)
#define FRAME_NS NS_PER_MS /* the longest time that one frame may take */

/* How long it takes to send @bytes. */
static uint64_t pace_ns(const struct tcp_conn *c, uint32_t bytes)
{
	uint64_t tenths =
	    c->cwnd < c->ssthresh ? SLOW_START_TENTHS : AVOIDANCE_TENTHS;
	/* During recovery cwnd can be 0 for a moment. */
	uint32_t cwnd = c->cwnd > c->mss ? c->cwnd : c->mss;

	return bytes * 10ull * conn_srtt_ns(c) / (tenths * cwnd);
}

/* Bytes per second; 0: not known yet. */
uint64_t pace_rate(const struct tcp_conn *c)
{
	uint64_t tenths =
	    c->cwnd < c->ssthresh ? SLOW_START_TENTHS : AVOIDANCE_TENTHS;

	return c->srtt_8us
		   ? c->cwnd * tenths * (NS_PER_S / 10) / conn_srtt_ns(c)
		   : 0;
}

/* Whether bytes may leave now.  If not, a timer is armed for when they may. */
bool pace_may_send(struct tcp_conn *c)
{
	if (!(c->flags & CONN_PACED) || c->stack->now_ns >= c->pace_at_ns)
		return true;
	c->flags |= CONN_PACE_WAITS;
	conn_timer_sync(c);
	return false;
}

/* The payload that a frame may have; @n if the connection is not paced. */
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
