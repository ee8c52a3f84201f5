/* SPDX-License-Identifier: MIT */
/*
 * tcp/connect.c - active opens: the choice of a port, and the SYN
 *
 *     tcp_connect() -> port_choose() -> a connection in SYN-SENT with its SYN pending
 *
 * The search for a port begins at a number that depends on the peer and a secret (RFC
 * 6056 section 3.3.3).  It tries every second port first, and so leaves the others to
 * programs that ask for a certain port.  Addresses and ports of a connection in
 * TIME-WAIT may be used again when timestamps keep the old and the new connection
 * apart.  As in Linux, that is at once if the program names the port, and otherwise
 * after a second, if the configuration allows it.
 *
 * Spec: RFC 9293 section 3.10.1, RFC 6056, RFC 6191
 */
#include "tcp/calls.h"
#include "tcp/ctl.h"
#include "tcp/snd.h"
#include "tcp/stack.h"
#include "tcp/timer.h"

#define REUSE_AFTER_MS 1000
#define ISS_BEHIND 65537 /* as for a SYN in TIME-WAIT: see tw_rx() */

static bool is_loopback(const struct tcp_stack *s, const struct ip_addr *a)
{
	static const struct ip_addr one = { { [15] = 1 } };

	return stack_addr(s, a) >= 0 || ip_addr_eq(a, &one) ||
	       (ip_addr_is_v4(a) && a->b[12] == 127);
}

/* A late segment of the old connection has an older timestamp than the new one's.
 * Without timestamps nothing tells them apart as surely. */
static bool may_reuse(const struct tcp_stack *s, const struct tcp_tw *tw,
		      bool is_chosen)
{
	uint32_t since_ms =
	    tw->expires_ms - (uint32_t)(TIME_WAIT_NS / NS_PER_MS);

	if (!tw->has_ts || !(s->cfg.offers & TCP_OFFER_TS))
		return false;
	if (!is_chosen)
		return true;
	if (s->cfg.reuse == TCP_REUSE_NEVER ||
	    (s->cfg.reuse == TCP_REUSE_LOCAL &&
	     !is_loopback(s, &tw->flow.raddr)))
		return false;
	return now_ms(s) - since_ms > REUSE_AFTER_MS;
}

/* Whether the 4-tuple is free or in TIME-WAIT.  *@old is then the one in TIME-WAIT. */
static bool is_free(struct tcp_stack *s, const struct flow *f, bool is_chosen,
		    struct tcp_tw **old)
{
	struct flow *is = flow_find(s, f->laddr, f->lport, &f->raddr, f->rport);

	*old = NULL;
	if (is && is->kind == FLOW_SYN_RCVD &&
	    reqsk_is_void(s, container_of(is, struct tcp_reqsk, flow))) {
		reqsk_free(s, container_of(is, struct tcp_reqsk, flow));
		is = NULL;
	}
	if (!is)
		return true;
	if (is->kind != FLOW_TIME_WAIT)
		return false;
	*old = container_of(is, struct tcp_tw, flow);
	return may_reuse(s, *old, is_chosen);
}

static bool is_kept(const struct tcp_stack *s, uint16_t port)
{
	return s->cfg.ports_kept &&
	       s->cfg.ports_kept[port / 8] & 1u << port % 8;
}

/* As in Linux, a limit that the program asks for has effect only within the configured
 * ports. */
static struct tcp_ports ports_within(const struct tcp_stack *s,
				     struct tcp_ports wish)
{
	struct tcp_ports r = s->cfg.ports;

	if (!r.first)
		r = (struct tcp_ports){ PORT_FIRST, PORT_LAST };
	uint16_t first = r.first, last = r.last;
	if (first <= wish.first && wish.first <= last)
		r.first = wish.first;
	if (first <= wish.last && wish.last <= last)
		r.last = wish.last;
	return r;
}

/* The first free port of one half, the odd or the even offsets; 0: none. */
static uint16_t port_in_half(struct tcp_stack *s, struct flow *f,
			     struct tcp_ports within, uint32_t odd,
			     struct tcp_tw **old)
{
	uint32_t n = (within.last - within.first + 2u - odd) / 2;

	f->lport = 0;
	uint32_t from = flow_ts_off(s, f) + s->port_hint;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t off = (from / 2 + i) % n * 2 + odd;

		f->lport = (uint16_t)(within.first + off);
		if (is_kept(s, f->lport) || !is_free(s, f, true, old) ||
		    port_is_listened(s, f->laddr, f->lport))
			continue;
		s->port_hint += 2 * (i + 1);
		return f->lport;
	}
	return 0;
}

/* A half without a free port is skipped until as many ports have been chosen as it has.
 * Otherwise each choice would search it again. */
static int port_choose(struct tcp_stack *s, struct flow *f,
		       struct tcp_ports within, struct tcp_tw **old)
{
	uint32_t n = within.last - within.first + 1u;
	uint32_t first = n > 1 && s->port_skips;

	if (s->port_skips)
		s->port_skips--;
	for (uint32_t i = 0; i < MIN(n, 2u); i++) {
		uint32_t odd = (first + i) % 2;

		if (port_in_half(s, f, within, odd, old))
			return 0;
		if (!odd)
			s->port_skips = n / 2;
	}
	return -EADDRNOTAVAIL;
}

/* Makes the connection, and frees the one in TIME-WAIT whose place it takes. */
static struct tcp_conn *conn_open(struct tcp_stack *s, const struct flow *f,
				  struct tcp_tw *old)
{
	struct tcp_tw was = { 0 };

	if (!s->pool_conns.n_free)
		return NULL;
	if (old) {
		was = *old;
		tw_free(s, old);
	}
	struct tcp_conn *c = conn_new(s, f);
	c->iss = (seq32){ flow_iss(s, &c->flow) };
	if (old) {
		c->iss = seq_max(c->iss, seq_add(was.snd_nxt, ISS_BEHIND));
		c->ts_recent = was.ts_recent;
		/* The peer refuses timestamps that step back. */
		if (!was.is_ts_us)
			c->ts_off = was.ts_off;
	}
	return c;
}

int tcp_connect_within(struct tcp_stack *s, const struct ip_addr *laddr,
		       uint16_t lport, struct tcp_ports within,
		       const struct ip_addr *raddr, uint16_t rport,
		       uint64_t now_ns, struct tcp_conn **out)
{
	struct flow f = { .raddr = *raddr,
			  .lport = lport,
			  .rport = rport,
			  .kind = FLOW_CONN };
	int index = stack_addr(s, laddr), err;
	struct tcp_tw *old = NULL;

	stack_at(s, now_ns);
	if (index < 0)
		return index;
	if (ip_addr_is_v4(laddr) != ip_addr_is_v4(raddr))
		return -EAFNOSUPPORT;
	if (!ip_addr_is_host(raddr) ||
	    (s->cfg.hops && !hop_route(s->cfg.hops, raddr)))
		return -ENETUNREACH;
	f.laddr = (uint8_t)index;
	if (within.first && within.last && within.first > within.last)
		return -EINVAL;
	if (lport)
		err = is_free(s, &f, false, &old) ? 0 : -EADDRINUSE;
	else
		err = port_choose(s, &f, ports_within(s, within), &old);
	if (err)
		return err;
	struct tcp_conn *c = conn_open(s, &f, old);
	if (!c)
		return -ENOBUFS;
	c->snd_una = c->iss;
	c->snd_nxt = c->snd_end = seq_add(c->iss, 1);
	conn_late_since(c, s->now_ns);
	tcp_set_state(c, TCP_SYN_SENT);
	conn_set_pending(c, TX_SYN);
	conn_rtx_update(c, true);
	*out = c;
	return 0;
}

int tcp_connect(struct tcp_stack *s, const struct ip_addr *laddr,
		uint16_t lport, const struct ip_addr *raddr, uint16_t rport,
		uint64_t now_ns, struct tcp_conn **out)
{
	return tcp_connect_within(s, laddr, lport, (struct tcp_ports){ 0 },
				  raddr, rport, now_ns, out);
}
