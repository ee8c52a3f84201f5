/* SPDX-License-Identifier: MIT */
/*
 * sock/shared.h - a socket that several processes hold since a fork
 *
 *     fork()       ->  sock_share(): a page of numbers for the socket
 *     a half's lock -> page_enter(): lock the page's half, import its numbers
 *     its release   -> page_leave(): export them, unlock
 *     all others have let go  ->  sock_unshare(): its own memory is enough
 *
 * Each process has its own struct sock, with its own pointers, mappings and descriptors.
 * The page holds numbers: positions in a stream, options, the mode.  A process that has
 * dropped its privileges since the fork can still write there.  So the page is input, like
 * what a peer writes:
 *
 *   - sock_words may have any values, and are used where they are;
 *   - positions are copied out of the page once, when the half is taken, and each
 *     is checked (sock_ops.import).  What is used after that is the copy;
 *   - nobody waits longer than PAGE_WAIT_NS for a lock in the page.  A dead owner's
 *     lock is taken over.  A living owner of our own user has lost its core, or is
 *     stopped.  Then calls that move bytes or look at the socket go on without the
 *     half (sock.is_kept): a call that may not wait gets EAGAIN, others come again.
 *     shutdown() and the like note what they are to do (sock_words.due), for whoever
 *     has the half next.  Only a process that hands the descriptor over waits longer,
 *     for PAGE_PATIENCE_NS, unless the owner is stopped.  A thread that looks at many
 *     sockets waits once, not for each (page_lock_is_vain()).
 *
 * Where any of this fails, the connection is lost to this process (sock.is_lost): it is
 * reset, and counted, and its page is not entered again.  The same happens when an owner
 * has died with a half that it may have changed: nobody goes on with half a state.  So a
 * call exports after each of its parts, not only at its end (sock_settles_rx()).
 *
 * Each socket has a page (4096 bytes) of its own, so a process that has let go of one
 * socket cannot write to the page of another.  If it keeps the mapping, it can disturb this
 * connection alone, which it could also do with a copy of the descriptor.
 *
 * A socket that stays with the kernel has no page, only a count of its holders
 * (sock/arena.c).
 */
#pragma once

#include "base/clock.h"
#include "sock/sock.h"
#include "sock/sock_ops.h"

#define SHARED_BYTES 4096u
#define HALF_BYTES 256u
#define WRITER_MAX 0x7fffffffu
#define PAGE_WAIT_NS (5 * NS_PER_MS)
#define PAGE_PATIENCE_NS (2 * NS_PER_S)

/* Numbers that any holder can write. */
struct holders {
	int32_t n_procs;    /* that hold the description; 0: the last has ended
			     * without closing; -1: nobody any more */
	uint32_t maker_has; /* the process that made the socket holds it */
};

enum {
	HALF_IS_WHOLE,
	HALF_CHANGES, /* nobody can know how far it got */
	/* What is not exported is how many bytes went through the kernel's socket,
	 * beside the stream.  The kernel has counted them (sock_ops.repair). */
	HALF_UNCOUNTED,
};

struct page_half {
	alignas(CACHE_LINE) uint32_t word; /* as of a struct lock */
	uint32_t
	    is_changing; /* HALF_*: what its owner does is half done outside */
	uint32_t exported; /* who exported it last, times 2, plus where to */
	alignas(CACHE_LINE) uint8_t numbers[2][HALF_BYTES];
};

struct shared_page {
	struct page_half half[2]; /* enum sock_half */
	alignas(CACHE_LINE) struct holders holders;
	uint32_t mode;      /* enum sock_mode, changed under both halves */
	uint32_t mover;     /* a thread id: who has made it UPGRADING */
	uint32_t n_writers; /* numbers given to processes so far */
	struct sock_words words;
};

static_assert(sizeof(struct shared_page) <= SHARED_BYTES, "a page each");
#define PAGE_HAS(member, at)                                                   \
	static_assert(offsetof(struct shared_page, member) == (at),            \
		      "tests/trust/test_kept_pages.py writes there")
PAGE_HAS(half[HALF_RX].word, 0);
PAGE_HAS(half[HALF_TX].word, 576);
PAGE_HAS(mode, 1160);
PAGE_HAS(mover, 1164);
PAGE_HAS(words, 1216);
PAGE_HAS(words.proto, 1408 - SOCK_PROTO_WORDS);
#undef PAGE_HAS

/* Before a fork, in this order: count the sockets that need a page, get the memory
 * for all of them at once, share each. */
bool shared_needs_page(const struct sock *sk);
void shared_reserve(uint32_t n);
/* One more process.  -ENOMEM: the child may not use the connection. */
MUST_CHECK int sock_share(struct sock *sk);
/* After the fork, in the parent: give back what was reserved and not used. */
void shared_release(void);

/* If all others have let go, stop sharing: this process's memory is enough. */
void sock_unshare(struct sock *sk);
/* Of several processes that let go of a socket at once, the one that counts the last holder
 * down frees it, and no other does: who frees adds the socket's counts to the totals.
 *
 * This process has counted the last holder down for others that have ended.  True: its own
 * file has let go, too, and the caller frees the socket.  False: the thread that lets go of
 * it does. */
MUST_CHECK bool shared_all_let_go(struct sock *sk);
/* This process lets go of the socket, which others hold.  True: the caller frees it. */
MUST_CHECK bool shared_let_go(struct sock *sk);
/* In the child: the parent's sockets that it does not hold are no longer
 * sockets.  Call shared_child() first, then sock_inherit() for each socket that
 * it holds.  @calls: the fork happened in the middle of a call. */
void shared_child(void);
void sock_inherit(struct sock *sk, bool calls);
/* For sock_new() and sock_free(). */
void shared_init(struct sock *sk, struct holders *h);
void shared_unmap(struct sock *sk);
/* @sk's memory is about to be unmapped: unmap its page, if this process has it. */
void shared_drop(const struct sock *sk);
/* Makes @sk, a copy of a socket that other processes may hold, a socket of this
 * process alone.  @made is the socket that sock_new() has made in its place. */
void shared_alone(struct sock *sk, const struct sock *made);
/* The mode was changed here: other holders must learn of it. */
void shared_mode(struct sock *sk, enum sock_mode mode);
/* Does nobody send something of the protocol's own, w->n_ringing?  The caller holds a
 * half.  False: a process of our user has been about to for PAGE_WAIT_NS. */
MUST_CHECK bool shared_is_silent(struct sock *sk);
/* A relay goes on with the connection in the place of this process:
 *   begin   takes this process's own locks and counts the relay among the holders.
 *           False: nobody keeps the page any more, or it is lost
 *   end     if a relay was made (@parts), this process has no part in the page any more,
 *           and its own mode is UPGRADING; else the caller takes the relay off the count */
MUST_CHECK bool shared_part_begin(struct sock *sk);
void shared_part_end(struct sock *sk, bool parts);
/* In the relay, which is a copy of this process made between the two. */
void shared_in_relay(struct sock *sk);
/* Has nobody a half just now? */
bool shared_is_free(const struct sock *sk);
/* Does a process have one, and was stopped (SIGSTOP)? */
bool shared_is_stopped(const struct sock *sk);
/* This process cannot go on with the page: reset the connection. */
void shared_lose(struct sock *sk, const char *why);

static inline struct holders *sock_holders(const struct sock *sk)
{
	struct shared_page *p = load_acq(&sk->page);

	if (!p)
		p = load_acq(&sk->old_page);
	return p ? &p->holders : sk->holders;
}

/* How many processes hold it, as far as they report; at least 1. */
static inline int32_t sock_procs(const struct sock *sk)
{
	const struct holders *h = sock_holders(sk);
	int32_t n = h ? load_rlx(&h->n_procs) : 1;

	return n > 1 ? n : 1;
}

/* For a socket that others hold, too: has this process made a call on it since
 * it inherited it? If not, this process reports nothing that has arrived
 * there. */
static inline bool sock_was_used(const struct sock *sk)
{
	return load_rlx(&sk->writer);
}

/* @n processes no longer hold it: have all let go?  Then the caller alone ends
 * it. */
bool sock_let_go(struct sock *sk, int32_t n);
/* This process ends without closing it; true: it was the last holder. */
bool sock_leave_it(struct sock *sk);
/* The process that made the socket lets go; true: it had not done so before. */
bool sock_maker_lets_go(struct sock *sk);
