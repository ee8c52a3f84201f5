/* SPDX-License-Identifier: MIT */
/*
 * sock/shared.h - a socket that several processes hold since a fork
 *
 *     fork()  ->  sock_share(): a shared page with the socket's numbers
 *     a call  ->  shared_ops: lock, import, call the protocol, export, unlock
 *     all others have let go  ->  sock_unshare(): its own memory is enough
 *
 * Each process has its own struct sock, with its own pointers, mappings and
 * descriptors.  The page holds numbers: positions in a stream, options, the
 * mode.  A process that has dropped its privileges since the fork can still
 * write there.  So each reader checks these numbers, as it checks what a peer
 * has written (sock_ops.import).  A wrong number ends this connection and
 * nothing else.
 *
 * A page belongs to one socket.  A process that has let go of the socket no
 * longer passes the page on by fork, so its later children cannot reach the
 * sockets of earlier ones.  The page stays mapped until the socket is freed,
 * for threads that are just looking.  A process that once held this socket,
 * and keeps the mapping, can disturb this socket while others share it.
 *
 * A thread waits SHARED_LOCK_NS for the lock in the page.  A living owner that
 * holds it longer has lost its core, or is hostile.  Then a call that may not
 * sleep returns -EAGAIN, and other calls try again.
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

/* What all protocols have in common: numbers of which any is valid. */
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

/* For shared_ops.c: the protocol's own table.  With the page locked, import
 * what others have done and export what we have done.  -EPROTO: invalid;
 * -EAGAIN: another process is returning the connection to the kernel. */
const struct sock_ops *shared_protocol(const struct sock *sk);
MUST_CHECK int page_import(struct sock *sk, const struct shared_page *p);
void page_export(const struct sock *sk, struct shared_page *p);

/* Before a fork: count one more process.  -ENOMEM: the child may not use it. */
MUST_CHECK int sock_share(struct sock *sk);
/* If all others have let go, stop sharing: this process's memory is enough. */
void sock_unshare(struct sock *sk);
/* This process lets go of the socket; true: it was the last holder. */
bool shared_let_go(struct sock *sk);
/* In the child: the parent's sockets that it does not hold are no longer
 * sockets.  Call shared_child() first, then sock_inherit() for each socket it
 * holds.  @calls: the fork happened in the middle of a call. */
void shared_child(void);
void sock_inherit(struct sock *sk, bool calls);
/* For sock_new(). */
void shared_init(struct sock *sk);
/* The kernel has it for good: other processes must learn this before they
 * look. */
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

/* Is this thread inside a visit, or does no other process hold the socket?  A
 * thread may have looked up its table just before a fork. */
static inline bool sock_is_visited(const struct sock *sk)
{
	return likely(!sock_is_shared(sk)) ||
	       (load_rlx(&sk->page->lock.word) & ~LOCK_WAITERS) == lock_self();
}

/* How many processes hold it, as far as they report; at least 1. */
static inline int32_t sock_procs(const struct sock *sk)
{
	const struct shared_page *f = load_acq(&sk->page);
	int32_t n = f ? load_rlx(&f->n_procs) : 1;

	return n > 1 ? n : 1;
}

/* @n processes no longer hold it: have all let go?  Then the caller alone ends
 * it. */
bool sock_let_go(struct sock *sk, int32_t n);
/* This process ends without closing it; true: it was the last holder. */
bool sock_leave_it(struct sock *sk);
/* The process that made the socket lets go; true: it had not done so before. */
bool sock_maker_lets_go(struct sock *sk);
