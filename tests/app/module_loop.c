/* SPDX-License-Identifier: MIT */
/*
 * tests/app/module_loop.c - a protocol with streams: both ends in one process
 *
 *     send:  into the memory of the other end, a part at a time
 *     turn:  LOOP_DELAY_US (0) later the other end may see it
 *     recv:  out of one's own memory, a part at a time
 *
 * It keeps the contract of osf/stream.h, and is as unpleasant about it as that allows: no
 * call takes or gives more than PART bytes.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "osf/proto.h"

#define BYTES (4u << 20)
#define PART 700u
#define NEVER UINT64_MAX
#define MIN(a, b) ((a) < (b) ? (a) : (b))

int osf_module_init(void);

struct end {
	struct osf_sock *sk;
	struct end *peer; /* NULL: it is gone, or the kernel is between us */
	/* Bytes put by the peer, shown to the program, and read by it, since the
	 * beginning. */
	uint32_t put, shown, got;
	bool has_end;    /* the peer sends no more */
	uint64_t due_ns; /* when what was put is shown; NEVER: it is */
	uint8_t data[BYTES];
};

static uint64_t delay_ns;

/* @e gets something to show. */
static void post(struct end *e)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	if (e->due_ns == NEVER)
		e->due_ns = (uint64_t)ts.tv_sec * 1000000000 +
			    (uint64_t)ts.tv_nsec + delay_ns;
	osf_sock_notify(e->sk, 0); /* next_ns() is another one */
}

static void show(struct end *e, unsigned events)
{
	e->due_ns = NEVER;
	e->shown = e->put;
	osf_sock_notify(e->sk, events);
}

static unsigned loop_events(void *conn)
{
	struct end *e = conn;
	bool has_ended = e->has_end && e->due_ns == NEVER;
	bool has_room = !e->peer || e->peer->put - e->peer->got < BYTES;

	return (e->shown != e->got || has_ended ? OSF_EVENT_IN : 0u) |
	       (has_ended ? OSF_EVENT_RDHUP : 0u) |
	       (has_room ? OSF_EVENT_OUT : 0u);
}

static ssize_t loop_send(void *conn, const struct iovec *iov, size_t n,
			 int flags)
{
	struct end *p = ((struct end *)conn)->peer;

	if (!p)
		return -EPIPE;
	uint32_t room = BYTES - (p->put - p->got), at = p->put % BYTES;
	uint32_t len = (uint32_t)MIN(iov->iov_len, PART);
	uint32_t take = MIN(MIN(len, room), BYTES - at);
	if (!take)
		return -EAGAIN;
	memcpy(p->data + at, iov->iov_base, take);
	p->put += take;
	post(p);
	return take;
}

static ssize_t loop_recv(void *conn, const struct iovec *iov, size_t n,
			 int flags)
{
	struct end *e = conn;
	uint32_t at = e->got % BYTES, len = (uint32_t)MIN(iov->iov_len, PART);
	uint32_t give = MIN(MIN(len, e->shown - e->got), BYTES - at);

	if (!give)
		return e->has_end && e->due_ns == NEVER ? 0 : -EAGAIN;
	memcpy(iov->iov_base, e->data + at, give);
	if (e->put - e->got == BYTES && e->peer)
		osf_sock_notify(e->peer->sk, OSF_EVENT_OUT);
	e->got += give;
	return give;
}

static void loop_turn(void *conn, uint64_t now_ns)
{
	if (now_ns >= ((struct end *)conn)->due_ns)
		show(conn, OSF_EVENT_IN);
}

static uint64_t loop_next_ns(void *conn)
{
	return ((struct end *)conn)->due_ns;
}

static int loop_shutdown(void *conn, int how)
{
	struct end *p = ((struct end *)conn)->peer;

	if (p) {
		p->has_end = true;
		post(p);
	}
	return 0;
}

/* No byte passes between the two any more; what has passed can be read at once. */
static int loop_to_kernel(void *conn, int fd)
{
	struct end *e = conn, *p = e->peer;

	show(e, 0);
	if (p) {
		show(p, OSF_EVENT_BACK);
		e->peer = p->peer = NULL;
	}
	return 0;
}

static void loop_close(void *conn, int linger_s)
{
	struct end *e = conn, *p = e->peer;

	if (p) {
		p->peer = NULL;
		p->has_end = true;
		post(p);
		if (!linger_s)
			osf_sock_fail(p->sk, ECONNRESET);
	}
	free(e);
}

static int loop_pair(struct osf_sock *a, struct osf_sock *b, void **conn_a,
		     void **conn_b)
{
	struct end *one = calloc(1, sizeof(*one));
	struct end *two = calloc(1, sizeof(*two));

	if (!one || !two) {
		free(one);
		free(two);
		return -ENOMEM;
	}
	one->sk = a;
	two->sk = b;
	one->peer = two;
	two->peer = one;
	one->due_ns = two->due_ns = NEVER;
	*conn_a = one;
	*conn_b = two;
	return 0;
}

static const struct osf_stream_ops ops = {
	.size = sizeof(ops),
	.comp_mask = OSF_STREAM_SERIAL,
	.pair = loop_pair,
	.send = loop_send,
	.recv = loop_recv,
	.events = loop_events,
	.turn = loop_turn,
	.next_ns = loop_next_ns,
	.shutdown = loop_shutdown,
	.to_kernel = loop_to_kernel,
	.close = loop_close,
};

static const struct osf_proto loop = {
	.size = sizeof(loop),
	.name = "loop",
	.caps = OSF_CAP_LOCAL,
	.priority = 100,
	.stream = &ops,
};

int osf_module_init(void)
{
	const char *us = getenv("LOOP_DELAY_US");

	delay_ns = us ? strtoull(us, NULL, 10) * 1000 : 0;
	return ops_proto_register(&loop);
}
