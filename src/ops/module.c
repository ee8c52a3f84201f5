/* SPDX-License-Identifier: MIT */
/* ops/module.c - see ops/module.h */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/fork_lock.h"
#include "base/libc.h"
#include "base/log.h"
#include "ops/builtin.h"
#include "ops/candidates.h"
#include "ops/inside.h"
#include "ops/module.h"
#include "proto/module/stream.h"
#include "sock/shared.h"

/* The time limit for one candidate.  It is shorter for a non-blocking program,
 * which cannot do its other work meanwhile. */
#define CONNECT_TIMEOUT_MS 200
#define CONNECT_TIMEOUT_NONBLOCK_MS 20

/* A connect(). */
struct opening {
	struct sock *sk;
	uint64_t id;
	int fd;
	const struct sockaddr *to;
	socklen_t len;
	const struct module_how *how;
};

/* The protocols to ask before the kernel.  Leave out those of lower priority
 * than a protocol that takes over what the kernel has opened, unless it may not
 * serve this connection. */
static struct protos before_the_kernel(struct question *q)
{
	struct protos t = { 0 };
	int n = 0;

	if (ops_inside || !registry_any())
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

/* The module opens the connection.  -EINPROGRESS: it decides later. */
static int open_stream(struct osf_sock *s, struct opening *a, unsigned ms)
{
	int (*op)(struct osf_sock *, uint64_t, int, const struct sockaddr *,
		  socklen_t, unsigned, void **) = STREAM_OP(s->ops, connect);

	if (s->ops->pair)
		return pair_connect(s, a->fd, a->to, a->len);
	int err;
	STREAM_RUN(s->ops, err =,
		   op(s, a->id, a->fd, a->to, a->len, ms, &s->conn));
	return err;
}

/* It moves the bytes itself.  No fork comes between its answer and ours. */
static int connect_stream(const struct osf_stream_ops *ops, struct opening *a,
			  unsigned ms)
{
	INSIDE_FORK_LOCK();
	bool may =
	    (ops->pair || STREAM_OP(ops, connect)) && sock_procs(a->sk) == 1;
	struct osf_sock *s = may ? stream_new(a->sk, ops) : NULL;
	int err = may ? -ENOMEM : -EAGAIN;

	if (s)
		ASK(err =, open_stream(s, a, ms));
	if (err == -EINPROGRESS)
		ASK(err =, stream_await(s, ms));
	if (!err)
		ASK(err =, stream_begin(s, a->fd));
	if (err && s)
		stream_discard(s);
	return err;
}

static int connect_carrier(const struct osf_proto *p, struct opening *a,
			   unsigned ms)
{
	int replacement = -1, err;

	if (!PROTO_OP(p, connect) || a->how->is_fixed)
		return -EAGAIN;
	ASK(err =, p->connect(a->id, a->fd, a->to, a->len, ms, &replacement));
	return err ? err : put(p, replacement, a->fd, a->how->place);
}

static int connect_by(const struct osf_proto *p, struct opening *a, unsigned ms)
{
	const struct osf_stream_ops *ops = PROTO_OP(p, stream);

	if (ops)
		return a->how->no_streams ? -EAGAIN
					  : connect_stream(ops, a, ms);
	return connect_carrier(p, a, ms);
}

int module_connect(struct sock *sk, int fd, const struct sockaddr *to,
		   socklen_t len, const char *provider,
		   const struct module_how *how)
{
	struct question q = {
		.fd = fd, .peer = to, .len = len, .provider = provider
	};
	struct opening a = { sk, module_id(sk), fd, to, len, how };
	struct protos t = before_the_kernel(&q);
	unsigned ms = t.n && libc.fcntl(fd, F_GETFL) & O_NONBLOCK
			  ? CONNECT_TIMEOUT_NONBLOCK_MS
			  : CONNECT_TIMEOUT_MS;

	for (int i = 0; i < t.n; i++) {
		int err = connect_by(t.proto[i], &a, ms);

		if (!err)
			return 0;
		if (err != -EAGAIN)
			log_dbg("fd %d: %s cannot connect: %s", fd,
				t.proto[i]->name, strerror(-err));
	}
	return -EAGAIN;
}

/* The end that has arrived.  NULL and *@err: there is none. */
static struct osf_sock *arrived(const struct osf_stream_ops *ops,
				uint64_t listener, struct sock *sk, int fd,
				struct sockaddr_storage *from, socklen_t *len,
				int *err)
{
	int (*op)(uint64_t, struct osf_sock *, uint64_t, int,
		  struct sockaddr_storage *, socklen_t *, void **) =
	    STREAM_OP(ops, accept);
	struct osf_sock *s;

	*err = -EAGAIN;
	if (ops->pair)
		return pair_accept(ops, sk, from);
	if (!op)
		return NULL;
	s = stream_new(sk, ops);
	*err = s ? 0 : -ENOMEM;
	if (s)
		STREAM_RUN(
		    ops, *err =,
		    op(listener, s, module_id(sk), fd, from, len, &s->conn));
	if (!*err)
		return s;
	if (s)
		stream_discard(s);
	return NULL;
}

static int accept_stream(const struct osf_stream_ops *ops, uint64_t listener,
			 struct sock *sk, int fd, struct sockaddr_storage *from,
			 socklen_t *len)
{
	INSIDE_FORK_LOCK();
	struct osf_sock *s;
	int err;

	ASK(s =, arrived(ops, listener, sk, fd, from, len, &err));
	if (s)
		ASK(err =, stream_begin(s, fd));
	if (err && s)
		stream_discard(s);
	return !err || err == -EAGAIN ? err : -ECONNABORTED;
}

static int accept_carrier(const struct osf_proto *p, uint64_t listener,
			  struct sock *sk, int fd,
			  struct sockaddr_storage *from, socklen_t *len)
{
	int replacement = -1, err;

	if (!PROTO_OP(p, accept))
		return -EAGAIN;
	ASK(err =,
	    p->accept(listener, module_id(sk), fd, from, len, &replacement));
	if (!err && put(p, replacement, fd, NULL))
		err = -ECONNABORTED;
	return !err || err == -ECONNABORTED ? err : -EAGAIN;
}

int module_accept(uint64_t listener, struct sock *sk, int fd,
		  struct sockaddr_storage *from, socklen_t *len,
		  const char *provider, bool streams)
{
	struct question q = { .fd = fd, .provider = provider };
	struct protos t = before_the_kernel(&q);
	int err = -EAGAIN;

	for (int i = 0; i < t.n && err == -EAGAIN; i++) {
		const struct osf_stream_ops *ops = PROTO_OP(t.proto[i], stream);

		if (!ops)
			err = accept_carrier(t.proto[i], listener, sk, fd, from,
					     len);
		else if (streams)
			err = accept_stream(ops, listener, sk, fd, from, len);
	}
	return err;
}

static int listen_by(const struct osf_proto *p, uint64_t id, int fd,
		     int backlog, bool streams)
{
	const struct osf_stream_ops *ops = PROTO_OP(p, stream);
	int (*op)(uint64_t, int, int) =
	    ops ? STREAM_OP(ops, listen) : PROTO_OP(p, listen);
	int err = 0;

	if (ops && !streams)
		return 0;
	if (ops && ops->pair)
		return pair_listen(id, fd);
	if (op)
		ASK(err =, op(id, fd, backlog));
	return err;
}

void module_listen(uint64_t id, int fd, int backlog, const char *provider,
		   bool streams)
{
	struct question q = { .fd = fd, .provider = provider };
	struct protos t = before_the_kernel(&q);

	for (int i = 0; i < t.n; i++) {
		int err = listen_by(t.proto[i], id, fd, backlog, streams);

		if (err)
			log_warn("fd %d: %s cannot listen: %s", fd,
				 t.proto[i]->name, strerror(-err));
	}
}

void module_listener_shared(uint64_t id)
{
	struct protos t = registry_protos();

	pair_unlisten(id);
	for (int i = 0; i < t.n; i++)
		if (PROTO_OP(t.proto[i], stream) && PROTO_OP(t.proto[i], close))
			ASK(, t.proto[i]->close(id));
}

void module_close(uint64_t id)
{
	struct protos t = registry_protos();

	pair_unlisten(id);
	for (int i = 0; i < t.n; i++)
		if (PROTO_OP(t.proto[i], close))
			ASK(, t.proto[i]->close(id));
}
