/* SPDX-License-Identifier: MIT */
/* group/buf.c - see group/buf.h */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/lock.h"
#include "base/vm.h"
#include "group/buf.h"

#define BLOCK_BYTES (1024u * 1024)
#define LIMIT_MIN (4 * BLOCK_BYTES)
#define POOL_CHUNKS 32u /* free ones that a pool keeps: 4 MB */
#define POOL_BUFS 4096u
#define BUFS_MAX (1u << 24) /* held at once, of all groups: 1 GB of addresses */
#define BUFS_A_REFILL 64u

struct block {
	struct block *next;
	void *mem;
};

static struct lock lock;
static struct group_memory memory;
static struct block *blocks;
static struct chunk *free_chunks;
static struct rxbuf *bufs, *free_bufs;
static uint32_t n_bufs;   /* ever used */
static uint64_t n_blocks; /* now */

void buf_init(const struct group_memory *m)
{
	memory = *m;
	if (memory.limit && memory.limit < LIMIT_MIN)
		memory.limit = LIMIT_MIN;
}

bool buf_is_external(void) { return memory.alloc; }

bool buf_is_announced(void) { return memory.announce; }

void buf_announce(void *addr, size_t len)
{
	if (memory.announce)
		memory.announce(addr, len, 0);
}

static void *block_alloc(void)
{
	if (memory.alloc)
		return memory.alloc(BLOCK_BYTES);
	void *map = mmap(NULL, BLOCK_BYTES, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return map == MAP_FAILED ? NULL : map;
}

static void block_free(void *mem)
{
	if (memory.free)
		memory.free(mem);
	else
		munmap(mem, BLOCK_BYTES);
}

/* Caller holds the lock. */
static bool block_add(void)
{
	if (memory.limit && (n_blocks + 1) * BLOCK_BYTES > memory.limit)
		return false;
	struct block *r = malloc(sizeof(*r));
	uint8_t *mem = r ? block_alloc() : NULL;

	if (!mem) {
		free(r);
		return false;
	}
	*r = (struct block){ .next = blocks, .mem = mem };
	blocks = r;
	n_blocks++;
	/* An allocator may align as it likes. */
	uint8_t *at = (uint8_t *)(((uintptr_t)mem + PIECE_ALIGN - 1) &
				  ~(uintptr_t)(PIECE_ALIGN - 1));
	for (; at + CHUNK_BYTES <= mem + BLOCK_BYTES; at += CHUNK_BYTES) {
		struct chunk *c = (struct chunk *)(void *)at;

		c->next = free_chunks;
		free_chunks = c;
	}
	buf_announce(mem, BLOCK_BYTES);
	return true;
}

static struct chunk *chunk_new(struct pool *p)
{
	struct chunk *c = p->free_chunks;

	if (c) {
		p->free_chunks = c->next;
		p->n_free_chunks--;
	} else {
		GUARD(&lock);
		if (!free_chunks && !block_add())
			return NULL;
		c = free_chunks;
		free_chunks = c->next;
	}
	c->n_refs = 1;
	c->filled = CHUNK_HEAD;
	c->next = NULL;
	return c;
}

static void chunk_recycle(struct pool *p, struct chunk *c)
{
	if (p && p->n_free_chunks < POOL_CHUNKS) {
		c->next = p->free_chunks;
		p->free_chunks = c;
		p->n_free_chunks++;
		return;
	}
	GUARD(&lock);
	c->next = free_chunks;
	free_chunks = c;
}

void chunk_put(struct pool *p, struct chunk *c)
{
	if (is_single_threaded() ? !--c->n_refs : fetch_sub(&c->n_refs, 1) == 1)
		chunk_recycle(p, c);
}

uint8_t *chunk_room(struct pool *p, uint32_t want, uint32_t *room)
{
	struct chunk *c = p->filling;

	/* All returned already: from the front again. */
	if (c && c->filled > CHUNK_HEAD && load_acq(&c->n_refs) == 1)
		c->filled = CHUNK_HEAD;
	if (unlikely(!c || CHUNK_BYTES - c->filled < want)) {
		struct chunk *next = chunk_new(p);

		if (!next)
			return NULL;
		if (c)
			chunk_put(p, c);
		p->filling = c = next;
	}
	*room = CHUNK_BYTES - c->filled;
	return (uint8_t *)c + c->filled;
}

struct chunk *chunk_take(struct pool *p, uint32_t n)
{
	struct chunk *c = p->filling;

	c->filled += (n + PIECE_ALIGN - 1) & ~(PIECE_ALIGN - 1);
	if (is_single_threaded())
		c->n_refs++;
	else
		fetch_add(&c->n_refs, 1);
	return c;
}

/* Caller holds the lock. */
static bool bufs_reserve(void)
{
	void *map = map_sparse(BUFS_MAX * sizeof(*bufs), PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1);

	if (map == MAP_FAILED)
		return false;
	store_rel(&bufs, map); /* pairs with rxbuf_of() */
	return true;
}

static COLD void bufs_refill(struct pool *p)
{
	GUARD(&lock);
	if (!bufs && !bufs_reserve())
		return;
	for (uint32_t i = 0; i < BUFS_A_REFILL; i++) {
		struct rxbuf *b = free_bufs;

		if (b)
			free_bufs = b->next;
		else if (n_bufs < BUFS_MAX)
			b = &bufs[n_bufs++];
		else
			return;
		b->next = p->free_bufs;
		p->free_bufs = b;
		p->n_free_bufs++;
	}
}

struct rxbuf *rxbuf_new(struct pool *p)
{
	if (unlikely(!p->free_bufs))
		bufs_refill(p);
	struct rxbuf *b = p->free_bufs;
	if (!b)
		return NULL;
	p->free_bufs = b->next;
	p->n_free_bufs--;
	b->next = NULL;
	return b;
}

void rxbuf_free(struct pool *p, struct rxbuf *b)
{
	store_rlx(&b->state, (uint32_t)RXBUF_FREE);
	if (likely(p && p->n_free_bufs < POOL_BUFS)) {
		b->next = p->free_bufs;
		p->free_bufs = b;
		p->n_free_bufs++;
		return;
	}
	GUARD(&lock);
	b->next = free_bufs;
	free_bufs = b;
}

struct rxbuf *rxbuf_of(struct group_buf *pub)
{
	struct rxbuf *base = load_acq(&bufs);
	uintptr_t off = (uintptr_t)pub - (uintptr_t)base;

	if (unlikely(!base || off >= BUFS_MAX * sizeof(*bufs) ||
		     off % sizeof(*bufs)))
		return NULL;
	return &base[off / sizeof(*bufs)];
}

void pool_fini(struct pool *p)
{
	if (p->filling)
		chunk_put(NULL, p->filling);
	for (struct chunk *c = p->free_chunks, *next; c; c = next) {
		next = c->next;
		chunk_recycle(NULL, c);
	}
	for (struct rxbuf *b = p->free_bufs, *next; b; b = next) {
		next = b->next;
		rxbuf_free(NULL, b);
	}
	*p = (struct pool){ 0 };
}

void buf_fini(void)
{
	GUARD(&lock);
	for (uint32_t i = 0; i < n_bufs; i++)
		if (bufs[i].state == RXBUF_ORPHAN) /* never returned */
			lend_memory_put(bufs[i].memory, &bufs[i].at);
	if (n_bufs)
		memset(bufs, 0, n_bufs * sizeof(*bufs));
	n_bufs = 0;
	free_bufs = NULL;
	for (struct block *r = blocks, *next; r; r = next) {
		next = r->next;
		block_free(r->mem);
		free(r);
	}
	blocks = NULL;
	n_blocks = 0;
	free_chunks = NULL;
	memory = (struct group_memory){ 0 };
}

void buf_after_fork(void)
{
	lock = (struct lock){ 0 };
	/* Blocks that the child may still read stay mapped.  The child makes new ones for
	 * itself. */
	blocks = NULL;
	n_blocks = 0;
	free_chunks = NULL;
	free_bufs = NULL;
	bufs = NULL;
	n_bufs = 0;
	memory = (struct group_memory){ 0 };
}
