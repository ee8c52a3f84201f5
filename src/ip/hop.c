/* SPDX-License-Identifier: MIT */
/* ip/hop.c - finds the next hop of a packet; see hop.h */
#include "ip/hop.h"

#include <errno.h>
#include <stdlib.h>

static int neigh_cmp(const void *a, const void *b)
{
	const struct ip_neigh *x = a, *y = b;
	int by_addr = memcmp(&x->addr, &y->addr, sizeof(x->addr));

	if (by_addr)
		return by_addr;
	return x->link < y->link ? -1 : x->link > y->link;
}

void hops_sort(struct ip_neigh *neighs, uint32_t n)
{
	if (n)
		qsort(neighs, n, sizeof(*neighs), neigh_cmp);
}

static bool is_in(const struct ip_route *r, const struct ip_addr *a)
{
	uint32_t bytes = r->prefix_len / 8, bits = r->prefix_len % 8;
	uint8_t mask = (uint8_t)(0xff00 >> bits);

	if (memcmp(r->dst.b, a->b, bytes))
		return false;
	return !bits || !((r->dst.b[bytes] ^ a->b[bytes]) & mask);
}

const struct ip_route *hop_route(const struct ip_hops *h,
				 const struct ip_addr *dst)
{
	const struct ip_route *best = NULL;

	for (uint32_t i = 0; i < h->n_routes; i++) {
		const struct ip_route *r = &h->routes[i];

		/* ::/0 does not match IPv4. */
		if (r->prefix_len < 96 && ip_addr_is_v4(dst))
			continue;
		if (!is_in(r, dst) ||
		    (best && (r->prefix_len < best->prefix_len ||
			      (r->prefix_len == best->prefix_len &&
			       r->metric >= best->metric))))
			continue;
		best = r;
	}
	return best;
}

static const struct ip_neigh *neigh_find(const struct ip_hops *h,
					 const struct ip_addr *a, uint32_t link)
{
	const struct ip_neigh want = { .addr = *a, .link = link };

	if (!h->n_neighs)
		return NULL;
	return bsearch(&want, h->neighs, h->n_neighs, sizeof(want), neigh_cmp);
}

int hop_find(const struct ip_hops *h, const struct ip_addr *dst,
	     struct ip_hop *out)
{
	static const struct ip_addr none;
	const struct ip_route *r = hop_route(h, dst);

	if (!r)
		return -ENETUNREACH;
	struct ip_hop hop = {
		.addr = ip_addr_eq(&r->gateway, &none) ? *dst : r->gateway,
		.link = r->link,
		.mtu = r->mtu,
	};
	const struct ip_neigh *n = neigh_find(h, &hop.addr, r->link);
	if (n && n->state == NEIGH_FAILED)
		return -EHOSTUNREACH;
	if (n && n->state != NEIGH_UNKNOWN) {
		memcpy(hop.mac, n->mac, HOP_MAC);
		hop.is_stale = n->state == NEIGH_STALE;
		*out = hop;
		return 0;
	}
	*out = hop;
	return -EAGAIN;
}
