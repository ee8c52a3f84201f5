/* SPDX-License-Identifier: MIT */
/*
 * proto/shm/inbox.h - which of a process's connections have news
 *
 *     a peer sets a bit of the connection's slot  ->  inbox_drain() clears it
 *
 * One memfd a process, shared with every peer.  It has lanes, one for each ready set
 * (sock/ready.h) that holds upgraded sockets, so that each waiter looks at news of its
 * own only, in O(news): a lane is a bitmap of slots under a summary, and a word
 * that says whether its waiter sleeps.  Who sets a bit and finds the waiter asleep
 * rings the lane's bell (base/bell.h), or else the connection's anchor: the
 * waiter's kernel epoll set holds both.
 *
 *   I1  slot's news, log, then bit, then summary (peer)
 *         ->  summary, bit (drain)
 *   Dekker: sleeping, fence, summary (waiter) / summary, fence, sleeping (peer)
 *
 * Whoever sets a bit draws a ticket of the lane first, and enters the bit in its log
 * there.  A drain gives news in the order of the log: what one thread sends over
 * several connections is served in the order in which it was sent, as the kernel's
 * ready list would have it.  The log holds the last LANE_LOG; bits that are not in it
 * are older, and come first, in the order of their slots.  What goes
 * past the inbox, by TCP, has no ticket.  So each process notes when it has sent in
 * that way, and its next post leaves word in the lane, unless the waiter has asked the
 * kernel since: it has to do so before it comes to this ticket.
 *
 * Peers of the same user write here.  They can wake us for nothing, and wipe out what
 * another has posted: so the waiter also looks at some of its sockets unasked, ten times
 * a second (file/epoll_ready.c).  Wrong tickets and logs change nothing but the order.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
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
#define BEHIND (UINT64_C(1) << 32) /* a ticket of lane.behind, not 0 */

struct lane {
	alignas(CACHE_LINE) uint32_t sleeping;
	uint32_t bell1; /* the waiter's bell, plus 1; 0: ring the anchor */
	/* The waiter spins on this line, so nothing else that is always written. */
	alignas(CACHE_LINE) uint64_t summary[LANE_WORDS / 64];
	uint64_t behind;   /* the first ticket that stands behind TCP; or 0 */
	uint64_t asked_ns; /* the waiter knows what TCP had brought by then */
	/* One line with the bits of the first slots: it moves with them. */
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
};

static_assert(sizeof(struct lane) == 4096, "a page a lane, touched when used");

/* A peer's, as one process sees it. */
struct peer_inbox {
	struct inbox *in;
	uint32_t n_rang;  /* instead of a post: that goes by TCP too */
	uint64_t rang_ns; /* the last time */
	struct peer_bells bells;
	/* Of each lane, which was told last: what had gone past by then, in the upper
	 * half, and the ticket that the word was left for. */
	uint64_t told[INBOX_LANES];
};

static inline uint32_t slot_make(uint32_t lane, uint32_t bit)
{
	return lane << 16 | bit;
}

/* This process's own: made on first use.  NULL when memory is out. */
struct inbox *inbox_own(void);
uint32_t inbox_own_tag(void); /* tells it from others of the family; 0: none */
/* To be passed to a peer, and kept open until it is given back; -EMFILE: it was needed
 * elsewhere, and there is none any more.  Either way it is to be given back. */
int inbox_own_fd_get(void);
void inbox_own_fd_put(void);
/* Close it: there are no further upgrades.  True if it was open. */
bool inbox_spare_fd(void);
void inbox_after_fork(void);

/* Lanes of our own. */
uint32_t lane_open(void); /* LANE_NONE when all are taken */
void lane_close(uint32_t lane);
/* A slot for @owner, a watch, on @lane; SLOT_NONE when full. */
uint32_t slot_open(uint32_t lane, void *owner);
void slot_close(uint32_t slot);

/* Clear the lane's news and give each slot's owner to @news(), in the order of posts.
 * What is behind is the first that was posted after its peer had sent something by TCP.
 * One caller at a time.  True if any. */
bool inbox_drain(uint32_t lane, ready_news *news, void *arg);

static inline bool lane_has_news(const struct lane *l)
{
	uint64_t any = 0;

	for (unsigned i = 0; i < LANE_WORDS / 64; i++)
		any |= __atomic_load_n(&l->summary[i], __ATOMIC_ACQUIRE);
	return any;
}

/* Peers' inboxes: mapped once a peer process. */
MUST_CHECK int inbox_attach(int fd, struct peer_inbox **to);
void inbox_detach(struct peer_inbox *to);

/* Keep bell @bell of the peer's, which process @pid has passed: see bell_keep(). */
MUST_CHECK int inbox_keep_bell(struct peer_inbox *of, uint32_t bell, int fd,
			       pid_t pid);

/* This process has just done something that a peer on this host hears of by TCP. */
void inbox_went_past(void);
/* The same, of a doorbell, which only this peer hears; NULL: it has no inbox. */
void inbox_rang(struct peer_inbox *to);

/* Does the waiter of @slot's lane sleep? */
bool inbox_sleeps(const struct peer_inbox *to, uint32_t slot);
/* Set the bit of @slot; true if the peer's waiter sleeps and must be rung. */
bool inbox_post(struct peer_inbox *to, uint32_t slot);
/* Wake the waiter of @slot's lane by its bell; false: we have none. */
bool inbox_ring(const struct peer_inbox *to, uint32_t slot);
