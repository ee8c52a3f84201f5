/* SPDX-License-Identifier: MIT */
/*
 * tcp/ecn.c - explicit congestion notification
 *
 *     SYN: ECE, CWR -> SYN-ACK: ECE -> new data: ECT(0), or CE from a router
 *     CE -> ACKs: ECE, until CWR    -> the window falls once (recovery.c), CWR
 *
 * We agree when the peer asks, unless the configuration says TCP_ECN_OFF.  We ask when
 * it says TCP_ECN_ASK.  A middlebox may drop packets because of ECN.  So we send a SYN
 * without ECN after the first one was lost, and data without ECT after several losses
 * in which no marked packet arrived.
 *
 * Spec: RFC 3168 section 6.1
 */
#include "tcp/rcv.h"
#include "tcp/stack.h"

#define MARKED_LOST_MAX 3 /* time-outs without an ACK of marked data */
#define ASKS (TCP_ECE | TCP_CWR)

/* What a SYN asks for: TCP_OFFER_ECN, or 0. */
uint8_t ecn_offer(const struct tcp_stack *s, const struct tcp_seg *seg)
{
	return s->cfg.ecn != TCP_ECN_OFF && (seg->flags & ASKS) == ASKS
		   ? TCP_OFFER_ECN
		   : 0;
}

/* The flags of a SYN or a SYN-ACK. */
uint8_t ecn_syn_flags(const struct tcp_conn *c)
{
	if (c->state == TCP_SYN_RCVD)
		return c->flags & CONN_ECN ? TCP_ECE : 0;
	return c->stack->cfg.ecn == TCP_ECN_ASK && !(c->flags & CONN_SYN_RETX)
		   ? ASKS
		   : 0;
}

/* Handles the peer's SYN-ACK, or its SYN.  Section 6.1.1.1: a SYN-ACK that reflects
 * both flags is no agreement. */
void ecn_syn_rx(struct tcp_conn *c, const struct tcp_seg *seg)
{
	bool is_agreed = seg->flags & TCP_ACK
			     ? c->stack->cfg.ecn == TCP_ECN_ASK &&
				   (seg->flags & ASKS) == TCP_ECE
			     : ecn_offer(c->stack, seg);

	if (is_agreed)
		c->flags |= CONN_ECN;
}

/* Section 6.1.3: CWR ends the echo, and a new mark begins it again. */
void ecn_rx(struct tcp_conn *c, const struct arrival *a)
{
	if (!(c->flags & CONN_ECN))
		return;
	if (a->seg.flags & TCP_CWR)
		c->flags &= ~(uint32_t)CONN_ECN_ECHO;
	if (a->ecn != IP_CE || !a->seg.len)
		return;
	if (!(c->flags & CONN_ECN_ECHO) && c->n_quick < 2)
		c->n_quick = 2;
	c->flags |= CONN_ECN_ECHO;
}

/* Sections 6.1.2 and 6.1.5: sets CWR on a segment that is about to leave.  Return: its
 * mark */
uint8_t ecn_tx(struct tcp_conn *c, const struct range *r, uint32_t bytes,
	       struct tcp_seg *seg)
{
	if (!(c->flags & CONN_ECN) || r->flags & RANGE_RETX || !bytes)
		return 0;
	if (c->flags & CONN_CWR_PENDING) {
		seg->flags |= TCP_CWR;
		c->flags &= ~(uint32_t)CONN_CWR_PENDING;
	}
	return c->flags & CONN_ECT_OFF ? 0 : IP_ECT_0;
}

/* On a time-out: has anything arrived since we sent the last marked packet? */
void ecn_timeout(struct tcp_conn *c)
{
	const struct range *r = c->sent.head;

	if (!(c->flags & CONN_ECN) || r->flags & RANGE_RETX)
		return;
	if (++c->rec.n_marked_lost >= MARKED_LOST_MAX)
		c->flags |= CONN_ECT_OFF;
}
