/* SPDX-License-Identifier: MIT */
/* sock/idle.c - see sock/idle.h */
#include <errno.h>
#include <sys/ioctl.h>

#include "base/clock.h"
#include "base/libc.h"
#include "base/sockopt.h"
#include "sock/cursor.h"
#include "sock/idle.h"
#include "sock/opt.h"
#include "sock/sock_ops.h"
#include "sock/wait.h"

/* The kernel's timeouts for a call on @fd: struct sock knows them only while the bytes are
 * ours. */
struct call_wait idle_wait_of(int fd, int dir)
{
	uint64_t ns =
	    opt_timeout_ns(fd, dir == DIR_RX ? SO_RCVTIMEO : SO_SNDTIMEO);

	return (struct call_wait){ .dir = dir,
				   .deadline_ns =
				       ns ? now_ns() + ns : UINT64_MAX,
				   .seen = handlers_seen() };
}

bool idle_may_wait(const struct sock *sk, int flags)
{
	return !(flags & (MSG_DONTWAIT | MSG_OOB | MSG_ERRQUEUE)) &&
	       !load_rlx(&sk->w->nonblock);
}

/* Sleeps until the socket has one of the events @want; *@events are all that it has.  *@fd: a
 * descriptor of the socket, in and out: see wait_fd(). */
int idle_wait_until(struct sock *sk, int *fd, struct call_wait *w,
		    unsigned want, unsigned *events)
{
	while (!((*events = sock_ops(sk)->events(sk, *fd)) & want)) {
		int err = wait_asleep(sk, *fd, w);
		int open = wait_fd(sk, *fd, w->seen);

		if (err && (err != -EBADF || open == *fd))
			return waiter_ended(w, err);
		*fd = open;
	}
	return 0;
}

/* POLLERR may be a completion of MSG_ZEROCOPY, which ends no blocking call. */
unsigned idle_ends_of(const struct sock *sk)
{
	return load_rlx(&sk->w->zc_on) ? POLLHUP : POLLERR | POLLHUP;
}

static int wait_first(struct sock *sk, int *fd, struct call_wait *w, int flags)
{
	unsigned events, want = w->dir == DIR_RX ? POLLIN | POLLRDHUP : POLLOUT;

	return idle_may_wait(sk, flags)
		   ? idle_wait_until(sk, fd, w, want | idle_ends_of(sk),
				     &events)
		   : 0;
}

COLD int wait_idle(struct sock *sk, int *fd, int dir, int flags)
{
	struct call_wait w = idle_wait_of(*fd, dir);

	return wait_first(sk, fd, &w, flags);
}

/* May a call with MSG_WAITALL go in parts?  Not if it only looks, or if poll() waits for
 * more than a byte. */
static bool may_cut(const struct sock *sk, int fd, const struct msghdr *msg,
		    int flags)
{
	return flags & MSG_WAITALL && !(flags & MSG_PEEK) &&
	       !msg->msg_controllen && idle_may_wait(sk, flags) &&
	       sockopt_int(fd, SOL_SOCKET, SO_RCVLOWAT) <= 1;
}

static bool is_at_mark(int fd)
{
	int is = 0;

	return !libc.ioctl(fd, SIOCATMARK, &is) && is;
}

struct receiving {
	struct sock *sk;
	int fd;
	struct call_wait w;
	struct iov_cursor c;
	struct msghdr *msg;
	size_t want, done;
};

/* Takes at most @max of the bytes that are there.  Bytes, 0 at the end, or -errno. */
static ssize_t recv_part(struct receiving *r, size_t max, int flags)
{
	struct iovec rest[CURSOR_REST_MAX];
	struct msghdr part = *r->msg;

	part.msg_iov = rest;
	part.msg_iovlen = cursor_rest(&r->c, rest, max);
	ssize_t n =
	    libc.recvmsg(r->fd, &part, (flags & ~MSG_WAITALL) | MSG_DONTWAIT);
	if (n < 0)
		return -errno;
	r->msg->msg_namelen = part.msg_namelen;
	r->msg->msg_flags = part.msg_flags;
	r->done += (size_t)n;
	cursor_skip(&r->c, (size_t)n);
	return n;
}

/* The rest of a call that has its first bytes.  What ends it early is left to the next
 * call: so it takes no more than FIONREAD says, and stops at the urgent mark. */
static void recv_rest(struct receiving *r, int flags)
{
	unsigned ends = POLLRDHUP | idle_ends_of(r->sk), events;

	r->w.partial = true;
	while (r->done < r->want && !is_at_mark(r->fd)) {
		int n = 0;

		if (idle_wait_until(r->sk, &r->fd, &r->w,
				    POLLIN | POLLPRI | ends, &events) ||
		    libc.ioctl(r->fd, FIONREAD, &n) < 0 ||
		    (n <= 0 && events & ends))
			return;
		ssize_t got =
		    n > 0
			? recv_part(r, MIN(r->want - r->done, (size_t)n), flags)
			: -EAGAIN; /* another thread was faster */
		if (got <= 0 && got != -EAGAIN)
			return;
	}
}

COLD ssize_t idle_recv(struct sock *sk, int fd, struct msghdr *msg, int flags)
{
	struct receiving r = { .sk = sk,
			       .fd = fd,
			       .w = idle_wait_of(fd, DIR_RX),
			       .c = { .iov = msg->msg_iov,
				      .n = msg->msg_iovlen },
			       .msg = msg };
	ssize_t n;

	r.want = iov_bytes(msg->msg_iov, msg->msg_iovlen);
	do {
		n = wait_first(sk, &r.fd, &r.w, flags);
		if (n < 0)
			return n;
		if (!may_cut(sk, r.fd, msg, flags)) {
			n = libc.recvmsg(r.fd, msg, flags);
			return n < 0 ? -errno : n;
		}
		n = recv_part(&r, r.want, flags);
	} while (n == -EAGAIN); /* another thread was faster */
	if (n > 0)
		recv_rest(&r, flags);
	return n > 0 ? (ssize_t)r.done : n;
}
