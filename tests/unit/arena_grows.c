/* SPDX-License-Identifier: MIT */
/*
 * tests/unit/arena_grows.c - sockets get room as they come, and stay where they are
 *
 * sock/arena.c alone, in a process for each test.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/libc.h"
#include "sock/arena.h"
#include "sock/shared.h"
#include "unit.h"

/* No protocol. */
const struct sock_ops *const sock_tables[SOCK_TABLES];

#define KB 1024ul
#define MANY 5000

static unsigned long vm_bytes(void)
{
	unsigned long pages = 0;
	FILE *f = fopen("/proc/self/statm", "re");

	assert_non_null(f);
	assert_int_equal(fscanf(f, "%lu", &pages), 1);
	fclose(f);
	return pages * (unsigned long)sysconf(_SC_PAGESIZE);
}

/* Each test begins without a segment: in a child, whose status it is. */
static void in_child(void (*body)(void))
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		libc_resolve();
		body();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

#define CHECK(what)                                                            \
	do {                                                                   \
		if (!(what)) {                                                 \
			fprintf(stderr, "%d: %s\n", __LINE__, #what);          \
			_exit(1);                                              \
		}                                                              \
	} while (0)

static void reserves_little(void)
{
	unsigned long before = vm_bytes();

	CHECK(!arena_open());
	CHECK(vm_bytes() - before < 256 * KB);
	CHECK(sock_new(3));
	CHECK(vm_bytes() - before < 256 * KB);
}

static void a_process_without_sockets_reserves_little(void **state)
{
	in_child(reserves_little);
}

/* The segment as a reader finds it. */
static int open_segment(void)
{
	char path[32], to[64];

	for (int fd = 0; fd < 65536; fd++) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		ssize_t n = readlink(path, to, sizeof(to) - 1);
		if (n > 0 && !strncmp(to, "/memfd:" OSF_STATS_MEMFD, 16))
			return fd;
	}
	return -1;
}

static void addresses_stay(void)
{
	static struct sock *socks[MANY];
	struct osf_stats_header h;
	struct osf_stats_sock s;

	CHECK(!arena_open());
	for (int i = 0; i < MANY; i++) {
		CHECK((socks[i] = sock_new(i)));
		CHECK((uintptr_t)socks[i] % CACHE_LINE == 0);
	}
	for (int i = 0; i < MANY; i++)
		CHECK(socks[i]->st->fd == i && sock_procs(socks[i]) == 1);

	int fd = open_segment();
	CHECK(fd >= 0 && pread(fd, &h, sizeof(h), 0) == sizeof(h));
	CHECK(h.n_socks == MANY);
	for (int i = 0; i < MANY; i++) {
		CHECK(pread(fd, &s, sizeof(s),
			    h.header_size + (off_t)i * h.sock_size) ==
		      sizeof(s));
		CHECK(s.fd == i && s.in_use);
	}
}

static void entries_never_move_and_are_read_one_after_the_other(void **state)
{
	in_child(addresses_stay);
}

static uint32_t n_used(void)
{
	struct osf_stats_header h;

	CHECK(pread(open_segment(), &h, sizeof(h), 0) == sizeof(h));
	return h.n_socks;
}

static void freed_are_used_again(void)
{
	static struct sock *socks[200];

	CHECK(!arena_open());
	for (int round = 0; round < 50; round++) {
		for (int i = 0; i < 200; i++)
			CHECK((socks[i] = sock_new(i)));
		for (int i = 0; i < 200; i++)
			sock_free(socks[i]);
	}
	CHECK(n_used() == 200);
}

static void entries_that_were_freed_are_used_again(void **state)
{
	in_child(freed_are_used_again);
}

/* A child frees what it was the last to hold; this process finds it. */
static void freed_by_others(void)
{
	CHECK(!arena_open());
	for (int i = 0; i < 20000; i++) {
		struct sock *sk = sock_new(i);

		CHECK(sk);
		sk->is_held = 0;
		sk->st->in_use = 0; /* as the child leaves it */
	}
	CHECK(n_used() <= 128);
}

static void entries_that_others_freed_are_used_again(void **state)
{
	in_child(freed_by_others);
}

static void without_address_space(void)
{
	CHECK(!arena_open());
	struct rlimit all;
	CHECK(!getrlimit(RLIMIT_AS, &all));
	struct rlimit none = { vm_bytes(), all.rlim_max };
	CHECK(!setrlimit(RLIMIT_AS, &none));
	uint32_t n = 0;
	errno = EXDEV;
	while (n < MANY && sock_new((int)n))
		n++;
	CHECK(n >= 64 && n < MANY);
	CHECK(!sock_new(0));
	CHECK(errno == EXDEV);
	CHECK(!setrlimit(RLIMIT_AS, &all));
	CHECK(sock_new(0)); /* there is room again */
}

static void without_address_space_there_are_no_more(void **state)
{
	in_child(without_address_space);
}

static void with_short_files(void)
{
	struct rlimit small = { 64 * KB, 64 * KB };

	CHECK(!setrlimit(RLIMIT_FSIZE, &small));
	CHECK(!arena_open());
	uint32_t n = 0;
	while (n < MANY && sock_new((int)n))
		n++;
	CHECK(n >= 64 && n < MANY);
}

static void a_limit_on_files_is_a_limit_on_sockets(void **state)
{
	in_child(with_short_files);
}

/* The program has closed all descriptors, and opened its own under our number. */
static void file_of_the_program(void)
{
	char path[] = "/tmp/osf-arena.XXXXXX";

	CHECK(!arena_open());
	int ours = open_segment();
	int fd = mkstemp(path);
	CHECK(fd >= 0 && !unlink(path) && dup2(fd, ours) == ours);
	for (int i = 0; i < MANY; i++)
		sock_new(i);
	CHECK(lseek(fd, 0, SEEK_END) == 0);
}

static void a_file_of_the_program_is_not_written_to(void **state)
{
	in_child(file_of_the_program);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_process_without_sockets_reserves_little),
		cmocka_unit_test(
		    entries_never_move_and_are_read_one_after_the_other),
		cmocka_unit_test(entries_that_were_freed_are_used_again),
		cmocka_unit_test(entries_that_others_freed_are_used_again),
		cmocka_unit_test(without_address_space_there_are_no_more),
		cmocka_unit_test(a_limit_on_files_is_a_limit_on_sockets),
		cmocka_unit_test(a_file_of_the_program_is_not_written_to),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
