/* SPDX-License-Identifier: MIT */
/*
 * preload/mmsg.c - sendmmsg() and recvmmsg(): on a stream, loops of the single
 * calls
 *
 * After some messages have moved, the next call returns the error, as in the
 * kernel.
 */
#include <limits.h>
#include <time.h>

#include "api/vma/vma.h"
#include "preload/data.h"

static bool is_vectors_bad(const struct mmsghdr *msgs, unsigned n)
{
	return n && is_bad_ptr(msgs);
}

static void pass_on_all(const struct mmsghdr *msgs, unsigned n)
{
	for (unsigned i = 0; i < n && i < UIO_MAXIOV; i++)
		if (unlikely(msgs[i].msg_hdr.msg_controllen))
			pass_on(&msgs[i].msg_hdr);
}

/* More vectors than the kernel takes: in a message it says so by another error than in writev(). */
static bool is_too_long(const struct msghdr *msg)
{
	return msg->msg_iovlen > IOV_MAX;
}

static int send_each(struct file *f, int fd, struct mmsghdr *msgs, unsigned n,
		     int flags)
{
	unsigned i = 0;

	for (; i < n && i < UIO_MAXIOV; i++) {
		struct msghdr *msg = &msgs[i].msg_hdr;
		ssize_t r = is_too_long(msg) ? -EMSGSIZE
					     : data_sendmsg(f, fd, msg, flags);

		if (r < 0 && i)
			sock_ops(f->sk)->error_later(f->sk, (int)-r);
		if (r < 0)
			return i ? (int)i : (int)r;
		msgs[i].msg_len = (unsigned)r;
		/* What did not fit goes before the next message. */
		if (r < vectors_check(msg->msg_iov, msg->msg_iovlen))
			return (int)i + 1;
	}
	return (int)i;
}

OSF_API int sendmmsg(int fd, struct mmsghdr *msgs, unsigned n, int flags)
{
	bool bad = is_vectors_bad(msgs, n);
	int saved = errno;

	if (vma_is_dummy(flags))
		return vma_dummy_sendmmsg(fd, msgs, n, flags);
	if (!bad)
		pass_on_all(msgs, n);
	CALL(c) = { .file = bad ? NULL : data_file(fd) };
	if (likely(!c.file)) {
		int r = libc.sendmmsg(fd, msgs, n, flags);

		went_past(past_of(fd));
		return vma_counts_sends() ? vma_sent_msgs(fd, msgs, r) : r;
	}
	call_may_sleep(&c);
	return (int)libc_ret(send_each(c.file, fd, msgs, n, flags), saved);
}

/* As the kernel, check the timeout after each message. */
static bool is_late(const struct timespec *start, const struct timespec *limit)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	int64_t ns = (now.tv_sec - start->tv_sec) * INT64_C(1000000000) +
		     (now.tv_nsec - start->tv_nsec);
	return ns >= limit->tv_sec * INT64_C(1000000000) + limit->tv_nsec;
}

/* As the kernel, ask for an error of the connection first: it comes before bytes.  POLLERR may
 * stand for completions of MSG_ZEROCOPY. */
static int pending_error(struct sock *sk, int fd)
{
	const struct sock_ops *ops = sock_ops(sk);
	int err = 0;
	socklen_t len = sizeof(err);

	if (likely(!(ops->events(sk, fd) & POLLERR)) ||
	    (err = ops->so_error(sk, fd)) >= 0)
		return err;
	return libc.getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len) ? 0 : err;
}

static int recv_each(struct file *f, int fd, struct mmsghdr *msgs, unsigned n,
		     int flags, const struct timespec *ts)
{
	struct timespec start;
	unsigned i = 0;

	if (ts &&
	    (ts->tv_sec < 0 || ts->tv_nsec < 0 || ts->tv_nsec > 999999999))
		return -EINVAL;
	int err = flags & MSG_ERRQUEUE ? 0 : pending_error(f->sk, fd);
	if (err)
		return -err;
	clock_gettime(CLOCK_MONOTONIC, &start);
	while (i < n && i < UIO_MAXIOV &&
	       (!i || io_has_more(f->sk, fd, flags))) {
		struct msghdr *msg = &msgs[i].msg_hdr;
		ssize_t r =
		    is_too_long(msg)
			? -EMSGSIZE
			: data_recvmsg(f, fd, msg, flags & ~MSG_WAITFORONE);

		if (r < 0 && i && r != -EAGAIN)
			sock_ops(f->sk)->error_later(f->sk, (int)-r);
		if (r < 0)
			return i ? (int)i : (int)r;
		msgs[i++].msg_len = (unsigned)r;
		if (flags & MSG_WAITFORONE)
			flags |= MSG_DONTWAIT;
		if (ts && is_late(&start, ts))
			break;
	}
	return (int)i;
}

/* The kernel keeps an error of its own for the next call itself. */
static int recv_by_kernel(struct call *c, int fd, struct mmsghdr *msgs,
			  unsigned n, int flags, struct timespec *ts)
{
	int r = libc.recvmmsg(fd, msgs, n, flags, ts);
	ssize_t bytes = 0;

	for (int i = 0; i < r; i++)
		bytes += msgs[i].msg_len;
	call_leave(c, DIR_RX, bytes);
	data_moved(c->file, fd, DIR_RX, bytes);
	return r;
}

OURS int recvmmsg_ours(int fd, struct mmsghdr *msgs, unsigned n, int flags,
		       struct timespec *ts)
{
	CALL(c) = { .file = data_file(fd) };
	int saved = errno;

	if (unlikely(!c.file || is_vectors_bad(msgs, n) ||
		     (ts && is_bad_ptr(ts))))
		return libc.recvmmsg(fd, msgs, n, flags, ts);
	call_may_sleep(&c);
	if (call_enter(&c))
		return recv_by_kernel(&c, fd, msgs, n, flags, ts);
	return (int)libc_ret(recv_each(c.file, fd, msgs, n, flags, ts), saved);
}

OSF_API int recvmmsg(int fd, struct mmsghdr *msgs, unsigned n, int flags,
		     struct timespec *ts)
{
	if (vma_has(fd))
		return vma_recvmmsg(fd, msgs, n, flags, ts);
	return likely(!file_serves(fd)) ? libc.recvmmsg(fd, msgs, n, flags, ts)
					: recvmmsg_ours(fd, msgs, n, flags, ts);
}
