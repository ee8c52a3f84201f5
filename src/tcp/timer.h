/* SPDX-License-Identifier: MIT */
/*
 * tcp/timer.h - what a connection does as time passes
 *
 *     timer.c   retransmission, probes, keepalive, the end of states
 *     delack.c  delayed ACKs
 *     pace.c    frames spread over a round trip
 *     chrono.c  how long a connection waited, and for what
 */
#pragma once

#include "tcp/conn.h"

/* What the retransmission timer is armed for; a connection has one such timer. */
enum rtx_kind {
	RTX_NONE,
	RTX_RTO,
	RTX_REO, /* the end of RACK's reordering window */
	RTX_TLP, /* a tail loss probe */
	RTX_PERSIST,
};

/* What a connection waits for, as Linux's enum tcp_chrono: see chrono.c. */
enum chrono {
	CHRONO_UNSPEC,         /* nothing is in flight or to be sent */
	CHRONO_BUSY,           /* the path: the congestion window, ACKs */
	CHRONO_RWND_LIMITED,   /* the peer's window */
	CHRONO_SNDBUF_LIMITED, /* room in the send buffer */
};

static inline uint32_t clip_us(uint64_t ns)
{
	return (uint32_t)MIN(ns / NS_PER_US, (uint64_t)UINT32_MAX);
}

/* The RTO that the round trips suggest, without back-off: see conn_rto_ns(). */
static inline uint64_t conn_rto_base_ns(const struct tcp_conn *c)
{
	return c->rto_us * NS_PER_US;
}

static inline uint64_t conn_srtt_ns(const struct tcp_conn *c)
{
	return c->srtt_8us * (NS_PER_US / 8);
}

/* The earliest deadline that the connection's timer stands for. */
static inline uint64_t conn_deadline(const struct tcp_conn *c)
{
	uint64_t first = c->life_at_ns;

	if (c->rtx_kind)
		first = MIN(first, c->rtx_at_ns);
	if (c->flags & CONN_PACE_WAITS)
		first = MIN(first, c->pace_at_ns);
	return first;
}

/* Notes since when the peer owes an ACK; 0: it owes none. */
static inline void conn_late_since(struct tcp_conn *c, uint64_t ns)
{
	c->rtx_since_ns = ns;
	c->rec.is_late = ns != 0;
}

/* --- timer.c --- */

void conn_timer_sync(struct tcp_conn *c);
void conn_rtx_update(struct tcp_conn *c, bool restart);
void conn_rtx_sent(struct tcp_conn *c);
void conn_rtx_shorten(struct tcp_conn *c);
void conn_timers_resume(struct tcp_conn *c, uint64_t rtx_left_ns,
			uint64_t life_left_ns);
void rtx_arm_reo(struct tcp_conn *c, uint64_t at_ns);
void conn_life_update(struct tcp_conn *c);
uint64_t conn_rto_ns(const struct tcp_conn *c);

/* --- delack.c --- */

uint32_t delack_slots(uint32_t n_conns);
void delack_begin(struct tcp_conn *c);
void delack_strike(struct tcp_conn *c);
struct tcp_conn *delack_expired(struct tcp_stack *s);
uint64_t delack_next_ns(const struct tcp_stack *s);

static inline void delack_end(struct tcp_conn *c)
{
	if (c->delack_slot)
		delack_strike(c);
}

/* --- pace.c --- */

uint64_t pace_rate(const struct tcp_conn *c);
bool pace_may_send(struct tcp_conn *c);
uint32_t pace_frame(const struct tcp_conn *c, uint32_t n, uint32_t room);
void pace_sent(struct tcp_conn *c, uint32_t bytes);
void pace_timeout(struct tcp_conn *c);

/* --- chrono.c --- */

void chrono_change(struct tcp_conn *c, enum chrono what);
void chrono_acked(struct tcp_conn *c);

static inline void chrono_set(struct tcp_conn *c, enum chrono what)
{
	if (c->rec.chrono != what)
		chrono_change(c, what);
}
