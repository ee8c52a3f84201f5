/* SPDX-License-Identifier: MIT */
/*
 * proto/shm/table.c - the tables of sockets that are in shared memory, or may be soon
 *
 * A candidate's bytes are still TCP's, but they go through here, under the socket's
 * locks: its peer may start to use the ring at any time.
 */
#include <errno.h>
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
	.next_ns = next_ns,
	.shutdown = shm_shutdown,
	.close = shm_close,
	.exit = shm_exit,
	.after_fork = shm_after_fork,
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
	.next_ns = next_ns,
	.shutdown = shm_shutdown,
	.close = shm_close,
	.exit = shm_exit,
	.after_fork = shm_after_fork,
	.fallback = candidate_fallback,
	.fallback_now = shm_recall,
	.export = shm_export,
	.import = shm_import,
	.broken = shm_broken,
};
