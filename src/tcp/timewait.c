/* SPDX-License-Identifier: MIT */
/*
 * tcp/timewait.c - TIME-WAIT: the addresses and ports of a connection that is over
 *
 *     conn_enter_time_wait() -> struct tcp_tw -> 60 s later: nothing
 *     demux.c -> tw_rx() -> an ACK, or a new connection (RFC 6191)
 *
 * The program may still read what the connection has received: that is kept in the closed
 * struct tcp_conn.
 */
#include "tcp/snd.h"
#include "tcp/rcv.h"
#include "tcp/stack.h"

static void tw_ack_send(struct tcp_stack *s, const struct tcp_tw *tw)
{
	flow_ack_send(s, &tw->flow, tw->snd_nxt, tw->rcv_nxt, 0,
		      ts_clock(s, tw->is_ts_us) + tw->ts_off, tw->ts_recent,
		      tw->has_ts);
}

/* A struct tcp_tw takes the place of the connection. */
void conn_enter_time_wait(struct tcp_conn *c)
{
	struct tcp_stack *s = c->stack;
	bool is_ack_pending = c->tx_pending & TX_ACK;

	tcp_set_state(c, TCP_TIME_WAIT);
	struct tcp_tw *tw = tw_new(s);
	tw->flow = c->flow;
	tw->flow.kind = FLOW_TIME_WAIT;
	tw->snd_nxt = c->snd_nxt;
	tw->rcv_nxt = c->rcv_nxt;
	tw->ts_recent = c->flags & CONN_TS ? c->ts_recent : 0;
	tw->has_ts = c->flags & CONN_TS;
	tw->ts_off = c->ts_off;
	tw->is_ts_us = c->is_ts_us;
	tcp_set_state(c, TCP_CLOSED);
	flow_add(s, &tw->flow);
	if (is_ack_pending)
		tw_ack_send(s, tw);
}

/* 3.10.7.4 for TIME-WAIT; RFC 6191 for a SYN. */
void tw_rx(struct tcp_stack *s, struct tcp_tw *tw, struct arrival *a)
{
	const struct tcp_seg *seg = &a->seg;
	bool has_ts = tw->has_ts && seg->has_ts;
	int32_t ts_age = (int32_t)(seg->tsval - tw->ts_recent);

	drop(s, DROP_TIME_WAIT);
	if (seg->flags & TCP_RST) {
		/* RFC 1337 section 3, fix F1.  If the configuration does not ask for
		 * it, a stranger's reset must hit one exact number. */
		if (!s->cfg.is_time_wait_safe && seq_eq(seg->seq, tw->rcv_nxt))
			tw_free(s, tw);
		return;
	}
	bool is_newer = seq_lt(tw->rcv_nxt, seg->seq);
	if (has_ts)
		is_newer = ts_age > 0 || (!ts_age && is_newer);
	bool is_open =
	    (seg->flags & (TCP_SYN | TCP_ACK)) == TCP_SYN && is_newer;
	/* A SYN for which there is no listener does not end TIME-WAIT. */
	if (is_open && listener_find(s, a)) {
		/* Our new ISN lies beyond the old connection's numbers, too. */
		seq32 iss_min = seq_add(tw->snd_nxt, 65537);

		tw_free(s, tw);
		open_rx(s, a, iss_min, true);
		return;
	}
	if (seg->flags & TCP_FIN)
		tw_rearm(s, tw);
	if (!seg_span(seg) && seq_eq(seg->seq, tw->rcv_nxt) &&
	    !(has_ts && ts_age < 0)) {
		if (has_ts)
			tw->ts_recent = seg->tsval;
		return;
	}
	/* A peer that opens a connection answers our ACK with a reset, which ends
	 * TIME-WAIT. */
	if (is_open || may_answer(s, seg, &tw->challenge_ms))
		tw_ack_send(s, tw);
}
