/* SPDX-License-Identifier: MIT */
/*
 * ops/netlink.h - the switch asks for kernel routes and listens for changes
 *
 *     netlink_listen()  ->  descriptor with events  ->  netlink_event()
 *     netlink_route()   ->  RTM_GETROUTE            ->  struct osf_route
 *
 * We write and read messages by hand, because libosf.so links libc alone.  They
 * come from the kernel, but we check their lengths all the same.  No state is
 * kept here.
 */
#pragma once

#include <linux/netlink.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "osf/proto.h"

/* What a route depends on.  Addresses are IPv6; IPv4 ones are v4-mapped. */
struct route_key {
	struct in6_addr to;
	struct in6_addr from; /* all 0: the kernel chooses */
	uint32_t oif;         /* SO_BINDTODEVICE, or a scope id; 0: any */
	uint32_t mark;        /* SO_MARK */
};

/* A hidden, nonblocking rtnetlink socket of this process, or -errno. */
MUST_CHECK int netlink_open(void);
/* As netlink_open(), and the kernel sends it changes of links, addresses,
 * routes, next hops and rules. */
MUST_CHECK int netlink_listen(void);

/**
 * netlink_route() - how the kernel would send to @key now
 * @fd: of netlink_open(); nobody else may use it during the call
 * @out: all but size is written, also for OSF_ROUTE_NONE
 *
 * Return: 0, or -errno if the kernel could not be asked. "There is no route" is an answer,
 * not an error.
 */
MUST_CHECK int netlink_route(int fd, const struct route_key *key,
			     struct osf_route *out);

/**
 * netlink_neigh() - the hardware address of a neighbour, as the kernel knows it now
 * @fd: of netlink_open(); nobody else may use it during the call
 *
 * Return: 0; -EAGAIN: not known, or not known to be right; or another -errno
 */
MUST_CHECK int netlink_neigh(int fd, uint32_t ifindex,
			     const struct in6_addr *addr, uint8_t mac[6]);

/* The event of @h for modules; false: none. */
bool netlink_event(const struct nlmsghdr *h, struct osf_inet_event *out);
