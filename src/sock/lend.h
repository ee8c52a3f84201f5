/* SPDX-License-Identifier: MIT */
/*
 * sock/lend.h - bytes where they lie: lent to the application, or taken from it
 *
 *     lend()      the next bytes of the stream, where they lie     ->  the application
 *     back()      it has given the oldest of them back             ->  room for the peer
 *     send_ref()  bytes that lie in a region (sock/region.h)       ->  the peer, uncopied
 *     refs_done() how many of those the peer has finished reading
 *
 * A table for protocols that can do this, besides struct sock_ops, and for a caller that
 * has the socket to itself: one thread at a time, no other process.  So nothing here locks
 * or sleeps.  A caller that gets 0 from lend() or send_ref() uses recv() and send().
 * Errors are negative errnos; @fd is a descriptor of the anchor.
 *
 * Lent bytes come back in any order, and from any thread; the caller keeps them in the
 * order of the stream, and tells of the oldest only.  An application that never gives
 * something back would stop the stream in the end.  move_on() prevents that: what is lent
 * stays where it is, and the stream goes on elsewhere.  Lent memory outlives the socket:
 * it has a count of references.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/atomic.h"

struct region;
struct sock;

/* What the protocol has to know of some bytes that it has lent. */
struct lent {
	uint32_t off; /* where they lie, */
	uint32_t
	    n_refs; /* and behind how many references: the protocol's own */
	/* The peer hears only in the order of the stream that they came back, though the
	 * stream has moved on meanwhile. */
	bool in_order;
};

/* Where lent bytes lie: of one socket.  The protocol embeds it. */
struct lend_memory {
	uint32_t
	    n_refs; /* the socket's, and one for each piece that outlives its stay */
	/* The last reference has gone. */
	void (*free)(struct lend_memory *m);
	/* @which came back after the socket had gone, or moved on; NULL: nothing is to
	 * be done with a single piece. */
	void (*came_back)(struct lend_memory *m, const struct lent *which);
};

static inline void lend_memory_get(struct lend_memory *m)
{
	fetch_add(&m->n_refs, 1);
}

/* @which: the piece that had the reference; NULL: it was the socket's. */
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
	 * @in_place: it may be lent bytes
	 * @told: NULL, or to be called with all memory in which they may lie
	 *
	 * Return: what is lent lies there, with a reference that close() of the socket
	 * takes back; NULL: no memory, so nothing is lent.
	 */
	struct lend_memory *(*open)(struct sock *sk, bool in_place,
				    void (*told)(void *addr, size_t len));

	/*
	 * Receiving.
	 */

	/* May there be something to receive?  Cheap, for who asks again and again. */
	bool (*ready)(const struct sock *sk);
	/**
	 * lend() - the next bytes, if they can be lent
	 * @data, @at: where they are, and what back() wants to know
	 *
	 * Return: their number; 0 recv() has to be asked; -ECONNRESET.
	 */
	int32_t (*lend)(struct sock *sk, int fd, const uint8_t **data,
			struct lent *at);
	/* What was lent before @oldest has come back; NULL: all has. */
	void (*back)(struct sock *sk, int fd, const struct lent *oldest);
	/* Tell the peer now what has come back: this side is about to rest. */
	void (*rest)(struct sock *sk, int fd);
	/* Does the peer wait for the room that lent bytes take?  @anew: what it has said
	 * so far does not count; if it still waits it says so again. */
	bool (*is_waited_for)(struct sock *sk, bool anew);
	/* What is lent is going to stay: go on elsewhere.  lend() lends nothing until the
	 * stream has got there. */
	void (*move_on)(struct sock *sk, int fd);
	/* recv() would have nothing, as far as can be told without calling it. */
	bool (*is_idle)(struct sock *sk);

	/*
	 * Sending.
	 */

	/* As send() of struct sock_ops, @len being the bytes of the vectors. */
	ssize_t (*send)(struct sock *sk, int fd, const struct iovec *iov,
			size_t n, size_t len);
	/* Is there so much room that send() is going to take a small message whole? */
	bool (*is_spacious)(const struct sock *sk);
	/* What send() takes from now on is acknowledged at once, for it lies in the
	 * peer's own memory. */
	bool (*acks_at_once)(const struct sock *sk);
	/**
	 * send_ref() - the next bytes are @len bytes of @r, from @off on
	 * @len: at most LEND_REF_MAX
	 *
	 * Return: @len, or 0: send a copy; -ECONNRESET.
	 */
	ssize_t (*send_ref)(struct sock *sk, int fd, const struct region *r,
			    uint64_t off, uint32_t len);
	/* How many references the peer is done with, of @n_sent, and not before *@n_done,
	 * which becomes that number.  -ECONNRESET: the peer lies. */
	int (*refs_done)(struct sock *sk, int fd, uint32_t n_sent,
			 uint32_t *n_done);
	/* The connection ends: may the peer still read what it has references to? */
	bool (*peer_reads)(struct sock *sk);

	/*
	 * Waiting.
	 */

	/* Asked for in each turn, or not any more.  While it is, nobody is told of what
	 * comes; the caller fences after the change to false, and looks once more. */
	void (*hot)(struct sock *sk, bool is_hot);
	/* The caller waits for room alone, and sleeps by descriptors or, @by_fd, by the
	 * anchor's.  False: there is room by now, or something to receive. */
	bool (*arm_room)(struct sock *sk, int fd, bool by_fd);
};

#define LEND_REF_MAX (64u * 1024)
