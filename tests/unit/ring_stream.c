/* SPDX-License-Identifier: MIT */
/*
 * tests/unit/ring_stream.c - a ring is a stream: bytes come out once and in order
 *
 * Besides single promises of proto/shm/ring.h, a random producer and a random consumer
 * run against the simplest model there is: two counters, sent and received.
 */
#include "ring_pair.h"

#define STEPS 20000

static void nothing_is_there_at_first(void **state)
{
	struct ring_pair p;
	const uint8_t *data;
	enum ring_mark mark = RING_FIN;

	pair_init(&p, RING_MIN_SIZE);
	assert_false(ring_rx_ready(&p.rx));
	assert_int_equal(ring_peek(&p.rx, &data, &mark), 0);
	assert_int_equal(mark, RING_NONE);
	assert_int_equal(ring_rx_bytes(&p.rx, 100, &mark), 0);
	assert_false(ring_publish(&p.rx));
	pair_fini(&p);
}

static void fifty_six_bytes_take_one_cache_line(void **state)
{
	assert_int_equal(ring_record_bytes(56), RING_ALIGN);
	assert_int_equal(ring_record_bytes(57), 2 * RING_ALIGN);
	assert_int_equal(ring_record_bytes(1), RING_ALIGN);
}

static void large_payloads_begin_on_a_line(void **state)
{
	struct ring_pair p;
	const uint8_t *data;
	enum ring_mark mark;

	pair_init(&p, 65536);
	assert_int_equal(pair_push(&p, 0, RING_BIG), RING_BIG);
	assert_int_equal(ring_peek(&p.rx, &data, &mark), RING_BIG);
	assert_int_equal((uintptr_t)data % RING_ALIGN, 0);
	pair_fini(&p);
}

static void a_full_ring_takes_nothing_until_the_tail_moves(void **state)
{
	struct ring_pair p;
	uint64_t sent = 0;
	ssize_t took;

	pair_init(&p, RING_MIN_SIZE);
	while ((took = pair_push(&p, sent, 100)) > 0)
		sent += (uint64_t)took;
	assert_int_equal(took, 0);
	assert_true(sent > RING_MIN_SIZE / 3);
	assert_int_equal(pair_pull(&p, 0, (uint32_t)sent), sent);
	assert_true(pair_push(&p, sent, 100) > 0);
	pair_fini(&p);
}

static void a_push_takes_what_the_room_says(void **state)
{
	struct ring_pair p;

	pair_init(&p, 16384);
	uint32_t room = ring_tx_room(&p.tx);
	assert_true(room > 16384 - 512);
	assert_int_equal(pair_push(&p, 0, 16384), room);
	assert_int_equal(pair_push(&p, room, 1), 0);
	assert_int_equal(pair_pull(&p, 0, 16384), room);
	pair_fini(&p);
}

/* A connection of requests and responses lives in the first pages for ever. */
static void an_empty_ring_starts_over(void **state)
{
	const uint32_t size = 1 << 20;
	struct ring_pair p;
	uint32_t highest = 0;

	pair_init(&p, size);
	for (uint64_t sent = 0; sent < 4 * size; sent += 200) {
		assert_int_equal(pair_push(&p, sent, 200), 200);
		highest = p.tx.head > highest ? p.tx.head : highest;
		assert_int_equal(pair_pull(&p, sent, 200), 200);
	}
	assert_true(highest < 2 * RING_REWIND_BYTES);
	pair_fini(&p);
}

/* A program may count on what the kernel would buffer for it, so starting over
 * must not leave it with the few pages in front of the old head. */
static void an_empty_ring_has_room_whatever_came_before(void **state)
{
	const uint32_t size = 1 << 20;

	for (uint32_t turns = 0; turns < 80; turns++) {
		struct ring_pair p;
		uint64_t sent = 0, from;
		ssize_t took;

		pair_init(&p, size);
		for (uint32_t i = 0; i < turns; i++) {
			sent += (uint64_t)pair_push(&p, sent, 100);
			pair_pull(&p, sent - 100, 100);
		}
		from = sent;
		while ((took = pair_push(&p, sent, 16384)) > 0)
			sent += (uint64_t)took;
		if (sent - from < size / 2)
			print_message("after %u turns\n", turns);
		assert_in_range(sent - from, size / 2, size);
		pair_fini(&p);
	}
}

static void a_window_is_all_that_is_used_until_it_grows(void **state)
{
	struct ring_pair p;
	uint64_t sent = 0, got = 0;

	pair_init(&p, 65536);
	ring_tx_window(&p.tx, RING_MIN_SIZE);
	for (int i = 0; i < 1000; i++) {
		ssize_t took = pair_push(&p, sent, 3000);

		assert_true(took > 0);
		sent += (uint64_t)took;
		assert_true(p.tx.head < RING_MIN_SIZE);
		got += pair_pull(&p, got, 3000);
	}
	ring_tx_grow(&p.tx, 65536);
	uint64_t from = sent;
	for (ssize_t took; (took = pair_push(&p, sent, 3000)) > 0;)
		sent += (uint64_t)took;
	/* What is behind the head of the moment stays unused until it wraps. */
	assert_true(sent - from > 65536 / 2);
	assert_int_equal(pair_pull(&p, got, UINT32_MAX / 2), sent - got);
	pair_fini(&p);
}

static void a_peek_shows_the_same_until_it_is_skipped(void **state)
{
	struct ring_pair p;
	const uint8_t *one, *two;
	enum ring_mark mark;

	pair_init(&p, RING_MIN_SIZE);
	pair_push(&p, 0, 10);
	assert_int_equal(ring_peek(&p.rx, &one, &mark), 10);
	assert_int_equal(ring_peek(&p.rx, &two, &mark), 10);
	assert_ptr_equal(one, two);
	ring_skip(&p.rx, 3);
	assert_int_equal(ring_peek(&p.rx, &two, &mark), 7);
	assert_ptr_equal(one + 3, two);
	pair_fini(&p);
}

static void marks_fit_into_a_full_ring(void **state)
{
	for (uint32_t step = 1; step < 3000; step += 7) {
		struct ring_pair p;
		const uint8_t *data;
		enum ring_mark mark;
		uint64_t sent = 0, from = 0;
		ssize_t took;

		pair_init(&p, RING_MIN_SIZE);
		/* Somewhere in the middle first, so that it is full around. */
		sent += (uint64_t)pair_push(&p, 0, step);
		from += pair_pull(&p, 0, step / 2);
		while ((took = pair_push(&p, sent, step)) > 0)
			sent += (uint64_t)took;
		assert_int_equal(ring_push_mark(&p.tx, RING_BACK), 0);
		assert_int_equal(ring_push_mark(&p.tx, RING_FIN), 0);
		assert_true(p.tx.head < p.tx.size);

		uint32_t rest = (uint32_t)(sent - from);
		assert_int_equal(ring_rx_bytes(&p.rx, 1u << 20, &mark), rest);
		assert_int_equal(mark, RING_BACK);
		assert_int_equal(pair_pull(&p, from, rest + 1), rest);
		assert_int_equal(ring_peek(&p.rx, &data, &mark), 0);
		assert_int_equal(mark, RING_BACK);
		pair_fini(&p);
	}
}

static void ahead_is_what_will_come(struct ring_pair *p, struct rng *r,
				    uint64_t got, uint64_t sent)
{
	uint32_t there = (uint32_t)(sent - got);
	uint32_t skip = rng_below(r, there + 1);
	uint32_t n = rng_below(r, 300);
	uint32_t expected = MIN(n, there - skip);
	enum ring_mark mark;
	uint8_t buf[300];

	assert_int_equal(ring_rx_bytes(&p->rx, UINT32_MAX / 2, &mark), there);
	assert_int_equal(mark, RING_NONE);
	assert_int_equal(ring_rx_ready(&p->rx), there > 0);
	assert_int_equal(ring_rx_copy_ahead(&p->rx, buf, n, skip), expected);
	assert_int_equal(stream_differs(buf, got + skip, expected), expected);
}

/* Mostly small, sometimes as much as the ring or more. */
static uint32_t random_len(struct rng *r, uint32_t size)
{
	switch (rng_below(r, 8)) {
	case 0:
		return 1 + rng_below(r, 2 * size);
	case 1:
		return RING_BIG - 2 + rng_below(r, 5);
	case 2:
		return 1 + rng_below(r, 4096);
	default:
		return 1 + rng_below(r, 200);
	}
}

static void random_run(uint32_t size, uint64_t seed)
{
	struct rng r = { seed };
	struct ring_pair p;
	uint64_t sent = 0, got = 0;

	pair_init(&p, size);
	if (seed % 2 && size >= 4 * RING_MIN_SIZE)
		ring_tx_window(&p.tx, size / 4);
	for (int i = 0; i < STEPS; i++) {
		if (i == STEPS / 4)
			ring_tx_grow(&p.tx, size);
		/* Phases in which one side is the faster. */
		bool fills = i / 200 % 3 ? rng_below(&r, 2) : rng_below(&r, 8);

		if (fills) {
			uint32_t n = random_len(&r, size);
			ssize_t took = pair_push(&p, sent, n);

			assert_true(took >= 0 && took <= n);
			if (!took)
				assert_int_equal(ring_tx_room(&p.tx), 0);
			sent += (uint64_t)took;
			assert_true(p.tx.head < size);
			assert_true(ring_tx_used(&p.tx) < size);
		} else {
			uint32_t n = random_len(&r, size);
			uint32_t took = pair_pull(&p, got, n);

			assert_int_equal(took, MIN((uint64_t)n, sent - got));
			got += took;
		}
		if (i % 16 == 0)
			ahead_is_what_will_come(&p, &r, got, sent);
	}
	got += pair_pull(&p, got, UINT32_MAX / 2);
	assert_int_equal(got, sent);
	assert_true(sent > 4 * size);
	assert_int_equal(p.tx.size, size);
	assert_int_equal(ring_tx_refresh(&p.tx), 0);
	pair_fini(&p);
}

/* A full ring is stretched, wherever it is full, and then takes nearly all. */
static void stretched_run(uint64_t seed)
{
	const uint32_t size = 1u << 18, window = size / 8;
	struct rng r = { seed };
	struct ring_pair p;
	uint64_t sent = 0, got = 0;
	ssize_t took;

	pair_init(&p, size);
	ring_tx_window(&p.tx, window);
	for (uint32_t i = rng_below(&r, 200); i; i--) {
		uint32_t n = random_len(&r, window);

		took = pair_push(&p, sent, n);
		assert_true(took >= 0);
		sent += (uint64_t)took;
		got += pair_pull(&p, got, random_len(&r, window));
	}
	do {
		took = pair_push(&p, sent, 500);
		assert_true(took >= 0);
		sent += (uint64_t)took;
		if (rng_below(&r, 40) == 0) /* not before it is full */
			got += pair_pull(&p, got, 100);
	} while (took);
	ring_tx_stretch(&p.tx, size);
	while ((took = pair_push(&p, sent, 500)) > 0) {
		sent += (uint64_t)took;
		if (seed % 2 && rng_below(&r, 8) == 0)
			got += pair_pull(&p, got, random_len(&r, 3000));
		if (sent > 20 * (uint64_t)size)
			break;
	}
	assert_true(took >= 0);
	if (seed % 2 == 0)
		assert_true(sent - got > size / 20 * 15);
	got += pair_pull(&p, got, UINT32_MAX / 2);
	assert_int_equal(got, sent);
	assert_int_equal(ring_tx_refresh(&p.tx), 0);
	pair_fini(&p);
}

static void a_full_ring_is_stretched(void **state)
{
	for (uint64_t seed = 1; seed <= 1000; seed++)
		stretched_run(seed);
}

static void any_schedule_is_a_stream(void **state)
{
	static const uint32_t sizes[] = { 4096, 8192, 16384, 65536 };
	const char *seed = getenv("OSF_SEED");

	for (uint64_t i = 0; i < 8; i++) {
		uint64_t s = seed ? strtoull(seed, NULL, 0) : i;

		print_message("size %u, OSF_SEED=%llu\n",
			      sizes[s % ARRAY_LEN(sizes)],
			      (unsigned long long)s);
		random_run(sizes[s % ARRAY_LEN(sizes)], s);
	}
}

/* A stream of records that hold bytes and records that refer to them, taken in any
 * pieces: the order holds, and each reference is given back once it was read. */
static void references_stand_in_the_stream(void **state)
{
	enum { BYTES = 40000 };
	static uint8_t mapped[BYTES];
	struct ring_pair p;
	uint32_t done = 0, sent = 0, seed = 1;
	struct ring_refs refs = { .done_pub = &done };
	uint64_t in = 0, out = 0;

	pair_init(&p, RING_MIN_SIZE);
	p.rx.refs = &refs;
	stream_fill(mapped, 0, BYTES);
	refs.region[9].base = mapped;
	refs.region[9].size = BYTES;
	while (out < BYTES) {
		seed = seed * 1103515245 + 12345;
		uint32_t n = 1 + (seed >> 8) % 300;
		struct ring_ref ref = { .region = 9, .off = in };

		n = (uint32_t)MIN((uint64_t)n, BYTES - in);
		if (n && seed & 1 << 30) {
			int r = ring_push_record(&p.tx, RING_REF, n, &ref,
						 sizeof(ref));
			assert_true(r >= 0);
			sent += (uint32_t)r;
			in += r ? n : 0;
		} else if (n) {
			in += (uint64_t)pair_push(&p, in, n);
		}
		out += pair_pull(&p, out, (seed >> 20) % 400);
		assert_true(done <= sent);
		if (out == in)
			assert_int_equal(done, sent);
	}
	assert_true(sent > 50);
	pair_fini(&p);
}

/* What is lent out is not given back, nor what comes behind it. */
static void references_behind_a_lent_record_stay(void **state)
{
	static uint8_t mapped[100];
	struct ring_pair p;
	uint32_t done = 0;
	struct ring_refs refs = { .done_pub = &done };
	struct ring_ref ref = { .region = 0 };
	const uint8_t *data;
	enum ring_mark mark;

	pair_init(&p, RING_MIN_SIZE);
	p.rx.refs = &refs;
	refs.region[0].base = mapped;
	refs.region[0].size = sizeof(mapped);
	for (int i = 0; i < 3; i++)
		assert_int_equal(
		    ring_push_record(&p.tx, RING_REF, 10, &ref, sizeof(ref)),
		    1);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(ring_peek(&p.rx, &data, &mark), 10);
		if (i == 1) { /* this one is lent */
			p.rx.hold = p.rx.off;
			refs.held = refs.n - 1;
			refs.is_held = true;
		}
		ring_skip(&p.rx, 10);
		ring_publish(&p.rx);
		assert_int_equal(done, 1);
	}
	p.rx.hold = RING_NONE_LENT;
	refs.is_held = false;
	assert_true(ring_rx_owes_refs(&p.rx));
	ring_publish(&p.rx);
	assert_int_equal(done, 3);
	assert_false(ring_rx_owes_refs(&p.rx));
	pair_fini(&p);
}

/* A producer that is held up between the two has told of a place, and of no byte: who
 * is told of bytes must find some. */
static void a_jump_alone_is_nothing_to_be_read(void **state)
{
	struct ring_pair p;
	uint64_t at = 0;
	unsigned n_jumps = 0;

	pair_init(&p, 65536);
	for (int i = 0; i < 1000; i++) {
		uint32_t len = 500, off, was = p.tx.head;
		uint8_t *to = ring_reserve(&p.tx, &len, &off);

		assert_non_null(to);
		n_jumps += off < was;
		assert_false(ring_rx_ready(&p.rx));
		stream_fill(to, at, len);
		ring_commit(&p.tx, off, len);
		assert_true(ring_rx_ready(&p.rx));
		assert_int_equal(pair_pull(&p, at, len), len);
		assert_false(ring_rx_ready(&p.rx));
		ring_publish(&p.rx);
		at += len;
	}
	assert_true(n_jumps > 10);
	pair_fini(&p);
}

/*
 * Two areas: what is lent in one stays while the stream goes on in the other.
 */

#define AREA RING_MIN_SIZE

struct areas {
	struct ring_pair p;
	uint32_t other_tail;
	unsigned at; /* where the consumer is */
};

static void areas_init(struct areas *a)
{
	pair_init(&a->p, 2 * AREA);
	ring_tx_window(&a->p.tx, AREA);
	ring_tx_areas(&a->p.tx, a->p.base + AREA, &a->other_tail, AREA);
	a->other_tail = 12345; /* of long ago */
	a->at = 0;
}

static uint32_t *tail_of(struct areas *a, unsigned area)
{
	return area ? &a->other_tail : a->p.tail;
}

/* The consumer at a MOVE mark. */
static void areas_follow(struct areas *a)
{
	const uint8_t *data;
	enum ring_mark mark = RING_NONE;

	assert_int_equal(ring_peek(&a->p.rx, &data, &mark), 0);
	assert_int_equal(mark, RING_MOVE);
	a->at = !a->at;
	ring_rx_moved(&a->p.rx, a->p.base + a->at * AREA, AREA,
		      tail_of(a, a->at));
}

static uint64_t fill(struct areas *a, uint64_t at)
{
	for (ssize_t n; (n = pair_push(&a->p, at, 300)) > 0;)
		at += (uint64_t)n;
	return at;
}

static void what_is_lent_stays_and_the_stream_goes_on(void **state)
{
	struct areas a;
	uint64_t in = 0, out = 0;
	uint8_t lent[AREA];

	areas_init(&a);
	for (int round = 0; round < 6; round++) {
		/* The consumer reads all, and gives nothing back. */
		a.p.rx.hold = a.p.rx.off;
		in = fill(&a, in);
		out += pair_pull(&a.p, out, UINT32_MAX / 2);
		assert_int_equal(in, out);
		assert_int_equal(pair_push(&a.p, in, 300), 0);
		memcpy(lent, a.p.base + a.at * AREA, AREA);

		ring_ask_to_move(&a.p.rx, tail_of(&a, !a.at));
		assert_int_equal(pair_push(&a.p, in, 300), 300);
		in += 300;
		assert_true(ring_rx_ready(&a.p.rx));
		areas_follow(&a);
		/* Much more than fits, and none of it where records are lent. */
		for (int i = 0; i < 100; i++) {
			in = fill(&a, in);
			out += pair_pull(&a.p, out, UINT32_MAX / 2);
			assert_int_equal(in, out);
		}
		/* But for the mark's line, and the zero behind it. */
		const uint8_t *was = a.p.base + !a.at * AREA;
		unsigned n_changed = 0;
		for (unsigned i = 0; i < AREA; i += RING_ALIGN)
			n_changed += memcmp(was + i, lent + i, RING_ALIGN) != 0;
		assert_true(n_changed <= 2);
	}
	pair_fini(&a.p);
}

/* The producer is asked before it is full: what it still puts there is read there. */
static void a_move_is_asked_for_at_any_time(void **state)
{
	struct areas a;
	uint64_t in = 0, out = 0;
	uint32_t seed = 3;

	areas_init(&a);
	for (int i = 0; i < 100000; i++) {
		seed = seed * 1103515245 + 12345;
		uint32_t n = 1 + (seed >> 8) % 500;
		enum ring_mark mark = RING_NONE;
		const uint8_t *data;

		switch (seed >> 28) {
		case 0:
			if (!a.p.rx.moves)
				ring_ask_to_move(&a.p.rx, tail_of(&a, !a.at));
			break;
		case 1:
			assert_int_equal(ring_tx_refresh(&a.p.tx), 0);
			break;
		case 2 ... 8:
			in += (uint64_t)pair_push(&a.p, in, n);
			break;
		default:
			out += pair_pull(&a.p, out, n);
			if (!ring_peek(&a.p.rx, &data, &mark) &&
			    mark == RING_MOVE)
				areas_follow(&a);
		}
	}
	assert_true(in > 1000000 && in - out < 2 * AREA);
	pair_fini(&a.p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_there_at_first),
		cmocka_unit_test(fifty_six_bytes_take_one_cache_line),
		cmocka_unit_test(large_payloads_begin_on_a_line),
		cmocka_unit_test(
		    a_full_ring_takes_nothing_until_the_tail_moves),
		cmocka_unit_test(a_push_takes_what_the_room_says),
		cmocka_unit_test(an_empty_ring_starts_over),
		cmocka_unit_test(an_empty_ring_has_room_whatever_came_before),
		cmocka_unit_test(a_window_is_all_that_is_used_until_it_grows),
		cmocka_unit_test(a_peek_shows_the_same_until_it_is_skipped),
		cmocka_unit_test(marks_fit_into_a_full_ring),
		cmocka_unit_test(a_jump_alone_is_nothing_to_be_read),
		cmocka_unit_test(any_schedule_is_a_stream),
		cmocka_unit_test(a_full_ring_is_stretched),
		cmocka_unit_test(references_stand_in_the_stream),
		cmocka_unit_test(references_behind_a_lent_record_stay),
		cmocka_unit_test(what_is_lent_stays_and_the_stream_goes_on),
		cmocka_unit_test(a_move_is_asked_for_at_any_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
