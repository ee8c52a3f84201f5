/* SPDX-License-Identifier: MIT */
/*
 * proto/shm/segment.h - the memory that two processes share for one connection
 *
 *     page 0            what each side publishes, one cache line a purpose
 *     ring of side 0    side 0 produces, side 1 consumes
 *     ring of side 1    the reverse
 *
 * Side 0 accepted the connection and made the segment, a memfd sealed against
 * resizing.  Side 1 opened the connection and received the descriptor.  Both
 * close the descriptor once they have mapped it; the memory lives as long as a
 * mapping.
 *
 * Side 1 takes the segment, or side 0 revokes it, whichever first changes side
 * 1's flags from 0.  Side 1 does so when all else is done, so a segment that is
 * taken is ready, and side 0 never waits for a side 1 that has begun to take it.
 *
 * Pairs of release and acquire:
 *   S1  side.tcp_bytes, then SEG_TX_RING in side.flags   -> flags
 *   S2  a mark in the ring, then SEG_TX_FIN/SEG_TX_BACK  -> flags
 *   S3  everything the acceptor set up, then SEG_READY, unless SEG_REVOKED is
 *       there already                                    -> flags
 *   S4  the bytes put back, then SEG_SETTLED             -> flags
 *   H1  see proto/shm/cork.c
 *   S5  the last look at referenced bytes, then SEG_REFS_OVER -> flags
 *   S6  the ring's records, then cut                     -> cut
 * S7 is Dekker's: one side sets SEG_FIN_DUE and looks for the other's SEG_SETTLED, the
 * other does the opposite; whoever sees both sends the FIN.
 * Arming is Dekker's: the sleeper stores armed, fences, looks at the ring; the
 * other side stores to the ring, fences, looks at armed.
 *
 * The peer may be hostile and can write everywhere here.  So we check offsets,
 * lengths and slots where we use them, and a flag can do no more than end the
 * connection early.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include "base/compiler.h"

#define SEG_MAGIC 0x6d6873666f317665ull
#define SEG_VERSION 9 /* both sides must have the same */
#define SEG_PAGE 4096u

enum {
	SEG_READY = 1,      /* S3: mapped, inbox known, will look at the ring */
	SEG_TX_RING = 2,    /* S1: this side sends by ring after tcp_bytes */
	SEG_TX_FIN = 4,     /* S2: a FIN mark stands in the ring */
	SEG_TX_BACK = 8,    /* S2: a BACK mark stands in the ring */
	SEG_WANT_BACK = 16, /* please go back to the kernel */
	SEG_CLOSED = 32,    /* this side is closed: nobody will read */
	SEG_SHARED = 64,    /* several processes read here: ring the anchor */
	SEG_FALLBACK = 128, /* this side has stopped reading the ring */
	SEG_SETTLED = 256,  /* S4: and puts nothing more into the peer's TCP */
	SEG_LENDS = 512,    /* a hint: it reads records only in place */
	SEG_TAKES_REFS = 1024, /* this side understands references */
	SEG_REFS_OVER = 2048,  /* S5: it reads no more of them */
	/* In side 1's flags, set by side 0: the segment may not be taken. */
	SEG_REVOKED = 4096,
	SEG_ABORTED = 8192,  /* with SEG_CLOSED: a reset follows, not a FIN */
	SEG_FIN_DUE = 16384, /* S7: TCP's FIN, which whoever settles may send */
	SEG_LATER = 32768,   /* with SEG_REVOKED: another may come */
	/* A hint: this side has sent by TCP to a peer that had closed, or shut both
	 * directions, so a reset is no sign that a process has died. */
	SEG_TX_LATE = 65536,
	/* This side's program has shut both directions, and its kernel knows: it
	 * answers each byte that the peer sends by TCP with a reset. */
	SEG_SHUT = 131072,
	/* SO_LINGER is 0 here: when its process ends without a close(), the kernel
	 * resets the connection, whatever was read. */
	SEG_RESETS = 262144,
};

#define SEG_READ_RING 1u /* offsets are even */

/* What cut may be, with the offset of a record. */
enum { SEG_CUT_IS = 1, SEG_CUT_SECOND = 2 /* half of the ring */ };

/* What rx_anchor may be.  EACH_TIME is for SIGIO, which each arrival raises. */
enum { RING_ONCE = 1, RING_EACH_TIME = 2 };
#define RING_ONLY_ONE 0x10000u

struct seg_side {
	alignas(CACHE_LINE) uint32_t flags; /* SEG_* */
	uint32_t slot;      /* in this side's inbox, SLOT_NONE */
	uint64_t tcp_bytes; /* S1 */
	uint32_t bells;     /* doorbell bytes this side has put into TCP */
	/* S6: where the peer's ring ends, SEG_CUT_*; 0: open.  Either side may
	 * set it, once, by a compare-and-swap. */
	uint32_t cut;
	/* Which process had the anchor, and under which number: hints, to be
	 * checked. */
	uint32_t pid;
	int32_t anchor_fd;
	uint32_t maps; /* as consumer: a bit for each region it has mapped */
	/* H1 of proto/shm/cork.c: the record whose header the producer holds
	 * back. */
	uint32_t held_off;
	uint64_t corked_hdr;
	uint64_t held_ns; /* since when; 0: none */
	/* The peer's bell that this side keeps, plus 1; 0: none. */
	uint32_t has_bell1;

	alignas(
	    CACHE_LINE) uint32_t tail; /* as consumer: R2 of proto/shm/ring.h */
	uint32_t refs_done;            /* likewise: R3 */
	/* As producer: it has found no room.  A hint, which the consumer
	 * clears. */
	uint32_t tx_waits;
	uint32_t tail2; /* as consumer, of the ring's second half: R2 */

	/* As consumer: ring when data comes.  As producer: when space comes.
	 * RING_ONCE or RING_EACH_TIME. */
	alignas(CACHE_LINE) uint32_t rx_inbox;
	uint32_t rx_anchor;
	uint32_t tx_inbox;
	uint32_t tx_anchor;
	/* As consumer: ring this bell of mine, plus 1, when data comes; 0: none.
	 * RING_ONLY_ONE: unless somebody else has rung it for this sleep. */
	uint32_t rx_bell1;

	/* As consumer: how far the program has read, which the tail may not
	 * show yet. 0: in TCP; else SEG_READ_RING | offset of the next record.
	 * The peer reads this only after this side has died, so the line stays
	 * in our cache. */
	alignas(CACHE_LINE) uint32_t read;
	uint32_t read_half; /* 0 or 1: of the ring, in which that is */
};

struct seg {
	uint64_t magic;
	uint32_t version;
	uint32_t ring_size;
	/* Which side has ended the rings alone first, plus 1; 0: none.  Only
	 * that one may put bytes back. */
	uint32_t first_back;
	struct seg_side side[2];
};

static_assert(sizeof(struct seg) <= SEG_PAGE, "the first page is the header");

static inline uint8_t *seg_ring(struct seg *seg, unsigned side,
				uint32_t ring_size)
{
	return (uint8_t *)seg + SEG_PAGE + (size_t)side * ring_size;
}

static inline size_t seg_bytes(uint32_t ring_size)
{
	return SEG_PAGE + 2 * (size_t)ring_size;
}

/* The size of ring to make instead of @ring_size if RLIMIT_AS is set. */
uint32_t seg_ring_fit(uint32_t ring_size);
/* Make a segment: mapped at *@pseg, its sealed memfd in *@pfd.  0 or -errno. */
MUST_CHECK int seg_create(uint32_t ring_size, struct seg **pseg, int *pfd);
/* Map a segment that a peer made, after checking seals, size, magic and
 * version.  -EPROTONOSUPPORT: another version; -EBADMSG: not a segment;
 * -errno. */
MUST_CHECK int seg_open(int fd, struct seg **pseg, uint32_t *ring_size);
void seg_unmap(struct seg *seg, uint32_t ring_size);

/*
 * A program with a limited address space (RLIMIT_AS) needs most of it itself.
 * All mappings by the functions below take at most an eighth of the limit;
 * then they return -ENOMEM.
 */
/* Is @fd memory with our seals?  Fails at once on anything else. */
bool sealed_is(int fd);
/* Map @bytes of a memfd, after checking that it cannot shrink under us. */
MUST_CHECK int sealed_map(int fd, size_t bytes, void **map);
void sealed_unmap(void *map, size_t bytes);
/* A sealed memfd (base/sealed.h) of @bytes, mapped: where *@map says, in place of
 * what such a call has mapped there, or anywhere if it is NULL. */
MUST_CHECK int sealed_renew(const char *name, size_t bytes, void **map,
			    int *pfd);
/* Put memory of this process alone in its place. */
void sealed_forget(void *map, size_t bytes);
/* A sealed memfd of @bytes, mapped. */
MUST_CHECK int sealed_create(const char *name, size_t bytes, void **map,
			     int *pfd);
