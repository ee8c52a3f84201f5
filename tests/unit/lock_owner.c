/* SPDX-License-Identifier: MIT */
/*
 * tests/unit/lock_owner.c - one holder at a time, and none that is dead
 *
 * The lock lies in memory that two processes share, as that of a socket does.
 */
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/lock.h"
#include "unit.h"

#define THREADS 4
#define ROUNDS 100000

static struct lock lock;
static unsigned long n_inside;

static void *count_up(void *arg)
{
	for (int i = 0; i < ROUNDS; i++) {
		GUARD(&lock);
		n_inside++; /* plain: the lock is what makes it right */
	}
	return NULL;
}

static void one_holder_at_a_time(void **state)
{
	pthread_t thread[THREADS];

	for (int i = 0; i < THREADS; i++)
		assert_int_equal(
		    pthread_create(&thread[i], NULL, count_up, NULL), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	assert_int_equal(n_inside, (unsigned long)THREADS * ROUNDS);
	assert_int_equal(lock.word, 0);
}

static void a_held_one_cannot_be_tried(void **state)
{
	struct lock l = { 0 };

	assert_true(lock_try(&l));
	assert_false(lock_try(&l));
	lock_put(&l);
	assert_true(lock_try(&l));
	lock_put(&l);
}

static void the_lock_of_a_dead_process_is_taken_over(void **state)
{
	struct lock *l = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int status;

	assert_true(l != MAP_FAILED);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		lock_after_fork();
		lock_get(l);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_not_equal(l->word, 0);
	lock_get(l);
	assert_int_equal(l->word & ~LOCK_WAITERS, lock_self());
	lock_put(l);
	assert_int_equal(l->word, 0);
	munmap(l, 4096);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_holder_at_a_time),
		cmocka_unit_test(a_held_one_cannot_be_tried),
		cmocka_unit_test(the_lock_of_a_dead_process_is_taken_over),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
