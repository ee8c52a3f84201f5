/* SPDX-License-Identifier: MIT */
/*
 * proto/module/io.c - bytes to and from a module
 *
 *     recv:  held bytes, then the module's, then (fallen back) the kernel's
 *     send:  the module's; (fallen back) the kernel's
 *
 * A module may give and take as little as it likes: we ask until it has no more, as the
 * kernel's calls do.  Bytes that a call only wants to see or to count (MSG_PEEK, FIONREAD,
 * SO_RCVLOWAT) are taken out of the module and held here.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/libc.h"
#include "base/nocancel.h"
#include "proto/module/stream.h"
#include "sock/anchor.h"
#include "sock/cursor.h"
#include "sock/errq.h"
#include "sock/switch.h"

#define HELD_MIN 4096u
#define HELD_MAX (1u << 20) /* for who only counts */
#define SCRATCH 4096u

/* The next vectors, at most @max bytes: none of them is empty. */
static size_t rest_of(const struct iov_cursor *c, struct iovec *rest,
		      size_t max)
{
	size_t n = cursor_rest(c, rest, max), kept = 0;

	for (size_t i = 0; i < n; i++)
		if (rest[i].iov_len)
			rest[kept++] = rest[i];
	return kept;
}

/* One call of the module's; the caller holds rx_lock. */
static ssize_t ask(struct osf_sock *s, const struct iovec *iov, size_t n)
{
	/* Asked before recv(): what comes before the end is there by now. */
	bool is_over = load_acq(&s->is_over);
	bool is_back = s->tx_back || load_acq(&s->peer_back);
	ssize_t r;

	if (s->is_gone)
		return -ECONNRESET;
	stream_turn(s);
	STREAM_RUN(s->ops, r =, s->ops->recv(s->conn, iov, n, 0));
	if (r > 0)
		s->rx_bytes += (uint64_t)r;
	/* The end is behind the last byte, whenever the error came. */
	if ((r == -EAGAIN && unlikely(is_over)) ||
	    (!r && unlikely(load_acq(&s->is_over))))
		return -(ssize_t)xchg(&s->err, 0);
	return r == -EAGAIN && unlikely(is_back) ? -ESTALE : r;
}

static bool held_grow(struct osf_sock *s, size_t room)
{
	size_t used = stream_held(s), cap = MAX(s->held.cap, HELD_MIN);

	if (s->held.at && used)
		memmove(s->held.data, s->held.data + s->held.at, used);
	store_rlx(&s->held.at, 0u);
	store_rlx(&s->held.end, used);
	while (cap < used + room)
		cap *= 2;
	uint8_t *data =
	    cap > s->held.cap ? realloc(s->held.data, cap) : s->held.data;
	if (!data)
		return false;
	s->held.data = data;
	s->held.cap = cap;
	return true;
}

int stream_pull(struct osf_sock *s, size_t want)
{
	while (stream_held(s) < want) {
		if (s->rx_back)
			return -ESTALE;
		if (s->rx_err || s->rx_ended)
			return 0;
		if (!held_grow(s, MIN(want - stream_held(s), SCRATCH)))
			return -ENOMEM;
		struct iovec iov = { s->held.data + s->held.end,
				     s->held.cap - s->held.end };
		ssize_t r = ask(s, &iov, 1);

		if (r > 0)
			store_rlx(&s->held.end, s->held.end + (size_t)r);
		else if (!r)
			s->rx_ended = 1;
		else if (r == -EAGAIN || r == -ESTALE)
			return (int)r;
		else
			s->rx_err = (int32_t)-r;
	}
	return 0;
}

/* Bytes of the held ones; without @c they are discarded. */
static size_t from_held(struct osf_sock *s, struct iov_cursor *c, size_t want,
			bool stays)
{
	size_t n = MIN(stream_held(s), want);

	if (c)
		cursor_put(c, s->held.data + s->held.at, n);
	if (!stays)
		store_rlx(&s->held.at, s->held.at + n);
	return n;
}

/* The next error, or the end. */
static ssize_t ended(struct osf_sock *s)
{
	int err = s->rx_err;

	s->rx_err = 0;
	return -(err ? err : xchg(&s->err, 0));
}

static ssize_t peek(struct osf_sock *s, struct iov_cursor *c, size_t want)
{
	int err = stream_pull(s, want);
	size_t n = from_held(s, c, want, true);

	if (n)
		return (ssize_t)n;
	return err ? err : ended(s);
}

/* Without @c the bytes are discarded. */
static ssize_t next(struct osf_sock *s, const struct iov_cursor *c, size_t want)
{
	struct iovec rest[CURSOR_REST_MAX];
	uint8_t scratch[SCRATCH];

	if (c)
		return ask(s, rest, rest_of(c, rest, want));
	rest[0] = (struct iovec){ scratch, MIN(want, sizeof(scratch)) };
	return ask(s, rest, 1);
}

static ssize_t read_on(struct osf_sock *s, struct iov_cursor *c, size_t want)
{
	size_t done = from_held(s, c, want, false);

	while (done < want && !s->rx_err && !s->rx_ended) {
		ssize_t r = next(s, c, want - done);

		if (!r)
			s->rx_ended = 1;
		if (r <= 0 && (r == -EAGAIN || r == -ESTALE || !done))
			return done ? (ssize_t)done : r;
		if (r < 0)
			s->rx_err = (int32_t)-r;
		if (r <= 0)
			break;
		done += (size_t)r;
		if (c)
			cursor_skip(c, (size_t)r);
	}
	return done ? (ssize_t)done : ended(s);
}

static bool is_bad(const struct iovec *iov, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (iov[i].iov_len && is_bad_ptr(iov[i].iov_base))
			return true;
	return false;
}

/* No room, or none that can be written: as the kernel, once there is something to read. */
static ssize_t read_nothing(struct osf_sock *s, size_t want)
{
	int err = stream_pull(s, 1);

	if (err)
		return err;
	return want && stream_held(s) ? -EFAULT : 0;
}

void stream_rx_look(struct osf_sock *s, int fd, bool is_over)
{
	if (!s->tx_back || s->rx_back || stream_held(s) || s->rx_err)
		return;
	if (s->rx_ended)
		libc.shutdown(fd, SHUT_RD); /* the stream's end, for TCP */
	if (s->rx_ended || is_over)
		store_rlx(&s->rx_back, (uint8_t)1);
}

static ssize_t recv_kernel(const struct sock *sk, int fd,
			   const struct iovec *iov, size_t n, int flags)
{
	struct msghdr msg = { .msg_iov = (struct iovec *)iov, .msg_iovlen = n };

	if (!(flags & MSG_OOB) && anchor_is_urgent_alone(sk, fd, flags))
		return -EAGAIN;
	ssize_t r = nocancel_recvmsg(fd, &msg, flags | MSG_DONTWAIT);

	return r < 0 ? -errno : r;
}

/* -ESTALE: the peer has fallen back, and all before it is read. */
static ssize_t recv_locked(struct osf_sock *s, int fd, const struct iovec *iov,
			   size_t n, int flags)
{
	struct iov_cursor at = { .iov = iov, .n = n }, *c = &at;
	size_t want = iov_bytes(iov, n);

	if (s->rx_back || flags & MSG_OOB)
		return recv_kernel(s->sk, fd, iov, n, flags);
	if (flags & MSG_TRUNC)
		c = NULL;
	ssize_t r;
	if (!want || (c && is_bad(iov, n)))
		r = read_nothing(s, want);
	else
		r = flags & MSG_PEEK ? peek(s, c, want) : read_on(s, c, want);
	if (r == -EAGAIN && load_rlx(&s->sk->w->shut) & SHUT_BIT_RD)
		return 0;
	stream_rx_look(s, fd, r == -ESTALE);
	return r == -ESTALE && s->rx_back
		   ? recv_kernel(s->sk, fd, iov, n, flags)
		   : r;
}

ssize_t stream_recv(struct sock *sk, int fd, const struct iovec *iov, size_t n,
		    int flags)
{
	struct osf_sock *s = stream_of(sk);
	ssize_t r;

	do {
		SOCK_GUARD_RX(sk);
		r = recv_locked(s, fd, iov, n, flags);
	} while (r == -ESTALE && stream_follow(sk, fd));
	if (unlikely(load_rlx(&s->rx_back)))
		stream_retire(sk);
	return r;
}

int stream_inq(struct sock *sk, int fd)
{
	struct osf_sock *s = stream_of(sk);
	int n = 0;
	SOCK_GUARD_RX(sk);

	if (s->rx_back)
		return libc.ioctl(fd, FIONREAD, &n) < 0 ? -errno : n;
	if (stream_pull(s, HELD_MAX) == -ESTALE) /* TCP goes on behind it */
		libc.ioctl(fd, FIONREAD, &n);
	return (int)stream_held(s) + n;
}

/*
 * Sending.
 */

static ssize_t send_kernel(int fd, const struct iovec *iov, size_t n, int flags)
{
	struct msghdr msg = { .msg_iov = (struct iovec *)iov, .msg_iovlen = n };
	ssize_t r = nocancel_sendmsg(
	    fd, &msg, (flags | MSG_NOSIGNAL | MSG_DONTWAIT) & ~MSG_ZEROCOPY);

	if (r > 0)
		sock_went_past();
	return r < 0 ? -errno : r;
}

/* What the module answers may be due to what has ended the connection meanwhile. */
static ssize_t give(struct osf_sock *s, const struct iovec *iov, size_t n,
		    int flags)
{
	ssize_t r = 0;

	if (likely(!load_acq(&s->peer_back) && !load_acq(&s->is_over)))
		STREAM_RUN(s->ops, r =, s->ops->send(s->conn, iov, n, flags));
	if (likely(r > 0))
		return r;
	if (load_acq(&s->peer_back))
		return -ESTALE;
	return load_acq(&s->is_over) ? stream_failed(s) : r;
}

/* As much as the module takes. */
static ssize_t offer(struct osf_sock *s, const struct iovec *iov, size_t n,
		     int flags)
{
	struct iov_cursor c = { .iov = iov, .n = n };
	struct iovec rest[CURSOR_REST_MAX];
	size_t want = iov_bytes(iov, n), done = 0;

	while (done < want) {
		size_t k = rest_of(&c, rest, want - done);
		ssize_t r = give(s, rest, k, flags);

		if (r <= 0)
			return done ? (ssize_t)done : r;
		done += (size_t)r;
		s->tx_bytes += (uint64_t)r;
		cursor_skip(&c, (size_t)r);
	}
	return (ssize_t)done;
}

static ssize_t send_locked(struct osf_sock *s, int fd, const struct iovec *iov,
			   size_t n, int flags)
{
	if (load_rlx(&s->sk->w->shut) & SHUT_BIT_WR)
		return stream_failed(s);
	if (s->tx_back)
		return send_kernel(fd, iov, n, flags);
	if (s->is_gone)
		return -ECONNRESET;
	if (is_bad(iov, n))
		return load_acq(&s->is_over) ? stream_failed(s) : -EFAULT;
	return offer(s, iov, n, flags & MSG_MORE);
}

ssize_t stream_send(struct sock *sk, int fd, const struct iovec *iov, size_t n,
		    int flags)
{
	struct osf_sock *s = stream_of(sk);
	ssize_t r;

	do {
		SOCK_GUARD_TX(sk);
		r = send_locked(s, fd, iov, n, flags);
	} while (r == -ESTALE && stream_follow(sk, fd));
	if (unlikely(flags & MSG_ZEROCOPY) && r > 0 && load_rlx(&sk->w->zc_on))
		errq_copied(sk);
	return r;
}
