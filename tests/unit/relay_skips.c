/* SPDX-License-Identifier: MIT */
/*
 * tests/unit/relay_skips.c - bytes that are not of the stream do not come out of a relay
 *
 *     peer  -> TCP ->  anchor  -> relay ->  out
 *
 * The peer counts a doorbell before it sends it, and may take it back instead.  Strangers may
 * connect to the listener that a relay has for a moment.
 */
#include <sys/prctl.h>
#include <sys/wait.h>

#include "relay_ends.h"

#define CROWD 20

static void a_doorbell_that_comes_is_thrown_away(void **state)
{
	struct ends e;

	(void)state;
	begin(&e, "ring", 1, false);
	reads(&e, "ring");
	says(&e, "!tcp");
	reads(&e, "tcp");
	ends(&e);
}

static void a_doorbell_that_was_taken_back_costs_no_byte(void **state)
{
	struct ends e;

	(void)state;
	begin(&e, "ring", 1, false);
	reads(&e, "ring");
	store_rel(e.rung, 0u);
	says(&e, "tcp");
	reads(&e, "tcp");
	ends(&e);
}

static void of_two_doorbells_one_comes(void **state)
{
	struct ends e;

	(void)state;
	begin(&e, "ring", 2, false);
	says(&e, "!");
	reads(&e, "ring");
	store_rel(e.rung, 1u);
	says(&e, "tcp");
	says(&e, " and more");
	reads(&e, "tcp and more");
	ends(&e);
}

static void
a_count_that_makes_no_sense_costs_the_peer_its_own_bytes(void **state)
{
	struct ends e;

	(void)state;
	begin(&e, "ring", UINT32_MAX, false);
	says(&e, "never seen");
	reads(&e, "ring");
	ends(&e);
}

/* Otherwise close() would reset the connection. */
static void a_doorbell_behind_the_end_is_thrown_away(void **state)
{
	struct ends e;
	char c;

	(void)state;
	begin(&e, "ring", 1, true);
	reads(&e, "ring");
	assert_int_equal(recv(e.out, &c, 1, 0), 0);
	says(&e, "!");
	assert_int_equal(send(e.out, "answer", 6, 0), 6);
	close(e.out);
	assert_int_equal(shutdown(e.peer, SHUT_WR), 0);
	for (int n = 0; n < 6; n++)
		assert_int_equal(recv(e.peer, &c, 1, 0), 1);
	assert_int_equal(recv(e.peer, &c, 1, 0), 0);
	close(e.peer);
	munmap(e.rung, 4096);
}

/* Nothing can come any more, so the relay need not wait until the peer closes. */
static void a_doorbell_taken_back_behind_both_ends_ends_the_relay(void **state)
{
	struct ends e;
	char c;

	(void)state;
	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	begin(&e, "ring", 1, true);
	reads(&e, "ring");
	assert_int_equal(recv(e.out, &c, 1, 0), 0);
	close(e.out);
	assert_int_equal(recv(e.peer, &c, 1, 0), 0);
	store_rel(e.rung, 0u);
	while (waitpid(-1, NULL, __WALL) > 0) /* relays of other tests, too */
		;
	close(e.peer);
	munmap(e.rung, 4096);
}

/* Others connect to the relay's listener before the program does. */
static int crowd[CROWD];

static int listen_in_a_crowd(int fd, int backlog)
{
	struct sockaddr_in at;
	socklen_t len = sizeof(at);
	int r = listen(fd, backlog);

	getsockname(fd, (struct sockaddr *)&at, &len);
	for (int i = 0; i < CROWD; i++) {
		crowd[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
		(void)!connect(crowd[i], (struct sockaddr *)&at, len);
	}
	return r;
}

static void strangers_at_its_listener_do_not_hold_it_up(void **state)
{
	struct ends e;

	(void)state;
	libc.listen = listen_in_a_crowd;
	begin(&e, "ring", 0, false);
	libc.listen = listen;
	reads(&e, "ring");
	says(&e, "tcp");
	reads(&e, "tcp");
	ends(&e);
	for (int i = 0; i < CROWD; i++)
		close(crowd[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_doorbell_that_comes_is_thrown_away),
		cmocka_unit_test(a_doorbell_that_was_taken_back_costs_no_byte),
		cmocka_unit_test(of_two_doorbells_one_comes),
		cmocka_unit_test(
		    a_count_that_makes_no_sense_costs_the_peer_its_own_bytes),
		cmocka_unit_test(a_doorbell_behind_the_end_is_thrown_away),
		cmocka_unit_test(
		    a_doorbell_taken_back_behind_both_ends_ends_the_relay),
		cmocka_unit_test(strangers_at_its_listener_do_not_hold_it_up),
	};

	libc_resolve();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
