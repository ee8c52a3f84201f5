/* SPDX-License-Identifier: MIT */
/* ip/icmp.c - parses ICMP errors about TCP; see icmp.h */
#include "ip/icmp.h"

#include <errno.h>

#include "base/drop.h"
#include "ip/checksum.h"

#define ICMP_HEAD 8
#define QUOTED_TCP 8
#define FRAGMENT_OFFSET 0x1fff

struct meaning {
	enum icmp_kind kind;
	int err;
};

#define HARD(name)                                                             \
	{                                                                      \
		ICMP_HARD, -name                                               \
	}
#define SOFT(name)                                                             \
	{                                                                      \
		ICMP_SOFT, -name                                               \
	}

/* Destination unreachable, by its code: RFC 1122 section 3.2.2.1, RFC 1812 5.2.7.1. */
static const struct meaning unreachable_v4[] = {
	SOFT(ENETUNREACH),  SOFT(EHOSTUNREACH), HARD(ENOPROTOOPT),
	HARD(ECONNREFUSED), SOFT(EMSGSIZE),     SOFT(EOPNOTSUPP),
	HARD(ENETUNREACH),  HARD(EHOSTDOWN),    HARD(ENONET),
	HARD(ENETUNREACH),  HARD(EHOSTUNREACH), SOFT(ENETUNREACH),
	SOFT(EHOSTUNREACH), HARD(EHOSTUNREACH), HARD(EHOSTUNREACH),
	HARD(EHOSTUNREACH),
};

/* RFC 4443 section 3.1. */
static const struct meaning unreachable_v6[] = {
	SOFT(ENETUNREACH),  HARD(EACCES),       SOFT(EHOSTUNREACH),
	SOFT(EHOSTUNREACH), HARD(ECONNREFUSED), HARD(EACCES),
	HARD(EACCES),
};

static bool is_known(struct icmp_error *e, const struct meaning *of, uint32_t n,
		     uint8_t code)
{
	if (code >= n)
		return false;
	e->kind = of[code].kind;
	e->err = of[code].err;
	return true;
}

static bool kind_v4(const uint8_t *p, struct icmp_error *e)
{
	static const struct meaning exceeded[] = { SOFT(EHOSTUNREACH),
						   SOFT(EHOSTUNREACH) };
	static const struct meaning wrong[] = { HARD(EPROTO), HARD(EPROTO),
						HARD(EPROTO) };

	switch (p[0]) {
	case 3:
		if (!is_known(e, unreachable_v4, ARRAY_LEN(unreachable_v4),
			      p[1]))
			return false;
		e->is_no_way = p[1] <= 1;
		if (p[1] == 4) {
			e->kind = ICMP_TOO_BIG;
			e->mtu = load_be16(p + 6);
		}
		return true;
	case 11:
		return is_known(e, exceeded, ARRAY_LEN(exceeded), p[1]);
	case 12:
		return is_known(e, wrong, ARRAY_LEN(wrong), p[1]);
	default:
		return false;
	}
}

static bool kind_v6(const uint8_t *p, struct icmp_error *e)
{
	static const struct meaning exceeded[] = { SOFT(EHOSTUNREACH),
						   SOFT(EHOSTUNREACH) };
	static const struct meaning wrong[] = { HARD(EPROTO), HARD(EPROTO),
						HARD(EPROTO) };

	switch (p[0]) {
	case 1:
		e->is_no_way = p[1] == 0;
		return is_known(e, unreachable_v6, ARRAY_LEN(unreachable_v6),
				p[1]);
	case 2:
		e->kind = ICMP_TOO_BIG;
		e->err = -EMSGSIZE;
		e->mtu = load_be32(p + 4);
		return true;
	case 3:
		return is_known(e, exceeded, ARRAY_LEN(exceeded), p[1]);
	case 4:
		return is_known(e, wrong, ARRAY_LEN(wrong), p[1]);
	default:
		return false;
	}
}

/* The quoted packet may be cut off, so its lengths and checksum are not checked. */
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
		/* We send packets without IP options.  Only the first fragment of
		 * one has the ports. */
		if (q[0] != (4 << 4 | 5) || q[9] != IP_PROTO_TCP ||
		    load_be16(q + 6) & FRAGMENT_OFFSET)
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
