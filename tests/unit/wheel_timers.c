/* SPDX-License-Identifier: MIT */
/* tests/unit/wheel_timers.c - timers fire once, never early, a tick late at most,
 * however often they were set before */
#include "base/wheel.h"
#include "unit.h"

#define N 300
#define TICK (UINT64_C(1) << WHEEL_TICK_SHIFT)

/* Instants from a few ticks to beyond the wheel's reach. */
static uint64_t random_at(struct rng *r, uint64_t now)
{
	return now + (rng_next(r) >> (20 + rng_below(r, 30)));
}

static void set_at_random(struct wheel *w, struct timer *t, struct rng *r,
			  uint64_t now)
{
	uint64_t due = rng_below(r, 8) ? random_at(r, now) : WHEEL_NEVER;

	if (rng_below(r, 2))
		wheel_set(w, t, due);
	else
		wheel_set_by(w, t, due, random_at(r, now));
}

static uint32_t n_due(const struct timer *timers)
{
	uint32_t n = 0;

	for (int i = 0; i < N; i++)
		n += timers[i].due_ns != WHEEL_NEVER;
	return n;
}

static void run(uint64_t seed)
{
	static struct timer timers[N];
	static struct wheel w;
	struct rng r = { seed };
	uint64_t now = rng_next(&r) >> 20;
	uint32_t left;

	wheel_init(&w, now);
	for (int i = 0; i < N; i++) {
		timer_init(&timers[i]);
		set_at_random(&w, &timers[i], &r, now);
		if (!rng_below(&r, 4))
			set_at_random(&w, &timers[i], &r, now);
	}
	for (int i = 0; i < N; i += 10) {
		wheel_disarm(&w, &timers[i]);
		assert_false(timer_is_lying(&timers[i]));
	}
	left = n_due(timers);
	while (left) {
		struct timer *t;
		uint64_t at[N], next = wheel_next(&w);

		assert_true(next != WHEEL_NEVER);
		now = next > now ? next : now;
		for (int i = 0; i < N; i++)
			at[i] = timers[i].due_ns;
		while ((t = wheel_expire(&w, now))) {
			uint64_t was = at[t - timers];

			assert_true(was <= now);
			assert_true(now - was < 2 * TICK);
			assert_false(timer_is_lying(t));
			assert_true(t->due_ns == WHEEL_NEVER);
		}
		for (int i = 0; i < N; i++)
			assert_true(timers[i].due_ns == WHEEL_NEVER ||
				    timers[i].due_ns + TICK > now);
		/* Some are put off, others are to fire earlier, or not at all. */
		struct timer *any = &timers[rng_below(&r, N)];
		if (any->due_ns != WHEEL_NEVER)
			set_at_random(&w, any, &r, now);
		left = n_due(timers);
	}
	/* Those that were put off for ever go when their slots come. */
	while (wheel_next(&w) != WHEEL_NEVER)
		assert_null(wheel_expire(&w, now = wheel_next(&w)));
	assert_int_equal(w.n_lying, 0);
	assert_true(wheel_next(&w) == WHEEL_NEVER);
}

static void timers_fire_when_they_should(void **state)
{
	for (uint64_t seed = 1; seed <= 200; seed++)
		run(seed);
}

/* Where it lies first is where it is looked at in vain, and then it is due. */
static void what_is_set_by_an_instant_is_looked_at_once(void **state)
{
	static struct wheel w;
	struct rng r = { 1 };
	struct timer t;

	for (int i = 0; i < 10000; i++) {
		uint64_t now = rng_next(&r) >> 20;
		uint64_t by = random_at(&r, now), due = random_at(&r, by);
		unsigned n_places = 1;

		wheel_init(&w, now);
		timer_init(&t);
		wheel_set_by(&w, &t, due, by);
		for (uint64_t at = by;; at = t.at_ns) {
			if (wheel_expire(&w, wheel_next(&w)))
				break;
			n_places += t.at_ns / TICK != at / TICK;
		}
		assert_true(n_places <= 2);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(timers_fire_when_they_should),
		cmocka_unit_test(what_is_set_by_an_instant_is_looked_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
