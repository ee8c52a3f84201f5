/* SPDX-License-Identifier: MIT */
/*
 * ops/local.c - see ops/local.h
 *
 * Loopback is decided by looking; for the rest a list of the host's addresses is
 * kept, and a netlink socket that tells when it is out of date.
 */
#include <errno.h>
#include <ifaddrs.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <stdalign.h>
#include <string.h>

#include "base/fds.h"
#include "base/libc.h"
#include "base/lock.h"
#include "ops/local.h"
#include "osf/proto.h"

#define LOCALS_MAX                                                             \
	256 /* more are taken for remote: their traffic is the kernel's */

static struct lock lock;
static struct in6_addr locals[LOCALS_MAX]; /* IPv4 as v4-mapped */
static int n_locals = -1;                  /* -1: to be read */
static int fd_events = -1;

static bool as_in6(const struct sockaddr *sa, struct in6_addr *out)
{
	if (sa->sa_family == AF_INET6) {
		*out =
		    ((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr;
		return true;
	}
	if (sa->sa_family != AF_INET)
		return false;
	const struct sockaddr_in *v4 = (const void *)sa;
	*out = (struct in6_addr){ .s6_addr = { [10] = 0xff, [11] = 0xff } };
	memcpy(&out->s6_addr[12], &v4->sin_addr, 4);
	return true;
}

static bool is_loopback(const struct in6_addr *a)
{
	return IN6_IS_ADDR_LOOPBACK(a) ||
	       (IN6_IS_ADDR_V4MAPPED(a) && a->s6_addr[12] == 127) ||
	       IN6_IS_ADDR_UNSPECIFIED(a) ||
	       (IN6_IS_ADDR_V4MAPPED(a) && !a->s6_addr32[3]);
}

static void open_events(void)
{
	struct sockaddr_nl nl = { .nl_family = AF_NETLINK,
				  .nl_groups =
				      RTMGRP_LINK | RTMGRP_IPV4_IFADDR |
				      RTMGRP_IPV6_IFADDR | RTMGRP_IPV4_ROUTE |
				      RTMGRP_IPV6_ROUTE };
	int fd = libc.socket(
	    AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, NETLINK_ROUTE);

	if (fd < 0)
		return;
	fd_events = fds_hide(fd);
	libc.bind(fd_events, (struct sockaddr *)&nl, sizeof(nl));
}

static uint32_t kind_of(uint16_t type)
{
	switch (type) {
	case RTM_NEWADDR:
		return OSF_INET_ADDR_ADD;
	case RTM_DELADDR:
		return OSF_INET_ADDR_DEL;
	case RTM_NEWLINK:
	case RTM_DELLINK:
		return OSF_INET_LINK;
	default:
		return OSF_INET_ROUTE;
	}
}

/* Pass on what rtnetlink has for us. */
static void read_events(void)
{
	alignas(struct nlmsghdr) char buf[8192];
	ssize_t n;

	while (fd_events >= 0 &&
	       (n = libc.recv(fd_events, buf, sizeof(buf), MSG_DONTWAIT)) > 0) {
		struct nlmsghdr *h = (struct nlmsghdr *)buf;

		for (; NLMSG_OK(h, (size_t)n); h = NLMSG_NEXT(h, n)) {
			struct osf_inet_event ev = { .size = sizeof(ev),
						     .kind = kind_of(
							 h->nlmsg_type) };
			if (ev.kind <= OSF_INET_ADDR_DEL) {
				struct ifaddrmsg *m = NLMSG_DATA(h);

				ev.ifindex = m->ifa_index;
				ev.family = m->ifa_family;
			}
			ops_inet_notification(&ev);
		}
	}
}

static void read_locals(void)
{
	struct ifaddrs *all, *ifa;
	int n = 0;

	if (getifaddrs(&all))
		return;
	for (ifa = all; ifa && n < LOCALS_MAX; ifa = ifa->ifa_next)
		if (ifa->ifa_addr && as_in6(ifa->ifa_addr, &locals[n]))
			n++;
	freeifaddrs(all);
	n_locals = n;
}

void local_changed(void) { store_rel(&n_locals, -1); }

void local_after_fork(void)
{
	lock = (struct lock){ 0 };
	fds_close(fd_events); /* the messages in it are the parent's */
	fd_events = -1;
	n_locals = -1;
}

bool local_is_local(const struct sockaddr *sa)
{
	struct in6_addr a;
	int saved = errno;
	bool found = false;

	if (!as_in6(sa, &a))
		return false;
	if (is_loopback(&a))
		return true;
	read_events();
	GUARD(&lock);
	if (fd_events < 0)
		open_events();
	if (load_acq(&n_locals) < 0)
		read_locals();
	for (int i = 0; i < n_locals && !found; i++)
		found = !memcmp(&locals[i], &a, sizeof(a));
	errno = saved;
	return found;
}
