/* SPDX-License-Identifier: MIT */
/* ops/module.c - see ops/module.h */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/libc.h"
#include "base/log.h"
#include "ops/builtin.h"
#include "ops/candidates.h"
#include "ops/module.h"
#include "ops/route.h"

/* The time limit for one candidate.  It is shorter for a non-blocking program,
 * which cannot do its other work meanwhile. */
#define CONNECT_TIMEOUT_MS 200
#define CONNECT_TIMEOUT_NONBLOCK_MS 20

/* An op is running: do not ask modules about calls that it makes. */
static __thread bool is_inside;

/* Run an op; restores is_inside afterwards. */
#define ASK(result, call)                                                      \
	do {                                                                   \
		bool was_inside = is_inside;                                   \
		is_inside = true;                                              \
		result(call);                                                  \
		is_inside = was_inside;                                        \
	} while (0)

/* The protocols to ask before the kernel.  Leave out those of lower priority
 * than a protocol that takes over what the kernel has opened, unless it may not
 * serve this connection. */
static struct protos before_the_kernel(struct question *q)
{
	struct protos t = { 0 };
	int n = 0;

	if (is_inside || !registry_any())
		return t;
	t = candidates(q);
	while (n < t.n && !is_builtin(t.proto[n]))
		n++;
	t.n = n;
	return t;
}

static int dup_over(int fd, int replacement)
{
	int flags = libc.fcntl(fd, F_GETFD);

	return libc.dup3(replacement, fd, flags & FD_CLOEXEC ? O_CLOEXEC : 0) <
		       0
		   ? -errno
		   : 0;
}

/* Install @replacement at @fd, with the flags that the program gave @fd. */
static int put(const struct osf_proto *p, int replacement, int fd,
	       module_place *place)
{
	int want = libc.fcntl(fd, F_GETFL),
	    have = libc.fcntl(replacement, F_GETFL);
	int err = 0;

	if (have < 0 || replacement == fd) {
		log_err("module %s: descriptor %d is no replacement", p->name,
			replacement);
		return -EBADF;
	}
	if ((want ^ have) & O_NONBLOCK &&
	    libc.fcntl(replacement, F_SETFL, have ^ O_NONBLOCK) < 0)
		err = -errno;
	if (!err)
		err =
		    place ? place(fd, replacement) : dup_over(fd, replacement);
	close(
	    replacement); /* by its public name: it may be in the file table */
	return err;
}

int module_connect(uint64_t id, int fd, const struct sockaddr *to,
		   socklen_t len, const char *provider, module_place *place)
{
	struct question q = {
		.fd = fd, .peer = to, .len = len, .provider = provider
	};
	struct protos t = before_the_kernel(&q);
	unsigned ms = t.n && libc.fcntl(fd, F_GETFL) & O_NONBLOCK
			  ? CONNECT_TIMEOUT_NONBLOCK_MS
			  : CONNECT_TIMEOUT_MS;

	for (int i = 0; i < t.n; i++) {
		const struct osf_proto *p = t.proto[i];
		int replacement = -1, err = 0;

		if (!PROTO_OP(p, connect))
			continue;
		ASK(err =, p->connect(id, fd, to, len, ms, &replacement));
		if (!err)
			err = put(p, replacement, fd, place);
		if (!err)
			return 0;
		log_dbg("fd %d: %s cannot connect: %s", fd, p->name,
			strerror(-err));
	}
	return -EAGAIN;
}

int module_accept(uint64_t listener, uint64_t id, int fd,
		  struct sockaddr_storage *from, socklen_t *len,
		  const char *provider)
{
	struct question q = { .fd = fd, .provider = provider };
	struct protos t = before_the_kernel(&q);

	for (int i = 0; i < t.n; i++) {
		const struct osf_proto *p = t.proto[i];
		int replacement = -1, err = 0;

		if (!PROTO_OP(p, accept))
			continue;
		ASK(err =,
		    p->accept(listener, id, fd, from, len, &replacement));
		if (!err && put(p, replacement, fd, NULL))
			err = -ECONNABORTED;
		if (!err || err == -ECONNABORTED)
			return err;
	}
	return -EAGAIN;
}

void module_listen(uint64_t id, int fd, int backlog, const char *provider)
{
	struct question q = { .fd = fd, .provider = provider };
	struct protos t = before_the_kernel(&q);

	for (int i = 0; i < t.n; i++) {
		const struct osf_proto *p = t.proto[i];
		int err = 0;

		if (!PROTO_OP(p, listen))
			continue;
		ASK(err =, p->listen(id, fd, backlog));
		if (err)
			log_warn("fd %d: %s cannot listen: %s", fd, p->name,
				 strerror(-err));
	}
}

void module_close(uint64_t id)
{
	struct protos t = registry_protos();

	for (int i = 0; i < t.n; i++)
		if (PROTO_OP(t.proto[i], close))
			ASK(, t.proto[i]->close(id));
}

OSF_API void ops_inet_notification(const struct osf_inet_event *event)
{
	struct protos t = registry_protos();

	route_changed();
	for (int i = 0; i < t.n; i++)
		if (PROTO_OP(t.proto[i], notify))
			ASK(, t.proto[i]->notify(event));
}
