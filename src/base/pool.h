/* SPDX-License-Identifier: MIT */
/*
 * base/pool.h - elements of one size, in memory that the caller provides
 *
 * Getting and putting an element take a few instructions, and elements never move.  The
 * first word of a free element links to the next one, so a pool needs no other memory.
 * It does not touch elements that were never in use, so their pages stay unused until
 * then.
 *
 * A pool begins with one piece of memory, and may grow by blocks.  All blocks have one
 * size and are aligned to it, so the address of an element tells its block.  A block
 * without used elements can be taken back.  pool_get() prefers the first piece, and
 * then blocks that are in use, so that other blocks become unused.
 *
 * Owner: the owner of the memory; there are no locks.
 */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"

#define POOL_BLOCK (1u << 20) /* bytes, and the alignment */
#define POOL_BLOCK_HEAD 128

/* A piece of memory: elements that were in use at least once, and the list of free
 * ones. */
struct pool_part {
	uint8_t *base;
	void *free; /* the last one first */
	uint32_t n, n_free, n_beyond;
};

struct pool_block {
	struct list link; /* of the blocks that have free elements */
	struct pool_part part;
	uint32_t slot; /* in the pool's table */
};
static_assert(sizeof(struct pool_block) <= POOL_BLOCK_HEAD, "fits its place");

struct pool {
	struct pool_part first;
	uint32_t size;   /* of an element, bytes */
	uint32_t n;      /* elements, of all parts */
	uint32_t n_free; /* not taken */
	struct list blocks;
	struct pool_block *
	    *table; /* NULL: an empty slot; the pool cannot grow */
	uint32_t n_slots;
};

/* @mem holds n * size bytes, aligned for the elements. */
static inline void pool_init(struct pool *p, void *mem, uint32_t size,
			     uint32_t n)
{
	assert(size >= sizeof(void *));
	*p = (struct pool){ .first = { .base = mem, .n = n, .n_free = n },
			    .size = size,
			    .n = n,
			    .n_free = n };
	list_init(&p->blocks);
}

static inline uint32_t pool_block_elements(uint32_t size)
{
	return (POOL_BLOCK - POOL_BLOCK_HEAD) / size;
}

/* @table: @n_slots pointers, all NULL.  The pool may have so many blocks */
static inline void pool_may_grow(struct pool *p, struct pool_block **table,
				 uint32_t n_slots)
{
	p->table = table;
	p->n_slots = n_slots;
}

static inline void *pool_part_get(struct pool_part *at, uint32_t size)
{
	void *e = at->free;

	if (e)
		at->free = *(void **)e;
	else if (at->n_beyond < at->n)
		e = at->base + (size_t)size * at->n_beyond++;
	else
		return NULL;
	at->n_free--;
	return e;
}

/* Return: an element with arbitrary contents, or NULL when all are in use. */
static inline void *pool_get(struct pool *p)
{
	void *e = pool_part_get(&p->first, p->size);

	if (!e) {
		if (list_is_empty(&p->blocks))
			return NULL;
		struct pool_block *b =
		    (struct pool_block *)(void *)p->blocks.next;
		e = pool_part_get(&b->part, p->size);
		if (!b->part.n_free)
			list_del(&b->link);
	}
	p->n_free--;
	return e;
}

static inline bool pool_is_first(const struct pool *p, const void *e)
{
	size_t off = (size_t)((const uint8_t *)e - p->first.base);

	return off < (size_t)p->first.n * p->size;
}

static inline struct pool_block *pool_block_of(const void *e)
{
	return (struct pool_block *)((uintptr_t)e &
				     ~(uintptr_t)(POOL_BLOCK - 1));
}

static inline void pool_part_put(struct pool_part *at, void *e)
{
	assert(at->n_free < at->n);
	*(void **)e = at->free;
	at->free = e;
	at->n_free++;
}

static inline void pool_put(struct pool *p, void *e)
{
	p->n_free++;
	if (pool_is_first(p, e)) {
		pool_part_put(&p->first, e);
		return;
	}
	struct pool_block *b = pool_block_of(e);

	pool_part_put(&b->part, e);
	/* A block without used elements goes to the end of the list, so that it is used
	 * last. */
	if (b->part.n_free == 1 || b->part.n_free == b->part.n) {
		list_del(&b->link);
		if (b->part.n_free == b->part.n)
			list_add_tail(&p->blocks, &b->link);
		else
			list_add_tail(p->blocks.next, &b->link);
	}
}

static inline uint32_t pool_index(const struct pool *p, const void *e)
{
	const uint8_t *at = e;

	if (pool_is_first(p, e))
		return (uint32_t)((size_t)(at - p->first.base) / p->size);
	const struct pool_block *b = pool_block_of(e);
	return p->first.n + b->slot * pool_block_elements(p->size) +
	       (uint32_t)((size_t)(at - b->part.base) / p->size);
}

static inline void *pool_at(const struct pool *p, uint32_t i)
{
	if (i < p->first.n)
		return p->first.base + (size_t)p->size * i;
	uint32_t each = pool_block_elements(p->size);
	const struct pool_block *b = p->table[(i - p->first.n) / each];

	return b->part.base + (size_t)p->size * ((i - p->first.n) % each);
}

/* Adds a block of POOL_BLOCK bytes that is aligned to its size.  Return: whether there
 * was a slot */
static inline bool pool_grow(struct pool *p, void *mem)
{
	struct pool_block *b = mem;
	uint32_t slot = 0;

	assert((uintptr_t)mem % POOL_BLOCK == 0);
	while (slot < p->n_slots && p->table[slot])
		slot++;
	if (slot == p->n_slots)
		return false;
	uint32_t n = pool_block_elements(p->size);
	*b = (struct pool_block){ .part = { .base = (uint8_t *)mem +
						    POOL_BLOCK_HEAD,
					    .n = n,
					    .n_free = n },
				  .slot = slot };
	p->table[slot] = b;
	p->n += n;
	p->n_free += n;
	list_add_tail(&p->blocks, &b->link);
	return true;
}

/* Return: a block without used elements, which no longer belongs to the pool; or NULL. */
static inline void *pool_shrink(struct pool *p)
{
	if (list_is_empty(&p->blocks))
		return NULL;
	struct pool_block *b = (struct pool_block *)(void *)p->blocks.prev;
	if (b->part.n_free < b->part.n)
		return NULL;
	list_del(&b->link);
	p->table[b->slot] = NULL;
	p->n -= b->part.n;
	p->n_free -= b->part.n;
	return b;
}
