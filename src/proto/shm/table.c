/* SPDX-License-Identifier: MIT */
/*
 * proto/shm/table.c - the tables of sockets that are in shared memory, or may be soon
 *
 * A candidate's bytes are still TCP's, but they go through here, under the socket's
 * locks: its peer may start to use the ring at any time.
 */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include "proto/shm/shm.h"
#include "sock/sock_ops.h"

static ssize_t recv_now(struct sock *sk, int fd, const struct iovec *iov,
			size_t n, int flags)
{
	return shm_recv(sk, fd, iov, n, flags | MSG_DONTWAIT);
}

static ssize_t send_now(struct sock *sk, int fd, const struct iovec *iov,
			size_t n, int flags)
{
	return shm_send(sk, fd, iov, n, flags | MSG_DONTWAIT | MSG_NOSIGNAL);
}

static uint64_t next_ns(struct sock *sk)
{
	return shm_is_held(sk) ? shm_held_until(sk) : UINT64_MAX;
}

static void sleep_on(struct sock *sk, struct pollfd *p)
{
	if (p->events & (POLLIN | POLLOUT))
		p->events = POLLIN | POLLRDHUP | (p->events & POLLPRI);
}

/* The kernel carries the stream; and its peer may ring. */
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

static void alone(struct sock *sk)
{
	if (load_rlx(&shm_me(sk)->flags) & SEG_SHARED && shm_has_inbox(sk))
		fetch_and(&shm_me(sk)->flags, ~(uint32_t)SEG_SHARED);
}

static void settle(struct sock *sk, int fd)
{
	if (shm_wants_back(sk))
		shm_take_back(sk, fd, OSF_REASON_NONE);
}

static void leave_for(struct sock *sk, int fd, enum osf_reason why)
{
	shm_take_back(sk, fd, why);
}

/* The candidate's peer decides first whether it is one. */
static void candidate_fallback(struct sock *sk, int fd, enum osf_reason why)
{
	lock_get(&sk->rx_lock);
	lock_get(&sk->tx_lock);
	if (sock_mode(sk) == SOCK_CANDIDATE)
		shm_candidate_decide(sk, fd);
	lock_put(&sk->tx_lock);
	lock_put(&sk->rx_lock);
	shm_take_back(sk, fd, why);
}

const struct sock_ops shm_ops = {
	.name = "shm",
	.is_ours = true,
	.recv = recv_now,
	.send = send_now,
	.send_file = shm_send_file,
	.inq = shm_inq,
	.outq = shm_outq,
	.events = shm_events,
	.own_events = true,
	.watch = shm_watch,
	.arm = shm_arm_for,
	.sleep_on = sleep_on,
	.hint = shm_hint,
	.look = anchor_look,
	.is_rung = is_rung,
	.drain = anchor_drain,
	.next_ns = next_ns,
	.shutdown = shm_shutdown,
	.close = shm_close,
	.exit = shm_exit,
	.after_fork = shm_after_fork,
	.alone = alone,
	.settle = settle,
	.fallback = leave_for,
	.fallback_now = shm_recall,
	.export = shm_export,
	.import = shm_import,
	.broken = shm_broken,
};

const struct sock_ops shm_candidate_ops = {
	.name = "candidate",
	.is_ours = true,
	.recv = recv_now,
	.send = send_now,
	.send_file = shm_send_file,
	.inq = shm_inq,
	.outq = shm_outq,
	.events = shm_events,
	.watch = shm_watch,
	.arm = shm_arm_for,
	.sleep_on = candidate_sleep_on,
	.hint = shm_hint,
	.look = anchor_look,
	.is_rung = is_not_rung,
	.drain = nothing,
	.next_ns = next_ns,
	.shutdown = shm_shutdown,
	.close = shm_close,
	.exit = shm_exit,
	.after_fork = shm_after_fork,
	.alone = alone,
	.settle = nothing,
	.fallback = candidate_fallback,
	.fallback_now = shm_recall,
	.export = shm_export,
	.import = shm_import,
	.broken = shm_broken,
};
