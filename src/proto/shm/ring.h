/* SPDX-License-Identifier: MIT */
/*
 * proto/shm/ring.h - a byte stream from one process to one other, as records in a ring
 *
 *     producer: ring_push(), ring_push_mark()  ->  |hdr|bytes|hdr|bytes|hdr=0
 *     consumer: ring_peek(), ring_skip()       <-  reads, publishes its tail
 *
 * A record is an 8-byte header, its payload, and padding to a cache line, so a
 * message of up to 56 bytes crosses in one cache line.  The header is the flag: 0
 * means "not yet".  The producer zeroes the next header before it publishes
 * one, so the consumer polls one line and needs no index of the producer's.
 *
 *   R1 -> A1   a record's bytes, and the zero behind it   (header: its store/load)
 *   R2 -> A2   the consumer is done with the bytes        (tail: its store/load)
 *
 * The ring is elastic: whenever the producer finds it empty after REWIND_BYTES,
 * it starts over at offset 0, so a request-response connection stays within a few
 * pages however long it lives.  Should it run into the place T where it was rewound
 * before the consumer has moved from there, it goes on behind it:
 *
 *     0 |records|SKIP|        T |WRAP|records ...|        size
 *           ^------- 2nd ------'        ^-- 3rd
 *
 * so an empty ring always has room for nearly its size.  And it may begin with a
 * part of its memory and take the rest when the stream proves to be one.
 *
 * A consumer that lends records out, and is not given them back, may ask the producer to
 * leave them alone: a tail of RING_TAIL_MOVE means "go on in the other half of the
 * memory".  The producer says MOVE where it stood, and starts over there, with a tail
 * of its own.  What lies in the first half stays as it is until the consumer asks to
 * go back.
 *
 * Bytes that lie in memory which the consumer has mapped need not be copied: a MAP
 * record says where such memory is to be had, and REF records say which part of it
 * are the next bytes.  They are spoken only to a consumer that has ring_refs, and
 * it says how many references it is done with (R3).
 *
 *   R3 -> A3   the consumer is done with referenced bytes (refs.done_pub)
 *
 * What the other side wrote is input: an offset or a length is checked against the
 * ring before use, read once, and a liar gets -EPROTO.  Nothing here blocks,
 * allocates, locks, logs or asks for the time.  Both views live in the memory of
 * their own side (proto/shm/conn.h); the caller holds the matching lock.
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

/* Which part of a region of the producer's; the length is the header's. */
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
#define RING_NO_HOLD UINT32_MAX
#define RING_MIN_SIZE 4096u
#define RING_MAX_SIZE (1u << 30)

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
	uint8_t holds; /* the header of a record is not stored yet */
	/* Where it may be asked to go on: see ring_tx_areas(). */
	uint32_t area_bytes; /* 0: there is one area */
	uint8_t *other;
	uint32_t *other_tail;
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
	const uint8_t *data;    /* of the current record, once begun */
	uint32_t next;          /* the record behind it */
	uint8_t is_ref;         /* its bytes lie elsewhere */
	struct ring_refs *refs; /* NULL: references are none of its business */
	uint8_t moves; /* the producer was asked to go on in another area */
};

/* @size: of the memory.  The producer decides how much of it is used: all, unless
 * ring_tx_window() says so; then ring_tx_grow(), any time later, says how much
 * more.  The consumer goes where the marks lead. */
void ring_tx_init(struct ring_tx *tx, uint8_t *base, uint32_t size,
		  uint32_t *tail_pub);
void ring_rx_init(struct ring_rx *rx, uint8_t *base, uint32_t size,
		  uint32_t *tail_pub);

static inline void ring_tx_window(struct ring_tx *tx, uint32_t size)
{
	tx->size = tx->grow_to = size;
}

/* The producer may be asked to go on at @other, where a half of @bytes is. */
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

/* The same in two steps, for callers that fill the payload themselves: where up to
 * *@len bytes may be written, or NULL (no room: *@len 0; liar: *@len 1). */
uint8_t *ring_reserve(struct ring_tx *tx, uint32_t *len, uint32_t *record_off);
void ring_commit(struct ring_tx *tx, uint32_t record_off, uint32_t len);

/* The same without the header, which is returned: the reader sees neither the record
 * nor what follows, until either side stores it. */
uint64_t ring_commit_held(struct ring_tx *tx, uint32_t record_off,
			  uint32_t len);
/* Nobody has stored it yet. */
bool ring_is_held(const struct ring_tx *tx, uint32_t record_off);
/* Store it, unless the reader has done so and may be past it. */
void ring_release(struct ring_tx *tx, uint32_t record_off, uint64_t hdr);

/* Append a record of @mark that says @len and has @n <= 56 bytes of its own: 1, 0 no
 * room, -EPROTO. */
int ring_push_record(struct ring_tx *tx, enum ring_mark mark, uint32_t len,
		     const void *payload, uint32_t n);

/* Append FIN or BACK; there is always room for one of each. */
int ring_push_mark(struct ring_tx *tx, enum ring_mark mark);

/* Look at the consumer's tail again.  0 or -EPROTO. */
int ring_tx_refresh(struct ring_tx *tx);

/* Payload bytes that a push could take now at most, as of the last refresh. */
uint32_t ring_tx_room(const struct ring_tx *tx);

/**
 * ring_peek() - the unread bytes of the current record
 * @data: out: their address, valid until ring_skip()
 *
 * Return: their number, or 0 with *@mark telling why: RING_NONE nothing there
 * yet, RING_FIN, RING_BACK, RING_MAP to be seen to and skipped, RING_MOVE to be seen
 * to; or -EPROTO.
 */
HOT static inline int32_t ring_peek(struct ring_rx *rx, const uint8_t **data,
				    enum ring_mark *mark);

/* Take @n bytes of what ring_peek() showed (n <= its answer). */
static inline void ring_skip(struct ring_rx *rx, uint32_t n);

/* The references that it may forget; records that are lent out are not among them. */
void ring_publish_refs(struct ring_rx *rx);

/**
 * ring_ask_to_move() - what is lent stays where it is, and the stream goes elsewhere
 * @other_tail: of the other area, in which nothing is lent
 *
 * No space of this area goes back to the producer from now on.  When the MOVE mark is
 * met, ring_rx_moved() says where the other area is.
 */
static inline void ring_ask_to_move(struct ring_rx *rx, uint32_t *other_tail)
{
	store_rlx(other_tail, 0u);
	rx->moves = 1;
	rx->hold = rx->published;                /* so no tail is published */
	store_rel(rx->tail_pub, RING_TAIL_MOVE); /* R2 */
}

static inline void ring_rx_moved(struct ring_rx *rx, uint8_t *base,
				 uint32_t size, uint32_t *tail_pub)
{
	rx->base = base;
	rx->size = size;
	rx->tail_pub = tail_pub;
	rx->published = 0;
	rx->hold = RING_NO_HOLD;
	rx->moves = 0;
	store_rlx(&rx->off, 0u);
}

/* Past the MAP record that ring_peek() has met; its contents. */
void ring_take_map(struct ring_rx *rx, struct ring_map *map);

/* The number of references before the record that is begun, or next. */
static inline uint32_t ring_rx_refs(const struct ring_rx *rx)
{
	return rx->refs->n - (rx->len && rx->is_ref);
}

/* Tell the producer how far we are; not past a record that is lent out. */
static inline bool ring_publish(struct ring_rx *rx)
{
	uint32_t to = likely(rx->hold == RING_NO_HOLD) ? rx->off : rx->hold;

	if (rx->published == to)
		return false;
	store_rlx(&rx->published, to);
	if (unlikely(rx->refs != NULL))
		ring_publish_refs(rx);
	store_rel(rx->tail_pub, to); /* R2 */
	return true;
}

/* References that it could forget and has not been told of? */
static inline bool ring_rx_owes_refs(const struct ring_rx *rx)
{
	return rx->refs &&
	       load_rlx(rx->refs->done_pub) !=
		   (rx->refs->is_held ? rx->refs->held : ring_rx_refs(rx));
}

/* What the producer could have back and has not been told of, in bytes: of the ring,
 * or referenced. */
static inline uint32_t ring_rx_owed(const struct ring_rx *rx)
{
	return rx->off - rx->published + (rx->refs ? rx->refs->bytes : 0);
}

static inline bool ring_is_jump(uint64_t hdr)
{
	uint32_t mark = (uint32_t)(hdr >> 32);

	return mark == RING_WRAP || mark == RING_SKIP;
}

/* Whether a record is there, to which the jump at @off leads. */
bool ring_rx_ready_behind(const struct ring_rx *rx, uint32_t off);

/* True if at least one unread byte, or a mark, is there.  Cheap: one load.  Without
 * the lock, while another thread receives, it may say true for what is gone. */
static inline bool ring_rx_ready(const struct ring_rx *rx)
{
	if (load_rlx(&rx->len))
		return true;
	uint32_t off = load_rlx(&rx->off);
	uint64_t hdr = load_acq(ring_hdr_at(rx->base, off)); /* A1 */

	/* A jump is there before the record to which it leads. */
	return unlikely(ring_is_jump(hdr)) ? ring_rx_ready_behind(rx, off)
					   : hdr;
}

/* Where the next record's header will be; UINT32_MAX if it is there already, or the
 * rest of one. */
uint32_t ring_rx_waits_at(const struct ring_rx *rx);
/* Store a header that its producer holds back, where ring_rx_waits_at() says. */
void ring_rx_store(struct ring_rx *rx, uint32_t off, uint64_t hdr);

/* True if more than a quarter of the ring is free.  May be asked without the lock:
 * false means only that it has to be asked with it. */
static inline bool ring_tx_spacious(const struct ring_tx *tx)
{
	uint32_t head = load_rlx(&tx->head), tail = load_rlx(&tx->tail);
	uint32_t size = load_rlx(&tx->size);
	uint32_t used = head >= tail ? head - tail : size - tail + head;

	return load_rlx(&tx->hole) == RING_NO_HOLE && used < size / 4;
}

/* Payload bytes ready, at most @max; *@mark: a FIN or BACK behind them. */
uint32_t ring_rx_bytes(const struct ring_rx *rx, uint32_t max,
		       enum ring_mark *mark);

/* Copy up to @n unread bytes from @skip bytes on, without taking them. */
uint32_t ring_rx_copy_ahead(const struct ring_rx *rx, void *buf, uint32_t n,
			    uint32_t skip);

int32_t ring_next(struct ring_rx *rx, const uint8_t **data,
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
	store_rlx(&rx->off, rx->next);
	store_rlx(&rx->len, 0u);
	rx->pos = 0;
}
