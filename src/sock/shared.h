/* SPDX-License-Identifier: MIT */
/*
 * sock/shared.h - a socket that several processes hold since a fork
 *
 *     fork()  ->  sock_share(): a page of shared memory, the socket's numbers in it
 *     a call  ->  shared_ops: lock the page, import, call the protocol, export, unlock
 *     all others have let go  ->  sock_unshare(): this process's memory is enough
 *
 * Each process has a struct sock of its own, with its own pointers, mappings and
 * descriptors.  The page has numbers: positions in a stream, options, the mode.  Whoever
 * has dropped its privileges since the fork can still write there; so what a process
 * reads from it, it checks, as it checks what a peer has written (sock_ops.import).  A
 * wrong number ends this connection, and touches nothing else.
 *
 * A page has one socket, and is not inherited any more once the process has let go of
 * the socket: so a process forked later cannot reach the sockets of one that was forked
 * before.  It stays mapped until the socket is freed, for threads that are just looking.
 * One that has held this socket, and keeps the mapping, can disturb this socket while
 * others share it.
 *
 * The lock in the page is waited for SHARED_LOCK_NS.  A living owner that holds it longer
 * has lost its core, or means harm: a call that may not sleep returns -EAGAIN, and
 * others try again.
 */
#pragma once

#include "base/clock.h"
#include "base/lock.h"
#include "sock/sock.h"
#include "sock/sock_ops.h"

#define SHARED_BYTES 4096u
#define SHARED_CONN_BYTES 1024u
#define SHARED_LOCK_NS (5 * NS_PER_MS)
#define SHARED_PATIENCE_NS (200 * NS_PER_MS) /* for what has to be done */

/* What all protocols have in common: numbers that are right whatever they are. */
struct shared_numbers {
	uint8_t nonblock, shut, anchor_deaf, anchor_end, nodelay, cork;
	uint8_t inq, times, zc_on;
	int32_t anchor_err, rcvlowat;
	uint32_t errq, zc_next, zc_done, zc_kernel;
	uint64_t rcvtimeo_ns, sndtimeo_ns;
};

struct shared_page {
	struct lock lock;
	int32_t
	    n_procs; /* that hold the description; 0: the last has ended without
			  * closing; -1: nobody any more */
	uint32_t mode; /* enum sock_mode */
	uint32_t
	    n_sleepers;    /* threads of all of them that sleep on the anchor */
	uint8_t maker_has; /* the process that made the socket holds it */
	struct shared_numbers s;
	alignas(CACHE_LINE) uint8_t conn[SHARED_CONN_BYTES];
};

static_assert(sizeof(struct shared_page) <= SHARED_BYTES, "a page each");

extern const struct sock_ops shared_ops;

/* For shared_ops.c.  The protocol's own table; and, with the page locked, what others
 * have done, and what we have.  -EPROTO: it is impossible; -EAGAIN: another process
 * gives the connection to the kernel. */
const struct sock_ops *shared_protocol(const struct sock *sk);
MUST_CHECK int page_import(struct sock *sk, const struct shared_page *p);
void page_export(const struct sock *sk, struct shared_page *p);

/* Before a fork: one process more.  -ENOMEM: the child may not use the socket. */
MUST_CHECK int sock_share(struct sock *sk);
/* The others may have let go: then this process's memory is enough. */
void sock_unshare(struct sock *sk);
/* This process does not hold it any more; true: nobody does. */
bool shared_let_go(struct sock *sk);
/* In the child: of what it has of the parent's memory, only the sockets that it holds are
 * still sockets.  First the one, then the other for each of these; @calls: it goes on in
 * the middle of a call. */
void shared_child(void);
void sock_inherit(struct sock *sk, bool calls);
/* For sock_new(). */
void shared_init(struct sock *sk);
/* The kernel has it for good: the others are to know before their next look. */
void shared_is_kernels(struct sock *sk);
/* For SOCK_TELL(): the page is locked; false: this thread has it locked already, or
 * nobody lets go of it. */
bool shared_hold(struct sock *sk);

/*
 * Give number @field of the socket, one of struct shared_numbers, the value @v, in all
 * processes that hold it, whatever its table is: the next visit would bring back what
 * the page has.
 */
#define SOCK_TELL(sk, field, v)                                                \
	do {                                                                   \
		struct shared_page *page_ = load_acq(&(sk)->page);             \
		bool holds_ = page_ && shared_hold(sk);                        \
		store_rlx(&(sk)->field, (v));                                  \
		if (unlikely(page_))                                           \
			store_rlx(&page_->s.field, (v));                       \
		if (holds_)                                                    \
			lock_put(&page_->lock);                                \
	} while (0)

/* The socket is freed. */
void shared_unmap(struct sock *sk);

/* Is this thread inside, or does no other process hold it?  A thread may have looked up
 * its table just before a fork. */
static inline bool sock_is_visited(const struct sock *sk)
{
	return likely(!sock_is_shared(sk)) ||
	       (load_rlx(&sk->page->lock.word) & ~LOCK_WAITERS) == lock_self();
}

/* How many processes hold it, as far as they say; at least 1. */
static inline int32_t sock_procs(const struct sock *sk)
{
	const struct shared_page *f = load_acq(&sk->page);
	int32_t n = f ? load_rlx(&f->n_procs) : 1;

	return n > 1 ? n : 1;
}

/* @n processes do not hold it any more: have all let go?  Then it is the caller's to
 * end, and nobody else's. */
bool sock_let_go(struct sock *sk, int32_t n);
/* This process ends without closing it; true: it was the last. */
bool sock_leave_it(struct sock *sk);
/* The process that made it lets go; true: it had not. */
bool sock_maker_lets_go(struct sock *sk);
