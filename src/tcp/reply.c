/* SPDX-License-Identifier: MIT */
/*
 * tcp/reply.c - segments that belong to no whole connection: resets, ACKs, SYN-ACKs
 *
 * They wait in a ring of the stack, and tx.c sends them before all others.  Those
 * beyond a few hundred are dropped.
 */
#include "tcp/rcv.h"
#include "tcp/snd.h"
#include "tcp/stack.h"

void tx_reply(struct tcp_stack *s, const struct tcp_reply *r)
{
	if (s->reply_head - s->reply_tail == TX_REPLIES) {
		drop(s, DROP_REPLY_LIMIT);
		return;
	}
	s->replies[s->reply_head++ % TX_REPLIES] = *r;
}

/* RFC 9293 section 3.10.7.1: a reset that the sender of the segment accepts. */
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

/* Sends an ACK for a half-open connection, or for one in TIME-WAIT. */
void flow_ack_send(struct tcp_stack *s, const struct flow *f, seq32 seq,
		   seq32 ack, uint16_t wnd, uint32_t tsval, uint32_t ts_recent,
		   bool has_ts)
{
	struct tcp_reply r = { .raddr = f->raddr,
			       .laddr = f->laddr,
			       .seg = { .sport = f->lport,
					.dport = f->rport,
					.seq = seq,
					.ack = ack,
					.flags = TCP_ACK,
					.wnd = wnd,
					.wscale = TCP_NO_WSCALE,
					.has_ts = has_ts,
					.tsval = tsval,
					.tsecr = ts_recent } };

	tx_reply(s, &r);
}

/* Whether a wrong segment gets an answer.  One with text or a FIN always does, because it
 * costs its sender at least as much as our answer costs us.  Answers to others are limited
 * like the challenge ACKs of a connection. */
bool may_answer(struct tcp_stack *s, const struct tcp_seg *seg,
		uint32_t *last_ms)
{
	bool is_costly = (seg->len || seg->flags & TCP_FIN) &&
			 !(seg->flags & (TCP_SYN | TCP_RST));
	int32_t age_ms = (int32_t)(now_ms(s) - *last_ms); /* may be -1 */

	if (is_costly)
		return true;
	if (*last_ms && age_ms < (int32_t)(CHALLENGE_NS / NS_PER_MS))
		return false;
	*last_ms = now_ms(s) | 1;
	return true;
}
