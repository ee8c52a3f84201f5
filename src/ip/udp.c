/* SPDX-License-Identifier: MIT */
/* ip/udp.c - parses UDP headers, and finds the bind of a datagram; see udp.h */
#include "ip/udp.h"

#include <errno.h>

#include "base/drop.h"
#include "ip/checksum.h"

int udp_parse(const struct ip_packet *ip, const uint8_t *l4,
	      struct udp_datagram *out)
{
	if (ip->l4_len < UDP_HEAD)
		return DROP(SHORT);
	uint32_t len = load_be16(l4 + 4);
	if (len < UDP_HEAD || len > ip->l4_len)
		return DROP(UDP_LENGTH);
	/* Only IPv4 may omit the checksum. */
	bool has_sum = load_be16(l4 + 6) != 0;
	if (!has_sum && ip->is_v6)
		return DROP(UDP_CHECKSUM);
	if (has_sum) {
		struct cksum sum =
		    ip_pseudo_sum(&ip->src, &ip->dst, IP_PROTO_UDP, len);

		cksum_add(&sum, l4, len);
		if (cksum_end(&sum))
			return DROP(UDP_CHECKSUM);
	}
	if (!load_be16(l4 + 2))
		return DROP(UDP_LENGTH);
	*out = (struct udp_datagram){ .sport = load_be16(l4),
				      .dport = load_be16(l4 + 2),
				      .len = len - UDP_HEAD };
	return 0;
}

static bool is_any(const struct ip_addr *a)
{
	static const struct ip_addr any;

	return ip_addr_eq(a, &any);
}

static struct udp_bind **bucket(struct udp_table *t, uint16_t lport)
{
	return &t->buckets[lport % UDP_BUCKETS];
}

int udp_bind(struct udp_table *t, struct udp_bind *b)
{
	struct udp_bind **head = bucket(t, b->lport);

	for (const struct udp_bind *i = *head; i; i = i->next)
		if (i->lport == b->lport && i->rport == b->rport &&
		    ip_addr_eq(&i->laddr, &b->laddr) &&
		    ip_addr_eq(&i->raddr, &b->raddr))
			return -EADDRINUSE;
	b->next = *head;
	*head = b;
	return 0;
}

void udp_unbind(struct udp_table *t, struct udp_bind *b)
{
	struct udp_bind **at = bucket(t, b->lport);

	while (*at != b)
		at = &(*at)->next;
	*at = b->next;
}

/* How specifically a bind matches the datagram; 0: it does not. */
static unsigned score(const struct udp_bind *b, const struct ip_packet *ip,
		      const struct udp_datagram *d)
{
	unsigned n = 1;

	if (b->lport != d->dport || (b->rport && b->rport != d->sport))
		return 0;
	n += b->rport ? 2 : 0;
	if (!is_any(&b->raddr)) {
		if (!ip_addr_eq(&b->raddr, &ip->src))
			return 0;
		n += 2;
	}
	if (!is_any(&b->laddr)) {
		if (!ip_addr_eq(&b->laddr, &ip->dst))
			return 0;
		n++;
	}
	return n;
}

struct udp_bind *udp_find(const struct udp_table *t, const struct ip_packet *ip,
			  const struct udp_datagram *d)
{
	struct udp_bind *best = NULL;
	unsigned most = 0;

	for (struct udp_bind *b = t->buckets[d->dport % UDP_BUCKETS]; b;
	     b = b->next) {
		unsigned n = score(b, ip, d);

		if (n > most) {
			most = n;
			best = b;
		}
	}
	return best;
}
