/* SPDX-License-Identifier: MIT */
/*
 * tests/unit/stream_pairs.c - both ends of a module's connection find each other
 *
 * proto/module/pair.c alone, with listeners and connections of the kernel's, and a module
 * that only notes what it is asked.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/libc.h"
#include "proto/module/stream.h"
#include "unit.h"

struct lock stream_serial;
static unsigned n_ends; /* that exist */
static int n_reset;

struct osf_sock *stream_new(struct sock *sk, const struct osf_stream_ops *ops)
{
	struct osf_sock *s = calloc(1, sizeof(*s));

	assert_non_null(s);
	s->sk = sk;
	s->ops = ops;
	n_ends++;
	return s;
}

void stream_discard(struct osf_sock *s)
{
	pair_forget(s);
	n_ends--;
	free(s);
}

void stream_end(struct osf_sock *s, int linger_s) { n_reset += !linger_s; }

static int pair(struct osf_sock *a, struct osf_sock *b, void **conn_a,
		void **conn_b)
{
	*conn_a = b;
	*conn_b = a;
	return 0;
}

static const struct osf_stream_ops ops = { .size = sizeof(ops), .pair = pair };
static struct sockaddr_in at;
static int listener;

#define ID 7
#define SK(n) ((struct sock *)(uintptr_t)(n))

static int set_up(void **state)
{
	socklen_t len = sizeof(at);

	at = (struct sockaddr_in){ .sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	listener = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(bind(listener, (void *)&at, sizeof(at)), 0);
	assert_int_equal(listen(listener, 8), 0);
	getsockname(listener, (void *)&at, &len);
	n_reset = 0;
	return pair_listen(ID, listener);
}

static int tear_down(void **state)
{
	pair_unlisten(ID);
	close(listener);
	return n_ends ? -1 : 0;
}

struct opened {
	struct osf_sock *s;
	int fd;
};

static struct opened open_one(void)
{
	struct opened o = { stream_new(SK(1), &ops),
			    socket(AF_INET, SOCK_STREAM, 0) };

	assert_int_equal(pair_connect(o.s, o.fd, (void *)&at, sizeof(at)), 0);
	return o;
}

static void drop(struct opened *o)
{
	stream_discard(o->s);
	close(o->fd);
}

/* The next that the kernel's accept() returns: the end that belongs to it, or NULL. */
static struct osf_sock *accept_one(uintptr_t sk)
{
	struct sockaddr_storage from = { 0 };
	socklen_t len = sizeof(from);
	int fd = accept(listener, (void *)&from, &len);

	assert_true(fd >= 0);
	close(fd);
	return pair_accept(&ops, SK(sk), &from);
}

static void an_end_is_found_by_the_name_of_the_other(void **state)
{
	struct opened one = open_one(), two = open_one();
	struct osf_sock *a = accept_one(11), *b = accept_one(12);

	assert_ptr_equal(one.s->conn, a);
	assert_ptr_equal(two.s->conn, b);
	assert_ptr_equal(a->conn, one.s);
	assert_ptr_equal(a->sk, SK(11));
	assert_ptr_equal(b->sk, SK(12));
	stream_discard(a);
	stream_discard(b);
	drop(&one);
	drop(&two);
	assert_int_equal(n_reset, 0);
}

static void a_connection_of_others_has_no_end(void **state)
{
	struct opened one = open_one();
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	assert_int_equal(connect(fd, (void *)&at, sizeof(at)), 0);
	struct osf_sock *a = accept_one(11);
	assert_ptr_equal(one.s->conn, a);
	assert_null(accept_one(12));
	stream_discard(a);
	drop(&one);
	close(fd);
}

static void who_falls_back_takes_what_nobody_has_accepted(void **state)
{
	struct opened one = open_one();
	struct osf_sock *b = pair_unaccepted(one.s);

	assert_ptr_equal(one.s->conn, b);
	assert_null(pair_unaccepted(one.s));
	assert_null(accept_one(11)); /* it is the kernel's from now on */
	stream_discard(b);
	drop(&one);
}

static void a_listener_takes_its_arrivals_along(void **state)
{
	struct opened one = open_one();

	pair_unlisten(ID);
	assert_int_equal(n_reset, 1);
	assert_null(accept_one(11));
	assert_null(pair_unaccepted(one.s));
	drop(&one);
}

static void to_listen_again_keeps_what_has_arrived(void **state)
{
	struct opened one = open_one();

	assert_int_equal(pair_listen(ID, listener), 0);
	assert_int_equal(n_reset, 0);
	struct osf_sock *b = accept_one(11);
	assert_ptr_equal(one.s->conn, b);
	stream_discard(b);
	drop(&one);
}

static void an_end_outlives_the_other(void **state)
{
	struct opened one = open_one();
	struct osf_sock *b = one.s->conn, *freed = one.s;

	drop(&one);
	assert_null(pair_unaccepted(freed)); /* another one may be there */
	assert_ptr_equal(accept_one(11), b);
	stream_discard(b);
}

static void a_refusal_leaves_the_socket_as_it_was(void **state)
{
	struct sockaddr_in to = at, name;
	socklen_t len = sizeof(name);
	struct osf_sock *s = stream_new(SK(1), &ops);
	int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
	assert_int_equal(pair_connect(s, fd, (void *)&to, sizeof(to)),
			 -EHOSTUNREACH);
	getsockname(fd, (void *)&name, &len);
	assert_int_equal(name.sin_port, 0);
	/* The kernel may choose another listener. */
	setsockopt(listener, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
	assert_int_equal(pair_listen(ID, listener), -EOPNOTSUPP);
	assert_int_equal(pair_connect(s, fd, (void *)&at, sizeof(at)),
			 -EHOSTUNREACH);
	stream_discard(s);
	close(fd);
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(an_end_is_found_by_the_name_of_the_other),
		T(a_connection_of_others_has_no_end),
		T(who_falls_back_takes_what_nobody_has_accepted),
		T(a_listener_takes_its_arrivals_along),
		T(to_listen_again_keeps_what_has_arrived),
		T(an_end_outlives_the_other),
		T(a_refusal_leaves_the_socket_as_it_was),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
