/* SPDX-License-Identifier: MIT */
/*
 * tests/unit/ring_hostile.c - the other side of a ring may write anything into it
 *
 * A lie that can be seen gives -EPROTO and changes nothing; one that cannot be seen
 * leads to wrong bytes, never outside the ring (which the address sanitizer
 * watches, for the ring is a heap block of exactly its size).
 */
#include <errno.h>

#include "ring_pair.h"

#define SIZE RING_MIN_SIZE

/* What ring_peek() says about one header at offset 0 or, behind a record of 100
 * bytes, at @off 128. */
static int32_t peek_at(uint32_t off, uint32_t mark, uint32_t len)
{
	struct ring_pair p;
	const uint8_t *data;
	enum ring_mark unused;

	pair_init(&p, SIZE);
	if (off) {
		assert_int_equal(pair_push(&p, 0, 100), 100);
		assert_int_equal(pair_pull(&p, 0, 100), 100);
		assert_int_equal(p.rx.off, off);
	}
	header_write(&p, off, mark, len);
	int32_t got = ring_peek(&p.rx, &data, &unused);
	pair_fini(&p);
	return got;
}

static void a_record_past_the_end_is_a_lie(void **state)
{
	/* What fits leaves a line for the header behind it. */
	uint32_t most = SIZE - 2 * RING_ALIGN;

	assert_int_equal(peek_at(0, RING_DATA, most), most);
	assert_int_equal(peek_at(0, RING_DATA, most + 1), -EPROTO);
	assert_int_equal(peek_at(128, RING_DATA, most - 128), most - 128);
	assert_int_equal(peek_at(128, RING_DATA, most - 127), -EPROTO);
	assert_int_equal(peek_at(0, RING_DATA, SIZE), -EPROTO);
	assert_int_equal(peek_at(0, RING_DATA, RING_CHUNK + 1), -EPROTO);
	assert_int_equal(peek_at(0, RING_DATA, INT32_MAX), -EPROTO);
	assert_int_equal(peek_at(0, RING_DATA, UINT32_MAX), -EPROTO);
	assert_int_equal(peek_at(0, RING_DATA, UINT32_MAX - 63), -EPROTO);
}

/* The same of a reference, by a consumer that has mapped 8192 bytes as region 2. */
static int32_t peek_ref(uint32_t len, uint32_t region, uint64_t off)
{
	static const uint8_t mapped[8192];
	struct ring_pair p;
	uint32_t done = 0;
	struct ring_refs refs = { .done_pub = &done };
	struct ring_ref ref = { .region = region, .off = off };
	const uint8_t *data;
	enum ring_mark unused;

	refs.region[2].base = mapped;
	refs.region[2].size = sizeof(mapped);
	pair_init(&p, SIZE);
	p.rx.refs = &refs;
	header_write(&p, 0, RING_REF, len);
	memcpy(p.base + RING_HDR, &ref, sizeof(ref));
	int32_t got = ring_peek(&p.rx, &data, &unused);
	if (got > 0)
		assert_ptr_equal(data, mapped + off);
	pair_fini(&p);
	return got;
}

static void a_reference_past_what_is_mapped_is_a_lie(void **state)
{
	assert_int_equal(peek_ref(8192, 2, 0), 8192);
	assert_int_equal(peek_ref(1, 2, 8191), 1);
	assert_int_equal(peek_ref(8193, 2, 0), -EPROTO);
	assert_int_equal(peek_ref(8192, 2, 1), -EPROTO);
	assert_int_equal(peek_ref(1, 2, 8192), -EPROTO);
	assert_int_equal(peek_ref(2, 2, UINT64_MAX), -EPROTO);
	assert_int_equal(peek_ref(0, 2, 0), -EPROTO);
	assert_int_equal(peek_ref(1, 1, 0), -EPROTO); /* not mapped */
	assert_int_equal(peek_ref(1, RING_REGIONS, 0), -EPROTO);
	assert_int_equal(peek_ref(1, UINT32_MAX, 0), -EPROTO);
	assert_int_equal(peek_ref(RING_CHUNK + 1, 2, 0), -EPROTO);
}

/* Who has asked for none gets none. */
static void a_reference_unasked_is_a_lie(void **state)
{
	assert_int_equal(peek_at(0, RING_REF, 1), -EPROTO);
	assert_int_equal(peek_at(0, RING_MAP, 0), -EPROTO);
	assert_int_equal(peek_at(0, RING_MAP + 1, 0), -EPROTO);
}

static void an_empty_record_is_a_lie(void **state)
{
	assert_int_equal(peek_at(0, RING_DATA, 0), -EPROTO);
}

static void a_wrap_at_the_start_is_a_lie(void **state)
{
	struct ring_pair p;
	const uint8_t *data;
	enum ring_mark mark;

	assert_int_equal(peek_at(0, RING_WRAP, 0), -EPROTO);
	assert_int_equal(peek_at(128, RING_WRAP, 1), -EPROTO);

	/* Nor may a wrap lead to one, or a reader would run in circles. */
	pair_init(&p, SIZE);
	pair_push(&p, 0, 100);
	pair_pull(&p, 0, 100);
	header_write(&p, 128, RING_WRAP, 0);
	header_write(&p, 0, RING_WRAP, 0);
	assert_int_equal(ring_peek(&p.rx, &data, &mark), -EPROTO);
	pair_fini(&p);
}

static void an_unknown_mark_is_a_lie(void **state)
{
	for (uint32_t mark = RING_BACK + 1; mark < 70000; mark += 13)
		assert_int_equal(peek_at(0, mark, 8), -EPROTO);
	assert_int_equal(peek_at(0, UINT32_MAX, 0), -EPROTO);
	assert_int_equal(peek_at(0, RING_NONE, 8), -EPROTO);
}

static void an_end_with_a_length_is_a_lie(void **state)
{
	assert_int_equal(peek_at(0, RING_FIN, 0), 0);
	assert_int_equal(peek_at(0, RING_FIN, 1), -EPROTO);
	assert_int_equal(peek_at(0, RING_BACK, 64), -EPROTO);
}

static void a_walk_in_circles_ends(void **state)
{
	struct ring_pair p;
	enum ring_mark mark;
	uint8_t buf[64];

	pair_init(&p, SIZE);
	header_write(&p, 0, RING_DATA, 1);
	header_write(&p, 64, RING_WRAP, 0);
	assert_true(ring_rx_bytes(&p.rx, INT32_MAX, &mark) <= SIZE);
	assert_int_equal(ring_rx_copy_ahead(&p.rx, buf, sizeof(buf), 1 << 20),
			 0);
	pair_fini(&p);
}

/* However many records there are: FIONREAD may not take long. */
static void a_count_of_many_small_records_ends(void **state)
{
	const uint32_t size = 2 * RING_COUNTED_MAX * RING_ALIGN;
	struct ring_pair p;
	enum ring_mark mark;

	pair_init(&p, size);
	for (uint32_t off = 0; off < size - RING_ALIGN; off += RING_ALIGN)
		header_write(&p, off, RING_DATA, 1);
	assert_int_equal(ring_rx_bytes(&p.rx, INT32_MAX, &mark),
			 RING_COUNTED_MAX);
	assert_int_equal(mark, RING_NONE);
	pair_fini(&p);
}

/* Refused, and the producer's view stays as it was. */
static void tail_is_refused(struct ring_pair *p, uint32_t tail)
{
	struct ring_tx before = p->tx;

	*p->tail = tail;
	assert_int_equal(ring_tx_refresh(&p->tx), -EPROTO);
	assert_memory_equal(&before, &p->tx, sizeof(before));
	*p->tail = before.tail;
}

static void an_impossible_tail_is_a_lie(void **state)
{
	struct ring_pair p;

	pair_init(&p, SIZE);
	pair_push(&p, 0, 1000);
	uint32_t head = p.tx.head;
	tail_is_refused(&p, 1);
	tail_is_refused(&p, head - 1);
	tail_is_refused(&p, head + RING_ALIGN);
	tail_is_refused(&p, SIZE);
	tail_is_refused(&p, SIZE + RING_ALIGN);
	tail_is_refused(&p, UINT32_MAX);
	tail_is_refused(&p, UINT32_MAX - 63);
	*p.tail = head;
	assert_int_equal(ring_tx_refresh(&p.tx), 0);
	tail_is_refused(&p, 0); /* it does not move back */
	tail_is_refused(&p, head - RING_ALIGN);
	pair_fini(&p);
}

/*      head)      (tail ---used--- size     */
static void an_impossible_tail_around_the_end_is_a_lie(void **state)
{
	struct ring_pair p;
	uint64_t sent = 0, got = 0;

	pair_init(&p, SIZE);
	for (ssize_t took; (took = pair_push(&p, sent, 200)) > 0;)
		sent += (uint64_t)took;
	got += pair_pull(&p, 0, 2000);
	assert_true(pair_push(&p, sent, 200) > 0);
	assert_true(p.tx.head < p.tx.tail);
	tail_is_refused(&p, p.tx.tail - RING_ALIGN);
	tail_is_refused(&p, p.tx.head + RING_ALIGN);
	*p.tail = p.tx.head;
	assert_int_equal(ring_tx_refresh(&p.tx), 0);
	pair_fini(&p);
}

static void a_push_tells_of_a_lying_tail(void **state)
{
	struct ring_pair p;
	ssize_t took;

	pair_init(&p, SIZE);
	*p.tail = 63;
	while ((took = pair_push(&p, 0, 100)) > 0)
		;
	assert_int_equal(took, -EPROTO);
	pair_fini(&p);
}

/* Noise in the headers: any answer is right, no access outside is. */
static void noise_stays_inside(void **state)
{
	struct rng r = { 1 };
	uint64_t bytes = 0;

	for (int round = 0; round < 20000; round++) {
		struct ring_pair p;
		const uint8_t *data;
		enum ring_mark mark;
		uint8_t buf[100];

		pair_init(&p, SIZE);
		for (uint32_t off = 0; off < SIZE; off += RING_ALIGN)
			header_write(
			    &p, off,
			    rng_below(&r, 6) ? RING_DATA : rng_below(&r, 6),
			    rng_below(&r, rng_below(&r, 9) ? 300 : 5000));
		for (int i = 0; i < 200; i++) {
			int32_t got = ring_peek(&p.rx, &data, &mark);

			if (got <= 0)
				break;
			assert_true(data >= p.base);
			assert_true(data + got <= p.base + SIZE);
			for (int32_t k = 0; k < got; k++)
				bytes += data[k];
			ring_rx_copy_ahead(&p.rx, buf, sizeof(buf),
					   rng_below(&r, 4000));
			ring_rx_bytes(&p.rx, 5000, &mark);
			ring_skip(&p.rx, 1 + rng_below(&r, (uint32_t)got));
			ring_publish(&p.rx);
		}
		pair_fini(&p);
	}
	assert_true(bytes > 0);
}

static void a_move_unasked_is_a_lie(void **state)
{
	struct ring_pair p;
	const uint8_t *data;
	enum ring_mark mark;
	uint32_t other_tail = 5;

	assert_int_equal(peek_at(0, RING_MOVE, 0), -EPROTO);
	assert_int_equal(peek_at(128, RING_MOVE, 0), -EPROTO);
	for (uint32_t len = 0; len < 2; len++) {
		pair_init(&p, SIZE);
		ring_ask_to_move(&p.rx, &other_tail);
		header_write(&p, 0, RING_MOVE, len);
		assert_int_equal(ring_peek(&p.rx, &data, &mark),
				 len ? -EPROTO : 0);
		pair_fini(&p);
	}
}

/* Of a producer that has one area, or uses more than half of its memory. */
static void a_move_that_cannot_be_is_a_lie(void **state)
{
	struct ring_pair p;
	uint32_t other_tail = 0;

	for (int areas = 0; areas < 2; areas++) {
		pair_init(&p, SIZE);
		if (areas)
			ring_tx_areas(&p.tx, p.base + SIZE / 2, &other_tail,
				      SIZE / 2);
		*p.tail = RING_TAIL_MOVE;
		assert_int_equal(ring_tx_refresh(&p.tx), -EPROTO);
		assert_ptr_equal(p.tx.base, p.base);
		pair_fini(&p);
	}
}

/* Asked again and again: each time a mark, and always inside. */
static void moves_without_end_stay_inside(void **state)
{
	struct ring_pair p;
	uint32_t other_tail = 0;

	pair_init(&p, SIZE);
	ring_tx_window(&p.tx, SIZE / 2);
	ring_tx_areas(&p.tx, p.base + SIZE / 2, &other_tail, SIZE / 2);
	for (uint32_t i = 0; i < 10000; i++) {
		pair_push(&p, 0, i % 300 + 1);
		*(i % 2 ? p.tail : &other_tail) = RING_TAIL_MOVE;
	}
	pair_fini(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_record_past_the_end_is_a_lie),
		cmocka_unit_test(an_empty_record_is_a_lie),
		cmocka_unit_test(a_reference_past_what_is_mapped_is_a_lie),
		cmocka_unit_test(a_reference_unasked_is_a_lie),
		cmocka_unit_test(a_reference_past_what_is_mapped_is_a_lie),
		cmocka_unit_test(a_reference_unasked_is_a_lie),
		cmocka_unit_test(a_wrap_at_the_start_is_a_lie),
		cmocka_unit_test(an_unknown_mark_is_a_lie),
		cmocka_unit_test(an_end_with_a_length_is_a_lie),
		cmocka_unit_test(a_walk_in_circles_ends),
		cmocka_unit_test(a_count_of_many_small_records_ends),
		cmocka_unit_test(an_impossible_tail_is_a_lie),
		cmocka_unit_test(an_impossible_tail_around_the_end_is_a_lie),
		cmocka_unit_test(a_push_tells_of_a_lying_tail),
		cmocka_unit_test(a_move_unasked_is_a_lie),
		cmocka_unit_test(a_move_that_cannot_be_is_a_lie),
		cmocka_unit_test(moves_without_end_stay_inside),
		cmocka_unit_test(noise_stays_inside),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
