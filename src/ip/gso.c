/* SPDX-License-Identifier: MIT */
/* ip/gso.c - cuts one large TCP frame into segments; see gso.h */
#include "ip/gso.h"

#include "ip/checksum.h"
#include "ip/tcp_head.h"

static void addrs_of(const uint8_t *p, struct ip_addr *src, struct ip_addr *dst)
{
	if (p[0] >> 4 == 4) {
		*src = ip_addr_v4(load_be32(p + 12));
		*dst = ip_addr_v4(load_be32(p + 16));
		return;
	}
	memcpy(src->b, p + 8, 16);
	memcpy(dst->b, p + 24, 16);
}

static uint8_t ecn_of(const uint8_t *p)
{
	return (p[0] >> 4 == 4 ? p[1] : p[1] >> 4) & 3;
}

void gso_fit(uint8_t *p, uint32_t ip_len, uint32_t head_len, uint32_t part,
	     uint32_t off, bool is_last, uint32_t i)
{
	uint32_t l4_len = head_len - ip_len + part;
	bool may_fragment = ip_may_fragment(p);
	uint16_t id = (uint16_t)(load_be16(p + 4) + i);
	uint8_t *tcp = p + ip_len, ecn = ecn_of(p);
	struct ip_addr src, dst;

	addrs_of(p, &src, &dst);
	ip_build(p, &src, &dst, IP_PROTO_TCP, ecn, l4_len);
	if (may_fragment)
		ip_allow_fragments(p, id);
	store_be32(tcp + 4, load_be32(tcp + 4) + off);
	if (!is_last)
		tcp[13] &= (uint8_t) ~(TCP_FIN | TCP_PSH);
	if (i)
		tcp[13] &= (uint8_t)~TCP_CWR; /* told once */
	store_be16(tcp + 16, 0);
	struct cksum sum = ip_pseudo_sum(&src, &dst, IP_PROTO_TCP, l4_len);
	cksum_add(&sum, tcp, l4_len);
	store_be16(tcp + 16, cksum_end(&sum));
}

uint32_t gso_segment(const uint8_t *head, uint32_t ip_len, uint32_t head_len,
		     const uint8_t *payload, uint32_t len, uint32_t gso_size,
		     uint32_t i, uint8_t *out)
{
	uint32_t off = i * gso_size, part = MIN(gso_size, len - off);

	assert(off < len);
	memcpy(out, head, head_len);
	memcpy(out + head_len, payload + off, part);
	gso_fit(out, ip_len, head_len, part, off, off + part == len, i);
	return head_len + part;
}
