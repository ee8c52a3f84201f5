/* SPDX-License-Identifier: MIT */
/*
 * tests/unit/ring_pair.h - a ring with both its ends in one thread
 *
 * The ring's memory is a heap block of exactly its size, and so is the word for
 * the tail: what reads or writes beside them is caught by the address sanitizer.
 */
#pragma once

#include "proto/shm/ring.h"
#include "unit.h"

struct ring_pair {
	uint8_t *base;
	uint32_t *tail;
	struct ring_tx tx;
	struct ring_rx rx;
};

static inline void pair_init(struct ring_pair *p, uint32_t size)
{
	p->base = aligned_alloc(RING_ALIGN, size);
	p->tail = calloc(1, sizeof(*p->tail));
	assert_non_null(p->base);
	assert_non_null(p->tail);
	memset(p->base, 0, size);
	ring_tx_init(&p->tx, p->base, size, p->tail);
	ring_rx_init(&p->rx, p->base, size, p->tail);
}

static inline void pair_fini(struct ring_pair *p)
{
	free(p->base);
	free(p->tail);
}

/* Push @n bytes of the stream from @off on; what was taken. */
static inline ssize_t pair_push(struct ring_pair *p, uint64_t off, uint32_t n)
{
	uint8_t *buf = malloc(n);

	assert_non_null(buf);
	stream_fill(buf, off, n);
	ssize_t took = ring_push(&p->tx, buf, n);
	free(buf);
	return took;
}

/* Take @n bytes at most, which must be the stream's from @off on, and say so. */
static inline uint32_t pair_pull(struct ring_pair *p, uint64_t off, uint32_t n)
{
	uint32_t done = 0;

	while (done < n) {
		const uint8_t *data;
		enum ring_mark mark;
		int32_t got = ring_peek(&p->rx, &data, &mark);

		assert_true(got >= 0);
		if (!got)
			break;
		uint32_t take = MIN((uint32_t)got, n - done);
		assert_int_equal(stream_differs(data, off + done, take), take);
		ring_skip(&p->rx, take);
		done += take;
	}
	ring_publish(&p->rx);
	return done;
}

static inline void header_write(struct ring_pair *p, uint32_t off,
				uint32_t mark, uint32_t len)
{
	*ring_hdr_at(p->base, off) = (uint64_t)mark << 32 | len;
}
