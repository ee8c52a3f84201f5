/* SPDX-License-Identifier: MIT */
/*
 * tests/unit/arena_grows.c - sockets get room as they come, and stay where they are
 *
 * sock/arena.c alone, in a process for each test.
 */
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/libc.h"
#include "base/log.h"
#include "sock/arena.h"
#include "sock/packets.h"
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
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *e;
	int fd = -1;
	char to[64];

	CHECK(dir);
	while (fd < 0 && (e = readdir(dir))) {
		ssize_t n =
		    readlinkat(dirfd(dir), e->d_name, to, sizeof(to) - 1);
		if (n > 0 && !strncmp(to, "/memfd:" OSF_STATS_MEMFD, 16))
			fd = atoi(e->d_name);
	}
	closedir(dir);
	return fd;
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

static struct osf_stats_packets row_at(unsigned i)
{
	struct osf_stats_packets row;

	CHECK(pread(open_segment(), &row, sizeof(row),
		    (off_t)(OSF_STATS_PACKETS_AT + i * sizeof(row))) ==
	      sizeof(row));
	return row;
}

static void table_of_packets(void)
{
	static struct packets p[OSF_STATS_PACKETS_MAX + 1];
	struct stat before, after;

	CHECK(!arena_open() && !fstat(open_segment(), &before));
	for (int i = 0; i <= OSF_STATS_PACKETS_MAX; i++) {
		packets_open(&p[i], i, i % 2);
		p[i].at->n_dropped = (unsigned)i;
	}
	CHECK(!fstat(open_segment(), &after));
	CHECK(after.st_blocks > before.st_blocks); /* it was a hole */
	CHECK(p[OSF_STATS_PACKETS_MAX].at == &p[OSF_STATS_PACKETS_MAX].own);
	for (unsigned i = 0; i < OSF_STATS_PACKETS_MAX; i++) {
		struct osf_stats_packets row = row_at(i);

		CHECK(row.in_use && row.fd == (int)i && row.is_udp == i % 2 &&
		      row.n_dropped == i);
	}
	uint32_t was = row_at(7).in_use;
	packets_close(&p[7]);
	CHECK(!row_at(7).in_use);
	packets_open(&p[7], 500, false);
	CHECK(row_at(7).in_use != was && row_at(7).fd == 500 &&
	      !row_at(7).n_dropped);
	packets_close(&p[7]);
	pid_t pid = fork();
	if (!pid) {
		struct osf_stats_packets *theirs = p[5].at;

		arena_after_fork();
		CHECK(p[5].at != theirs && p[5].at->n_dropped == 5);
		p[5].at->n_dropped = 99;
		CHECK(theirs->n_dropped == 5);
		_exit(0);
	}
	int status;
	CHECK(waitpid(pid, &status, 0) == pid && !status);
}

static void packets_are_counted_in_the_file_while_it_has_room(void **state)
{
	in_child(table_of_packets);
}

static void child_opens_late(void)
{
	CHECK(!arena_open() && open_segment() >= 0);
	pid_t pid = fork();
	if (!pid) {
		arena_after_fork();
		CHECK(arena_is_open() && open_segment() < 0);
		struct sock *sk = sock_new(0);
		CHECK(sk && arena_has(sk) && open_segment() >= 0);
		arena_totals()->n_accepted = 3;
		_exit(0);
	}
	int status;
	CHECK(waitpid(pid, &status, 0) == pid && !status);
	CHECK(!arena_totals()->n_accepted);
}

static void a_child_opens_a_file_when_it_needs_one(void **state)
{
	in_child(child_opens_late);
}

/* As vma_stats -l does. */
static void level_from_outside(void)
{
	struct osf_stats_log log;

	CHECK(!arena_open() && log_level() == -1);
	int fd = open_segment();
	CHECK(pread(fd, &log, sizeof(log), OSF_STATS_LOG_AT) == sizeof(log));
	CHECK(log.level == -1 && log.fd == -1);
	log.level = LOG_LEVEL_DBG;
	CHECK(pwrite(fd, &log, sizeof(log), OSF_STATS_LOG_AT) == sizeof(log));
	CHECK(log_level() == LOG_LEVEL_DBG);
	pid_t pid = fork();
	if (!pid) {
		arena_after_fork();
		CHECK(log_level() == LOG_LEVEL_DBG);
		log_now->level = LOG_LEVEL_ERR;
		_exit(0);
	}
	int status;
	CHECK(waitpid(pid, &status, 0) == pid && !status);
	CHECK(log_level() == LOG_LEVEL_DBG);
}

static void the_level_of_the_log_can_be_written(void **state)
{
	in_child(level_from_outside);
}

#define FREED 30000

static struct sock *_Atomic reaped;

/* As a thread that reaps the claims of a child that has ended: it does not hold the socket. */
static void *let_go_of_nothing(void *arg)
{
	struct sock *sk;

	while ((sk = reaped))
		CHECK(!arena_let_go(sk, 0));
	return NULL;
}

static void freed_meanwhile(void)
{
	pthread_t reaper;

	CHECK(!arena_open());
	struct sock *sk = reaped = sock_new(-1);
	CHECK(sk && !pthread_create(&reaper, NULL, let_go_of_nothing, NULL));
	for (int i = 0; i < FREED; i++) {
		struct shared_page *p =
		    mmap(NULL, SHARED_BYTES, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS, -1, 0);

		CHECK(p != MAP_FAILED);
		p->holders.n_procs = 1;
		store_rel(&sk->page, p);
		CHECK(sock_let_go(sk, 1));
		sock_free(sk);
		CHECK(sock_new(-1) == sk);
	}
	reaped = NULL;
	CHECK(!pthread_join(reaper, NULL));
}

static void a_count_is_not_touched_once_it_is_freed(void **state)
{
	in_child(freed_meanwhile);
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
		cmocka_unit_test(a_child_opens_a_file_when_it_needs_one),
		cmocka_unit_test(a_limit_on_files_is_a_limit_on_sockets),
		cmocka_unit_test(a_file_of_the_program_is_not_written_to),
		cmocka_unit_test(
		    packets_are_counted_in_the_file_while_it_has_room),
		cmocka_unit_test(the_level_of_the_log_can_be_written),
		cmocka_unit_test(a_count_is_not_touched_once_it_is_freed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
