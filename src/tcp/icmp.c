/* SPDX-License-Identifier: MIT */
/*
 * tcp/icmp.c - what an ICMP error does to the connection that it quotes
 *
 *     tcp_rx() -> icmp_parse() -> the quoted flow -> an error, or pmtu.c
 *
 * Anybody can send an ICMP error.  So we believe only errors that quote a sequence
 * number in flight, which somebody who does not see the segments has to guess.  An
 * error ends a connection that is opening.  It never ends an established one: there we
 * remember the error, and report it if the connection times out later.  No error lowers
 * the MTU of a path whose segments get through.
 *
 * Spec: RFC 1122 section 4.2.3.9, RFC 5461, RFC 5927 sections 4.1 and 7.2, RFC 6069
 */
#include "ip/icmp.h"
#include "tcp/ctl.h"
#include "tcp/pmtu.h"
#include "tcp/stack.h"
#include "tcp/timer.h"

/* The error must quote the SYN-ACK's number.  No program knows of the connection yet,
 * so there is nobody to tell. */
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

/* Whether the quoted number is in flight.  A packet that was too big had bytes, so its
 * number is below snd_nxt. */
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
