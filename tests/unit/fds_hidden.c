/* SPDX-License-Identifier: MIT */
/* tests/unit/fds_hidden.c - descriptors of ours do not get in the program's way */
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <unistd.h>

#include "base/fds.h"
#include "base/libc.h"
#include "unit.h"

static int lowest_free(void)
{
	int fd = dup(0);

	close(fd);
	return fd;
}

static void a_hidden_one_leaves_the_low_numbers_free(void **state)
{
	int before = lowest_free();
	int fd = fds_hide(dup(0));

	assert_true(fd > 512);
	assert_int_equal(lowest_free(), before);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	fds_close(fd);
	assert_int_equal(fcntl(fd, F_GETFD), -1);
}

static void ours_are_known_and_others_are_not(void **state)
{
	int one = fds_hide(dup(0)), two = fds_hide(dup(0));

	assert_true(fds_is_ours(one));
	assert_true(fds_is_ours(two));
	assert_false(fds_is_ours(0));
	assert_false(fds_is_ours(-1));
	assert_false(fds_is_ours(two + 1));
	fds_close(one);
	assert_false(fds_is_ours(one));
	fds_close(two);
}

static void they_can_be_walked_in_order(void **state)
{
	int fd[70], at = -1;

	for (int i = 0; i < 70; i++)
		fd[i] = fds_hide(dup(0));
	for (int i = 0; i < 70; i++) {
		at = fds_next(at + 1);
		assert_int_equal(at, fd[i]);
	}
	assert_int_equal(fds_next(at + 1), -1);
	assert_int_equal(fds_next(INT32_MAX), -1);
	assert_int_equal(fds_next(fd[5]), fd[5]);
	for (int i = 0; i < 70; i++)
		fds_close(fd[i]);
	assert_int_equal(fds_next(0), -1);
}

static void nothing_passes_through(void **state)
{
	assert_int_equal(fds_hide(-1), -1);
	fds_close(-1);
}

/* The program lowered its limit: all that is below it is the program's. */
static void a_lowered_limit_is_left_to_the_program(void **state)
{
	struct rlimit old, low = { 64, 64 }, now;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	low.rlim_max = old.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	int before = lowest_free();
	int fd = fds_hide(dup(0));
	assert_true(fd >= 64);
	assert_true(fds_is_ours(fd));
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &now), 0);
	assert_int_equal(now.rlim_cur, 64);
	assert_int_equal(now.rlim_max, old.rlim_max);
	fds_close(fd);
	assert_int_equal(lowest_free(), before);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
}

/* A fork copies the kernel's table up to the highest number. */
static void a_large_limit_does_not_make_large_numbers(void **state)
{
	struct rlimit old, large;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	if (old.rlim_max < 4096)
		skip();
	large = (struct rlimit){ old.rlim_max, old.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &large), 0);
	int fd = fds_hide(dup(0));
	assert_in_range(fd, FD_SETSIZE, 2 * FD_SETSIZE);
	assert_true(fds_reach() > 2 * FD_SETSIZE);
	fds_close(fd);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
}

/* The last test: a hard limit does not come back. */
static void with_no_room_above_some_number_will_do(void **state)
{
	struct rlimit low = { 64, 64 };
	int fd[64], n = 0;

	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	int before = lowest_free();
	do
		fd[n] = fds_hide_spare(dup(0));
	while (fd[n++] >= 0);
	assert_int_equal(fd[--n], -EMFILE);
	assert_int_equal(n, 64 / 4);
	assert_int_equal(lowest_free(), before);
	int kept = fds_hide(dup(0));
	assert_int_equal(kept, before);
	assert_true(fds_is_ours(kept));
	fds_close(kept);
	while (n)
		fds_close(fd[--n]);
	assert_int_equal(fds_next(0), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_hidden_one_leaves_the_low_numbers_free),
		cmocka_unit_test(ours_are_known_and_others_are_not),
		cmocka_unit_test(they_can_be_walked_in_order),
		cmocka_unit_test(nothing_passes_through),
		cmocka_unit_test(a_lowered_limit_is_left_to_the_program),
		cmocka_unit_test(a_large_limit_does_not_make_large_numbers),
		cmocka_unit_test(with_no_room_above_some_number_will_do),
	};

	libc_resolve();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
