/* SPDX-License-Identifier: MIT */
/* proto/tcp/conn.c - to our own TCP, and back; see proto/tcp/conn.h */
#include "proto/tcp/conn.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fds.h"
#include "base/libc.h"
#include "base/log.h"
#include "base/nocancel.h"
#include "base/sockopt.h"
#include "ip/ip.h"
#include "osfd/msg.h"
#include "proto/tcp/rest.h"
#include "proto/tcp/wire.h"
#include "sock/arena.h"
#include "sock/errq.h"
#include "sock/linger.h"
#include "sock/opt.h"
#include "tcp/calls.h"
#include "tcp/export.h"
#include "tcp/info.h"
#include "tcp/opt.h"

#define TCP_STATE_CLOSE 7 /* of tcpi_state */

static void keep(struct sock *sk, struct moved *m)
{
	memcpy(sk->conn + MOVED_AT, &m, sizeof(m));
}

/* What `osf stat' shows of our TCP. */
static void tell(const struct moved *m, const struct tcp_conn_info *i)
{
	struct osf_stats_sock *st = m->sk->st;

	store_rlx(&st->cwnd, i->tcpi_snd_cwnd);
	store_rlx(&st->srtt_us, i->tcpi_rtt);
	store_rlx(&st->n_retransmitted, (uint64_t)i->tcpi_total_retrans);
}

static void tell_now(const struct moved *m)
{
	struct tcp_conn_info i;

	tcp_get_info(m->c, &i, now_ns());
	tell(m, &i);
	wire_tell_drops();
}

/*
 * There.
 */

#define ECN_BITS 3 /* of IP_TOS and IPV6_TCLASS: TCP itself sets them */

/* What our TCP has for these IP options; it knows no other value. */
static const struct {
	int level, name, plain, ignore;
} ip_opts[] = {
	{ IPPROTO_IP, IP_TTL, IP_HOPS, 0 },
	{ IPPROTO_IP, IP_TOS, 0, ECN_BITS },
	{ IPPROTO_IP, IP_MINTTL, 0, 0 },
	{ IPPROTO_IPV6, IPV6_UNICAST_HOPS, IP_HOPS, 0 },
	{ IPPROTO_IPV6, IPV6_TCLASS, 0, ECN_BITS },
	{ IPPROTO_IPV6, IPV6_MINHOPCOUNT, 0, 0 },
};

/* A socket of IPv6 may carry IPv4, and has the options of both. */
static bool has_ip_options(int fd)
{
	char options[64];
	socklen_t len = sizeof(options);

	for (size_t i = 0; i < ARRAY_LEN(ip_opts); i++) {
		int v = 0;
		socklen_t size = sizeof(v);

		if (libc.getsockopt(fd, ip_opts[i].level, ip_opts[i].name, &v,
				    &size) == 0 &&
		    (v & ~ip_opts[i].ignore) != ip_opts[i].plain)
			return true;
	}
	return libc.getsockopt(fd, IPPROTO_IP, IP_OPTIONS, options, &len) ==
		   0 &&
	       len;
}

/* What a socket has that only the kernel does.  OSF_REASON_NONE: nothing */
static enum osf_reason special_for(struct sock *sk, int fd)
{
	if (sk->w->shut)
		return OSF_REASON_HALF_CLOSED;
	if (sk->w->is_async)
		return OSF_REASON_ASYNC;
	if (sk->w->zc_on || sockopt_int(fd, SOL_SOCKET, SO_ZEROCOPY))
		return OSF_REASON_ZEROCOPY;
	if (sockopt_int(fd, SOL_SOCKET, SO_OOBINLINE))
		return OSF_REASON_URGENT;
	bool any = sk->w->times || sockopt_int(fd, IPPROTO_TCP, TCP_CORK) ||
		   sockopt_int(fd, SOL_SOCKET, SO_MAX_PACING_RATE) != -1 ||
		   /* osfd closes a copy, and does not wait. */
		   linger_s(fd) > 0 || has_ip_options(fd);
	return any ? OSF_REASON_OPTION : OSF_REASON_NONE;
}

/* Before the first byte the peer may still wait for our ACK: see tcp/export.h. */
static bool has_begun(int fd)
{
	struct tcp_info i = { 0 };
	socklen_t len = sizeof(i);

	return !libc.getsockopt(fd, IPPROTO_TCP, TCP_INFO, &i, &len) &&
	       i.tcpi_bytes_acked > 1 && i.tcpi_bytes_received;
}

/* The connection is frozen. */
static int import(struct moved *m, int fd, const uint8_t mac[6])
{
	struct tcp_image x;
	int err = image_of_frozen(&m->frozen, fd, &x);

	if (!err)
		err = engine_reach(wire_engine, &x.laddr, &x.raddr, mac);
	if (!err)
		err = tcp_import(engine_stack(wire_engine), &x, NULL, NULL,
				 now_ns(), &m->c);
	if (!err)
		return 0;
	log_info("fd %d: our TCP does not take it: %s", fd, strerror(-err));
	struct image_queues none = { 0 };
	int lost = wire_thaw(m, &none, NULL, false);
	return lost ? lost : err;
}

static enum osf_reason reason_of(int err)
{
	switch (err) {
	case -EAGAIN:
		return OSF_REASON_BUSY;
	case -ENODEV:
	case -EBUSY:
		return OSF_REASON_NO_PORT;
	case -ENOSPC:
		return OSF_REASON_FLOWS;
	case -EMFILE:
	case -ENOMEM:
		return OSF_REASON_NO_MEMORY;
	case -EADDRNOTAVAIL:
		return OSF_REASON_LO;
	case -MSG_E_NAT:
		return OSF_REASON_NAT;
	case -MSG_E_IPSEC:
		return OSF_REASON_IPSEC;
	case -MSG_E_SIGNED:
		return OSF_REASON_SIGNED;
	default:
		return OSF_REASON_NOT_FROZEN;
	}
}

static void begin_escrow(struct moved *m)
{
	struct tcp_numbers n;

	tcp_export_numbers(m->c, &n);
	escrow_begin(&m->escrow, &n);
}

static void let_go(struct moved *m)
{
	escrow_give(&m->escrow);
	fds_close(m->fd);
	free(m);
}

/* The caller has both locks of the socket, and wire_lock().  *@special: why the socket's
 * own options keep it in the kernel, or OSF_REASON_NONE */
static int move_there(struct sock *sk, int fd, uint32_t ifindex,
		      const uint8_t mac[6], enum osf_reason *special)
{
	struct moved *m;

	if (load_rlx(&sk->w->n_sleepers) || !has_begun(fd))
		return -EAGAIN;
	*special = special_for(sk, fd);
	if (*special != OSF_REASON_NONE)
		return -EOPNOTSUPP;
	int err = wire_open(ifindex);
	if (err)
		return err;
	m = calloc(1, sizeof(*m));
	if (!m)
		return -ENOMEM;
	m->sk = sk;
	m->fd = fds_hide_spare(libc.fcntl(fd, F_DUPFD_CLOEXEC, 0));
	err = m->fd < 0 ? -EMFILE : wire_freeze(m);
	if (!err)
		err = import(m, fd, mac);
	if (err) {
		let_go(m);
		return err;
	}
	begin_escrow(m);
	tcp_set_user(m->c, m);
	tcp_hold_end(m->c, true, now_ns());
	m->events = tcp_poll(m->c);
	tell_now(m);
	keep(sk, m);
	wire_add(m);
	return 0;
}

int moved_try(struct sock *sk, int fd, uint32_t ifindex, const uint8_t mac[6],
	      enum osf_reason *why)
{
	enum osf_reason special = OSF_REASON_NONE;
	int saved = errno;

	sock_lock_both(sk);
	wire_lock();
	int err = move_there(sk, fd, ifindex, mac, &special);
	wire_unlock();
	*why = !err                         ? OSF_REASON_PORT
	       : special != OSF_REASON_NONE ? special
					    : reason_of(err);
	if (!err) {
		opt_read(sk, fd);
		sk->st->proto = OSF_PROTO_TCP;
		sk->st->since_ns = clock_ns(CLOCK_REALTIME);
		sock_set_reason(sk, OSF_REASON_PORT);
		store_rlx(&sk->st->n_freezes, sk->st->n_freezes + 1);
		count(&arena_totals()->n_upgraded, 1);
	}
	sock_set_mode(sk, err ? SOCK_YOUNG : SOCK_TCP);
	sock_unlock_both(sk);
	errno = saved;
	return err;
}

/*
 * Back.
 */

/* The bytes of both queues.  NULL: no memory. */
static uint8_t *take_bytes(struct moved *m, const struct image_queues *q)
{
	uint32_t queued = q->n_unacked + q->n_unsent;
	uint8_t *bytes = malloc((size_t)q->n_unread + queued + 1);

	if (!bytes)
		return NULL;
	tcp_export_unread(m->c, bytes, q->n_unread);
	tcp_export_queued(m->c, bytes + q->n_unread, queued);
	return bytes;
}

/* What the program has set while our TCP had the connection. */
static void refresh(const struct moved *m, struct frozen *f)
{
	if (tcp_held_end(m->c) == TCP_END_FIN)
		f->flags |= FROZEN_PEER_FIN;
	if (tcp_held_end(m->c) == TCP_END_RESET)
		f->flags |= FROZEN_PEER_RESET;
}

/* With the wire's lock.  0; -EAGAIN: it stays; or the connection cannot be saved. */
static int give_back(struct moved *m, bool may_stay)
{
	struct image_queues q;
	struct tcp_image x;

	if (may_stay && !wire_has_osfd())
		return -EAGAIN;
	wire_turn(); /* the latest ACKs */
	moved_hurry(m);
	engine_out(wire_engine, now_ns());
	int err = tcp_export(m->c, &x, now_ns());
	if (err)
		return err;
	frozen_of_image(&x, &m->frozen, &q);
	refresh(m, &m->frozen);
	uint8_t *bytes = take_bytes(m, &q);
	err = bytes ? wire_thaw(m, &q, bytes, may_stay) : -ENOMEM;
	free(bytes);
	if (!err)
		tcp_forget(m->c, now_ns());
	return err == -ENETUNREACH && may_stay ? -EAGAIN : err;
}

/* `ss -K' has closed the kernel's socket, and left an error there for the program. */
static bool is_closed(int fd)
{
	struct tcp_info i = { 0 };
	socklen_t len = sizeof(i);

	return !libc.getsockopt(fd, IPPROTO_TCP, TCP_INFO, &i, &len) &&
	       i.tcpi_state == TCP_STATE_CLOSE;
}

/* The peer gets a reset, and the program an error or an end. */
static void cut_off(struct moved *m, int fd, int err)
{
	struct sockaddr unspec = { .sa_family = AF_UNSPEC };
	struct image_queues none = { 0 };

	log_err("fd %d: connection reset: not given back: %s", fd,
		strerror(-err));
	count(&arena_totals()->n_broken, 1);
	tcp_abort(m->c, now_ns());
	if (!is_closed(fd))
		nocancel_connect(fd, &unspec, sizeof(unspec));
	/* osfd finds no connection there, and makes it an ordinary socket again. */
	if (err == -ENETUNREACH && wire_thaw(m, &none, NULL, true) != -ENOTCONN)
		log_err("fd %d: stays under repair", fd);
}

/* May a connection that has gone back for this move again? */
static bool passes(enum osf_reason why)
{
	return why == OSF_REASON_OPTION || why == OSF_REASON_LINK ||
	       why == OSF_REASON_ROUTE || why == OSF_REASON_NO_ANSWER ||
	       why == OSF_REASON_BULK || why == OSF_REASON_SLOWER ||
	       why == OSF_REASON_PORT_ENDS;
}

/* May the connection stay with our TCP, if osfd cannot give it back now?  Not if a call
 * needs the kernel's socket, because that call cannot wait. */
static bool may_stay(const struct moved *m, enum osf_reason why)
{
	return (passes(why) && why != OSF_REASON_OPTION) ||
	       (why == OSF_REASON_URGENT && load_acq(&m->due) == why);
}

static void rest(struct sock *sk, enum osf_reason why)
{
	uint32_t turns = rest_turns(sk, why);

	store_rlx(&sk->pingpongs_next, load_rlx(&sk->pingpongs) + turns);
	sock_set_mode(sk, SOCK_YOUNG);
}

/* With both locks of the socket.  Return: 0; -EAGAIN: it stays; or it was cut off */
static int back_locked(struct sock *sk, int fd, enum osf_reason why)
{
	struct moved *m = moved_of(sk);

	wire_lock();
	tell_now(m);
	int err = give_back(m, may_stay(m, why));
	if (err == -EAGAIN) {
		store_rel(&m->due, (uint32_t)OSF_REASON_NONE);
		wire_unlock();
		return err;
	}
	if (err)
		cut_off(m, fd, err);
	m->c = NULL;
	wire_remove(m);
	let_go(m);
	wire_unlock();
	keep(sk, NULL);
	sk->st->proto = OSF_PROTO_INET;
	sock_set_reason(sk, why);
	store_rlx(&sk->st->n_thaws, sk->st->n_thaws + !err);
	count(&arena_totals()->n_fallbacks, 1);
	return err;
}

static void back(struct sock *sk, int fd, enum osf_reason why, bool rests)
{
	int saved = errno;

	if (!sock_lock_mode(sk, SOCK_TCP))
		return;
	bool was_full = why == OSF_REASON_BULK ||
			!(load_acq(&moved_of(sk)->events) & TCP_WRITABLE);
	int err = back_locked(sk, fd, why);
	if (err == -EAGAIN) {
		sock_unlock_both(sk);
		errno = saved;
		return;
	}
	if (!err && rests && passes(why))
		rest(sk, why);
	else
		sock_set_mode(sk, SOCK_KERNEL);
	sock_unlock_both(sk);
	/* From now on threads that sleep look at the anchor.  The anchor may have had an
	 * edge before, which they must not miss, so notify them of bytes.  Notify them of
	 * room as well, if the engine had none. */
	sock_notify(sk, was_full ? POLLIN | POLLOUT : POLLIN);
	errno = saved;
}

void moved_back(struct sock *sk, int fd, enum osf_reason why)
{
	back(sk, fd, why, false);
}

void moved_rest(struct sock *sk, int fd, enum osf_reason why)
{
	back(sk, fd, why, true);
}

int moved_back_now(struct sock *sk, int fd, enum osf_reason why, bool gently,
		   struct stash *stash)
{
	moved_back(sk, fd, why);
	return 0;
}

/* The child of a fork has a socket whose connection is still with our TCP.  Sockets of the
 * file table gave theirs back before the fork; the others belong to the parent alone. */
void moved_after_fork(struct sock *sk)
{
	sk->is_lost = 1;
	fds_close(moved_of(sk)->fd);
	keep(sk, NULL);
}

void moved_due(struct moved *m, enum osf_reason why)
{
	if (m->due)
		return;
	store_rel(&m->due, (uint32_t)why);
	sock_notify(m->sk, READY_NEWS); /* a look, and no edge */
}

void moved_say(struct moved *m)
{
	struct tcp_numbers n;
	enum tcp_end end = tcp_held_end(m->c);

	tcp_export_numbers(m->c, &n);
	escrow_say(&m->escrow, &n,
		   end == TCP_END_FIN     ? FROZEN_PEER_FIN
		   : end == TCP_END_RESET ? FROZEN_PEER_RESET
					  : 0);
}

uint32_t moved_room(struct moved *m)
{
	struct tcp_numbers n;

	tcp_export_numbers(m->c, &n);
	if (!seq_eq(n.snd_una, m->escrow.una))
		moved_say(m);
	return escrow_room(&m->escrow);
}

/* Retransmissions that nobody answers: the kernel knows more ways. */
#define BACKOFFS_MAX 2

void moved_hurry(struct moved *m) { tcp_set_quickack(m->c, true, now_ns()); }

void moved_ask(struct moved *m, uint32_t silent_ms)
{
	tcp_ask_silent(m->c, silent_ms, wire_now());
}

void moved_found(struct moved *m)
{
	if (tcp_unsent_bytes(m->c))
		moved_due(m, OSF_REASON_BULK);
}

void moved_check(struct moved *m, bool may_leave)
{
	struct tcp_conn_info i;

	if (!may_leave)
		return;
	tcp_get_info(m->c, &i, now_ns());
	tell(m, &i);
	if (i.tcpi_backoff > BACKOFFS_MAX)
		moved_due(m, OSF_REASON_NO_ANSWER);
}

static unsigned poll_bits(unsigned ev)
{
	return (ev & TCP_READABLE ? POLLIN : 0u) |
	       (ev & TCP_WRITABLE ? POLLOUT : 0u) |
	       (ev & (TCP_ERROR | TCP_HUNG_UP) ? POLLERR | POLLHUP : 0u);
}

void moved_news(struct moved *m)
{
	unsigned ev = tcp_poll(m->c);

	store_rel(&m->events, ev);
	moved_say(m); /* what osfd may have to acknowledge */
	enum tcp_end end = tcp_held_end(m->c);
	if (unlikely(end != TCP_END_NONE))
		moved_due(m, end == TCP_END_STRANGE ? OSF_REASON_HEADERS
						    : OSF_REASON_PEER_ENDED);
	if (unlikely(ev & (TCP_ERROR | TCP_HUNG_UP)))
		moved_due(m, OSF_REASON_BROKEN);
	sock_notify(m->sk, poll_bits(ev) | READY_NEWS);
}
