/* SPDX-License-Identifier: MIT */
/*
 * ops/netlink.h - what the switch asks the kernel's routing, and what it is told
 *
 *     netlink_listen()  ->  descriptor with events  ->  netlink_event()
 *     netlink_route()   ->  RTM_GETROUTE            ->  struct osf_route
 *
 * Messages are written and read by hand: libosf.so links libc alone.  What comes in
 * is the kernel's, and its lengths are checked all the same.  Nothing is kept here.
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
/* The same, to which the kernel sends changes of links, addresses, routes, next hops
 * and rules. */
MUST_CHECK int netlink_listen(void);

/**
 * netlink_route() - how the kernel would send to @key now
 * @fd: of netlink_open(); nobody else uses it meanwhile
 * @out: all but size is written, also for OSF_ROUTE_NONE
 *
 * Return: 0, or -errno when the kernel could not be asked.  "There is no route" is an
 * answer, not an error.
 */
MUST_CHECK int netlink_route(int fd, const struct route_key *key,
			     struct osf_route *out);

/* What @h tells modules; false: nothing. */
bool netlink_event(const struct nlmsghdr *h, struct osf_inet_event *out);
