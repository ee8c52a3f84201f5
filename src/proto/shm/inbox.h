/* SPDX-License-Identifier: MIT */
/*
 * proto/shm/inbox.h - the ready list of a process: which connections have news
 *
 *     a peer posts: it sets the bit of the connection's slot
 *       ->  inbox_drain() clears it
 *
 * An inbox is a memfd that this process shares with one peer process and nobody
 * else, so that no peer, present or former, can erase or see the news of another.
 * Each costs its waiters a line to look at and a word to write before they sleep,
 * so there are INBOXES_PRIVATE of them at a time.  Peer processes that come later
 * share one inbox with the others of their user, who could stop each other anyway.
 * An inbox without connections is let go, except the last, which waits for its peer.
 * Who still maps the memory of one that was let go writes to nobody.
 *
 * All inboxes have a lane for each ready set (sock/ready.h) that watches upgraded
 * sockets, so that a waiter only looks at its own news, in O(news).  A lane is
 * a bitmap of slots, a summary of that bitmap, and a word that says if the
 * waiter sleeps.  A peer that sets a bit and finds the waiter asleep until it is rung rings the
 * lane's bell (base/bell.h) or, if it has none, the connection's anchor: the
 * waiter's kernel epoll set holds both.
 *
 *   I1  slot's news, log, then bit, then summary (peer)
 *         ->  summary, bit (drain)
 *   Dekker: sleeping, fence, summary (waiter) / summary, fence, sleeping (peer)
 *
 * Before a peer sets a bit, it draws a ticket of the lane and enters the bit
 * in the lane's log under that ticket.  A drain returns news in the order of
 * the log.  So if one thread sends over several connections, they are served
 * in the order in which it sent, as with the kernel's ready list.  The log
 * holds the last LANE_LOG posts; bits that are not in it are older, and come
 * first, by slot.
 *
 * Bytes sent by TCP have no ticket.  So each process notes when it last sent
 * by TCP, and its next post records in the lane that TCP bytes came before
 * this ticket.  The waiter then asks the kernel before it serves that ticket,
 * unless it has asked since.
 *
 * A peer can wake us for nothing, and erase its own news; false tickets and logs
 * only change the order.  Where the processes of a user share an inbox, one can erase
 * what another has posted.  So the waiter also looks at some of its sockets ten times
 * a second (file/epoll_ready.c).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/bell.h"
#include "base/compiler.h"
#include "sock/ready.h"

#define SLOT_NONE READY_SLOT_NONE
#define INBOX_LANES 128u
#define LANE_WORDS 256u
#define LANE_SLOTS (LANE_WORDS * 64)
#define LANE_LOG 512u
#define LANE_RECENT 14u
#define LANE_NONE UINT32_MAX
#define INBOXES 24u /* of a process at most */
#define INBOXES_PRIVATE                                                        \
	16u /* of one peer process each, while there are so few */
#define BEHIND (UINT64_C(1) << 32) /* a ticket of lane.behind, not 0 */

/* lane.sleeping */
#define LANE_AWAKE 0u
#define LANE_ASLEEP 1u /* until it is rung */
#define LANE_NAPS 2u   /* for a moment: it looks by itself, and is not rung */

struct lane {
	alignas(CACHE_LINE) uint32_t sleeping;
	uint32_t bell1; /* the waiter's bell, plus 1; 0: ring the anchor */
	/* The waiter polls this line, so no field that is written often is in
	 * it. */
	alignas(CACHE_LINE) uint64_t summary[LANE_WORDS / 64];
	uint64_t behind;   /* first ticket after bytes sent by TCP, or 0 */
	uint64_t asked_ns; /* the waiter knows what TCP had brought by then */
	/* The ticket shares a line with the bits of the first slots, as both
	 * change together. */
	alignas(CACHE_LINE) uint32_t ticket; /* the next one */
	uint16_t recent[LANE_RECENT]; /* the log's last: bits, by ticket */
	uint64_t bits[LANE_WORDS];
	alignas(CACHE_LINE) uint16_t log[LANE_LOG];
	alignas(4096) char end[];
};

struct inbox {
	uint64_t magic;
	uint8_t id[16];
	alignas(4096) struct lane lane[INBOX_LANES];
	/* Of a thread that sleeps on its bell for several peers: the first to wake it
	 * clears its word, so that the others make no call. */
	struct {
		alignas(CACHE_LINE) uint32_t sleeping;
	} bell[BELLS];
};

static_assert(sizeof(struct lane) == 4096, "a page a lane, touched when used");

/* A peer's inbox, as this process sees it. */
struct peer_inbox {
	struct inbox *in;
	uint32_t n_rang;  /* doorbells: like all sent by TCP, not posts */
	uint64_t rang_ns; /* the last time */
	/* When we last found one of the peer's connections open; 0 if we then found one
	 * ended. */
	uint64_t lives_ns;
	struct peer_bells bells;
	/* For each lane: the last ticket before which we told the waiter that TCP bytes
	 * came, and in the upper half how often this process had sent by TCP by then. */
	uint64_t notified[INBOX_LANES];
};

static inline uint32_t slot_make(uint32_t lane, uint32_t bit)
{
	return lane << 16 | bit;
}

/* A slot as the peer is told it.  Ours have the inbox's number above. */
#define SLOT_LOCAL 24
static inline uint32_t slot_public(uint32_t slot)
{
	return slot == SLOT_NONE ? SLOT_NONE : slot & ((1u << SLOT_LOCAL) - 1);
}

static inline uint32_t slot_lane(uint32_t slot)
{
	return slot_public(slot) >> 16;
}

/* The inbox for posts by process @pid of user @uid: its tag, which differs from
 * those of parents and children after a fork.  0: none.  Give each back. */
uint32_t inbox_get(uid_t uid, pid_t pid);
void inbox_put(uint32_t tag);
/* NULL: it is not this process's. */
struct inbox *inbox_of(uint32_t tag);
/* Borrow its descriptor, to send it to the peer.  Call the second function in any
 * case.  -EMFILE: the descriptor was given up, see below. */
int inbox_fd_get(uint32_t tag);
void inbox_fd_put(void);
/* Close these descriptors, so that there are no more upgrades.  True if any was
 * open. */
bool inbox_spare_fd(void);
bool inbox_spare_bells(void); /* of peers */
void inbox_after_fork(void);
void post_after_fork(void);

/* Lanes of our own: one number in all inboxes. */
uint32_t lane_open(void); /* LANE_NONE when all are taken */
/* A thread is about to nap.  One that has begun to sleep in between goes on being rung. */
static inline void lane_nap(struct lane *l)
{
	cas(&l->sleeping, LANE_AWAKE, LANE_NAPS);
}

void lane_close(uint32_t lane);
/* The *@i-th inbox's lane in use, and the next *@i; NULL: there are no more. */
struct lane *lane_next(uint32_t lane, uint32_t *i);
/* Give the watch @owner a slot on @lane in the inbox @tag; SLOT_NONE when the lane is
 * full. */
uint32_t slot_open(uint32_t lane, uint32_t tag, void *owner);
void slot_close(uint32_t slot);
struct lane *slot_in(uint32_t slot); /* that a slot of ours is in */

/* Clear the lane's news and call @news() for each slot's owner, in the order
 * of posts.  The first that a peer posted after it had sent by TCP is called
 * "behind".  One caller at a time.  True if there was news. */
bool inbox_drain(uint32_t lane, ready_news *news, void *arg);

static inline bool lane_has_news(const struct lane *l)
{
	uint64_t any = 0;

	for (unsigned i = 0; i < LANE_WORDS / 64; i++)
		any |= __atomic_load_n(&l->summary[i], __ATOMIC_ACQUIRE);
	return any;
}

/* Peers' inboxes: mapped once a peer process.  The last one without connections stays
 * mapped for the next connection, unless there is another peer's by then. */
MUST_CHECK int inbox_attach(int fd, struct peer_inbox **to);
void inbox_detach(struct peer_inbox *to);

/* Keep bell @bell of the peer, passed by process @pid: see bell_keep(). */
MUST_CHECK int inbox_keep_bell(struct peer_inbox *of, uint32_t bell, int fd,
			       pid_t pid);

/* This process has just caused an event that peers on this host see through
 * TCP. */
void inbox_went_past(void);
/* The same for a doorbell, which only peer @to sees.  NULL: it has no inbox. */
void inbox_rang(struct peer_inbox *to);

/* Does the waiter of @slot's lane sleep? */
bool inbox_sleeps(const struct peer_inbox *to, uint32_t slot);
/* Set the bit of @slot; true if the peer's waiter sleeps and must be rung. */
bool inbox_post(struct peer_inbox *to, uint32_t slot);
/* There is news of our own @slot in @tag, as if a peer had posted it.  Nobody is
 * woken. */
void inbox_tell_self(uint32_t tag, uint32_t slot);
/* Wake the thread of bell @bell, or know that another has; false: we have no copy. */
bool inbox_ring_only(const struct peer_inbox *to, uint32_t bell);
/* Wake the waiter of @slot's lane by its bell; false: we have none. */
bool inbox_ring(const struct peer_inbox *to, uint32_t slot);
