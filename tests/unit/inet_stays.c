/* SPDX-License-Identifier: MIT */
/*
 * tests/unit/inet_stays.c - a young connection that is to stay with the kernel, and another
 * thread that begins to move it just then
 *
 * A call looks its table up first.  Between that and what it does, another thread may be
 * in the middle of an upgrade.  The kernel's end of the connection is a real one.
 */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/libc.h"
#include "proto/inet/inet.h"
#include "sock/errq.h"
#include "sock/idle.h"
#include "sock/shared.h"
#include "sock/switch.h"
#include "unit.h"

static struct osf_stats_sock stats;
static struct sock sock;
static int here, there; /* the two ends */
static int n_withdrawn;

/*
 * What the tables call.
 */

const struct sock_ops *const sock_tables[SOCK_TABLES];

void sock_withdraw(struct sock *sk, int fd) { n_withdrawn++; }
void shared_mode(struct sock *sk, enum sock_mode mode) {}

/* Another process moves it. */
static int n_looks;
void sock_moving(struct sock *sk) { n_looks++; }
bool sock_moves_long(const struct sock *sk) { return n_looks >= 3; }

/* And what these calls do not come to. */
#define NEVER                                                                  \
	{                                                                      \
		abort();                                                       \
	}
void shared_alone(struct sock *sk, const struct sock *made) NEVER
    void sock_unshare(struct sock *sk) NEVER void sock_went_past(void) NEVER
    void sock_anchor_moved(struct sock *sk, int from, int to) NEVER
    bool sock_had_doorbells(const struct sock *sk) NEVER
    void sock_count_failed(struct sock *sk, int dir, int err, bool ours) NEVER
    void errq_by_kernel(struct sock *sk, int fd, unsigned n) NEVER ssize_t
    idle_recv(struct sock *sk, int fd, struct msghdr *m,
	      int flags) NEVER ssize_t
    idle_send(struct sock *sk, int fd, const struct msghdr *m,
	      int f) NEVER ssize_t
    idle_send_file(struct sock *sk, int fd, int in, off_t *o, size_t n) NEVER

    static int set_up(void **state)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(at);
	int lsn = socket(AF_INET, SOCK_STREAM, 0);

	assert_int_equal(bind(lsn, (struct sockaddr *)&at, len), 0);
	assert_int_equal(listen(lsn, 1), 0);
	getsockname(lsn, (struct sockaddr *)&at, &len);
	here = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(connect(here, (struct sockaddr *)&at, len), 0);
	there = accept(lsn, NULL, NULL);
	close(lsn);
	sock = (struct sock){ .st = &stats, .state = SOCK_STATE(SOCK_YOUNG) };
	sock.w = &sock.own_words;
	n_withdrawn = 0;
	return there < 0;
}

static int tear_down(void **state)
{
	close(here);
	close(there);
	return 0;
}

static bool has_fin(void)
{
	char byte;

	return recv(there, &byte, 1, MSG_DONTWAIT) == 0;
}

static void shutdown_sends_a_fin_and_ends_the_search(void **state)
{
	assert_int_equal(inet_young_ops.shutdown(&sock, here, SHUT_WR), 0);
	assert_int_equal(sock_mode(&sock), SOCK_KERNEL);
	assert_int_equal(n_withdrawn, 1);
	assert_true(has_fin());
}

static void shutdown_beside_a_call_pins_the_connection(void **state)
{
	assert_true(sock_enter(&sock)); /* a thread that reads */
	assert_int_equal(inet_young_ops.shutdown(&sock, here, SHUT_WR), 0);
	assert_int_equal(sock_mode(&sock), SOCK_YOUNG);
	assert_true(sock.w->stays);
	assert_true(has_fin());
}

static void shutdown_in_the_middle_of_a_move_sends_nothing(void **state)
{
	assert_true(sock_start_moving(&sock)); /* by another thread */
	assert_int_equal(inet_young_ops.shutdown(&sock, here, SHUT_WR),
			 -ESTALE);
	assert_false(has_fin());
	assert_int_equal(sock_mode(&sock), SOCK_UPGRADING);
}

static void disconnect_in_the_middle_of_a_move_does_nothing(void **state)
{
	struct sockaddr none = { .sa_family = AF_UNSPEC };
	struct sockaddr_in peer;
	socklen_t len = sizeof(peer);

	assert_true(sock_start_moving(&sock));
	assert_int_equal(
	    inet_young_ops.disconnect(&sock, here, &none, sizeof(none)),
	    -ESTALE);
	assert_int_equal(getpeername(here, (struct sockaddr *)&peer, &len), 0);
}

static void a_move_that_takes_long_ends_calls_that_may_not_wait(void **state)
{
	struct iovec iov = { &state, 1 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	n_looks = 0;
	assert_true(sock_start_moving(&sock));
	assert_int_equal(
	    inet_moving_ops.recv(&sock, here, &iov, 1, MSG_DONTWAIT), -EAGAIN);
	assert_int_equal(n_looks, 3);
	sock.w->nonblock = 1;
	assert_int_equal(inet_moving_ops.send(&sock, here, &iov, 1, 0),
			 -EAGAIN);
	assert_int_equal(inet_moving_ops.recvmsg(&sock, here, &msg, 0),
			 -EAGAIN);
	assert_int_equal(inet_moving_ops.sendmsg(&sock, here, &msg, 0),
			 -EAGAIN);
	assert_int_equal(inet_moving_ops.send_file(&sock, here, here, NULL, 1),
			 -EAGAIN);
	assert_int_equal(sock_mode(&sock), SOCK_UPGRADING);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(shutdown_sends_a_fin_and_ends_the_search),
		TEST(shutdown_beside_a_call_pins_the_connection),
		TEST(shutdown_in_the_middle_of_a_move_sends_nothing),
		TEST(a_move_that_takes_long_ends_calls_that_may_not_wait),
		TEST(disconnect_in_the_middle_of_a_move_does_nothing),
	};

	libc_resolve();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
