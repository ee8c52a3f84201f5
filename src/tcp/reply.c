/* SPDX-License-Identifier: MIT */
/*
 * tcp/reply.c - segments that belong to no whole connection: resets, answers of minis
 *
 * They wait in a ring of the stack's, of a few hundred, and go before all others: tx.c.
 */
#include "tcp/conn.h"

void tx_reply(struct tcp_stack *s, const struct tcp_reply *r)
{
	if (s->reply_head - s->reply_tail == TX_REPLIES) {
		drop(s, DROP_REPLY_LIMIT);
		return;
	}
	s->replies[s->reply_head++ % TX_REPLIES] = *r;
}

/* RFC 9293 section 3.10.7.1: the reset that the sender of a segment believes. */
void tx_reset_for(struct tcp_stack *s, const struct arrival *a)
{
	struct tcp_reply r = { .raddr = *a->raddr,
			       .laddr = a->laddr,
			       .seg = { .sport = a->seg.dport,
					.dport = a->seg.sport,
					.flags = TCP_RST,
					.wscale = TCP_NO_WSCALE } };

	if (a->seg.flags & TCP_RST)
		return;
	if (a->seg.flags & TCP_ACK) {
		r.seg.seq = a->seg.ack;
	} else {
		r.seg.flags |= TCP_ACK;
		r.seg.ack = seq_add(a->seg.seq, seg_span(&a->seg));
	}
	tx_reply(s, &r);
}

void tx_reset_conn(struct tcp_conn *c)
{
	struct tcp_reply r = { .raddr = c->flow.raddr,
			       .laddr = c->flow.laddr,
			       .seg = { .sport = c->flow.lport,
					.dport = c->flow.rport,
					.seq = c->snd_nxt,
					.ack = c->rcv_nxt,
					.flags = TCP_RST | TCP_ACK,
					.has_ts = c->flags & CONN_TS,
					.tsval = conn_tsval(c),
					.tsecr = c->ts_recent,
					.wscale = TCP_NO_WSCALE } };

	tx_reply(c->stack, &r);
}
