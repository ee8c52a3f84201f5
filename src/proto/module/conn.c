/* SPDX-License-Identifier: MIT */
/* proto/module/conn.c - see proto/module/stream.h */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/libc.h"
#include "base/log.h"
#include "base/nocancel.h"
#include "proto/module/stream.h"
#include "sock/arena.h"
#include "sock/errq.h"
#include "sock/linger.h"
#include "sock/opt.h"

/* Other threads' calls on a socket that is not connected end at once. */
#define QUIET_NS (10 * NS_PER_MS)
#define STASH_MIN (64u * 1024)

struct lock stream_serial;

void stream_before_fork(void)
{
	lock_get(&stream_pairs);
	lock_get(&stream_serial);
}

/* The child's are held since stream_before_fork(), too. */
void stream_after_fork(void)
{
	lock_put(&stream_serial);
	lock_put(&stream_pairs);
}

struct osf_sock *stream_new(struct sock *sk, const struct osf_stream_ops *ops)
{
	struct osf_sock *s = calloc(1, sizeof(*s));

	if (s)
		*s = (struct osf_sock){ .sk = sk, .ops = ops };
	return s;
}

void stream_discard(struct osf_sock *s)
{
	pair_forget(s);
	free(s->held.data);
	free(s);
}

int stream_failed(struct osf_sock *s)
{
	int err = xchg(&s->err, 0);

	return err ? -err : -EPIPE;
}

bool stream_enter(struct osf_sock *s)
{
	lock_enter();
	fetch_add(&s->n_inside, 1); /* Dekker with stream_end() */
	return !load_seq(&s->is_gone);
}

void stream_leave(struct osf_sock *s)
{
	fetch_sub(&s->n_inside, 1);
	lock_leave();
}

/* No op runs any more, and none will.  False: it is gone already. */
static bool take_conn(struct osf_sock *s)
{
	if (xchg(&s->is_gone, 1u))
		return false;
	while (load_seq(&s->n_inside))
		cpu_relax();
	return true;
}

void stream_end(struct osf_sock *s, int linger_s)
{
	if (!take_conn(s))
		return;
	lock_enter();
	STREAM_RUN(s->ops, , s->ops->close(s->conn, linger_s));
	lock_leave();
}

/* One step of a connect() that has not decided.  0: it has not yet. */
static int decide(struct osf_sock *s)
{
	unsigned ev;

	sock_lock_rx(s->sk);
	stream_turn(s);
	STREAM_RUN(s->ops, ev =, s->ops->events(s->conn));
	sock_unlock_rx(s->sk);
	if (load_acq(&s->is_over))
		return stream_failed(s);
	return (ev & OSF_EVENT_OUT) != 0;
}

int stream_await(struct osf_sock *s, unsigned timeout_ms)
{
	uint64_t end = now_ns() + timeout_ms * NS_PER_MS;
	struct timespec ms = { .tv_nsec = NS_PER_MS };
	int r;

	while (!(r = decide(s))) {
		if (now_ns() >= end)
			r = -ETIMEDOUT;
		else if (nocancel_ppoll(NULL, 0, &ms, NULL) < 0)
			r = -errno;
		if (r)
			break;
	}
	if (r < 0)
		stream_end(s, 0);
	return MIN(r, 0);
}

int stream_begin(struct osf_sock *s, int fd)
{
	struct sock *sk = s->sk;
	uint64_t end = now_ns() + QUIET_NS;

	while (!sock_start_moving(sk)) {
		if (now_ns() > end) {
			stream_end(s, 0);
			return -EBUSY;
		}
		sched_yield();
	}
	opt_read(sk, fd);
	errq_zerocopy_changed(sk, fd);
	*(struct osf_sock **)(void *)(sk->conn + STREAM_AT) = s;
	sk->st->proto = OSF_PROTO_MODULE;
	sock_set_reason(sk, OSF_REASON_MODULE);
	sock_set_mode(sk, SOCK_MODULE);
	return 0;
}

/* To take bytes out gives the peer room, so do that only if it sends no more. */
static bool is_unread(struct osf_sock *s)
{
	unsigned ev;

	stream_turn(s);
	STREAM_RUN(s->ops, ev =, s->ops->events(s->conn));
	if (ev & OSF_EVENT_RDHUP)
		stream_pull(s, 1);
	return stream_held(s) ||
	       (ev & (OSF_EVENT_IN | OSF_EVENT_RDHUP)) == OSF_EVENT_IN;
}

/* As the kernel: a reset if the program has left bytes unread. */
void stream_close(struct sock *sk, int fd)
{
	struct osf_sock *s = stream_of(sk);

	if (!sock_lock_mode(sk, SOCK_MODULE))
		return;
	bool unread = !s->is_gone && !s->rx_back && is_unread(s);
	stream_end(s, linger_at_close(fd, unread));
	sock_unlock_both(sk);
}

/* Other threads may still be inside: nothing is freed. */
void stream_exit(struct sock *sk, int fd)
{
	struct osf_sock *s = stream_of(sk);
	void (*op)(void *) = STREAM_OP(s->ops, exit);

	if (!op) {
		stream_close(sk, fd);
		return;
	}
	if (!sock_lock_mode(sk, SOCK_MODULE))
		return;
	if (take_conn(s))
		STREAM_RUN(s->ops, , op(s->conn));
	sock_unlock_both(sk);
}

/* It stayed the parent's; see before_fork() in file/fork.c. */
void stream_inherited(struct sock *sk)
{
	struct osf_sock *s = stream_of(sk);
	void (*op)(void *) = STREAM_OP(s->ops, exit);

	s->n_inside = 0; /* the parent's other threads are not here */
	if (!take_conn(s))
		return;
	if (op)
		STREAM_RUN(s->ops, , op(s->conn));
	log_info("fd %d: a module's connection stays with the parent",
		 sk->st->fd);
}

void stream_free(const struct sock *sk)
{
	struct osf_sock *s = stream_of(sk);

	if (!s)
		return;
	stream_end(s, -1);
	stream_discard(s);
}

/* The caller holds both locks. */
static void reset(struct osf_sock *s, int fd, const char *why)
{
	struct sockaddr unspec = { .sa_family = AF_UNSPEC };

	if (s->is_gone) /* the anchor may be the parent's, who goes on with it */
		return;
	log_err("fd %d: connection reset: %s", fd, why);
	count(&arena_totals()->n_broken, 1);
	stream_end(s, 0);
	nocancel_connect(fd, &unspec, sizeof(unspec));
}

void stream_reset(struct sock *sk, int fd, const char *why)
{
	sock_lock_rx(sk);
	sock_lock_tx(sk);
	reset(stream_of(sk), fd, why);
	sock_unlock_both(sk);
}

/*
 * Falling back.
 */

/* If nobody has accepted the peer's end yet, TCP gets what it has been sent. */
static int send_first(const struct osf_sock *s, int fd)
{
	struct osf_sock *peer = pair_unaccepted(s);
	int err = 0;

	if (!peer)
		return 0;
	store_rlx(&peer->peer_back, (uint8_t)1); /* it gives all that it has */
	stream_pull(peer, SIZE_MAX);
	size_t n = stream_held(peer);
	if (n && nocancel_send(fd, peer->held.data + peer->held.at, n,
			       MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)n)
		err = -ENOBUFS;
	stream_end(peer, -1);
	stream_discard(peer);
	return err;
}

/* The directions that the program has shut. */
static void shut_anchor(const struct sock *sk, int fd)
{
	if (sk->w->shut & SHUT_BIT_RD)
		libc.shutdown(fd, SHUT_RD);
	if (sk->w->shut & SHUT_BIT_WR)
		libc.shutdown(fd, SHUT_WR);
}

/* The caller holds both locks. */
static int go_back(struct osf_sock *s, int fd, enum osf_reason why)
{
	int (*to_kernel)(void *, int) = STREAM_OP(s->ops, to_kernel);
	int err = -EOPNOTSUPP;

	if (s->tx_back)
		return 0;
	if (to_kernel && !s->is_gone)
		STREAM_RUN(s->ops, err =, to_kernel(s->conn, fd));
	if (err)
		return err;
	store_rlx(&s->tx_back, (uint8_t)1);
	sock_set_reason(s->sk, why);
	count(&arena_totals()->n_fallbacks, 1);
	err = send_first(s, fd);
	if (err) {
		reset(s, fd, "no room in TCP for what was sent");
		return err;
	}
	shut_anchor(s->sk, fd);
	return 0;
}

/* Both directions are the kernel's now.  The caller holds both locks.  A socket
 * whose sends we have numbered (MSG_ZEROCOPY) keeps the module's table, because
 * the program must still learn of them.
 */
static void become_kernels(struct osf_sock *s)
{
	struct sock *sk = s->sk;

	store_rlx(&s->rx_back, (uint8_t)1);
	stream_end(s, -1);
	sk->st->proto = OSF_PROTO_INET;
	if (!load_rlx(&sk->w->zc_next))
		sock_set_mode(sk, SOCK_KERNEL);
	sock_notify(sk, POLLIN | POLLOUT | READY_NEWS);
}

void stream_retire(struct sock *sk)
{
	if (!sock_lock_mode(sk, SOCK_MODULE))
		return;
	struct osf_sock *s = stream_of(sk);

	if (s->tx_back && s->rx_back && !s->is_gone)
		become_kernels(s);
	sock_unlock_both(sk);
}

bool stream_to_kernel(struct sock *sk, int fd, enum osf_reason why)
{
	int saved = errno;

	if (!sock_lock_mode(sk, SOCK_MODULE))
		return true;
	struct osf_sock *s = stream_of(sk);
	int err = go_back(s, fd, why);

	/* What the program has not read is held; then TCP may go on. */
	if (!err)
		stream_rx_look(s, fd, stream_pull(s, SIZE_MAX) == -ESTALE);
	sock_unlock_both(sk);
	if (err)
		log_info("fd %d: a module's connection cannot fall back: %s",
			 fd, strerror(-err));
	else
		sock_notify(sk, POLLIN | POLLOUT | READY_NEWS);
	stream_retire(sk);
	errno = saved;
	return !err;
}

bool stream_follow(struct sock *sk, int fd)
{
	if (!stream_to_kernel(sk, fd, OSF_REASON_PEER_BACK))
		stream_reset(sk, fd, "the module cannot follow its peer");
	return true;
}

/* A stash is mapped memory: see sock/stash.h. */
static int stash_held(struct osf_sock *s, struct stash *st)
{
	size_t n = stream_held(s), cap = STASH_MIN;

	while (cap < n)
		cap *= 2;
	if (!n)
		return 0;
	void *at = mmap(NULL, cap, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		return -ENOMEM;
	memcpy(at, s->held.data + s->held.at, n);
	*st = (struct stash){ .data = at, .n = n, .cap = cap };
	s->held.at = s->held.end;
	return 0;
}

/* Everything unread goes into the stash.  The caller holds both locks. */
static int drain(struct osf_sock *s, int fd, struct stash *st)
{
	int r = stream_pull(s, SIZE_MAX);
	int err = stash_held(s, st);

	if (err || (r != -ESTALE && !s->rx_ended))
		return err ? err : -EPROTO;
	st->has_end = s->rx_ended;
	if (s->rx_ended && !st->n)
		libc.shutdown(fd, SHUT_RD);
	return 0;
}

int stream_to_kernel_now(struct sock *sk, int fd, enum osf_reason why,
			 bool gently, struct stash *stash)
{
	int saved = errno, r = 0;

	if (!sock_lock_mode(sk, SOCK_MODULE))
		return 0;
	struct osf_sock *s = stream_of(sk);
	int err = go_back(s, fd, why);
	bool stays = err && gently && !s->is_gone;

	if (!err && !s->rx_back)
		err = drain(s, fd, stash);
	if (err && !stays)
		reset(s, fd, "another process gets it");
	if (!stays)
		become_kernels(s);
	if (!err)
		r = stash->n > 0;
	sock_unlock_both(sk);
	errno = saved;
	return r;
}
