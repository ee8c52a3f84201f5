/* SPDX-License-Identifier: MIT */
/*
 * tests/fuzz/fuzz_ring.c - both ends of rings whose other end writes anything
 *
 *     bytes -> a script: our calls, and the stranger's stores between them
 *
 * Our producer works on one ring, our consumer on another; the script also writes
 * headers, payload and tails as a stranger would.  Each ring is a heap block of
 * exactly its size.  Besides never leaving it, this holds:
 *   I1  an answer is -EPROTO, or within its bounds
 *   I2  the producer's head and the consumer's offset stay on a line of the ring
 *   I3  after -EPROTO the connection would be reset: the script ends
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "proto/shm/ring.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct script {
	const uint8_t *at, *end;
};

static uint32_t next_byte(struct script *s)
{
	return s->at < s->end ? *s->at++ : 0;
}

static uint32_t next_u16(struct script *s)
{
	uint32_t low = next_byte(s);

	return low | next_byte(s) << 8;
}

static uint8_t *ring_memory(uint32_t size)
{
	uint8_t *base = aligned_alloc(RING_ALIGN, size);

	assert(base);
	memset(base, 0, size);
	return base;
}

/* Any header at any line; mostly of known marks. */
static void write_header(struct script *s, uint8_t *base, uint32_t size)
{
	uint32_t off = next_u16(s) * RING_ALIGN % size;
	uint32_t mark = next_byte(s);
	uint32_t len = next_u16(s);

	if (mark & 0x80)
		len = 0u - len;
	*ring_hdr_at(base, off) = (uint64_t)(mark % 9) << 32 | len;
	if (mark % 9 == RING_REF) {
		struct ring_ref ref = { .region = next_byte(s) % 18,
					.off = next_u16(s) };

		if (mark & 0x40)
			ref.off = 0u - ref.off;
		memcpy(base + off + RING_HDR, &ref, sizeof(ref));
	}
}

/* What the consumer has mapped of the producer's: two regions, of exactly their size. */
#define REGION 5000u

static void regions_open(struct ring_refs *refs, uint32_t *done)
{
	*refs = (struct ring_refs){ .done_pub = done };
	for (int i = 3; i < 5; i++) {
		refs->region[i].base = calloc(1, REGION);
		refs->region[i].size = REGION;
		assert(refs->region[i].base);
	}
}

static void regions_close(struct ring_refs *refs)
{
	for (int i = 3; i < 5; i++)
		free((void *)refs->region[i].base);
}

static bool is_inside(const struct ring_rx *rx, const uint8_t *at, int32_t n)
{
	if (at >= rx->base && at + n <= rx->base + rx->size)
		return true;
	for (int i = 3; rx->refs && i < 5; i++)
		if (at >= rx->refs->region[i].base &&
		    at + n <= rx->refs->region[i].base + REGION)
			return true;
	return false;
}

static void write_tail(struct script *s, uint32_t *tail)
{
	uint32_t how = next_byte(s);

	*tail = how & 1 ? next_u16(s) : next_u16(s) * RING_ALIGN;
	if (how == 0xff)
		*tail = 0u - *tail;
}

static uint8_t bytes[RING_CHUNK];

static int produce(struct script *s, struct ring_tx *tx)
{
	uint32_t n = next_u16(s);

	if (n % 16 == 15 && tx->size - tx->head > 4 * RING_ALIGN)
		return ring_tx_refresh(tx);
	ssize_t took = ring_push(tx, bytes, n ? n : 1);
	assert(took == -EPROTO || (took >= 0 && took <= (ssize_t)(n ? n : 1)));
	assert(tx->head % RING_ALIGN == 0);
	assert(tx->head <= tx->size - RING_ALIGN);
	assert(ring_tx_room(tx) < tx->size);
	return took < 0 ? (int)took : 0;
}

static volatile uint64_t sum;

static int consume(struct script *s, struct ring_rx *rx)
{
	const uint8_t *at;
	enum ring_mark mark;
	uint32_t how = next_byte(s);

	if (how & 1 && !rx->refs)
		sum += ring_rx_copy_ahead(rx, bytes, 512, next_u16(s));
	if (how & 2)
		sum += ring_rx_bytes(rx, 100000, &mark);
	if (how & 4)
		sum += ring_rx_ready(rx);
	int32_t got = ring_peek(rx, &at, &mark);
	assert(rx->off % RING_ALIGN == 0);
	assert(rx->off <= rx->size - RING_ALIGN);
	if (got <= 0) {
		struct ring_map map;

		assert(got == 0 || got == -EPROTO);
		if (!got && mark == RING_MAP)
			ring_take_map(rx, &map);
		return got;
	}
	assert(is_inside(rx, at, got));
	for (int32_t i = 0; i < got; i++)
		sum += at[i];
	ring_skip(rx, 1 + next_u16(s) % (uint32_t)got);
	ring_publish(rx);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct script s = { data, data + n };
	uint32_t size = 4096u << next_byte(&s) % 4;
	uint8_t *out = ring_memory(size), *in = ring_memory(size);
	uint32_t *tails = calloc(2, sizeof(*tails));
	struct ring_tx tx;
	struct ring_refs refs;
	struct ring_rx rx;
	uint32_t done = 0;
	int err = 0;

	assert(tails);
	ring_tx_init(&tx, out, size, &tails[0]);
	ring_rx_init(&rx, in, size, &tails[1]);
	regions_open(&refs, &done);
	if (next_byte(&s) & 1)
		rx.refs = &refs;
	while (s.at < s.end && !err) {
		switch (next_byte(&s) % 8) {
		case 0:
			write_header(&s, in, size);
			break;
		case 1:
			write_header(&s, out, size);
			break;
		case 2:
			write_tail(&s, &tails[0]);
			break;
		case 3:
			tails[0] = tx.head; /* an honest consumer */
			break;
		case 4:
			tails[1] = next_u16(&s); /* ours, overwritten */
			break;
		case 5:
			err = produce(&s, &tx);
			break;
		default:
			err = consume(&s, &rx);
			break;
		}
	}
	regions_close(&refs);
	free(out);
	free(in);
	free(tails);
	return 0;
}
