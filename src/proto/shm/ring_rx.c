/* SPDX-License-Identifier: MIT */
/* proto/shm/ring_rx.c - the consumer of a ring; see proto/shm/ring.h */
#include <errno.h>
#include <string.h>

#include "proto/shm/ring.h"

void ring_rx_init(struct ring_rx *rx, uint8_t *base, uint32_t size,
		  uint32_t *tail_pub)
{
	*rx = (struct ring_rx){ .base = base,
				.tail_pub = tail_pub,
				.size = size,
				.at = ring_hdr_at(base, 0),
				.hold = RING_NONE_LENT };
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

/* Without the lock: the offset of the header to which the jumps at @at lead, if
 * there is none yet, else UINT32_MAX.  ring_next() reports corrupt jumps. */
static uint32_t empty_from(const struct ring_rx *rx, const uint64_t *at)
{
	struct ring_rx area = { .base = load_rlx(&rx->base),
				.size = load_rlx(&rx->size) };
	uintptr_t from = (uintptr_t)at - (uintptr_t)area.base;

	/* The ring moves just now, because another thread receives. */
	if (from >= area.size)
		return UINT32_MAX;
	uint32_t off = (uint32_t)from;
	struct record r = record_at(&area, off);
	for (int jumps = 0; r.mark == RING_WRAP || r.mark == RING_SKIP;
	     jumps++) {
		if (jumps == 3)
			return UINT32_MAX;
		off = r.next;
		r = record_at(&area, off);
	}
	return r.mark == RING_NONE ? off : UINT32_MAX;
}

bool ring_rx_ready_behind(const struct ring_rx *rx, const uint64_t *at)
{
	return empty_from(rx, at) == UINT32_MAX;
}

uint32_t ring_rx_waits_at(const struct ring_rx *rx)
{
	return load_rlx(&rx->len) ? UINT32_MAX
				  : empty_from(rx, load_acq(&rx->at)); /* A4 */
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
		ring_rx_go(rx, r.next);
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
	ring_rx_go(rx, rx->off + RING_ALIGN);
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
	uint32_t off, pos, jumps, n = 0, n_records = 0;
	struct record r;

	*mark = RING_NONE;
	FOR_EACH_READY(rx, off, r, pos, jumps)
	{
		if (r.mark != RING_DATA && r.mark != RING_REF)
			continue;
		n += r.len - pos;
		if (n >= max || ++n_records == RING_COUNTED_MAX)
			return MIN(n, max);
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
