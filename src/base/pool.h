/* SPDX-License-Identifier: MIT */
/*
 * base/pool.h - elements of one size, in memory that the caller hands in
 *
 * Taking and giving back are a few instructions, and the memory never moves.  A
 * free element's first word is the link to the next one, so that a pool costs
 * nothing but its elements.  Elements that were never taken are not touched: their
 * pages stay unused until they are needed.
 *
 * Owner: whoever owns the memory; there are no locks.
 */
#pragma once

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

struct pool {
	uint8_t *base;
	void *free;        /* given back; the last one first */
	uint32_t size;     /* of an element, bytes */
	uint32_t n;        /* elements */
	uint32_t n_free;   /* not taken */
	uint32_t n_beyond; /* elements from the start that were ever taken */
};

/* @mem holds n * size bytes, aligned for the elements. */
static inline void pool_init(struct pool *p, void *mem, uint32_t size,
			     uint32_t n)
{
	assert(size >= sizeof(void *));
	*p = (struct pool){ .base = mem, .size = size, .n = n, .n_free = n };
}

/* Return: an element with any contents, or NULL when all are taken. */
static inline void *pool_get(struct pool *p)
{
	void *e = p->free;

	if (e)
		p->free = *(void **)e;
	else if (p->n_beyond < p->n)
		e = p->base + (size_t)p->size * p->n_beyond++;
	else
		return NULL;
	p->n_free--;
	return e;
}

static inline void pool_put(struct pool *p, void *e)
{
	assert(p->n_free < p->n);
	*(void **)e = p->free;
	p->free = e;
	p->n_free++;
}

static inline uint32_t pool_index(const struct pool *p, const void *e)
{
	return (uint32_t)((size_t)((const uint8_t *)e - p->base) / p->size);
}

static inline void *pool_at(const struct pool *p, uint32_t i)
{
	return p->base + (size_t)p->size * i;
}
