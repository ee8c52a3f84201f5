/* SPDX-License-Identifier: MIT */
/*
 * proto/inet/inet.h - the kernel's TCP as a protocol: it moves, we count
 *
 *     libc's own call  ->  inet_account()  ->  sock_ops.is_due(): upgrade?
 *
 * When the kernel has a socket for good, calls go straight to libc, and we
 * stop counting.  The kernel counts instead.  We ask it when the socket is
 * closed or the process ends; osf stat asks it for open sockets.
 *
 * A ping-pong is a change of direction: a request and its response are two.
 * The side that opened the connection tries before it sends, the other side
 * after it has received.  So the acceptor sees a proposal together with the
 * request that follows it.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "sock/sock.h"
#include "sock/port_sends.h"
#include "sock/sock_ops.h"

/* table.c */
extern const struct sock_ops inet_young_ops, inet_moving_ops, inet_kernel_ops;

/* From now on calls on @sk are not counted.  Costs one system call if the
 * socket was in shared memory, else none. */
void inet_unseen(struct sock *sk, int fd);
/* Count the last bytes: the last holder closes @sk, or ends.  Costs one system
 * call if calls were not counted, else none. */
void inet_seen(struct sock *sk, int fd);

/* Leave the socket to the kernel for good, from mode YOUNG.  False: it is not
 * young, or other threads are inside a system call; it is then not tried
 * again. */
bool inet_keep_kernel(struct sock *sk, enum osf_reason reason);

static inline bool inet_reached(const struct sock *sk, uint32_t n)
{
	return n >= load_rlx(&sk->pingpongs_next) ||
	       load_rlx(&sk->st->rx_bytes_inet) +
		       load_rlx(&sk->st->tx_bytes_inet) >=
		   load_rlx(&sk->bytes_next);
}

/* Before a send in mode YOUNG: is it time for ops_advance()? */
static inline bool inet_due_before_send(const struct sock *sk)
{
	return inet_reached(sk, load_rlx(&sk->pingpongs) +
				    (load_rlx(&sk->last_dir) != DIR_TX));
}

/* After a call that moved @n bytes: is it time for ops_advance()?  Threads may
 * call this at once; a count that is slightly wrong only delays the look. */
static inline bool inet_account(struct sock *sk, int dir, ssize_t n)
{
	if (unlikely(n < 0))
		sock_count_failed(sk, dir, (int)n, false);
	if (n <= 0)
		return false;
	if (dir == DIR_RX) {
		count(&sk->st->rx_bytes_inet, (uint64_t)n);
		count(&sk->st->rx_ops, 1);
		count(&sk->st->rx_ops_inet, 1);
	} else {
		count(&sk->st->tx_bytes_inet, (uint64_t)n);
		count(&sk->st->tx_ops, 1);
		count(&sk->st->tx_ops_inet, 1);
		if (unlikely(load_rlx(&sk->flags) & SOCK_F_PORT))
			port_send_count();
	}
	if (load_rlx(&sk->last_dir) != dir) {
		store_rlx(&sk->last_dir, (uint8_t)dir);
		count(&sk->pingpongs, 1);
	}
	return dir == DIR_RX && inet_reached(sk, load_rlx(&sk->pingpongs));
}
