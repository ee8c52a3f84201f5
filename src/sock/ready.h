/* SPDX-License-Identifier: MIT */
/*
 * sock/ready.h - who waits for which sockets, and their ready lists
 *
 *     a protocol:       sock_notify(sk, events)  ->  the sets of @sk's watches
 *     another process:  a feed, which the set polls
 *     the waiter:       spins on ready_has_come(), ready_sleep(), ready_drain()
 *
 * A struct watch says that one waiter wants notifications of one socket, like
 * a wait queue entry in Linux.  A struct ready_set belongs to the waiter, like
 * the ready list of an epoll instance: it collects the notifications of its
 * watches until the waiter drains it.  A notification only means that a look
 * is worth while; the operation events() says what is true.
 *
 * Each protocol has one source of readiness, and all who wait are behind it.
 * For a protocol inside this process it is sock_notify().  A peer in another
 * process cannot call that.  It writes to memory instead (shm_notify_data() and
 * shm_notify_space()), and wakes what the waiter has armed:
 *
 *     a set              watch(), arm()   ->  a place in the set's feed
 *     a call that sleeps arm_bell()       ->  the bell of its thread
 *     all others         arm()            ->  the anchor
 *
 * So who waits goes through these operations (sock/sock_ops.h), and reads no
 * ring, inbox or bell itself.  A call that sleeps on a ring opens no watch: it
 * would need its bell all the same, and take the ring's only place in a feed
 * away from a set.
 *
 * A set has at most one feed; the operation watch() opens it.  ready_drain()
 * returns notifications of this process first, then the feed's news in the order
 * in which peers wrote it.  See proto/shm/ready.c.
 *
 * Two fences make sure that no news is lost between a look and a sleep.  The
 * waiter says that it sleeps, fences, and looks once more.  The notifier
 * stores the news, fences, and checks if the waiter sleeps.
 *
 * Locks: watch_list.lock, then ready_set.lock.  Both are leaves: a protocol
 * may call sock_notify() with its own locks held.  One thread at a time drains
 * a set, and opens and closes its watches; a waiter with threads has a lock
 * for that.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/list.h"
#include "base/lock.h"

struct sock;
struct ready_set;

/* The events of a notification: poll()'s bits, and */
#define READY_NEWS                                                             \
	0x10000u /* by its protocol, and not by a call in this process */
#define READY_ANY 0x1ffffu /* something, nobody knows what */

#define READY_SLOT_NONE UINT32_MAX

/* Embedded in what the waiter keeps for the socket. */
struct watch {
	struct list
	    notified;       /* on ready_set.notified while @events wait there */
	struct watch *next; /* of the same socket */
	struct ready_set *set; /* NULL: not open */
	uint32_t events;       /* notified of, and not drained yet */
	uint32_t slot;    /* its place in the set's feed, or READY_SLOT_NONE */
	bool is_notified; /* of all that comes; if not, only the anchor tells */
};

/* All watches of a socket in this process: sock.watches. */
struct watch_list {
	struct lock lock;
	struct watch *first;
};

/* Called for each notification.  @is_behind: it is the first that the peer posted after it
 * had sent something by the kernel, so ask the kernel before you serve it.  The waiter's
 * thread calls this inside ready_drain(). */
typedef void ready_news(struct watch *w, unsigned events, bool is_behind,
			void *arg);

/* Brings news of sockets whose peers are other processes. */
struct ready_feed {
	bool (*drain)(struct ready_set *rs, ready_news *news, void *arg);
	/* @naps: for a moment, without being woken. */
	void (*sleep)(struct ready_set *rs, bool naps);
	void (*awake)(struct ready_set *rs, bool others_sleep);
	/* The waiter has asked the kernel's descriptors for all their news, at
	 * @now_ns. */
	void (*asked)(struct ready_set *rs, uint64_t now_ns);
	void (*forget)(struct sock *sk,
		       struct watch *w); /* gives its slot back */
	void (*close)(struct ready_set *rs);
};

/* The words by which a feed says that it has news: one of them is not 0.  They lie
 * in up to READY_PLACES places. */
#define READY_WORDS 4u
#define READY_PLACES 24u

struct ready_set {
	const uint64_t *posted[READY_PLACES]; /* READY_WORDS words each */
	uint32_t n_posted;
	struct list notified; /* watches that were notified of something */
	struct lock
	    lock; /* of @notified, and of what its watches were notified */
	uint32_t n_sleepers; /* threads that sleep, or are about to */
	uint32_t
	    bell1;  /* base/bell.h: the bell they sleep on too, plus 1; or 0 */
	bool by_fd; /* no feed: only descriptors can wake this waiter */
	bool is_calls; /* on the stack of a thread that waits in a call */
	const struct ready_feed *feed; /* NULL: none yet */
	uint32_t lane;                 /* the feed's number for the set */
	void (*wake)(struct ready_set *rs);
};

/* Each notification calls @wake, with leaves locked, to wake the waiter's
 * threads. */
void ready_init(struct ready_set *rs, void (*wake)(struct ready_set *rs));
void ready_close(struct ready_set *rs); /* its watches are closed */
/* In the child of a fork: the feed belongs to the parent.  The caller also
 * calls watch_after_fork() for each of the set's watches. */
void ready_after_fork(struct ready_set *rs);
void watch_after_fork(struct watch *w);
/* The same for @sk: the calls that waited for it are the parent's other threads'. */
void watches_after_fork(struct sock *sk);

/* Notify @rs of @sk from now on. */
void watch_open(struct sock *sk, struct watch *w, struct ready_set *rs);
void watch_close(struct sock *sk, struct watch *w);
/* From now on only the anchor reports this socket. */
void watch_by_fd(struct sock *sk, struct watch *w);

/* Notify all who wait for @sk in this process that @events may have become true.  A
 * protocol changes its state first, and then calls this. */
void sock_notify(struct sock *sk, unsigned events);

/* Pass all notifications to @news; true if there were any. */
bool ready_drain(struct ready_set *rs, ready_news *news, void *arg);
/* A thread is about to sleep.  False: there is news, so it must not sleep.
 * Call ready_awake() in both cases. */
bool ready_sleep(struct ready_set *rs);
/* The same for a thread that sleeps for a moment only: a feed need not wake it. */
bool ready_nap(struct ready_set *rs);
void ready_awake(struct ready_set *rs);
/* Called by the operation watch(): the set has this feed from now on. */
void ready_feed_open(struct ready_set *rs, const struct ready_feed *feed,
		     uint32_t lane);
/* The feed also writes to @posted, unless it is known; it stays mapped.  True if
 * threads sleep, or are about to, that may have missed it. */
bool ready_feed_more(struct ready_set *rs, const uint64_t *posted);
/* The kernel was asked for all its news at @now_ns. */
void ready_asked(struct ready_set *rs, uint64_t now_ns);

/* Is there anything to drain?  For callers that poll. */
static inline bool ready_has_come(const struct ready_set *rs)
{
	uint64_t any = 0;

	for (unsigned p = 0; p < load_acq(&rs->n_posted); p++)
		for (unsigned i = 0; i < READY_WORDS; i++)
			any |= load_acq(&rs->posted[p][i]);
	return any || load_rlx(&rs->notified.next) != &rs->notified;
}
