/* SPDX-License-Identifier: MIT */
/*
 * tests/script/engine_opt.c - options, ioctl() and TCP_INFO over the engine
 */
#include <linux/sock_diag.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>

#include "engine_sock.h"
#include "tcp/info.h"

#define LINUX_CLOSE 7
#define LINUX_LISTEN 10
#define MAXSEG_MIN 88
#define MAXSEG_MAX 32767
#define SNDBUF_MIN 2304
#define RCVBUF_MIN 1152
#define BUFFER_MAX 212992u /* Linux's wmem_max and rmem_max */

#ifndef SIOCATMARK
#define SIOCATMARK 0x8905
#endif

static void apply_keepalive(struct engine *e, struct engine_sock *s)
{
	tcp_set_keepalive(
	    s->conn, s->is_keepalive ? (uint32_t)s->keep_idle_s : 0,
	    (uint32_t)s->keep_interval_s, (uint32_t)s->keep_probes, e->now_ns);
}

/* Gives a connection the options of its socket, or of its listener. */
void engine_apply_options(struct engine *e, struct engine_sock *s)
{
	tcp_set_nodelay(s->conn, s->is_nodelay, e->now_ns);
	tcp_set_linger(s->conn, s->is_linger && !s->linger_s);
	tcp_set_user_timeout(s->conn, (uint32_t)s->user_timeout_ms);
	tcp_set_cork(s->conn, s->is_cork, e->now_ns);
	tcp_set_oob_inline(s->conn, s->is_inline);
	tcp_set_maxseg(s->conn, (uint16_t)s->maxseg);
	tcp_set_notsent_lowat(s->conn, (uint32_t)s->notsent_lowat);
	tcp_set_rcv_lowat(s->conn, (uint32_t)s->rcv_lowat);
	if (s->snd_buf)
		tcp_set_snd_buf(s->conn, (uint32_t)s->snd_buf);
	if (s->rcv_buf) /* half of which is for bytes, as of tcp_rmem */
		tcp_set_rcv_buf(s->conn, (uint32_t)s->rcv_buf / 2);
	if (s->n_reqsks)
		tcp_set_syn_retries(s->conn, (uint8_t)s->n_reqsks);
	if (s->fin_timeout_s)
		tcp_set_fin_timeout(s->conn, (uint16_t)s->fin_timeout_s);
	if (s->is_keepalive)
		apply_keepalive(e, s);
}

/* As in Linux, the told size is doubled: half of the buffer is overhead. */
static int buffer_bytes(int told, int least)
{
	return 2 * (int)MIN(told > least ? (uint32_t)told : (uint32_t)least,
			    BUFFER_MAX);
}

static int set_socket(struct engine_sock *s, int name, const int *v,
		      socklen_t len)
{
	switch (name) {
	case SO_KEEPALIVE:
		s->is_keepalive = *v;
		return 0;
	case SO_LINGER:
		if (len < 2 * sizeof(int))
			return -EINVAL;
		s->is_linger = v[0];
		s->linger_s = v[1];
		return 0;
	case SO_REUSEADDR:
		s->is_reuse = *v;
		return 0;
	case SO_OOBINLINE:
		s->is_inline = *v;
		return 0;
	case SO_RCVLOWAT:
		s->rcv_lowat = *v;
		return 0;
	case SO_SNDBUF:
		s->snd_buf = buffer_bytes(*v, SNDBUF_MIN);
		return 0;
	case SO_RCVBUF:
		s->rcv_buf = buffer_bytes(*v, RCVBUF_MIN);
		if (s->kind == SOCK_LISTENER)
			tcp_set_listen_rcv_buf(s->listener,
					       (uint32_t)s->rcv_buf / 2);
		return 0;
	default:
		return -ENOPROTOOPT;
	}
}

static int set_tcp(struct engine_sock *s, int name, int v)
{
	switch (name) {
	case TCP_NODELAY:
		s->is_nodelay = v;
		return 0;
	case TCP_CORK:
		s->is_cork = v;
		return 0;
	case TCP_NOTSENT_LOWAT:
		s->notsent_lowat = v;
		return 0;
	case TCP_MAXSEG:
		if (v && (v < MAXSEG_MIN || v > MAXSEG_MAX))
			return -EINVAL;
		s->maxseg = v;
		if (s->kind == SOCK_LISTENER)
			tcp_set_listen_maxseg(s->listener, (uint16_t)v);
		return 0;
	case TCP_DEFER_ACCEPT:
		s->defer_s = v > 0 ? v : 0;
		return 0;
	case TCP_LINGER2:
		s->fin_timeout_s = v;
		return 0;
	case TCP_SYNCNT:
		if (v < 1 || v > 127)
			return -EINVAL;
		s->n_reqsks = v;
		return 0;
	case TCP_KEEPIDLE:
		if (v < 1 || v > 32767)
			return -EINVAL;
		s->keep_idle_s = v;
		return 0;
	case TCP_KEEPINTVL:
		if (v < 1 || v > 32767)
			return -EINVAL;
		s->keep_interval_s = v;
		return 0;
	case TCP_KEEPCNT:
		if (v < 1 || v > 127)
			return -EINVAL;
		s->keep_probes = v;
		return 0;
	case TCP_QUICKACK:
		return s->kind == SOCK_CONN ? 0 : -ENOPROTOOPT;
	case TCP_USER_TIMEOUT:
		if (v < 0)
			return -EINVAL;
		s->user_timeout_ms = v;
		return 0;
	default:
		return -ENOPROTOOPT;
	}
}

/* An option that has no effect here; the value may be one byte. */
static int set_ip(int name)
{
	return name == IP_FREEBIND || name == IP_MTU_DISCOVER ? 0
							      : -ENOPROTOOPT;
}

int engine_setsockopt(void *b, int fd, int level, int name, const void *v,
		      socklen_t len)
{
	struct engine_sock *s = engine_sock(b, fd);
	int err = -ENOPROTOOPT;

	if (!s)
		return -EBADF;
	if (level == IPPROTO_IP)
		return set_ip(name);
	if (len < sizeof(int))
		return -EINVAL;
	if (level == SOL_SOCKET)
		err = set_socket(s, name, v, len);
	else if (level == IPPROTO_TCP)
		err = set_tcp(s, name, *(const int *)v);
	if (!err && s->kind == SOCK_CONN) {
		engine_apply_options(b, s);
		if (level == SOL_SOCKET && name == SO_KEEPALIVE)
			apply_keepalive(b, s);
	}
	if (!err && s->kind == SOCK_CONN && level == IPPROTO_TCP &&
	    name == TCP_QUICKACK)
		tcp_set_quickack(s->conn, *(const int *)v,
				 ((struct engine *)b)->now_ns);
	engine_flush(b);
	return err;
}

/* --- TCP_INFO --- */

static_assert(offsetof(struct tcp_info, tcpi_snd_wnd) ==
		  offsetof(struct tcp_conn_info, tcpi_snd_wnd),
	      "the engine's has Linux's layout");

static int get_socket(const struct engine *e, struct engine_sock *s, int name,
		      int *v)
{
	switch (name) {
	case SO_ERROR:
		*v = s->kind == SOCK_CONN ? -tcp_error(s->conn)
					  : -engine_take_error(s, 0);
		return 0;
	case SO_TYPE:
		*v = SOCK_STREAM;
		return 0;
	case SO_PROTOCOL:
		*v = IPPROTO_TCP;
		return 0;
	case SO_ACCEPTCONN:
		*v = s->kind == SOCK_LISTENER;
		return 0;
	case SO_KEEPALIVE:
		*v = s->is_keepalive;
		return 0;
	case SO_REUSEADDR:
		*v = s->is_reuse;
		return 0;
	case SO_SNDBUF:
		*v = s->snd_buf ? s->snd_buf : (int)e->stack->cfg.snd_buf;
		return 0;
	case SO_RCVBUF:
		*v = s->rcv_buf ? s->rcv_buf : 2 * (int)e->stack->cfg.rcv_buf;
		return 0;
	default:
		return -ENOPROTOOPT;
	}
}

static int get_tcp(const struct engine_sock *s, int name, int *v)
{
	switch (name) {
	case TCP_NODELAY:
		*v = s->is_nodelay;
		return 0;
	case TCP_KEEPIDLE:
		*v = s->keep_idle_s;
		return 0;
	case TCP_KEEPINTVL:
		*v = s->keep_interval_s;
		return 0;
	case TCP_KEEPCNT:
		*v = s->keep_probes;
		return 0;
	case TCP_NOTSENT_LOWAT:
		*v = s->notsent_lowat;
		return 0;
	case TCP_USER_TIMEOUT:
		*v = s->user_timeout_ms;
		return 0;
	case TCP_MAXSEG:
		*v = s->maxseg ? s->maxseg : 536;
		if (s->kind == SOCK_CONN && s->conn->mss)
			*v = s->conn->mss;
		return 0;
	default:
		return -ENOPROTOOPT;
	}
}

static struct tcp_conn_info info_of(const struct engine_sock *s,
				    uint64_t now_ns)
{
	struct tcp_conn_info info = { .tcpi_state = s->kind == SOCK_LISTENER
							? LINUX_LISTEN
							: LINUX_CLOSE };

	if (s->kind == SOCK_CONN)
		tcp_get_info(s->conn, &info, now_ns);
	return info;
}

/* What SO_MEMINFO reports, as far as the engine has it: waiting bytes, and the
 * buffers. */
static void fill_meminfo(struct engine *e, struct engine_sock *s,
			 uint32_t v[SK_MEMINFO_VARS])
{
	int n = 0;

	memset(v, 0, SK_MEMINFO_VARS * sizeof(v[0]));
	if (!get_socket(e, s, SO_RCVBUF, &n))
		v[SK_MEMINFO_RCVBUF] = (uint32_t)n;
	if (!get_socket(e, s, SO_SNDBUF, &n))
		v[SK_MEMINFO_SNDBUF] = (uint32_t)n;
	if (s->kind != SOCK_CONN)
		return;
	v[SK_MEMINFO_RMEM_ALLOC] = s->conn->rcv_mem;
	v[SK_MEMINFO_WMEM_QUEUED] = tcp_unacked_bytes(s->conn);
}

/* Options with values larger than a number.  Return: bytes at @v; 0: not one of these */
static size_t get_large(struct engine *e, struct engine_sock *s, int level,
			int name, void *v)
{
	if (level == IPPROTO_TCP && name == TCP_INFO) {
		*(struct tcp_conn_info *)v = info_of(s, e->now_ns);
		return sizeof(struct tcp_conn_info);
	}
	if (level == SOL_SOCKET && name == SO_MEMINFO) {
		fill_meminfo(e, s, v);
		return SK_MEMINFO_VARS * sizeof(uint32_t);
	}
	if (level == SOL_SOCKET && name == SO_LINGER) {
		memcpy(v, (int[]){ s->is_linger, s->linger_s },
		       2 * sizeof(int));
		return 2 * sizeof(int);
	}
	return 0;
}

int engine_getsockopt(void *b, int fd, int level, int name, void *v,
		      socklen_t *len)
{
	struct engine_sock *s = engine_sock(b, fd);
	union {
		struct tcp_conn_info info;
		uint32_t words[SK_MEMINFO_VARS];
	} large;
	int err = -ENOPROTOOPT, n = 0;

	if (!s)
		return -EBADF;
	size_t n_large = get_large(b, s, level, name, &large);
	if (n_large) {
		*len = (socklen_t)MIN((size_t)*len, n_large);
		memcpy(v, &large, *len);
		return 0;
	}
	/* As Linux's Reno and CUBIC, which report nothing. */
	if (level == IPPROTO_TCP && name == TCP_CC_INFO) {
		*len = 0;
		return 0;
	}
	if (level == SOL_SOCKET)
		err = get_socket(b, s, name, &n);
	else if (level == IPPROTO_TCP)
		err = get_tcp(s, name, &n);
	if (err)
		return err;
	*len = MIN(*len, (socklen_t)sizeof(n));
	memcpy(v, &n, *len);
	return 0;
}

int engine_ioctl(void *b, int fd, unsigned long what, int *arg)
{
	const struct engine_sock *s = engine_sock(b, fd);

	if (!s)
		return -EBADF;
	if (s->kind == SOCK_LISTENER)
		return -EINVAL;
	*arg = 0;
	if (s->kind != SOCK_CONN)
		return 0;
	switch (what) {
	case SIOCINQ:
		*arg = (int)tcp_readable_bytes(s->conn);
		return 0;
	case SIOCOUTQ:
		*arg = (int)tcp_unacked_bytes(s->conn);
		return 0;
	case SIOCOUTQNSD:
		*arg = (int)tcp_unsent_bytes(s->conn);
		return 0;
	case SIOCATMARK:
		*arg = tcp_is_at_mark(s->conn);
		return 0;
	default:
		return -EINVAL;
	}
}
