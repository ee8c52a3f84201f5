/* SPDX-License-Identifier: MIT */
/* shm/ring.c - see shm/ring.h */
#include <errno.h>

#include "shm/ring.h"

void ring_tx_init(struct ring_tx *tx, uint8_t *base, uint32_t size,
		  uint32_t *tail_pub)
{
	*tx = (struct ring_tx){ .base = base,
				.tail_pub = tail_pub,
				.size = size,
				.grow_to = size,
				.look = RING_REWIND_BYTES,
				.hole = RING_NO_HOLE };
}

void ring_rx_init(struct ring_rx *rx, uint8_t *base, uint32_t size,
		  uint32_t *tail_pub)
{
	*rx = (struct ring_rx){ .base = base,
				.tail_pub = tail_pub,
				.size = size,
				.hold = RING_NO_HOLD };
}

/*
 * The consumer's tail may only move forward, to a record boundary between where
 * it was and our head:
 *
 *      tail ---used--- head            head)      (tail ---used--- size
 *      ^^^^ new tail ^^^^              ^^ or ^^   ^^^^ new tail ^^^^^^
 */
int ring_tx_refresh(struct ring_tx *tx)
{
	uint32_t tail = load_acq(tx->tail_pub); /* A2 */

	if (tail == tx->tail)
		return 0;
	if (tail % RING_ALIGN || tail >= tx->size)
		return -EPROTO;
	if (tx->hole != RING_NO_HOLE) {
		/* From the rewound place to what was written at the start. */
		if (tail > tx->hole && (tail < tx->tail || tail > tx->head))
			return -EPROTO;
		store_rlx(&tx->hole, RING_NO_HOLE);
		store_rlx(&tx->tail, tail);
		return 0;
	}
	if (tx->tail <= tx->head ? tail < tx->tail || tail > tx->head
				 : tail > tx->head && tail < tx->tail)
		return -EPROTO;
	store_rlx(&tx->tail, tail);
	return 0;
}

/* Bytes from head on that a record may cover, leaving room for the zero header
 * behind it and for the reserve. */
static uint32_t room_here(const struct ring_tx *tx)
{
	uint32_t end = tx->head >= tx->tail ? tx->size : tx->tail;
	uint32_t used = tx->head + RING_ALIGN + RING_RESERVE;

	return end > used ? end - used : 0;
}

static uint32_t room_at_start(const struct ring_tx *tx)
{
	uint32_t used = RING_ALIGN + RING_RESERVE;

	return tx->head >= tx->tail && tx->tail > used &&
		       tx->hole == RING_NO_HOLE
		   ? tx->tail - used
		   : 0;
}

/* Is the consumer still where the ring was rewound, so that we may go on behind
 * that place? */
static bool may_resume(const struct ring_tx *tx)
{
	return tx->resume && tx->head < tx->tail &&
	       tx->tail == tx->resume - RING_ALIGN;
}

static uint32_t room_behind(const struct ring_tx *tx)
{
	uint32_t used = tx->resume + RING_ALIGN + RING_RESERVE;

	return may_resume(tx) && tx->size > used ? tx->size - used : 0;
}

/* Largest payload whose record fits in @room bytes, a multiple of RING_ALIGN. */
static uint32_t payload_in(uint32_t room)
{
	if (room >= RING_BIG + RING_ALIGN)
		return room - RING_ALIGN;
	room = room < RING_HDR ? 0 : room - RING_HDR;
	return room < RING_BIG ? room : RING_BIG - 1;
}

uint32_t ring_tx_room(const struct ring_tx *tx)
{
	uint32_t here = payload_in(room_here(tx));
	uint32_t start = payload_in(room_at_start(tx));
	uint32_t behind = payload_in(room_behind(tx));

	here = here > start ? here : start;
	return here > behind ? here : behind;
}

static void publish(struct ring_tx *tx, uint32_t off, uint64_t hdr)
{
	store_rel(ring_hdr_at(tx->base, off), hdr); /* R1 */
}

/* Go on at offset 0; the caller has seen that there is room. */
static void wrap(struct ring_tx *tx)
{
	store_rlx(ring_hdr_at(tx->base, 0), UINT64_C(0));
	publish(tx, tx->head, ring_hdr(RING_WRAP, 0));
	store_rlx(&tx->head, 0);
	tx->resume = 0;
}

/* Go on behind the place where the ring was rewound. */
static void skip(struct ring_tx *tx)
{
	store_rlx(ring_hdr_at(tx->base, tx->resume), UINT64_C(0));
	publish(tx, tx->head, ring_hdr(RING_SKIP, tx->resume));
	store_rlx(&tx->hole, tx->head);
	store_rlx(&tx->head, tx->resume);
	tx->resume = 0;
}

/* Choose where the next record of about @want payload bytes goes, and return what
 * fits there. */
static uint32_t place(struct ring_tx *tx, uint32_t want)
{
	uint32_t here = payload_in(room_here(tx));

	if (here >= want)
		return want;
	uint32_t start = payload_in(room_at_start(tx));
	/* A remnant at the end is worth filling only when it is not tiny, or
	 * when the start has nothing better. */
	if (start > here && (start >= want || here < want / 4)) {
		wrap(tx);
		here = start;
	} else if (here < want / 4 + 1 && room_behind(tx)) {
		skip(tx);
		here = payload_in(room_here(tx));
	}
	return MIN(here, want);
}

/* Once per REWIND_BYTES: an empty ring starts over, and stays in the caches; one that
 * is to grow does. */
static int rewind_if_empty(struct ring_tx *tx)
{
	int err = ring_tx_refresh(tx);

	if (err)
		return err;
	tx->look = RING_REWIND_BYTES;
	/* With nothing at the start of the ring, its end may move. */
	if (unlikely(tx->size < tx->grow_to) && tx->head >= tx->tail &&
	    tx->hole == RING_NO_HOLE)
		store_rlx(&tx->size, tx->grow_to);
	if (tx->tail == tx->head &&
	    tx->head >= RING_REWIND_BYTES) { /* so there is room at 0 */
		uint32_t resume = tx->head + RING_ALIGN;

		wrap(tx);
		tx->resume = resume;
	}
	return 0;
}

uint8_t *ring_reserve(struct ring_tx *tx, uint32_t *len, uint32_t *record_off)
{
	uint32_t want = MIN(*len, RING_CHUNK);

	*len = 1;
	if (unlikely(tx->look < ring_record_bytes(want)) && rewind_if_empty(tx))
		return NULL;
	uint32_t got = place(tx, want);
	if (unlikely(got < want)) {
		if (ring_tx_refresh(tx))
			return NULL;
		got = place(tx, want);
	}
	*len = got;
	if (!got)
		return NULL;
	*record_off = tx->head;
	return tx->base + tx->head + ring_payload_off(got);
}

void ring_commit(struct ring_tx *tx, uint32_t record_off, uint32_t len)
{
	uint32_t bytes = ring_record_bytes(len);

	dassert(record_off == tx->head);
	store_rlx(&tx->head, record_off + bytes);
	tx->look = tx->look > bytes ? tx->look - bytes : 0;
	store_rlx(ring_hdr_at(tx->base, tx->head), UINT64_C(0));
	publish(tx, record_off, ring_hdr(RING_DATA, len));
}

ssize_t ring_push(struct ring_tx *tx, const void *buf, uint32_t len)
{
	uint32_t off;
	uint8_t *to = ring_reserve(tx, &len, &off);

	if (!to)
		return len ? -EPROTO : 0;
	memcpy(to, buf, len);
	ring_commit(tx, off, len);
	return len;
}

int ring_push_mark(struct ring_tx *tx, enum ring_mark mark)
{
	uint32_t off = tx->head;

	/* RING_RESERVE keeps these lines free in front of tail or end. */
	store_rlx(&tx->head, tx->head + RING_ALIGN);
	store_rlx(ring_hdr_at(tx->base, tx->head), UINT64_C(0));
	publish(tx, off, ring_hdr(mark, 0));
	return 0;
}

/* The header at @off, checked; -EPROTO from a liar.  A mark's @len is 0. */
static int header_at(const struct ring_rx *rx, uint32_t off, uint32_t *len)
{
	uint64_t hdr = load_acq(ring_hdr_at(rx->base, off)); /* A1 */
	uint32_t mark = (uint32_t)(hdr >> 32);

	*len = (uint32_t)hdr;
	if (likely(mark == RING_DATA))
		return *len > 0 && *len <= RING_CHUNK &&
			       ring_record_bytes(*len) <=
				   rx->size - RING_ALIGN - off
			   ? RING_DATA
			   : -EPROTO;
	if (!hdr)
		return RING_NONE;
	if (mark == RING_WRAP)
		return off && !*len ? RING_WRAP : -EPROTO;
	if (mark == RING_SKIP) /* forwards only, so that it ends */
		return *len > off && *len <= rx->size - RING_ALIGN &&
			       *len % RING_ALIGN == 0
			   ? RING_SKIP
			   : -EPROTO;
	if (mark != RING_FIN && mark != RING_BACK)
		return -EPROTO;
	return *len ? -EPROTO : (int)mark;
}

int32_t ring_next(struct ring_rx *rx, const uint8_t **data,
		  enum ring_mark *mark)
{
	uint32_t len;
	int got = header_at(rx, rx->off, &len);

	/* At most a WRAP to the start and a SKIP from there. */
	for (int jumps = 0; got == RING_WRAP || got == RING_SKIP; jumps++) {
		if (jumps == 3)
			return -EPROTO;
		store_rlx(&rx->off, got == RING_WRAP ? 0 : len);
		got = header_at(rx, rx->off, &len);
	}
	if (got < 0)
		return got;
	*mark = (enum ring_mark)got;
	if (got != RING_DATA)
		return 0;
	store_rlx(&rx->len, len);
	rx->pos = 0;
	*data = rx->base + rx->off + ring_payload_off(len);
	return (int32_t)len;
}

/* Call @visit's body for each ready record; the walk ends at a mark, a lie, or an
 * absent header.  A liar could make us walk in circles, so steps are bounded by
 * the ring's size. */
#define FOR_EACH_READY(rx, off, len, pos, got, budget)                         \
	for (budget = (rx)->size / RING_ALIGN, off = (rx)->off,                \
	    pos = (rx)->pos,                                                   \
	    got = (rx)->len ? (len = (rx)->len, (int)RING_DATA)                \
			    : header_at((rx), off, &len);                      \
	     budget &&                                                         \
	     (got == RING_DATA || got == RING_WRAP || got == RING_SKIP);       \
	     budget--,                                                         \
	    off = got == RING_WRAP   ? 0                                       \
		  : got == RING_SKIP ? len                                     \
				     : off + ring_record_bytes(len),           \
	    pos = 0, got = header_at((rx), off, &len))

uint32_t ring_rx_bytes(const struct ring_rx *rx, uint32_t max,
		       enum ring_mark *mark)
{
	uint32_t off, len, pos, budget, n = 0;
	int got;

	*mark = RING_NONE;
	FOR_EACH_READY(rx, off, len, pos, got, budget)
	{
		if (got != RING_DATA)
			continue;
		n += len - pos;
		if (n >= max)
			return max;
	}
	if (got == RING_FIN || got == RING_BACK)
		*mark = (enum ring_mark)got;
	return n;
}

uint32_t ring_rx_copy_ahead(const struct ring_rx *rx, void *buf, uint32_t n,
			    uint32_t skip)
{
	uint32_t off, len, pos, budget, copied = 0;
	int got;

	FOR_EACH_READY(rx, off, len, pos, got, budget)
	{
		if (got != RING_DATA)
			continue;
		uint32_t have = len - pos;
		uint32_t jump = MIN(skip, have);
		uint32_t take = MIN(have - jump, n - copied);

		skip -= jump;
		memcpy((uint8_t *)buf + copied,
		       rx->base + off + ring_payload_off(len) + pos + jump,
		       take);
		copied += take;
		if (copied == n)
			break;
	}
	return copied;
}
