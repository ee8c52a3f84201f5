/* SPDX-License-Identifier: MIT */
/*
 * tests/unit/io_waits.c - a call that moves its bytes in parts, and handlers between them
 *
 * sock/io.c alone, with a protocol and a wait that do what the test says, step by step.
 */
#include <errno.h>
#include <poll.h>

#include "sock/errq.h"
#include "sock/idle.h"
#include "sock/io.h"
#include "sock/wait.h"
#include "unit.h"

/* What the protocol answers next; 0: it is asked no more. */
static const ssize_t *answers;
/* Which handlers run in the next wait. */
enum { NONE, RESTARTS, ENDS, CLOSES, CLOSES_AND_ENDS };
static const int *handlers;

static ssize_t answer(struct sock *sk, int fd, const struct iovec *iov,
		      size_t n, int flags)
{
	assert_int_not_equal(*answers, 0);
	if (*answers == -ESTALE)
		sk->state = SOCK_STATE(SOCK_KERNEL);
	return *answers++;
}

/* As protocols do: what ran before it sleeps counts, what wakes it does not. */
int wait_for(struct sock *sk, int fd, const struct call_wait *w)
{
	if (handlers_ran(w->seen, waiter_restarts(w)))
		return -EINTR;
	int ran = *handlers++;

	lock_held.n_handled += ran != NONE;
	lock_held.n_ends += ran == ENDS || ran == CLOSES_AND_ENDS;
	return ran >= CLOSES ? -EBADF : 0;
}

/* Nobody else closes a descriptor or moves a socket. */
int wait_fd(const struct sock *sk, int fd, struct handlers_seen seen)
{
	return fd;
}

void sock_moving(struct sock *sk) {}
bool sock_moves_long(const struct sock *sk) { return false; }

static unsigned n_naps;
void vain_sleep(struct vain *v) { n_naps++; }

ssize_t errq_recv(struct sock *sk, int fd, struct msghdr *msg, int flags)
{
	return -EAGAIN;
}

/* The kernel's, where it has the connection. */
unsigned idle_ends_of(const struct sock *sk) { return POLLERR | POLLHUP; }
bool idle_may_wait(const struct sock *sk, int flags) { return true; }
struct call_wait idle_wait_of(int fd, int dir)
{
	return (struct call_wait){ .dir = dir };
}
int idle_wait_until(struct sock *sk, int *fd, struct call_wait *w,
		    unsigned want, unsigned *events)
{
	return 0;
}

static int unread;
static unsigned kernel_has;
static int kernel_inq(struct sock *sk, int fd) { return unread; }
static unsigned kernel_events(struct sock *sk, int fd) { return kernel_has; }

/* There are no urgent bytes. */
static bool has_no_mark(struct sock *sk, int fd) { return true; }

static const struct sock_ops ops = { .name = "steps",
				     .is_ours = true,
				     .own_events = true,
				     .send = answer,
				     .recv = answer,
				     .is_before_mark = has_no_mark };
static const struct sock_ops kernel_ops = { .name = "kernel",
					    .send = answer,
					    .recv = answer,
					    .inq = kernel_inq,
					    .events = kernel_events };
const struct sock_ops *const sock_tables[SOCK_TABLES] = {
	[0 ... SOCK_KERNEL - 1] = &ops,
	[SOCK_KERNEL] = &kernel_ops,
	[SOCK_KERNEL + 1 ... SOCK_TABLES - 1] = &ops,
};

static struct osf_stats_sock stats;
static struct sock sk = { .w = &sk.own_words, .st = &stats };
static struct iovec iov = { &sk, 1000 };

static ssize_t send_1000(const ssize_t *steps, const int *runs)
{
	answers = steps;
	handlers = runs;
	sk.state = 0;
	return io_send(&sk, &ops, 3, &iov, 1, 1000, 0);
}

static ssize_t recv_1000(const ssize_t *steps, const int *runs)
{
	answers = steps;
	handlers = runs;
	sk.state = 0;
	return io_recv(&sk, &ops, 3, &iov, 1, MSG_WAITALL);
}

static const ssize_t in_parts[] = { -EAGAIN, 700, -EAGAIN, 300, 0 };

static void a_call_waits_until_all_is_moved(void **state)
{
	assert_int_equal(send_1000(in_parts, (int[]){ NONE, NONE }), 1000);
	assert_int_equal(recv_1000(in_parts, (int[]){ NONE, NONE }), 1000);
}

/* The kernel starts the call anew, and knows nothing of the handler any more. */
static void a_handler_that_restarts_counts_until_a_byte_is_moved(void **state)
{
	assert_int_equal(send_1000(in_parts, (int[]){ RESTARTS, NONE }), 1000);
	assert_int_equal(recv_1000(in_parts, (int[]){ RESTARTS, NONE }), 1000);
}

static void any_handler_ends_a_call_that_has_moved_some(void **state)
{
	static const ssize_t thirds[] = {
		-EAGAIN, 300, -EAGAIN, 300, -EAGAIN, 0
	};

	assert_int_equal(send_1000(thirds, (int[]){ NONE, RESTARTS }), 600);
	assert_int_equal(recv_1000(thirds, (int[]){ NONE, RESTARTS }), 600);
}

static void a_handler_that_ends_calls_is_not_forgotten(void **state)
{
	assert_int_equal(send_1000(in_parts, (int[]){ ENDS }), 700);
	assert_int_equal(recv_1000(in_parts, (int[]){ ENDS }), 700);
	static const ssize_t nothing[] = { -EAGAIN, -EAGAIN, 0 };
	assert_int_equal(send_1000(nothing, (int[]){ ENDS }), -EINTR);
}

/* The descriptor has gone.  The kernel's call still has the socket, and says what ended it. */
static void a_handler_that_closes_ends_a_call_as_others_do(void **state)
{
	static const ssize_t nothing[] = { -EAGAIN, 0 };

	assert_int_equal(recv_1000(nothing, (int[]){ CLOSES_AND_ENDS }),
			 -EINTR);
	assert_int_equal(send_1000(nothing, (int[]){ CLOSES_AND_ENDS }),
			 -EINTR);
	assert_int_equal(recv_1000(nothing, (int[]){ CLOSES }), -EBADF);
	assert_int_equal(send_1000(nothing, (int[]){ CLOSES }), -EBADF);
}

#define VAIN (3 * VAIN_WAITS)

/* Whoever can wake a call cannot keep it awake. */
static void waits_in_vain_that_follow_each_other_take_naps(void **state)
{
	static ssize_t vain[VAIN + 2];
	static int none[VAIN + 1];

	for (unsigned i = 0; i < VAIN; i++)
		vain[i] = -EAGAIN;
	vain[VAIN] = 1000;
	n_naps = 0;
	assert_int_equal(send_1000(vain, none), 1000);
	assert_int_equal(n_naps, VAIN / VAIN_WAITS);
	n_naps = 0;
	assert_int_equal(recv_1000(vain, none), 1000);
	assert_int_equal(n_naps, VAIN / VAIN_WAITS);
}

static void a_call_that_moves_bytes_takes_no_naps(void **state)
{
	static ssize_t steps[2 * VAIN + 2];
	static int none[VAIN + 1];

	for (unsigned i = 0; i < VAIN; i++) {
		steps[2 * i] = -EAGAIN;
		steps[2 * i + 1] = 1;
	}
	steps[2 * VAIN] = 1000 - VAIN;
	n_naps = 0;
	assert_int_equal(send_1000(steps, none), 1000);
	assert_int_equal(recv_1000(steps, none), 1000);
	assert_int_equal(n_naps, 0);
}

static const ssize_t to_the_kernel[] = { 700, -ESTALE, 200, 0 };

static void an_error_of_the_kernels_is_for_the_next_call(void **state)
{
	unread = 0;
	kernel_has = POLLERR | POLLHUP;
	assert_int_equal(recv_1000(to_the_kernel, NULL), 700);
	assert_int_equal(send_1000(to_the_kernel, NULL), 700);
}

static void a_call_goes_on_in_the_kernel(void **state)
{
	unread = 200;
	kernel_has = POLLOUT;
	assert_int_equal(recv_1000(to_the_kernel, NULL), 900);
	assert_int_equal(send_1000(to_the_kernel, NULL), 900);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_call_waits_until_all_is_moved),
		cmocka_unit_test(
		    a_handler_that_restarts_counts_until_a_byte_is_moved),
		cmocka_unit_test(any_handler_ends_a_call_that_has_moved_some),
		cmocka_unit_test(a_handler_that_ends_calls_is_not_forgotten),
		cmocka_unit_test(
		    a_handler_that_closes_ends_a_call_as_others_do),
		cmocka_unit_test(
		    waits_in_vain_that_follow_each_other_take_naps),
		cmocka_unit_test(a_call_that_moves_bytes_takes_no_naps),
		cmocka_unit_test(an_error_of_the_kernels_is_for_the_next_call),
		cmocka_unit_test(a_call_goes_on_in_the_kernel),
	};

	sk.w->rcvlowat = 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
