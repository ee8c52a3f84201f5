/* SPDX-License-Identifier: MIT */
/*
 * tcp/ctl.c - the life of connections and listeners (calls.h)
 *
 * A connection's memory is free when the connection is CLOSED and the program has given
 * it back, whichever comes last.  connect.c opens connections.
 *
 * Spec: RFC 9293 section 3.10.1, 3.10.4, 3.10.5
 */
#include "tcp/calls.h"
#include "tcp/ctl.h"
#include "tcp/export.h"
#include "tcp/pmtu.h"
#include "tcp/rcv.h"
#include "tcp/snd.h"
#include "tcp/stack.h"
#include "tcp/timer.h"

#define MSS_DEFAULT_V4 536 /* RFC 9293 section 3.7.1 */
#define MSS_DEFAULT_V6 1220

/* --- connections --- */

struct tcp_conn *conn_new(struct tcp_stack *s, const struct flow *f)
{
	struct tcp_conn *c = pool_get(&s->pool_conns);

	if (!c)
		return NULL;
	memset(c, 0, sizeof(*c));
	c->stack = s;
	c->flow = *f;
	timer_init(&c->timer);
	list_init(&c->flight);
	list_init(&c->lost);
	list_init(&c->again);
	list_init(&c->ooo_link);
	list_init(&c->pending_link);
	list_init(&c->ready_link);
	list_add_tail(&s->conns, &c->all_link);
	c->rtx_at_ns = c->life_at_ns = WHEEL_NEVER;
	c->rto_us = RTO_INITIAL_NS / NS_PER_US;
	c->ts_off = flow_ts_off(s, &c->flow);
	c->last_rx_ms = now_ms(s);
	c->cc = s->cfg.cc;
	pmtu_init(c);
	c->n_quick = QUICK_ACKS;
	c->syn_retries = SYN_RETRIES;
	c->flags = CONN_IN_TABLE | (s->cfg.is_paced ? CONN_PACED : 0u);
	flow_add(s, &c->flow);
	return c;
}

void conn_free(struct tcp_conn *c)
{
	assert(c->state == TCP_CLOSED);
	if (c->flags & CONN_ORPHAN && c->stack->orphans.n)
		c->stack->orphans.n--;
	rcvq_free(c);
	list_del(&c->ready_link);
	list_del(&c->all_link);
	pool_put(&c->stack->pool_conns, c);
}

void conn_news(struct tcp_conn *c)
{
	if (!(c->flags & CONN_ORPHAN) && !c->listener &&
	    list_is_empty(&c->ready_link))
		list_add_tail(&c->stack->ready, &c->ready_link);
}

void conn_fail(struct tcp_conn *c, int err)
{
	c->err = (int16_t)err;
	tcp_set_state(c, TCP_CLOSED);
}

/* Sets what both ends have agreed on: the options @offers of their SYNs. */
void conn_agree(struct tcp_conn *c, uint32_t offers, uint16_t peer_mss,
		uint8_t wscale)
{
	uint16_t ours = stack_mss(c->stack, &c->flow.raddr, c->maxseg);
	uint32_t mss =
	    ip_addr_is_v4(&c->flow.raddr) ? MSS_DEFAULT_V4 : MSS_DEFAULT_V6;

	c->flags |= (offers & TCP_OFFER_TS ? CONN_TS : 0u) |
		    (offers & TCP_OFFER_SACK ? CONN_SACK : 0u) |
		    (offers & TCP_OFFER_WSCALE ? CONN_WSCALE : 0u);
	if (offers & TCP_OFFER_WSCALE)
		c->snd_wscale = wscale & 15;
	else
		c->rcv_wscale = 0;
	if (peer_mss)
		mss = peer_mss;
	mss = MIN(mss, (uint32_t)ours);
	if (offers & TCP_OFFER_TS)
		mss = mss > TS_BYTES ? mss - TS_BYTES : 0;
	c->rcv_mss = MIN(ours, (uint16_t)MSS_DEFAULT_V4);
	c->mss_max = (uint16_t)(mss > MSS_MIN ? mss : MSS_MIN);
	pmtu_sync(c);
	c->cwnd = INITIAL_WINDOW * (uint32_t)c->mss;
	c->ssthresh = SSTHRESH_MAX;
	c->cc->init(c);
}

/* @offers: the options of the peer's SYN */
void conn_set_options(struct tcp_conn *c, uint32_t offers, uint16_t peer_mss,
		      uint8_t wscale)
{
	conn_agree(c, offers & c->stack->cfg.offers, peer_mss, wscale);
}

static void shutdown_now(struct tcp_conn *c)
{
	c->flags |= CONN_SHUT_WR;
	tcp_set_state(c, c->state == TCP_ESTABLISHED ? TCP_FIN_WAIT_1
						     : TCP_LAST_ACK);
	conn_set_pending(c, TX_DATA);
}

/* @seg has acknowledged our SYN. */
void conn_established(struct tcp_conn *c, const struct tcp_seg *seg)
{
	bool is_closed = c->flags & CONN_SHUT_WR;
	uint64_t rtt_ns = 0;

	if (c->flags & CONN_SYN_RETX) {
		/* RFC 6298 (5.7).  RFC 6928 section 2: one SYN that we sent again may
		 * have been slow; two were lost. */
		c->rto_us = RTO_AFTER_SYN_NS / NS_PER_US;
		if (c->n_rtx > 1)
			c->cwnd = c->mss;
		/* A timestamp tells which of our SYNs the peer answers. */
		rtt_ns = timestamp_rtt(c, seg);
	} else if (c->last_tx_ns) {
		rtt_ns = c->stack->now_ns - c->last_tx_ns;
		rtt_ns = rtt_ns ? rtt_ns : 1;
	}
	if (rtt_ns)
		rtt_sample(c, rtt_ns, rtt_ns);
	c->n_rtx = 0;
	conn_late_since(c, 0);
	c->rtx_kind = RTX_NONE;
	c->rtx_at_ns = WHEEL_NEVER;
	c->snd_sml = c->snd_up = c->snd_una;
	c->recover = c->iss;
	c->sack_high = c->snd_una;
	if (c->listener) {
		list_add_tail(&c->listener->accept, &c->ready_link);
		c->listener->n_accept++;
	}
	rcv_tune_init(c);
	c->last_data_rx_ms = now_ms(c->stack);
	c->last_rx_ms = now_ms(c->stack); /* silence counts from here */
	tcp_set_state(c, TCP_ESTABLISHED);
	if (is_closed) {
		shutdown_now(c);
		conn_rtx_update(c, true); /* for a FIN that was sent before */
	}
}

struct tcp_conn *tcp_next_ready(struct tcp_stack *s)
{
	if (list_is_empty(&s->ready))
		return NULL;
	struct list *first = s->ready.next;
	list_del(first);
	return container_of(first, struct tcp_conn, ready_link);
}

/* --- listening --- */

static int listen_as(struct tcp_stack *s, const struct ip_addr *addr,
		     uint16_t port, uint32_t backlog, bool is_shared,
		     struct tcp_listener **out)
{
	struct tcp_listener *free = NULL;
	int laddr = addr ? stack_addr(s, addr) : -1;

	assert(port);
	if (addr && laddr < 0)
		return laddr;
	for (unsigned i = 0; i < TCP_LISTENERS_MAX; i++) {
		struct tcp_listener *l = &s->listeners[i];

		if (!l->port)
			free = free || l->n_reqsks ? free : l;
		else if (l->port == port && l->laddr == laddr &&
			 !(is_shared && l->is_shared))
			return -EADDRINUSE;
	}
	if (!free)
		return -ENFILE;
	*free = (struct tcp_listener){ .stack = s,
				       .backlog = backlog ? backlog : 1,
				       .laddr = (int16_t)laddr,
				       .port = port,
				       .is_shared = is_shared };
	list_init(&free->accept);
	*out = free;
	return 0;
}

int tcp_listen(struct tcp_stack *s, const struct ip_addr *addr, uint16_t port,
	       uint32_t backlog, struct tcp_listener **out)
{
	return listen_as(s, addr, port, backlog, false, out);
}

int tcp_listen_shared(struct tcp_stack *s, const struct ip_addr *addr,
		      uint16_t port, uint32_t backlog,
		      struct tcp_listener **out)
{
	return listen_as(s, addr, port, backlog, true, out);
}

/* This call frees the first WORK_REQSKS half-open connections.  The others end when they
 * expire or when a segment arrives for them. */
void tcp_unlisten(struct tcp_listener *l, uint64_t now_ns)
{
	struct tcp_stack *s = l->stack;
	struct tcp_conn *c;
	uint32_t n = 0;

	while ((c = tcp_accept(l)))
		tcp_abort(c, now_ns);
	l->port = 0;
	for (unsigned i = 0; i <= SYNACK_RETRIES; i++) {
		uint32_t at = s->reqsks[i].head;

		for (; at && l->n_reqsks && n < WORK_REQSKS; n++) {
			struct tcp_reqsk *req =
			    pool_at(&s->pool_reqsks, at - 1);

			at = req->next;
			if (reqsk_is_void(s, req))
				reqsk_free(s, req);
		}
	}
	work_add(&s->work, (int32_t)n);
}

struct tcp_conn *tcp_accept(struct tcp_listener *l)
{
	if (list_is_empty(&l->accept))
		return NULL;
	struct tcp_conn *c =
	    container_of(l->accept.next, struct tcp_conn, ready_link);

	list_del(&c->ready_link);
	l->n_accept--;
	c->listener = NULL;
	conn_news(c);
	return c;
}

/* --- closing --- */

int tcp_shutdown(struct tcp_conn *c, uint64_t now_ns)
{
	stack_at(c->stack, now_ns);
	switch (c->state) {
	case TCP_SYN_RCVD:
		/* As in Linux, the FIN waits until the connection is open. */
		c->flags |= CONN_SHUT_WR;
		return 0;
	case TCP_ESTABLISHED:
	case TCP_CLOSE_WAIT:
		shutdown_now(c);
		return 0;
	case TCP_CLOSED:
	case TCP_SYN_SENT:
		return -ENOTCONN;
	default:
		return 0;
	}
}

static void orphan(struct tcp_conn *c)
{
	c->stack->orphans.n++;
	c->flags |= CONN_ORPHAN;
	list_del(&c->ready_link);
	rcvq_free(c);
}

/* RFC 9293 section 3.10.5.  In SYN_SENT the peer has nothing to reset.  A peer that has
 * acknowledged everything, our FIN included, expects nothing more. */
static bool is_abort_told(const struct tcp_conn *c)
{
	switch (c->state) {
	case TCP_CLOSED:
	case TCP_SYN_SENT:
		return false;
	case TCP_CLOSING:
	case TCP_LAST_ACK:
		return !(c->flags & CONN_FIN_SENT);
	default:
		return true;
	}
}

static void conn_abort(struct tcp_conn *c, bool is_told)
{
	orphan(c);
	if (is_told)
		tx_reset_conn(c);
	if (c->state != TCP_CLOSED)
		tcp_set_state(c, TCP_CLOSED);
	conn_free(c);
}

void tcp_abort(struct tcp_conn *c, uint64_t now_ns)
{
	stack_at(c->stack, now_ns);
	conn_abort(c, is_abort_told(c));
}

void tcp_forget(struct tcp_conn *c, uint64_t now_ns)
{
	stack_at(c->stack, now_ns);
	conn_abort(c, false);
}

struct tcp_orphans tcp_orphans(const struct tcp_stack *s) { return s->orphans; }

#define ORPHANS_MORE 8 /* besides half of the connections */

/* As in Linux: beyond the limit, tcp_close() resets the connection. */
static bool is_orphan_too_many(struct tcp_stack *s)
{
	uint32_t most = s->cfg.n_orphans ? s->cfg.n_orphans
					 : s->pool_conns.n / 2 + ORPHANS_MORE;

	if (s->orphans.n < most)
		return false;
	s->orphans.n_reset++;
	return true;
}

void tcp_close(struct tcp_conn *c, uint64_t now_ns)
{
	bool is_open = c->state != TCP_CLOSED && c->state != TCP_SYN_SENT;

	stack_at(c->stack, now_ns);
	if (!is_open || c->rcvq_bytes || c->flags & CONN_LINGER_0 ||
	    is_orphan_too_many(c->stack)) {
		/* RFC 2525: tell the peer that its bytes were not read. */
		conn_abort(c, is_abort_told(c) || (is_open && c->rcvq_bytes));
		return;
	}
	orphan(c);
	if (!(c->flags & CONN_SHUT_WR)) {
		int err = tcp_shutdown(c, now_ns);
		assert(!err);
	}
	if (c->state == TCP_SYN_RCVD)
		conn_set_pending(c, TX_DATA);
	conn_life_update(c);
}
