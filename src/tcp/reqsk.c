/* SPDX-License-Identifier: MIT */
/*
 * tcp/reqsk.c - a half-open connection: segments between the SYN and the ACK of our SYN-ACK
 *
 *     demux.c -> reqsk_rx() -> the SYN-ACK again, a challenge ACK, a reset
 *                           -> conn_from_reqsk(): the ACK makes it a connection
 *
 * A struct tcp_reqsk answers what RFC 9293 section 3.10.7.4 asks of SYN-RECEIVED until
 * the ACK arrives.  The connection that takes its place judges the ACK, and all that
 * follows.
 */
#include "tcp/rcv.h"
#include "tcp/stack.h"

/* The ACK has arrived: a connection takes the place of @req. */
static void reqsk_establish(struct tcp_stack *s, struct tcp_reqsk *req,
			    struct arrival *a)
{
	struct tcp_reqsk was = *req;

	if (!has_conn_room(s, &s->listeners[req->listener]))
		return;
	reqsk_free(s, req);
	conn_from_reqsk(s, &was, a);
}

static void reqsk_answer(struct tcp_stack *s, struct tcp_reqsk *req,
			 const struct tcp_seg *seg)
{
	/* RFC 7323 section 2.2: only the window of a SYN is not scaled. */
	uint8_t scale = req->offers & TCP_OFFER_WSCALE ? req->rcv_wscale : 0;

	if (may_answer(s, seg, &req->challenge_ms))
		flow_ack_send(s, &req->flow, seq_add(req->iss, 1),
			      seq_add(req->irs, 1),
			      (uint16_t)(req->wnd >> scale),
			      ts_clock(s, false) + flow_ts_off(s, &req->flow),
			      req->ts_recent, req->offers & TCP_OFFER_TS);
}

/* Whether its listener is closed, so that no program would accept it. */
bool reqsk_is_void(struct tcp_stack *s, const struct tcp_reqsk *req)
{
	return !s->listeners[req->listener].port;
}

/* 3.10.7.4 for SYN-RECEIVED, up to the ACK that makes it ESTABLISHED. */
static void reqsk_check(struct tcp_stack *s, struct tcp_reqsk *req,
			struct arrival *a)
{
	const struct tcp_seg *seg = &a->seg;
	seq32 rcv_nxt = seq_add(req->irs, 1);
	seq32 edge = seq_add(rcv_nxt, req->wnd);
	bool is_old = req->offers & TCP_OFFER_TS && seg->has_ts &&
		      (int32_t)(seg->tsval - req->ts_recent) < 0;

	/* The SYN again: our SYN-ACK was lost. */
	if (seg->flags & TCP_SYN && !(seg->flags & (TCP_ACK | TCP_RST)) &&
	    seq_eq(seg->seq, req->irs) && !is_old) {
		drop(s, DROP_DUPLICATE);
		/* The peer may ask without ECN this time: RFC 3168 section 6.1.1.1. */
		if (!ecn_offer(s, seg))
			req->offers &= (uint8_t)~TCP_OFFER_ECN;
		if (may_answer(s, seg, &req->challenge_ms))
			reqsk_send(s, req);
		return;
	}
	/* First: the sequence number. */
	uint32_t span = seg_span(seg);
	bool is_behind = span ? seq_le(seq_add(seg->seq, span), rcv_nxt)
			      : seq_lt(seg->seq, rcv_nxt);
	if (is_behind || seq_lt(edge, seg->seq) ||
	    (is_old && !(seg->flags & TCP_RST))) {
		drop(s, is_old ? DROP_PAWS : DROP_WINDOW);
		if (!(seg->flags & TCP_RST))
			reqsk_answer(s, req, seg);
		return;
	}
	/* Second: the RST bit. */
	if (seg->flags & TCP_RST) {
		if (seq_eq(seg->seq, rcv_nxt)) {
			reqsk_free(s, req);
		} else {
			drop(s, DROP_RESET_SEQ);
			reqsk_answer(s, req, seg);
		}
		return;
	}
	/* Fourth: the SYN bit. */
	if (seg->flags & TCP_SYN) {
		drop(s, DROP_SYN_IN_WINDOW);
		reqsk_answer(s, req, seg);
		return;
	}
	/* Fifth: the ACK field. */
	if (!(seg->flags & TCP_ACK)) {
		drop(s, DROP_NO_ACK_FLAG);
		return;
	}
	if (!seq_eq(seg->ack, seq_add(req->iss, 1))) {
		drop(s, DROP_SYN_RCVD_ACK);
		tx_reset_for(s, a);
		return;
	}
	/* TCP_DEFER_ACCEPT: wait for bytes, or for a later ACK of the SYN-ACK. */
	if (!seg->len && !(seg->flags & TCP_FIN) &&
	    req->n_retries < s->listeners[req->listener].n_defer) {
		req->is_acked = true;
		drop(s, DROP_DEFERRED);
		return;
	}
	reqsk_establish(s, req, a);
}

void reqsk_rx(struct tcp_stack *s, struct tcp_reqsk *req, struct arrival *a)
{
	if (!reqsk_is_void(s, req)) {
		reqsk_check(s, req, a);
		return;
	}
	reqsk_free(s, req);
	open_rx(s, a, (seq32){ 0 }, false);
}

/* Whether to send the SYN-ACK again.  While we wait for bytes (TCP_DEFER_ACCEPT), only the
 * last retry sends it. */
bool reqsk_wants_synack(const struct tcp_stack *s, const struct tcp_reqsk *req)
{
	return !req->is_acked ||
	       req->n_retries >= s->listeners[req->listener].n_defer;
}
