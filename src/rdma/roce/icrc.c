/* SPDX-License-Identifier: MIT */
/* rdma/roce/icrc.c - see rdma/roce/icrc.h */
#include <string.h>

#include "rdma/roce/crc.h"
#include "rdma/roce/icrc.h"

#define IPV4 20u
#define IPV6 40u
#define UDP 8u
#define UDP_PROTOCOL 17
#define BTH_CONGESTION 4 /* the byte's place in the BTH */
#define BTH_BYTES 12u
#define FRAME_MAX (8 + IPV6 + UDP + BTH_BYTES)

static uint8_t *put16(uint8_t *p, uint16_t v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
	return p + 2;
}

static uint8_t *put_ipv4(const struct roce_flow *f, uint16_t id, size_t n,
			 uint8_t *p)
{
	*p++ = 0x45;
	*p++ = 0xff;
	p = put16(p, (uint16_t)(IPV4 + UDP + n));
	p = put16(p, id);
	p = put16(p, 0x4000); /* do not fragment */
	*p++ = 0xff;
	*p++ = UDP_PROTOCOL;
	p = put16(p, 0xffff);
	memcpy(p, f->src, 4);
	memcpy(p + 4, f->dst, 4);
	return p + 8;
}

static uint8_t *put_ipv6(const struct roce_flow *f, size_t n, uint8_t *p)
{
	*p++ = 0x6f;
	memset(p, 0xff, 3);
	p = put16(p + 3, (uint16_t)(UDP + n));
	*p++ = UDP_PROTOCOL;
	*p++ = 0xff;
	memcpy(p, f->src, 16);
	memcpy(p + 16, f->dst, 16);
	return p + 32;
}

uint32_t icrc(const struct roce_flow *f, uint16_t id, const uint8_t *bth,
	      size_t n)
{
	uint8_t head[FRAME_MAX], *p = head;

	memset(p, 0xff, 8);
	p = f->is_v6 ? put_ipv6(f, n + 4, p + 8)
		     : put_ipv4(f, id, n + 4, p + 8);
	p = put16(p, f->src_port);
	p = put16(p, f->dst_port);
	p = put16(p, (uint16_t)(UDP + n + 4));
	p = put16(p, 0xffff);
	memcpy(p, bth, BTH_BYTES);
	p[BTH_CONGESTION] = 0xff;
	uint32_t crc = crc32_add(~0u, head, (size_t)(p - head) + BTH_BYTES);
	return ~crc32_add(crc, bth + BTH_BYTES, n - BTH_BYTES);
}

/*
 * The difference of the two CRCs is the CRC, begun at 0, of the difference of the bytes.
 * If only the identification is wrong, all bytes behind it are equal.  So we run those zero
 * bytes backwards through the register, and two more; what is left must be the 16 bits by
 * which the identification differs.
 */
bool icrc_matches(const struct roce_flow *f, const uint8_t *p, size_t n,
		  uint32_t got, uint16_t *id)
{
	uint32_t diff = icrc(f, *id, p, n) ^ got;

	if (likely(!diff) || f->is_v6)
		return !diff;
	diff = crc32_undo_zeros(diff, IPV4 - 6 + UDP + n + 2);
	if (diff >> 16)
		return false;
	/* The register's lowest byte is the one that went in first. */
	*id ^= (uint16_t)(diff << 8 | diff >> 8);
	return true;
}
