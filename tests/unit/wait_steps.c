/* SPDX-License-Identifier: MIT */
/*
 * tests/unit/wait_steps.c - the one step of all loops that wait
 *
 * sock/step.c alone.  What it calls writes a letter each: b begin, l look, s sleep, e end.
 */
#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include "base/clock.h"
#include "sock/wait.h"
#include "unit.h"

static char did[16];
static size_t n_did;
static bool has_news;     /* look() finds it */
static int sleep_answers; /* what the sleep returns */
static int
    handlers_asleep; /* that run meanwhile: 1 with SA_RESTART, 2 without */
static const struct timespec *slept_for;
static struct timespec left_then;

static void note(char c)
{
	did[n_did++] = c;
	did[n_did] = 0;
}

static void begin(struct wait *w) { note('b'); }
static void end(struct wait *w) { note('e'); }

static bool look(struct wait *w)
{
	note('l');
	return has_news;
}

static int sleep_now(struct wait *w, const struct timespec *left)
{
	note('s');
	slept_for = left ? &left_then : NULL;
	if (left)
		left_then = *left;
	lock_held.n_handled += handlers_asleep != 0;
	lock_held.n_ends += handlers_asleep == 2;
	return sleep_answers;
}

static uint64_t due = UINT64_MAX;
static uint64_t next_ns(struct wait *w) { return due; }

static const struct wait_ops ops = { .begin = begin,
				     .look = look,
				     .next_ns = next_ns,
				     .sleep = sleep_now,
				     .end = end };

static struct wait fresh(bool restarts)
{
	n_did = 0;
	did[0] = 0;
	return (struct wait){ .ops = &ops,
			      .deadline_ns = UINT64_MAX,
			      .seen = handlers_seen(),
			      .restarts = restarts };
}

static int reset(void **state)
{
	has_news = false;
	sleep_answers = handlers_asleep = 0;
	due = UINT64_MAX;
	return 0;
}

static void it_looks_once_more_before_it_sleeps(void **state)
{
	struct wait w = fresh(false);

	assert_int_equal(wait_step(&w), 0);
	assert_string_equal(did, "blse");
	assert_true(w.has_slept);
	assert_null(slept_for);
	w = fresh(false);
	has_news = true;
	assert_int_equal(wait_step(&w), 0);
	assert_string_equal(did, "ble");
}

static void a_handler_before_the_sleep_ends_it(void **state)
{
	struct wait w = fresh(false);

	lock_held.n_handled++;
	assert_int_equal(wait_step(&w), -EINTR);
	assert_string_equal(did, "ble");
	w = fresh(true);
	lock_held.n_handled++; /* with SA_RESTART */
	assert_int_equal(wait_step(&w), 0);
	assert_string_equal(did, "blse");
	has_news = true; /* what has come counts more */
	w = fresh(false);
	lock_held.n_handled++;
	assert_int_equal(wait_step(&w), 0);
}

static void a_handler_during_the_sleep_may_restart_it(void **state)
{
	struct wait w = fresh(true);

	sleep_answers = -EINTR;
	handlers_asleep = 1;
	assert_int_equal(wait_step(&w), 0);
	w = fresh(false);
	assert_int_equal(wait_step(&w), -EINTR);
	w = fresh(true);
	handlers_asleep = 2;
	assert_int_equal(wait_step(&w), -EINTR);
	w = fresh(true);
	handlers_asleep = 0; /* a signal that is not handled */
	assert_int_equal(wait_step(&w), -EINTR);
}

static void the_deadline_and_the_protocols_clock_end_a_sleep(void **state)
{
	struct wait w = fresh(false);

	w.deadline_ns = now_ns() + 3600 * NS_PER_S;
	assert_int_equal(wait_step(&w), 0);
	assert_ptr_equal(slept_for, &left_then);
	assert_in_range(left_then.tv_sec, 3000, 3600);
	due = 1; /* long ago */
	assert_int_equal(wait_step(&w), 0);
	assert_int_equal(left_then.tv_sec + left_then.tv_nsec, 0);
	w = fresh(false);
	w.deadline_ns = now_ns();
	assert_int_equal(wait_step(&w), -EAGAIN);
	assert_string_equal(did, "");
}

static bool at_once(void *arg) { return arg; }

static void who_spins_with_success_does_not_sleep(void **state)
{
	static const struct wait_ops spins = { .has_come = at_once,
					       .begin = begin,
					       .look = look,
					       .sleep = sleep_now,
					       .end = end };
	struct wait w = fresh(false);

	spin_configure();
	w.ops = &spins;
	assert_int_equal(wait_step(&w), 0);
	assert_string_equal(did, "");
	assert_false(w.has_slept);
}

static int sleep_until_canceled(struct wait *w, const struct timespec *left)
{
	note('s');
	while (pause())
		;
	return 0;
}

static void *waits(void *arg)
{
	static const struct wait_ops sleeps = { .begin = begin,
						.look = look,
						.sleep = sleep_until_canceled,
						.end = end };
	struct wait w = fresh(false);

	w.ops = &sleeps;
	wait_step(&w);
	return NULL;
}

static void a_thread_that_is_canceled_ends_its_sleep(void **state)
{
	pthread_t t;
	void *result;

	assert_int_equal(pthread_create(&t, NULL, waits, NULL), 0);
	assert_int_equal(pthread_cancel(t), 0);
	assert_int_equal(pthread_join(t, &result), 0);
	assert_ptr_equal(result, PTHREAD_CANCELED);
	assert_string_equal(did, "blse");
}

int main(void)
{
#define T(name) cmocka_unit_test_setup(name, reset)
	const struct CMUnitTest tests[] = {
		T(it_looks_once_more_before_it_sleeps),
		T(a_handler_before_the_sleep_ends_it),
		T(a_handler_during_the_sleep_may_restart_it),
		T(the_deadline_and_the_protocols_clock_end_a_sleep),
		T(who_spins_with_success_does_not_sleep),
		T(a_thread_that_is_canceled_ends_its_sleep),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
