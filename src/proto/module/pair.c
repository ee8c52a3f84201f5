/* SPDX-License-Identifier: MIT */
/*
 * proto/module/pair.c - connections of a protocol whose two ends are in one process
 *
 *     listen:   note the address
 *     connect:  find the listener; the module's pair(); connect the anchor in the kernel
 *     accept:   the name of what the kernel has returned says which end it is
 *
 * So the module needs neither names nor listeners.  An end that nobody has accepted is on
 * the list of arrivals.  It is reset with its listener; if the other end falls back, TCP
 * gets what it has been sent.
 *
 * The kernel must bring a connection to the listener that has its address.  A listener with
 * SO_REUSEPORT may be one of several: it is not served.
 */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "base/connect.h"
#include "base/libc.h"
#include "base/log.h"
#include "proto/module/stream.h"

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

struct listener {
	struct listener *next;
	uint64_t id, netns;
	struct sockaddr_storage at;
};

struct lock stream_pairs;
static struct listener *listeners;
static struct osf_sock *arrivals;

static uint64_t netns_of(int fd)
{
	uint64_t cookie = 0;
	socklen_t len = sizeof(cookie);

	libc.getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &len);
	return cookie;
}

static bool is_one_of_many(int fd)
{
	int on = 0;
	socklen_t len = sizeof(on);

	return libc.getsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, &len) || on;
}

/* Do both name one socket?  @any: @a may be an address that stands for all. */
static bool is_same(const struct sockaddr_storage *a, const void *b, bool any)
{
	const struct sockaddr_in *a4 = (const void *)a, *b4 = b;
	const struct sockaddr_in6 *a6 = (const void *)a, *b6 = b;

	if (a4->sin_family != b4->sin_family || a4->sin_port != b4->sin_port)
		return false;
	if (a4->sin_family == AF_INET)
		return a4->sin_addr.s_addr == b4->sin_addr.s_addr ||
		       (any && a4->sin_addr.s_addr == htonl(INADDR_ANY));
	return a4->sin_family == AF_INET6 &&
	       (!memcmp(&a6->sin6_addr, &b6->sin6_addr, 16) ||
		(any && IN6_IS_ADDR_UNSPECIFIED(&a6->sin6_addr)));
}

/*
 * Listeners.
 */

/* The one of @id, or a new one; the caller holds the lock. */
static struct listener *listener_of(uint64_t id)
{
	struct listener *l = listeners;

	while (l && l->id != id)
		l = l->next;
	if (l)
		return l;
	l = calloc(1, sizeof(*l));
	if (!l)
		return NULL;
	l->id = id;
	l->next = listeners;
	listeners = l;
	return l;
}

/* Also when it listens again: what has arrived stays. */
int pair_listen(uint64_t id, int fd)
{
	struct sockaddr_storage at;
	socklen_t len = sizeof(at);

	if (is_one_of_many(fd) ||
	    libc.getsockname(fd, (struct sockaddr *)&at, &len) < 0) {
		pair_unlisten(id);
		return -EOPNOTSUPP;
	}
	GUARD(&stream_pairs);
	struct listener *l = listener_of(id);
	if (!l)
		return -ENOMEM;
	l->at = at;
	l->netns = netns_of(fd);
	return 0;
}

/* Take the arrival at @at off the list. */
static struct osf_sock *unlink_at(struct osf_sock **at)
{
	struct osf_sock *b = *at;

	store_rlx(at, b->pair.next);
	return b;
}

/* With the lock: the arrivals of @listener, as a list of their own. */
static struct osf_sock *take_arrivals(uint64_t listener)
{
	struct osf_sock *taken = NULL;

	for (struct osf_sock **at = &arrivals; *at;) {
		if ((*at)->pair.listener != listener) {
			at = &(*at)->pair.next;
			continue;
		}
		struct osf_sock *b = unlink_at(at);
		b->pair.next = taken;
		taken = b;
	}
	return taken;
}

static struct osf_sock *forget_listener(uint64_t id)
{
	GUARD(&stream_pairs);

	for (struct listener **at = &listeners, *l; (l = *at); at = &l->next)
		if (l->id == id) {
			*at = l->next;
			free(l);
			return take_arrivals(id);
		}
	return NULL;
}

/* What has arrived is reset. */
void pair_unlisten(uint64_t id)
{
	for (struct osf_sock *b = forget_listener(id), *next; b; b = next) {
		next = b->pair.next;
		stream_end(b, 0);
		stream_discard(b); /* takes the lock */
	}
}

static struct listener *listener_at(int fd, const struct sockaddr *to)
{
	for (struct listener *l = listeners; l; l = l->next)
		if (is_same(&l->at, to, true) && l->netns == netns_of(fd))
			return l;
	return NULL;
}

/*
 * Connections.
 */

/* On this host; it does not wait for an accept(). */
static int connect_anchor(int fd, const struct sockaddr *to, socklen_t len)
{
	int err = connect_begin(fd, to, len);

	return err == -EINPROGRESS ? 0 : err;
}

static int open_both(struct osf_sock *a, struct osf_sock *b, int fd,
		     const struct sockaddr *to, socklen_t len)
{
	socklen_t name_len = sizeof(b->pair.name);
	int err;

	STREAM_RUN(a->ops, err =, a->ops->pair(a, b, &a->conn, &b->conn));
	if (err)
		return err;
	err = connect_anchor(fd, to, len);
	if (!err && libc.getsockname(fd, (struct sockaddr *)&b->pair.name,
				     &name_len) < 0)
		err = -errno;
	if (err) {
		stream_end(a, 0);
		stream_end(b, 0);
	}
	return err;
}

/* Who accepts the anchor's connection before this returns waits for the lock. */
int pair_connect(struct osf_sock *a, int fd, const struct sockaddr *to,
		 socklen_t len)
{
	GUARD(&stream_pairs);
	struct listener *l = listener_at(fd, to);
	struct osf_sock *b = l ? stream_new(NULL, a->ops) : NULL;

	if (!b)
		return l ? -ENOMEM : -EHOSTUNREACH;
	int err = open_both(a, b, fd, to, len);
	if (err) {
		stream_discard(b);
		return err;
	}
	b->pair.from = a;
	b->pair.listener = l->id;
	b->pair.next = arrivals;
	store_rel(&arrivals, b);
	return 0;
}

struct osf_sock *pair_accept(const struct osf_stream_ops *ops, struct sock *sk,
			     const struct sockaddr_storage *from)
{
	GUARD(&stream_pairs);

	for (struct osf_sock **at = &arrivals; *at; at = &(*at)->pair.next)
		if ((*at)->ops == ops &&
		    is_same(&(*at)->pair.name, from, false)) {
			struct osf_sock *b = unlink_at(at);

			store_rel(&b->sk, sk);
			return b;
		}
	return NULL;
}

struct osf_sock *pair_unaccepted(const struct osf_sock *a)
{
	if (!load_acq(&arrivals))
		return NULL;
	GUARD(&stream_pairs);
	for (struct osf_sock **at = &arrivals; *at; at = &(*at)->pair.next)
		if ((*at)->pair.from == a)
			return unlink_at(at);
	return NULL;
}

void pair_forget(const struct osf_sock *a)
{
	if (!load_acq(&arrivals))
		return;
	GUARD(&stream_pairs);
	for (struct osf_sock *b = arrivals; b; b = b->pair.next)
		if (b->pair.from == a)
			b->pair.from = NULL;
}
