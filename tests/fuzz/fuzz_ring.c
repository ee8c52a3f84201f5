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

#include "shm/ring.h"

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
	*ring_hdr_at(base, off) = (uint64_t)(mark % 6) << 32 | len;
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

	if (how & 1)
		sum += ring_rx_copy_ahead(rx, bytes, 512, next_u16(s));
	if (how & 2)
		sum += ring_rx_bytes(rx, 100000, &mark);
	if (how & 4)
		sum += ring_rx_ready(rx);
	int32_t got = ring_peek(rx, &at, &mark);
	assert(rx->off % RING_ALIGN == 0);
	assert(rx->off <= rx->size - RING_ALIGN);
	if (got <= 0) {
		assert(got == 0 || got == -EPROTO);
		return got;
	}
	assert(at >= rx->base && at + got <= rx->base + rx->size);
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
	struct ring_rx rx;
	int err = 0;

	assert(tails);
	ring_tx_init(&tx, out, size, &tails[0]);
	ring_rx_init(&rx, in, size, &tails[1]);
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
	free(out);
	free(in);
	free(tails);
	return 0;
}
