/* SPDX-License-Identifier: MIT */
/*
 * ip/checksum.h - the Internet checksum, over pieces of any length
 *
 * The sum is kept in the byte order of the wire.  A piece that begins at an odd offset
 * is summed as if it began at an even one, and then the bytes of its sum are swapped.
 * Spec: RFC 1071
 */
#pragma once

#include <arpa/inet.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct cksum {
	uint32_t sum; /* folded to 16 bits after each piece */
	bool is_odd;  /* an odd number of bytes so far */
};

/* Loads a word in the machine's byte order: that only swaps the bytes of the sum. */
static inline uint32_t cksum_load32(const void *p)
{
	uint32_t word;

	memcpy(&word, p, sizeof(word));
	return word;
}

static inline uint32_t cksum_fold(uint64_t sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint32_t)((sum & 0xffff) + (sum >> 16));
}

/* The checksum field in host order, over @n words of 32 bits; @n is small. */
static inline uint16_t cksum_words(const uint8_t *p, uint32_t n)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < n; i++)
		sum += cksum_load32(p + 4 * i);
	return ntohs((uint16_t)~cksum_fold(sum));
}

void cksum_add(struct cksum *c, const void *data, uint32_t len);

/* Adds a number of 16 bits in host order; only at even offsets. */
void cksum_add16(struct cksum *c, uint16_t v);

/* The checksum field in host order. */
uint16_t cksum_end(const struct cksum *c);
