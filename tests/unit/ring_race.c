/* SPDX-License-Identifier: MIT */
/*
 * tests/unit/ring_race.c - one thread produces, another consumes, nobody locks
 *
 * This is what two processes do, and in a build with the thread sanitizer it shows
 * whether R1 and R2 of shm/ring.h order all that they should.
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_one_thread_sends_the_other_receives),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
