/* SPDX-License-Identifier: MIT */
/*
 * tests/unit/stream_contract.c - a protocol with streams keeps osf/stream.h's promises
 *
 * The test is in osf's place: it registers the protocol of tests/app/module_loop.c, gives
 * it sockets, calls its ops as the header says that osf does, and notes what it tells.
 * Time is what turn() is told.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "osf/proto.h"
#include "unit.h"

int osf_module_init(void);

/* osf's side of a stream. */
struct osf_sock {
	void *conn;
	unsigned n_told; /* notifications, and what of, since the last look */
	unsigned told;
	int failed; /* errno */
};

static const struct osf_proto *proto;
static const struct osf_stream_ops *ops;

int ops_proto_register(const struct osf_proto *p)
{
	proto = p;
	ops = p->stream;
	return 0;
}

void osf_sock_notify(struct osf_sock *sk, unsigned events)
{
	sk->n_told++;
	sk->told |= events;
}

void osf_sock_fail(struct osf_sock *sk, int err) { sk->failed = err; }

static struct osf_sock one, two;

static int set_up(void **state)
{
	one = two = (struct osf_sock){ 0 };
	return ops->pair(&one, &two, &one.conn, &two.conn);
}

static void end(struct osf_sock *s, int linger_s)
{
	if (s->conn)
		ops->close(s->conn, linger_s);
	s->conn = NULL;
}

static int tear_down(void **state)
{
	end(&one, -1);
	end(&two, -1);
	return 0;
}

static ssize_t put(struct osf_sock *s, const void *data, size_t n)
{
	struct iovec iov = { (void *)data, n };

	return ops->send(s->conn, &iov, 1, 0);
}

static ssize_t take(struct osf_sock *s, void *data, size_t n, int flags)
{
	struct iovec iov = { data, n };

	return ops->recv(s->conn, &iov, 1, flags);
}

/* As if it slept until the protocol wants its turn; false: it never does. */
static bool pass_time(struct osf_sock *s)
{
	uint64_t at = ops->next_ns(s->conn);

	if (at != UINT64_MAX)
		ops->turn(s->conn, at);
	return at != UINT64_MAX;
}

/* The loop that osf has above the ops: a call that does not block, then a sleep. */
static ssize_t take_all(struct osf_sock *s, uint8_t *data, size_t n)
{
	size_t got = 0;

	while (got < n) {
		ssize_t r = take(s, data + got, n - got, 0);

		if (r > 0)
			got += (size_t)r;
		else if (r != -EAGAIN)
			return got ? (ssize_t)got : r;
		else if (!pass_time(s))
			break;
	}
	return (ssize_t)got;
}

static void what_osf_needs_is_there(void **state)
{
	assert_true(proto->size >= OSF_PROTO_SIZE_3);
	assert_true(ops->size >= OSF_STREAM_SIZE_1);
	assert_null(proto->connect);
	assert_null(proto->accept);
	assert_non_null(ops->pair);
	assert_non_null(ops->send);
	assert_non_null(ops->recv);
	assert_non_null(ops->events);
	assert_non_null(ops->close);
}

static void a_stream_arrives_whole_and_in_order(void **state)
{
	enum { N = 1 << 20 };
	static uint8_t from[N], to[N];
	size_t sent = 0, got = 0;

	stream_fill(from, 0, N);
	while (got < N) {
		ssize_t r = put(&one, from + sent, N - sent);

		assert_true(r > 0 || r == -EAGAIN || sent == N);
		sent += r > 0 ? (size_t)r : 0;
		if (r > 0 && sent < N)
			continue;
		r = take_all(&two, to + got, sent - got);
		assert_true(r > 0);
		got += (size_t)r;
	}
	assert_int_equal(stream_differs(to, 0, N), N);
}

static void events_say_what_calls_will_do(void **state)
{
	uint8_t data[100];

	assert_int_equal(ops->events(one.conn), OSF_EVENT_OUT);
	assert_int_equal(ops->events(two.conn), OSF_EVENT_OUT);
	assert_int_equal(take(&two, data, sizeof(data), 0), -EAGAIN);
	assert_int_equal(put(&one, "hello", 5), 5);
	assert_true(pass_time(&two));
	assert_true(ops->events(two.conn) & OSF_EVENT_IN);
	assert_int_equal(take(&two, data, sizeof(data), 0), 5);
	assert_memory_equal(data, "hello", 5);
	assert_int_equal(ops->events(two.conn), OSF_EVENT_OUT);
	while (put(&one, data, sizeof(data)) > 0)
		;
	assert_false(ops->events(one.conn) & OSF_EVENT_OUT);
}

static void nobody_sleeps_for_ever(void **state)
{
	uint8_t data[4096] = { 0 };

	/* It is told that something will come, and then that it has. */
	two.n_told = two.told = 0;
	assert_int_equal(put(&one, "x", 1), 1);
	assert_true(two.n_told && ops->next_ns(two.conn) != UINT64_MAX);
	assert_true(pass_time(&two));
	assert_true(two.told & OSF_EVENT_IN);
	/* And who waits for room is told of some. */
	while (put(&one, data, sizeof(data)) > 0)
		;
	one.told = 0;
	pass_time(&two);
	assert_true(take(&two, data, sizeof(data), 0) > 0);
	assert_true(one.told & OSF_EVENT_OUT);
}

static void an_end_comes_behind_the_last_byte(void **state)
{
	uint8_t data[8];

	assert_int_equal(put(&one, "last", 4), 4);
	assert_int_equal(ops->shutdown(one.conn, SHUT_WR), 0);
	assert_int_equal(take_all(&two, data, sizeof(data)), 4);
	assert_int_equal(take(&two, data, sizeof(data), 0), 0);
	assert_true(ops->events(two.conn) & OSF_EVENT_RDHUP);
	assert_int_equal(put(&two, "back", 4), 4); /* half open */
	assert_int_equal(take_all(&one, data, 4), 4);
	end(&two, -1);
	while (pass_time(&one))
		;
	assert_int_equal(take(&one, data, sizeof(data), 0), 0);
	assert_true(ops->events(one.conn) & OSF_EVENT_RDHUP);
}

static void what_was_sent_arrives_after_close(void **state)
{
	uint8_t data[8];

	assert_int_equal(put(&one, "bye", 3), 3);
	end(&one, -1);
	assert_int_equal(take_all(&two, data, sizeof(data)), 3);
	assert_int_equal(take(&two, data, sizeof(data), 0), 0);
	assert_int_equal(put(&two, "x", 1), -EPIPE);
}

static void a_reset_is_told(void **state)
{
	uint8_t data[8];

	end(&one, 0);
	assert_int_equal(two.failed, ECONNRESET);
	assert_int_equal(one.failed, 0);
	while (pass_time(&two))
		;
	assert_int_equal(take(&two, data, sizeof(data), 0), 0);
}

static void both_fall_back_when_one_does(void **state)
{
	uint8_t data[8];

	assert_int_equal(put(&one, "mine", 4), 4);
	assert_int_equal(put(&two, "yours", 5), 5);
	two.told = 0;
	assert_int_equal(ops->to_kernel(one.conn, -1), 0);
	assert_true(two.told & OSF_EVENT_BACK);
	assert_false(one.told & OSF_EVENT_BACK);
	/* What is under way arrives at once, and nothing after it. */
	assert_int_equal(take(&two, data, sizeof(data), 0), 4);
	assert_int_equal(take(&two, data, sizeof(data), 0), -EAGAIN);
	assert_int_equal(take(&one, data, sizeof(data), 0), 5);
	assert_int_equal(take(&one, data, sizeof(data), 0), -EAGAIN);
	assert_int_equal(ops->to_kernel(two.conn, -1), 0);
	end(&one, -1); /* that is no end for the other */
	assert_int_equal(take(&two, data, sizeof(data), 0), -EAGAIN);
	assert_false(ops->events(two.conn) & OSF_EVENT_RDHUP);
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(what_osf_needs_is_there),
		T(a_stream_arrives_whole_and_in_order),
		T(events_say_what_calls_will_do),
		T(nobody_sleeps_for_ever),
		T(an_end_comes_behind_the_last_byte),
		T(what_was_sent_arrives_after_close),
		T(a_reset_is_told),
		T(both_fall_back_when_one_does),
	};

	setenv("LOOP_DELAY_US", "200", 1);
	if (osf_module_init())
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
