/* SPDX-License-Identifier: MIT */
/*
 * base/extent.h - bytes with a count of references
 *
 * An extent is a piece of memory with a count of references: a frame that has arrived,
 * or bytes that a program has sent.  Whoever keeps a pointer into its bytes holds a
 * reference: the receive queue, the send queue, and a port whose frame is still on its
 * way.  Suppose bytes are acknowledged while a retransmission of them still waits in a
 * port's queue.  Then the port's reference keeps them unchanged.
 *
 * Only the maker of an extent writes its bytes: before it shares them, or behind the
 * last byte that others refer to.
 *
 * An extent may also wrap memory of a program (extent_lend()); its bytes are only read.
 *
 * Owner: the group that owns the pool; counts are not atomic.
 */
#pragma once

#include "base/compiler.h"
#include "base/pool.h"

#define EXTENT_CACHED (512u << 10) /* bytes of a pool in use */
#define EXTENT_FETCHED 2048u       /* bytes of one */

struct extent {
	uint32_t refs;
	uint32_t cap; /* bytes at data */
	struct pool *pool;
	uint8_t *data; /* behind it, or somebody's memory */
	/* Called with the last reference, instead of putting the extent into a pool;
	 * NULL: not. */
	void (*done)(struct extent *e);
};

/* The size of a pool's element for an extent of @cap bytes. */
static inline uint32_t extent_size(uint32_t cap)
{
	return (uint32_t)(sizeof(struct extent) + cap + 63) / 64 * 64;
}

/* Return: an extent with one reference, or NULL when the pool is empty. */
static inline struct extent *extent_new(struct pool *p)
{
	struct extent *e = pool_get(p);

	if (!e)
		return NULL;
	e->refs = 1;
	e->cap = p->size - (uint32_t)sizeof(struct extent);
	e->pool = p;
	e->data = (uint8_t *)(e + 1);
	e->done = NULL;
	return e;
}

/* Makes an extent of the caller's memory, with one reference, which is the caller's.
 * The memory must stay until @done is called, when the last reference is put. */
static inline void extent_lend(struct extent *e, const void *data, uint32_t len,
			       void (*done)(struct extent *e))
{
	*e = (struct extent){ .refs = 1,
			      .cap = len,
			      .data = (uint8_t *)(uintptr_t)data,
			      .done = done };
}

static inline struct extent *extent_get(struct extent *e)
{
	assert(e->refs);
	e->refs++;
	return e;
}

/* Frees an extent without references. */
static inline void extent_end(struct extent *e)
{
	if (e->done)
		e->done(e);
	else
		pool_put(e->pool, e);
}

static inline void extent_put(struct extent *e)
{
	assert(e->refs);
	if (!--e->refs)
		extent_end(e);
}

/* As extent_put(), of an extent that has held @n_bytes.  The next extent_new() returns the
 * extent that was put last, and its owner probably writes as much.  So these bytes are
 * fetched, into the second level of the cache: all that a turn puts would push out of the
 * first level what the turn needs.  A pool of which little is in use is in the cache
 * anyway. */
static inline void extent_put_to_reuse(struct extent *e, uint32_t n_bytes)
{
	const struct pool *p = e->pool;

	assert(e->refs);
	if (--e->refs)
		return;
	if (!e->done && (size_t)(p->n - p->n_free) * p->size >= EXTENT_CACHED) {
		const uint8_t *at = (const uint8_t *)e + CACHE_LINE;
		const uint8_t *end = e->data + MIN(n_bytes, EXTENT_FETCHED);

		for (; at < end; at += CACHE_LINE)
			__builtin_prefetch(at, 1, 2);
	}
	extent_end(e);
}
