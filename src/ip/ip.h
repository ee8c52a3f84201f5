/* SPDX-License-Identifier: MIT */
/*
 * ip/ip.h - IPv4 and IPv6 headers: parsed from any bytes, and built
 *
 *     frame (from its IP header on) -> ip_parse() -> struct ip_packet
 *     addresses, length             -> ip_build() -> the header's bytes
 *
 * ip_parse() accepts any bytes.  It returns a packet whose offsets lie inside of the
 * frame, or the reason to drop it.  Fragments and packets with IPv4 options or IPv6
 * extension headers are left to the kernel, which reassembles them.  Their ports are read,
 * so that a connection can follow them there.  An IPv4 address is
 * stored as ::ffff:a.b.c.d, so all code sees one kind of address.  Spec: RFC 791, RFC
 * 8200, RFC 1122 section 3.2
 */
#pragma once

#include <arpa/inet.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/compiler.h"

#define IPV4_HEAD 20
#define IPV6_HEAD 40
#define IP_PROTO_ICMP 1
#define IP_PROTO_TCP 6
#define IP_PROTO_UDP 17
#define IP_PROTO_ICMPV6 58
#define IP_PROTO_NONE 59
#define IP_HOPS 64
#define IP_ECT_0 2   /* RFC 3168: routers may mark it ... */
#define IP_CE 3      /* ... and one has */
#define IP_MAX 65535 /* bytes that an IPv4 length can say */

struct ip_addr {
	uint8_t b[16];
};

/* The fields of a packet; offsets count from the frame's first byte. */
struct ip_packet {
	struct ip_addr src, dst;
	bool is_v6;
	uint8_t protocol;
	uint8_t ecn; /* the two bits */
	uint16_t l4_off;
	uint32_t l4_len; /* what stands behind it is padding */
};

static inline uint16_t load_be16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}
static inline uint32_t load_be32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 |
	       (uint32_t)p[2] << 8 | p[3];
}
static inline void store_be16(uint8_t *p, uint16_t v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}
static inline void store_be32(uint8_t *p, uint32_t v)
{
	v = htonl(v);
	memcpy(p, &v, sizeof(v));
}

static inline struct ip_addr ip_addr_v4(uint32_t host_order)
{
	struct ip_addr a = { { [10] = 0xff, 0xff } };

	store_be32(a.b + 12, host_order);
	return a;
}

static inline bool ip_addr_is_v4(const struct ip_addr *a)
{
	static const uint8_t head[12] = { [10] = 0xff, 0xff };

	return !memcmp(a->b, head, sizeof(head));
}

static inline bool ip_addr_eq(const struct ip_addr *a, const struct ip_addr *b)
{
	return !memcmp(a->b, b->b, sizeof(a->b));
}

static inline uint32_t ip_head_len(const struct ip_addr *a)
{
	return ip_addr_is_v4(a) ? IPV4_HEAD : IPV6_HEAD;
}

/* Whether it can be the source of a packet: not a multicast group, not "any". */
bool ip_addr_is_host(const struct ip_addr *a);

/* Extension headers behind which ip_parse() looks for the protocol. */
#define IP_EXTENSIONS_MAX 8

/**
 * ip_parse() - what a frame is
 *
 * If it returns DROP(IP_OPTIONS) or DROP(IP_FRAGMENT), @out is filled as well, but its
 * protocol is IP_PROTO_NONE where @l4_off is no header's beginning, or a rare extension's.
 *
 * Return: 0, or the negative of 1 + enum drop_reason
 */
MUST_CHECK int ip_parse(const uint8_t *p, uint32_t len, struct ip_packet *out);

/* Writes the header of a packet with @l4_len bytes behind it.  @src and @dst are both
 * IPv4 or both IPv6; the packet has at most IP_MAX bytes.  Return: the header's length */
uint32_t ip_build(uint8_t *p, const struct ip_addr *src,
		  const struct ip_addr *dst, uint8_t protocol, uint8_t ecn,
		  uint32_t l4_len);

/* Lets routers fragment a packet whose IPv4 header ip_build() has written.  @id:
 * differs between the packets of two hosts whose fragments may be on their way at the
 * same time (RFC 6864) */
void ip_allow_fragments(uint8_t *p, uint16_t id);
bool ip_may_fragment(const uint8_t *p);

/* The checksum of the pseudo-header, to which the caller adds the rest. */
struct cksum ip_pseudo_sum(const struct ip_addr *src, const struct ip_addr *dst,
			   uint8_t protocol, uint32_t l4_len);
