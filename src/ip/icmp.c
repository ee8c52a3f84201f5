/* SPDX-License-Identifier: MIT */
/* ip/icmp.c - ICMP errors about TCP; see icmp.h */
#include "ip/icmp.h"

#include "base/drop.h"
#include "ip/checksum.h"

#define DROP(name) (-(1 + (int)DROP_##name))
#define ICMP_HEAD 8
#define QUOTED_TCP 8

static bool kind_v4(const uint8_t *p, struct icmp_error *e)
{
	if (p[0] == 11) {
		e->kind = ICMP_SOFT;
		return true;
	}
	if (p[0] != 3 || p[1] > 15)
		return false;
	switch (p[1]) {
	case 4:
		e->kind = ICMP_TOO_BIG;
		e->mtu = load_be16(p + 6);
		return true;
	case 2:
	case 3:
	case 9:
	case 10:
	case 13:
		e->kind = ICMP_HARD;
		return true;
	default:
		e->kind = ICMP_SOFT;
		return true;
	}
}

static bool kind_v6(const uint8_t *p, struct icmp_error *e)
{
	switch (p[0]) {
	case 1:
		e->kind = p[1] == 1 || p[1] == 4 ? ICMP_HARD : ICMP_SOFT;
		return true;
	case 2:
		e->kind = ICMP_TOO_BIG;
		e->mtu = load_be32(p + 4);
		return true;
	case 3:
		e->kind = ICMP_SOFT;
		return true;
	default:
		return false;
	}
}

/* The quoted packet may be cut, so its lengths and checksum are not judged. */
static int parse_quoted(const uint8_t *q, uint32_t len, bool is_v6,
			struct icmp_error *e)
{
	uint32_t head = is_v6 ? IPV6_HEAD : IPV4_HEAD;

	if (len < head + QUOTED_TCP)
		return DROP(SHORT);
	if (is_v6) {
		if (q[0] >> 4 != 6 || q[6] != IP_PROTO_TCP)
			return DROP(ICMP_OTHER);
		memcpy(e->src.b, q + 8, 16);
		memcpy(e->dst.b, q + 24, 16);
	} else {
		/* Ours have no options. */
		if (q[0] != (4 << 4 | 5) || q[9] != IP_PROTO_TCP)
			return DROP(ICMP_OTHER);
		e->src = ip_addr_v4(load_be32(q + 12));
		e->dst = ip_addr_v4(load_be32(q + 16));
	}
	e->sport = load_be16(q + head);
	e->dport = load_be16(q + head + 2);
	e->seq = (seq32){ load_be32(q + head + 4) };
	return 0;
}

static bool sum_is_good(const struct ip_packet *ip, const uint8_t *l4)
{
	struct cksum sum = { 0 };

	if (ip->is_v6)
		sum = ip_pseudo_sum(&ip->src, &ip->dst, IP_PROTO_ICMPV6,
				    ip->l4_len);
	cksum_add(&sum, l4, ip->l4_len);
	return !cksum_end(&sum);
}

int icmp_parse(const struct ip_packet *ip, const uint8_t *l4,
	       struct icmp_error *out)
{
	struct icmp_error e = { 0 };

	if (ip->l4_len < ICMP_HEAD)
		return DROP(SHORT);
	if (!sum_is_good(ip, l4))
		return DROP(ICMP_CHECKSUM);
	if (!(ip->is_v6 ? kind_v6(l4, &e) : kind_v4(l4, &e)))
		return DROP(ICMP_OTHER);
	int err =
	    parse_quoted(l4 + ICMP_HEAD, ip->l4_len - ICMP_HEAD, ip->is_v6, &e);
	if (err)
		return err;
	*out = e;
	return 0;
}
