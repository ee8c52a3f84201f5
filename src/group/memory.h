/* SPDX-License-Identifier: MIT */
/*
 * group/memory.h - memory that may be sent by reference
 *
 *     osf_mem_alloc()  one memfd, sparse and mapped whole: pages, runs of pages, slabs
 *     ibv_reg_mr()     a part of a shared mapping of the program's own
 *          |
 *          v
 *     memory_place(): which region of sock/region.h, and where in it
 *
 * The allocator keeps its books beside the memory, not in it, for peers see that.  What
 * it gives of a page or more begins on a page of its own.
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
/* NULL, and what the parent allocated, is fine; what is no block is logged, no more. */
void memory_free(void *p);
size_t memory_used(void); /* bytes that are allocated, rounded up */

/* A key for memory that the program registers, never 0; it may be sent by reference if
 * it is part of a shared mapping of a memfd that is, or can be, sealed against
 * shrinking.  0: no memory. */
uint32_t memory_register(const void *addr, size_t len);
void memory_deregister(uint32_t key); /* no key of this process: nothing */

struct place {
	const struct region *region;
	uint64_t off;
};

/* Where @len bytes at @p are; false: nowhere that a peer could see. */
bool memory_place(uint32_t key, const uint8_t *p, size_t len,
		  struct place *out);
/* False: there is none, of no key; for a quick no. */
bool memory_may_have(uint32_t key, const uint8_t *p);

/* Whether the allocator's memory has all of it; where it is then, false: no peer sees it
 * any more.  For memory_place(). */
bool heap_has(const void *p, size_t len);
bool heap_place(const uint8_t *p, size_t len, struct place *out);

/* Is it the allocator's, so that it can be given away, and has that not been done all
 * too often? */
bool memory_can_be_given(const uint8_t *p);

/**
 * memory_give_away() - leave whole pages to the peer that still reads them
 *
 * They are replaced by private copies at the same place, which are never sent by reference;
 * what the peer has mapped stays as it is.  Nobody writes to them meanwhile.  Memory
 * of the program's own mappings stays, for other processes may share it.
 */
void memory_give_away(const uint8_t *p, size_t len);
