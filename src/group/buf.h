/* SPDX-License-Identifier: MIT */
/*
 * group/buf.h - memory of a group: for received data, for copies of data to
 * send, and the descriptors of received data that the application holds
 *
 *     allocator -> blocks of 1 MB -> chunks of 128 KB -> pieces
 *                                        counted by the pieces in use
 *
 * One group fills a chunk from front to back.  The chunk becomes free when its
 * last piece is returned, in any order and by any thread.  Blocks stay until
 * buf_fini().  The allocator is the application's if it gave one, otherwise
 * mmap().  All groups together take at most limit bytes, so a program that
 * keeps what it receives gets an error instead of filling the machine's memory.
 *
 * Descriptors (struct rxbuf) lie in one reserved range of addresses.  So we can
 * check a pointer that the application returns before we use it.
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
#include "sock/lend.h"

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
	RXBUF_HELD, /* the application's */
	RXBUF_BACK, /* returned; what is lent before it is not yet */
	RXBUF_ORPHAN, /* the application's, and the socket has gone, or moved on */
};

struct gsock;

struct rxbuf {
	struct group_buf pub;
	uint32_t state;
	struct lent at;      /* if it is lent */
	struct rxbuf *next;  /* in the stream's order; or free */
	struct chunk *chunk; /* that it is a piece of; NULL: it is lent */
	struct lend_memory *memory; /* where it is lent */
	struct gsock *sock;         /* type-stable */
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
bool buf_is_announced(
    void); /* somebody wants to know where received data may lie */
void buf_announce(void *addr, size_t len); /* received data may lie here */

void pool_fini(struct pool *p);

/* Contiguous room for at least @want bytes (at most CHUNK_ROOM); *@room may be
 * more.  NULL: out of memory. */
uint8_t *chunk_room(struct pool *p, uint32_t want, uint32_t *room);
/* @n bytes there are a piece now: the chunk is counted. */
struct chunk *chunk_take(struct pool *p, uint32_t n);
void chunk_put(struct pool *p, struct chunk *c);

struct rxbuf *rxbuf_new(struct pool *p);
void rxbuf_free(struct pool *p, struct rxbuf *b);
/* @b as the application knows it; NULL: it is none. */
struct rxbuf *rxbuf_of(struct group_buf *b);

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
