/* SPDX-License-Identifier: MIT */
/*
 * tests/unit/spin_pauses.c - a thread spins where that pays, and pauses where not
 *
 * base/spin.c alone, on a core and a clock of this file: clock_gettime(),
 * sched_yield() and getrusage() below take the place of libc's.  Each look and each
 * call takes virtual time.
 */
#include <sched.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <time.h>

#include "base/clock.h"
#include "base/spin.h"
#include "unit.h"

#define LOOK_NS 40
#define SLEEP_NS (60 * NS_PER_US)
#define SPIN_NS (50 * NS_PER_US) /* the default */
#define SLICE_NS (3 * NS_PER_MS)
#define AT_ONCE_NS 400
#define SHORT_NS (5 * NS_PER_US)
#define WOKEN_NS (35 * NS_PER_US)  /* a peer that had to be woken answers */
#define OTHER_NS (100 * NS_PER_US) /* too long to spin for, but not rare */
#define LONG_NS (10 * NS_PER_MS)

static struct {
	uint64_t now_ns, answer_ns; /* the answer comes then */
	uint64_t yield_ns;          /* what a yield takes */
	long n_lost;
	bool is_wanted; /* another thread gets the core when this one yields */
	bool comes_by_yield; /* the answer is what the other thread does */
	unsigned n_yields, n_asked;
} core;

int clock_gettime(clockid_t id, struct timespec *ts)
{
	core.now_ns += 25;
	*ts = ns_timespec(core.now_ns);
	return 0;
}

int sched_yield(void)
{
	core.n_yields++;
	core.now_ns += core.yield_ns;
	core.n_lost += core.is_wanted;
	if (core.comes_by_yield)
		core.answer_ns = core.now_ns;
	return 0;
}

int getrusage(__rusage_who_t who, struct rusage *used)
{
	assert_int_equal(who, RUSAGE_THREAD);
	core.n_asked++;
	*used = (struct rusage){ .ru_nivcsw = core.n_lost };
	return 0;
}

static struct spinner me;
static unsigned n_looks, n_slept;

static bool has_come(void *arg)
{
	n_looks++;
	core.now_ns += LOOK_NS;
	return core.now_ns >= core.answer_ns;
}

/* A wait for an answer that takes @ns; true if the thread has spun for it, or at least
 * tried to. */
static bool spins(uint64_t ns)
{
	uint64_t start = core.now_ns;

	core.answer_ns = start + ns;
	if (spinner_wait(&me, has_come, NULL, UINT64_MAX))
		return true;
	n_slept++;
	bool tried = core.now_ns - start >= 2 * NS_PER_US;
	if (core.now_ns < core.answer_ns)
		core.now_ns = core.answer_ns;
	core.now_ns += SLEEP_NS;
	return tried;
}

static unsigned spins_of(unsigned n_waits, uint64_t ns)
{
	unsigned n = 0;

	for (unsigned i = 0; i < n_waits; i++)
		n += spins(ns);
	return n;
}

/* The other thread on the core is a busy loop (@ns is a slice), or the peer. */
static void share_core(uint64_t ns, bool is_peer)
{
	core.is_wanted = true;
	core.comes_by_yield = is_peer;
	core.yield_ns = ns;
}

static void leave_core(void)
{
	core.is_wanted = core.comes_by_yield = false;
	core.yield_ns = 300;
}

static void short_waits_are_spun_for(void **state)
{
	assert_int_equal(spins_of(1000, SHORT_NS), 1000);
}

static void long_waits_are_slept_through(void **state)
{
	assert_in_range(spins_of(1000, LONG_NS), 1, 4);
}

/* Too long to spin for, but not too long for two peers that both sleep. */
static void waits_that_may_become_short_are_probed(void **state)
{
	assert_in_range(spins_of(1000, 200 * NS_PER_US), 20, 100);
}

static void among_waits_over_at_once_others_are_not_rare(void **state)
{
	spins_of(1000, LONG_NS);
	for (int i = 0; i < 200; i++) {
		spins_of(4000, AT_ONCE_NS);
		assert_true(spins(SHORT_NS) || i < 128);
	}
}

/* The peer sleeps by then, and to spin until it has been woken costs more than to sleep. */
static void a_question_now_and_then_is_slept_for(void **state)
{
	unsigned n = 0;

	spins_of(100, SHORT_NS);
	for (int i = 0; i < 1000; i++) {
		core.now_ns += LONG_NS;
		n += spins(WOKEN_NS);
	}
	assert_in_range(n, 1, 4);
}

static void an_answer_of_a_peer_that_is_awake_is_spun_for(void **state)
{
	spins_of(100, SHORT_NS);
	for (int i = 0; i < 1000; i++) {
		core.now_ns += LONG_NS;
		assert_true(spins(SHORT_NS));
	}
}

static void one_long_wait_changes_nothing(void **state)
{
	spins_of(100, SHORT_NS);
	for (int i = 0; i < 100; i++) {
		spins(LONG_NS);
		assert_int_equal(spins_of(3, SHORT_NS), 3);
	}
}

static void after_long_waits_short_ones_are_spun_for_again(void **state)
{
	spins_of(1000, LONG_NS);
	spins_of(128, SHORT_NS);
	assert_int_equal(spins_of(1000, SHORT_NS), 1000);
}

static void a_busy_loop_gets_few_slices(void **state)
{
	share_core(SLICE_NS, false);
	uint64_t start = core.now_ns;
	while (core.now_ns - start < 10 * NS_PER_S)
		spins(20 * NS_PER_US);
	assert_in_range(core.n_yields, 2, 24); /* 72 ms of 10 s */
}

/* What is waited for comes only while the thread does not have the core. */
static void peers_on_one_core_yield_and_do_not_sleep(void **state)
{
	share_core(20 * NS_PER_US, true);
	spins_of(100, LONG_NS);
	n_slept = 0;
	spins_of(10000, LONG_NS);
	assert_int_equal(n_slept, 0);
}

static void a_peer_that_works_for_less_than_others_is_let_run(void **state)
{
	share_core(5 * NS_PER_US, true);
	spins_of(100, 90 * NS_PER_US);
	n_slept = 0;
	spins_of(10000, 90 * NS_PER_US);
	assert_int_equal(n_slept, 0);
}

/* They are the work of nobody, even if news come from another core meanwhile. */
static void yields_pause_where_nobody_else_is_on_the_core(void **state)
{
	spins_of(1000, OTHER_NS);
	me.pause_end = UINT64_MAX;
	core.n_yields = 0;
	spins_of(1000, OTHER_NS);
	assert_in_range(core.n_yields, 20, 120);
	core.comes_by_yield = true;
	core.n_yields = 0;
	spins_of(1000, OTHER_NS);
	assert_in_range(core.n_yields, 20, 120);
}

static void a_slice_now_and_then_stops_no_yields(void **state)
{
	spins_of(1000, OTHER_NS);
	me.pause_end = UINT64_MAX;
	share_core(20 * NS_PER_US, true);
	spins_of(100, OTHER_NS);
	for (int i = 0; i < 100; i++) {
		core.yield_ns = 20 * NS_PER_US;
		n_slept = 0;
		spins_of(20000, OTHER_NS);
		assert_int_equal(n_slept, 0);
		core.yield_ns = SLICE_NS;
		spins(OTHER_NS);
	}
}

/* Whenever their yields took long: so all find out together that all of them yield. */
static void peers_begin_again_at_the_same_time(void **state)
{
	uint64_t end = 0;

	for (int i = 0; i < 20; i++) {
		me = (struct spinner){ .pause_end = UINT64_MAX };
		core.now_ns = (1024 + (uint64_t)i) * NS_PER_MS;
		spins(SHORT_NS); /* the first wait of a thread is rare */
		share_core(SLICE_NS, false);
		spins_of(2, 100 * NS_PER_US);
		leave_core();
		assert_true(me.yield_end > core.now_ns);
		assert_true(!end || me.yield_end == end);
		end = me.yield_end;
	}
}

static void a_core_that_is_free_again_is_found_within_a_second(void **state)
{
	share_core(SLICE_NS, false);
	for (int i = 0; i < 100000; i++)
		spins(20 * NS_PER_US);
	leave_core();
	uint64_t start = core.now_ns;
	while (!spins(SHORT_NS))
		;
	assert_in_range(core.now_ns - start, 0, NS_PER_S + NS_PER_MS);
	assert_int_equal(spins_of(1000, SHORT_NS), 1000);
}

/* One slice now and then is not worth a long pause. */
static void a_core_lost_once_is_missed_for_as_long(void **state)
{
	for (int i = 0; i < 20; i++) {
		spins_of(20000, SHORT_NS);
		share_core(SLICE_NS, false);
		spins(SHORT_NS);
		leave_core();
		uint64_t start = core.now_ns;
		while (!spins(SHORT_NS))
			;
		assert_in_range(core.now_ns - start, SLICE_NS,
				SLICE_NS + NS_PER_MS);
	}
}

static void an_interrupt_changes_nothing(void **state)
{
	spins_of(100, SHORT_NS);
	core.yield_ns = 20 * NS_PER_US;
	for (int i = 0; i < 100; i++)
		assert_true(spins(SHORT_NS));
}

static void waits_that_end_at_once_ask_nobody(void **state)
{
	spins_of(1, SHORT_NS);
	core.n_yields = core.n_asked = 0;
	spins_of(1000, AT_ONCE_NS);
	assert_int_equal(core.n_yields, 0);
	assert_int_equal(core.n_asked, 0);
}

/* Both have paused, so each must wake the other first: one that probes spins for longer
 * than that takes, so that both spin when the other one probes as well. */
static void a_probe_waits_for_a_peer_that_sleeps(void **state)
{
	spins_of(1000, LONG_NS);
	unsigned n_spins = 0, n_found = 0;
	for (int i = 0; i < 256; i++) {
		uint64_t start = core.now_ns;
		n_spins += spins(SPIN_NS + SLEEP_NS);
		n_found += core.now_ns - start < SPIN_NS + SLEEP_NS + SHORT_NS;
	}
	assert_in_range(n_spins, 4, 64);
	assert_int_equal(n_found, n_spins);
}

/* What does not come at once is not looked for many times before each sleep. */
static void a_thread_that_pauses_looks_once(void **state)
{
	spins_of(100, LONG_NS);
	me.pause_end = UINT64_MAX;
	n_looks = 0;
	spins_of(160, LONG_NS);
	assert_in_range(n_looks, 160, 160 * 3);
}

/* But it notices when answers begin to come at once. */
static void a_thread_that_pauses_notices_quick_answers(void **state)
{
	spins_of(1000, LONG_NS);
	me.pause_end = UINT64_MAX;
	n_looks = 0;
	assert_in_range(spins_of(1000, AT_ONCE_NS), 900, 1000);
}

static int begin(void **state)
{
	me = (struct spinner){ 0 };
	core.now_ns += NS_PER_S;
	core.n_lost = 0;
	core.n_yields = core.n_asked = 0;
	leave_core();
	return 0;
}

#define A_TEST(f) cmocka_unit_test_setup(f, begin)

int main(void)
{
	const struct CMUnitTest tests[] = {
		A_TEST(short_waits_are_spun_for),
		A_TEST(a_thread_that_pauses_looks_once),
		A_TEST(a_thread_that_pauses_notices_quick_answers),
		A_TEST(long_waits_are_slept_through),
		A_TEST(waits_that_may_become_short_are_probed),
		A_TEST(among_waits_over_at_once_others_are_not_rare),
		A_TEST(a_question_now_and_then_is_slept_for),
		A_TEST(an_answer_of_a_peer_that_is_awake_is_spun_for),
		A_TEST(one_long_wait_changes_nothing),
		A_TEST(after_long_waits_short_ones_are_spun_for_again),
		A_TEST(a_busy_loop_gets_few_slices),
		A_TEST(peers_on_one_core_yield_and_do_not_sleep),
		A_TEST(a_peer_that_works_for_less_than_others_is_let_run),
		A_TEST(yields_pause_where_nobody_else_is_on_the_core),
		A_TEST(a_slice_now_and_then_stops_no_yields),
		A_TEST(peers_begin_again_at_the_same_time),
		A_TEST(a_core_that_is_free_again_is_found_within_a_second),
		A_TEST(a_core_lost_once_is_missed_for_as_long),
		A_TEST(an_interrupt_changes_nothing),
		A_TEST(waits_that_end_at_once_ask_nobody),
		A_TEST(a_probe_waits_for_a_peer_that_sleeps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
