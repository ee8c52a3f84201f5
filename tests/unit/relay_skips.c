/* SPDX-License-Identifier: MIT */
/*
 * tests/unit/relay_skips.c - bytes that are not of the stream do not come out of a relay
 *
 *     peer  -> TCP ->  anchor  -> relay ->  out
 *
 * The peer counts a doorbell before it sends it, and may take it back instead.
 */
#include <netinet/in.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/libc.h"
#include "file/relay.h"
#include "sock/sock_ops.h"
#include "unit.h"

const struct sock_ops *const sock_tables[SOCK_TABLES];

struct ends {
	int peer, anchor, out;
	uint32_t *rung; /* as in a segment */
};

static void connect_ends(struct ends *e)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(at);
	int listener = socket(AF_INET, SOCK_STREAM, 0);

	assert_int_equal(bind(listener, (struct sockaddr *)&at, len), 0);
	assert_int_equal(listen(listener, 1), 0);
	getsockname(listener, (struct sockaddr *)&at, &len);
	e->peer = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(connect(e->peer, (struct sockaddr *)&at, len), 0);
	e->anchor = accept(listener, NULL, NULL);
	assert_true(e->anchor >= 0);
	close(listener);
}

/* @text is what the ring had; @rung doorbells have been counted, and none has come. */
static void begin(struct ends *e, const char *text, uint32_t rung, bool has_end)
{
	uint8_t *data = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct stash st = {
		.data = data, .n = strlen(text), .cap = 4096, .has_end = has_end
	};

	connect_ends(e);
	e->rung = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(data != MAP_FAILED && (void *)e->rung != MAP_FAILED);
	memcpy(data, text, st.n);
	*e->rung = rung;
	st.rung = rung ? e->rung : NULL;
	e->out = relay_start(e->anchor, &st);
	assert_true(e->out >= 0);
	close(e->anchor);
	stash_free(&st);
}

static void says(const struct ends *e, const char *text)
{
	assert_int_equal(send(e->peer, text, strlen(text), 0), strlen(text));
}

static void reads(const struct ends *e, const char *text)
{
	char got[100];

	assert_int_equal(recv(e->out, got, strlen(text), MSG_WAITALL),
			 strlen(text));
	assert_memory_equal(got, text, strlen(text));
}

/* The peer ends, and so does the stream. */
static void ends(struct ends *e)
{
	char c;

	close(e->peer);
	assert_int_equal(recv(e->out, &c, 1, 0), 0);
	close(e->out);
	munmap(e->rung, 4096);
}

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_doorbell_that_comes_is_thrown_away),
		cmocka_unit_test(a_doorbell_that_was_taken_back_costs_no_byte),
		cmocka_unit_test(of_two_doorbells_one_comes),
		cmocka_unit_test(
		    a_count_that_makes_no_sense_costs_the_peer_its_own_bytes),
		cmocka_unit_test(a_doorbell_behind_the_end_is_thrown_away),
	};

	libc_resolve();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
