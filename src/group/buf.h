/* SPDX-License-Identifier: MIT */
/*
 * group/buf.h - memory of a group: for received data, for copies of data to send,
 * and the descriptors of received data that the application holds
 *
 *     allocator -> blocks of 1 MB -> chunks of 128 KB -> pieces
 *                                        counted by the pieces in use
 *
 * A chunk is filled from front to back by one group and goes back to the free ones
 * when its last piece is returned, in whatever order, by whatever thread.  Blocks
 * stay until buf_fini().  The allocator is the application's if it gave one;
 * otherwise mmap().  All groups together take limit bytes at most, so that a program
 * that keeps what it receives is told, and does not fill the machine.
 *
 * Descriptors (struct rxbuf) lie in one reserved range of addresses, so that a
 * pointer that comes back can be checked before it is used.
 *
 * Owner of a pool: its group; what several groups share is locked inside.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/compiler.h"
#include "group/group.h"

#define CHUNK_BYTES (128u * 1024)
#define CHUNK_HEAD 64u
#define CHUNK_ROOM (CHUNK_BYTES - CHUNK_HEAD)
#define PIECE_ALIGN 64u

struct chunk {
	uint32_t n_refs; /* pieces, and the pool that fills it */
	uint32_t filled; /* bytes, the head included */
	struct chunk *next;
};

enum rxbuf_state {
	RXBUF_FREE,
	RXBUF_HELD,   /* the application's */
	RXBUF_BACK,   /* returned; its ring space has to wait for its turn */
	RXBUF_ORPHAN, /* the application's, and the socket has gone */
};

/* The mappings of a connection that must stay while parts of them are held. */
struct rxmap {
	void *seg;
	uint32_t ring_size;
	uint32_t n_refs;        /* orphans, and the socket */
	struct ring_refs *refs; /* what is mapped of the peer; or NULL */
};

struct gsock;
struct ring_refs;

struct rxbuf {
	struct group_buf pub;
	uint32_t state;
	uint32_t ring_off;   /* of its record, when in a ring */
	struct rxbuf *next;  /* in the ring's order; or free */
	struct chunk *chunk; /* NULL: it lies in a ring */
	struct rxmap *map;
	struct gsock *sock; /* type-stable */
	uint32_t n_refs;    /* references before it, when in a ring */
	uint32_t is_ref;    /* its bytes are not in the ring */
	uint32_t reserved[2];
};
static_assert(sizeof(struct rxbuf) == 64, "a cache line each");

struct pool {
	struct chunk *filling;
	struct chunk *free_chunks;
	struct rxbuf *free_bufs;
	uint32_t n_free_chunks, n_free_bufs;
};

/* What the memory comes from; before the first pool is used. */
void buf_init(const struct group_memory *memory);
/* Give all of it back. */
void buf_fini(void);
void buf_after_fork(void);
bool buf_is_external(void);
bool buf_is_told(void); /* somebody wants to know where received data may lie */
void buf_told(void *addr, size_t len); /* received data may lie here */

void pool_fini(struct pool *p);

/* Room for at least @want bytes (at most CHUNK_ROOM) in one place; *@room may be
 * more.  NULL: out of memory. */
uint8_t *chunk_room(struct pool *p, uint32_t want, uint32_t *room);
/* @n bytes there are a piece now: the chunk is counted. */
struct chunk *chunk_take(struct pool *p, uint32_t n);
void chunk_put(struct pool *p, struct chunk *c);

struct rxbuf *rxbuf_new(struct pool *p);
void rxbuf_free(struct pool *p, struct rxbuf *b);
/* @b as the application knows it; NULL: it is none. */
struct rxbuf *rxbuf_of(struct group_buf *b);

void rxmap_put(struct rxmap *m);

/* Between the application's thread and the socket's, which need not be one. */
static inline bool rxbuf_move(struct rxbuf *b, enum rxbuf_state from,
			      enum rxbuf_state to)
{
	if (!is_single_threaded())
		return cas(&b->state, (uint32_t)from, (uint32_t)to);
	if (b->state != from)
		return false;
	b->state = to;
	return true;
}
