/* SPDX-License-Identifier: MIT */
/*
 * proto/shm/tx.h - what the ways to send have in common
 *
 *     tx.c        bytes of the application
 *     tx_file.c   bytes of a file
 *     tx_grow.c   how much of its ring a stream uses
 */
#pragma once

#include <assert.h>

#include "proto/shm/shm.h"
#include "sock/cursor.h"

/* Records of a long write: small enough to overlap, large enough to be few, and of no size
 * in which programs read.  There are programs that read again after a full buffer, and take
 * it for an error that nothing is there, because the reader has just caught up. */
#define TX_CHUNK (32u * 1024 - 64)
static_assert(TX_CHUNK % 1024, "buffers are multiples of it");
#define BULK_BYTES (8u * 1024 * 1024)

/* tx_grow.c: after BULK_BYTES, was the stream fast enough for a larger part of the ring? */
COLD void tx_bulk_look(struct sock *sk);
/* tx_grow.c: a call has found no room. */
COLD void tx_full_note(struct sock *sk);

static inline void tx_bulk_count(struct sock *sk, uint32_t chunk)
{
	shm_of(sk)->bulk_bytes += chunk;
	if (unlikely(shm_of(sk)->bulk_bytes >= BULK_BYTES))
		tx_bulk_look(sk);
}

static inline bool tx_is_full(const struct sock *sk)
{
	return shm_of(sk)->tx_limit &&
	       ring_tx_used(&shm_of(sk)->tx) >= shm_of(sk)->tx_limit;
}

/* Takes the lock for sending.  0, or the error with which the call ends.  A candidate first
 * checks if the peer is ready. */
MUST_CHECK int tx_begin(struct sock *sk, int fd);
/* Ends what tx_begin() began.  A caller that got -EAGAIN waits until the peer has read
 * beyond this point. */
void tx_end(struct sock *sk, int fd, ssize_t r);
/* The stream is not in the ring: give the bytes to the kernel. */
COLD ssize_t tx_tcp(struct sock *sk, int fd, struct iov_cursor *c, size_t left,
		    int flags);
/* Our direction is shut: the error with which the call ends. */
COLD ssize_t tx_is_shut(struct sock *sk, int fd);
/* Has the peer left the ring, or ended? */
bool tx_nobody_reads(struct sock *sk, int fd);
/* Call this before a record is put behind the one that is corked. */
COLD void tx_held_begin(struct sock *sk, int fd, size_t left);
