/* SPDX-License-Identifier: MIT */
/*
 * tests/script/engine_sock.c - socket calls over the engine; see engine_sock.h
 *
 * This file has what Linux defines and no RFC does: which call returns which errno in
 * which state.
 */
#include "engine_sock.h"

#include <netinet/in.h>

struct engine_sock *engine_sock(struct engine *e, int fd)
{
	struct engine_sock *s = NULL;

	if (fd >= ENGINE_FD_FIRST && fd < ENGINE_FD_FIRST + ENGINE_FDS)
		s = &e->socks[fd - ENGINE_FD_FIRST];
	return s && s->kind != SOCK_FREE ? s : NULL;
}

static int sock_new(struct engine *e, bool is_v6)
{
	for (int i = 0; i < ENGINE_FDS; i++) {
		if (e->socks[i].kind != SOCK_FREE)
			continue;
		e->socks[i] =
		    (struct engine_sock){ .kind = SOCK_FRESH,
					  .is_v6 = is_v6,
					  .keep_idle_s = 7200,
					  .keep_interval_s = 75,
					  .keep_probes = 9,
					  .fin_timeout_s = e->fin_timeout_s };
		return ENGINE_FD_FIRST + i;
	}
	return -EMFILE;
}

int engine_socket(void *b, int domain, int type, int protocol)
{
	if (domain != AF_INET && domain != AF_INET6)
		return -EAFNOSUPPORT;
	if ((type & 0xf) != SOCK_STREAM)
		return -ESOCKTNOSUPPORT;
	return sock_new(b, domain == AF_INET6);
}

/* Return: 0 or a negative errno; *@any: the address is "any". */
static int read_addr(const struct engine_sock *s, const struct sockaddr *a,
		     socklen_t len, struct ip_addr *ip, uint16_t *port,
		     bool *any)
{
	static const struct ip_addr none;

	if (a->sa_family == AF_INET && len >= sizeof(struct sockaddr_in)) {
		const struct sockaddr_in *in = (const void *)a;

		*ip = ip_addr_v4(ntohl(in->sin_addr.s_addr));
		*port = ntohs(in->sin_port);
		*any = !in->sin_addr.s_addr;
		return s->is_v6 ? -EINVAL : 0;
	}
	if (a->sa_family == AF_INET6 && len >= sizeof(struct sockaddr_in6)) {
		const struct sockaddr_in6 *in = (const void *)a;

		memcpy(ip->b, &in->sin6_addr, 16);
		*port = ntohs(in->sin6_port);
		*any = ip_addr_eq(ip, &none);
		return s->is_v6 ? 0 : -EAFNOSUPPORT;
	}
	return a->sa_family == AF_INET || a->sa_family == AF_INET6
		   ? -EINVAL
		   : -EAFNOSUPPORT;
}

/* Our IPv4 or IPv6 address, as the peer's; an IPv6 socket may have an IPv4 peer. */
static const struct ip_addr *own_addr(const struct engine *e,
				      const struct ip_addr *ip)
{
	return &e->stack->cfg.addrs[!ip_addr_is_v4(ip)];
}

int engine_bind(void *b, int fd, const struct sockaddr *a, socklen_t len)
{
	struct engine_sock *s = engine_sock(b, fd);
	const struct engine *e = b;
	struct ip_addr ip;
	uint16_t port;
	bool any;

	if (!s)
		return -EBADF;
	int err = read_addr(s, a, len, &ip, &port, &any);
	if (err)
		return err;
	if (s->port || s->kind != SOCK_FRESH)
		return -EINVAL;
	if (!any && !ip_addr_eq(&ip, own_addr(e, &ip)))
		return -EADDRNOTAVAIL;
	for (int i = 0; i < ENGINE_FDS; i++) {
		const struct engine_sock *o = &e->socks[i];

		if (o != s && o->kind != SOCK_FREE && o->port == port && port &&
		    (o->kind == SOCK_LISTENER || !o->is_reuse || !s->is_reuse))
			return -EADDRINUSE;
	}
	s->port = port;
	s->is_any = any;
	s->is_mapped = s->is_v6 && !any && ip_addr_is_v4(&ip);
	return 0;
}

int engine_listen(void *b, int fd, int backlog)
{
	struct engine_sock *s = engine_sock(b, fd);
	struct engine *e = b;

	if (!s)
		return -EBADF;
	if (s->kind == SOCK_LISTENER) {
		s->listener->backlog = (uint32_t)backlog + 1;
		return 0;
	}
	if (s->kind != SOCK_FRESH)
		return -EINVAL;
	if (!s->port)
		s->port = (uint16_t)(PORT_FIRST + (uint32_t)fd);
	/* Linux accepts one connection more than the backlog. */
	int err =
	    tcp_listen(e->stack,
		       s->is_v6 && s->is_any
			   ? NULL
			   : &e->stack->cfg.addrs[s->is_v6 && !s->is_mapped],
		       s->port, (uint32_t)backlog + 1, &s->listener);
	if (err)
		return err;
	s->kind = SOCK_LISTENER;
	tcp_set_defer_accept(s->listener, (uint32_t)s->defer_s);
	tcp_set_listen_maxseg(s->listener, (uint16_t)s->maxseg);
	if (s->rcv_buf)
		tcp_set_listen_rcv_buf(s->listener, (uint32_t)s->rcv_buf / 2);
	return 0;
}

int engine_accept(void *b, int fd)
{
	struct engine_sock *s = engine_sock(b, fd);

	if (!s)
		return -EBADF;
	if (s->kind != SOCK_LISTENER)
		return -EINVAL;
	struct tcp_conn *c = tcp_accept(s->listener);
	if (!c)
		return -EAGAIN;
	int new = sock_new(b, s->is_v6);
	if (new < 0)
		return new;
	struct engine_sock *n = engine_sock(b, new);
	struct engine_sock fresh = *s;
	fresh.kind = SOCK_CONN;
	fresh.listener = NULL;
	fresh.conn = c;
	*n = fresh;
	engine_apply_options(b, n);
	engine_flush(b);
	return new;
}

/* Return: the error that a socket without a connection has kept, once; else
 * @otherwise. */
int engine_take_error(struct engine_sock *s, int otherwise)
{
	int err = s->err;

	s->err = 0;
	return err ? err : otherwise;
}

/* Makes the socket as it was before it had a connection. */
static void sock_refresh(struct engine_sock *s, int err)
{
	s->kind = SOCK_FRESH;
	s->is_connecting = s->is_shut_rd = s->is_shut_wr = false;
	s->err = err;
}

/* A second connect() returns how the first one ended. */
static int connect_again(struct engine *e, struct engine_sock *s)
{
	if (s->is_disconnecting)
		return -EINVAL;
	if (!s->is_connecting)
		return -EISCONN;
	if (s->conn->state == TCP_SYN_SENT || s->conn->state == TCP_SYN_RCVD)
		return -EALREADY;
	s->is_connecting = false;
	if (s->conn->state != TCP_CLOSED)
		return 0;
	/* The socket may connect again. */
	int err = tcp_error(s->conn);
	tcp_close(s->conn, e->now_ns);
	sock_refresh(s, 0);
	return err ? err : -ECONNABORTED;
}

int engine_connect(void *b, int fd, const struct sockaddr *a, socklen_t len)
{
	struct engine_sock *s = engine_sock(b, fd);
	struct engine *e = b;
	struct ip_addr ip;
	uint16_t port;
	bool any;

	if (!s)
		return -EBADF;
	int err = read_addr(s, a, len, &ip, &port, &any);
	if (err)
		return err;
	if (s->kind == SOCK_CONN)
		return connect_again(e, s);
	if (s->kind != SOCK_FRESH)
		return -EISCONN;
	err = tcp_connect(e->stack, own_addr(e, &ip), s->port, &ip, port,
			  e->now_ns, &s->conn);
	if (err)
		return err == -EADDRINUSE ? -EADDRNOTAVAIL : err;
	s->kind = SOCK_CONN;
	s->is_connecting = true;
	s->err = 0;
	engine_apply_options(e, s);
	engine_flush(e);
	return -EINPROGRESS;
}

ssize_t engine_send(void *b, int fd, const void *buf, size_t len, int flags)
{
	struct engine_sock *s = engine_sock(b, fd);
	struct engine *e = b;

	if (!s)
		return -EBADF;
	if (s->kind != SOCK_CONN)
		return engine_take_error(s, -EPIPE);
	if (s->is_shut_wr && s->conn->state >= TCP_ESTABLISHED)
		return -EPIPE;
	ssize_t n = tcp_send_as(s->conn, buf, len,
				(flags & MSG_OOB ? TCP_SEND_URGENT : 0u) |
				    (flags & MSG_MORE ? TCP_SEND_MORE : 0u) |
				    (flags & MSG_EOR ? TCP_SEND_EOR : 0u),
				e->now_ns);
	engine_flush(e);
	return n;
}

/* Reads all bytes that are there, piece by piece. */
static ssize_t read_bytes(struct engine *e, struct tcp_conn *c, uint8_t *buf,
			  size_t len)
{
	const uint8_t *data;
	size_t done = 0;
	ssize_t n = 0;

	while (done < len && (n = tcp_peek(c, &data)) > 0) {
		size_t part = MIN((size_t)n, len - done);

		memcpy(buf + done, data, part);
		tcp_consume(c, (uint32_t)part, e->now_ns);
		done += part;
		/* Only a call that finds no bytes returns an error, and a read ends at
		 * the urgent byte. */
		if (!tcp_readable_bytes(c) || tcp_is_at_mark(c))
			break;
	}
	return done ? (ssize_t)done : n;
}

static ssize_t peek_bytes(struct tcp_conn *c, uint8_t *buf, size_t len)
{
	const uint8_t *data;
	size_t done = 0;
	ssize_t n = 0;

	while (done < len && (n = tcp_peek_at(c, (uint32_t)done, &data)) > 0) {
		size_t part = MIN((size_t)n, len - done);

		memcpy(buf + done, data, part);
		done += part;
	}
	return done ? (ssize_t)done : n;
}

ssize_t engine_recv(void *b, int fd, void *buf, size_t len, int flags)
{
	struct engine_sock *s = engine_sock(b, fd);
	struct engine *e = b;

	if (!s)
		return -EBADF;
	if (s->kind != SOCK_CONN)
		return engine_take_error(s, s->is_shut_rd ? 0 : -ENOTCONN);
	if (flags & ~(MSG_DONTWAIT | MSG_PEEK | MSG_OOB))
		return -EOPNOTSUPP;
	if (flags & MSG_OOB)
		return tcp_recv_urgent(s->conn, buf, flags & MSG_PEEK);
	if (!len)
		return 0;
	ssize_t n = flags & MSG_PEEK ? peek_bytes(s->conn, buf, len)
				     : read_bytes(e, s->conn, buf, len);
	if (n == -EAGAIN && s->is_shut_rd)
		n = 0;
	engine_flush(e);
	return n;
}

int engine_shutdown(void *b, int fd, int how)
{
	struct engine_sock *s = engine_sock(b, fd);
	struct engine *e = b;
	int err = 0;

	if (!s)
		return -EBADF;
	if (how < SHUT_RD || how > SHUT_RDWR)
		return -EINVAL;
	if (s->kind == SOCK_LISTENER) {
		if (how == SHUT_WR)
			return 0;
		tcp_unlisten(s->listener, e->now_ns);
		sock_refresh(s, 0);
		engine_flush(e);
		return 0;
	}
	if (s->kind == SOCK_CONN && s->conn->state == TCP_SYN_SENT) {
		/* Gives up the open. */
		tcp_abort(s->conn, e->now_ns);
		sock_refresh(s, -ECONNRESET);
		return 0;
	}
	/* The program may not have asked how the open ended. */
	bool is_over = s->kind != SOCK_CONN || s->conn->state == TCP_CLOSED;
	s->is_disconnecting |=
	    s->is_connecting && (is_over || s->conn->state == TCP_SYN_RCVD);
	s->is_connecting = false;
	if (is_over) {
		s->is_shut_rd |= how != SHUT_WR;
		s->is_shut_wr |= how != SHUT_RD;
		return -ENOTCONN;
	}
	if (how != SHUT_RD)
		err = tcp_shutdown(s->conn, e->now_ns);
	if (how != SHUT_WR && !err)
		s->is_shut_rd = true;
	engine_flush(e);
	return err;
}

int engine_close(void *b, int fd)
{
	struct engine_sock *s = engine_sock(b, fd);
	struct engine *e = b;

	if (!s)
		return -EBADF;
	if (s->kind == SOCK_LISTENER)
		tcp_unlisten(s->listener, e->now_ns);
	else if (s->kind == SOCK_CONN)
		tcp_close(s->conn, e->now_ns);
	s->kind = SOCK_FREE;
	engine_flush(e);
	return 0;
}

/* Poll bits of a socket that was shut down: both directions return an end or an error. */
static int shut_events(const struct engine_sock *s, bool is_shut_wr)
{
	return (s->is_shut_rd ? POLLIN | POLLRDHUP : 0) |
	       (s->is_shut_rd && is_shut_wr ? POLLHUP : 0);
}

static int conn_events(const struct engine_sock *s)
{
	unsigned ev = tcp_poll(s->conn);
	int out =
	    shut_events(s, s->is_shut_wr || s->conn->flags & CONN_SHUT_WR);

	if (s->conn->state == TCP_SYN_SENT || s->conn->state == TCP_SYN_RCVD)
		return out;
	if (ev & TCP_READABLE)
		out |= POLLIN;
	if (ev & TCP_WRITABLE || s->is_shut_wr)
		out |= POLLOUT;
	if (ev & TCP_PEER_CLOSED)
		out |= POLLIN | POLLRDHUP;
	if (ev & TCP_HUNG_UP)
		out |= POLLHUP;
	if (ev & TCP_ERROR)
		out |= POLLERR;
	if (ev & TCP_URGENT)
		out |= POLLPRI;
	return out;
}

int engine_poll(void *b, int fd, short events)
{
	const struct engine_sock *s = engine_sock(b, fd);
	int out = POLLOUT | POLLHUP;

	if (!s)
		return POLLNVAL;
	if (s->kind == SOCK_LISTENER)
		out = s->listener->n_accept ? POLLIN : 0;
	else if (s->kind == SOCK_CONN)
		out = conn_events(s);
	else
		out |= (s->err ? POLLERR : 0) | shut_events(s, s->is_shut_wr);
	return out & (events | POLLERR | POLLHUP);
}

int engine_getpeername(void *b, int fd, struct sockaddr *a, socklen_t *len)
{
	const struct engine_sock *s = engine_sock(b, fd);
	struct sockaddr_in in = { .sin_family = AF_INET };
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6 };

	if (!s)
		return -EBADF;
	if (s->kind != SOCK_CONN || s->conn->state == TCP_CLOSED)
		return -ENOTCONN;
	const struct flow *f = &s->conn->flow;
	in.sin_port = in6.sin6_port = htons(f->rport);
	memcpy(&in.sin_addr, f->raddr.b + 12, 4);
	memcpy(&in6.sin6_addr, f->raddr.b, 16);
	socklen_t full = s->is_v6 ? sizeof(in6) : sizeof(in);
	memcpy(a, s->is_v6 ? (const void *)&in6 : &in, MIN(*len, full));
	*len = full;
	return 0;
}
