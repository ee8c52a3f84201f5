/* SPDX-License-Identifier: MIT */
/*
 * shm/inbox.h - which of a process's connections have news
 *
 *     a peer sets a bit of the connection's slot  ->  inbox_harvest() clears it
 *
 * One memfd a process, shared with every peer.  It has lanes, one for each epoll
 * instance that holds upgraded sockets, so that each waiter looks at news of its
 * own only, in O(news): a lane is a bitmap of slots under a summary, and a word
 * that says whether its waiter sleeps.  Who sets a bit and finds the waiter asleep
 * rings the connection's anchor, which the waiter's kernel epoll set holds.
 *
 *   I1  slot's news, then bit, then summary (peer)  ->  summary, bit (harvest)
 *   Dekker: sleeping, fence, summary (waiter) / summary, fence, sleeping (peer)
 *
 * Peers of the same user write here.  They can wake us for nothing, and wipe out what
 * another has posted: so the waiter also looks at some of its sockets unasked, ten times
 * a second (file/epoll_wait.c).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include "base/compiler.h"

#define SLOT_NONE UINT32_MAX
#define INBOX_LANES 128u
#define LANE_WORDS 256u
#define LANE_SLOTS (LANE_WORDS * 64)
#define LANE_NONE UINT32_MAX

struct lane {
	alignas(CACHE_LINE) uint32_t sleeping;
	alignas(CACHE_LINE) uint64_t summary[LANE_WORDS / 64];
	alignas(CACHE_LINE) uint64_t bits[LANE_WORDS];
	alignas(4096) char end[];
};

struct inbox {
	uint64_t magic;
	uint8_t id[16];
	alignas(4096) struct lane lane[INBOX_LANES];
};

static_assert(sizeof(struct lane) == 4096, "a page a lane, touched when used");

static inline uint32_t slot_make(uint32_t lane, uint32_t bit)
{
	return lane << 16 | bit;
}

/* This process's own: made on first use.  NULL when memory is out. */
struct inbox *inbox_own(void);
uint32_t inbox_own_tag(void); /* tells it from others of the family; 0: none */
int inbox_own_fd(void);       /* to be passed to a peer */
void inbox_after_fork(void);

/* Lanes of our own. */
uint32_t lane_open(void); /* LANE_NONE when all are taken */
void lane_close(uint32_t lane);
/* A slot for @owner on @lane, SLOT_NONE when full. */
uint32_t slot_open(uint32_t lane, void *owner);
void slot_close(uint32_t slot);

/* Clear the lane's news and give each slot's owner to @news(); true if any. */
bool inbox_harvest(uint32_t lane, void (*news)(void *owner, void *arg),
		   void *arg);

static inline bool lane_has_news(const struct lane *l)
{
	uint64_t any = 0;

	for (unsigned i = 0; i < LANE_WORDS / 64; i++)
		any |= __atomic_load_n(&l->summary[i], __ATOMIC_ACQUIRE);
	return any;
}

/* Peers' inboxes: mapped once a peer process. */
MUST_CHECK int inbox_attach(int fd, struct inbox **in);
void inbox_detach(struct inbox *in);

/* Set the bit of @slot; true if the peer's waiter sleeps and must be rung. */
bool inbox_post(struct inbox *in, uint32_t slot);
