/* SPDX-License-Identifier: MIT */
/* api/vma/held.c - see api/vma/held.h */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "api/vma/area.h"
#include "api/vma/below.h"
#include "api/vma/held.h"
#include "base/atomic.h"
#include "base/lock.h"

#define SLAB 1024u /* records */

struct held {
	uint32_t generation; /* of the number; odd: in use */
	uint32_t next_free;  /* index + 1 */
	uint32_t owner;
	int32_t fd;
	struct chunk *chunk; /* where it lies; NULL: see @lent */
	/* Where the packet lies, if the calls below have lent it.  memory NULL: the number
	 * is in use, and the program holds no packet under it. */
	struct below_lent lent;
};

static struct lock lock; /* all below */
static struct held *slabs[HELD_MAX / SLAB];
static uint32_t n_slabs, first_free;
static uint32_t n_full; /* chunks that rooms have left, atomic */
static uint32_t n_lent; /* packets that lie in memory below, atomic */

static bool has_started;
static void *(*own_get)(size_t); /* the program's, or NULL */
static void (*own_put)(void *);
static struct chunk *spare; /* of that, for the first room; atomic */

int held_set_memory(void *(*get)(size_t), void (*put)(void *))
{
	GUARD(&lock);
	if (has_started)
		return -EINVAL;
	own_get = get;
	own_put = put;
	return 0;
}

static struct chunk *chunk_of(struct area *a)
{
	struct chunk *c = area_take(a);

	if (c)
		*c = (struct chunk){ .n_refs = 1, .area = a };
	return c;
}

/* NULL: no memory. */
static struct chunk *chunk_new(void)
{
	void *c = unlikely(load_rlx(&spare) != NULL)
		      ? xchg(&spare, (struct chunk *)NULL)
		      : NULL;

	if (c)
		return c;
	c = own_get ? own_get(CHUNK_BYTES)
		    : mmap(NULL, CHUNK_BYTES, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (c == MAP_FAILED || !c)
		return NULL;
	*(struct chunk *)c = (struct chunk){ .n_refs = 1 };
	return c;
}

void held_start(void)
{
	if (likely(load_acq(&has_started)))
		return;
	{
		GUARD(&lock);
		if (has_started)
			return;
		store_rel(&has_started, true); /* and own_get stays */
	}
	/* The program's function runs without our lock. */
	if (own_get)
		store_rel(&spare, chunk_new());
}

void held_chunk_put(struct chunk *c)
{
	if (is_single_threaded() ? --c->n_refs : fetch_sub(&c->n_refs, 1u) != 1)
		return;
	if (c->is_left)
		fetch_sub(&n_full, 1u);
	if (c->area)
		area_put(c->area, c);
	else if (own_put)
		own_put(c);
	else
		munmap(c, CHUNK_BYTES);
}

void room_close(struct room *r)
{
	if (r->chunk)
		held_chunk_put(r->chunk);
	*r = (struct room){ 0 };
}

uint8_t *room_renew(struct room *r)
{
	if (load_rlx(&n_full) >= HELD_CHUNKS_MAX)
		return NULL;
	struct chunk *c = r->area ? chunk_of(r->area) : chunk_new();
	if (!c)
		return NULL;
	if (r->chunk) {
		r->chunk->is_left = 1;
		fetch_add(&n_full, 1u);
		held_chunk_put(r->chunk);
	}
	r->chunk = c;
	r->off = CHUNK_FIRST;
	return (uint8_t *)c + r->off;
}

/* NULL: there is no such number. */
static struct held *find(uint64_t number)
{
	uint32_t i = (uint32_t)number - 1;

	if (i >= n_slabs * SLAB)
		return NULL;
	struct held *h = &slabs[i / SLAB][i % SLAB];
	return h->generation == number >> 32 && h->generation & 1 ? h : NULL;
}

static bool add_slab(void)
{
	if (n_slabs == HELD_MAX / SLAB)
		return false;
	struct held *new =
	    mmap(NULL, SLAB * sizeof(*new), PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (new == MAP_FAILED)
		return false;
	for (uint32_t i = SLAB; i--;) {
		new[i].next_free = first_free;
		first_free = n_slabs * SLAB + i + 1;
	}
	slabs[n_slabs++] = new;
	return true;
}

uint64_t held_number(uint32_t owner, int fd)
{
	GUARD(&lock);
	if (!first_free && !add_slab())
		return 0;
	uint32_t i = first_free - 1;
	struct held *h = &slabs[i / SLAB][i % SLAB];
	first_free = h->next_free;
	h->generation++;
	h->owner = owner;
	h->fd = fd;
	h->chunk = NULL;
	h->lent.memory = NULL;
	return (uint64_t)h->generation << 32 | (i + 1);
}

static void release(struct held *h, uint64_t number)
{
	h->generation++;
	h->next_free = first_free;
	first_free = (uint32_t)number;
}

void held_cancel(uint64_t number)
{
	GUARD(&lock);
	struct held *h = find(number);
	if (h)
		release(h, number);
}

struct chunk *room_keep(struct room *r, size_t n)
{
	held_chunk_get(r->chunk);
	r->off += (n + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
	r->off += n ? 0 : CACHE_LINE;
	return r->chunk;
}

void held_keep(uint64_t number, struct chunk *c)
{
	GUARD(&lock);
	find(number)->chunk = c;
}

/* The program may have memory of its own for packets. */
bool held_may_be_lent(void) { return !own_get && load_rlx(&n_lent) < LENT_MAX; }

void held_lent(void) { fetch_add(&n_lent, 1u); }

void held_lent_back(int fd, const struct below_lent *l)
{
	below_lent_back(fd, l);
	fetch_sub(&n_lent, 1u);
}

void held_keep_lent(uint64_t number, const struct below_lent *l)
{
	GUARD(&lock);
	held_lent();
	find(number)->lent = *l;
}

/* @fd: -1, or of a socket that is no more. */
static int free_one(uint64_t number, uint32_t owner, int fd)
{
	struct below_lent lent;
	struct chunk *c;
	{
		GUARD(&lock);
		struct held *h = find(number);

		if (!h || (!h->chunk && !h->lent.memory) ||
		    (fd < 0 ? h->owner != owner : h->fd != fd))
			return -ENOENT;
		c = h->chunk;
		lent = h->lent;
		fd = h->fd;
		release(h, number);
	}
	if (c)
		held_chunk_put(c);
	else
		held_lent_back(fd, &lent);
	return 0;
}

int held_free(uint64_t number, uint32_t owner)
{
	return free_one(number, owner, -1);
}

int held_free_orphan(uint64_t number, int fd)
{
	return fd < 0 ? -ENOENT : free_one(number, 0, fd);
}
