/* SPDX-License-Identifier: MIT */
/*
 * proto/inet/table.c - the tables of sockets whose bytes the kernel moves
 *
 *     young    calls are counted in and out, so that nobody moves the connection under
 *              one; each is a reason to look whether it is time to move
 *     moving   another thread is at it; that takes microseconds
 *     kernel   libc's own call, for good
 *
 * All three sleep as the kernel's calls do.
 */
#include <errno.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>

#include "base/libc.h"
#include "base/unwind.h"
#include "proto/inet/inet.h"
#include "sock/sock_ops.h"

/* One call of the kernel's, however it ends. */
struct inside {
	struct unwind u;
	struct sock *sk;
};

static void inside_end(struct unwind *u)
{
	sock_leave(((struct inside *)u)->sk);
}

static ssize_t kernel_recv(struct sock *sk, int fd, const struct iovec *iov,
			   size_t n, int flags)
{
	struct msghdr msg = { .msg_iov = (struct iovec *)iov, .msg_iovlen = n };
	ssize_t r = n == 1 ? libc.recv(fd, iov->iov_base, iov->iov_len, flags)
			   : libc.recvmsg(fd, &msg, flags);

	return r < 0 ? -errno : r;
}

static ssize_t kernel_send(struct sock *sk, int fd, const struct iovec *iov,
			   size_t n, int flags)
{
	struct msghdr msg = { .msg_iov = (struct iovec *)iov, .msg_iovlen = n };

	flags |= MSG_NOSIGNAL;
	ssize_t r = n == 1 ? libc.send(fd, iov->iov_base, iov->iov_len, flags)
			   : libc.sendmsg(fd, &msg, flags);

	return r < 0 ? -errno : r;
}

static ssize_t kernel_send_file(struct sock *sk, int fd, int in, off_t *off,
				size_t n, bool nonblock)
{
	ssize_t r = libc.sendfile(fd, in, off, n);

	return r < 0 ? -errno : r;
}

static int kernel_inq(struct sock *sk, int fd)
{
	int n = 0;

	return libc.ioctl(fd, FIONREAD, &n) < 0 ? -errno : n;
}

static int kernel_outq(struct sock *sk, int fd)
{
	int n = 0;

	return libc.ioctl(fd, SIOCOUTQ, &n) < 0 ? -errno : n;
}

static unsigned kernel_events(struct sock *sk, int fd)
{
	struct pollfd p = { .fd = fd,
			    .events = POLLIN | POLLOUT | POLLPRI | POLLRDHUP };
	int saved = errno, n = libc.poll(&p, 1, 0);

	errno = saved;
	return n > 0 ? (unsigned short)p.revents : 0;
}

/*
 * The anchor's readiness is the socket's: it tells by itself.
 */

static void by_anchor(struct sock *sk, struct watch *w) {}

static bool needs_no_arming(struct sock *sk, int fd, unsigned events,
			    const struct watch *w)
{
	return false;
}

static void on_itself(struct sock *sk, struct pollfd *p) {}

static bool is_news(struct sock *sk, int fd, unsigned events,
		    const struct watch *w)
{
	return true;
}

static bool is_not_rung(const struct sock *sk) { return false; }
static uint64_t never(struct sock *sk) { return UINT64_MAX; }

static void nothing(struct sock *sk, int fd) {}
static void nothing_inherited(struct sock *sk) {}

static int kernel_shutdown(struct sock *sk, int fd, int how)
{
	return libc.shutdown(fd, how) < 0 ? -errno : 0;
}

static void is_there(struct sock *sk, int fd, enum osf_reason why) {}

static int is_there_now(struct sock *sk, int fd, enum osf_reason why,
			bool gently, struct stash *stash)
{
	return 0;
}

const struct sock_ops inet_kernel_ops = {
	.name = "kernel",
	.recv = kernel_recv,
	.send = kernel_send,
	.send_file = kernel_send_file,
	.inq = kernel_inq,
	.outq = kernel_outq,
	.events = kernel_events,
	.watch = by_anchor,
	.arm = needs_no_arming,
	.sleep_on = on_itself,
	.hint = is_news,
	.look = nothing,
	.is_rung = is_not_rung,
	.drain = nothing,
	.next_ns = never,
	.shutdown = kernel_shutdown,
	.close = nothing,
	.exit = nothing,
	.after_fork = nothing_inherited,
	.alone = nothing_inherited,
	.settle = nothing,
	.fallback = is_there,
	.fallback_now = is_there_now,
};

/*
 * Young.
 */

static ssize_t young_recv(struct sock *sk, int fd, const struct iovec *iov,
			  size_t n, int flags)
{
	UNWIND(struct inside, in) = { .sk = sk };

	if (!sock_enter(sk))
		return -ESTALE;
	unwind_push(&in.u, inside_end);
	return kernel_recv(sk, fd, iov, n, flags);
}

static ssize_t young_send(struct sock *sk, int fd, const struct iovec *iov,
			  size_t n, int flags)
{
	UNWIND(struct inside, in) = { .sk = sk };

	if (!sock_enter(sk))
		return -ESTALE;
	unwind_push(&in.u, inside_end);
	return kernel_send(sk, fd, iov, n, flags);
}

static ssize_t young_send_file(struct sock *sk, int fd, int in_fd, off_t *off,
			       size_t n, bool nonblock)
{
	UNWIND(struct inside, in) = { .sk = sk };

	if (!sock_enter(sk))
		return -ESTALE;
	unwind_push(&in.u, inside_end);
	return kernel_send_file(sk, fd, in_fd, off, n, nonblock);
}

const struct sock_ops inet_young_ops = {
	.name = "young",
	.may_move = true,
	.recv = young_recv,
	.send = young_send,
	.send_file = young_send_file,
	.inq = kernel_inq,
	.outq = kernel_outq,
	.events = kernel_events,
	.watch = by_anchor,
	.arm = needs_no_arming,
	.sleep_on = on_itself,
	.hint = is_news,
	.look = nothing,
	.is_rung = is_not_rung,
	.drain = nothing,
	.next_ns = never,
	.shutdown = kernel_shutdown,
	.close = nothing,
	.exit = nothing,
	.after_fork = nothing_inherited,
	.alone = nothing_inherited,
	.settle = nothing,
	.fallback = is_there,
	.fallback_now = is_there_now,
};

/*
 * Moving.
 */

static void moved(const struct sock *sk)
{
	while (sock_mode(sk) == SOCK_UPGRADING)
		cpu_relax();
}

static ssize_t moving_recv(struct sock *sk, int fd, const struct iovec *iov,
			   size_t n, int flags)
{
	moved(sk);
	return -ESTALE;
}

static ssize_t moving_send(struct sock *sk, int fd, const struct iovec *iov,
			   size_t n, int flags)
{
	moved(sk);
	return -ESTALE;
}

static ssize_t moving_send_file(struct sock *sk, int fd, int in, off_t *off,
				size_t n, bool nonblock)
{
	moved(sk);
	return -ESTALE;
}

static int moving_shutdown(struct sock *sk, int fd, int how)
{
	moved(sk);
	return -ESTALE;
}

static void moving_fallback(struct sock *sk, int fd, enum osf_reason why)
{
	moved(sk);
	sock_ops(sk)->fallback(sk, fd, why);
}

static int moving_fallback_now(struct sock *sk, int fd, enum osf_reason why,
			       bool gently, struct stash *stash)
{
	moved(sk);
	return sock_ops(sk)->fallback_now(sk, fd, why, gently, stash);
}

const struct sock_ops inet_moving_ops = {
	.name = "moving",
	.may_move = true,
	.recv = moving_recv,
	.send = moving_send,
	.send_file = moving_send_file,
	.inq = kernel_inq,
	.outq = kernel_outq,
	.events = kernel_events,
	.watch = by_anchor,
	.arm = needs_no_arming,
	.sleep_on = on_itself,
	.hint = is_news,
	.look = nothing,
	.is_rung = is_not_rung,
	.drain = nothing,
	.next_ns = never,
	.shutdown = moving_shutdown,
	.close = nothing,
	.exit = nothing,
	.after_fork = nothing_inherited,
	.alone = nothing_inherited,
	.settle = nothing,
	.fallback = moving_fallback,
	.fallback_now = moving_fallback_now,
};
