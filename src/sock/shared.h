/* SPDX-License-Identifier: MIT */
/*
 * sock/shared.h - a socket that several processes hold since a fork
 *
 *     fork()  ->  sock_share()   one process more
 *     close() ->  sock_let_go()  one less; the last one ends the connection
 *
 * struct sock lies in memory that forked processes share (sock/arena.h), at the same
 * address in each of them, and so do its locks.
 */
#pragma once

#include "sock/sock.h"

/* Before a fork: one process more. */
static inline void sock_share(struct sock *sk) { fetch_add(&sk->n_procs, 1); }

/* How many processes hold it. */
static inline int32_t sock_procs(const struct sock *sk)
{
	return load_rlx(&sk->n_procs);
}

/* @n processes do not hold it any more: have all let go?  Then it is the caller's to
 * end, and nobody else's. */
static inline bool sock_let_go(struct sock *sk, int32_t n)
{
	int32_t old;

	do
		old = load_rlx(&sk->n_procs);
	while (!cas(&sk->n_procs, old, old == n ? -1 : old - n));
	return old == n;
}

/* This process ends without closing it; true: it was the last. */
static inline bool sock_leave_it(struct sock *sk)
{
	return fetch_sub(&sk->n_procs, 1) == 1;
}

/* The process that made it lets go; true: it had not. */
static inline bool sock_maker_lets_go(struct sock *sk)
{
	return load_rlx(&sk->maker_has) && xchg(&sk->maker_has, (uint8_t)0);
}
