/* SPDX-License-Identifier: MIT */
/*
 * tests/unit/ring_end.c - a ring ends at a place that either side has chosen
 *
 * Random pushes and pulls, so that the ring is rewound, skips and wraps.  Then it ends:
 * where the records end that the reader sees, or at the writer's head.  What is pushed
 * after that is behind the end: the reader gets all that was before it and nothing else,
 * and the writer counts the rest.
 */
#include "ring_pair.h"

#define RING 16384u
#define ROUNDS 4000

static uint64_t push_some(struct ring_pair *p, struct rng *r, uint64_t off)
{
	for (uint32_t n = rng_below(r, 6); n; n--) {
		uint32_t len = 1 + rng_below(r, rng_below(r, 2) ? 100 : 4000);
		ssize_t took = pair_push(p, off, len);

		assert_true(took >= 0);
		off += (uint64_t)took;
	}
	return off;
}

/* Reads on to @end; the offset of the stream there. */
static uint64_t read_to(struct ring_pair *p, uint32_t end, uint64_t off)
{
	for (;;) {
		const uint8_t *data = p->rx.data + p->rx.pos;
		int32_t n = (int32_t)(p->rx.len - p->rx.pos);
		enum ring_mark mark = RING_NONE;

		if (!p->rx.len)
			n = ring_next_before(&p->rx, end, &data, &mark);
		assert_true(n >= 0);
		if (!n) {
			assert_int_equal(mark, RING_NONE);
			assert_int_equal(p->rx.off, end);
			return off;
		}
		assert_int_equal(stream_differs(data, off, (uint32_t)n), n);
		ring_skip(&p->rx, (uint32_t)n);
		off += (uint32_t)n;
	}
}

static void one_end(struct rng *r, bool is_writers)
{
	struct ring_pair p;
	uint64_t in = 0, out = 0;
	enum ring_mark mark;

	pair_init(&p, RING);
	for (uint32_t n = rng_below(r, 12); n; n--) {
		out = push_some(&p, r, out);
		in += pair_pull(&p, in, rng_below(r, 9000));
	}
	uint64_t end = out;
	uint32_t at = is_writers ? p.tx.head : ring_rx_end(&p.rx, &mark);
	out = push_some(&p, r, out);
	struct ring_rx rest = { .base = p.base, .size = RING, .off = at };
	assert_int_equal(ring_rx_bytes(&rest, INT32_MAX, &mark), out - end);
	assert_int_equal(read_to(&p, at, in), end);
	pair_fini(&p);
}

static void the_reader_ends_it(void **state)
{
	struct rng r = { 1 };

	for (int i = 0; i < ROUNDS; i++)
		one_end(&r, false);
}

static void the_writer_ends_it(void **state)
{
	struct rng r = { 2 };

	for (int i = 0; i < ROUNDS; i++)
		one_end(&r, true);
}

/* A record behind the end does not count, even if it was there before. */
static void an_end_that_no_record_has(void **state)
{
	const uint8_t *data;
	enum ring_mark mark;
	struct ring_pair p;

	pair_init(&p, RING);
	assert_int_equal(pair_push(&p, 0, 100), 100);
	assert_int_equal(ring_next_before(&p.rx, 0, &data, &mark), 0);
	assert_int_equal(mark, RING_NONE);
	assert_int_equal(ring_next_before(&p.rx, 64, &data, &mark), 100);
	ring_skip(&p.rx, 100);
	assert_int_equal(ring_next_before(&p.rx, 64, &data, &mark), 0);
	assert_int_not_equal(p.rx.off, 64);
	pair_fini(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_reader_ends_it),
		cmocka_unit_test(the_writer_ends_it),
		cmocka_unit_test(an_end_that_no_record_has),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
