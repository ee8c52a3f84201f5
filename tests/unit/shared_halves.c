/* SPDX-License-Identifier: MIT */
/*
 * tests/unit/shared_halves.c - a socket that forked processes hold: what goes from one
 * to the next with the lock of a half, and what a hostile holder can do to the rest
 *
 * The protocol is a counter in each half.  A real fork makes the other process.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/libc.h"
#include "sock/page_lock.h"
#include "sock/shared.h"
#include "unit.h"

struct counters {
	uint64_t half[2];
};

static bool refuses; /* the next import */
static bool dies_in_export;

static void counters_export(const struct sock *sk, enum sock_half half,
			    void *to)
{
	memcpy(to, &((const struct counters *)sk->conn)->half[half], 4);
	if (dies_in_export)
		raise(SIGKILL);
	memcpy(to, &((const struct counters *)sk->conn)->half[half], 8);
}

static int counters_import(struct sock *sk, enum sock_half half,
			   const void *from)
{
	if (refuses)
		return -EPROTO;
	memcpy(&((struct counters *)sk->conn)->half[half], from, 8);
	return 0;
}

static int n_lost;

static void counters_lost(struct sock *sk, const char *why) { n_lost++; }
static bool counters_repair(struct sock *s, int fd) { return true; }
static bool is_rung(const struct sock *sk) { return false; }

static const struct sock_ops shm_like = {
	.name = "counters",
	.is_ours = true,
	.export = counters_export,
	.import = counters_import,
	.repair = counters_repair,
	.lost = counters_lost,
	.is_rung = is_rung,
};
static const struct sock_ops kernel_like = { .name = "kernel" };

const struct sock_ops *const sock_tables[SOCK_TABLES] = {
	[SOCK_YOUNG... SOCK_UPGRADING] = &kernel_like,
	[SOCK_PENDING... SOCK_SHM] = &shm_like,
	[SOCK_KERNEL... SOCK_TABLES - 1] = &kernel_like,
};

/* In the memory of each process. */
static struct sock sk;
static struct holders *holders;

static uint64_t *count_of(enum sock_half half)
{
	return &((struct counters *)sk.conn)->half[half];
}

static int fresh(void **state)
{
	static struct sock none;

	sk = none;
	if (!holders)
		holders = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
			       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	shared_init(&sk, holders);
	sk.is_live = sk.is_held = 1;
	sk.state = SOCK_STATE(SOCK_SHM);
	refuses = false;
	n_lost = 0;
	return 0;
}

/* As file/fork.c forks. */
static pid_t fork_it(void)
{
	shared_reserve(shared_needs_page(&sk));
	assert_int_equal(sock_share(&sk), 0);
	shared_release();
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		lock_after_fork();
		shared_child();
		sock_inherit(&sk, false);
	}
	return pid;
}

static int status_of(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void both_processes_count_on(void **state)
{
	enum { N = 20000 };
	pid_t pid = fork_it();

	for (int i = 0; i < N; i++) {
		sock_lock_rx(&sk);
		++*count_of(HALF_RX);
		sock_unlock_rx(&sk);
		sock_lock_tx(&sk);
		*count_of(HALF_TX) += 2;
		sock_unlock_tx(&sk);
	}
	if (!pid)
		_exit(sk.is_lost);
	assert_int_equal(status_of(pid), 0);
	sock_refresh(&sk);
	assert_int_equal(*count_of(HALF_RX), 2 * N);
	assert_int_equal(*count_of(HALF_TX), 4 * N);
	assert_false(sk.is_lost);
}

static void the_last_one_keeps_what_the_others_left(void **state)
{
	pid_t pid = fork_it();

	if (!pid) {
		sock_lock_rx(&sk);
		*count_of(HALF_RX) = 5;
		sock_unlock_rx(&sk);
		SOCK_PUT(&sk, rcvlowat, 77);
		_exit(sock_let_go(&sk, 1));
	}
	assert_int_equal(status_of(pid), 0);
	sock_unshare(&sk);
	assert_null(sk.page);
	assert_ptr_equal(sk.w, &sk.own_words);
	assert_int_equal(*count_of(HALF_RX), 5);
	assert_int_equal(sk.w->rcvlowat, 77);
	assert_true(sock_let_go(&sk, 1));
}

static void the_mode_comes_with_each_half(void **state)
{
	pid_t pid = fork_it();

	if (!pid) {
		sock_lock_both(&sk);
		sk.state = SOCK_STATE(SOCK_KERNEL);
		shared_mode(&sk, SOCK_KERNEL);
		sock_unlock_both(&sk);
		_exit(0);
	}
	assert_int_equal(status_of(pid), 0);
	assert_int_equal(sock_mode(&sk), SOCK_SHM);
	sock_lock_tx(&sk);
	assert_int_equal(sock_mode(&sk), SOCK_KERNEL);
	sock_unlock_tx(&sk);
}

/* Dies with the half locked. */
static void dies_inside(void)
{
	pid_t pid = fork_it();

	if (!pid) {
		sock_lock_rx(&sk);
		raise(SIGKILL);
	}
	status_of(pid);
}

static void nobody_goes_on_with_half_a_state(void **state)
{
	dies_inside();
	sock_lock_rx(&sk);
	assert_true(sk.is_lost);
	assert_int_equal(n_lost, 1);
	sock_unlock_rx(&sk);
	sock_lock_tx(&sk); /* once is enough */
	sock_unlock_tx(&sk);
	assert_int_equal(n_lost, 1);
}

static void a_look_may_be_killed(void **state)
{
	pid_t pid = fork_it();

	if (!pid) {
		assert_true(sock_look_rx(&sk));
		++*count_of(HALF_RX); /* for nobody */
		assert_true(sock_look_tx(&sk));
		raise(SIGKILL);
	}
	status_of(pid);
	sock_lock_both(&sk);
	assert_false(sk.is_lost);
	assert_int_equal(*count_of(HALF_RX), 0);
	sock_unlock_both(&sk);
	sock_refresh(&sk);
	assert_false(sk.is_lost);
}

/* Bytes that only it has, or that nobody can see yet. */
static void who_has_moved_nothing_outside_may_be_killed(void **state)
{
	pid_t pid = fork_it();

	if (!pid) {
		assert_true(sock_move_rx(&sk));
		assert_true(sock_move_tx(&sk));
		++*count_of(HALF_RX);
		raise(SIGKILL);
	}
	status_of(pid);
	sock_lock_both(&sk);
	assert_false(sk.is_lost);
	assert_int_equal(*count_of(HALF_RX), 0);
	sock_unlock_both(&sk);
}

static void an_export_may_be_killed(void **state)
{
	*count_of(HALF_TX) = 7;
	pid_t pid = fork_it();

	if (!pid) {
		assert_true(sock_move_tx(&sk));
		*count_of(HALF_TX) = 8;
		dies_in_export = true;
		sock_unlock_tx(&sk);
	}
	status_of(pid);
	sock_lock_tx(&sk);
	assert_false(sk.is_lost);
	assert_int_equal(*count_of(HALF_TX), 7);
	sock_unlock_tx(&sk);
}

/* Others go on behind the last part that is whole. */
static void a_call_may_be_killed_between_its_parts(void **state)
{
	pid_t pid = fork_it();

	if (!pid) {
		assert_true(sock_move_tx(&sk));
		*count_of(HALF_TX) = 8;
		sk.page->half[HALF_TX].is_changing =
		    HALF_CHANGES; /* as a ring does */
		sock_settles_tx(&sk);
		*count_of(HALF_TX) = 9; /* nobody can see it yet */
		raise(SIGKILL);
	}
	status_of(pid);
	sock_lock_tx(&sk);
	assert_false(sk.is_lost);
	assert_int_equal(*count_of(HALF_TX), 8);
	sock_unlock_tx(&sk);
}

static void what_goes_on_changing_is_not_whole(void **state)
{
	pid_t pid = fork_it();

	if (!pid) {
		sock_lock_tx(&sk);
		sock_settles_tx(&sk);
		page_count_end(&sk, page_count_begin(&sk));
		raise(SIGKILL);
	}
	status_of(pid);
	sock_lock_tx(&sk);
	assert_true(sk.is_lost);
	sock_unlock_tx(&sk);
}

static void what_the_kernel_has_counted_can_be_repaired(void **state)
{
	pid_t pid = fork_it();

	if (!pid) {
		assert_true(sock_move_rx(&sk));
		uint32_t was = page_count_begin(&sk);
		page_count_end(&sk, was); /* it may be killed after this, too */
		page_count_begin(&sk);
		raise(SIGKILL);
	}
	status_of(pid);
	for (int i = 0; i < 2; i++) {
		assert_false(sock_move_rx(&sk));
		assert_int_equal(sk.w->due, SOCK_DUE_REPAIR);
		assert_true(sk.is_kept);
	}
	assert_true(page_repair_begin(&sk));
	sk.w->due = 0;
	sock_unlock_both(&sk);
	assert_true(sock_move_rx(&sk));
	assert_false(sk.is_lost);
	sock_unlock_rx(&sk);
}

static void who_exports_nothing_leaves_what_was_there(void **state)
{
	pid_t pid = fork_it();

	if (!pid) {
		for (int i = 1; i <= 2; i++) {
			sock_lock_rx(&sk);
			*count_of(HALF_RX) = (uint64_t)i;
			sock_unlock_rx(&sk);
		}
		sk.state = SOCK_STATE(SOCK_UPGRADING);
		shared_mode(&sk, SOCK_UPGRADING);
		sock_lock_rx(&sk);
		sock_unlock_rx(&sk);
		_exit(sk.is_lost);
	}
	assert_int_equal(status_of(pid), 0);
	sock_lock_rx(&sk);
	assert_false(sk.is_lost);
	assert_int_equal(*count_of(HALF_RX), 2);
	sock_unlock_rx(&sk);
}

/* The page may say for ever that another process gives the connection to the kernel. */
static void a_move_that_does_not_end_is_told(void **state)
{
	assert_int_equal(sock_share(&sk), 0);
	sk.page->mode = SOCK_UPGRADING;
	assert_true(sock_move_rx(&sk));
	sock_unlock_rx(&sk);
	assert_int_equal(sock_mode(&sk), SOCK_UPGRADING);
	uint64_t start = now_ns();
	while (!sock_moves_long(&sk)) {
		sched_yield(); /* sock_moving() would lose it at the limit */
		assert_true(now_ns() - start < NS_PER_S);
	}
	assert_false(sk.is_lost);
	sk.page->mode = SOCK_KERNEL;
	sock_moving(&sk);
	assert_int_equal(sock_mode(&sk), SOCK_KERNEL);
}

static void what_is_refused_ends_the_connection(void **state)
{
	pid_t pid = fork_it();

	if (!pid) {
		sock_lock_tx(&sk);
		sock_unlock_tx(&sk);
		_exit(0);
	}
	assert_int_equal(status_of(pid), 0);
	refuses = true;
	sock_lock_tx(&sk);
	sock_unlock_tx(&sk);
	assert_true(sk.is_lost);
	assert_int_equal(n_lost, 1);
}

static uint64_t locked_within(void)
{
	uint64_t start = now_ns();

	sock_lock_rx(&sk);
	sock_unlock_rx(&sk);
	return now_ns() - start;
}

/* A holder writes what it likes in place of the owner. */
static void a_false_owner_is_not_waited_for(void **state)
{
	static const uint32_t lies[] = { 0x7fffffff, LOCK_WAITERS | 0x7ffffffe,
					 0xffffffff, LOCK_WAITERS };

	for (size_t i = 0; i < ARRAY_LEN(lies); i++) {
		fresh(NULL);
		assert_int_equal(sock_share(&sk), 0);
		sk.page->half[HALF_RX].word = lies[i];
		assert_true(locked_within() < NS_PER_S);
	}
	fresh(NULL); /* our own thread does not hold it: we would know */
	assert_int_equal(sock_share(&sk), 0);
	sk.page->half[HALF_RX].word = (uint32_t)getpid();
	assert_true(locked_within() < NS_PER_S);
	assert_true(sk.is_lost);
}

/* Another holder writes the numbers of processes that have ended, without end. */
static void an_owner_that_is_always_another_is_not_waited_for(void **state)
{
	assert_int_equal(sock_share(&sk), 0);
	uint32_t *word = &sk.page->half[HALF_RX].word;
	pid_t pid = fork();

	for (uint32_t n = 0; !pid; n = (n + 1) & 0xffffff)
		store_rlx(word, 0x3f000001u + n);
	while (!load_rlx(word))
		sched_yield();
	assert_true(locked_within() < NS_PER_S);
	kill(pid, SIGKILL);
	status_of(pid);
}

static void a_living_owner_of_another_user_is_not_waited_for(void **state)
{
	int ready[2];
	char byte;

	if (getuid())
		skip();
	assert_int_equal(pipe(ready), 0);
	pid_t pid = fork_it();
	if (!pid) {
		if (setuid(65534))
			_exit(1);
		sock_lock_rx(&sk);
		(void)!write(ready[1], "", 1);
		pause();
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	assert_false(shared_is_stopped(&sk));
	assert_true(locked_within() < NS_PER_S);
	assert_true(sk.is_lost);
	kill(pid, SIGKILL);
	status_of(pid);
}

/* It may have lost its core: who can come again does, and nothing is lost. */
static void
a_stopped_owner_of_our_user_costs_a_call_that_can_come_again_nothing(
    void **state)
{
	int ready[2], status;
	char byte;

	assert_int_equal(pipe(ready), 0);
	pid_t pid = fork_it();
	if (!pid) {
		assert_true(sock_move_rx(&sk));
		(void)!write(ready[1], "", 1);
		raise(SIGSTOP);
		++*count_of(HALF_RX);
		sock_unlock_rx(&sk);
		_exit(0);
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	for (int i = 0; i < 3; i++) {
		uint64_t start = now_ns();

		assert_false(sock_move_rx(&sk));
		assert_false(sock_try_rx(&sk));
		sock_refresh(&sk);
		assert_true(sk.is_kept);
		assert_true(now_ns() - start < NS_PER_S);
	}
	assert_true(sock_move_tx(&sk)); /* nobody has that one */
	sock_unlock_tx(&sk);
	assert_true(shared_is_stopped(&sk));
	kill(pid, SIGCONT);
	assert_int_equal(status_of(pid), 0);
	assert_true(sock_move_rx(&sk));
	assert_int_equal(*count_of(HALF_RX), 1);
	sock_unlock_rx(&sk);
	sock_refresh(&sk);
	assert_false(sk.is_kept);
	assert_false(sk.is_lost);
}

/* Its thread id there is nobody's here, and the other way round. */
static void
an_owner_in_another_pid_namespace_is_not_taken_for_dead(void **state)
{
	int ready[2], status;
	char byte = 0;

	assert_int_equal(sock_share(&sk), 0);
	assert_int_equal(pipe(ready), 0);
	pid_t outer = fork(); /* only its children get the new namespace */
	if (!outer) {
		if (unshare(CLONE_NEWPID))
			_exit(2);
		pid_t pid = fork_it();
		if (!pid) {
			assert_true(sock_move_rx(&sk));
			(void)!write(ready[1], "", 1);
			pause();
		}
		(void)!read(ready[0], &byte, 1);
		/* 1, in there: init's here.  Any other number must do as well. */
		uint32_t word = load_rlx(&sk.page->half[HALF_RX].word);
		store_rlx(&sk.page->half[HALF_RX].word, word + 0x3ffff0);
		sock_lock_rx(&sk);
		bool is_lost = sk.is_lost;
		sock_unlock_rx(&sk);
		kill(pid, SIGKILL);
		_exit(!is_lost);
	}
	assert_int_equal(waitpid(outer, &status, 0), outer);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 2)
		skip();
	assert_int_equal(status, 0);
}

/* All of the page, at every moment: no crash, no hang. */
/* Nobody asks for the child yet: it is a zombie, and only /proc says so. */
static pid_t killed_process(void)
{
	siginfo_t how;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid)
		_exit(0);
	assert_int_equal(waitid(P_PID, (id_t)pid, &how, WEXITED | WNOWAIT), 0);
	return pid;
}

static void the_locks_of_a_killed_process_are_not_kept(void **state)
{
	pid_t pid = killed_process();
	uint32_t rx = (uint32_t)pid, tx = rx, other = 0;

	assert_int_equal(page_lock(&rx, false), PAGE_OF_DEAD);
	assert_false(page_lock_is_vain(&tx)); /* that wait was not in vain */
	page_lock_gives_up(&other);
	assert_int_equal(page_lock(&tx, false), PAGE_OF_DEAD);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void a_page_of_noise(void **state)
{
	struct rng r = { 7 };

	for (int i = 0; i < 300; i++) {
		fresh(NULL);
		assert_int_equal(sock_share(&sk), 0);
		uint32_t *words = (uint32_t *)(void *)sk.page;
		for (uint32_t n = 1 + rng_below(&r, 40); n; n--)
			words[rng_below(&r, sizeof(struct shared_page) / 4)] =
			    rng_below(&r, 2) ? (uint32_t)rng_next(&r)
					     : rng_below(&r, 8);
		assert_true(locked_within() < 3 * NS_PER_S);
		sock_refresh(&sk);
		sock_unshare(&sk);
		sock_let_go(&sk, 1);
		(void)!shared_let_go(&sk);
		shared_unmap(&sk);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(
		    the_locks_of_a_killed_process_are_not_kept, fresh),
		cmocka_unit_test_setup(both_processes_count_on, fresh),
		cmocka_unit_test_setup(the_last_one_keeps_what_the_others_left,
				       fresh),
		cmocka_unit_test_setup(the_mode_comes_with_each_half, fresh),
		cmocka_unit_test_setup(nobody_goes_on_with_half_a_state, fresh),
		cmocka_unit_test_setup(a_look_may_be_killed, fresh),
		cmocka_unit_test_setup(
		    who_has_moved_nothing_outside_may_be_killed, fresh),
		cmocka_unit_test_setup(an_export_may_be_killed, fresh),
		cmocka_unit_test_setup(a_call_may_be_killed_between_its_parts,
				       fresh),
		cmocka_unit_test_setup(what_goes_on_changing_is_not_whole,
				       fresh),
		cmocka_unit_test_setup(
		    what_the_kernel_has_counted_can_be_repaired, fresh),
		cmocka_unit_test_setup(
		    who_exports_nothing_leaves_what_was_there, fresh),
		cmocka_unit_test_setup(a_move_that_does_not_end_is_told, fresh),
		cmocka_unit_test_setup(what_is_refused_ends_the_connection,
				       fresh),
		cmocka_unit_test_setup(a_false_owner_is_not_waited_for, fresh),
		cmocka_unit_test_setup(
		    an_owner_that_is_always_another_is_not_waited_for, fresh),
		cmocka_unit_test_setup(
		    a_living_owner_of_another_user_is_not_waited_for, fresh),
		cmocka_unit_test_setup(
		    a_stopped_owner_of_our_user_costs_a_call_that_can_come_again_nothing,
		    fresh),
		cmocka_unit_test_setup(
		    an_owner_in_another_pid_namespace_is_not_taken_for_dead,
		    fresh),
		cmocka_unit_test_setup(a_page_of_noise, fresh),
	};

	libc_resolve();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
