/* SPDX-License-Identifier: MIT */
/*
 * tests/unit/file_table.c - descriptors lead to descriptions, the last one releases
 *
 * file/file.c alone: what lies around it is replaced by counters below.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/bell.h"
#include "base/fds.h"
#include "base/libc.h"
#include "file/epoll.h"
#include "file/file.h"
#include "ops/ops.h"
#include "sock/anchor.h"
#include "sock/arena.h"
#include "sock/shared.h"
#include "sock/sock_ops.h"
#include "sock/wait.h"
#include "unit.h"

static int n_socks; /* open */
static bool is_arena_full;

struct sock *sock_new(int fd)
{
	struct sock *sk =
	    is_arena_full ? NULL : aligned_alloc(CACHE_LINE, sizeof(*sk));

	if (!sk)
		return NULL;
	static struct osf_stats_sock st;

	memset(sk, 0, sizeof(*sk));
	sk->st = &st;
	sk->w = &sk->own_words;
	sk->is_live = sk->is_held = 1;
	fetch_add(&n_socks, 1);
	return sk;
}

bool arena_let_go(struct sock *sk, int32_t n) { return sock_let_go(sk, n); }

void sock_free(struct sock *sk)
{
	fetch_sub(&n_socks, 1);
	free(sk);
}

static void nothing(struct sock *sk, int fd) {}
static void moves(struct sock *sk, int from, int to) {}

static const struct sock_ops ops = {
	.name = "none",
	.may_move = true,
	.close = nothing,
	.passthrough = nothing,
	.anchor_moved = moves,
	.sync = nothing,
};
const struct sock_ops *const sock_tables[SOCK_TABLES] = {
	[0 ... SOCK_TABLES - 1] = &ops,
};

bool arena_is_full(void) { return false; }
void sock_set_mode(struct sock *sk, enum sock_mode mode) {}
void ops_advance(struct sock *sk, int fd) {}
void ops_close(struct sock *sk, int fd) {}
void ops_let_go(struct sock *sk, int fd) {}
void wait_closes(const struct sock *sk) {}
void bells_ring_own(void) {}
void anchor_clear(struct sock *sk, int fd) {}
void ops_upgrade_fds(const struct sock *sk, int32_t fds[OPS_UPGRADE_FDS]) {}
void epoll_forget_sock(struct file *f) {}
void epoll_merge_sock(struct file *f) {}
void epoll_free(struct epoll *ep) {}
void epoll_moved(struct file *fe) {}

static void a_descriptor_that_is_not_ours_leads_nowhere(void **state)
{
	assert_null(file_get(0));
	assert_null(file_get(-1));
	assert_null(file_get(INT32_MAX));
	assert_null(file_get_any(100000));
	file_forget(5);
	file_forget(-1);
	file_forget(INT32_MAX);
	assert_int_equal(file_next(0), -1);
}

static void the_last_descriptor_releases(void **state)
{
	struct file *f = file_new_sock(900);

	assert_non_null(f);
	assert_int_equal(file_install(901, f, false), 0);
	assert_ptr_equal(file_get(901), f);
	file_put(f);
	file_forget(901);
	assert_int_equal(n_socks, 1);
	assert_ptr_equal(file_get(900), f);
	file_put(f);
	file_forget(900);
	assert_int_equal(n_socks, 0);
	assert_null(file_get(900));
}

static void a_call_in_flight_keeps_it(void **state)
{
	int fd = dup(0);
	struct file *f = file_new_sock(fd), *in_call = file_get(fd);

	file_forget(fd);
	close(fd);
	assert_null(file_get(fd));
	assert_int_equal(n_socks, 1);
	/* It has a descriptor of ours meanwhile, for the number may be reused. */
	assert_true(fds_is_ours(f->anchor_fd));
	file_put(in_call);
	assert_int_equal(n_socks, 0);
	assert_int_equal(fds_next(0), -1);
}

static void a_passed_one_is_seen_by_descriptor_calls_only(void **state)
{
	struct file *f = file_new_sock(900);

	assert_int_equal(file_install(901, f, false), 0);
	file_pass(f);
	assert_null(file_get(900));
	assert_true(file_is_passthrough(900));
	assert_ptr_equal(file_get_any(900), f);
	file_put(f);
	file_forget(900);
	file_forget(901);
	assert_int_equal(n_socks, 0);
	assert_false(file_is_passthrough(900));
}

static void all_descriptors_of_a_passed_one_are_passed(void **state)
{
	struct file *f = file_new_sock(900);

	assert_int_equal(file_install(901, f, false), 0);
	assert_int_equal(file_install(5000, f, false), 0);
	file_pass(f);
	assert_true(file_is_passthrough(900));
	assert_true(file_is_passthrough(901));
	assert_true(file_is_passthrough(5000));
	file_forget(900);
	file_forget(901);
	file_forget(5000);
	assert_int_equal(n_socks, 0);
}

/* Some raw system call closed it, and the kernel gave the number again. */
static void a_number_given_again_forgets_its_old_file(void **state)
{
	struct file *old = file_new_sock(900);
	struct file *new = file_new_sock(900);

	assert_ptr_not_equal(old, new);
	assert_int_equal(n_socks, 1);
	assert_ptr_equal(file_get(900), new);
	file_put(new);
	file_forget(900);
	assert_int_equal(n_socks, 0);
}

static int walked[8];
static int n_walked;

static void walk(int fd, struct file *f)
{
	if (n_walked < 8)
		walked[n_walked] = fd;
	n_walked++;
}

static void a_walk_meets_each_in_order(void **state)
{
	static const int fds[] = { 0, 3, 1023, 1024, 70000 };

	for (int i = 0; i < 5; i++)
		assert_non_null(file_new_sock(fds[i]));
	n_walked = 0;
	file_for_each(walk);
	assert_int_equal(n_walked, 5);
	assert_memory_equal(walked, fds, sizeof(fds));
	assert_int_equal(file_next(4), 1023);
	assert_int_equal(file_next(70001), -1);
	for (int i = 0; i < 5; i++)
		file_forget(fds[i]);
	assert_int_equal(n_socks, 0);
	assert_int_equal(file_next(0), -1);
}

static void without_memory_it_stays_the_kernels(void **state)
{
	is_arena_full = true;
	assert_null(file_new_sock(900));
	is_arena_full = false;
	assert_null(file_get(900));
	assert_int_equal(n_socks, 0);
}

#define ROUNDS 50000

static bool is_over;

static void *look_up(void *arg)
{
	unsigned long found = 0;

	while (!load_acq(&is_over)) {
		struct file *f = file_get(900);

		if (!f)
			continue;
		found++;
		file_put(f);
	}
	return (void *)found;
}

static void a_look_up_may_race_with_close(void **state)
{
	pthread_t thread[2];

	store_rel(&is_over, false);
	for (int i = 0; i < 2; i++)
		assert_int_equal(
		    pthread_create(&thread[i], NULL, look_up, NULL), 0);
	for (int i = 0; i < ROUNDS; i++) {
		assert_non_null(file_new_sock(900));
		file_forget(900);
	}
	store_rel(&is_over, true);
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	assert_int_equal(n_socks, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_descriptor_that_is_not_ours_leads_nowhere),
		cmocka_unit_test(the_last_descriptor_releases),
		cmocka_unit_test(a_call_in_flight_keeps_it),
		cmocka_unit_test(a_passed_one_is_seen_by_descriptor_calls_only),
		cmocka_unit_test(all_descriptors_of_a_passed_one_are_passed),
		cmocka_unit_test(a_number_given_again_forgets_its_old_file),
		cmocka_unit_test(a_walk_meets_each_in_order),
		cmocka_unit_test(without_memory_it_stays_the_kernels),
		cmocka_unit_test(a_look_up_may_race_with_close),
	};

	libc_resolve();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
