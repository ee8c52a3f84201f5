/* SPDX-License-Identifier: MIT */
/*
 * tests/unit/ready_set.c - a waiter drains what its watches were told of, once
 *
 * sock/ready.c alone, with a protocol that tells of everything, and a feed that is an
 * array.
 */
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/compiler.h"
#include "base/libc.h"
#include "sock/ready.h"
#include "sock/sock_ops.h"
#include "unit.h"

static void watch_told(struct sock *sk, struct watch *w)
{
	w->is_notified = true;
}

static const struct sock_ops ops = { .name = "teller", .watch = watch_told };
const struct sock_ops *const sock_tables[SOCK_TABLES] = { &ops, &ops, &ops,
							  &ops, &ops, &ops,
							  &ops, &ops };

static struct sock sk;
static struct ready_set set;
static struct watch one, two;
static unsigned n_woken;

static struct {
	struct watch *w;
	unsigned events;
} seen[8];
static unsigned n_seen;

static void wake(struct ready_set *rs) { n_woken++; }

static void news(struct watch *w, unsigned events, bool is_behind, void *arg)
{
	assert_true(n_seen < ARRAY_LEN(seen));
	seen[n_seen].w = w;
	seen[n_seen++].events = events;
}

static bool drain(void)
{
	n_seen = 0;
	return ready_drain(&set, news, NULL);
}

static int begin(void **state)
{
	sk.watches = (struct watch_list){ 0 };
	n_woken = 0;
	ready_init(&set, wake);
	watch_open(&sk, &one, &set);
	return 0;
}

static void what_was_told_is_drained_once(void **state)
{
	assert_false(ready_has_come(&set));
	assert_false(drain());
	sock_notify(&sk, POLLIN | READY_NEWS);
	assert_true(ready_has_come(&set));
	assert_int_equal(n_woken, 1);
	assert_true(drain());
	assert_int_equal(n_seen, 1);
	assert_ptr_equal(seen[0].w, &one);
	assert_int_equal(seen[0].events, POLLIN | READY_NEWS);
	assert_false(ready_has_come(&set));
	assert_false(drain());
}

static void what_is_told_twice_is_drained_as_one(void **state)
{
	sock_notify(&sk, POLLIN | READY_NEWS);
	sock_notify(&sk, POLLOUT);
	assert_true(drain());
	assert_int_equal(n_seen, 1);
	assert_int_equal(seen[0].events, POLLIN | POLLOUT | READY_NEWS);
}

static void all_watches_of_a_socket_are_told(void **state)
{
	struct ready_set other;

	ready_init(&other, wake);
	watch_open(&sk, &two, &other);
	sock_notify(&sk, 0);
	assert_true(ready_has_come(&set));
	assert_true(ready_has_come(&other));
	watch_close(&sk, &two);
	assert_false(ready_has_come(&other));
}

static void a_closed_watch_is_told_nothing(void **state)
{
	sock_notify(&sk, POLLIN);
	watch_close(&sk, &one);
	assert_false(ready_has_come(&set));
	sock_notify(&sk, POLLIN);
	assert_false(drain());
	watch_close(&sk, &one); /* as one that was never open */
}

static void who_was_told_before_does_not_sleep(void **state)
{
	assert_true(ready_sleep(&set));
	ready_awake(&set);
	sock_notify(&sk, POLLIN);
	assert_false(ready_sleep(&set));
	ready_awake(&set);
	assert_int_equal(set.n_sleepers, 0);
}

/* A feed with one word. */
static uint64_t posted[READY_WORDS];
static unsigned n_sleeping, n_napping, n_asked, n_forgotten, n_closed;

static bool feed_drain(struct ready_set *rs, ready_news *to, void *arg)
{
	if (!posted[0])
		return false;
	posted[0] = 0;
	to(&two, READY_ANY, false, arg);
	return true;
}

static void feed_sleep(struct ready_set *rs, bool naps)
{
	n_sleeping++;
	n_napping += naps;
}

static void feed_awake(struct ready_set *rs, bool others) { n_sleeping--; }
static void feed_asked(struct ready_set *rs, uint64_t ns) { n_asked++; }
static void feed_close(struct ready_set *rs) { n_closed++; }

static void feed_forget(struct sock *s, struct watch *w)
{
	n_forgotten++;
	w->slot = READY_SLOT_NONE;
}

static const struct ready_feed feed = { .drain = feed_drain,
					.sleep = feed_sleep,
					.awake = feed_awake,
					.asked = feed_asked,
					.forget = feed_forget,
					.close = feed_close };

static void a_feed_is_drained_after_what_was_told(void **state)
{
	ready_feed_open(&set, &feed, 0);
	assert_false(ready_feed_more(&set, posted));
	assert_false(ready_feed_more(&set, posted)); /* it is known */
	assert_int_equal(set.n_posted, 1);
	watch_open(&sk, &two, &set);
	two.slot = 1;
	posted[0] = 1;
	assert_true(ready_has_come(&set));
	assert_false(ready_sleep(&set));
	assert_int_equal(n_sleeping, 1);
	ready_awake(&set);
	assert_int_equal(n_sleeping, 0);
	sock_notify(&sk, POLLIN);
	assert_true(drain());
	assert_int_equal(n_seen, 3);
	assert_int_equal(seen[0].events, POLLIN);
	assert_ptr_equal(seen[2].w, &two);
	assert_int_equal(seen[2].events, READY_ANY);
	ready_asked(&set, 1);
	assert_int_equal(n_asked, 1);
	watch_close(&sk, &two);
	assert_int_equal(n_forgotten, 1);
	ready_close(&set);
	assert_int_equal(n_closed, 1);
	assert_false(ready_has_come(&set));
}

static void a_child_of_a_fork_has_no_feed(void **state)
{
	ready_feed_open(&set, &feed, 0);
	assert_false(ready_feed_more(&set, posted));
	assert_false(ready_feed_more(&set, posted)); /* it is known */
	assert_int_equal(set.n_posted, 1);
	one.slot = 1;
	sock_notify(&sk, POLLIN);
	ready_after_fork(&set);
	watch_after_fork(&one);
	assert_false(ready_has_come(&set));
	assert_true(set.by_fd);
	assert_false(one.is_notified);
	sock_notify(&sk, POLLIN);
	assert_true(drain());
	watch_close(&sk, &one);
}

/* The stacks of the parent's other threads are the child's to use. */
static void a_child_forgets_the_calls_of_other_threads(void **state)
{
	struct ready_set calls;
	struct watch call;

	ready_init(&calls, wake);
	calls.is_calls = true;
	watch_open(&sk, &call, &calls);
	watch_open(&sk, &two, &set);
	lock_get(&sk.watches.lock); /* a thread that the child does not have */
	watches_after_fork(&sk);
	memset(&call, 0xff, sizeof(call));
	memset(&calls, 0xff, sizeof(calls));
	sock_notify(&sk, POLLIN);
	assert_int_equal(n_woken, 2);
	assert_true(drain());
	assert_int_equal(n_seen, 2);
	watch_close(&sk, &two);
	lock_leave();
}

/* A thread that naps while another one sleeps must not make the feed forget that one. */
static void a_feed_may_leave_a_thread_alone_that_naps(void **state)
{
	ready_feed_open(&set, &feed, 0);
	n_napping = 0;
	assert_true(ready_nap(&set));
	assert_int_equal(n_napping, 1);
	assert_true(ready_sleep(&set));
	assert_int_equal(n_napping, 1);
	ready_awake(&set);
	assert_true(ready_nap(&set));
	assert_int_equal(n_napping, 1);
	ready_awake(&set);
	ready_awake(&set);
	assert_int_equal(n_sleeping, 0);
}

/* Of sleeps that nothing ends but the wake-up: one that is lost is a test that hangs. */
#define ROUNDS 20000u

static int bell;
static uint32_t written;

static void ring(struct ready_set *rs)
{
	uint64_t n = 1;

	fence_full();
	if (load_rlx(&rs->n_sleepers))
		assert_int_equal(write(bell, &n, sizeof(n)), sizeof(n));
}

static void *tell_all(void *arg)
{
	for (uint32_t i = 1; i <= ROUNDS; i++) {
		store_rel(&written, i);
		sock_notify(&sk, POLLIN | READY_NEWS);
	}
	return NULL;
}

static void note_written(struct watch *w, unsigned events, bool is_behind,
			 void *arg)
{
	*(uint32_t *)arg = load_acq(&written);
}

static void no_wake_up_is_lost_between_threads(void **state)
{
	uint32_t read_up_to = 0;
	pthread_t thread;
	uint64_t n;

	bell = eventfd(0, 0);
	assert_true(bell >= 0);
	set.wake = ring;
	assert_int_equal(pthread_create(&thread, NULL, tell_all, NULL), 0);
	while (read_up_to < ROUNDS) {
		if (ready_drain(&set, note_written, &read_up_to))
			continue;
		if (ready_sleep(&set))
			assert_int_equal(read(bell, &n, sizeof(n)), sizeof(n));
		ready_awake(&set);
	}
	pthread_join(thread, NULL);
	close(bell);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup(name, begin)
	const struct CMUnitTest tests[] = {
		T(what_was_told_is_drained_once),
		T(what_is_told_twice_is_drained_as_one),
		T(all_watches_of_a_socket_are_told),
		T(a_closed_watch_is_told_nothing),
		T(who_was_told_before_does_not_sleep),
		T(a_feed_is_drained_after_what_was_told),
		T(a_feed_may_leave_a_thread_alone_that_naps),
		T(a_child_of_a_fork_has_no_feed),
		T(a_child_forgets_the_calls_of_other_threads),
		T(no_wake_up_is_lost_between_threads),
	};

	libc_resolve();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
