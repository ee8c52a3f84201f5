/* SPDX-License-Identifier: MIT */
/*
 * group/open.c - sockets: create, connect, listen, accept, move
 *
 *     create -> (bind) -> connect -> established()  ->  ESTABLISHED
 *                      -> listen  -> accept()       ->  accept()
 *     detach, attach: from one group's lists to another's
 *
 * The descriptor is a kernel socket of our own.  It joins the group's epoll
 * set, edge-triggered, when the first event becomes possible.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "base/fds.h"
#include "base/libc.h"
#include "base/nocancel.h"
#include "group/end.h"
#include "group/fail.h"
#include "group/handle.h"
#include "group/lent.h"
#include "group/open.h"
#include "group/set.h"
#include "group/sync.h"
#include "ops/ops.h"
#include "sock/arena.h"
#include "sock/opt.h"

#define ACCEPTS_A_TURN 64

/* Makes a socket of @fd in @g.  On error the caller still owns @fd. */
static int gsock_new(struct group *g, int fd, uintptr_t userdata,
		     struct gsock **out)
{
	struct gsock *s = gsock_take();

	if (!s)
		return -ENOMEM;
	struct gsock fresh = {
		.fd = fd, .watched = { -1, -1 }, .hot = -1, .userdata = userdata
	};
	fresh.handle = handle_new(s, HANDLE_SOCK);
	if (!fresh.handle) {
		gsock_put(s);
		return -ENOMEM;
	}
	*s = fresh;
	list_init(&s->work);
	list_init(&s->acks);
	list_init(&s->dirty);
	list_init(&s->lent);
	list_add_tail(&g->all, &s->all);
	g->n_socks++;
	s->sk = sock_new(fd); /* NULL is all right */
	if (s->sk)
		s->sk->w->nonblock = 1;
	store_rlx(&s->group, g);
	*out = s;
	return 0;
}

int gsock_create(struct group *g, int domain, uintptr_t userdata,
		 uintptr_t *out)
{
	struct ops_family family;
	struct gsock *s;

	if (domain != AF_INET && domain != AF_INET6)
		return -EINVAL;
	if (!ops_family(domain, SOCK_STREAM, 0, &family))
		return -EINVAL;
	int fd =
	    libc.socket(domain, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	int err = gsock_new(g, fd, userdata, &s);
	if (err) {
		nocancel_close(fd);
		return err;
	}
	if (s->sk)
		ops_created(s->sk, &family);
	*out = s->handle;
	return 0;
}

void gsock_set_userdata(struct gsock *s, uintptr_t userdata)
{
	s->userdata = userdata;
}

int gsock_fd(const struct gsock *s) { return s->fd; }

bool gsock_has_route(const struct gsock *s)
{
	return s->state == GSOCK_CONNECTING || s->state == GSOCK_CONNECTED;
}

int gsock_setsockopt(struct gsock *s, int level, int name, const void *val,
		     socklen_t len)
{
	int err = 0;

	if (s->sk)
		err = opt_set(s->sk, s->fd, opt_find(level, name), level, name,
			      val, len);
	else if (libc.setsockopt(s->fd, level, name, val, len) < 0)
		err = -errno;
	if (!err && level == IPPROTO_TCP && name == TCP_USER_TIMEOUT)
		memcpy(&s->user_timeout_ms, val, sizeof(s->user_timeout_ms));
	return err;
}

int gsock_bind(struct gsock *s, const struct sockaddr *addr, socklen_t len)
{
	if (libc.bind(s->fd, addr, len) < 0)
		return -errno;
	s->is_bound = 1;
	return 0;
}

/* Connect. */

/* Errors of the call itself, as opposed to the connection's. */
static bool is_callers(int err)
{
	return err == EAFNOSUPPORT || err == EINVAL || err == EFAULT ||
	       err == EADDRNOTAVAIL || err == EADDRINUSE || err == EACCES ||
	       err == EPERM || err == EBADF || err == ENOMEM;
}

int gsock_connect(struct gsock *s, const struct sockaddr *to, socklen_t len)
{
	int err = 0;

	if (!s->group || s->is_closing)
		return -EINVAL;
	switch (s->state) {
	case GSOCK_IDLE:
		break;
	case GSOCK_CONNECTING:
		return -EALREADY;
	case GSOCK_CONNECTED:
		return -EISCONN;
	case GSOCK_FAILED:
		return -ECONNABORTED;
	default:
		return -EINVAL;
	}
	if (is_bad_ptr(to))
		return -EINVAL;
	if (len >= sizeof(sa_family_t) && to->sa_family == AF_UNSPEC)
		return -EAFNOSUPPORT;
	/* A module's replacement descriptor is installed. */
	bool carried =
	    s->sk && len >= sizeof(struct sockaddr_in) &&
	    !ops_connect_first(s->sk, s->fd, to, len,
			       &(struct module_how){ .no_streams = true });
	if (!carried && nocancel_connect(s->fd, to, len) < 0)
		err = errno;
	if (is_callers(err))
		return -err;
	if (err == EINPROGRESS || err == EAGAIN)
		err = 0;
	int in_set = set_add(s);
	if (in_set)
		return in_set;
	s->state = GSOCK_CONNECTING;
	s->error = err;
	if (err)
		work_add(s); /* reported in the next turn */
	else
		deadline_set(s);
	return 0;
}

void gsock_established(struct group *g, struct gsock *s)
{
	struct sockaddr_storage peer;
	socklen_t len = sizeof(peer);

	if (getpeername(s->fd, (struct sockaddr *)&peer, &len) < 0) {
		gsock_fail(g, s, errno);
		return;
	}
	deadline_clear(s);
	s->state = GSOCK_CONNECTED;
	/* Two names of the tuple are known only now, so it is counted from here. */
	if (s->sk && !(s->sk->flags & SOCK_F_ACTIVE))
		ops_connected(s->sk, s->fd, (struct sockaddr *)&peer);
	gsock_sync(s);
	if (!call_event(g, s, GROUP_ESTABLISHED, 0))
		return;
	s->is_readable = 1; /* the event may have reported data too */
	work_add(s);
}

/* Listen. */

int gsock_listen(struct gsock *s)
{
	if (!s->group || s->is_closing ||
	    (s->state != GSOCK_IDLE && s->state != GSOCK_LISTENING) ||
	    !s->is_bound)
		return -EINVAL;
	if (!s->group->attr.calls.accept)
		return -ENOTCONN;
	if (libc.listen(s->fd, INT32_MAX) < 0)
		return -errno;
	int err = set_add(s);
	if (err)
		return err;
	s->state = GSOCK_LISTENING;
	if (s->sk)
		ops_listening(s->sk, s->fd, INT32_MAX, false);
	return 0;
}

/* Ask the switch about an arrival.  False: it was only a dead token. */
static bool arrive(struct gsock *s, struct gsock *parent,
		   struct sockaddr_storage *from, socklen_t len)
{
	if (!s->sk || !parent->sk)
		return true;
	int err = ops_accept_first(s->sk, s->fd, parent->sk, from, &len, false);
	if (err == -EAGAIN)
		ops_accepted(s->sk, s->fd, parent->sk, (struct sockaddr *)from);
	return err != -ECONNABORTED;
}

/* 0, -EAGAIN nothing there, or why nothing can be accepted. */
static int accept_one(struct group *g, struct gsock *parent)
{
	struct sockaddr_storage from = { 0 };
	socklen_t len = sizeof(from);
	struct gsock *s;

	int fd = nocancel_accept4(parent->fd, (struct sockaddr *)&from, &len,
				  SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd < 0)
		return errno == ECONNABORTED || errno == EINTR ? 0 : -errno;
	int err = gsock_new(g, fd, 0, &s);
	if (err) {
		nocancel_close(fd);
		return err;
	}
	s->state = GSOCK_CONNECTED;
	if (!arrive(s, parent, &from, len) || set_add(s)) {
		gsock_discard(s);
		return 0;
	}
	gsock_sync(s);
	g->current = parent;
	g->attr.calls.accept(s->handle, parent->handle, parent->userdata,
			     &g->attr.calls);
	g->n_events++;
	bool same = g->current == parent;
	g->current = NULL;
	return same && !parent->is_closing ? 0 : -ECANCELED;
}

void gsock_accept(struct group *g, struct gsock *s)
{
	for (int i = 0; i < ACCEPTS_A_TURN; i++) {
		int err = accept_one(g, s);

		if (err == -EAGAIN || err == -ECANCELED)
			return;
		if (err)
			break; /* no descriptor, no memory: it is tried again */
	}
	work_add(s);
}

/* Move between groups. */

int gsock_detach(struct gsock *s)
{
	if (s->state == GSOCK_LISTENING)
		return -ENOTSUP;
	if (!s->group || s->is_closing || s->state != GSOCK_CONNECTED)
		return -EINVAL;
	gsock_unlist(s);
	return 0;
}

int gsock_attach(struct gsock *s, struct group *g)
{
	if (s->group)
		return -EINVAL;
	list_init(&s->all);
	list_add_tail(&g->all, &s->all);
	g->n_socks++;
	store_rlx(&s->group, g);
	int err = set_add(s);
	if (err) {
		gsock_unlist(s);
		return err == -ENOSPC ? -ENOMEM : err;
	}
	s->is_direct = 0; /* until it has its place here */
	gsock_sync(s);
	if (s->lend) { /* what has come back meanwhile */
		held_release(s);
		if (s->held_first)
			list_add_tail(&g->lent, &s->lent);
	}
	s->is_readable = 1;
	if (s->first && s->first != s->out)
		list_add_tail(&g->acks, &s->acks);
	if (s->queued > s->limit && g->attr.keeps_dirty)
		list_add_tail(&g->dirty, &s->dirty);
	work_add(s);
	return 0;
}
