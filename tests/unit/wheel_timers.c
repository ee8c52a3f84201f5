/* SPDX-License-Identifier: MIT */
/* tests/unit/wheel_timers.c - timers fire once, never early, a tick late at most */
#include "base/wheel.h"
#include "unit.h"

#define N 300
#define TICK (UINT64_C(1) << WHEEL_TICK_SHIFT)

/* Instants from a few ticks to beyond the wheel's reach. */
static uint64_t random_at(struct rng *r, uint64_t now)
{
	return now + (rng_next(r) >> (20 + rng_below(r, 30)));
}

static void run(uint64_t seed)
{
	static struct timer timers[N];
	static struct wheel w;
	struct rng r = { seed };
	uint64_t now = rng_next(&r) >> 20;
	uint32_t left = N;

	wheel_init(&w, now);
	for (int i = 0; i < N; i++) {
		timer_init(&timers[i]);
		wheel_arm(&w, &timers[i], random_at(&r, now));
		if (!rng_below(&r, 4))
			wheel_arm(&w, &timers[i], random_at(&r, now));
	}
	for (int i = 0; i < N; i += 10) {
		wheel_disarm(&w, &timers[i]);
		left--;
	}
	while (left) {
		struct timer *t;
		uint64_t at[N], next = wheel_next(&w);

		assert_true(next != WHEEL_NEVER);
		now = next > now ? next : now;
		for (int i = 0; i < N; i++)
			at[i] = timers[i].at_ns;
		while ((t = wheel_expire(&w, now))) {
			uint64_t was = at[t - timers];

			assert_true(was <= now);
			assert_true(now - was < 2 * TICK);
			assert_false(timer_is_armed(t));
			left--;
		}
		for (int i = 0; i < N; i++)
			if (timer_is_armed(&timers[i]))
				assert_true(timers[i].at_ns + TICK > now);
	}
	assert_int_equal(w.n_armed, 0);
	assert_true(wheel_next(&w) == WHEEL_NEVER);
}

static void timers_fire_when_they_should(void **state)
{
	for (uint64_t seed = 1; seed <= 200; seed++)
		run(seed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(timers_fire_when_they_should),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
