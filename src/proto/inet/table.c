/* SPDX-License-Identifier: MIT */
/*
 * proto/inet/table.c - the operations of sockets whose bytes the kernel moves
 *
 *     young    calls count themselves in and out, so that nobody upgrades the
 *              connection during a call; each may find that an upgrade is due
 *     moving   another thread is upgrading it; that takes microseconds
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
#include "base/nocancel.h"
#include "base/unwind.h"
#include "proto/inet/inet.h"
#include "sock/errq.h"
#include "sock/idle.h"
#include "sock/shared.h"
#include "sock/sock_ops.h"
#include "sock/switch.h"

static ssize_t kernel_recv(struct sock *sk, int fd, const struct iovec *iov,
			   size_t n, int flags)
{
	struct msghdr msg = { .msg_iov = (struct iovec *)iov, .msg_iovlen = n };

	if (unlikely(idle_is_on()))
		return idle_recv(sk, fd, &msg, flags);
	ssize_t r = likely(n == 1)
			? libc.recv(fd, iov->iov_base, iov->iov_len, flags)
			: libc.recvmsg(fd, &msg, flags);
	return r < 0 ? -errno : r;
}

/* The kernel numbers sends with MSG_ZEROCOPY; we continue its numbers after an
 * upgrade.  Peers on this host learn of this send by TCP. */
static inline ssize_t sent(struct sock *sk, int fd, ssize_t r, int flags)
{
	if (unlikely(flags & MSG_ZEROCOPY) && r > 0)
		errq_by_kernel(sk, fd, 1);
	if (r > 0)
		sock_went_past();
	return r;
}

static ssize_t kernel_sendmsg(struct sock *sk, int fd, const struct msghdr *msg,
			      int flags)
{
	ssize_t r;

	flags |= MSG_NOSIGNAL;
	if (unlikely(idle_is_on()))
		r = idle_send(sk, fd, msg, flags);
	else if ((r = libc.sendmsg(fd, msg, flags)) < 0)
		r = -errno;
	return sent(sk, fd, r, flags);
}

static ssize_t kernel_send(struct sock *sk, int fd, const struct iovec *iov,
			   size_t n, int flags)
{
	struct msghdr msg = { .msg_iov = (struct iovec *)iov, .msg_iovlen = n };

	if (unlikely(n != 1) || unlikely(idle_is_on()))
		return kernel_sendmsg(sk, fd, &msg, flags);
	flags |= MSG_NOSIGNAL;
	ssize_t r = libc.send(fd, iov->iov_base, iov->iov_len, flags);
	return sent(sk, fd, r < 0 ? -errno : r, flags);
}

static ssize_t kernel_send_file(struct sock *sk, int fd, int in, off_t *off,
				size_t n)
{
	ssize_t r;

	if (unlikely(idle_is_on()))
		r = idle_send_file(sk, fd, in, off, n);
	else if ((r = libc.sendfile(fd, in, off, n)) < 0)
		r = -errno;
	return sent(sk, fd, r, 0);
}

static ssize_t kernel_recvmsg(struct sock *sk, int fd, struct msghdr *msg,
			      int flags)
{
	if (unlikely(idle_is_on()))
		return idle_recv(sk, fd, msg, flags);
	ssize_t r = libc.recvmsg(fd, msg, flags);
	return r < 0 ? -errno : r;
}

static void told_already(struct sock *sk, int err) {}
static int by_sleeping(struct sock *sk, int dir) { return -1; }
static int asleep_in_calls(struct sock *sk, int fd, const struct call_wait *w)
{
	return 0;
}
static int free_to_move(struct sock *sk) { return 0; }
static void not_counted(struct sock *sk, int dir, ssize_t n) {}
static bool never_due(const struct sock *sk, int dir) { return false; }

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
	int saved = errno, n = nocancel_poll(&p, 1, 0);

	errno = saved;
	return n > 0 ? (unsigned short)p.revents : 0;
}

/*
 * The anchor is ready when the socket is, and notifies by itself.
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
static void unchanged(struct sock *sk) {} /* by a fork */

static void is_no_loss(struct sock *sk, int fd, const char *why) {}

static int kernel_shutdown(struct sock *sk, int fd, int how)
{
	return libc.shutdown(fd, how) < 0 ? -errno : 0;
}

static int is_there(struct sock *sk, int fd, enum osf_reason why) { return 0; }

static int is_there_now(struct sock *sk, int fd, enum osf_reason why,
			bool gently, struct stash *stash)
{
	return 0;
}

/*
 * What the kernel answers without us.
 */
static bool tell_anchor(struct sock *sk, int fd, int level, int name)
{
	return false;
}
static void knows_all(struct sock *sk, int fd, void *info, size_t len) {}
static int ask_anchor(struct sock *sk, int fd) { return -1; }
static bool is_there_still(const struct sock *sk) { return false; }
static bool at_anchors_mark(struct sock *sk, int fd) { return false; }
static void retired(struct sock *sk) {}

static int kernel_disconnect(struct sock *sk, int fd,
			     const struct sockaddr *addr, socklen_t len)
{
	return libc.connect(fd, addr, len) < 0 ? -errno : 0;
}

/* What the kernel answers in all three states. */
#define BY_KERNEL                                                              \
	.error_later = told_already, .is_ready = by_sleeping,                  \
	.sleep = asleep_in_calls, .inq = kernel_inq, .outq = kernel_outq,      \
	.events = kernel_events, .events_now = kernel_events,                  \
	.watch = by_anchor, .arm = needs_no_arming, .sleep_on = on_itself,     \
	.anchor_event = is_news, .is_rung = is_not_rung, .drain = nothing,     \
	.next_ns = never, .opt_changed = tell_anchor,                          \
	.async_changed = nothing, .tcp_info = knows_all,                       \
	.so_error = ask_anchor, .is_over = is_there_still,                     \
	.is_before_mark = at_anchors_mark, .retire = retired,                  \
	.close = inet_seen, .exit = inet_seen, .before_fork = unchanged,       \
	.after_fork = unchanged, .alone = sock_unshare, .sync = nothing,       \
	.passthrough = inet_unseen, .anchor_moved = sock_anchor_moved,         \
	.reset = is_no_loss

const struct sock_ops inet_kernel_ops = {
	.name = "kernel",
	.recv = kernel_recv,
	.send = kernel_send,
	.send_file = kernel_send_file,
	.recvmsg = kernel_recvmsg,
	.sendmsg = kernel_sendmsg,
	.enter = free_to_move,
	.leave = not_counted,
	.is_due = never_due,
	.disconnect = kernel_disconnect,
	.shutdown = kernel_shutdown,
	.fallback = is_there,
	.fallback_now = is_there_now,
	BY_KERNEL,
};

/*
 * Young.
 */

/* One system call, undone however it ends. */
struct inside {
	struct unwind u;
	struct sock *sk;
};

static void inside_end(struct unwind *u)
{
	sock_leave(((struct inside *)u)->sk);
}

/* False: the socket has another table by now. */
static bool inside_begin(struct inside *in)
{
	if (!sock_enter(in->sk))
		return false;
	unwind_push(&in->u, inside_end);
	return true;
}

static ssize_t young_recv(struct sock *sk, int fd, const struct iovec *iov,
			  size_t n, int flags)
{
	UNWIND(struct inside, in) = { .sk = sk };

	if (!inside_begin(&in))
		return -ESTALE;
	ssize_t r = kernel_recv(sk, fd, iov, n, flags);
	inet_account(sk, DIR_RX, r);
	return r;
}

static ssize_t young_send(struct sock *sk, int fd, const struct iovec *iov,
			  size_t n, int flags)
{
	UNWIND(struct inside, in) = { .sk = sk };

	if (!inside_begin(&in))
		return -ESTALE;
	ssize_t r = kernel_send(sk, fd, iov, n, flags);
	inet_account(sk, DIR_TX, r);
	return r;
}

static ssize_t young_send_file(struct sock *sk, int fd, int in_fd, off_t *off,
			       size_t n)
{
	UNWIND(struct inside, in) = { .sk = sk };

	if (!inside_begin(&in))
		return -ESTALE;
	ssize_t r = kernel_send_file(sk, fd, in_fd, off, n);
	inet_account(sk, DIR_TX, r);
	return r;
}

static ssize_t young_recvmsg(struct sock *sk, int fd, struct msghdr *msg,
			     int flags)
{
	UNWIND(struct inside, in) = { .sk = sk };

	if (!inside_begin(&in))
		return -ESTALE;
	ssize_t r = kernel_recvmsg(sk, fd, msg, flags);
	inet_account(sk, DIR_RX, r);
	return r;
}

static ssize_t young_sendmsg(struct sock *sk, int fd, const struct msghdr *msg,
			     int flags)
{
	UNWIND(struct inside, in) = { .sk = sk };

	if (!inside_begin(&in))
		return -ESTALE;
	ssize_t r = kernel_sendmsg(sk, fd, msg, flags);
	inet_account(sk, DIR_TX, r);
	return r;
}

static int young_enter(struct sock *sk) { return sock_enter(sk) ? 0 : -ESTALE; }

static void young_leave(struct sock *sk, int dir, ssize_t n)
{
	sock_leave(sk);
	if (dir != DIR_NONE && n > 0)
		inet_account(sk, dir, n);
}

static bool young_is_due(const struct sock *sk, int dir)
{
	return dir == DIR_TX ? inet_due_before_send(sk)
			     : inet_reached(sk, load_rlx(&sk->pingpongs));
}

/* The kernel has the connection from now on.  False: another thread is moving it, or has
 * moved it. */
static bool stays_with_kernel(struct sock *sk, enum osf_reason why)
{
	if (inet_keep_kernel(sk, why))
		return true;
	enum sock_mode mode = sock_mode(sk);
	return mode == SOCK_YOUNG || mode == SOCK_KERNEL;
}

static int young_fallback(struct sock *sk, int fd, enum osf_reason why)
{
	return stays_with_kernel(sk, why) ? 0
					  : sock_ops(sk)->fallback(sk, fd, why);
}

static int disconnect_inside(struct sock *sk, int fd,
			     const struct sockaddr *addr, socklen_t len)
{
	UNWIND(struct inside, in) = { .sk = sk };

	return inside_begin(&in) ? kernel_disconnect(sk, fd, addr, len)
				 : -ESTALE;
}

/* What follows is a new connection. */
static int young_disconnect(struct sock *sk, int fd,
			    const struct sockaddr *addr, socklen_t len)
{
	int err = disconnect_inside(sk, fd, addr, len);

	if (!err)
		inet_keep_kernel(sk, OSF_REASON_OPTION);
	return err;
}

/* A half-closed connection is not worth moving.  A FIN by TCP in the middle of a move
 * would tell the peer that this process has died. */
static int young_shutdown(struct sock *sk, int fd, int how)
{
	return stays_with_kernel(sk, OSF_REASON_HALF_CLOSED)
		   ? kernel_shutdown(sk, fd, how)
		   : -ESTALE;
}

const struct sock_ops inet_young_ops = {
	.name = "young",
	.may_move = true,
	.recv = young_recv,
	.send = young_send,
	.send_file = young_send_file,
	.recvmsg = young_recvmsg,
	.sendmsg = young_sendmsg,
	.enter = young_enter,
	.leave = young_leave,
	.is_due = young_is_due,
	.disconnect = young_disconnect,
	.shutdown = young_shutdown,
	.fallback = young_fallback,
	.fallback_now = is_there_now,
	BY_KERNEL,
};

/*
 * Moving.
 */

static void moved(struct sock *sk)
{
	while (sock_mode(sk) == SOCK_UPGRADING)
		sock_moving(sk);
}

/* The same for a call that moves bytes. */
static ssize_t moved_soon(struct sock *sk, int flags)
{
	bool waits = !(flags & MSG_DONTWAIT) && !load_rlx(&sk->w->nonblock);

	while (sock_mode(sk) == SOCK_UPGRADING) {
		sock_moving(sk);
		if (!waits && sock_mode(sk) == SOCK_UPGRADING &&
		    sock_moves_long(sk))
			return -EAGAIN;
	}
	return -ESTALE;
}

static ssize_t moving_recv(struct sock *sk, int fd, const struct iovec *iov,
			   size_t n, int flags)
{
	return moved_soon(sk, flags);
}

static ssize_t moving_send(struct sock *sk, int fd, const struct iovec *iov,
			   size_t n, int flags)
{
	return moved_soon(sk, flags);
}

static ssize_t moving_send_file(struct sock *sk, int fd, int in, off_t *off,
				size_t n)
{
	return moved_soon(sk, 0);
}

static ssize_t moving_recvmsg(struct sock *sk, int fd, struct msghdr *msg,
			      int flags)
{
	return moved_soon(sk, flags);
}

static ssize_t moving_sendmsg(struct sock *sk, int fd, const struct msghdr *msg,
			      int flags)
{
	return moved_soon(sk, flags);
}

static int moving_enter(struct sock *sk)
{
	moved(sk);
	return -ESTALE;
}

static int moving_disconnect(struct sock *sk, int fd,
			     const struct sockaddr *addr, socklen_t len)
{
	moved(sk);
	return -ESTALE;
}

static int moving_shutdown(struct sock *sk, int fd, int how)
{
	moved(sk);
	return -ESTALE;
}

static int moving_fallback(struct sock *sk, int fd, enum osf_reason why)
{
	moved(sk);
	return sock_ops(sk)->fallback(sk, fd, why);
}

static int moving_fallback_now(struct sock *sk, int fd, enum osf_reason why,
			       bool gently, struct stash *stash)
{
	moved(sk);
	return sock_ops(sk)->fallback_now(sk, fd, why, gently, stash);
}

const struct sock_ops inet_moving_ops = {
	.name = "moving",
	.is_moving = true,
	.may_move = true,
	.recv = moving_recv,
	.send = moving_send,
	.send_file = moving_send_file,
	.recvmsg = moving_recvmsg,
	.sendmsg = moving_sendmsg,
	.enter = moving_enter,
	.leave = not_counted,
	.is_due = never_due,
	.disconnect = moving_disconnect,
	.shutdown = moving_shutdown,
	.fallback = moving_fallback,
	.fallback_now = moving_fallback_now,
	BY_KERNEL,
};
