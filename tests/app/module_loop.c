/* SPDX-License-Identifier: MIT */
/*
 * tests/app/module_loop.c - a protocol with streams: both ends in one process
 *
 *     connect: the kernel connects the anchor; its port tells accept() which it is
 *     send:    into the 64 KB of the other end, a part at a time
 *     recv:    out of one's own, a part at a time
 *
 * It keeps the contract of osf/stream.h, and is as unpleasant about it as that allows:
 * DELAY_NS pass before bytes can be read, and no call takes or gives more than PART
 * bytes.  One lock for all.
 */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "osf/proto.h"

#define DELAY_NS UINT64_C(200000)
#define BYTES 65536u
#define PART 700u
#define MIN(a, b) ((a) < (b) ? (a) : (b))

int osf_module_init(void);

struct end {
	struct end *peer; /* NULL: it is gone */
	struct osf_sock *sk;
	int error;    /* to be told once, positive */
	bool is_shut; /* sends no more */
	bool has_end; /* the peer sends no more */
	/* Bytes put, there to be read, and read, since the beginning. */
	uint32_t put, seen, got;
	uint64_t due_ns; /* when what was put is there to be read; 0: it is */
	uint8_t data[BYTES];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct end *arrivals[65536]; /* not accepted yet, by the opener's port */
static uint64_t listeners[65536];   /* ids by port */

static void put_lock(pthread_mutex_t **l) { pthread_mutex_unlock(*l); }
#define HOLD_LOCK()                                                            \
	__attribute__((cleanup(put_lock), unused)) pthread_mutex_t *held =     \
	    (pthread_mutex_lock(&lock), &lock)

static void tell(const struct end *e, unsigned events)
{
	if (e->sk) /* else nobody has accepted it yet */
		osf_sock_notify(e->sk, events);
}

/* @e has something to come. */
static void post(struct end *e)
{
	struct timespec ts;

	if (e->due_ns)
		return;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	e->due_ns =
	    (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec + DELAY_NS;
	tell(e, 0); /* next_ns() is another one */
}

static unsigned events(const struct end *e)
{
	bool ended = e->has_end && !e->due_ns, over = e->error || e->is_shut;
	bool in = e->seen != e->got || ended || e->error;
	bool out = over || !e->peer || e->peer->put - e->peer->got < BYTES;

	return (in ? OSF_EVENT_IN : 0u) | (out ? OSF_EVENT_OUT : 0u) |
	       (e->error ? OSF_EVENT_ERR : 0u) |
	       (ended ? OSF_EVENT_RDHUP : 0u) |
	       (ended && e->is_shut ? OSF_EVENT_HUP : 0u);
}

static int told(struct end *e)
{
	int err = e->error;

	return e->error = 0, err;
}

/* The first vector with room: the others have their turn in the next call. */
static struct iovec first(const struct iovec *iov, size_t n)
{
	while (n && !iov->iov_len)
		iov++, n--;
	return n ? *iov : (struct iovec){ NULL, 0 };
}

static ssize_t loop_send(void *conn, const struct iovec *iov, size_t n,
			 int flags)
{
	struct iovec v = first(iov, n);
	struct end *e = conn, *p;
	HOLD_LOCK();

	if (flags)
		return -EOPNOTSUPP;
	if (e->error)
		return -told(e);
	if (e->is_shut || !(p = e->peer))
		return -EPIPE;
	uint32_t room = BYTES - (p->put - p->got), at = p->put % BYTES;
	if (!v.iov_len || !room)
		return v.iov_len ? -EAGAIN : 0;
	uint32_t take =
	    (uint32_t)MIN(MIN(v.iov_len, PART), MIN(room, BYTES - at));
	memcpy(p->data + at, v.iov_base, take);
	p->put += take;
	post(p);
	return take;
}

static ssize_t loop_recv(void *conn, const struct iovec *iov, size_t n,
			 int flags)
{
	struct iovec v = first(iov, n);
	struct end *e = conn;
	HOLD_LOCK();
	uint32_t there = e->seen - e->got, at = e->got % BYTES;

	if (!there && e->error)
		return -told(e);
	if (!there || !v.iov_len)
		return !v.iov_len || (e->has_end && !e->due_ns) ? 0 : -EAGAIN;
	uint32_t give =
	    (uint32_t)MIN(MIN(v.iov_len, PART), MIN(there, BYTES - at));
	if (!(flags & MSG_TRUNC))
		memcpy(v.iov_base, e->data + at, give);
	if (flags & MSG_PEEK)
		return give;
	bool was_full = e->put - e->got == BYTES;
	e->got += give;
	if (was_full && e->peer)
		tell(e->peer, OSF_EVENT_OUT);
	return give;
}

static unsigned loop_events(void *conn)
{
	HOLD_LOCK();
	return events(conn);
}

/* It notifies of all that comes, armed or not. */
static int loop_arm(void *conn, unsigned wish, int *wait_fd)
{
	HOLD_LOCK();
	return (events(conn) & (wish | OSF_EVENT_ERR | OSF_EVENT_HUP)) != 0;
}

static void loop_turn(void *conn, uint64_t now_ns)
{
	struct end *e = conn;
	HOLD_LOCK();

	if (!e->due_ns || now_ns < e->due_ns)
		return;
	e->due_ns = 0;
	e->seen = e->put;
	tell(e, events(e));
}

static uint64_t loop_next_ns(void *conn)
{
	HOLD_LOCK();
	uint64_t due_ns = ((struct end *)conn)->due_ns;

	return due_ns ? due_ns : UINT64_MAX;
}

static int loop_error(void *conn)
{
	HOLD_LOCK();
	return told(conn);
}

static void shut(struct end *e)
{
	e->is_shut = true;
	if (e->peer && !e->peer->has_end) {
		e->peer->has_end = true;
		post(e->peer);
	}
}

static int loop_shutdown(void *conn, int how)
{
	HOLD_LOCK();
	return how == SHUT_RD ? 0 : (shut(conn), 0);
}

static void loop_close(void *conn, int linger_s)
{
	struct end *e = conn, *p;
	HOLD_LOCK();

	shut(e);
	if ((p = e->peer)) {
		p->peer = NULL;
		if (!linger_s || e->put != e->got)
			p->error = ECONNRESET; /* bytes that nobody has read */
		tell(p, events(p));
	}
	free(e);
}

static in_port_t port_of(int fd)
{
	struct sockaddr_in in = { 0 };
	socklen_t len = sizeof(in);

	return getsockname(fd, (struct sockaddr *)&in, &len) ? 0 : in.sin_port;
}

static int loop_listen(uint64_t id, int fd, int backlog)
{
	HOLD_LOCK();
	listeners[port_of(fd)] = id;
	return 0;
}

static void loop_unlisten(uint64_t id)
{
	HOLD_LOCK();
	for (int port = 0; port < 65536; port++)
		listeners[port] = listeners[port] == id ? 0 : listeners[port];
}

static int connect_anchor(int fd, const struct sockaddr *to, socklen_t len,
			  unsigned timeout_ms)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	socklen_t err_len = sizeof(int);
	int err = 0;

	if (!listeners[((const struct sockaddr_in *)(const void *)to)
			   ->sin_port])
		return EHOSTUNREACH;
	if (!connect(fd, to, len))
		return 0;
	if (errno != EINPROGRESS)
		return errno;
	if (poll(&p, 1, (int)timeout_ms) != 1)
		return ETIMEDOUT;
	return getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &err_len) ? errno
								    : err;
}

static int loop_connect(struct osf_sock *sk, uint64_t id, int fd,
			const struct sockaddr *to, socklen_t len,
			unsigned timeout_ms, void **conn)
{
	struct end *e = calloc(1, sizeof(*e)), *p = calloc(1, sizeof(*p));
	HOLD_LOCK(); /* who accepts it already waits here, and then finds it */
	int err = e && p ? connect_anchor(fd, to, len, timeout_ms) : ENOMEM;

	if (err) {
		free(e);
		free(p);
		return -err;
	}
	e->peer = p;
	p->peer = e;
	e->sk = sk;
	arrivals[port_of(fd)] = p;
	*conn = e;
	return 0;
}

static int loop_accept(uint64_t listener, struct osf_sock *sk, uint64_t id,
		       int fd, struct sockaddr_storage *from, socklen_t *len,
		       void **conn)
{
	in_port_t port = ((struct sockaddr_in *)(void *)from)->sin_port;
	HOLD_LOCK();
	struct end *e = arrivals[port];

	if (!e)
		return -EAGAIN;
	arrivals[port] = NULL;
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
	.arm = loop_arm,
	.turn = loop_turn,
	.next_ns = loop_next_ns,
	.shutdown = loop_shutdown,
	.error = loop_error,
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

int osf_module_init(void) { return ops_proto_register(&loop); }
