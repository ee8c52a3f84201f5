/* SPDX-License-Identifier: MIT */
/*
 * sock/ready.h - who waits for which sockets, and what they have been told of
 *
 *     a protocol:       sock_notify(sk, events)  ->  the set of each watch of @sk
 *     another process:  a feed, which the set looks into
 *     the waiter:       ready_has_come() while it spins, ready_sleep(), ready_drain()
 *
 * A struct watch says that one waiter wants to hear of one socket; Linux has a wait
 * queue entry for that.  A struct ready_set is the waiter's: it collects what its watches
 * were told of until the waiter drains it; Linux has the ready list of an epoll instance.
 * Being told means no more than that a look is worth while: what holds, the operation
 * events() says.
 *
 * A protocol that lives in this process calls sock_notify().  One whose peer is another
 * process has a feed, which is memory that the peer writes to: see proto/shm/ready.c.
 * A set has one feed at most; the operation watch() opens it.  News of a feed comes in
 * the order in which it was written, and what was told in this process before it.
 *
 * Two fences make sure that no news is lost between a look and a sleep.  The waiter says
 * that it sleeps, fences, and looks once more; whoever tells stores the news, fences, and
 * looks whether the waiter sleeps.
 *
 * Locks: watch_list.lock, then ready_set.lock.  Both are leaves: a protocol may call
 * sock_notify() with its own locks held.  The waiter drains its set, and opens and closes
 * watches, one thread at a time, under a lock of its own if it has threads.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/list.h"
#include "base/lock.h"

struct sock;
struct ready_set;

/* What a watch was told of: poll()'s bits, and */
#define READY_NEWS                                                             \
	0x10000u /* by its protocol, and not by a call in this process */
#define READY_ANY 0x1ffffu /* something, nobody knows what */

#define READY_SLOT_NONE UINT32_MAX

/* Embedded in what the waiter keeps for the socket. */
struct watch {
	struct list told;      /* on ready_set.told while @events wait there */
	struct watch *next;    /* of the same socket */
	struct ready_set *set; /* NULL: not open */
	uint32_t events;       /* told of, and not drained yet */
	uint32_t slot; /* its place in the set's feed, or READY_SLOT_NONE */
	bool is_told;  /* of all that comes; if not, only the anchor tells */
};

/* All watches of a socket. */
struct watch_list {
	struct lock lock;
	struct watch *first;
};

/* @is_behind: of the first that came behind something that the kernel has to be asked
 * for.  Called by the waiter's thread inside ready_drain(). */
typedef void ready_news(struct watch *w, unsigned events, bool is_behind,
			void *arg);

/* What brings news of sockets whose peers are other processes. */
struct ready_feed {
	bool (*drain)(struct ready_set *rs, ready_news *news, void *arg);
	void (*sleep)(struct ready_set *rs);
	void (*awake)(struct ready_set *rs, bool others_sleep);
	/* The waiter knows what the kernel's descriptors had to tell at @now_ns. */
	void (*asked)(struct ready_set *rs, uint64_t now_ns);
	void (*forget)(struct sock *sk,
		       struct watch *w); /* gives its slot back */
	void (*close)(struct ready_set *rs);
};

/* A feed says by these words that it has news: all of them are 0, or it has. */
#define READY_WORDS 4u

struct ready_set {
	const uint64_t *posted; /* READY_WORDS words of the feed */
	struct list told;       /* watches that were told of something */
	struct lock lock;    /* of @told, and of what its watches were told */
	uint32_t n_sleepers; /* threads that sleep, or are about to */
	uint32_t
	    bell1;  /* base/bell.h: the bell they sleep on too, plus 1; or 0 */
	bool by_fd; /* no feed: only descriptors can wake this waiter */
	const struct ready_feed *feed; /* NULL: none yet */
	uint32_t lane;                 /* the feed's number for the set */
	void (*wake)(struct ready_set *rs);
};

/* @wake is called after each notification, with leaves locked: it ends the sleep of the
 * waiter's threads, if any sleeps. */
void ready_init(struct ready_set *rs, void (*wake)(struct ready_set *rs));
void ready_close(struct ready_set *rs); /* its watches are closed */
/* In the child of a fork: the feed is the parent's.  The caller does the same with
 * watch_after_fork() for each of the set's watches. */
void ready_after_fork(struct ready_set *rs);
void watch_after_fork(struct watch *w);

/* Tell @rs of @sk from now on.  @l: the list of all watches of @sk. */
void watch_open(struct watch_list *l, struct sock *sk, struct watch *w,
		struct ready_set *rs);
void watch_close(struct watch_list *l, struct sock *sk, struct watch *w);
/* From now on the anchor alone tells of it. */
void watch_by_fd(struct sock *sk, struct watch *w);

/* @events are new. */
void watches_tell(struct watch_list *l, unsigned events);

/* Give @news what the watches were told of; true if there was any. */
bool ready_drain(struct ready_set *rs, ready_news *news, void *arg);
/* A thread is about to sleep.  False: something has come, so it should not.  Either way
 * ready_awake() follows. */
bool ready_sleep(struct ready_set *rs);
void ready_awake(struct ready_set *rs);
/* By the operation watch(): the set has this feed from now on. */
void ready_feed_open(struct ready_set *rs, const struct ready_feed *feed,
		     uint32_t lane, const uint64_t *posted);
/* The kernel was asked for all that it has to tell, at @now_ns. */
void ready_asked(struct ready_set *rs, uint64_t now_ns);

/* Is there anything to drain?  For who asks often. */
static inline bool ready_has_come(const struct ready_set *rs)
{
	const uint64_t *w = load_rlx(&rs->posted);
	uint64_t any = 0;

	for (unsigned i = 0; i < READY_WORDS; i++)
		any |= load_acq(&w[i]);
	return any || load_rlx(&rs->told.next) != &rs->told;
}
