/* SPDX-License-Identifier: MIT */
/*
 * tests/unit/history.c - which connections teach a program to move later, or earlier
 *
 * ops/history.c alone.
 */
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ops/history.h"
#include "proto/shm/shm.h"
#include "unit.h"

#define FIRST 5u
#define BYTES (128u * 1024)
#define PAYS 16u /* calls */

struct shm_config shm_config = { .upgrade_pingpongs = FIRST,
				 .upgrade_bytes = BYTES };
static struct osf_stats_sock entry;
static struct sock sk = { .st = &entry };

/* A connection of @n changes of direction in all, which began at @level and moves as that
 * says, ends when the level is @now. */
static unsigned ends_after(unsigned level, unsigned now, uint32_t n)
{
	uint64_t moves_at = history_later(FIRST, level);
	struct history_end end = {
		.level = level,
		.pingpongs = (uint32_t)MIN(n, moves_at),
		.has_moved = n >= moves_at,
		.calls = n > moves_at ? n - moves_at : 0,
	};

	return history_next(now, FIRST, BYTES, &end);
}

/* Connections that are all alike lose one move at each level at most, and those that last
 * move at once. */
static void each_length_finds_its_level(void **state)
{
	for (uint32_t n = 0; n < 5000; n++) {
		unsigned level = 0, lost = 0;

		for (int i = 0; i < 100; i++) {
			uint64_t moves_at = history_later(FIRST, level);

			lost += n >= moves_at && n < moves_at + PAYS;
			level = ends_after(level, level, n);
		}
		assert_true(lost < HISTORY_LEVELS);
		assert_int_equal(ends_after(level, level, n), level);
		if (n >= FIRST + PAYS)
			assert_int_equal(level, 0);
	}
}

static void many_that_run_at_once_raise_it_once(void **state)
{
	unsigned level = 0;

	for (int i = 0; i < 50; i++)
		level = ends_after(0, level, FIRST + 1);
	assert_int_equal(level, 1);
}

static void one_that_lasts_makes_it_0(void **state)
{
	for (unsigned level = 0; level < HISTORY_LEVELS; level++) {
		assert_int_equal(ends_after(level, level, 100000), 0);
		assert_int_equal(ends_after(level, level, FIRST + PAYS), 0);
	}
}

static void many_bytes_pay_however_few_the_calls(void **state)
{
	struct history_end end = { .pingpongs = 2,
				   .calls = 2,
				   .bytes = 2 * BYTES,
				   .has_moved = true };

	assert_int_equal(history_next(0, FIRST, BYTES, &end), 0);
	assert_int_equal(history_next(2, FIRST, BYTES, &end), 0);
	end.bytes--;
	assert_int_equal(history_next(0, FIRST, BYTES, &end), 1);
}

static void milestones_saturate(void **state)
{
	assert_int_equal(history_later(5, 0), 5);
	assert_int_equal(history_later(5, 2), 80);
	assert_true(history_later(UINT64_MAX / 8, 2) == UINT64_MAX);
	assert_true(history_later(UINT64_MAX, 4) == UINT64_MAX);
}

/* It began at level 0, has moved, and ends at once. */
static void to_port(uint16_t port)
{
	memset(&entry, 0, sizeof(entry));
	entry.peer_port = port;
	sk.flags = SOCK_F_ACTIVE;
	sk.pingpongs = FIRST;
	sk.state = SOCK_STATE(SOCK_SHM);
}

static unsigned level_of(uint16_t port)
{
	to_port(port);
	return history_level(&sk);
}

/* Connections that are open, have moved, and are silent since. */
static struct osf_stats_sock open_ones[HISTORY_MOVES];

static void moves_to(uint16_t port, unsigned i)
{
	open_ones[i] =
	    (struct osf_stats_sock){ .in_use = i + 1, .peer_port = port };
	struct sock one = { .st = &open_ones[i], .flags = SOCK_F_ACTIVE };
	history_moves(&one);
}

static void moves_that_gain_nothing_put_off_the_next(void **state)
{
	to_port(90);
	for (unsigned i = 0; i < HISTORY_MOVES; i++) {
		assert_false(history_is_doubtful(&sk));
		moves_to(90, i);
	}
	assert_true(history_is_doubtful(&sk));
	to_port(91);
	assert_false(history_is_doubtful(&sk));
	to_port(90);
	open_ones[3].rx_ops = open_ones[3].tx_ops = PAYS / 2;
	assert_false(history_is_doubtful(&sk));
	open_ones[3].rx_ops_inet = 1; /* by the kernel, before */
	assert_true(history_is_doubtful(&sk));
	open_ones[5].in_use = 0; /* it has ended */
	assert_false(history_is_doubtful(&sk));
	open_ones[5].in_use = 77; /* another one's entry */
	assert_false(history_is_doubtful(&sk));
	moves_to(90, 0); /* in place of the first, and so on */
	for (unsigned i = 1; i < HISTORY_MOVES; i++)
		moves_to(90, i);
	assert_true(history_is_doubtful(&sk));
	history_alone();
	assert_false(history_is_doubtful(&sk));
}

static void addresses_have_levels_of_their_own(void **state)
{
	to_port(80);
	history_note(&sk);
	assert_int_equal(level_of(80), 1);
	assert_int_equal(level_of(81), 0);
	to_port(80);
	entry.passive = 1; /* our own port 80 is another matter */
	entry.local_port = 80;
	assert_int_equal(history_level(&sk), 0);
}

static void some_teach_nothing(void **state)
{
	const uint8_t flags[] = { SOCK_F_ACTIVE | SOCK_F_EAGER,
				  SOCK_F_ACTIVE | SOCK_F_PORT,
				  SOCK_F_PASSIVE | SOCK_F_LISTEN, 0 };
	const enum sock_mode modes[] = { SOCK_KERNEL, SOCK_MODULE, SOCK_TCP };

	for (size_t i = 0; i < ARRAY_LEN(flags); i++) {
		to_port(82);
		sk.flags = flags[i];
		history_note(&sk);
	}
	for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
		to_port(82);
		sk.state = SOCK_STATE(modes[i]);
		history_note(&sk);
	}
	assert_int_equal(level_of(82), 0);
}

/* In a process of its own, which forks.  Return: whether it is as it should be. */
static bool forks_teach(void)
{
	int status;
	pid_t child;

	history_start();
	if (!(child = fork())) {
		to_port(90);
		history_note(&sk);
		history_alone();
		bool forgot = level_of(90) == 0;
		to_port(91);
		history_note(&sk);
		_exit(!forgot || level_of(91) != 1);
	}
	return waitpid(child, &status, 0) == child && !status &&
	       level_of(90) == 1 && level_of(91) == 0;
}

static void a_child_teaches_its_parent_until_it_is_alone(void **state)
{
	int status;
	pid_t child = fork();

	if (!child)
		_exit(!forks_teach());
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_length_finds_its_level),
		cmocka_unit_test(many_that_run_at_once_raise_it_once),
		cmocka_unit_test(one_that_lasts_makes_it_0),
		cmocka_unit_test(many_bytes_pay_however_few_the_calls),
		cmocka_unit_test(milestones_saturate),
		cmocka_unit_test(moves_that_gain_nothing_put_off_the_next),
		cmocka_unit_test(addresses_have_levels_of_their_own),
		cmocka_unit_test(some_teach_nothing),
		cmocka_unit_test(a_child_teaches_its_parent_until_it_is_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
