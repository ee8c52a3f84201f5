/* SPDX-License-Identifier: MIT */
/*
 * tests/app/module_loop.c - a protocol with streams: both ends in one process
 *
 *     connect: the kernel connects the anchor; its name tells accept() which it is
 *     send:    into the memory of the other end, a part at a time
 *     recv:    out of one's own, a part at a time
 *
 * It keeps the contract of osf/stream.h, and is as unpleasant about it as that allows: no
 * call takes or gives more than PART bytes, and LOOP_DELAY_US (0) pass before bytes can
 * be read.  One lock for all.
 */
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "osf/proto.h"

#define BYTES (4u << 20)
#define PART 700u
#define MIN(a, b) ((a) < (b) ? (a) : (b))

int osf_module_init(void);

struct end {
	struct end *peer, *next; /* NULL: it is gone; arrivals */
	struct osf_sock *sk;     /* NULL: nobody has accepted it */
	uint64_t listener;       /* which it has arrived at, */
	struct sockaddr_in name; /* from where */
	int error;               /* to be told once, positive */
	bool has_end, is_over;   /* the peer sends no more; it was reset */
	bool is_back;            /* the kernel carries what follows */
	/* Bytes put, there to be read, and read, since the beginning. */
	uint32_t put, seen, got;
	uint64_t due_ns; /* when what was put is there to be read; 0: it is */
	uint8_t data[BYTES];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct end *arrivals;
static uint64_t listeners[65536], delay_ns; /* ids by port */

static void put_lock(pthread_mutex_t **l) { pthread_mutex_unlock(*l); }
#define HOLD_LOCK                                                              \
	__attribute__((cleanup(put_lock), unused)) pthread_mutex_t *held =     \
	    (pthread_mutex_lock(&lock), &lock)

static unsigned loop_events(void *conn)
{
	struct end *e = conn;
	HOLD_LOCK;
	bool ended = e->has_end && !e->due_ns;
	bool room = !e->peer || e->peer->put - e->peer->got < BYTES;

	return (e->seen != e->got || ended || e->error ? OSF_EVENT_IN : 0u) |
	       (room || e->is_back ? OSF_EVENT_OUT : 0u) |
	       (e->error ? OSF_EVENT_ERR : 0u) |
	       (ended ? OSF_EVENT_RDHUP : 0u) |
	       (e->is_over ? OSF_EVENT_HUP : 0u) |
	       (e->is_back ? OSF_EVENT_BACK : 0u);
}

static void tell(const struct end *e, unsigned events)
{
	if (e->sk)
		osf_sock_notify(e->sk, events);
}

/* @e has something to come. */
static void post(struct end *e)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	if (!e->due_ns)
		e->due_ns = (uint64_t)ts.tv_sec * 1000000000 +
			    (uint64_t)ts.tv_nsec + delay_ns;
	tell(e, 0); /* next_ns() is another one */
}

/* What was put can be read. */
static void show(struct end *e, unsigned events)
{
	e->due_ns = 0;
	e->seen = e->put;
	tell(e, events);
}

static void reset(struct end *e)
{
	e->error = ECONNRESET;
	e->has_end = e->is_over = true;
	e->peer = NULL;
	show(e, OSF_EVENT_IN | OSF_EVENT_OUT | OSF_EVENT_ERR | OSF_EVENT_HUP);
}

static int told(struct end *e)
{
	int err = e->error;

	return e->error = 0, err;
}

static ssize_t loop_send(void *conn, const struct iovec *iov, size_t n,
			 int flags)
{
	struct end *e = conn, *p;
	HOLD_LOCK;

	if (e->is_back || e->error)
		return e->is_back ? -ESTALE : -told(e);
	if (!(p = e->peer))
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
	HOLD_LOCK;
	uint32_t at = e->got % BYTES, len = (uint32_t)MIN(iov->iov_len, PART);
	uint32_t give = MIN(MIN(len, e->seen - e->got), BYTES - at);

	if (!give && e->error)
		return -told(e);
	if (!give && e->has_end && !e->due_ns)
		return 0;
	if (!give)
		return e->is_back ? -ESTALE : -EAGAIN;
	memcpy(iov->iov_base, e->data + at, give);
	if (e->put - e->got == BYTES && e->peer)
		tell(e->peer, OSF_EVENT_OUT);
	e->got += give;
	return give;
}

static void loop_turn(void *conn, uint64_t now_ns)
{
	struct end *e = conn;
	HOLD_LOCK;

	if (e->due_ns && now_ns >= e->due_ns)
		show(e, OSF_EVENT_IN);
}

static uint64_t loop_next_ns(void *conn)
{
	HOLD_LOCK;
	uint64_t due_ns = ((struct end *)conn)->due_ns;

	return due_ns ? due_ns : UINT64_MAX;
}

static int loop_error(void *conn)
{
	HOLD_LOCK;
	return told(conn);
}

static int loop_shutdown(void *conn, int how)
{
	HOLD_LOCK;
	struct end *p = ((struct end *)conn)->peer;

	if (p)
		p->has_end = true;
	if (p)
		post(p);
	return 0;
}

static void loop_close(void *conn, int linger_s)
{
	HOLD_LOCK;
	struct end *e = conn, *p = e->peer;

	if (p && !e->is_back && (!linger_s || e->put != e->got)) {
		reset(p); /* bytes that nobody has read */
	} else if (p) {
		p->has_end |= !e->is_back;
		p->peer = NULL;
		post(p);
	}
	if (p && e->is_back && !p->sk)
		free(p); /* nobody will accept it */
	free(e);
}

/* The next at @listener, or from @name there. */
static struct end *arrival(uint64_t listener, const void *name)
{
	for (struct end **at = &arrivals, *e; (e = *at); at = &e->next)
		if (e->listener == listener &&
		    (!name || !memcmp(&e->name, name, 8))) {
			*at = e->next;
			return e;
		}
	return NULL;
}

static int loop_to_kernel(void *conn, int fd, struct iovec unsent[2])
{
	HOLD_LOCK;
	struct end *e = conn, *p = e->peer;

	if (p && !p->is_back && !p->sk) {
		uint32_t n = p->put - p->got, at = p->got % BYTES;

		arrival(p->listener, &p->name);
		unsent[0] = (struct iovec){ p->data + at, MIN(n, BYTES - at) };
		unsent[1] = (struct iovec){ p->data, n - unsent[0].iov_len };
	}
	e->is_back = true;
	show(e, 0);
	if (p && !p->is_back) {
		p->is_back = true;
		show(p, OSF_EVENT_BACK);
	}
	return 0;
}

static struct sockaddr_in name_of(int fd)
{
	struct sockaddr_in in = { 0 }, none = { 0 };
	socklen_t len = sizeof(in);
	int err = getsockname(fd, (struct sockaddr *)&in, &len);

	return err || in.sin_family != AF_INET ? none : in;
}

static int loop_listen(uint64_t id, int fd, int backlog)
{
	HOLD_LOCK;
	listeners[name_of(fd).sin_port] = id;
	return 0;
}

static void loop_unlisten(uint64_t id)
{
	HOLD_LOCK;
	for (int port = 0; port < 65536; port++)
		if (listeners[port] == id)
			listeners[port] = 0;
	for (struct end *e; (e = arrival(id, NULL)); free(e))
		if (e->peer)
			reset(e->peer);
}

static int loop_connect(struct osf_sock *sk, uint64_t id, int fd,
			const struct sockaddr *to, socklen_t len,
			unsigned timeout_ms, void **conn)
{
	in_port_t port =
	    ((const struct sockaddr_in *)(const void *)to)->sin_port;
	struct end *e = calloc(1, sizeof(*e)), *p = calloc(1, sizeof(*p));
	HOLD_LOCK; /* who accepts it already waits here, and then finds it */

	/* On this host, EINPROGRESS only means that accept() is to come. */
	if (!e || !p || !port || !listeners[port] ||
	    (connect(fd, to, len) && errno != EINPROGRESS)) {
		free(e);
		free(p);
		return -EHOSTUNREACH;
	}
	e->peer = p;
	e->sk = sk;
	p->peer = e;
	p->listener = listeners[port];
	p->name = name_of(fd);
	p->next = arrivals;
	arrivals = p;
	*conn = e;
	return 0;
}

static int loop_accept(uint64_t listener, struct osf_sock *sk, uint64_t id,
		       int fd, struct sockaddr_storage *from, socklen_t *len,
		       void **conn)
{
	HOLD_LOCK;
	struct end *e = arrival(listener, from);

	if (!e)
		return -EAGAIN;
	e->sk = sk;
	*conn = e;
	return 0;
}

static const struct osf_stream_ops ops = {
	.size = sizeof(ops),
	.connect = loop_connect,
	.listen = loop_listen,
	.accept = loop_accept,
	.send = loop_send,
	.recv = loop_recv,
	.events = loop_events,
	.turn = loop_turn,
	.next_ns = loop_next_ns,
	.shutdown = loop_shutdown,
	.error = loop_error,
	.to_kernel = loop_to_kernel,
	.close = loop_close,
};

static const struct osf_proto loop = {
	.size = sizeof(loop),
	.name = "loop",
	.caps = OSF_CAP_LOCAL,
	.priority = 100,
	.close = loop_unlisten,
	.stream = &ops,
};

int osf_module_init(void)
{
	const char *us = getenv("LOOP_DELAY_US");

	delay_ns = us ? strtoull(us, NULL, 10) * 1000 : 0;
	return ops_proto_register(&loop);
}
