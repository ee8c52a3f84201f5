/* SPDX-License-Identifier: MIT */
/*
 * proto/inet/inet.h - the kernel's TCP as a protocol: it moves the bytes, we count them
 *
 *     libc's own call  ->  inet_account()  ->  sock_ops.is_due()?  a look at the upgrade
 *
 * When a socket is the kernel's for good, calls go to libc without a look, and what
 * they move is not counted any more.  The kernel counts it, and is asked when the
 * socket is closed, or the process ends; osf stat asks for sockets that are open.
 *
 * A turn is a change of direction: a request and its response are two.  The side
 * that opened the connection looks before it sends, the other after it received,
 * so that an offer made before a request is seen with that request.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "sock/sock.h"
#include "sock/sock_ops.h"

/* table.c */
extern const struct sock_ops inet_young_ops, inet_moving_ops, inet_kernel_ops;

/* Calls on @sk are not counted from now on.  One call of the kernel if it was in
 * shared memory, else none. */
void inet_unseen(struct sock *sk, int fd);
/* The last moment to know what went by: the last holder closes @sk, or ends.  One
 * call of the kernel if calls were not counted, else none. */
void inet_seen(struct sock *sk, int fd);

/* Leave it to the kernel for good, from mode YOUNG.  False: it is not young, or
 * others are inside a call of the kernel's; then it is not looked at again. */
bool inet_pin(struct sock *sk, enum osf_reason reason);

static inline bool inet_reached(const struct sock *sk, uint32_t turns)
{
	return turns >= load_rlx(&sk->turns_next) ||
	       load_rlx(&sk->st->rx_bytes_inet) +
		       load_rlx(&sk->st->tx_bytes_inet) >=
		   load_rlx(&sk->bytes_next);
}

/* Before a send in mode YOUNG: is it time for ops_look()? */
static inline bool inet_due_before_send(const struct sock *sk)
{
	return inet_reached(sk, load_rlx(&sk->turns) +
				    (load_rlx(&sk->last_dir) != DIR_TX));
}

/* After a call that moved @n bytes: is it time for ops_look()?  Threads may be in
 * here at once; a count that is a little off costs a later look. */
static inline bool inet_account(struct sock *sk, int dir, ssize_t n)
{
	if (n <= 0)
		return false;
	if (dir == DIR_RX) {
		count(&sk->st->rx_bytes_inet, (uint64_t)n);
		count(&sk->st->rx_ops, 1);
	} else {
		count(&sk->st->tx_bytes_inet, (uint64_t)n);
		count(&sk->st->tx_ops, 1);
	}
	if (load_rlx(&sk->last_dir) != dir) {
		store_rlx(&sk->last_dir, (uint8_t)dir);
		count(&sk->turns, 1);
	}
	return dir == DIR_RX && inet_reached(sk, load_rlx(&sk->turns));
}
