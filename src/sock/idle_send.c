/* SPDX-License-Identifier: MIT */
/* sock/idle_send.c - calls that send, and connect(); see sock/idle.h */
#include <errno.h>
#include <linux/sock_diag.h>
#include <poll.h>
#include <pthread.h>

#include "base/connect.h"
#include "base/libc.h"
#include "sock/cursor.h"
#include "sock/idle.h"
#include "sock/shared.h"

/* A call may send a page once poll() has said that there is room. */
#define PAGE 4096u

struct sending {
	struct sock *sk;
	int fd;
	struct call_wait w;
	size_t done;
};

/* Wait for room.  If the connection has ended after a part, the error is for the next
 * call. */
static int wait_room(struct sending *s)
{
	unsigned events;

	s->w.partial = s->done > 0;
	int err = idle_wait_until(s->sk, &s->fd, &s->w,
				  POLLOUT | idle_ends_of(s->sk), &events);
	struct handlers_seen now = handlers_seen();
	if (err)
		return err;
	if (waiter_restarts(&s->w) && now.n_ends == s->w.seen.n_ends)
		s->w.seen = now; /* the kernel would begin the call anew */
	return s->done && events & idle_ends_of(s->sk) ? -EPIPE : 0;
}

/* The part of a call that cannot be cut. */
static ssize_t send_whole(struct sending *s, const struct msghdr *msg,
			  int flags)
{
	int err = idle_may_wait(s->sk, flags & MSG_DONTWAIT) ? wait_room(s) : 0;
	ssize_t r = err ? err : libc.sendmsg(s->fd, msg, flags);

	return r < 0 && !err ? -errno : r;
}

/* MSG_FASTOPEN connects, and sends what the SYN takes: bytes, or -errno.  A second connect()
 * says how the first has ended. */
static ssize_t send_first(struct sending *s, const struct msghdr *msg,
			  int flags)
{
	unsigned events;
	ssize_t r = libc.sendmsg(s->fd, msg, flags | MSG_DONTWAIT);
	int begun = r < 0 ? -errno : 0;

	if (begun && begun != -EINPROGRESS)
		return begun;
	int err = idle_wait_until(s->sk, &s->fd, &s->w,
				  POLLOUT | idle_ends_of(s->sk), &events);
	if (err)
		return err != -EAGAIN ? err : begun ? begun : r;
	err = libc.connect(s->fd, msg->msg_name, msg->msg_namelen) < 0 ? -errno
								       : 0;
	return err && err != -EISCONN ? err : MAX(r, (ssize_t)0);
}

/* Bytes of @len that go with the last part of a call, because its control messages and its
 * urgent byte belong to the end. */
static size_t kept_to_end(const struct msghdr *msg, size_t len, int flags)
{
	return msg->msg_controllen || flags & MSG_OOB ? MIN(len, PAGE) : 0;
}

/* May the call be made in parts?  Not if each part would repeat what the call does only
 * once: connect, or use up a number of MSG_ZEROCOPY. */
static bool may_send_parts(const struct sock *sk, const struct msghdr *msg,
			   size_t last, int flags)
{
	if (!idle_may_wait(sk, flags & ~MSG_OOB))
		return false;
	if (flags & MSG_FASTOPEN)
		return !last && msg->msg_name && !(flags & MSG_ZEROCOPY);
	return !last || !(flags & MSG_ZEROCOPY);
}

/* The error with which the kernel would refuse the call before it takes a byte, or 0. */
static int refused_control(struct sending *s, const struct msghdr *msg,
			   int flags)
{
	struct msghdr none = *msg;
	int err = 0;

	none.msg_iovlen = 0;
	flags = (flags & ~MSG_OOB) | MSG_DONTWAIT;
	while (!err && libc.sendmsg(s->fd, &none, flags) < 0)
		err = errno == EAGAIN ? wait_room(s) : -errno;
	return err;
}

/* Sends @len bytes in parts for which there is room.  0 or the error that ends it. */
static int send_parts(struct sending *s, struct iov_cursor *c, size_t len,
		      struct msghdr *part, int flags)
{
	struct iovec rest[CURSOR_REST_MAX];

	for (;;) {
		part->msg_iov = rest;
		part->msg_iovlen = cursor_rest(c, rest, len - s->done);
		ssize_t r = libc.sendmsg(s->fd, part, flags | MSG_DONTWAIT);
		int err = r < 0 ? -errno : 0;

		if (err == -EAGAIN)
			err = wait_room(s);
		if (err)
			return err;
		if (r < 0)
			continue;
		s->done += (size_t)r;
		cursor_skip(c, (size_t)r);
		flags &= ~MSG_ZEROCOPY;
		if (s->done >= len)
			return 0;
	}
}

/* The last @n bytes of a call, with all that the program has said. */
static int send_last(struct sending *s, struct iov_cursor *c, size_t n,
		     const struct msghdr *msg, int flags)
{
	struct iovec rest[CURSOR_REST_MAX];
	struct msghdr part = *msg;

	part.msg_iov = rest;
	part.msg_iovlen = cursor_rest(c, rest, n);
	ssize_t r = send_whole(s, &part, flags);
	s->done += r > 0 ? (size_t)r : 0;
	return r < 0 ? (int)r : 0;
}

/* Of a call with MSG_ZEROCOPY, only the first part gets a number. */
COLD ssize_t idle_send(struct sock *sk, int fd, const struct msghdr *msg,
		       int flags)
{
	struct iov_cursor c = { .iov = msg->msg_iov, .n = msg->msg_iovlen };
	struct sending s = { .sk = sk,
			     .fd = fd,
			     .w = idle_wait_of(fd, DIR_TX) };
	size_t len = iov_bytes(c.iov, c.n), last = kept_to_end(msg, len, flags);
	struct msghdr part = *msg;
	int err = 0;

	if (!may_send_parts(sk, msg, last, flags))
		return send_whole(&s, msg, flags);
	if (flags & MSG_FASTOPEN) {
		ssize_t r = send_first(&s, msg, flags);
		if (r < 0)
			return r;
		s.done = (size_t)r;
		cursor_skip(&c, s.done);
		flags &= ~MSG_FASTOPEN;
		if (s.done == len)
			return (ssize_t)len;
	}
	part.msg_controllen = 0;
	if (last && last < len && msg->msg_controllen)
		err = refused_control(&s, msg, flags);
	if (!err && (last < len || !last))
		err = send_parts(&s, &c, len - last, &part,
				 last ? (flags & ~MSG_OOB) | MSG_MORE : flags);
	if (!err && last)
		err = send_last(&s, &c, last, msg, flags);
	return s.done ? (ssize_t)s.done : err;
}

/* Half of what is free, because the kernel also counts what it keeps beside the bytes. */
size_t idle_room(int fd)
{
	uint32_t mem[SK_MEMINFO_VARS] = { 0 };
	socklen_t len = sizeof(mem);

	if (libc.getsockopt(fd, SOL_SOCKET, SO_MEMINFO, mem, &len) < 0 ||
	    mem[SK_MEMINFO_SNDBUF] / 2 < mem[SK_MEMINFO_WMEM_QUEUED] / 2 + PAGE)
		return PAGE;
	return mem[SK_MEMINFO_SNDBUF] / 2 - mem[SK_MEMINFO_WMEM_QUEUED] / 2;
}

COLD ssize_t idle_send_file(struct sock *sk, int fd, int in, off_t *off,
			    size_t n)
{
	struct sending s = { .sk = sk,
			     .fd = fd,
			     .w = idle_wait_of(fd, DIR_TX) };
	bool waits = idle_may_wait(sk, 0);

	while (s.done < n) {
		int err = waits ? wait_room(&s) : 0;
		size_t part = waits ? MIN(n - s.done, idle_room(s.fd)) : n;
		ssize_t r = err ? err : libc.sendfile(s.fd, in, off, part);

		if (!err && r < 0)
			err = -errno;
		if (r <= 0)
			return s.done ? (ssize_t)s.done : err;
		s.done += (size_t)r;
		if (!waits)
			break;
	}
	return (ssize_t)s.done;
}

/* A second connect() says how the first has ended. */
COLD int idle_connect(struct sock *sk, int fd, const struct sockaddr *to,
		      socklen_t len)
{
	int begun = 0;

	if (idle_may_wait(sk, 0) && sock_procs(sk) == 1) {
		pthread_testcancel();
		begun = connect_begin(fd, to, len);
		if (begun != -EINPROGRESS && begun != -EALREADY)
			return begun;
		int err = wait_idle(sk, &fd, DIR_TX, 0);
		if (err)
			return err == -EAGAIN ? begun : err;
	}
	int err = libc.connect(fd, to, len) < 0 ? -errno : 0;
	/* Another thread has asked before us. */
	return err == -EISCONN && begun ? 0 : err;
}
