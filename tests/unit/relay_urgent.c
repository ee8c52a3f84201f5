/* SPDX-License-Identifier: MIT */
/*
 * tests/unit/relay_urgent.c - behind a relay a socket has its options, and urgent bytes
 *
 * See relay_ends.h.
 */
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/time.h>

#include "relay_ends.h"

static void is_readable(int fd, short events)
{
	struct pollfd p = { .fd = fd, .events = events };

	assert_int_equal(poll(&p, 1, -1), 1);
	assert_true(p.revents & events);
}

/* @text, whose last byte is urgent, goes from @from to @to. */
static void urgent_goes(int from, int to, const char *text)
{
	size_t n = strlen(text) - 1;
	char got[100];
	int at_mark = 0;

	assert_int_equal(send(from, text, n + 1, MSG_OOB), n + 1);
	is_readable(to, POLLPRI);
	assert_int_equal(recv(to, got, n, MSG_WAITALL), n);
	assert_memory_equal(got, text, n);
	assert_int_equal(ioctl(to, SIOCATMARK, &at_mark), 0);
	assert_int_equal(at_mark, 1);
	assert_int_equal(recv(to, got, 1, MSG_OOB), 1);
	assert_int_equal(got[0], text[n]);
}

static void an_urgent_byte_stays_urgent_both_ways(void **state)
{
	struct ends e;
	char c;

	(void)state;
	begin(&e, "ring", 0, false);
	reads(&e, "ring");
	urgent_goes(e.out, e.peer, "!");
	urgent_goes(e.out, e.peer, "?");
	assert_int_equal(send(e.out, ".", 1, 0), 1);
	assert_int_equal(recv(e.peer, &c, 1, 0), 1);
	urgent_goes(e.peer, e.out, "for you!");
	says(&e, "and more");
	reads(&e, "and more");
	ends(&e);
}

static void an_urgent_byte_comes_behind_a_doorbell(void **state)
{
	struct ends e;

	(void)state;
	begin(&e, "ring", 1, false);
	reads(&e, "ring");
	says(&e, "!");
	urgent_goes(e.peer, e.out, "now");
	ends(&e);
}

/* The program has read it apart, and not yet the bytes before it. */
static void an_urgent_byte_that_was_read_does_not_come_again(void **state)
{
	struct ends e;
	char c;

	(void)state;
	connect_ends(&e);
	assert_int_equal(send(e.peer, "tcp!", 4, MSG_OOB), 4);
	is_readable(e.anchor, POLLPRI);
	assert_int_equal(recv(e.anchor, &c, 1, MSG_OOB), 1);
	begin_relay(&e, "ring", 0, false);
	says(&e, " and more");
	reads(&e, "ringtcp and more");
	ends(&e);
}

static void set(int fd, int level, int name, int v)
{
	assert_int_equal(setsockopt(fd, level, name, &v, sizeof(v)), 0);
}

static int get(int fd, int level, int name)
{
	int v = -1;
	socklen_t len = sizeof(v);

	assert_int_equal(getsockopt(fd, level, name, &v, &len), 0);
	return v;
}

static void the_new_socket_has_the_options_of_the_old_one(void **state)
{
	struct timeval tv = { .tv_sec = 7 };
	struct linger linger = { .l_onoff = 1, .l_linger = 3 };
	socklen_t tv_len = sizeof(tv), linger_len = sizeof(linger);
	struct ends e;

	(void)state;
	signal(SIGIO, SIG_IGN);
	connect_ends(&e);
	set(e.anchor, SOL_SOCKET, SO_KEEPALIVE, 1);
	set(e.anchor, SOL_SOCKET, SO_OOBINLINE, 1);
	set(e.anchor, SOL_SOCKET, SO_RCVLOWAT, 5);
	set(e.anchor, SOL_SOCKET, SO_SNDBUF, 50000);
	set(e.anchor, IPPROTO_TCP, TCP_KEEPIDLE, 99);
	set(e.anchor, IPPROTO_TCP, TCP_USER_TIMEOUT, 4000);
	setsockopt(e.anchor, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	setsockopt(e.anchor, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
	fcntl(e.anchor, F_SETFL, O_ASYNC);
	fcntl(e.anchor, F_SETOWN, getpid());
	begin_relay(&e, "ring", 0, false);
	assert_int_equal(get(e.out, SOL_SOCKET, SO_KEEPALIVE), 1);
	assert_int_equal(get(e.out, SOL_SOCKET, SO_OOBINLINE), 1);
	assert_int_equal(get(e.out, SOL_SOCKET, SO_RCVLOWAT), 5);
	assert_int_equal(get(e.out, SOL_SOCKET, SO_SNDBUF), 100000);
	assert_int_equal(get(e.out, IPPROTO_TCP, TCP_KEEPIDLE), 99);
	assert_int_equal(get(e.out, IPPROTO_TCP, TCP_USER_TIMEOUT), 4000);
	tv.tv_sec = linger.l_linger = 0;
	getsockopt(e.out, SOL_SOCKET, SO_RCVTIMEO, &tv, &tv_len);
	assert_int_equal(tv.tv_sec, 7);
	getsockopt(e.out, SOL_SOCKET, SO_LINGER, &linger, &linger_len);
	assert_int_equal(linger.l_linger, 3);
	assert_true(fcntl(e.out, F_GETFL) & O_ASYNC);
	assert_int_equal(fcntl(e.out, F_GETOWN), getpid());
	linger.l_onoff = 0;
	setsockopt(e.out, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
	fcntl(e.out, F_SETFL, 0);
	reads(&e, "ring");
	ends(&e);
}

/* The relay's own reads do not wait for as many bytes as the program's. */
static void fewer_bytes_than_the_low_water_mark_come_through(void **state)
{
	struct ends e;

	(void)state;
	connect_ends(&e);
	set(e.anchor, SOL_SOCKET, SO_RCVLOWAT, 500);
	begin_relay(&e, "", 0, false);
	set(e.out, SOL_SOCKET, SO_RCVLOWAT, 1);
	says(&e, "tcp");
	reads(&e, "tcp");
	ends(&e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_urgent_byte_stays_urgent_both_ways),
		cmocka_unit_test(an_urgent_byte_comes_behind_a_doorbell),
		cmocka_unit_test(
		    an_urgent_byte_that_was_read_does_not_come_again),
		cmocka_unit_test(the_new_socket_has_the_options_of_the_old_one),
		cmocka_unit_test(
		    fewer_bytes_than_the_low_water_mark_come_through),
	};

	libc_resolve();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
