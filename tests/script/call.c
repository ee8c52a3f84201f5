/* SPDX-License-Identifier: MIT */
/*
 * tests/script/call.c - plays one call of a script, and judges its result
 *
 * Calls write the pattern of payload_byte(), and must read it.  A script may number
 * descriptors as it likes; they stand for those of the back end.
 */
#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdlib.h>

#include "base/compiler.h"
#include "script.h"

#define IO_MAX (1 << 24)
#define LINGER_OFF 9999

struct play {
	struct sockets *s;
	const struct call *c;
	int fd;         /* the back end's; of the first argument */
	int64_t number; /* the script's */
	char *why;
};

static int64_t arg(const struct call *c, uint32_t i, int64_t otherwise)
{
	return i < c->n_args && c->args[i].kind != ARG_ANY ? c->args[i].v
							   : otherwise;
}

/* --- addresses --- */

static socklen_t make_addr(bool is_v6, struct ip_addr ip, uint16_t port,
			   struct sockaddr_storage *out)
{
	memset(out, 0, sizeof(*out));
	if (is_v6) {
		struct sockaddr_in6 *a = (struct sockaddr_in6 *)out;

		a->sin6_family = AF_INET6;
		a->sin6_port = htons(port);
		memcpy(&a->sin6_addr, ip.b, 16);
		return sizeof(*a);
	}
	struct sockaddr_in *a = (struct sockaddr_in *)out;
	a->sin_family = AF_INET;
	a->sin_port = htons(port);
	memcpy(&a->sin_addr, ip.b + 12, 4);
	return sizeof(*a);
}

static int64_t do_bind(struct play *p)
{
	struct sockaddr_storage a;
	socklen_t n = make_addr(p->s->is_v6, backend_local(p->s->is_v6),
				(uint16_t)arg(p->c, 1, DEFAULT_PORT), &a);

	return p->s->b->ops->bind(p->s->b->self, p->fd, (struct sockaddr *)&a,
				  n);
}

static int64_t do_connect(struct play *p)
{
	struct sockaddr_storage a;
	uint16_t port = (uint16_t)arg(p->c, 1, DEFAULT_PORT);
	socklen_t n =
	    make_addr(p->s->is_v6, backend_remote(p->s->is_v6), port, &a);

	p->s->called = port;
	return p->s->b->ops->connect(p->s->b->self, p->fd,
				     (struct sockaddr *)&a, n);
}

/* --- sockets come and go --- */

/* Gives a descriptor of the back end the number that the script wants. */
static int64_t adopt(struct play *p, int fd)
{
	int64_t number = p->c->result == RESULT_IS ? p->c->from : -1;

	if (fd < 0)
		return fd;
	if (number < 0 || number > 255) {
		p->s->b->ops->close(p->s->b->self, fd);
		return fd; /* none was expected */
	}
	p->s->fds[number] = fd;
	p->s->n_sent[number] = p->s->n_got[number] = 0;
	p->s->is_unchecked[number] = false;
	return number;
}

static int64_t do_socket(struct play *p)
{
	return adopt(p, p->s->b->ops->socket(p->s->b->self,
					     p->s->is_v6 ? AF_INET6 : AF_INET,
					     SOCK_STREAM, IPPROTO_TCP));
}

static int64_t do_accept(struct play *p)
{
	return adopt(p, p->s->b->ops->accept(p->s->b->self, p->fd));
}

static int64_t do_listen(struct play *p)
{
	return p->s->b->ops->listen(p->s->b->self, p->fd, (int)arg(p->c, 1, 1));
}

static int64_t do_shutdown(struct play *p)
{
	return p->s->b->ops->shutdown(p->s->b->self, p->fd,
				      (int)arg(p->c, 1, SHUT_RDWR));
}

static int64_t do_close(struct play *p)
{
	int r = p->s->b->ops->close(p->s->b->self, p->fd);

	p->s->fds[p->number] = -1;
	return r;
}

/* --- bytes --- */

static uint8_t *buffer(size_t *len)
{
	static uint8_t *bytes;

	if (!bytes)
		bytes = malloc(IO_MAX);
	if (!bytes)
		abort();
	*len = MIN(*len, (size_t)IO_MAX);
	return bytes;
}

/* write(fd, n), send(fd, n, flags) */
static int64_t do_send(struct play *p)
{
	size_t len = (size_t)arg(p->c, 1, 0);
	uint8_t *buf = buffer(&len);
	uint64_t at = p->s->n_sent[p->number];

	for (size_t i = 0; i < len; i++)
		buf[i] = payload_byte((uint32_t)(at + i));
	ssize_t n = p->s->b->ops->send(p->s->b->self, p->fd, buf, len,
				       (int)arg(p->c, 2, 0));
	if (n > 0)
		p->s->n_sent[p->number] += (uint64_t)n;
	return n;
}

/* read(fd, n), recv(fd, n, flags) */
static int64_t do_recv(struct play *p)
{
	size_t len = (size_t)arg(p->c, 1, 0);
	uint8_t *buf = buffer(&len);
	int flags = (int)arg(p->c, 2, 0);
	uint64_t at = p->s->n_got[p->number];
	ssize_t n = p->s->b->ops->recv(p->s->b->self, p->fd, buf, len, flags);

	if (flags & MSG_OOB)
		return n;
	for (ssize_t i = 0;
	     i < n && !(flags & MSG_TRUNC) && !p->s->is_unchecked[p->number];
	     i++)
		if (buf[i] != payload_byte((uint32_t)(at + (uint64_t)i))) {
			snprintf(p->why, 256,
				 "byte %zd of what was read is wrong", i);
			break;
		}
	if (n > 0 && !(flags & MSG_PEEK))
		p->s->n_got[p->number] += (uint64_t)n;
	return n;
}

/* --- options and news --- */

static int64_t do_setsockopt(struct play *p)
{
	const struct arg *a = &p->c->args[3];
	int level = (int)arg(p->c, 1, 0), name = (int)arg(p->c, 2, 0);
	int v[2] = { (int)a->v, (int)a->w };
	const void *at = a->kind == ARG_STRING ? (const void *)a->text : v;
	socklen_t len = a->kind == ARG_STRING ? (socklen_t)strlen(a->text)
			: a->kind == ARG_PAIR ? sizeof(v)
					      : sizeof(v[0]);

	return p->s->b->ops->setsockopt(p->s->b->self, p->fd, level, name, at,
					len);
}

static int64_t do_getsockopt(struct play *p)
{
	int v[2] = { 0, 0 };
	socklen_t len = sizeof(v);
	int r =
	    p->s->b->ops->getsockopt(p->s->b->self, p->fd, (int)arg(p->c, 1, 0),
				     (int)arg(p->c, 2, 0), v, &len);

	return r < 0 ? r : v[0];
}

static int64_t do_ioctl(struct play *p)
{
	int v = 0;
	int r = p->s->b->ops->ioctl(p->s->b->self, p->fd,
				    (unsigned long)arg(p->c, 1, 0), &v);

	return r < 0 ? r : v;
}

static int64_t do_poll(struct play *p)
{
	return p->s->b->ops->poll(p->s->b->self, p->fd, (short)arg(p->c, 1, 0));
}

/* SO_LINGER has two numbers.  getlinger(fd) returns the seconds, or LINGER_OFF. */
static int64_t do_getlinger(struct play *p)
{
	int v[2] = { 0, 0 };
	socklen_t len = sizeof(v);
	int r = p->s->b->ops->getsockopt(p->s->b->self, p->fd, SOL_SOCKET,
					 SO_LINGER, v, &len);

	return r < 0 ? r : v[0] ? v[1] : LINGER_OFF;
}

/* move(fd): the connection leaves its stack and goes on in another one */
static int64_t do_move(struct play *p)
{
	return p->s->b->ops->move(p->s->b->self, p->fd);
}

/* unchecked(fd): from here on the script takes bytes out of the stream */
static int64_t do_unchecked(struct play *p)
{
	p->s->is_unchecked[p->number] = true;
	return 0;
}

#define FIELD(f)                                                               \
	{                                                                      \
#f, offsetof(struct tcp_info, f), sizeof_field(f)              \
	}
#define sizeof_field(f) sizeof(((struct tcp_info *)0)->f)

static const struct {
	const char *name;
	size_t off, size;
} info_fields[] = {
	FIELD(tcpi_state),
	FIELD(tcpi_ca_state),
	FIELD(tcpi_retransmits),
	FIELD(tcpi_probes),
	FIELD(tcpi_backoff),
	FIELD(tcpi_options),
	FIELD(tcpi_rto),
	FIELD(tcpi_ato),
	FIELD(tcpi_snd_mss),
	FIELD(tcpi_rcv_mss),
	FIELD(tcpi_unacked),
	FIELD(tcpi_sacked),
	FIELD(tcpi_lost),
	FIELD(tcpi_retrans),
	FIELD(tcpi_pmtu),
	FIELD(tcpi_rcv_ssthresh),
	FIELD(tcpi_rtt),
	FIELD(tcpi_rttvar),
	FIELD(tcpi_snd_ssthresh),
	FIELD(tcpi_snd_cwnd),
	FIELD(tcpi_advmss),
	FIELD(tcpi_reordering),
	FIELD(tcpi_total_retrans),
	FIELD(tcpi_bytes_acked),
	FIELD(tcpi_bytes_received),
	FIELD(tcpi_segs_out),
	FIELD(tcpi_segs_in),
	FIELD(tcpi_notsent_bytes),
	FIELD(tcpi_data_segs_in),
	FIELD(tcpi_data_segs_out),
	FIELD(tcpi_busy_time),
	FIELD(tcpi_rwnd_limited),
	FIELD(tcpi_sndbuf_limited),
	FIELD(tcpi_delivered),
	FIELD(tcpi_delivered_ce),
	FIELD(tcpi_bytes_sent),
	FIELD(tcpi_bytes_retrans),
	FIELD(tcpi_dsack_dups),
	FIELD(tcpi_reord_seen),
	FIELD(tcpi_snd_wnd),
};

static int64_t do_tcp_info(struct play *p)
{
	struct tcp_info info = { 0 };
	socklen_t len = sizeof(info);
	int r = p->s->b->ops->getsockopt(p->s->b->self, p->fd, IPPROTO_TCP,
					 TCP_INFO, &info, &len);

	if (r < 0)
		return r;
	for (unsigned i = 0; i < ARRAY_LEN(info_fields); i++) {
		int64_t v = 0;

		if (strcmp(info_fields[i].name, p->c->args[1].text))
			continue;
		memcpy(&v, (const uint8_t *)&info + info_fields[i].off,
		       info_fields[i].size);
		return v;
	}
	snprintf(p->why, 256, "TCP_INFO has no %s", p->c->args[1].text);
	return 0;
}

/* --- judging --- */

static const struct {
	const char *name;
	int64_t (*play)(struct play *p);
	uint32_t n_least;
} calls[] = {
	{ "socket", do_socket, 0 },
	{ "bind", do_bind, 1 },
	{ "listen", do_listen, 1 },
	{ "accept", do_accept, 1 },
	{ "connect", do_connect, 1 },
	{ "read", do_recv, 2 },
	{ "recv", do_recv, 2 },
	{ "write", do_send, 2 },
	{ "send", do_send, 2 },
	{ "shutdown", do_shutdown, 2 },
	{ "close", do_close, 1 },
	{ "ioctl", do_ioctl, 2 },
	{ "setsockopt", do_setsockopt, 4 },
	{ "getsockopt", do_getsockopt, 3 },
	{ "poll", do_poll, 2 },
	{ "tcp_info", do_tcp_info, 2 },
	{ "getlinger", do_getlinger, 1 },
	{ "unchecked", do_unchecked, 1 },
	{ "move", do_move, 1 },
};

static bool judge(const struct call *c, int64_t r, char *why)
{
	bool is_good = c->result == RESULT_ANY ||
		       (c->result == RESULT_ERRNO ? r == -c->from
						  : r >= c->from && r <= c->to);
	char want[64];

	if (is_good)
		return true;
	if (c->result == RESULT_ERRNO)
		snprintf(want, sizeof(want), "-1 %s", name_errno((int)c->from));
	else if (c->from == c->to)
		snprintf(want, sizeof(want), "%lld", (long long)c->from);
	else
		snprintf(want, sizeof(want), "%lld to %lld", (long long)c->from,
			 (long long)c->to);
	if (r < 0 && r > -4096)
		snprintf(why, 256, "expected: %s\n  seen:     -1 %s (%lld)",
			 want, name_errno((int)-r), (long long)-r);
	else
		snprintf(why, 256, "expected: %s\n  seen:     %lld (0x%llx)",
			 want, (long long)r, (unsigned long long)r);
	return false;
}

bool call_play(struct sockets *s, const struct call *c, char *why)
{
	struct play p = { .s = s, .c = c, .fd = -1, .why = why };
	int64_t number = arg(c, 0, 0);

	*why = 0;
	for (unsigned i = 0; i < ARRAY_LEN(calls); i++) {
		if (strcmp(calls[i].name, c->name))
			continue;
		if (c->n_args < calls[i].n_least) {
			snprintf(why, 256, "%s() has too few arguments",
				 c->name);
			return false;
		}
		if (calls[i].n_least && number >= 0 && number < 256) {
			p.number = number;
			p.fd = s->fds[number];
		}
		int64_t r = s->result = calls[i].play(&p);
		return !*why && judge(c, r, why);
	}
	snprintf(why, 256, "there is no call %s()", c->name);
	return false;
}
