/* SPDX-License-Identifier: MIT */
/*
 * group/memory.h - memory that may be sent by reference
 *
 *     osf_mem_alloc()  one memfd, sparse and mapped whole: pages, runs of pages, slabs
 *     ibv_reg_mr()     a part of a shared mapping of the program's own
 *          |
 *          v
 *     memory_place(): the region (sock/region.h) and the place in it
 *
 * The allocator keeps its own data outside this memory, because peers can see
 * it.  An allocation of a page or more begins on a page of its own.
 *
 * Thread-safe; one lock for the allocator, none for memory_place().
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

#define MEMORY_PAGE 4096u

struct region;

void *memory_alloc(size_t n); /* NULL: out of memory */
/* NULL and blocks of the parent are fine; any other is only logged. */
void memory_free(void *p);

/* Returns a key for memory that the program registers; 0: out of memory.  It
 * may be sent by reference if it is part of a shared mapping of a memfd that
 * is, or can be, sealed against shrinking. */
uint32_t memory_register(const void *addr, size_t len);
/* Of a key that is not our own: what changes with each use of a region's number. */
#define MEMORY_KEY_BITS 8u
/* The same under a key that libosf-verbs.so's device has given to the memory, instead of
 * what its number was registered with before.  Without memory it cannot be sent by
 * reference.  A process uses either this or memory_register(). */
void memory_register_as(uint32_t key, const void *addr, size_t len);
void memory_deregister(uint32_t key); /* no key of this process: nothing */

struct place {
	const struct region *region;
	uint64_t off;
};

/* Where @len bytes at @p are; false: no peer can map them. */
bool memory_place(uint32_t key, const uint8_t *p, size_t len,
		  struct place *out);
/* A quick check.  False: it cannot go by reference, under no key. */
bool memory_may_have(uint32_t key, const uint8_t *p);

/* heap_has(): does the allocator own all of it? heap_place(): where it is;
 * false: it was given away and no peer sees it any more.  For memory_place().
 */
bool heap_has(const void *p, size_t len);
bool heap_place(const uint8_t *p, size_t len, struct place *out);

/* Is it the allocator's, and is there room to give more pages away? */
bool memory_can_be_given(const uint8_t *p);

/**
 * memory_give_away() - leave whole pages to a peer that still reads them
 *
 * Puts private copies in their place, which are never sent by reference.  What
 * the peer has mapped stays unchanged.  Nobody may write to the pages during
 * the call.  Does nothing for the program's own mappings: other processes may
 * share them.
 */
void memory_give_away(const uint8_t *p, size_t len);
