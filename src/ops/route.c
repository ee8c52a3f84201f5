/* SPDX-License-Identifier: MIT */
/*
 * ops/route.c - see ops/route.h
 *
 * The first address that is not loopback opens two rtnetlink sockets: one
 * receives events, the other asks for routes.  Without the first we keep no
 * answers.  Both belong to a network namespace; a socket of another namespace
 * opens them anew.
 *
 * A change makes the whole table invalid by raising a number.  Whoever receives
 * the event holds the lock meanwhile, so a later look-up sees no entry from
 * before.
 */
#include <errno.h>
#include <stdalign.h>
#include <string.h>

#include "base/fds.h"
#include "base/libc.h"
#include "base/lock.h"
#include "base/idle.h"
#include "base/nocancel.h"
#include "ops/netlink.h"
#include "ops/route.h"

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif
#ifndef SO_BINDTOIFINDEX
#define SO_BINDTOIFINDEX 62
#endif

#define SETS 32 /* times WAYS entries; what is least recently used goes */
#define WAYS 4

struct entry {
	struct route_key key;
	struct osf_route route;
	uint32_t epoch; /* of the table when it was asked; 0: free */
	uint32_t used;  /* when it was last looked at */
};

static struct lock lock; /* all below */
static struct entry table[SETS][WAYS];
static uint32_t epoch = 1, clock_hand;
static int events_fd = -1, ask_fd = -1;
static uint64_t netns;    /* of both; 0: not known */
static uint32_t n_opened; /* the number of events_fd */

static bool as_in6(const struct sockaddr *sa, struct in6_addr *out)
{
	if (sa->sa_family == AF_INET6) {
		memcpy(out, &((const struct sockaddr_in6 *)sa)->sin6_addr, 16);
		return true;
	}
	if (sa->sa_family != AF_INET)
		return false;
	*out = (struct in6_addr){ .s6_addr = { [10] = 0xff, [11] = 0xff } };
	memcpy(&out->s6_addr[12], &((const struct sockaddr_in *)sa)->sin_addr,
	       4);
	return true;
}

static bool is_any(const struct in6_addr *a)
{
	return IN6_IS_ADDR_UNSPECIFIED(a) ||
	       (IN6_IS_ADDR_V4MAPPED(a) && !a->s6_addr32[3]);
}

static bool is_loopback(const struct in6_addr *a)
{
	return IN6_IS_ADDR_LOOPBACK(a) || is_any(a) ||
	       (IN6_IS_ADDR_V4MAPPED(a) && a->s6_addr[12] == 127);
}

static uint64_t number_of(int fd, int option, socklen_t bytes)
{
	uint64_t n = 0;

	return libc.getsockopt(fd, SOL_SOCKET, option, &n, &bytes) ? 0 : n;
}

/* The socket's properties, beside the address, that the route depends on. */
static void key_of_socket(int fd, struct route_key *key)
{
	struct sockaddr_storage own;
	socklen_t len = sizeof(own);

	if (fd < 0)
		return;
	if (!getsockname(fd, (struct sockaddr *)&own, &len) &&
	    as_in6((struct sockaddr *)&own, &key->from) && is_any(&key->from))
		key->from = in6addr_any;
	uint32_t bound = (uint32_t)number_of(fd, SO_BINDTOIFINDEX, 4);
	if (bound)
		key->oif = bound;
	key->mark = (uint32_t)number_of(fd, SO_MARK, 4);
}

static void close_locked(void)
{
	fds_close(events_fd);
	fds_close(ask_fd);
	events_fd = ask_fd = -1;
	netns = 0;
	epoch++;
}

static bool open_locked(void)
{
	if (ask_fd < 0)
		ask_fd = netlink_open();
	if (ask_fd < 0)
		return false;
	if (events_fd < 0) {
		events_fd = netlink_listen();
		netns = number_of(ask_fd, SO_NETNS_COOKIE, 8);
		n_opened++;
		epoch++; /* we may have missed changes until now */
	}
	return true;
}

/* Have sockets in the namespace of @fd. */
static bool open_beside_locked(int fd)
{
	uint64_t want = fd < 0 ? 0 : number_of(fd, SO_NETNS_COOKIE, 8);

	if (!open_locked())
		return false;
	if (!want || !netns || want == netns)
		return true;
	close_locked();
	return open_locked() && want == netns;
}

static struct entry *set_of(const struct route_key *key)
{
	uint32_t h = key->mark ^ key->oif;

	for (int i = 0; i < 4; i++)
		h = (h ^ key->to.s6_addr32[i]) * 0x9e3779b1u;
	return table[(h >> 16) % SETS];
}

/* The entry for @key, or the one to replace by it. */
static struct entry *entry_locked(const struct route_key *key)
{
	struct entry *set = set_of(key), *oldest = set;

	for (struct entry *e = set; e < set + WAYS; e++) {
		if (e->epoch != epoch) {
			oldest = e;
			continue;
		}
		if (!memcmp(&e->key, key, sizeof(*key)))
			return e;
		if (oldest->epoch == epoch &&
		    (int32_t)(e->used - oldest->used) < 0)
			oldest = e;
	}
	return oldest;
}

static void look_up_locked(int fd, const struct route_key *key,
			   struct osf_route *out)
{
	if (!open_beside_locked(fd))
		return;
	struct entry *e = entry_locked(key);

	e->used = ++clock_hand;
	if (e->epoch != epoch || memcmp(&e->key, key, sizeof(*key))) {
		struct osf_route found = { 0 };

		e->epoch = 0;
		if (netlink_route(ask_fd, key, &found))
			return;
		e->key = *key;
		e->route = found;
		e->epoch = events_fd >= 0 ? epoch : 0;
	}
	uint32_t size = out->size;
	*out = e->route;
	out->size = size;
}

void route_get(int fd, const struct sockaddr *to, struct osf_route *out)
{
	struct route_key key = { 0 };
	int saved = errno;

	*out = (struct osf_route){ .size = out->size };
	if (!as_in6(to, &key.to))
		return;
	memcpy(out->hop, &key.to, sizeof(out->hop));
	if (is_loopback(&key.to)) {
		out->kind = OSF_ROUTE_LOCAL;
		return;
	}
	if (to->sa_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&key.to))
		key.oif = ((const struct sockaddr_in6 *)to)->sin6_scope_id;
	key_of_socket(fd, &key);
	route_events();
	lock_get(&lock);
	look_up_locked(fd, &key, out);
	lock_put(&lock);
	errno = saved;
}

int route_neigh(const struct osf_route *r, uint8_t mac[6])
{
	struct in6_addr hop;
	GUARD(&lock);

	memcpy(&hop, r->hop, sizeof(hop));
	return open_locked() ? netlink_neigh(ask_fd, r->ifindex, &hop, mac)
			     : -EMFILE;
}

/* One datagram of events; 0: there is none.  -ENOBUFS: some are lost. */
static ssize_t receive(void *buf, size_t bytes)
{
	GUARD(&lock);
	ssize_t n = events_fd < 0
			? 0
			: nocancel_recv(events_fd, buf, bytes, MSG_DONTWAIT);

	if (n < 0)
		n = errno == ENOBUFS ? -ENOBUFS : 0;
	if (n)
		epoch++;
	return n;
}

static void pass_on(const char *buf, size_t n)
{
	const struct nlmsghdr *h = (const struct nlmsghdr *)buf;
	struct osf_inet_event ev;

	for (; NLMSG_OK(h, n); h = NLMSG_NEXT(h, n))
		if (netlink_event(h, &ev))
			ops_inet_notification(&ev);
}

void route_events(void)
{
	alignas(struct nlmsghdr) char buf[8192];
	struct osf_inet_event lost = { .size = sizeof(lost),
				       .kind = OSF_INET_LOST };
	int saved = errno;
	ssize_t n;

	while ((n = receive(buf, sizeof(buf)))) {
		if (n > 0)
			pass_on(buf, (size_t)n);
		else
			ops_inet_notification(&lost);
	}
	errno = saved;
}

static int watched_fd(uint32_t *number)
{
	GUARD(&lock);
	open_locked();
	*number = n_opened;
	return events_fd;
}

void route_watch(bool on)
{
	static const struct idle events = { .fd = watched_fd,
					    .run = route_events };

	idle_set(on ? &events : NULL);
}

void route_changed(void)
{
	GUARD(&lock);
	epoch++;
}

void route_after_fork(void)
{
	lock_inherit(&lock);
	close_locked(); /* their events belong to the parent */
}

OSF_API int ops_route(int fd, const struct sockaddr *to, socklen_t len,
		      struct osf_route *route)
{
	struct osf_route r = { .size = sizeof(r) };
	struct sockaddr_storage copy = { 0 };

	if (!to || !route || route->size < OSF_ROUTE_SIZE_1 ||
	    len < sizeof(sa_family_t) || len > sizeof(copy))
		return -EINVAL;
	memcpy(&copy, to, len);
	if ((copy.ss_family != AF_INET || len < sizeof(struct sockaddr_in)) &&
	    (copy.ss_family != AF_INET6 || len < sizeof(struct sockaddr_in6)))
		return -EAFNOSUPPORT;
	route_get(fd, (struct sockaddr *)&copy, &r);
	if (r.size > route->size)
		r.size = route->size;
	memcpy(route, &r, r.size);
	return 0;
}
