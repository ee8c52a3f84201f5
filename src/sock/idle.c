/* SPDX-License-Identifier: MIT */
/* sock/idle.c - see sock/idle.h */
#include <errno.h>
#include <linux/sock_diag.h>
#include <pthread.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/connect.h"
#include "base/libc.h"
#include "sock/cursor.h"
#include "sock/idle.h"
#include "sock/opt.h"
#include "sock/shared.h"
#include "sock/sock_ops.h"
#include "sock/wait.h"

/* A call may send a page once poll() has said that there is room. */
#define PAGE 4096u

/* struct sock knows the timeouts only while the bytes are ours. */
static struct call_wait wait_of(int fd, int dir)
{
	uint64_t ns =
	    opt_timeout_ns(fd, dir == DIR_RX ? SO_RCVTIMEO : SO_SNDTIMEO);

	return (struct call_wait){ .dir = dir,
				   .deadline_ns =
				       ns ? now_ns() + ns : UINT64_MAX,
				   .seen = handlers_seen() };
}

static bool may_wait(const struct sock *sk, int flags)
{
	return !(flags & (MSG_DONTWAIT | MSG_OOB | MSG_ERRQUEUE)) &&
	       !load_rlx(&sk->w->nonblock);
}

/* Another thread may close the descriptor while we sleep, and its number may be given to
 * another socket. */
static ino_t which(int fd)
{
	struct stat st;

	return libc.fstat(fd, &st) ? 0 : st.st_ino;
}

/* Until one of @want shows in *@events. */
static int wait_until(struct sock *sk, int fd, struct call_wait *w,
		      unsigned want, unsigned *events)
{
	ino_t ino = 0;

	while (!((*events = sock_ops(sk)->events(sk, fd)) & want)) {
		ino = ino ? ino : which(fd);
		int err = wait_asleep(sk, fd, w);
		if (err)
			return err;
		if (which(fd) != ino)
			return -EBADF;
	}
	return 0;
}

/* POLLERR may be a completion of MSG_ZEROCOPY, which ends no blocking call. */
static unsigned ends_of(const struct sock *sk)
{
	return load_rlx(&sk->w->zc_on) ? POLLHUP : POLLERR | POLLHUP;
}

COLD int wait_idle(struct sock *sk, int fd, int dir, int flags)
{
	unsigned events, want = dir == DIR_RX ? POLLIN | POLLRDHUP : POLLOUT;

	if (!may_wait(sk, flags))
		return 0;
	struct call_wait w = wait_of(fd, dir);
	return wait_until(sk, fd, &w, want | ends_of(sk), &events);
}

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
	int err =
	    wait_until(s->sk, s->fd, &s->w, POLLOUT | ends_of(s->sk), &events);
	struct handlers_seen now = handlers_seen();
	if (err)
		return err;
	if (waiter_restarts(&s->w) && now.n_ends == s->w.seen.n_ends)
		s->w.seen = now; /* the kernel would begin the call anew */
	return s->done && events & ends_of(s->sk) ? -EPIPE : 0;
}

/* A call that cannot be cut. */
static ssize_t send_whole(struct sock *sk, int fd, const struct msghdr *msg,
			  int flags)
{
	ssize_t r = wait_idle(sk, fd, DIR_TX, flags & MSG_DONTWAIT);

	if (r < 0)
		return r;
	r = libc.sendmsg(fd, msg, flags);
	return r < 0 ? -errno : r;
}

/* Of a call with MSG_ZEROCOPY, only the first part gets a number. */
COLD ssize_t idle_send(struct sock *sk, int fd, const struct msghdr *msg,
		       int flags)
{
	struct iov_cursor c = { .iov = msg->msg_iov, .n = msg->msg_iovlen };
	struct sending s = { .sk = sk, .fd = fd, .w = wait_of(fd, DIR_TX) };
	size_t len = iov_bytes(c.iov, c.n);
	struct iovec rest[CURSOR_REST_MAX];
	struct msghdr part = *msg;

	if (msg->msg_controllen || flags & MSG_FASTOPEN || !may_wait(sk, flags))
		return send_whole(sk, fd, msg, flags);
	for (;;) {
		ssize_t r = libc.sendmsg(fd, &part, flags | MSG_DONTWAIT);
		int err = r < 0 ? -errno : 0;

		if (r > 0) {
			s.done += (size_t)r;
			cursor_skip(&c, (size_t)r);
			part.msg_iov = rest;
			part.msg_iovlen = cursor_rest(&c, rest, len - s.done);
			flags &= ~MSG_ZEROCOPY;
		} else if (err == -EAGAIN) {
			err = wait_room(&s);
		}
		if (err || r == 0 || s.done == len)
			return s.done ? (ssize_t)s.done : err;
	}
}

/* How many bytes may be sent now without a sleep: half of what is free, because
 * the kernel also counts what it keeps beside the bytes. */
static size_t room_of(int fd)
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
	struct sending s = { .sk = sk, .fd = fd, .w = wait_of(fd, DIR_TX) };
	bool waits = may_wait(sk, 0);

	while (s.done < n) {
		int err = waits ? wait_room(&s) : 0;
		size_t part = waits ? MIN(n - s.done, room_of(fd)) : n;
		ssize_t r = err ? err : libc.sendfile(fd, in, off, part);

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

	if (may_wait(sk, 0) && sock_procs(sk) == 1) {
		pthread_testcancel();
		begun = connect_begin(fd, to, len);
		if (begun != -EINPROGRESS && begun != -EALREADY)
			return begun;
		int err = wait_idle(sk, fd, DIR_TX, 0);
		if (err)
			return err == -EAGAIN ? begun : err;
	}
	int err = libc.connect(fd, to, len) < 0 ? -errno : 0;
	/* Another thread has asked before us. */
	return err == -EISCONN && begun ? 0 : err;
}
