/* SPDX-License-Identifier: MIT */
/* proto/shm/ring_tx.c - the producer of a ring; see proto/shm/ring.h */
#include <errno.h>

#include "proto/shm/ring.h"

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

static void publish(struct ring_tx *tx, uint32_t off, uint64_t hdr)
{
	ring_changes(tx->changes);
	store_rel(ring_hdr_at(tx->base, off), hdr); /* R1 */
}

/* The consumer keeps what it was given: continue in the other area.  The
 * consumer may only ask for this if we have not grown beyond our half. */
static COLD int tx_move(struct ring_tx *tx)
{
	uint8_t *base = tx->base;
	uint32_t *tail_pub = tx->tail_pub, head = tx->head;

	if (tx->size > tx->area_bytes || tx->grow_to > tx->area_bytes)
		return -EPROTO;
	if (tx->holds) /* its header belongs in front of the mark */
		return 0;
	store_rlx(ring_hdr_at(tx->other, 0), UINT64_C(0));
	/* RING_RESERVE keeps these lines free, as for FIN. */
	store_rlx(ring_hdr_at(base, head + RING_ALIGN), UINT64_C(0));
	publish(tx, head, ring_hdr(RING_MOVE, 0));
	tx->base = tx->other;
	tx->other = base;
	store_rlx(&tx->tail_pub, tx->other_tail);
	tx->other_tail = tail_pub;
	store_rlx(&tx->head, 0u);
	store_rlx(&tx->tail, 0u);
	store_rlx(&tx->hole, RING_NO_HOLE);
	tx->look = RING_REWIND_BYTES;
	tx->resume = 0;
	return 0;
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
	if (unlikely(tail == RING_TAIL_MOVE))
		return tx_move(tx);
	if (tail % RING_ALIGN || tail >= tx->size)
		return -EPROTO;
	if (tx->hole != RING_NO_HOLE) {
		/* It is before the WRAP to the start, before the SKIP, or
		 * behind both. */
		if (tail > tx->hole && (tail < tx->tail || tail > tx->head))
			return -EPROTO;
		if (tail <= tx->hole || tail >= tx->hole_to)
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

/* Bytes from head on that a record may cover, less the zero header behind it
 * and the reserve. */
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

/* Is the consumer still at the place where the ring was rewound, so that we
 * may continue behind it? */
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

/* Largest payload whose record fits in @room bytes, multiples of RING_ALIGN. */
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

/* Go on at offset 0; the caller has seen that there is room. */
static void wrap(struct ring_tx *tx)
{
	store_rlx(ring_hdr_at(tx->base, 0), UINT64_C(0));
	publish(tx, tx->head, ring_hdr(RING_WRAP, 0));
	store_rlx(&tx->head, 0);
	tx->resume = 0;
}

/* Continue at @to, behind what the consumer has not read. */
static void skip(struct ring_tx *tx, uint32_t to)
{
	store_rlx(ring_hdr_at(tx->base, to), UINT64_C(0));
	publish(tx, tx->head, ring_hdr(RING_SKIP, to));
	store_rlx(&tx->hole, tx->head);
	tx->hole_to = to;
	store_rlx(&tx->head, to);
	tx->resume = 0;
}

void ring_tx_stretch(struct ring_tx *tx, uint32_t size)
{
	uint32_t old = tx->size;
	bool has_wrapped = tx->head < tx->tail && !may_resume(tx);

	tx->grow_to = MAX(tx->grow_to, size);
	if (tx->grow_to - old <= 2 * RING_ALIGN + RING_RESERVE)
		return;
	store_rlx(&tx->size, tx->grow_to);
	if (has_wrapped)
		skip(tx, old);
}

/* Choose where to put the next record of about @want payload bytes.  Return
 * what fits there. */
static uint32_t place(struct ring_tx *tx, uint32_t want)
{
	uint32_t here = payload_in(room_here(tx));

	if (here >= want)
		return want;
	uint32_t start = payload_in(room_at_start(tx));
	/* Fill the rest at the end only if it is large enough, or if the start
	 * has no more room. */
	if (start > here && (start >= want || here < want / 4)) {
		wrap(tx);
		here = start;
	} else if (here < want / 4 + 1 && room_behind(tx)) {
		skip(tx, tx->resume);
		here = payload_in(room_here(tx));
	}
	return MIN(here, want);
}

/* Once per REWIND_BYTES, start again in an empty ring, so that it stays in the
 * caches.  A ring that is to grow does so here. */
static int rewind_if_empty(struct ring_tx *tx)
{
	int err = ring_tx_refresh(tx);

	if (err)
		return err;
	tx->look = RING_REWIND_BYTES;
	/* The end may move only when the start of the ring is free. */
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

static inline void commit_bytes(struct ring_tx *tx, uint32_t record_off,
				uint32_t bytes)
{
	dassert(record_off == tx->head);
	store_rlx(&tx->head, record_off + bytes);
	tx->look = tx->look > bytes ? tx->look - bytes : 0;
	store_rlx(ring_hdr_at(tx->base, tx->head), UINT64_C(0));
}

static inline void commit(struct ring_tx *tx, uint32_t record_off,
			  uint32_t bytes, uint64_t hdr)
{
	commit_bytes(tx, record_off, bytes);
	publish(tx, record_off, hdr);
}

uint64_t ring_commit_corked(struct ring_tx *tx, uint32_t record_off,
			    uint32_t len)
{
	commit_bytes(tx, record_off, ring_record_bytes(len));
	tx->holds = 1;
	return ring_hdr(RING_DATA, len);
}

/* Between the known tail and the head, no space has been reused. */
static bool is_in_use(const struct ring_tx *tx, uint32_t off)
{
	if (tx->hole != RING_NO_HOLE && off <= tx->hole)
		return true;
	if (tx->tail <= tx->head)
		return off >= tx->tail && off < tx->head;
	return off >= tx->tail || off < tx->head;
}

bool ring_is_corked(const struct ring_tx *tx, uint32_t record_off)
{
	return is_in_use(tx, record_off) &&
	       !load_rlx(ring_hdr_at(tx->base, record_off));
}

void ring_release(struct ring_tx *tx, uint32_t record_off, uint64_t hdr)
{
	if (is_in_use(tx, record_off))
		publish(tx, record_off, hdr);
	tx->holds = 0;
}

void ring_commit(struct ring_tx *tx, uint32_t record_off, uint32_t len)
{
	commit(tx, record_off, ring_record_bytes(len),
	       ring_hdr(RING_DATA, len));
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

	if (off > tx->size - 2 * RING_ALIGN) /* not ours, then: shared.c */
		return -EPROTO;
	/* RING_RESERVE keeps these lines free in front of tail or end. */
	store_rlx(&tx->head, tx->head + RING_ALIGN);
	store_rlx(ring_hdr_at(tx->base, tx->head), UINT64_C(0));
	publish(tx, off, ring_hdr(mark, 0));
	return 0;
}

int ring_push_record(struct ring_tx *tx, enum ring_mark mark, uint32_t len,
		     const void *payload, uint32_t n)
{
	uint32_t got = RING_ALIGN - RING_HDR, at;
	uint8_t *to = ring_reserve(tx, &got, &at);

	dassert(n <= RING_ALIGN - RING_HDR);
	if (!to)
		return got ? -EPROTO : 0;
	if (got != RING_ALIGN - RING_HDR)
		return 0;
	memcpy(to, payload, n);
	commit(tx, at, RING_ALIGN, ring_hdr(mark, len));
	return 1;
}
