/* SPDX-License-Identifier: MIT */
/*
 * tests/unit/ring_race.c - one thread produces, another consumes, nobody locks
 *
 * This is what two processes do, and in a build with the thread sanitizer it shows
 * whether R1 and R2 of proto/shm/ring.h order all that they should.
 *
 * Another thread of the consumer's process may ask at any time whether the ring has
 * something, and must not hear that it has nothing while it has.
 */
#include <pthread.h>
#include <sched.h>

#include "ring_pair.h"

#define SIZE 16384u
#define BYTES (32u << 20)

static void *produce(void *arg)
{
	struct ring_pair *p = arg;
	struct rng r = { 2 };
	static uint8_t buf[8192];
	uint64_t sent = 0;

	ring_tx_window(&p->tx, SIZE / 4);
	while (sent < BYTES) {
		if (sent > BYTES / 2)
			ring_tx_grow(&p->tx, SIZE);
		uint32_t n = 1 + rng_below(&r, rng_below(&r, 4) ? 100 : 8192);

		n = MIN(n, (uint32_t)(BYTES - sent));
		stream_fill(buf, sent, n);
		ssize_t took = ring_push(&p->tx, buf, n);
		if (took < 0)
			return (char *)"the consumer's tail looked impossible";
		if (!took)
			sched_yield();
		sent += (uint64_t)took;
	}
	ring_push_mark(&p->tx, RING_FIN);
	return NULL;
}

static void what_one_thread_sends_the_other_receives(void **state)
{
	struct rng r = { 3 };
	struct ring_pair p;
	pthread_t thread;
	uint64_t got = 0;
	enum ring_mark mark = RING_NONE;
	void *failed;

	pair_init(&p, SIZE);
	assert_int_equal(pthread_create(&thread, NULL, produce, &p), 0);
	while (mark != RING_FIN) {
		const uint8_t *data;
		int32_t n = ring_peek(&p.rx, &data, &mark);

		assert_true(n >= 0);
		if (!n) {
			ring_publish(&p.rx);
			sched_yield();
			continue;
		}
		mark = RING_NONE;
		uint32_t take = 1 + rng_below(&r, (uint32_t)n);
		assert_int_equal(stream_differs(data, got, take), take);
		ring_skip(&p.rx, take);
		got += take;
		if (rng_below(&r, 2))
			ring_publish(&p.rx);
	}
	pthread_join(thread, &failed);
	assert_null(failed);
	assert_int_equal(got, BYTES);
	pair_fini(&p);
}

/*
 * The consumer goes from one area to the other while another thread looks.
 */

#define AREA RING_MIN_SIZE
#define MOVES 400000
#define MESSAGE 56u /* one line, so each line begins with a header */

struct watched {
	struct ring_pair p;
	uint32_t other_tail;
	uint32_t move; /* before the area that is left is cleared */
	bool is_over;
	unsigned n_wrong;
};

static void *watch(void *arg)
{
	struct watched *w = arg;

	while (!load_acq(&w->is_over)) {
		uint32_t move = load_seq(&w->move);

		if (!ring_rx_ready(&w->p.rx) && load_seq(&w->move) == move)
			w->n_wrong++;
	}
	return NULL;
}

static void push_one(struct watched *w)
{
	static const uint8_t bytes[MESSAGE];

	assert_int_equal(ring_push(&w->p.tx, bytes, MESSAGE), MESSAGE);
}

/* Take @n messages.  There is always one more. */
static void take(struct watched *w, unsigned n)
{
	const uint8_t *data;
	enum ring_mark mark;

	for (unsigned i = 0; i < n; i++) {
		assert_int_equal(ring_peek(&w->p.rx, &data, &mark), MESSAGE);
		ring_skip(&w->p.rx, MESSAGE);
	}
}

/* The consumer leaves one area for the other, in which only the next message lies. */
static void move_to(struct watched *w, unsigned area)
{
	uint8_t *base = w->p.base + area * AREA;
	uint32_t *tail = area ? &w->other_tail : w->p.tail;
	const uint8_t *data;
	enum ring_mark mark;

	fetch_add(&w->move, 1u);
	for (uint32_t off = 0; off < AREA; off += RING_ALIGN)
		store_rlx(ring_hdr_at(base, off), UINT64_C(0));
	ring_ask_to_move(&w->p.rx, tail);
	assert_int_equal(ring_tx_refresh(&w->p.tx), 0);
	push_one(w);
	take(w, 1);
	assert_int_equal(ring_peek(&w->p.rx, &data, &mark), 0);
	assert_int_equal(mark, RING_MOVE);
	ring_rx_moved(&w->p.rx, base, AREA, tail);
}

static void who_looks_without_the_lock_finds_what_is_there(void **state)
{
	struct watched w = { 0 };
	pthread_t thread;

	pair_init(&w.p, 2 * AREA);
	ring_tx_window(&w.p.tx, AREA);
	ring_tx_areas(&w.p.tx, w.p.base + AREA, &w.other_tail, AREA);
	push_one(&w);
	assert_int_equal(pthread_create(&thread, NULL, watch, &w), 0);
	for (unsigned i = 1; i <= MOVES; i++) {
		for (unsigned n = 0; n < i % 8; n++) {
			push_one(&w);
			take(&w, 1);
		}
		move_to(&w, i % 2);
	}
	store_rel(&w.is_over, true);
	pthread_join(thread, NULL);
	assert_int_equal(w.n_wrong, 0);
	pair_fini(&w.p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_one_thread_sends_the_other_receives),
		cmocka_unit_test(
		    who_looks_without_the_lock_finds_what_is_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
