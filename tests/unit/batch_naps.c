/* SPDX-License-Identifier: MIT */
/*
 * tests/unit/batch_naps.c - a wait naps where that saves wake-ups, and nowhere else
 *
 * file/batch.c alone: connections are the words that it keeps for them.
 */
#include "base/compiler.h"
#include "file/batch.h"
#include "unit.h"

static struct batch b;
static uint32_t conns[BATCH_MIN];
static uint32_t n_met;

static int begin(void **state)
{
	b = (struct batch){ 0 };
	for (unsigned i = 0; i < ARRAY_LEN(conns); i++)
		conns[i] = 0;
	return 0;
}

/* News of the first @n connections, then the thread is about to sleep. */
static bool naps_after(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		batch_add(&b, &conns[i]);
	return batch_naps(&b, n_met);
}

static void many_connections_are_worth_a_nap(void **state)
{
	assert_false(naps_after(0));
	assert_false(naps_after(BATCH_MIN - 1));
	assert_true(naps_after(BATCH_MIN));
	assert_true(naps_after(BATCH_MIN));
}

/* The peer has answered all that we had asked, and waits for more. */
static void news_twice_of_one_connection_forbids_it(void **state)
{
	naps_after(0);
	batch_add(&b, &conns[0]);
	assert_false(naps_after(BATCH_MIN));
	assert_true(naps_after(BATCH_MIN)); /* once each again */
}

static void a_peer_that_sleeps_forbids_it(void **state)
{
	naps_after(0);
	n_met++;
	assert_false(naps_after(BATCH_MIN));
	assert_true(naps_after(BATCH_MIN));
}

/* So many sleeps that are none. */
static unsigned pause_of(void)
{
	unsigned n = 0;

	while (!naps_after(BATCH_MIN))
		n++;
	return n;
}

static void a_nap_in_vain_is_followed_by_more_and_more_sleeps(void **state)
{
	unsigned want = BATCH_PAUSE;

	naps_after(0);
	assert_true(naps_after(BATCH_MIN));
	for (int i = 0; i < 10; i++) {
		assert_false(naps_after(0)); /* the nap brought nothing */
		assert_int_equal(pause_of(), want - 1);
		want = MIN(2 * want, BATCH_PAUSE_MAX);
	}
	assert_true(naps_after(BATCH_MIN)); /* this one was worth it */
	assert_false(naps_after(1));
	assert_int_equal(pause_of(), BATCH_PAUSE - 1);
}

/* As many as it takes, from @at on, each of @ns. */
static void take_naps(struct naps *p, unsigned n, uint64_t at, uint64_t ns)
{
	for (unsigned i = 0; i < n; i++)
		naps_took(p, at, at + ns);
}

static void naps_that_end_late_are_given_up_for_long(void **state)
{
	struct naps p = { 0 };
	uint64_t at = NAPS_OFF_NS, late = NAP_LATE_NS + 1;

	for (int i = 0; i < 10; i++) { /* one in time: no row */
		take_naps(&p, NAPS_LATE_MAX - 1, at, late);
		take_naps(&p, 1, at, NAP_LATE_NS);
	}
	assert_false(naps_are_off(&p, at));
	take_naps(&p, NAPS_LATE_MAX, at, late);
	assert_true(naps_are_off(&p, at + late));
	assert_true(naps_are_off(&p, at + late + NAPS_OFF_NS - 1));
	assert_false(naps_are_off(&p, at + late + NAPS_OFF_NS));
	assert_int_equal(p.off_until, 0);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup(name, begin)
	const struct CMUnitTest tests[] = {
		T(many_connections_are_worth_a_nap),
		T(news_twice_of_one_connection_forbids_it),
		T(a_peer_that_sleeps_forbids_it),
		T(a_nap_in_vain_is_followed_by_more_and_more_sleeps),
		T(naps_that_end_late_are_given_up_for_long),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
