/* SPDX-License-Identifier: MIT */
/*
 * tests/unit/bell_rings.c - a bell wakes who sleeps on it, whatever its holders do
 *
 * Both ends are in this process: the copy that a peer would keep is a dup().
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/libc.h"
#include "base/lock.h"
#include "base/bell.h"
#include "unit.h"

#define PEER 4711 /* a process, as the kernel would name it */

/* The calling thread's bell, as process @pid would have it. */
static int copy_of_mine(pid_t to)
{
	int fd = dup(bell_fd_get(bell_mine(), to));

	bell_fd_put();
	return fd;
}

static struct peer_bells keep_mine(void)
{
	struct peer_bells kept = { 0 };

	assert_int_equal(
	    bell_keep(&kept, bell_mine(), copy_of_mine(PEER), PEER), 0);
	return kept;
}

static bool is_rung(uint32_t bell)
{
	struct pollfd p = { .fd = bell_own_fd(bell), .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

static void a_ring_is_seen_until_it_is_hushed(void **state)
{
	struct peer_bells kept = keep_mine();
	uint32_t bell = bell_mine();

	assert_int_not_equal(bell, BELL_NONE);
	assert_false(is_rung(bell));
	assert_true(bell_ring(&kept, bell));
	assert_true(is_rung(bell));
	assert_true(bell_ring(&kept, bell));
	bell_hush(bell);
	assert_false(is_rung(bell));
	bells_forget(&kept);
}

/* Nothing is ever read. */
static void an_edge_triggered_set_reports_each_ring(void **state)
{
	struct peer_bells kept = keep_mine();
	uint32_t bell = bell_mine();
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET };
	int ep = epoll_create1(EPOLL_CLOEXEC);

	assert_int_equal(epoll_ctl(ep, EPOLL_CTL_ADD, bell_own_fd(bell), &ev),
			 0);
	for (int i = 0; i < 1000; i++) {
		assert_true(bell_ring(&kept, bell));
		assert_int_equal(epoll_wait(ep, &ev, 1, 0), 1);
		assert_int_equal(epoll_wait(ep, &ev, 1, 0), 0);
	}
	close(ep);
	bell_hush(bell);
	bells_forget(&kept);
}

/* With an eventfd the second half would sleep for ever. */
static void a_holder_cannot_make_another_one_wait(void **state)
{
	struct peer_bells kept = keep_mine();
	uint32_t bell = bell_mine();
	int foe = copy_of_mine(PEER);

	assert_int_equal(fcntl(foe, F_SETFL, 0), 0);
	for (int i = 0; i < 100000; i++)
		assert_true(bell_ring(&kept, bell));
	bell_hush(bell);
	bell_hush(bell);
	assert_true(bell_ring(&kept, bell));
	assert_true(is_rung(bell));
	bell_hush(bell);
	close(foe);
	bells_forget(&kept);
}

/* A timer that a holder starts is a ring, no more. */
static void hushing_ends_a_holders_timer(void **state)
{
	const struct itimerspec soon = { .it_value.tv_nsec = 1,
					 .it_interval.tv_nsec = 1 };
	struct pollfd p = { .fd = bell_own_fd(bell_mine()), .events = POLLIN };
	int foe = copy_of_mine(PEER);

	assert_int_equal(timerfd_settime(foe, 0, &soon, NULL), 0);
	assert_int_equal(poll(&p, 1, -1), 1);
	bell_hush(bell_mine());
	assert_int_equal(poll(&p, 1, 0), 0);
	close(foe);
}

static void what_is_no_bell_is_refused_and_closed(void **state)
{
	struct peer_bells kept = { 0 };
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	assert_int_equal(bell_keep(&kept, 0, pair[0], PEER), -EBADMSG);
	assert_int_equal(fcntl(pair[0], F_GETFD), -1);
	close(pair[1]);
	int fd = copy_of_mine(PEER);
	assert_int_equal(bell_keep(&kept, BELLS, fd, PEER), -EBADMSG);
	assert_int_equal(fcntl(fd, F_GETFD), -1);
	assert_int_equal(bell_keep(&kept, 0, -1, PEER), -EBADMSG);
	assert_false(bell_is_kept(&kept, 0));
	assert_false(bell_ring(&kept, 0));
	assert_false(bell_ring(&kept, BELL_NONE));
}

/* Otherwise a third process could put a bell of its own in the place of the peer's. */
static void bells_that_two_processes_pass_are_none(void **state)
{
	struct peer_bells kept = keep_mine();
	uint32_t bell = bell_mine(), other = (bell + 1) % BELLS;

	assert_true(bell_is_kept(&kept, bell));
	assert_int_equal(bell_keep(&kept, other, copy_of_mine(PEER), PEER + 1),
			 -EPERM);
	assert_false(bell_is_kept(&kept, bell));
	assert_false(bell_ring(&kept, bell));
	assert_int_equal(bell_keep(&kept, bell, copy_of_mine(PEER), PEER),
			 -EPERM);
}

static pid_t tid; /* of the thread below */

static void *private_bell(void *arg)
{
	struct peer_bells kept = keep_mine();

	*(uint32_t *)arg = bell_mine();
	tid = gettid();
	assert_true(bell_is_private(bell_mine()));
	bells_forget(&kept);
	return NULL;
}

static uint32_t bell_of_a_thread(void)
{
	uint32_t bell = BELL_NONE;
	pthread_t t;

	assert_int_equal(pthread_create(&t, NULL, private_bell, &bell), 0);
	pthread_join(t, NULL);
	while (!tgkill(getpid(), tid, 0)) /* the kernel is still at it */
		sched_yield();
	return bell;
}

static void a_thread_that_has_ended_leaves_its_bell_to_the_next(void **state)
{
	uint32_t mine = bell_mine(), first = bell_of_a_thread();

	assert_int_not_equal(first, BELL_NONE);
	assert_int_not_equal(first, mine);
	assert_int_equal(bell_of_a_thread(), first);
	assert_int_equal(bell_mine(), mine);
}

static void a_bell_that_two_processes_have_is_not_private(void **state)
{
	uint32_t bell = bell_mine();

	close(copy_of_mine(PEER));
	assert_true(bell_is_private(bell));
	close(copy_of_mine(PEER + 1));
	assert_false(bell_is_private(bell));
	assert_false(bell_is_private(BELL_NONE));
}

static void a_child_has_bells_of_its_own(void **state)
{
	int fd = bell_own_fd(bell_mine()), status;
	pid_t child = fork();

	if (!child) {
		lock_after_fork();
		bells_after_fork();
		bool closed = fcntl(fd, F_GETFD) < 0;
		bool works =
		    bell_own_fd(bell_mine()) >= 0 && !is_rung(bell_mine());

		_exit(closed && works ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_true(fcntl(fd, F_GETFD) >= 0);
}

/* The last: there are none any more. */
static void bells_that_are_closed_for_want_of_descriptors_stay_so(void **state)
{
	struct peer_bells kept = keep_mine();
	uint32_t bell = bell_mine();

	assert_true(bells_spare_fds());
	assert_false(bells_spare_fds());
	assert_int_equal(bell_own_fd(bell), -1);
	assert_int_equal(bell_fd_get(bell, PEER), -EMFILE);
	bell_fd_put();
	bell_hush(bell);
	assert_true(bell_ring(&kept, bell)); /* the copy is the peer's */
	bells_forget(&kept);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_ring_is_seen_until_it_is_hushed),
		cmocka_unit_test(an_edge_triggered_set_reports_each_ring),
		cmocka_unit_test(a_holder_cannot_make_another_one_wait),
		cmocka_unit_test(hushing_ends_a_holders_timer),
		cmocka_unit_test(what_is_no_bell_is_refused_and_closed),
		cmocka_unit_test(bells_that_two_processes_pass_are_none),
		cmocka_unit_test(
		    a_thread_that_has_ended_leaves_its_bell_to_the_next),
		cmocka_unit_test(a_bell_that_two_processes_have_is_not_private),
		cmocka_unit_test(a_child_has_bells_of_its_own),
		cmocka_unit_test(
		    bells_that_are_closed_for_want_of_descriptors_stay_so),
	};

	libc_resolve();
	if (bell_mine() == BELL_NONE)
		return 77; /* this kernel has no such call */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
