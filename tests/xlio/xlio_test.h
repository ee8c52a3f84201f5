/* SPDX-License-Identifier: MIT */
/*
 * tests/xlio/xlio_test.h - what the tests of the XLIO API share
 *
 * One source, run once per protocol by run.py: OSF_XLIO_TEST says which ("kernel",
 * "shm", "tcp"), the environment of libosf.so makes it so.  Each test runs in a process of
 * its own, with both ends of its connections in it: a world has a group of clients and
 * one of servers, which are polled in turns.  Every callback is checked against the
 * rules that hold always: nothing after TERMINATED, which comes once; no ERROR and
 * no data after destroy; accepted sockets are never ESTABLISHED; a completion belongs
 * to an operation that is under way.
 */
#pragma once

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <mellanox/xlio.h>
#include <osf/group.h>

#define ENDS 1024 /* of a world, those that have gone included */

/* One socket, as its callbacks see it. */
struct end {
	xlio_socket_t sock;
	bool is_accepted, is_destroyed, is_gone;
	int n_established, n_closed, n_error, error, n_accepted, n_terminated;
	size_t received;
	uint64_t key;     /* of the stream that it receives; 0: not checked */
	unsigned n_ops;   /* operations that ask for a completion, */
	unsigned n_comps; /* and have it */
	uintptr_t last_comp;
	struct world *world;
};

struct world {
	xlio_poll_group_t client, server;
	struct sockaddr_storage addr; /* the listener's */
	socklen_t addr_len;
	xlio_socket_t listener;
	struct end *listening;
	struct end ends[ENDS];
	int n_ends;
	struct end *newest; /* accepted last */
	/* What a test wants done inside of callbacks, or NULL. */
	void (*on_event)(struct end *e, int event, int value);
	void (*on_comp)(struct end *e, uintptr_t op);
	/* True: it has taken the buffer. */
	bool (*on_rx)(struct end *e, void *data, size_t len,
		      struct xlio_buf *buf);
	void (*on_accept)(struct end *e);
};

extern struct world *w; /* the test's */

#define EXPECT(x) expect((x), #x, __FILE__, __LINE__)
#define EXPECT_EQ(a, b)                                                        \
	expect_eq((long long)(a), (long long)(b), #a, #b, __FILE__, __LINE__)
#define EXPECT_ERR(call, err)                                                  \
	do {                                                                   \
		errno = 0;                                                     \
		EXPECT_EQ((call), -1);                                         \
		EXPECT_EQ(errno, err);                                         \
	} while (0)
/* Poll both groups until it holds; forty seconds at most: machines are busy. */
#define UNTIL(x)                                                               \
	for (double end_ = now() + 40; !(x); poll_both())                      \
	expect(now() < end_, "in time: " #x, __FILE__, __LINE__)

void expect(bool ok, const char *what, const char *file, int line);
void expect_eq(long long a, long long b, const char *sa, const char *sb,
	       const char *file, int line);
double now(void); /* seconds */
bool is_shm(void);
bool is_tcp(void);        /* our own, over a port on lo */
uint32_t n_moved(void);   /* how often connections have moved, so far */
uint64_t shm_bytes(void); /* received by rings in this process, so far */
uint64_t ref_bytes(void); /* sent by reference, likewise */

/* A world with a listener, or without. */
void world_open(unsigned flags);
void world_open_with(const struct xlio_poll_group_attr *client,
		     const struct xlio_poll_group_attr *server);
struct xlio_poll_group_attr world_attr(unsigned flags);
void world_listen(void);
void world_close(void); /* destroys all, and sees that all has ended */
struct end *end_new(xlio_poll_group_t group, int domain);
struct end *end_connect(void); /* begins to */
/* A pair whose bytes move by the protocol under test. */
void pair(struct end **client, struct end **server);
void end_destroy(struct end *e);
void poll_both(void);
void poll_n(int n);

/* Send bytes of a stream; flags as of the API.  A completion is asked for, unless
 * it is inline. */
void end_send(struct end *e, const void *data, size_t len, unsigned flags);
void stream_fill(void *buf, uint64_t key, uint64_t off, size_t len);
bool stream_is(const void *buf, uint64_t key, uint64_t off, size_t len);

struct test {
	const char *name;
	void (*run)(void);
};
extern const struct test tests_args[], tests_data[], tests_end[],
    tests_faults[], tests_move[], tests_more[], tests_ref[], tests_ref_faults[],
    tests_fuzz[], tests_keep[], tests_memory[];
