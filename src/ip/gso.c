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

uint32_t gso_segment(const uint8_t *head, uint32_t ip_len, uint32_t head_len,
		     const uint8_t *payload, uint32_t len, uint32_t gso_size,
		     uint32_t i, uint8_t *out)
{
	uint32_t off = i * gso_size, part = MIN(gso_size, len - off);
	uint8_t *tcp = out + ip_len;
	struct ip_addr src, dst;

	assert(off < len);
	addrs_of(head, &src, &dst);
	uint32_t l4_len = head_len - ip_len + part;
	ip_build(out, &src, &dst, IP_PROTO_TCP, ecn_of(head), l4_len);
	if (ip_may_be_cut(head))
		ip_allow_cut(out, (uint16_t)(load_be16(head + 4) + i));
	memcpy(tcp, head + ip_len, head_len - ip_len);
	memcpy(out + head_len, payload + off, part);
	store_be32(tcp + 4, load_be32(tcp + 4) + off);
	if (off + part < len)
		tcp[13] &= (uint8_t) ~(TCP_FIN | TCP_PSH);
	if (i)
		tcp[13] &= (uint8_t)~TCP_CWR; /* told once */
	store_be16(tcp + 16, 0);
	struct cksum sum = ip_pseudo_sum(&src, &dst, IP_PROTO_TCP, l4_len);
	cksum_add(&sum, tcp, l4_len);
	store_be16(tcp + 16, cksum_end(&sum));
	return head_len + part;
}
