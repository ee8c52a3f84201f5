/* SPDX-License-Identifier: MIT */
/* proto/shm/ring.c - see proto/shm/ring.h */
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

void ring_rx_init(struct ring_rx *rx, uint8_t *base, uint32_t size,
		  uint32_t *tail_pub)
{
	*rx = (struct ring_rx){ .base = base,
				.tail_pub = tail_pub,
				.size = size,
				.hold = RING_NONE_LENT };
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

	if (off > tx->size - 2 * RING_ALIGN) /* not ours, then: shm/shared.c */
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

/* A record, as its header says. */
struct record {
	int mark; /* enum ring_mark, or -EPROTO from a liar */
	uint32_t len;
	uint32_t next; /* where the one behind it is */
};

static struct record record_data(const struct ring_rx *rx, uint32_t off,
				 uint32_t len)
{
	bool ok = len > 0 && len <= RING_CHUNK &&
		  ring_record_bytes(len) <= rx->size - RING_ALIGN - off;

	return (struct record){ ok ? RING_DATA : -EPROTO, len,
				off + ring_record_bytes(len) };
}

/* Rarer ones.  A mark's length is 0. */
static struct record record_mark(const struct ring_rx *rx, uint32_t off,
				 uint32_t mark, uint32_t len)
{
	struct record r = { (int)mark, len, off + RING_ALIGN };
	bool ok;

	switch (mark) {
	case RING_WRAP:
		ok = off && !len;
		r.next = 0;
		break;
	case RING_SKIP: /* forwards only, so that it ends */
		ok = len > off && len <= rx->size - RING_ALIGN &&
		     len % RING_ALIGN == 0;
		r.next = len;
		break;
	case RING_MOVE:
		ok = rx->moves && !len;
		break;
	case RING_REF:
		ok = rx->refs && len && len <= RING_CHUNK &&
		     off < rx->size - RING_ALIGN;
		break;
	case RING_MAP:
		ok = rx->refs && !len && off < rx->size - RING_ALIGN;
		break;
	default:
		ok = (mark == RING_FIN || mark == RING_BACK) && !len;
	}
	if (!ok)
		r.mark = -EPROTO;
	return r;
}

static struct record record_at(const struct ring_rx *rx, uint32_t off)
{
	uint64_t hdr = load_acq(ring_hdr_at(rx->base, off)); /* A1 */
	uint32_t mark = (uint32_t)(hdr >> 32);

	if (likely(mark == RING_DATA))
		return record_data(rx, off, (uint32_t)hdr);
	if (!hdr)
		return (struct record){ .mark = RING_NONE };
	return record_mark(rx, off, mark, (uint32_t)hdr);
}

/* Follow jumps as ring_next() does, which also reports corrupt ones. */
bool ring_rx_ready_behind(const struct ring_rx *rx, uint32_t off)
{
	struct record r = record_at(rx, off);

	for (int jumps = 0; r.mark == RING_WRAP || r.mark == RING_SKIP;
	     jumps++) {
		if (jumps == 3)
			return true;
		r = record_at(rx, r.next);
	}
	return r.mark != RING_NONE;
}

uint32_t ring_rx_waits_at(const struct ring_rx *rx)
{
	uint32_t off = load_rlx(&rx->off);

	if (load_rlx(&rx->len))
		return UINT32_MAX;
	struct record r = record_at(rx, off);
	for (int jumps = 0; r.mark == RING_WRAP || r.mark == RING_SKIP;
	     jumps++) {
		if (jumps == 3)
			return UINT32_MAX;
		off = r.next;
		r = record_at(rx, off);
	}
	return r.mark == RING_NONE ? off : UINT32_MAX;
}

void ring_rx_store(struct ring_rx *rx, uint32_t off, uint64_t hdr)
{
	cas(ring_hdr_at(rx->base, off), UINT64_C(0), hdr);
}

/* Where the referenced bytes are; NULL if the reference is invalid. */
static const uint8_t *ref_data(const struct ring_rx *rx, uint32_t len)
{
	const struct ring_ref *ref =
	    (const void *)(rx->base + rx->off + RING_HDR);
	uint32_t i = load_rlx(&ref->region);
	uint64_t off = load_rlx(&ref->off);

	if (i >= RING_REGIONS || len > rx->refs->region[i].size ||
	    off > rx->refs->region[i].size - len)
		return NULL;
	return rx->refs->region[i].base + off;
}

static COLD const uint8_t *begin_ref(struct ring_rx *rx, uint32_t len)
{
	const uint8_t *data = ref_data(rx, len);

	if (data) {
		rx->refs->n++;
		rx->refs->bytes += len;
	}
	return data;
}

/* @end: an offset that no record has, or where the ring ends. */
static inline int32_t next_before(struct ring_rx *rx, uint32_t end,
				  const uint8_t **data, enum ring_mark *mark)
{
	struct record none = { .mark = RING_NONE };
	struct record r = rx->off == end ? none : record_at(rx, rx->off);

	/* There is at most one WRAP to the start and one SKIP from there. */
	for (int jumps = 0; r.mark == RING_WRAP || r.mark == RING_SKIP;
	     jumps++) {
		if (jumps == 3)
			return -EPROTO;
		store_rlx(&rx->off, r.next);
		r = rx->off == end ? none : record_at(rx, rx->off);
	}
	if (r.mark < 0)
		return r.mark;
	*mark = (enum ring_mark)r.mark;
	if (likely(r.mark == RING_DATA))
		rx->data = rx->base + rx->off + ring_payload_off(r.len);
	else if (r.mark != RING_REF)
		return 0;
	else if (!(rx->data = begin_ref(rx, r.len)))
		return -EPROTO;
	rx->is_ref = r.mark == RING_REF;
	rx->next = r.next;
	rx->pos = 0;
	store_rlx(&rx->len, r.len);
	*data = rx->data;
	return (int32_t)r.len;
}

int32_t ring_next(struct ring_rx *rx, const uint8_t **data,
		  enum ring_mark *mark)
{
	return next_before(rx, UINT32_MAX, data, mark);
}

int32_t ring_next_before(struct ring_rx *rx, uint32_t end, const uint8_t **data,
			 enum ring_mark *mark)
{
	return next_before(rx, end, data, mark);
}

void ring_take_map(struct ring_rx *rx, struct ring_map *map)
{
	/* Copy it once: the other side may change it at any time. */
	memcpy(map, rx->base + rx->off + RING_HDR, sizeof(*map));
	store_rlx(&rx->off, rx->off + RING_ALIGN);
}

void ring_publish_refs(struct ring_rx *rx)
{
	struct ring_refs *refs = rx->refs;

	refs->bytes = 0;
	store_rel(refs->done_pub,
		  refs->is_held ? refs->held : ring_rx_refs(rx)); /* R3 */
}

/* Call the body for each ready record; the walk ends at a mark, a corrupt
 * header or an absent one.  A hostile producer could make us walk in circles.
 * But it goes forward except at WRAP, and an honest ring has three jumps at most:
 * WRAP where it was rewound, SKIP, and WRAP at its end.  @pos: what is read of the
 * record. */
#define WALK_JUMPS_MAX 4
#define FOR_EACH_READY(rx, off, r, pos, jumps)                                 \
	for (jumps = 0, off = (rx)->off, pos = (rx)->pos,                      \
	    r = (rx)->len                                                      \
		    ? (struct record){ (rx)->is_ref ? RING_REF : RING_DATA,    \
				       (rx)->len, (rx)->next }                 \
		    : record_at((rx), off);                                    \
	     r.mark > 0 && r.mark != RING_FIN && r.mark != RING_BACK &&        \
	     r.mark != RING_MOVE &&                                            \
	     (jumps += r.mark == RING_WRAP || r.mark == RING_SKIP) <=          \
		 WALK_JUMPS_MAX;                                               \
	     off = r.next, pos = 0, r = record_at((rx), off))

uint32_t ring_rx_bytes(const struct ring_rx *rx, uint32_t max,
		       enum ring_mark *mark)
{
	uint32_t off, pos, jumps, n = 0;
	struct record r;

	*mark = RING_NONE;
	FOR_EACH_READY(rx, off, r, pos, jumps)
	{
		if (r.mark != RING_DATA && r.mark != RING_REF)
			continue;
		n += r.len - pos;
		if (n >= max)
			return max;
	}
	if (r.mark == RING_FIN || r.mark == RING_BACK)
		*mark = (enum ring_mark)r.mark;
	return n;
}

uint32_t ring_rx_end(const struct ring_rx *rx, enum ring_mark *mark)
{
	uint32_t off, pos, jumps;
	struct record r;

	FOR_EACH_READY(rx, off, r, pos, jumps)
	(void)pos;
	*mark = r.mark < 0 ? RING_NONE : (enum ring_mark)r.mark;
	return off;
}

uint32_t ring_rx_copy_ahead(const struct ring_rx *rx, void *buf, uint32_t n,
			    uint32_t skip)
{
	uint32_t off, pos, jumps, copied = 0;
	struct record r;

	dassert(!rx->refs); /* who looks ahead gets no references */
	FOR_EACH_READY(rx, off, r, pos, jumps)
	{
		if (r.mark != RING_DATA)
			continue;
		uint32_t have = r.len - pos;
		uint32_t jump = MIN(skip, have);
		uint32_t take = MIN(have - jump, n - copied);

		skip -= jump;
		memcpy((uint8_t *)buf + copied,
		       rx->base + off + ring_payload_off(r.len) + pos + jump,
		       take);
		copied += take;
		if (copied == n)
			break;
	}
	return copied;
}
