/* SPDX-License-Identifier: MIT */
/* sock/anchor.c - see sock/anchor.h */
#include "sock/anchor.h"
#include "sock/shared.h"
#include "sock/sock_ops.h"

/* Count the sleepers of this process or, for a shared socket, of all
 * processes. */
static uint32_t n_sleepers(const struct sock *sk)
{
	const struct shared_page *p = load_acq(&sk->page);

	return p ? load_rlx(&p->n_sleepers) : load_rlx(&sk->n_sleepers);
}

bool anchor_sleep_begin(struct sock *sk, int fd)
{
	GUARD(&sk->rx_lock);
	bool others = n_sleepers(sk);

	fetch_add(&sk->n_sleepers, 1);
	if (sk->page)
		fetch_add(&sk->page->n_sleepers, 1);
	if (!others)
		sock_ops(sk)->drain(sk, fd);
	return others;
}

/* A sleep that began in the process that we were forked by is not one of ours. */
void anchor_sleep_end(struct sock *sk)
{
	GUARD(&sk->rx_lock);
	if (!sk->n_sleepers)
		return;
	fetch_sub(&sk->n_sleepers, 1);
	if (sk->page)
		fetch_sub(&sk->page->n_sleepers, 1);
}

void anchor_clear(struct sock *sk, int fd)
{
	if (!sock_ops(sk)->is_rung(sk) || !lock_try(&sk->rx_lock))
		return;
	if (!n_sleepers(sk))
		sock_ops(sk)->drain(sk, fd);
	lock_put(&sk->rx_lock);
}
