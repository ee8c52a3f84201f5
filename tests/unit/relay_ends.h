/* SPDX-License-Identifier: MIT */
/*
 * tests/unit/relay_ends.h - a connection, and a relay that has taken one end of it over
 *
 *     peer  -> TCP ->  anchor  -> relay ->  out
 */
#pragma once

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

static inline void connect_ends(struct ends *e)
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

/* The relay starts.  @text is what the ring had; @rung doorbells have been counted, and none
 * has come. */
static inline void begin_relay(struct ends *e, const char *text, uint32_t rung,
			       bool has_end)
{
	uint8_t *data = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct stash st = {
		.data = data, .n = strlen(text), .cap = 4096, .has_end = has_end
	};

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

static inline void begin(struct ends *e, const char *text, uint32_t rung,
			 bool has_end)
{
	connect_ends(e);
	begin_relay(e, text, rung, has_end);
}

static inline void says(const struct ends *e, const char *text)
{
	assert_int_equal(send(e->peer, text, strlen(text), 0), strlen(text));
}

static inline void reads(const struct ends *e, const char *text)
{
	char got[100];

	assert_int_equal(recv(e->out, got, strlen(text), MSG_WAITALL),
			 strlen(text));
	assert_memory_equal(got, text, strlen(text));
}

/* The peer ends, and so does the stream. */
static inline void ends(struct ends *e)
{
	char c;

	close(e->peer);
	assert_int_equal(recv(e->out, &c, 1, 0), 0);
	close(e->out);
	munmap(e->rung, 4096);
}
