/* SPDX-License-Identifier: MIT */
/* sock/anchor.c - see sock/anchor.h */
#include "sock/anchor.h"
#include "sock/sock_ops.h"

bool anchor_sleep_begin(struct sock *sk, int fd)
{
	SOCK_GUARD_RX(sk);
	if (fetch_add(&sk->n_sleepers, 1))
		return true;
	sock_ops(sk)->drain(sk, fd);
	return false;
}

void anchor_sleep_end(struct sock *sk) { fetch_sub(&sk->n_sleepers, 1); }

void anchor_clear(struct sock *sk, int fd)
{
	if (!sock_ops(sk)->is_rung(sk) || !sock_try_rx(sk))
		return;
	if (!load_rlx(&sk->n_sleepers))
		sock_ops(sk)->drain(sk, fd);
	sock_unlock_rx(sk);
}
