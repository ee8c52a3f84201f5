/* SPDX-License-Identifier: MIT */
/*
 * proto/shm/table.c - operations of sockets in shared memory
 *
 * TCP still carries a candidate's bytes, but its calls come through here and
 * take the socket's locks, because its peer may start to use the ring at any
 * time.
 */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/bell.h"
#include "base/clock.h"
#include "base/libc.h"
#include "proto/shm/inbox.h"
#include "proto/shm/shm.h"
#include "sock/shared.h"
#include "sock/sock_ops.h"

/* The kernel tells about what arrives, once it carries that direction again. */
static COLD ssize_t recvmsg_by_kernel(struct sock *sk, int fd,
				      struct msghdr *msg, int flags)
{
	if (!(flags & MSG_OOB) && !shm_rx_is_kernels(sk, fd))
		return -EOPNOTSUPP;
	ssize_t r = libc.recvmsg(fd, msg, flags);
	return r < 0 ? -errno : r;
}

/* The caller has already returned our direction to the kernel: see
 * io_sendmsg(). */
static COLD ssize_t sendmsg_by_kernel(struct sock *sk, int fd,
				      const struct msghdr *msg, int flags)
{
	if (load_rlx(&sk->w->shut) & SHUT_BIT_WR)
		return -EPIPE; /* the anchor is not */
	if (unlikely(sk->page)) {
		if (!sock_look_tx(sk))
			return shm_kept(sk);
		bool is_silent = shared_is_silent(sk);
		sock_unlock_tx(sk);
		if (!is_silent)
			return shm_kept(sk);
	}
	ssize_t r =
	    libc.sendmsg(fd, msg, (flags | MSG_NOSIGNAL) & ~MSG_ZEROCOPY);
	if (r < 0)
		return -errno;
	if (r > 0 && flags & MSG_ZEROCOPY && load_rlx(&sk->w->zc_on))
		errq_copied(sk);
	return r;
}

static void error_later(struct sock *sk, int err) { anchor_note(sk, err); }
static int not_held(struct sock *sk) { return -EOPNOTSUPP; }
static void not_let_go(struct sock *sk, int dir, ssize_t n) {}
static bool never_due(const struct sock *sk, int dir) { return false; }

/* The kernel has a connection that fell back, though its calls use this table until
 * nothing is left to read here. */
static int shut(struct sock *sk, int fd, int how)
{
	int r = shm_shutdown(sk, fd, how);

	if (r == -ESTALE && sock_is_ours(sk))
		return libc.shutdown(fd, how) < 0 ? -errno : 0;
	return r;
}

uint64_t shm_next_ns(struct sock *sk)
{
	uint64_t due = shm_is_corked(sk) ? shm_corked_until(sk) : UINT64_MAX;

	if (unlikely(load_rlx(&shm_of(sk)->tx_full_ns)))
		due = MIN(due, shm_stretch_ns(sk));
	/* Another holder that gives the connection back cannot wake who waits for room. */
	if (unlikely(load_rlx(&sk->page) && load_rlx(&sk->w->n_tx_sleepers)))
		due = MIN(due, now_ns() + BELL_LOOK_NS);
	if (likely(!load_rlx(&shm_of(sk)->saw_unsettled) &&
		   !load_rlx(&shm_of(sk)->fin_due)))
		return due;
	/* It may have settled since the last look: look once more. */
	store_rlx(&shm_of(sk)->saw_unsettled, (uint8_t)shm_is_unsettled(sk));
	return MIN(due, now_ns() + SETTLE_LOOK_NS);
}

static unsigned look(struct sock *sk, int fd)
{
	anchor_ask(sk, fd);
	return shm_events(sk, fd);
}

/* The kernel, not the peer, wakes a thread that waits for room in TCP. */
static void sleep_on(struct sock *sk, struct pollfd *p)
{
	short kernels = load_rlx(&shm_w(sk)->tx_ring) || shm_is_unsettled(sk)
			    ? POLLPRI
			    : POLLPRI | POLLOUT;

	if (p->events & (POLLIN | POLLOUT))
		p->events = POLLIN | POLLRDHUP | (p->events & kernels);
}

/* The kernel carries the stream, but the peer may also ring. */
static void candidate_sleep_on(struct sock *sk, struct pollfd *p)
{
	p->events |= POLLIN;
}

static bool is_rung(const struct sock *sk)
{
	return load_rlx(&shm_of(sk)->bells_drained) !=
	       load_acq(&shm_peer(sk)->bells);
}

static bool is_not_rung(const struct sock *sk) { return false; }
static void nothing(struct sock *sk, int fd) {}
static void unchanged(struct sock *sk) {} /* by a fork */

static void alone(struct sock *sk)
{
	sock_unshare(sk);
	if (load_rlx(&shm_me(sk)->flags) & SEG_SHARED && shm_has_inbox(sk))
		fetch_and(&shm_me(sk)->flags, ~(uint32_t)SEG_SHARED);
}

static void sync_calls(struct sock *sk, int fd)
{
	if (shm_wants_back(sk))
		shm_fallback(sk, fd, OSF_REASON_NONE);
}

/* What both tables have. */
#define BY_SHM                                                                 \
	.is_ours = true, .recv = shm_recv, .recv_one = shm_recv_one,           \
	.send = shm_send, .send_file = shm_send_file,                          \
	.recvmsg = recvmsg_by_kernel, .sendmsg = sendmsg_by_kernel,            \
	.error_later = error_later, .is_ready = shm_is_ready,                  \
	.sleep = shm_sleep, .enter = not_held, .leave = not_let_go,            \
	.is_due = never_due, .inq = shm_inq, .outq = shm_outq,                 \
	.room = shm_room, .events = shm_events, .events_now = look,            \
	.watch = shm_watch, .arm = shm_arm_for,                                \
	.anchor_event = shm_anchor_event, .next_ns = shm_next_ns,              \
	.opt_changed = shm_opt_changed, .async_changed = shm_async_changed,    \
	.tcp_info = shm_tcp_info, .so_error = anchor_so_error,                 \
	.is_over = shm_is_over, .is_before_mark = shm_is_before_mark,          \
	.disconnect = shm_disconnect, .shutdown = shut, .close = shm_close,    \
	.exit = shm_exit, .before_fork = shm_before_fork,                      \
	.after_fork = unchanged, .alone = alone, .export = shm_export,         \
	.import = shm_import, .repair = shm_repair, .lost = shm_lost,          \
	.passthrough = nothing, .anchor_moved = shm_anchor_moved,              \
	.reset = shm_broken, .fallback_now = shm_fallback_now,                 \
	.fallback_late = shm_fallback_late, .retire = shm_retire

const struct sock_ops shm_ops = {
	.name = "shm",
	.own_events = true,
	.arm_bell = shm_arm_bell,
	.disarm_bell = shm_disarm_bell,
	.sleep_on = sleep_on,
	.is_rung = is_rung,
	.not_rung = anchor_not_rung,
	.drain = anchor_drain,
	.sync = sync_calls,
	.lend = &shm_lend_ops,
	.fallback = shm_fallback,
	BY_SHM,
};

const struct sock_ops shm_pending_ops = {
	.name = "candidate",
	.sleep_on = candidate_sleep_on,
	.is_rung = is_not_rung,
	.drain = nothing,
	.sync = nothing,
	.fallback = shm_fallback,
	BY_SHM,
};
