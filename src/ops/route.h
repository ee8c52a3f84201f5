/* SPDX-License-Identifier: MIT */
/*
 * ops/route.h - how the kernel would send to an address
 *
 *     connect, accept  ->  route_get()  ->  a small table  ->  RTM_GETROUTE
 *     rtnetlink's events  ->  route_events()  ->  the table becomes invalid
 *                                             ->  ops_inet_notification()
 *
 * The kernel decides, so its rules, tables and devices count.  We keep its
 * answer until it reports a change.  For loopback we only look at the address.
 */
#pragma once

#include <stdbool.h>
#include <sys/socket.h>

#include "base/compiler.h"
#include "osf/proto.h"

/**
 * route_get() - the route to @to, as a socket would have it
 * @fd: a socket whose source address, device, mark and namespace count; -1: none
 * @out: all but size is written.  OSF_ROUTE_NONE also if the kernel cannot be asked, and
 * for a family other than IP
 *
 * A v4-mapped address counts as IPv4.  The answer is at most one rtnetlink message old.
 */
void route_get(int fd, const struct sockaddr *to, struct osf_route *out);
/* The hardware address of a route's next hop.  Return: 0; -EAGAIN: the kernel does not
 * know it now; or another negative errno */
MUST_CHECK int route_neigh(const struct osf_route *r, uint8_t mac[6]);

/* Pass the kernel's change events on. */
void route_events(void);
/* The same for sleeping threads, while a protocol wants events at once. */
void route_watch(bool on);
/* Drop all kept routes. */
void route_changed(void);
void route_after_fork(void);
