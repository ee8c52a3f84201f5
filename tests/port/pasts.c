/* SPDX-License-Identifier: MIT */
/*
 * tests/port/pasts.c - processes of one program share what moving connections has gained
 *
 *     pasts OSFD LIB         the tests
 *     pasts ask ADDRESS PORT under osf, asks the kernel THERE until it closes
 *
 * The page of osfd/past.h is one of a user's command line.  A program whose page says that
 * our TCP does not pay keeps its connections with the kernel from the beginning.
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/program.h"
#include "osfd/client.h"
#include "osfd/past.h"
#include "osfd_run.h"
#include "proto/tcp/past.h"
#include "unit.h"
#include "world.h"

#define SOMEBODY 12345
/* More than enough for a trial: the question to osfd makes the program sleep for each answer. */
#define TURNS 2000

static struct world world;
static const char *self_path, *lib_path;

/* MAP_FAILED: osfd has refused it. */
static void *page_of(int fd, uint64_t program)
{
	struct request q = { .past = { program } };
	struct reply r;
	int got[2];

	if (osfd_call(fd, MSG_PAST, &q, NULL, 0, &r, got))
		return MAP_FAILED;
	void *page = mmap(NULL, PAST_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
			  got[0], 0);
	assert_int_equal(ftruncate(got[0], 0), -1);
	close(got[0]);
	return page;
}

static uint64_t first_word(int fd, uint64_t program)
{
	uint64_t *page = page_of(fd, program);

	assert_ptr_not_equal(page, MAP_FAILED);
	uint64_t word = *page;
	munmap(page, PAST_BYTES);
	return word;
}

/* In a child.  Return: its status */
static int somebodys_page(bool has_port)
{
	struct reply r;

	if (setgid(SOMEBODY) || setuid(SOMEBODY))
		return 99;
	uint64_t *page = page_of(osfd_connect(&r), 1);
	if (page == MAP_FAILED)
		return has_port ? 1 : 0;
	return !has_port || *page ? 2 : 0;
}

static void a_page_is_of_a_user_and_a_program(void **state)
{
	struct reply r;
	int status, fd = must_connect(), other = must_connect();
	uint64_t *page = page_of(fd, 1);

	assert_ptr_not_equal(page, MAP_FAILED);
	*page = 4711;
	assert_int_equal(first_word(other, 1), 4711);
	assert_int_equal(first_word(other, 2), 0);
	for (int has_port = 0; has_port < 2; has_port++) {
		pid_t pid = fork();
		if (!pid)
			_exit(somebodys_page(has_port));
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
		assert_int_equal(port_call(fd, MSG_ADD, SOMEBODY, &r), 0);
	}
	munmap(page, PAST_BYTES);
	close(other);
	close(fd);
}

/* And not other pages, or more of them. */
static void the_oldest_page_makes_room(void **state)
{
	int fd = must_connect();
	uint64_t *page = page_of(fd, 1);
	unsigned n_fds = n_fds_of(osfd_pid);

	*page = 4711;
	munmap(page, PAST_BYTES);
	for (uint64_t i = 0; i < PASTS_PER_UID - 1; i++)
		assert_int_equal(first_word(fd, 100 + i), 0);
	assert_int_equal(first_word(fd, 1), 4711);
	for (uint64_t i = 0; i < PASTS_PER_UID; i++)
		assert_int_equal(first_word(fd, 200 + i), 0);
	assert_int_equal(first_word(fd, 1), 0);
	assert_int_equal(n_fds_of(osfd_pid), n_fds + PASTS_PER_UID - 1);
	close(fd);
}

/*
 * A program.
 */

static int listen_there(struct sockaddr_storage *at)
{
	socklen_t len = sizeof(*at);

	*at = world_addr(THERE, false, 0);
	world_enter(&world, THERE);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)at, addr_len(at)), 0);
	assert_int_equal(listen(fd, 1), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)at, &len), 0);
	world_enter(&world, HERE);
	return fd;
}

struct asker {
	pid_t pid;
	int fd; /* THERE */
	uint64_t number;
};

static void asker_start(struct asker *a, int listener,
			const struct sockaddr_storage *at)
{
	const struct sockaddr_in *in = (const void *)at;
	char port[8];
	char *argv[] = { (char *)self_path, (char *)"ask", (char *)"10.9.0.2",
			 port, NULL };
	int one = 1;

	snprintf(port, sizeof(port), "%u", ntohs(in->sin_port));
	program_start(argv);
	a->number = program_number() ^ PAST_LAYOUT;
	a->pid = fork();
	if (!a->pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		setenv("LD_PRELOAD", lib_path, 1);
		setenv("OSF_TCP", "1", 1);
		setenv("OSF_UPGRADE_PINGPONGS", "2", 1);
		execv(self_path, argv);
		_exit(127);
	}
	a->fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	assert_true(a->fd >= 0);
	setsockopt(a->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

static void answer(struct asker *a)
{
	char c;

	assert_int_equal(recv(a->fd, &c, 1, 0), 1);
	assert_int_equal(send(a->fd, &c, 1, MSG_NOSIGNAL), 1);
}

static void asker_end(struct asker *a)
{
	int status;

	shutdown(a->fd, SHUT_WR);
	assert_int_equal(waitpid(a->pid, &status, 0), a->pid);
	assert_int_equal(status, 0);
	close(a->fd);
}

static int ask(const char *address, const char *port)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_port = htons((uint16_t)atoi(port)) };
	int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
	char c = 'a';

	inet_pton(AF_INET, address, &to.sin_addr);
	if (connect(fd, (struct sockaddr *)&to, sizeof(to)))
		return 1;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	do
		if (send(fd, &c, 1, MSG_NOSIGNAL) != 1)
			return 2;
	while (recv(fd, &c, 1, 0) == 1);
	return 0;
}

static uint64_t n_segments(int fd)
{
	struct msg_listed first = { 0 };

	assert_int_equal(n_listed(fd, &first), 1);
	return first.n_segments;
}

static void what_did_not_pay_stays_with_the_kernel(void **state)
{
	struct sockaddr_storage at;
	struct asker a;
	int fd = must_connect(), listener = listen_there(&at);

	asker_start(&a, listener, &at);
	struct past *page = page_of(fd, a.number);
	while (n_segments(fd) == 0)
		answer(&a);
	asker_end(&a);
	*page = (struct past){ .until_ns = now_ns() + 300 * NS_PER_S,
			       .rest_ns = 320 * NS_PER_S,
			       .n_failed = 2,
			       .settles = 1 };
	uint64_t before = n_segments(fd);
	asker_start(&a, listener, &at);
	for (unsigned i = 0; i < TURNS; i++) {
		answer(&a);
		assert_int_equal(n_segments(fd), before);
	}
	asker_end(&a);
	munmap(page, PAST_BYTES);
	close(listener);
	close(fd);
}

#define TEST(name) OSFD_TEST(name, &world)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(a_page_is_of_a_user_and_a_program),
		TEST(the_oldest_page_makes_room),
		TEST(what_did_not_pay_stays_with_the_kernel),
	};

	if (argc == 4 && !strcmp(argv[1], "ask"))
		return ask(argv[2], argv[3]);
	if (argc != 3)
		return 1;
	self_path = argv[0];
	osfd_path = argv[1];
	lib_path = argv[2];
	return osfd_run_tests(&world, tests);
}
