/* SPDX-License-Identifier: MIT */
/*
 * sock/lend.h - read and send bytes in place, without a copy
 *
 *     lend()      lends the next bytes of the stream to the application
 *     back()      returns the oldest of them, which gives the peer room
 *     send_ref()  sends bytes that lie in a region (sock/region.h) by reference
 *     refs_done() how many of those the peer has finished reading
 *
 * A table for protocols that can do this, besides struct sock_ops.  The caller
 * has the socket to itself: one thread at a time, no other process.  So
 * nothing here sleeps, and only lend_one() and one_back() take locks.  A caller
 * that gets 0 from lend() or send_ref() uses recv() or send().  Errors are
 * negative errnos; @fd is a descriptor of the anchor.
 *
 * Threads return lent bytes in any order; the caller keeps them in the order
 * of the stream and reports only the oldest.  If the application never
 * returned a piece, the stream would stop.  move_on() prevents that: what is
 * lent stays where it is, and the stream continues elsewhere.  Lent memory
 * outlives the socket, because it counts its references.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/atomic.h"

struct region;
struct sock;

/* What the protocol must know about bytes that it has lent. */
struct lent {
	uint32_t off; /* where they lie, */
	uint32_t
	    n_refs; /* and behind how many references: the protocol's own */
	/* Report to the peer in the order of the stream, even if the stream
	 * has moved. */
	bool in_order;
};

/* The memory of one socket's lent bytes.  The protocol embeds it. */
struct lend_memory {
	uint32_t n_refs; /* the socket's, and one per piece that outlives it */
	/* The last reference has gone. */
	void (*free)(struct lend_memory *m);
	/* @which came back after the socket had closed or moved on.  NULL: the
	 * protocol need not know about single pieces. */
	void (*came_back)(struct lend_memory *m, const struct lent *which);
};

static inline void lend_memory_get(struct lend_memory *m)
{
	fetch_add(&m->n_refs, 1);
}

/* @which: the piece that had the reference; NULL: the socket had it. */
static inline void lend_memory_put(struct lend_memory *m,
				   const struct lent *which)
{
	if (!m)
		return;
	if (which && m->came_back)
		m->came_back(m, which);
	if (fetch_sub(&m->n_refs, 1) == 1)
		m->free(m);
}

struct lend_ops {
	/**
	 * open() - the caller is going to use this table
	 *
	 * If @in_place is set, the protocol may lend bytes to the caller.  It
	 * then calls @announce, unless that is NULL, for all memory in which
	 * such bytes may lie.
	 *
	 * Return: the memory of the lent bytes, with a reference that close()
	 * of the socket drops; NULL: no memory, so nothing is lent.
	 */
	struct lend_memory *(*open)(struct sock *sk, bool in_place,
				    void (*announce)(void *addr, size_t len));

	/*
	 * Receiving.
	 */

	/* May there be something to receive?  Cheap, for callers that poll. */
	bool (*ready)(const struct sock *sk);
	/**
	 * lend() - the next bytes, if they can be lent
	 *
	 * *@data becomes their address, and *@at what back() needs.
	 *
	 * Return: their number; 0: call recv(); -ECONNRESET.
	 */
	int32_t (*lend)(struct sock *sk, int fd, const uint8_t **data,
			struct lent *at);
	/* All that was lent before @oldest has come back; NULL: everything
	 * has. */
	void (*back)(struct sock *sk, int fd, const struct lent *oldest);
	/* Tell the peer now what has come back, because this side is about to
	 * rest. */
	void (*rest)(struct sock *sk, int fd);
	/* Does the peer wait for room that lent bytes take?  @anew: forget
	 * what it has said so far; if it still waits, it says so again. */
	bool (*is_waited_for)(struct sock *sk, bool anew);
	/* Leave what is lent where it is, and continue elsewhere.  lend()
	 * lends nothing until the stream has reached the new place. */
	void (*move_on)(struct sock *sk, int fd);
	/* Without calling recv(): it would probably find nothing. */
	bool (*is_idle)(struct sock *sk);

	/*
	 * For callers that share the socket with other threads and calls, which know
	 * nothing of what is lent.  One piece at a time is lent; what is read meanwhile
	 * is copied, and the protocol moves on by itself.  The process must have said
	 * before the connection's upgrade that it may use these (ops_will_lend()).
	 */
	/**
	 * lend_one() - as lend(), at most @max bytes, with a reference to *@memory
	 *
	 * Return: 0: call recv(); -ECONNRESET.
	 */
	int32_t (*lend_one)(struct sock *sk, int fd, uint32_t max,
			    const uint8_t **data, struct lent *at,
			    struct lend_memory **memory);
	/* Returns @at to the protocol.  The caller then drops its reference. */
	void (*one_back)(struct sock *sk, int fd, const struct lent *at,
			 struct lend_memory *memory);

	/*
	 * Sending.
	 */

	/* As send() of struct sock_ops, @len being the bytes of the vectors. */
	ssize_t (*send)(struct sock *sk, int fd, const struct iovec *iov,
			size_t n, size_t len);
	/* Is there so much room that send() will take a small message whole? */
	bool (*is_spacious)(const struct sock *sk);
	/* What send() takes from now on is acknowledged at once, because it
	 * lies in the peer's own memory. */
	bool (*acks_at_once)(const struct sock *sk);
	/**
	 * send_ref() - send @len bytes of @r, from @off on, by reference
	 *
	 * @len is at most LEND_REF_MAX.
	 *
	 * Return: @len, or 0: send a copy; -ECONNRESET.
	 */
	ssize_t (*send_ref)(struct sock *sk, int fd, const struct region *r,
			    uint64_t off, uint32_t len);
	/* How many references is the peer done with, of @n_sent and since
	 * *@n_done?  Store it in *@n_done.  -ECONNRESET: the peer lies. */
	int (*refs_done)(struct sock *sk, int fd, uint32_t n_sent,
			 uint32_t *n_done);
	/* The connection ends: may the peer still read our references? */
	bool (*peer_reads)(struct sock *sk);

	/*
	 * Waiting.
	 */

	/* Start or stop polling the socket in each turn.  While the caller
	 * polls, nobody notifies it.  After it stops, it fences and looks once
	 * more. */
	void (*hot)(struct sock *sk, bool is_hot);
	/* The caller waits only for room, and sleeps on descriptors, with
	 * @by_fd on the anchor's.  False: there is room by now, or something
	 * to receive. */
	bool (*arm_room)(struct sock *sk, int fd, bool by_fd);
};

#define LEND_REF_MAX (64u * 1024)
