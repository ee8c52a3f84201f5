/* SPDX-License-Identifier: MIT */
/* ip/checksum.c - the Internet checksum; see checksum.h */
#include "ip/checksum.h"

#include <arpa/inet.h>
#include <string.h>

static uint32_t fold(uint64_t sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint32_t)((sum & 0xffff) + (sum >> 16));
}

/* In the order of the machine, which only turns the result around. */
static uint64_t sum_words(const uint8_t *p, uint32_t len)
{
	uint64_t sum = 0;
	uint32_t word;
	uint16_t last = 0;

	for (; len >= sizeof(word); len -= sizeof(word), p += sizeof(word)) {
		memcpy(&word, p, sizeof(word));
		sum += word;
	}
	if (len >= 2) {
		memcpy(&last, p, 2);
		sum += last;
		p += 2;
		len -= 2;
	}
	if (len) {
		last = 0;
		memcpy(&last, p, 1);
		sum += last;
	}
	return sum;
}

void cksum_add(struct cksum *c, const void *data, uint32_t len)
{
	uint32_t sum = fold(sum_words(data, len));

	if (c->is_odd)
		sum = (sum & 0xff) << 8 | sum >> 8;
	c->sum = fold((uint64_t)c->sum + sum);
	c->is_odd ^= len & 1;
}

void cksum_add16(struct cksum *c, uint16_t v)
{
	c->sum = fold((uint64_t)c->sum + htons(v));
}

uint16_t cksum_end(const struct cksum *c) { return ntohs((uint16_t)~c->sum); }
