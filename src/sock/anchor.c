/* SPDX-License-Identifier: MIT */
/* sock/anchor.c - see sock/anchor.h */
#include "sock/anchor.h"
#include "sock/sock_ops.h"

bool anchor_sleep_begin(struct sock *sk, int fd)
{
	GUARD(&sk->rx_lock);
	if (fetch_add(&sk->n_sleepers, 1))
		return true;
	sock_ops(sk)->drain(sk, fd);
	return false;
}

void anchor_sleep_end(struct sock *sk) { fetch_sub(&sk->n_sleepers, 1); }

void anchor_clear(struct sock *sk, int fd)
{
	if (!sock_ops(sk)->is_rung(sk) || !lock_try(&sk->rx_lock))
		return;
	if (!load_rlx(&sk->n_sleepers))
		sock_ops(sk)->drain(sk, fd);
	lock_put(&sk->rx_lock);
}
