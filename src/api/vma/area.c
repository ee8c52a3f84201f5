/* SPDX-License-Identifier: MIT */
/* api/vma/area.c - see api/vma/area.h */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#include "api/vma/area.h"
#include "api/vma/held.h"
#include "base/lock.h"

struct area {
	struct iovec at; /* as the program has named it */
	uint8_t *next;   /* chunks from here on were never used */
	size_t n_new;    /* so many */
	struct chunk *free;
	struct area *other;
};

static struct lock lock; /* all below */
static struct area *areas;
static unsigned n_areas;

/* A free chunk's first word behind its header says which is next. */
static struct chunk **link_of(struct chunk *c)
{
	return (struct chunk **)((uint8_t *)c + CHUNK_FIRST);
}

static struct area *find(const struct iovec *at)
{
	struct area *a = areas;

	while (a &&
	       (a->at.iov_base != at->iov_base || a->at.iov_len != at->iov_len))
		a = a->other;
	return a;
}

struct area *area_of(const struct iovec *at, int *err)
{
	size_t skip = -(uintptr_t)at->iov_base % CACHE_LINE;

	*err = -EINVAL;
	if (is_bad_ptr(at->iov_base) || at->iov_len < skip + CHUNK_BYTES)
		return NULL;
	GUARD(&lock);
	struct area *a = find(at);
	if (a)
		return a;
	*err = -ENOMEM;
	if (n_areas == AREAS_MAX || !(a = calloc(1, sizeof(*a))))
		return NULL;
	a->at = *at;
	a->next = (uint8_t *)at->iov_base + skip;
	a->n_new = (at->iov_len - skip) / CHUNK_BYTES;
	a->other = areas;
	areas = a;
	n_areas++;
	return a;
}

struct chunk *area_take(struct area *a)
{
	GUARD(&lock);
	struct chunk *c = a->free;

	if (c) {
		a->free = *link_of(c);
	} else if (a->n_new) {
		c = (struct chunk *)a->next;
		a->next += CHUNK_BYTES;
		a->n_new--;
	}
	return c;
}

void area_put(struct area *a, struct chunk *c)
{
	GUARD(&lock);
	*link_of(c) = a->free;
	a->free = c;
}
