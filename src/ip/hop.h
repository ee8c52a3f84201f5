/* SPDX-License-Identifier: MIT */
/*
 * ip/hop.h - finds the next hop of a packet in copies of the kernel's tables
 *
 *     the kernel's routes and neighbours -> struct ip_hops -> hop_find(): link, address
 *
 * The caller owns the tables, and may change them between two calls; this code only
 * reads them.  The kernel does ARP and neighbour discovery.  When it does not know a
 * neighbour yet, the caller asks the kernel for it and tries again.  Spec: RFC 1812
 * section 5.2.4.3 (longest prefix)
 */
#pragma once

#include "ip/ip.h"

#define HOP_MAC 6

/* The length of an IPv4 prefix includes the 96 bits before the address. */
struct ip_route {
	struct ip_addr dst;
	uint8_t prefix_len;     /* bits, up to 128 */
	uint32_t metric;        /* of two alike the lower one is taken */
	struct ip_addr gateway; /* all 0: the host itself is on the link */
	uint32_t link;          /* the kernel's index */
	uint32_t mtu;           /* bytes; 0: the link's */
};

enum neigh_state {
	NEIGH_UNKNOWN, /* asked for, or to be */
	NEIGH_GOOD,
	NEIGH_STALE,  /* to be used, and to be confirmed by the kernel */
	NEIGH_FAILED, /* does not answer */
};

struct ip_neigh {
	struct ip_addr addr;
	uint32_t link;
	uint8_t mac[HOP_MAC];
	uint8_t state; /* enum neigh_state */
};

struct ip_hops {
	const struct ip_route *routes;
	uint32_t n_routes;
	const struct ip_neigh *neighs; /* sorted: see hops_sort() */
	uint32_t n_neighs;
};

struct ip_hop {
	struct ip_addr addr; /* whose hardware address it is */
	uint32_t link, mtu;
	uint8_t mac[HOP_MAC];
	bool is_stale;
};

/* Sorts neighbours for the search. */
void hops_sort(struct ip_neigh *neighs, uint32_t n);

/* Return: the route to @dst, or NULL. */
const struct ip_route *hop_route(const struct ip_hops *h,
				 const struct ip_addr *dst);

/**
 * hop_find() - the next hop to @dst
 *
 * Return: 0, or
 *   -ENETUNREACH   there is no route
 *   -EAGAIN        the neighbour is not known yet; @out says which, but for its mac
 *   -EHOSTUNREACH  the neighbour does not answer
 */
MUST_CHECK int hop_find(const struct ip_hops *h, const struct ip_addr *dst,
			struct ip_hop *out);
