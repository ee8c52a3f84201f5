/* SPDX-License-Identifier: MIT */
/*
 * tests/unit/other_end_asks.c - what the kernel says about the other end, and by which
 * descriptor it is asked
 *
 * The descriptor is kept from one question to the next: it must not add up, not go to a
 * child, not outlive a program that needs its number, and never be what the program has
 * put in its place.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fork_lock.h"
#include "base/libc.h"
#include "proto/shm/notice.h"
#include "proto/shm/other_end.h"
#include "unit.h"

#define FDS_MAX 70000

struct pair {
	int a, b;
};

static struct pair connected(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(at);
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	struct pair p = { .a = socket(AF_INET, SOCK_STREAM, 0) };

	assert_int_equal(bind(listener, (void *)&at, len), 0);
	assert_int_equal(listen(listener, 1), 0);
	getsockname(listener, (void *)&at, &len);
	assert_int_equal(connect(p.a, (void *)&at, len), 0);
	p.b = accept(listener, NULL, NULL);
	close(listener);
	return p;
}

static void pair_close(struct pair p)
{
	close(p.a);
	close(p.b);
}

/* The one socket of the kind that this process has, or -1; @n: how many. */
static int kept_fd(int *n)
{
	int found = -1;

	*n = 0;
	for (int fd = 0; fd < FDS_MAX; fd++) {
		int domain = 0;
		socklen_t len = sizeof(domain);

		if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) ||
		    domain != AF_NETLINK)
			continue;
		found = fd;
		++*n;
	}
	return found;
}

static int n_kept(void)
{
	int n;

	kept_fd(&n);
	return n;
}

static void a_number_is_seen_from_the_other_end(void **state)
{
	struct pair p = connected();
	struct notice n = { 0 };
	struct other_end who;
	uint64_t number;

	assert_int_equal(notice_read(p.a, &who, &number), -ENOENT);
	assert_int_equal(notice_put(&n, p.b, 12345), 0);
	for (int i = 0; i < 20; i++) {
		assert_int_equal(notice_read(p.a, &who, &number), 0);
		assert_int_equal(number, 12345);
		assert_int_equal(notice_read(p.b, &who, &number), -ENOENT);
	}
	assert_int_equal(n_kept(), 1);
	assert_true(notice_remove(&n));
	assert_int_equal(notice_read(p.a, &who, &number), -ENOENT);
	pair_close(p);
}

static void a_child_has_another_one(void **state)
{
	struct pair p = connected();
	struct other_end e;
	int status;

	assert_int_equal(other_end_ask(p.a, &e), 0);
	assert_int_equal(n_kept(), 1);
	fork_lock_get();
	pid_t pid = fork();
	if (!pid) {
		fork_lock_child();
		_exit(n_kept() || other_end_ask(p.a, &e) || n_kept() != 1);
	}
	fork_lock_put();
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	pair_close(p);
}

static void it_can_be_spared(void **state)
{
	struct pair p = connected();
	struct other_end e;

	assert_int_equal(other_end_ask(p.a, &e), 0);
	assert_true(other_end_spare_fd());
	assert_int_equal(n_kept(), 0);
	assert_false(other_end_spare_fd());
	assert_int_equal(other_end_ask(p.a, &e), 0);
	pair_close(p);
}

/* A program may put a socket of its own under the number, by a call that nobody sees. */
static void what_the_program_puts_there_is_left_alone(void **state)
{
	struct pair p = connected();
	struct other_end e;
	char byte;
	int n, mine[2];

	assert_int_equal(other_end_ask(p.a, &e), 0);
	int fd = kept_fd(&n);
	assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM, 0, mine), 0);
	assert_int_equal(dup2(mine[0], fd), fd);
	assert_int_equal(other_end_ask(p.a, &e), 0);
	assert_int_equal(recv(mine[1], &byte, 1, MSG_DONTWAIT), -1);
	assert_int_equal(fcntl(fd, F_GETFD), 0);
	assert_int_equal(n_kept(), 1);
	close(fd);
	close(mine[0]);
	close(mine[1]);
	pair_close(p);
}

/* An answer that another process has waited for is no answer to ours. */
static void an_answer_to_another_question_is_not_taken(void **state)
{
	struct pair p = connected(), other = connected();
	struct notice shown = { 0 };
	struct other_end e, who;
	uint64_t number;
	char byte;
	int n;

	assert_int_equal(notice_put(&shown, other.b, 777), 0);
	assert_int_equal(notice_read(p.a, &who, &number), -ENOENT);
	int fd = kept_fd(&n);
	/* Ask by the same socket, and leave the answer there: the kernel refuses. */
	const uint32_t nonsense[5] = { sizeof(nonsense), 20 | 1 << 16, 99, 0,
				       UINT32_MAX };
	assert_int_equal(send(fd, nonsense, sizeof(nonsense), 0),
			 sizeof(nonsense));
	assert_true(recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1);
	assert_int_equal(notice_read(other.a, &who, &number), -EAGAIN);
	assert_int_equal(notice_read(other.a, &who, &number), 0);
	assert_int_equal(number, 777);
	assert_int_equal(other_end_ask(p.a, &e), 0);
	assert_true(notice_remove(&shown));
	pair_close(p);
	pair_close(other);
}

static void another_network_namespace_is_not_this_host(void **state)
{
	struct pair p = connected();
	struct other_end e;
	int status;

	assert_int_equal(other_end_ask(p.a, &e), 0);
	pid_t pid = fork();
	if (!pid) {
		if (unshare(CLONE_NEWNET))
			_exit(0); /* only root may */
		_exit(other_end_ask(p.a, &e) != 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	pair_close(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_number_is_seen_from_the_other_end),
		cmocka_unit_test(a_child_has_another_one),
		cmocka_unit_test(it_can_be_spared),
		cmocka_unit_test(what_the_program_puts_there_is_left_alone),
		cmocka_unit_test(an_answer_to_another_question_is_not_taken),
		cmocka_unit_test(another_network_namespace_is_not_this_host),
	};

	libc_resolve();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
