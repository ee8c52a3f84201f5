/* SPDX-License-Identifier: MIT */
/*
 * proto/tcp/io.c - bytes to and from the engine
 *
 *     recv: a turn -> tcp_peek_at() -> the program's vectors -> tcp_consume()
 *     send: the program's vectors -> tcp_send_as() -> a turn
 *
 * Each call makes a turn with what has arrived, so that a program which only calls, and
 * never sleeps, drives its own connections.
 */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/libc.h"
#include "proto/tcp/conn.h"
#include "proto/tcp/grant.h"
#include "proto/tcp/wire.h"
#include "sock/cursor.h"
#include "sock/errq.h"
#include "sock/port_sends.h"
#include "tcp/calls.h"
#include "tcp/opt.h"

static bool is_bad(const struct iovec *iov, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (iov[i].iov_len && is_bad_ptr(iov[i].iov_base))
			return true;
	return false;
}

/* Copies up to @want bytes from the front of the queue, which stays as it is.  @to NULL:
 * only counts them.  Return: how many, or what tcp_peek_at() returns if there is none */
static ssize_t copy_out(struct tcp_conn *c, struct iov_cursor *to, size_t want)
{
	size_t done = 0;

	while (done < want) {
		const uint8_t *data;
		ssize_t n = tcp_peek_at(c, (uint32_t)done, &data);

		if (n <= 0)
			return done ? (ssize_t)done : n;
		size_t part = MIN((size_t)n, want - done);
		if (to)
			cursor_put(to, data, part);
		done += part;
	}
	return (ssize_t)done;
}

static ssize_t recv_locked(struct moved *m, const struct iovec *iov, size_t n,
			   int flags)
{
	struct iov_cursor at = { .iov = iov, .n = n };
	size_t want = MIN(iov_bytes(iov, n), (size_t)UINT32_MAX / 2);
	bool discards = flags & MSG_TRUNC;

	if (!want)
		return tcp_readable_bytes(m->c) ? 0 : -EAGAIN;
	if (!discards && is_bad(iov, n))
		return tcp_readable_bytes(m->c) ? -EFAULT : -EAGAIN;
	ssize_t r = copy_out(m->c, discards ? NULL : &at, want);
	if (r > 0 && !(flags & MSG_PEEK)) {
		tcp_consume(m->c, (uint32_t)r, wire_now());
		/* A delayed ACK needs a turn at the right time, and perhaps no thread makes
		 * one.  So if osfd does not send it for us, send it now. */
		if (unlikely(!grant_acknowledges(m)))
			moved_hurry(m);
		m->rx_bytes += (uint64_t)r;
		count(&m->sk->st->rx_bytes_inet, (uint64_t)r);
		count(&m->sk->st->rx_ops, 1);
	}
	m->events = tcp_poll(m->c);
	if (r > 0)
		moved_say(m);
	return r;
}

/* Has the kernel to have the connection before this call can go on? */
static bool goes_back(const struct moved *m, ssize_t r)
{
	return load_acq(&m->due) && r <= 0;
}

ssize_t moved_recv(struct sock *sk, int fd, const struct iovec *iov, size_t n,
		   int flags)
{
	int saved = errno;

	if (unlikely(flags & MSG_OOB)) {
		moved_back(sk, fd, OSF_REASON_URGENT);
		return -ESTALE;
	}
	sock_lock_rx(sk);
	struct moved *m = moved_of(sk);
	if (unlikely(sock_mode(sk) != SOCK_TCP || !m)) {
		sock_unlock_rx(sk);
		return -ESTALE;
	}
	wire_lock();
	if (wire_is_due())
		wire_turn();
	ssize_t r = recv_locked(m, iov, n, flags);
	wire_unlock();
	bool back = goes_back(m, r);
	enum osf_reason why = (enum osf_reason)m->due;
	sock_unlock_rx(sk);
	errno = saved;
	if (unlikely(back)) {
		moved_rest(sk, fd, why);
		return -ESTALE;
	}
	return r;
}

/*
 * Sending.
 */

static ssize_t send_locked(struct moved *m, const struct iovec *iov, size_t n,
			   int flags)
{
	struct iov_cursor c = { .iov = iov, .n = n };
	size_t all = iov_bytes(iov, n), want = MIN(all, moved_room(m)),
	       done = 0;
	unsigned how = flags & MSG_MORE ? TCP_SEND_MORE : 0;
	ssize_t r = want < all ? -EAGAIN : 0;

	if (is_bad(iov, n)) { /* an error of the connection comes first */
		r = tcp_send_as(m->c, NULL, 0, 0, wire_now());
		return r < 0 ? r : -EFAULT;
	}
	if (!want)
		return r;
	r = 0;
	while (done < want && r >= 0) {
		size_t len;
		struct iov_cursor before = c;
		const uint8_t *data = cursor_step(&c, want - done, &len);

		if (!len)
			continue;
		bool is_last = done + len == want;
		r = tcp_send_as(m->c, data, len,
				is_last ? how : how | TCP_SEND_MORE,
				wire_now());
		if (r > 0 && (size_t)r < len) {
			c = before;
			cursor_skip(&c, (size_t)r);
		}
		if (r > 0)
			escrow_put(&m->escrow, data, (uint32_t)r);
		done += r > 0 ? (size_t)r : 0;
	}
	if (done) {
		m->tx_bytes += done;
		count(&m->sk->st->tx_bytes_inet, done);
		count(&m->sk->st->tx_ops, 1);
		port_send_count();
	}
	m->events = tcp_poll(m->c);
	return done ? (ssize_t)done : r;
}

/*
 * Bytes that do not leave now would leave when an ACK arrives or a timer expires, but only
 * if the program then makes a call or sleeps in one.  The kernel sends them in any case, so
 * the connection goes back to it.  Without an osfd the bytes wait for such a call, or for
 * the next osfd.
 */
static bool is_left(struct moved *m, ssize_t r)
{
	engine_out(wire_engine, wire_now());
	if (!seq_eq(m->escrow.said, m->escrow.end))
		moved_say(m);
	return (r == -EAGAIN || tcp_unsent_bytes(m->c)) && wire_has_osfd();
}

ssize_t moved_send(struct sock *sk, int fd, const struct iovec *iov, size_t n,
		   int flags)
{
	int saved = errno;

	sock_lock_tx(sk);
	struct moved *m = moved_of(sk);
	if (unlikely(sock_mode(sk) != SOCK_TCP || !m)) {
		sock_unlock_tx(sk);
		return -ESTALE;
	}
	/* Nobody would send the bytes in time, were there no further call. */
	if (unlikely(flags & MSG_MORE) && !m->due)
		store_rel(&m->due, (uint32_t)OSF_REASON_OPTION);
	bool back = load_acq(&m->due);
	enum osf_reason why = (enum osf_reason)m->due;
	ssize_t r = -EAGAIN;
	bool bulk = false;
	if (likely(!back)) {
		wire_lock();
		if (wire_has_come())
			wire_turn();
		r = send_locked(m, iov, n, flags);
		bulk = is_left(m, r);
		wire_unlock();
	}
	sock_unlock_tx(sk);
	errno = saved;
	if (unlikely(bulk))
		moved_rest(sk, fd, OSF_REASON_BULK);
	if (unlikely(back)) {
		moved_rest(sk, fd, why);
		return -ESTALE;
	}
	return r;
}

/*
 * Counts.
 */

static int counted(struct sock *sk, uint32_t (*bytes)(const struct tcp_conn *))
{
	int n = -ESTALE;
	SOCK_GUARD_RX(sk);
	const struct moved *m = moved_of(sk);

	if (sock_mode(sk) != SOCK_TCP || !m)
		return n;
	wire_lock();
	wire_turn();
	n = (int)bytes(m->c);
	wire_unlock();
	return n;
}

int moved_inq(struct sock *sk, int fd)
{
	int n = counted(sk, tcp_readable_bytes);

	return n == -ESTALE ? sock_ops(sk)->inq(sk, fd) : n;
}

int moved_outq(struct sock *sk, int fd)
{
	int n = counted(sk, tcp_unacked_bytes);

	return n == -ESTALE ? sock_ops(sk)->outq(sk, fd) : n;
}

size_t moved_room_now(struct sock *sk, int fd)
{
	SOCK_GUARD_TX(sk);
	struct moved *m = moved_of(sk);

	if (sock_mode(sk) != SOCK_TCP || !m)
		return 0;
	wire_lock();
	wire_turn();
	size_t n = MIN(moved_room(m), tcp_room(m->c));
	wire_unlock();
	return n;
}
