/* SPDX-License-Identifier: MIT */
/*
 * tcp/icmp.c - what an ICMP error does to the connection that it is about
 *
 *     tcp_rx() -> icmp_parse() -> the flow that is quoted -> an error, or pmtu.c
 *
 * Anybody can send one, so it counts only when it quotes a number that is under way:
 * who does not see the segments has to guess that.  While a connection opens any error
 * ends it; afterwards none does: it is remembered, and is what the program is told if
 * the connection then times out.  No error shrinks a path whose segments get through.
 *
 * Spec: RFC 1122 section 4.2.3.9, RFC 5461, RFC 5927 sections 4.1 and 7.2, RFC 6069
 */
#include "ip/icmp.h"

#include "tcp/conn.h"

/* The SYN-ACK's number; nobody waits for the answer, so nobody is told. */
static void reqsk_error(struct tcp_stack *s, struct tcp_reqsk *req,
			const struct icmp_error *e)
{
	bool is_gone = e->err == -ENETUNREACH || e->err == -EHOSTUNREACH ||
		       e->err == -EPROTO;

	if (reqsk_is_void(s, req))
		reqsk_free(s, req);
	else if (!seq_eq(e->seq, req->iss))
		drop(s, DROP_ICMP_SEQ);
	else if (e->kind != ICMP_TOO_BIG && is_gone)
		reqsk_free(s, req);
}

/* Of two ends of the window that it must lie in, the right one is excluded where the
 * segment must have had bytes. */
static bool is_under_way(const struct tcp_conn *c, const struct icmp_error *e)
{
	if (e->kind == ICMP_TOO_BIG && !seq_lt(e->seq, c->snd_nxt))
		return false;
	return seq_le(c->snd_una, e->seq) && seq_le(e->seq, c->snd_nxt);
}

static void conn_error(struct tcp_conn *c, const struct icmp_error *e)
{
	if (!is_under_way(c, e)) {
		drop(c->stack, DROP_ICMP_SEQ);
	} else if (e->kind == ICMP_TOO_BIG) {
		pmtu_too_big(c, e->mtu);
	} else if (c->state == TCP_SYN_SENT || c->state == TCP_SYN_RCVD) {
		conn_fail(c, e->err);
		if (c->flags & CONN_ORPHAN)
			conn_free(c);
	} else {
		c->soft_err = (int16_t)e->err;
		if (e->is_no_way && seq_eq(e->seq, c->snd_una))
			conn_rtx_shorten(c);
	}
}

void icmp_rx(struct tcp_stack *s, const struct ip_packet *ip, const uint8_t *l4)
{
	struct icmp_error e;
	int err = icmp_parse(ip, l4, &e);

	if (err) {
		drop(s, drop_of(err));
		return;
	}
	int laddr = stack_addr(s, &e.src);
	struct flow *f =
	    laddr < 0 ? NULL
		      : flow_find(s, (uint8_t)laddr, e.sport, &e.dst, e.dport);
	if (!f || f->kind == FLOW_TIME_WAIT)
		drop(s, DROP_ICMP_NO_CONN);
	else if (f->kind == FLOW_SYN_RCVD)
		reqsk_error(s, container_of(f, struct tcp_reqsk, flow), &e);
	else
		conn_error(container_of(f, struct tcp_conn, flow), &e);
}
