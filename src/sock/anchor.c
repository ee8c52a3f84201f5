/* SPDX-License-Identifier: MIT */
/* sock/anchor.c - see sock/anchor.h */
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/libc.h"
#include "base/nocancel.h"
#include "sock/anchor.h"
#include "sock/sock_ops.h"

/* Takes the rx lock of this process, and the half if no other process keeps it.  The counts
 * of sleepers may change without the half: they are atomic, or this process's own.  Return:
 * whether we have the half. */
static bool look(struct sock *sk)
{
	bool has_half = sock_look_rx(sk);

	if (unlikely(!has_half))
		lock_get(&sk->rx_lock);
	return has_half;
}

bool anchor_sleep_begin(struct sock *sk, int fd, bool for_room)
{
	bool has_half = look(sk);
	bool others = load_rlx(&sk->w->n_sleepers);

	fetch_add(&sk->w->n_sleepers, 1);
	sk->my_sleepers++;
	if (for_room) {
		fetch_add(&sk->w->n_tx_sleepers, 1);
		sk->my_tx_sleepers++;
	}
	if (!others && has_half)
		sock_ops(sk)->drain(sk, fd);
	sock_unlock_rx(sk);
	return others;
}

/* A sleep that began in the process that forked us is not one of ours. */
void anchor_sleep_end(struct sock *sk, bool for_room)
{
	look(sk);
	if (sk->my_sleepers) {
		fetch_sub(&sk->w->n_sleepers, 1);
		sk->my_sleepers--;
		if (for_room && sk->my_tx_sleepers) {
			fetch_sub(&sk->w->n_tx_sleepers, 1);
			sk->my_tx_sleepers--;
		}
	}
	sock_unlock_rx(sk);
}

void anchor_clear(struct sock *sk, int fd)
{
	const struct sock_ops *ops = sock_ops(sk);

	if (!ops->is_rung(sk)) {
		if (ops->not_rung)
			ops->not_rung(sk, fd);
		return;
	}
	if (!sock_try_rx(sk))
		return;
	if (!load_rlx(&sk->w->n_sleepers))
		sock_ops(sk)->drain(sk, fd);
	sock_unlock_rx(sk);
}

bool anchor_is_urgent_alone(const struct sock *sk, int fd, int flags)
{
	struct pollfd p = { .fd = fd, .events = POLLIN | POLLPRI };
	int is_next = 0;

	return !(flags & (MSG_DONTWAIT | MSG_PEEK)) &&
	       !load_rlx(&sk->w->nonblock) &&
	       !libc.ioctl(fd, SIOCATMARK, &is_next) && is_next &&
	       nocancel_poll(&p, 1, 0) > 0 && p.revents == POLLPRI;
}
