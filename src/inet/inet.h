/* SPDX-License-Identifier: MIT */
/*
 * inet/inet.h - the kernel's TCP as a protocol: it moves the bytes, we count them
 *
 *     libc's own call  ->  inet_account()  ->  "worth a look at the upgrade?"
 *
 * A turn is a change of direction: a request and its response are two.  The side
 * that opened the connection looks before it sends, the other after it received,
 * so that an offer made before a request is seen with that request.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "sock/sock.h"

/* Before a send in mode YOUNG: is it time for ops_look()? */
static inline bool inet_due_before_send(const struct sock *sk)
{
	return sk->turns + (sk->last_dir != DIR_TX) >= sk->turns_next ||
	       sk->st.rx_bytes_inet + sk->st.tx_bytes_inet >= sk->bytes_next;
}

/* After a call that moved @n bytes: is it time for ops_look()? */
static inline bool inet_account(struct sock *sk, int dir, ssize_t n)
{
	if (n <= 0)
		return false;
	if (dir == DIR_RX) {
		count(&sk->st.rx_bytes_inet, (uint64_t)n);
		count(&sk->st.rx_ops, 1);
	} else {
		count(&sk->st.tx_bytes_inet, (uint64_t)n);
		count(&sk->st.tx_ops, 1);
	}
	if (sk->last_dir != dir) {
		sk->last_dir = (uint8_t)dir;
		sk->turns++;
	}
	return dir == DIR_RX &&
	       (sk->turns >= sk->turns_next ||
		sk->st.rx_bytes_inet + sk->st.tx_bytes_inet >= sk->bytes_next);
}
