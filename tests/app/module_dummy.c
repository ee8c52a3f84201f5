/* SPDX-License-Identifier: MIT */
/*
 * tests/app/module_dummy.c - a module that carries connections over unix sockets
 *
 *     connect: unix "osf-NAME/PORT" <- the token's port; then the token, by TCP
 *     listen:  unix "osf-NAME/PORT" listens beside the kernel's listener
 *     accept:  the unix connection that told of the token's port is the replacement
 *
 * What it was asked goes to the file DUMMY_LOG, one line each.  From the same
 * source come modules of several generations, by -DGENERATION:
 *
 *     1   its struct ends before accept(): it opens connections, and no token
 *     2   with accept(), so both ends may have it
 *     3   with streams of a later osf, and what is new there is used
 *     4   of a later osf: its struct goes on, and what goes on is used
 *
 * with another NAME and PRIORITY, and some that fail: -DFAIL_INIT, -DNO_ENTRY.
 *
 * Environment: DUMMY_REFUSE, the names of modules whose connect() refuses;
 * DUMMY_GONE: so many arrivals are gone when they are accepted; DUMMY_CAPS: what it
 * says that it can do.
 * tests/app/test_modules.py and test_routes.py run it.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "osf/proto.h"

#ifndef GENERATION
#define GENERATION 2
#endif
#ifndef NAME
#define NAME "dummy"
#define PRIORITY 200
#endif
#define LISTENERS_MAX 16
#define PENDING_MAX 64

int osf_module_init(void);

/* Connections of the module's, told of by @port and not yet accepted. */
struct pending {
	int fd;
	in_port_t port;
};

struct listener {
	uint64_t id; /* 0: free */
	int fd;
	int n_pending;
	struct pending pending[PENDING_MAX];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct listener listeners[LISTENERS_MAX];
static int n_gone;

static void say(const char *fmt, ...)
{
	const char *path = getenv("DUMMY_LOG");
	int fd =
	    path ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600)
		 : -1;
	char line[80];
	va_list ap;

	if (fd < 0)
		return;
	va_start(ap, fmt);
	int n = snprintf(line, sizeof(line), NAME " ");
	n += vsnprintf(line + n, sizeof(line) - (size_t)n, fmt, ap);
	va_end(ap);
	if (write(fd, line, (size_t)n) < 0)
		abort();
	close(fd);
}

static socklen_t unix_name(struct sockaddr_un *un, in_port_t port)
{
	*un = (struct sockaddr_un){ .sun_family = AF_UNIX };
	int n = snprintf(un->sun_path + 1, sizeof(un->sun_path) - 1,
			 "osf-" NAME "/%d", ntohs(port));

	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
			   (size_t)n);
}

static int unix_connect(in_port_t port)
{
	struct sockaddr_un un;
	socklen_t len = unix_name(&un, port);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || !connect(fd, (struct sockaddr *)&un, len))
		return fd < 0 ? -errno : fd;
	int err = -errno;
	close(fd);
	return err;
}

/* A TCP connection to @to, after its port was told to @replacement. */
static int send_token(const struct sockaddr_in *to, int timeout_ms,
		      int replacement)
{
	struct sockaddr_in own = { .sin_family = AF_INET,
				   .sin_addr = to->sin_addr };
	socklen_t len = sizeof(own);
	int fd = socket(AF_INET_DIRECT,
			SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	int err = 0;

	if (bind(fd, (struct sockaddr *)&own, sizeof(own)) < 0 ||
	    getsockname(fd, (struct sockaddr *)&own, &len) < 0 ||
	    write(replacement, &own.sin_port, sizeof(own.sin_port)) < 0 ||
	    (connect(fd, (const struct sockaddr *)to, sizeof(*to)) < 0 &&
	     errno != EINPROGRESS))
		err = -errno;
	else if (poll(&p, 1, timeout_ms) != 1 || p.revents & POLLERR)
		err = -ETIMEDOUT;
	close(fd);
	return err;
}

static int dummy_connect(uint64_t id, int fd, const struct sockaddr *to,
			 socklen_t len, unsigned timeout_ms, int *replacement)
{
	const struct sockaddr_in *in = (const void *)to;
	int port = ntohs(in->sin_port), err = 0;
	const char *refuse = getenv("DUMMY_REFUSE");

	say("connect %d\n", port);
	if (refuse && strstr(refuse, NAME))
		return -ECONNREFUSED;
	int own = unix_connect(in->sin_port);
	if (own < 0)
		return own;
	if (GENERATION > 1)
		err = send_token(in, (int)timeout_ms, own);
	if (err) {
		close(own);
		return err;
	}
	say("connected %d\n", port);
	*replacement = own;
	return 0;
}

static struct listener *find(uint64_t id)
{
	for (int i = 0; i < LISTENERS_MAX; i++)
		if (listeners[i].id == id)
			return &listeners[i];
	return NULL;
}

static int dummy_listen(uint64_t id, int fd, int backlog)
{
	struct sockaddr_in in;
	struct sockaddr_un un;
	socklen_t len = sizeof(in);

	if (getsockname(fd, (struct sockaddr *)&in, &len) < 0)
		return -errno;
	say("listen %d\n", ntohs(in.sin_port));
	len = unix_name(&un, in.sin_port);
	pthread_mutex_lock(&lock);
	struct listener *l = find(id) ? NULL : find(0);
	if (l) {
		l->fd = socket(AF_UNIX,
			       SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		if (!bind(l->fd, (struct sockaddr *)&un, len) &&
		    !listen(l->fd, backlog))
			l->id = id;
		else
			close(l->fd);
	}
	pthread_mutex_unlock(&lock);
	return 0;
}

/* The latest that told of @port: of an earlier one the token has failed. */
static int take_locked(struct listener *l, in_port_t port)
{
	struct pending p = { .port = 0 };

	while (l->n_pending < PENDING_MAX &&
	       (p.fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
		if (read(p.fd, &p.port, sizeof(p.port)) == sizeof(p.port))
			l->pending[l->n_pending++] = p;
		else
			close(p.fd);
	}
	for (int i = l->n_pending - 1; i >= 0; i--) {
		p = l->pending[i];
		if (p.port != port)
			continue;
		l->pending[i] = l->pending[--l->n_pending];
		return p.fd;
	}
	return -EAGAIN;
}

static int dummy_accept(uint64_t listener, uint64_t id, int fd,
			struct sockaddr_storage *from, socklen_t *len,
			int *replacement)
{
	const struct sockaddr_in *in = (const void *)from;

	pthread_mutex_lock(&lock);
	struct listener *l = find(listener);
	int own = l ? take_locked(l, in->sin_port) : -EAGAIN;
	pthread_mutex_unlock(&lock);
	if (own < 0) {
		say("not mine\n");
		return own;
	}
	if (n_gone-- > 0) {
		say("gone\n");
		close(own);
		return -ECONNABORTED;
	}
	say("accepted\n");
	*replacement = own;
	return 0;
}

static void dummy_close(uint64_t id)
{
	pthread_mutex_lock(&lock);
	struct listener *l = find(id);
	if (l) {
		while (l->n_pending)
			close(l->pending[--l->n_pending].fd);
		close(l->fd);
		l->id = 0;
	}
	pthread_mutex_unlock(&lock);
	say(l ? "close listener\n" : "close\n");
}

static void dummy_notify(const struct osf_inet_event *event)
{
	say("notify %u %u %u\n", event->kind, event->ifindex, event->family);
}

static int of_the_future(void) { return 0; }
static const struct {
	struct osf_stream_ops ops;
	uint64_t future;
} streams = { .ops.size = sizeof(streams), .future = 1 };

static struct {
	struct osf_proto proto;
	int (*future)(void);
} later = {
	.proto = {
		.size = GENERATION == 1   ? (uint32_t)OSF_PROTO_SIZE_1
			: GENERATION == 2 ? (uint32_t)OSF_PROTO_SIZE_2
			: GENERATION == 3 ? (uint32_t)OSF_PROTO_SIZE_3
					  : (uint32_t)sizeof(later),
		.name = NAME,
		.caps = OSF_CAP_LOCAL,
		.priority = PRIORITY,
		.connect = dummy_connect,
		.listen = GENERATION == 1 ? NULL : dummy_listen,
		.notify = dummy_notify,
		.accept = dummy_accept,
		.close = dummy_close,
		.stream = GENERATION == 3 ? &streams.ops : NULL,
	},
	.future = of_the_future,
};

#ifdef NO_ENTRY
#define osf_module_init not_the_entry
int not_the_entry(void);
#endif

int osf_module_init(void)
{
	const char *gone = getenv("DUMMY_GONE");
	const char *caps = getenv("DUMMY_CAPS");

	n_gone = gone ? atoi(gone) : 0;
	if (caps)
		later.proto.caps = strtoull(caps, NULL, 0);
	int err = ops_proto_register(&later.proto);
	say("registered %d: %d\n", GENERATION, err);
	if (err == -E2BIG || err == -EOPNOTSUPP) { /* do without what is new */
		later.proto.size = (uint32_t)OSF_PROTO_SIZE_2;
		err = ops_proto_register(&later.proto);
		say("registered again: %d\n", err);
	}
#ifdef FAIL_INIT
	return -EIO;
#else
	return err;
#endif
}
