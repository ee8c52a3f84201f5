/* SPDX-License-Identifier: MIT */
/*
 * proto/shm/rx_place.c - records that a poll group reads where they lie
 *
 *     ring  ->  shm_recv_place()  ->  a pointer into the ring, and the record's offset
 *
 * The bytes stay in the ring until the program gives them back.  If it keeps them, the
 * ring fills up: then shm_ask_to_move() asks the peer to go on in the other half of the
 * ring's memory, and shm_rx_move() follows the peer there.
 *
 * The caller has the socket to itself; for shm_rx_move() it holds the rx lock.
 */
#include <errno.h>

#include "proto/shm/rx.h"

HOT int32_t shm_recv_place(struct sock *sk, int fd, uint32_t max,
			   const uint8_t **data, uint32_t *off)
{
	enum ring_mark mark;

	if (unlikely(sock_mode(sk) != SOCK_SHM || shm_w(sk)->rx_tcp ||
		     shm_w(sk)->rx_back || shm_w(sk)->rx_broken ||
		     shm_rx_is_unlooked(sk)))
		return 0;
	int32_t n = ring_peek(&shm_of(sk)->rx, data, &mark);
	if (unlikely(n < 0)) {
		shm_broken(sk, fd, "a record's header");
		return -ECONNRESET;
	}
	if (unlikely(!n))
		return 0;
	n = (int32_t)MIN((uint32_t)n, max);
	*off = shm_of(sk)->rx.off;
	ring_skip(&shm_of(sk)->rx, (uint32_t)n);
	rx_say_read(sk);
	count(&sk->st->rx_bytes_shm, (uint64_t)n);
	count(&sk->st->rx_ops, 1);
	shm_of(sk)->rx_unlooked += (uint64_t)n;
	return n;
}

static uint32_t *rx_other_tail(const struct sock *sk)
{
	struct seg_side *me = shm_me(sk);

	return shm_rx_area(sk) ? &me->tail : &me->tail2;
}

void shm_ask_to_move_later(struct sock *sk)
{
	ring_ask_to_move(&shm_of(sk)->rx, rx_other_tail(sk));
}

void shm_ask_to_move(struct sock *sk, int fd)
{
	shm_ask_to_move_later(sk);
	shm_notify_space(sk, fd);
}

COLD void shm_rx_move(struct sock *sk)
{
	uint32_t half = shm_of(sk)->tx.area_bytes;
	uint8_t *ring =
	    seg_ring(shm_of(sk)->seg, !shm_of(sk)->side, shm_ring_bytes(sk));
	unsigned to = !shm_rx_area(sk);

	ring_rx_moved(&shm_of(sk)->rx, ring + to * (size_t)half, half,
		      rx_other_tail(sk));
	store_rlx(&shm_me(sk)->read_half, to);
	rx_say_read(sk);
}
