/* SPDX-License-Identifier: MIT */
/*
 * proto/shm/ring.h - a byte stream between processes, as records in a ring
 *
 *     producer: ring_push(), ring_push_mark()  ->  |hdr|bytes|hdr|bytes|hdr=0
 *     consumer: ring_peek(), ring_skip()       <-  reads, publishes its tail
 *
 * A record is an 8-byte header, its payload, and padding to a cache line, so a
 * message of up to 56 bytes crosses in one cache line.  The header is also the
 * flag: 0 means "not yet".  The producer zeroes the next header before it
 * publishes one, so the consumer polls one line and needs no producer index.
 *
 *   R1 -> A1   a record's bytes and the zero behind it (header: its store/load)
 *   R2 -> A2   the consumer is done with the bytes      (tail: its store/load)
 *
 * Rewind: when the producer finds the ring empty after REWIND_BYTES, it starts
 * again at offset 0.  So a request-response connection stays within a few
 * pages, however long it lives.  T is the place where the ring was rewound.
 * If the producer reaches T before the consumer has left it, the producer
 * continues behind T:
 *
 *     0 |records|SKIP|        T |WRAP|records ...|        size
 *           ^------- 2nd ------'        ^-- 3rd
 *
 * So an empty ring always has room for nearly its size.  A ring may begin with
 * part of its memory, and take the rest when a stream needs it.  If it is full
 * then and has wrapped around, it is stretched: T is the old end.
 *
 * Move: a consumer that lends records out, and does not get them back, may ask
 * the producer to leave them alone.  A tail of RING_TAIL_MOVE means "continue
 * in the other half of the memory".  The producer writes MOVE and starts at
 * the beginning of the other half, which has its own tail.  The first half
 * stays unchanged until the consumer asks to move back.
 *
 * References: bytes in memory that the consumer has mapped need no copy.  A
 * MAP record says where to find such memory, and a REF record says which part
 * of it holds the next bytes.  The producer sends them only to a consumer that
 * has ring_refs, and the consumer publishes how many it is done with (R3).
 *
 *   R3 -> A3   the consumer is done with referenced bytes (refs.done_pub)
 *
 * Threads of the consumer's process may ask without its lock whether the ring
 * has something.  They must not hear "nothing" for a record that nobody takes.
 *
 *   R4 -> A4   the next header's address is in the area of base and size, or the
 *              reader sees that it is not, and that the ring moves just now
 *
 * What the other side wrote is untrusted input.  We read each offset and
 * length once and check it against the ring before use; a bad one gives
 * -EPROTO.  Nothing here blocks, allocates, locks, logs or asks for the time.
 * Each side's view is private (proto/shm/conn.h); the caller holds its lock.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#include "base/atomic.h"
#include "base/compiler.h"

enum ring_mark {
	RING_NONE = 0,
	RING_DATA = 1,
	RING_WRAP = 2, /* the next record is at offset 0 */
	RING_FIN = 3,  /* the stream ends here */
	RING_BACK = 4, /* the rest of the stream is in TCP */
	RING_SKIP =
	    5, /* the next record is at the offset that stands as length */
	RING_REF = 6,  /* struct ring_ref: the bytes lie elsewhere */
	RING_MAP = 7,  /* struct ring_map: there, from now on */
	RING_MOVE = 8, /* the next record is at the start of the other area */
};

/* A part of one of the producer's regions.  The record's header has the
 * length. */
struct ring_ref {
	uint32_t region;
	uint32_t reserved;
	uint64_t off;
};

/* A region is a file that cannot shrink, open in the producer's process. */
struct ring_map {
	uint32_t region; /* the number that references will use */
	uint32_t pid;
	int32_t fd;
	uint32_t reserved;
	uint64_t dev, ino, size; /* that it must have */
};

#define RING_REGIONS 16u /* of a producer, that a consumer knows */
#define RING_HDR 8u
#define RING_ALIGN 64u
#define RING_BIG 2048u          /* payloads from here start on a line */
#define RING_CHUNK (64u * 1024) /* payload of one record at most */
#define RING_REWIND_BYTES 4096u
#define RING_RESERVE                                                           \
	(4 * RING_ALIGN) /* for WRAP, SKIP, FIN, BACK or MOVE, always */
#define RING_TAIL_MOVE UINT32_MAX
#define RING_NO_HOLE UINT32_MAX
#define RING_NONE_LENT UINT32_MAX
#define RING_MIN_SIZE 4096u
#define RING_MAX_SIZE (1u << 30)
#define RING_COUNTED_MAX (1u << 18) /* all that a ring of 16 MiB can hold */

static inline uint64_t ring_hdr(enum ring_mark mark, uint32_t len)
{
	return (uint64_t)mark << 32 | len;
}

static inline uint32_t ring_payload_off(uint32_t len)
{
	return len >= RING_BIG ? RING_ALIGN : RING_HDR;
}

static inline uint32_t ring_record_bytes(uint32_t len)
{
	return (ring_payload_off(len) + len + RING_ALIGN - 1) &
	       ~(RING_ALIGN - 1);
}

static inline uint64_t *ring_hdr_at(uint8_t *base, uint32_t off)
{
	return (uint64_t *)(void *)(base + off);
}

/* The consumer's side of references. */
struct ring_refs {
	struct {
		const uint8_t *base;
		uint64_t size; /* 0: not mapped */
	} region[RING_REGIONS];
	uint32_t n;     /* records of references met so far, modulo 2^32 */
	uint32_t held;  /* the same when the oldest that is lent was next, */
	bool is_held;   /* if one is lent */
	uint32_t bytes; /* referenced since the last publication */
	uint32_t
	    announced; /* a bit for each region that the producer has told of */
	uint32_t *done_pub;
};

/* The producer's view of a ring. */
struct ring_tx {
	uint8_t *base;
	uint32_t *tail_pub; /* where the consumer publishes its tail */
	uint32_t size;      /* used so far; see ring_tx_grow() */
	uint32_t grow_to;   /* as soon as it can */
	uint32_t head;      /* where the next record's header goes */
	uint32_t tail;      /* the consumer's, as last seen and checked */
	uint32_t look;      /* bytes until the consumer's tail is looked at */
	uint32_t
	    resume;    /* where the ring went on before it was rewound, or 0 */
	uint32_t hole; /* offset of a SKIP mark that the consumer may not have
			  * reached, or UINT32_MAX */
	uint32_t hole_to; /* and where that leads */
	uint8_t holds;    /* the header of a record is not stored yet */
	/* The other half, where the consumer may ask us to continue:
	 * ring_tx_areas(). */
	uint32_t area_bytes; /* 0: there is one area */
	uint8_t *other;
	uint32_t *other_tail;
	/* Set to 1 before the consumer can see a change; NULL: nobody asks. */
	uint32_t *changes;
};

/* The consumer's view. */
struct ring_rx {
	uint8_t *base;
	uint32_t *tail_pub;
	uint32_t size;
	uint32_t off;       /* header of the current or next record */
	uint32_t len;       /* of the current record's payload, 0: none begun */
	uint32_t pos;       /* bytes of it already delivered */
	uint32_t published; /* last value given to *tail_pub */
	uint32_t
	    hold; /* record whose bytes are still lent out, or UINT32_MAX */
	const uint8_t *data; /* of the current record, once begun */
	uint32_t next;       /* the record behind it */
	uint8_t is_ref;      /* its bytes lie elsewhere */
	uint8_t moves; /* the producer was asked to go on in another area */
	/* The header at @off.  Who looks without the lock uses this one word, so
	 * it does not mix the place in one area with the address of another. */
	const uint64_t *at;
	struct ring_refs *refs; /* NULL: references are none of its business */
	uint32_t *changes;      /* as ring_tx's, for the producer */
};

static inline void ring_changes(uint32_t *changes)
{
	if (unlikely(changes != NULL))
		store_rlx(changes, 1u);
}

/* @size: of the memory.  The producer decides how much of it is used: all,
 * unless ring_tx_window() limits it.  ring_tx_grow() raises that limit at any
 * time.  The consumer follows the marks. */
void ring_tx_init(struct ring_tx *tx, uint8_t *base, uint32_t size,
		  uint32_t *tail_pub);
void ring_rx_init(struct ring_rx *rx, uint8_t *base, uint32_t size,
		  uint32_t *tail_pub);

static inline void ring_tx_window(struct ring_tx *tx, uint32_t size)
{
	tx->size = tx->grow_to = size;
}

/* The consumer may ask us to move to the half of @bytes bytes at @other. */
static inline void ring_tx_areas(struct ring_tx *tx, uint8_t *other,
				 uint32_t *other_tail, uint32_t bytes)
{
	tx->other = other;
	tx->other_tail = other_tail;
	tx->area_bytes = bytes;
}

static inline void ring_tx_grow(struct ring_tx *tx, uint32_t size)
{
	tx->grow_to = size;
}

/* The same at once.  A ring that has wrapped around goes on behind its old end. */
void ring_tx_stretch(struct ring_tx *tx, uint32_t size);

/* Bytes between tail and head, headers and padding included. */
static inline uint32_t ring_tx_used(const struct ring_tx *tx)
{
	return tx->head >= tx->tail ? tx->head - tx->tail
				    : tx->size - tx->tail + tx->head;
}

/**
 * ring_push() - append bytes as one record
 * @len: at most RING_CHUNK; less is taken when the ring has less room
 *
 * Return: bytes taken, 0 when there is no room, -EPROTO when the consumer's
 * tail is impossible.
 */
ssize_t ring_push(struct ring_tx *tx, const void *buf, uint32_t len);

/* The same in two steps, for callers that fill in the payload themselves.
 * Return the address for up to *@len bytes, or NULL (*@len 0: no room; 1:
 * -EPROTO). */
uint8_t *ring_reserve(struct ring_tx *tx, uint32_t *len, uint32_t *record_off);
void ring_commit(struct ring_tx *tx, uint32_t record_off, uint32_t len);

/* The same, but return the header instead of storing it.  The reader sees
 * neither the record nor what follows until one side stores the header. */
uint64_t ring_commit_corked(struct ring_tx *tx, uint32_t record_off,
			    uint32_t len);
/* Is the header still not stored? */
bool ring_is_corked(const struct ring_tx *tx, uint32_t record_off);
/* Store the header, unless the reader did that and may have passed it. */
void ring_release(struct ring_tx *tx, uint32_t record_off, uint64_t hdr);

/* Append a record of @mark with length @len and @n <= 56 bytes of its own.  1;
 * 0: no room; -EPROTO. */
int ring_push_record(struct ring_tx *tx, enum ring_mark mark, uint32_t len,
		     const void *payload, uint32_t n);

/* Append FIN or BACK; there is always room for one of each. */
int ring_push_mark(struct ring_tx *tx, enum ring_mark mark);

/* Look at the consumer's tail again.  0 or -EPROTO. */
int ring_tx_refresh(struct ring_tx *tx);

/* The most payload bytes that a push could take, as of the last refresh. */
uint32_t ring_tx_room(const struct ring_tx *tx);

/**
 * ring_peek() - the unread bytes of the current record @data: out: their
 * address, valid until ring_skip()
 *
 * Return: their number, or 0 and *@mark says why: RING_NONE there is nothing
 * yet, RING_FIN, RING_BACK, RING_MAP (handle it, then skip it), RING_MOVE
 * (handle it); or -EPROTO.
 */
HOT static inline int32_t ring_peek(struct ring_rx *rx, const uint8_t **data,
				    enum ring_mark *mark);

/* Take @n bytes of what ring_peek() showed (n <= its answer). */
static inline void ring_skip(struct ring_rx *rx, uint32_t n);

/* Publish the references that the producer may forget: all but lent ones. */
void ring_publish_refs(struct ring_rx *rx);

/* The next record's header is at @off. */
static inline void ring_rx_go(struct ring_rx *rx, uint32_t off)
{
	store_rlx(&rx->off, off);
	store_rel(&rx->at, ring_hdr_at(rx->base, off)); /* R4 */
}

/* The ring goes on at @off of an area. */
static inline void ring_rx_place(struct ring_rx *rx, uint8_t *base,
				 uint32_t size, uint32_t off)
{
	store_rlx(&rx->base, base);
	store_rlx(&rx->size, size);
	ring_rx_go(rx, off);
}

/**
 * ring_ask_to_move() - keep what is lent, and continue the stream elsewhere
 * @other_tail: the tail of the other area, in which nothing is lent
 *
 * From now on no space of this area goes back to the producer.  At the MOVE
 * mark, call ring_rx_moved() with the other area.
 */
static inline void ring_ask_to_move(struct ring_rx *rx, uint32_t *other_tail)
{
	store_rlx(other_tail, 0u);
	ring_changes(rx->changes);
	rx->moves = 1;
	rx->hold = rx->published;                /* so no tail is published */
	store_rel(rx->tail_pub, RING_TAIL_MOVE); /* R2 */
}

static inline void ring_rx_moved(struct ring_rx *rx, uint8_t *base,
				 uint32_t size, uint32_t *tail_pub)
{
	rx->tail_pub = tail_pub;
	store_rlx(&rx->published, 0u);
	rx->hold = RING_NONE_LENT;
	rx->moves = 0;
	ring_rx_place(rx, base, size, 0);
}

/* Step over the MAP record that ring_peek() has met; return its contents. */
void ring_take_map(struct ring_rx *rx, struct ring_map *map);

/* How many references come before the current or next record? */
static inline uint32_t ring_rx_refs(const struct ring_rx *rx)
{
	return rx->refs->n - (rx->len && rx->is_ref);
}

/* Publish the tail, but not past a record that is lent. */
static inline bool ring_publish(struct ring_rx *rx)
{
	uint32_t to = likely(rx->hold == RING_NONE_LENT) ? rx->off : rx->hold;

	if (rx->published == to)
		return false;
	ring_changes(rx->changes);
	store_rlx(&rx->published, to);
	if (unlikely(rx->refs != NULL))
		ring_publish_refs(rx);
	store_rel(rx->tail_pub, to); /* R2 */
	return true;
}

/* Are there references that the producer could forget and does not know of? */
static inline bool ring_rx_owes_refs(const struct ring_rx *rx)
{
	return rx->refs &&
	       load_rlx(rx->refs->done_pub) !=
		   (rx->refs->is_held ? rx->refs->held : ring_rx_refs(rx));
}

/* How many bytes, in the ring or referenced, could the producer have back, but
 * has not been told of? */
static inline uint32_t ring_rx_owed(const struct ring_rx *rx)
{
	return rx->off - rx->published + (rx->refs ? rx->refs->bytes : 0);
}

static inline bool ring_is_jump(uint64_t hdr)
{
	uint32_t mark = (uint32_t)(hdr >> 32);

	return mark == RING_WRAP || mark == RING_SKIP;
}

/* Is there a record where the jump at @at leads? */
bool ring_rx_ready_behind(const struct ring_rx *rx, const uint64_t *at);

/* True if there is an unread byte or a mark.  Cheap: one load.  Without the
 * lock, it may say true for what another thread is just receiving. */
static inline bool ring_rx_ready(const struct ring_rx *rx)
{
	if (load_rlx(&rx->len))
		return true;
	const uint64_t *at = load_acq(&rx->at); /* A4 */
	uint64_t hdr = load_acq(at);            /* A1 */

	/* The producer writes a jump before the record to which the jump
	 * leads. */
	return unlikely(ring_is_jump(hdr)) ? ring_rx_ready_behind(rx, at) : hdr;
}

/* Where the next record's header will be, or UINT32_MAX if a record, or the
 * rest of one, is there already. */
uint32_t ring_rx_waits_at(const struct ring_rx *rx);
/* Store a header that the producer holds back, at ring_rx_waits_at(). */
void ring_rx_store(struct ring_rx *rx, uint32_t off, uint64_t hdr);

/* True if more than a quarter of the ring is free.  If this says false without
 * the lock, ask again with it. */
static inline bool ring_tx_spacious(const struct ring_tx *tx)
{
	uint32_t head = load_rlx(&tx->head), tail = load_rlx(&tx->tail);
	uint32_t size = load_rlx(&tx->size);
	uint32_t used = head >= tail ? head - tail : size - tail + head;

	return load_rlx(&tx->hole) == RING_NO_HOLE && used < size / 4;
}

/* Count the payload bytes that are ready, up to @max, of RING_COUNTED_MAX records at
 * most.  *@mark: a FIN or BACK behind them. */
uint32_t ring_rx_bytes(const struct ring_rx *rx, uint32_t max,
		       enum ring_mark *mark);

/* Where do the records end that are ready?  *@mark: what stands there. */
uint32_t ring_rx_end(const struct ring_rx *rx, enum ring_mark *mark);

/* Copy up to @n unread bytes from @skip bytes on, without taking them. */
uint32_t ring_rx_copy_ahead(const struct ring_rx *rx, void *buf, uint32_t n,
			    uint32_t skip);

int32_t ring_next(struct ring_rx *rx, const uint8_t **data,
		  enum ring_mark *mark);
/* The same, but the ring ends at offset @end: 0 and RING_NONE there. */
int32_t ring_next_before(struct ring_rx *rx, uint32_t end, const uint8_t **data,
			 enum ring_mark *mark);

static inline int32_t ring_peek(struct ring_rx *rx, const uint8_t **data,
				enum ring_mark *mark)
{
	if (!rx->len)
		return ring_next(rx, data, mark);
	*data = rx->data + rx->pos;
	return (int32_t)(rx->len - rx->pos);
}

static inline void ring_skip(struct ring_rx *rx, uint32_t n)
{
	rx->pos += n;
	if (rx->pos < rx->len)
		return;
	ring_rx_go(rx, rx->next);
	store_rlx(&rx->len, 0u);
	rx->pos = 0;
}
