/* SPDX-License-Identifier: MIT */
/* ip/checksum.c - the Internet checksum; see checksum.h */
#include "ip/checksum.h"

static uint64_t load64(const uint8_t *p)
{
	uint64_t word;

	memcpy(&word, p, sizeof(word));
	return word;
}

static uint64_t sum_words(const uint8_t *p, uint32_t len)
{
	uint64_t low = 0, high = 0;
	uint16_t last = 0;

	/* Sums of half words; they have room for 2^32 of them. */
	for (; len >= 8; len -= 8, p += 8) {
		uint64_t word = load64(p);

		low += (uint32_t)word;
		high += word >> 32;
	}
	if (len >= 4) {
		low += cksum_load32(p);
		p += 4;
		len -= 4;
	}
	if (len >= 2) {
		memcpy(&last, p, 2);
		low += last;
		p += 2;
		len -= 2;
	}
	if (len) {
		last = 0;
		memcpy(&last, p, 1);
		low += last;
	}
	return cksum_fold(low) + (uint64_t)cksum_fold(high);
}

void cksum_add(struct cksum *c, const void *data, uint32_t len)
{
	uint32_t sum = cksum_fold(sum_words(data, len));

	if (c->is_odd)
		sum = (sum & 0xff) << 8 | sum >> 8;
	c->sum = cksum_fold((uint64_t)c->sum + sum);
	c->is_odd ^= len & 1;
}

void cksum_add16(struct cksum *c, uint16_t v)
{
	c->sum = cksum_fold((uint64_t)c->sum + htons(v));
}

uint16_t cksum_end(const struct cksum *c) { return ntohs((uint16_t)~c->sum); }
