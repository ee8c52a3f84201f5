/* SPDX-License-Identifier: MIT */
/*
 * api/vma/held.h - the memory of packets, and the packets that a program holds
 *
 *     room_reserve()  ->  receive into it  ->  held_keep()    the program has it
 *                                         \->  (nothing)      the place is used again
 *
 * Each socket has a room, which is a place in a chunk of memory.  A packet that the program
 * holds stays where it is, and later packets go behind it.  A chunk lives as long as the
 * program holds a packet in it, or a room uses it.
 *
 * The program names a packet by a number (packet_id), which we check before use.  The
 * number of a packet that was freed, or that belongs to another socket, is refused.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/compiler.h"

#define PACKET_MAX 65536u /* bytes; a datagram is shorter */
/* How many chunks may be full of packets that the program holds.  When there are so many, a
 * receiving call fails with ENOBUFS until the program frees some. */
#define HELD_CHUNKS_MAX 1024u
#define LENT_MAX 256u
#define HELD_MAX (1u << 20) /* packets that are held at once */

struct chunk {
	uint32_t n_refs;   /* a room's, and one per packet that is held */
	uint32_t is_left;  /* its room uses another one, so it counts */
	struct area *area; /* whose it is; NULL: nobody's */
	uint8_t bytes[];   /* pages that no packet reached take no memory */
};

#define CHUNK_BYTES ((size_t)256 << 10)
#define CHUNK_FIRST CACHE_LINE /* offset of the first packet */

struct room {
	struct chunk *chunk; /* NULL: none yet */
	size_t off;          /* of the next packet */
	struct area *area;   /* where its chunks come from; NULL: anywhere */
};

/* Sets the functions that allocate and free chunks; NULL: the kernel's memory.  -EINVAL:
 * too late, the program has used a socket of this API. */
int held_set_memory(void *(*get)(size_t), void (*put)(void *));
/* The first socket: too late for that, and the program's memory is asked for. */
void held_start(void);

/* Another chunk for @r, which is full or has none; NULL: too much is held. */
MUST_CHECK uint8_t *room_renew(struct room *r);

/* PACKET_MAX bytes, valid until the next call; NULL: too much is held. */
MUST_CHECK static inline uint8_t *room_reserve(struct room *r)
{
	if (unlikely(!r->chunk))
		return room_renew(r);
	/* Nobody holds anything in it: use the same bytes again. */
	if (likely(load_acq(&r->chunk->n_refs) == 1))
		r->off = CHUNK_FIRST;
	return likely(CHUNK_BYTES - r->off >= PACKET_MAX)
		   ? (uint8_t *)r->chunk + r->off
		   : room_renew(r);
}

void room_close(struct room *r); /* takes one without a chunk, too */

/* Keeps the @n bytes that were received into @r last where they are, until
 * held_chunk_put(). */
struct chunk *room_keep(struct room *r, size_t n);
void held_chunk_put(struct chunk *c);
static inline void held_chunk_get(struct chunk *c)
{
	if (is_single_threaded())
		c->n_refs++;
	else
		fetch_add(&c->n_refs, 1u);
}

/* A number for the next packet of socket @owner, which has the descriptor @fd; 0: there are
 * too many.  held_keep() gives it to a packet, held_cancel() gives it back. */
uint64_t held_number(uint32_t owner, int fd);
void held_cancel(uint64_t number);
/* The program holds a packet in @c, and takes over the reference. */
void held_keep(uint64_t number, struct chunk *c);
/* The program holds bytes that were lent, in at most LENT_MAX pieces: the ring of a closed
 * socket stays as long as the program holds one of them.  held_may_be_lent(): fewer are
 * held; otherwise copy the bytes. */
struct below_lent;
bool held_may_be_lent(void);
void held_keep_lent(uint64_t number, const struct below_lent *l);
/* The same for bytes that are known by other means than a number. */
void held_lent(void);
void held_lent_back(int fd, const struct below_lent *l);
/* -ENOENT: not a packet that @owner holds. */
int held_free(uint64_t number, uint32_t owner);
/* The same for a socket that was closed, and had the number @fd. */
int held_free_orphan(uint64_t number, int fd);
