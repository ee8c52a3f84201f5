/* SPDX-License-Identifier: MIT */
/*
 * tcp/open.c - passive opens, and segments for nobody
 *
 *     a SYN -> a struct tcp_reqsk, or a cookie -> the ACK of our SYN-ACK
 *           -> conn_from_reqsk(): a connection in SYN_RCVD -> rx.c
 *
 * A struct tcp_reqsk handles what RFC 9293 section 3.10.7.4 says of SYN-RECEIVED until
 * that ACK arrives (reqsk.c).
 */
#include "tcp/ctl.h"
#include "tcp/opt.h"
#include "tcp/rcv.h"
#include "tcp/stack.h"

/* Sets the first window for a buffer of @set bytes; @set 0: the configuration's
 * buffer. */
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

/* Several listeners share an address and port: a hash of the peer picks one.  So a SYN
 * that is sent again, or the ACK of a cookie, reaches the same listener. */
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

/* The listener for a segment.  One that is bound to the address precedes one for all of
 * them. */
struct tcp_listener *listener_find(struct tcp_stack *s, const struct arrival *a)
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

static void arrival_flow(const struct arrival *a, struct flow *f)
{
	*f = (struct flow){ .raddr = *a->raddr,
			    .lport = a->seg.dport,
			    .rport = a->seg.sport,
			    .laddr = a->laddr,
			    .kind = FLOW_SYN_RCVD };
}

/* The options that both the SYN and we offer. */
static uint8_t syn_offers(const struct tcp_stack *s, const struct tcp_seg *seg)
{
	uint32_t offers =
	    (seg->has_ts ? TCP_OFFER_TS : 0u) |
	    (seg->is_sack_ok ? TCP_OFFER_SACK : 0u) |
	    (seg->wscale != TCP_NO_WSCALE ? TCP_OFFER_WSCALE : 0u);

	return (uint8_t)((s->cfg.offers & offers) | ecn_offer(s, seg));
}

/* 3.10.7.2, "third": a SYN for a listener.  Without a free struct tcp_reqsk we answer
 * with a cookie. */
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
		/* A cookie does not remember the buffer's size.  So while cookies are
		 * in use, all of them promise what the first one did. */
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

/* When we sent the only SYN-ACK, for the first sample of the RTT (RFC 6298 (2.2)).  A
 * struct tcp_reqsk knows it to the millisecond, a cookie not at all. */
static uint64_t reqsk_sent_ns(const struct tcp_stack *s,
			      const struct tcp_reqsk *req)
{
	uint32_t initial_ms = (uint32_t)(RTO_INITIAL_NS / NS_PER_MS);
	uint32_t ms = now_ms(s) - (req->expires_ms - initial_ms);

	return s->now_ns - (ms ? ms : 1) * NS_PER_MS;
}

/* Makes the connection in SYN_RCVD.  It then judges the segment that opens it, an ACK
 * of our SYN-ACK. */
void conn_from_reqsk(struct tcp_stack *s, const struct tcp_reqsk *was,
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
	/* reqsk_check() has judged the segment before, so it opens. */
	assert(c->state >= TCP_ESTABLISHED);
}

/* Whether there is room for one more connection. */
bool has_conn_room(struct tcp_stack *s, const struct tcp_listener *l)
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

/* An ACK for a listener answers a cookie, or nothing. */
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
		if (!s->cfg.is_guest)
			tx_reset_for(s, a);
	} else if (a->seg.flags & TCP_ACK) {
		/* Second: the ACK bit. */
		listen_ack_rx(s, l, a);
	} else if (a->seg.flags & TCP_SYN && a->seg.flags & TCP_FIN) {
		/* SYN and FIN contradict each other. */
		drop(s, DROP_FLAGS_WRONG);
	} else if (a->seg.flags & TCP_SYN) {
		/* Third: the SYN bit. */
		syn_rx(s, l, a, iss_min, has_min);
	} else {
		/* Fourth. */
		drop(s, DROP_LISTEN_OTHER);
	}
}
