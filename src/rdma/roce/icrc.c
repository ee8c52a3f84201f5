/* SPDX-License-Identifier: MIT */
/* rdma/roce/icrc.c - see rdma/roce/icrc.h */
#include <endian.h>
#include <string.h>

#include "base/atomic.h"
#include "rdma/roce/icrc.h"

#define POLYNOMIAL 0xedb88320u
#define IPV4 20u
#define IPV6 40u
#define UDP 8u
#define UDP_PROTOCOL 17
#define BTH_CONGESTION 4 /* the byte's place in the BTH */
#define BTH_BYTES 12u
#define FRAME_MAX (8 + IPV6 + UDP + BTH_BYTES)

static uint32_t table[8][256];

__attribute__((constructor)) static void make_table(void)
{
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t crc = i;

		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? POLYNOMIAL : 0);
		table[0][i] = crc;
	}
	for (uint32_t i = 0; i < 256; i++)
		for (int t = 1; t < 8; t++)
			table[t][i] = table[t - 1][i] >> 8 ^
				      table[0][table[t - 1][i] & 0xff];
}

HOT uint32_t crc32_add(uint32_t crc, const void *from, size_t n)
{
	const uint8_t *p = from;

	for (; n >= 8; n -= 8, p += 8) {
		uint64_t v;

		memcpy(&v, p, sizeof(v));
		v = le64toh(v) ^ crc;
		crc = table[7][v & 0xff] ^ table[6][v >> 8 & 0xff] ^
		      table[5][v >> 16 & 0xff] ^ table[4][v >> 24 & 0xff] ^
		      table[3][v >> 32 & 0xff] ^ table[2][v >> 40 & 0xff] ^
		      table[1][v >> 48 & 0xff] ^ table[0][v >> 56];
	}
	while (n--)
		crc = crc >> 8 ^ table[0][(crc ^ *p++) & 0xff];
	return crc;
}

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

/* The register before the last eight bits went in. */
static uint32_t undo_byte(uint32_t crc)
{
	for (int bit = 0; bit < 8; bit++)
		crc =
		    crc & 0x80000000u ? (crc ^ POLYNOMIAL) << 1 | 1 : crc << 1;
	return crc;
}

/*
 * The difference of two CRCs is the CRC, from 0 on, of the difference of the bytes.  Those
 * are zero behind the identification: undone byte by byte, up to the identification and
 * over it, the difference has to be its 16 bits.
 */
static uint32_t difference(const struct roce_flow *f, const uint8_t *p,
			   size_t n, uint32_t got)
{
	uint32_t diff = icrc(f, 0, p, n) ^ got;

	if (likely(!diff) || f->is_v6)
		return diff;
	for (size_t behind = IPV4 - 6 + UDP + n + 2; behind; behind--)
		diff = undo_byte(diff);
	return diff;
}

bool icrc_matches(const struct roce_flow *f, const uint8_t *p, size_t n,
		  uint32_t got)
{
	uint32_t diff = difference(f, p, n, got);

	return f->is_v6 ? !diff : !(diff >> 16);
}

/* The byte that goes in first is the low one of the difference. */
uint16_t icrc_id(const struct roce_flow *f, const uint8_t *p, size_t n,
		 uint32_t got)
{
	uint32_t diff = difference(f, p, n, got);

	return f->is_v6 ? 0 : (uint16_t)(diff << 8 | (diff >> 8 & 0xff));
}
