/* SPDX-License-Identifier: MIT */
/*
 * tcp/open.c - passive opens, TIME-WAIT, and segments for nobody
 *
 *     SYN -> struct tcp_reqsk, or a cookie -> (ACK of our SYN-ACK) -> a connection in SYN_RCVD -> rx.c
 *     a connection that ends in TIME-WAIT -> struct tcp_tw -> (60 s) -> nothing
 *
 * A mini answers what RFC 9293 section 3.10.7.4 says for its state; all that needs
 * more becomes a connection first.
 */
#include "tcp/conn.h"

/* What a buffer of @set bytes, or the configuration's, is worth to @m. */
static void reqsk_set_window(const struct tcp_stack *s, struct tcp_reqsk *req,
			     uint32_t set)
{
	const struct tcp_listener *l = &s->listeners[req->listener];
	uint32_t mss = stack_mss(s, &req->flow.raddr, l->maxseg);

	if (req->offers & TCP_OFFER_TS && mss > TS_BYTES)
		mss -= TS_BYTES;
	req->wnd = (uint16_t)rcv_first(s, set, mss);
	req->rcv_wscale = rcv_scale(s, set) & 15;
}

/* Of the listeners to one address and port the one that a hash of the peer names, so that
 * a SYN again, or the ACK of a cookie, comes to the same. */
static struct tcp_listener *listener_share(struct tcp_stack *s,
					   const struct arrival *a,
					   const struct tcp_listener *first,
					   uint32_t n)
{
	struct flow f = { .raddr = *a->raddr,
			  .lport = a->seg.dport,
			  .rport = a->seg.sport,
			  .laddr = a->laddr };
	uint32_t left = flow_share(s, &f, n);
	struct tcp_listener *l = &s->listeners[first - s->listeners];

	for (; left; left--)
		do
			l++;
		while (l->port != first->port || l->laddr != first->laddr);
	return l;
}

/* Who listens where the segment goes: one to the address before one to all of them. */
static struct tcp_listener *listener_find(struct tcp_stack *s,
					  const struct arrival *a)
{
	struct tcp_listener *found[2] = { NULL, NULL };
	uint32_t n[2] = { 0, 0 };

	for (unsigned i = 0; i < TCP_LISTENERS_MAX; i++) {
		struct tcp_listener *l = &s->listeners[i];
		bool is_any = l->laddr < 0;

		if (!l->port || l->port != a->seg.dport ||
		    (!is_any && l->laddr != a->laddr))
			continue;
		if (!n[is_any]++)
			found[is_any] = l;
	}
	bool is_any = !n[0];
	return n[is_any] > 1 ? listener_share(s, a, found[is_any], n[is_any])
			     : found[is_any];
}

bool port_is_listened(struct tcp_stack *s, uint8_t laddr, uint16_t port)
{
	for (unsigned i = 0; i < TCP_LISTENERS_MAX; i++) {
		const struct tcp_listener *l = &s->listeners[i];

		if (port && l->port == port &&
		    (l->laddr < 0 || l->laddr == laddr))
			return true;
	}
	return false;
}

static void synack_send(struct tcp_stack *s, const struct tcp_reqsk *req,
			uint32_t ts)
{
	struct tcp_reply r = {
		.raddr = req->flow.raddr,
		.laddr = req->flow.laddr,
		.seg = { .sport = req->flow.lport,
			 .dport = req->flow.rport,
			 .seq = req->iss,
			 .ack = seq_add(req->irs, 1),
			 .flags =
			     (uint8_t)(TCP_SYN | TCP_ACK |
				       (req->offers & TCP_OFFER_ECN ? TCP_ECE
								    : 0)),
			 .wnd = req->wnd,
			 .mss = stack_mss(s, &req->flow.raddr,
					  s->listeners[req->listener].maxseg),
			 .wscale = req->offers & TCP_OFFER_WSCALE
				       ? req->rcv_wscale
				       : TCP_NO_WSCALE,
			 .is_sack_ok = req->offers & TCP_OFFER_SACK,
			 .has_ts = req->offers & TCP_OFFER_TS,
			 .tsval = ts + flow_ts_off(s, &req->flow),
			 .tsecr = req->ts_recent }
	};

	tx_reply(s, &r);
}

void reqsk_send(struct tcp_stack *s, const struct tcp_reqsk *req)
{
	synack_send(s, req, now_ms(s));
}

/* An ACK that says where the mini is. */
static void flow_ack_send(struct tcp_stack *s, const struct flow *f, seq32 seq,
			  seq32 ack, uint16_t wnd, uint32_t ts_recent,
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
					.tsval = now_ms(s) + flow_ts_off(s, f),
					.tsecr = ts_recent } };

	tx_reply(s, &r);
}

/* What costs its sender as much is answered each time; the rest is limited as the
 * challenge ACKs of a whole connection are. */
static bool may_answer(struct tcp_stack *s, const struct tcp_seg *seg,
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

static void arrival_flow(const struct arrival *a, struct flow *f)
{
	*f = (struct flow){ .raddr = *a->raddr,
			    .lport = a->seg.dport,
			    .rport = a->seg.sport,
			    .laddr = a->laddr,
			    .kind = FLOW_SYN_RCVD };
}

/* What the SYN offers that we do, too. */
static uint8_t syn_offers(const struct tcp_stack *s, const struct tcp_seg *seg)
{
	uint32_t offers =
	    (seg->has_ts ? TCP_OFFER_TS : 0u) |
	    (seg->is_sack_ok ? TCP_OFFER_SACK : 0u) |
	    (seg->wscale != TCP_NO_WSCALE ? TCP_OFFER_WSCALE : 0u);

	return (uint8_t)((s->cfg.offers & offers) | ecn_offer(s, seg));
}

/* 3.10.7.2, "third": a SYN to a listener.  Without room for a mini the answer is a
 * cookie. */
static void syn_rx(struct tcp_stack *s, struct tcp_listener *l,
		   const struct arrival *a, seq32 iss_min, bool has_min)
{
	const struct tcp_seg *seg = &a->seg;

	if (l->n_accept >= l->backlog) {
		drop(s, DROP_BACKLOG);
		return;
	}
	struct tcp_reqsk is = { .irs = seg->seq,
				.mss = seg->mss,
				.wscale = seg->wscale & 15,
				.ts_recent = seg->tsval,
				.offers = syn_offers(s, seg),
				.listener = (uint8_t)(l - s->listeners) };

	arrival_flow(a, &is.flow);
	reqsk_set_window(s, &is, l->rcv_buf);
	if (l->n_reqsks > l->backlog || !s->pool_reqsks.n_free) {
		/* What the first one said of the buffer is said as long as there are
		 * any: a cookie does not remember it. */
		if (!cookie_is_likely(l))
			l->cookie_buf = l->rcv_buf;
		l->cookie_ns = s->now_ns;
		reqsk_set_window(s, &is, l->cookie_buf);
		synack_send(s, &is, cookie_make(s, &is));
		drop(s, DROP_SYN_COOKIE);
		return;
	}
	is.iss = (seq32){ flow_iss(s, &is.flow) };
	if (has_min && seq_lt(is.iss, iss_min))
		is.iss = iss_min;
	struct tcp_reqsk *req = reqsk_new(s, &is);
	flow_add(s, &req->flow);
	reqsk_send(s, req);
}

/* When the only SYN-ACK was sent, for the first sample of the RTT (RFC 6298 (2.2)): as
 * exact as a mini is, which is a millisecond.  A cookie does not know. */
static uint64_t reqsk_sent_ns(const struct tcp_stack *s,
			      const struct tcp_reqsk *req)
{
	uint32_t initial_ms = (uint32_t)(RTO_INITIAL_NS / NS_PER_MS);
	uint32_t ms = now_ms(s) - (req->expires_ms - initial_ms);

	return s->now_ns - (ms ? ms : 1) * NS_PER_MS;
}

/* The connection that a mini becomes, in SYN_RCVD still: the segment, which is the ACK
 * that opens it, is its to judge. */
static void conn_from_reqsk(struct tcp_stack *s, const struct tcp_reqsk *was,
			    struct arrival *a)
{
	struct flow f = was->flow;

	f.kind = FLOW_CONN;
	struct tcp_conn *c = conn_new(s, &f);
	c->iss = was->iss;
	c->irs = was->irs;
	c->snd_una = was->iss;
	c->snd_nxt = c->snd_end = seq_add(was->iss, 1);
	c->rcv_nxt = was->irs;
	conn_rcv_advance(c, 1);
	c->last_ack_sent = c->rcv_nxt;
	c->rcv_adv = seq_add(c->rcv_nxt, was->wnd);
	c->rcv_wscale = was->rcv_wscale;
	c->ts_recent = was->ts_recent;
	c->ts_recent_s = now_sec(s);
	c->listener = &s->listeners[was->listener];
	c->maxseg = c->listener->maxseg;
	if (c->listener->rcv_buf)
		tcp_set_rcv_buf(c, c->listener->rcv_buf);
	c->n_rtx = was->n_retries;
	if (was->n_retries)
		c->flags |= CONN_SYN_RETX;
	else if (was->expires_ms)
		c->last_tx_ns = reqsk_sent_ns(s, was);
	conn_set_options(c, was->offers, was->mss, was->wscale);
	if (was->offers & TCP_OFFER_ECN)
		c->flags |= CONN_ECN;
	tcp_set_state(c, TCP_SYN_RCVD);
	conn_rx(c, a);
	/* It was judged before it became whole: see reqsk_rx(). */
	assert(c->state >= TCP_ESTABLISHED);
}

/* Whether there is room for a connection that opens now. */
static bool has_conn_room(struct tcp_stack *s, const struct tcp_listener *l)
{
	if (l->n_accept >= l->backlog) {
		drop(s, DROP_BACKLOG);
		return false;
	}
	if (!s->pool_conns.n_free) {
		drop(s, DROP_CONN_POOL);
		return false;
	}
	return true;
}

/* An ACK to a listener: of a cookie, or of nothing. */
static void listen_ack_rx(struct tcp_stack *s, struct tcp_listener *l,
			  struct arrival *a)
{
	struct tcp_reqsk is = { .listener = (uint8_t)(l - s->listeners) };

	arrival_flow(a, &is.flow);
	if (!cookie_is_likely(l) || a->seg.flags & TCP_SYN ||
	    !cookie_read(s, &a->seg, &is)) {
		drop(s, DROP_LISTEN_ACK);
		tx_reset_for(s, a);
		return;
	}
	reqsk_set_window(s, &is, l->cookie_buf);
	if (has_conn_room(s, l))
		conn_from_reqsk(s, &is, a);
}

void open_rx(struct tcp_stack *s, struct arrival *a, seq32 iss_min,
	     bool has_min)
{
	struct tcp_listener *l = listener_find(s, a);

	/* 3.10.7.1 (CLOSED), 3.10.7.2 (LISTEN): first, the RST bit. */
	if (a->seg.flags & TCP_RST) {
		drop(s, DROP_RESET_ALONE);
	} else if (!l) {
		drop(s, DROP_NO_CONN);
		tx_reset_for(s, a);
	} else if (a->seg.flags & TCP_ACK) {
		/* Second: the ACK bit. */
		listen_ack_rx(s, l, a);
	} else if (a->seg.flags & TCP_SYN && a->seg.flags & TCP_FIN) {
		/* Bits that contradict each other are no way into anything. */
		drop(s, DROP_FLAGS_WRONG);
	} else if (a->seg.flags & TCP_SYN) {
		/* Third: the SYN bit. */
		syn_rx(s, l, a, iss_min, has_min);
	} else {
		/* Fourth. */
		drop(s, DROP_LISTEN_OTHER);
	}
}

/* --- SYN_RCVD --- */

/* The ACK has come: a connection takes the mini's place. */
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
	/* RFC 7323 section 2.2: the window of a SYN alone is not scaled. */
	uint8_t scale = req->offers & TCP_OFFER_WSCALE ? req->rcv_wscale : 0;

	if (may_answer(s, seg, &req->challenge_ms))
		flow_ack_send(s, &req->flow, seq_add(req->iss, 1),
			      seq_add(req->irs, 1),
			      (uint16_t)(req->wnd >> scale), req->ts_recent,
			      req->offers & TCP_OFFER_TS);
}

/* Nobody listens any more who would accept it. */
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

	/* The SYN again: our answer was lost. */
	if (seg->flags & TCP_SYN && !(seg->flags & (TCP_ACK | TCP_RST)) &&
	    seq_eq(seg->seq, req->irs) && !is_old) {
		drop(s, DROP_DUPLICATE);
		/* It asks for less, perhaps: RFC 3168 section 6.1.1.1. */
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
	/* TCP_DEFER_ACCEPT: bytes will follow, or the SYN-ACK is sent again. */
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

/* Whether the peer is to be sent the SYN-ACK again: not while it is its bytes that
 * are waited for, but for the last time. */
bool reqsk_wants_synack(const struct tcp_stack *s, const struct tcp_reqsk *req)
{
	return !req->is_acked ||
	       req->n_retries >= s->listeners[req->listener].n_defer;
}

/* --- TIME_WAIT --- */

/* The connection is over but for its name; what was received can still be read. */
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
	tcp_set_state(c, TCP_CLOSED);
	flow_add(s, &tw->flow);
	if (is_ack_pending)
		flow_ack_send(s, &tw->flow, tw->snd_nxt, tw->rcv_nxt, 0,
			      tw->ts_recent, tw->has_ts);
}

/* 3.10.7.4 for TIME-WAIT; RFC 6191 for a SYN. */
void tw_rx(struct tcp_stack *s, struct tcp_tw *tw, struct arrival *a)
{
	const struct tcp_seg *seg = &a->seg;
	bool has_ts = tw->has_ts && seg->has_ts;
	int32_t ts_age = (int32_t)(seg->tsval - tw->ts_recent);

	drop(s, DROP_TIME_WAIT);
	if (seg->flags & TCP_RST) {
		/* RFC 1337 section 3, fix F1; where it is not asked for, the reset of a
		 * stranger has to guess one number. */
		if (!s->cfg.is_time_wait_safe && seq_eq(seg->seq, tw->rcv_nxt))
			tw_free(s, tw);
		return;
	}
	bool is_newer = seq_lt(tw->rcv_nxt, seg->seq);
	if (has_ts)
		is_newer = ts_age > 0 || (!ts_age && is_newer);
	bool is_open =
	    (seg->flags & (TCP_SYN | TCP_ACK)) == TCP_SYN && is_newer;
	/* A SYN that opens nothing ends nothing, either. */
	if (is_open && listener_find(s, a)) {
		/* Ours begins behind the old one, too. */
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
	/* Who opens resets what we have, when told of it. */
	if (is_open || may_answer(s, seg, &tw->challenge_ms))
		flow_ack_send(s, &tw->flow, tw->snd_nxt, tw->rcv_nxt, 0,
			      tw->ts_recent, tw->has_ts);
}
