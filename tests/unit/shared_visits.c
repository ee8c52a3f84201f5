/* SPDX-License-Identifier: MIT */
/*
 * tests/unit/shared_visits.c - the table of a socket that several processes hold
 *
 * A protocol of one operation that calls another, by the socket's table, as protocols do.
 */
#include <errno.h>
#include <string.h>

#include "sock/anchor.h"
#include "sock/shared.h"
#include "sock/wait.h"
#include "unit.h"

static struct sock sk;
static unsigned n_visits, n_drains;

static int proto_inq(struct sock *of, int fd)
{
	n_visits++;
	sock_ops(of)->drain(of, fd);
	return 7;
}

static void proto_drain(struct sock *of, int fd) { n_drains++; }
static bool proto_is_rung(const struct sock *of) { return true; }

static unsigned n_fallbacks;
static void proto_fallback(struct sock *of, int fd, enum osf_reason why)
{
	n_fallbacks++;
}

static const struct sock_ops proto = {
	.name = "proto",
	.is_ours = true,
	.inq = proto_inq,
	.drain = proto_drain,
	.is_rung = proto_is_rung,
	.fallback = proto_fallback,
};

const struct sock_ops *const sock_tables[SOCK_TABLES] = {
	[SOCK_SHM] = &proto,
	[SOCK_MODES + SOCK_SHM] = &shared_ops,
};

/* Of the arena, which this test has none of. */
void sock_set_mode(struct sock *of, enum sock_mode mode)
{
	of->state = SOCK_STATE(mode) | (of->state & SOCK_SHARED);
}

static unsigned n_naps;

int nap(const struct nap *n)
{
	n_naps++;
	return -EAGAIN; /* its time is over */
}

static int shared_by_two(void **state)
{
	n_visits = n_drains = 0;
	memset(&sk, 0, sizeof(sk));
	sk.state = SOCK_STATE(SOCK_SHM);
	shared_init(&sk);
	assert_int_equal(sock_share(&sk), 0);
	assert_ptr_equal(sock_ops(&sk), &shared_ops);
	return 0;
}

static int freed(void **state)
{
	shared_unmap(&sk);
	return 0;
}

static void an_operation_calls_another(void **state)
{
	assert_int_equal(sock_ops(&sk)->inq(&sk, -1), 7);
	assert_int_equal(n_visits, 1);
	assert_int_equal(n_drains, 1);
	assert_int_equal(load_rlx(&sk.page->lock.word), 0);
}

static void who_is_killed_asleep_keeps_nobody(void **state)
{
	fetch_add(&sk.page->n_sleepers, 1);
	fetch_sub(&sk.page->n_procs, 1);
	sock_unshare(&sk);
	assert_false(sock_is_shared(&sk));
	assert_int_equal(sk.page->n_sleepers, 0);
}

/* A handler has forked, in the middle of a sleep. */
static void a_sleep_ends_in_the_process_where_it_began(void **state)
{
	assert_false(anchor_sleep_begin(&sk, -1));
	sock_inherit(&sk, true);
	anchor_sleep_end(&sk);
	assert_int_equal(sk.page->n_sleepers, 1);
	sk.n_sleepers = 1; /* the parent's */
	anchor_sleep_end(&sk);
	assert_int_equal(sk.page->n_sleepers, 0);
}

/* The one that gives it to the kernel never ends. */
static void who_waits_for_the_others_hears_of_signals(void **state)
{
	struct call_wait w = { .dir = DIR_RX, .deadline_ns = UINT64_MAX };

	w.seen = handlers_seen();
	sk.page->mode = SOCK_UPGRADING;
	assert_int_equal(sock_ops(&sk)->sleep(&sk, -1, &w), 0);
	assert_int_equal(n_naps, 1);
	lock_held.n_handled++;
	lock_held.n_ends++;
	assert_int_equal(sock_ops(&sk)->sleep(&sk, -1, &w), -EINTR);
	assert_int_equal(n_naps, 1);
}

/* A thread has looked its table up, and then the others let go. */
static void a_fallback_goes_to_the_table_that_is(void **state)
{
	const struct sock_ops *ops = sock_ops(&sk);

	fetch_sub(&sk.page->n_procs, 1);
	sock_unshare(&sk);
	ops->fallback(&sk, -1, OSF_REASON_OPTION);
	assert_int_equal(n_fallbacks, 1);
}

static void an_option_outlives_the_next_visit(void **state)
{
	SOCK_TELL(&sk, nonblock, 1);
	SOCK_TELL(&sk, rcvtimeo_ns, UINT64_C(77));
	assert_int_equal(sock_ops(&sk)->inq(&sk, -1), 7);
	assert_int_equal(sk.nonblock, 1);
	assert_int_equal(sk.rcvtimeo_ns, 77);
	assert_int_equal(load_rlx(&sk.page->lock.word), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(an_operation_calls_another,
						shared_by_two, freed),
		cmocka_unit_test_setup_teardown(
		    who_is_killed_asleep_keeps_nobody, shared_by_two, freed),
		cmocka_unit_test_setup_teardown(
		    who_waits_for_the_others_hears_of_signals, shared_by_two,
		    freed),
		cmocka_unit_test_setup_teardown(
		    a_fallback_goes_to_the_table_that_is, shared_by_two, freed),
		cmocka_unit_test_setup_teardown(
		    an_option_outlives_the_next_visit, shared_by_two, freed),
		cmocka_unit_test_setup_teardown(
		    a_sleep_ends_in_the_process_where_it_began, shared_by_two,
		    freed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
