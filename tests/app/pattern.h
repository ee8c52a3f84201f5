/* SPDX-License-Identifier: MIT */
/*
 * tests/app/pattern.h - byte streams that can be checked at any offset
 *
 * A stream is named by a key; the byte at an offset is a function of the two,
 * so neither end keeps what it sent or expects.  Eight bytes are one word of a
 * counter-based generator: word w of key k is pattern_word(k, w).  Filling and
 * checking run at several GB/s, well above what a socket moves.
 */
#ifndef TESTS_PATTERN_H
#define TESTS_PATTERN_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t pattern_mix(uint64_t x)
{
	x ^= x >> 32;
	x *= 0xd6e8feb86659fd93ull;
	x ^= x >> 32;
	return x;
}

/* @direction: 0 client to server, 1 back */
static inline uint64_t pattern_key(uint64_t seed, uint32_t id, int direction)
{
	return pattern_mix(pattern_mix(seed + 0x9e3779b97f4a7c15ull) +
			   2ull * id + (uint64_t)direction);
}

static inline uint64_t pattern_word(uint64_t key, uint64_t word)
{
	return pattern_mix(key + word * 0x9e3779b97f4a7c15ull);
}

static inline uint8_t pattern_byte(uint64_t key, uint64_t off)
{
	return (uint8_t)(pattern_word(key, off / 8) >> off % 8 * 8);
}

static inline void pattern_fill(uint64_t key, uint64_t off, void *buf, size_t n)
{
	uint8_t *p = buf, *end = p + n;

	for (; p < end && off % 8; off++)
		*p++ = pattern_byte(key, off);
	for (; end - p >= 8; p += 8, off += 8) {
		uint64_t word = pattern_word(key, off / 8);
		memcpy(p, &word, 8);
	}
	for (; p < end; off++)
		*p++ = pattern_byte(key, off);
}

/* Return: the index of the first wrong byte, or n when all are right. */
static inline size_t pattern_check(uint64_t key, uint64_t off, const void *buf,
				   size_t n)
{
	const uint8_t *p = buf;
	size_t i = 0;

	for (; i < n && off % 8; i++, off++)
		if (p[i] != pattern_byte(key, off))
			return i;
	for (; n - i >= 8; i += 8, off += 8) {
		uint64_t word;
		memcpy(&word, p + i, 8);
		if (word != pattern_word(key, off / 8))
			break;
	}
	for (; i < n; i++, off++)
		if (p[i] != pattern_byte(key, off))
			return i;
	return n;
}

/*
 * Where in the stream eight received bytes really belong, searched within
 * @reach bytes around @off; tells a lost piece from a repeated one.
 * Return: the offset, or UINT64_MAX.
 */
static inline uint64_t pattern_find(uint64_t key, uint64_t off,
				    const void *eight, uint64_t reach)
{
	uint64_t from = off > reach ? off - reach : 0;

	for (uint64_t o = from; o < off + reach; o++)
		if (pattern_byte(key, o) == *(const uint8_t *)eight &&
		    pattern_check(key, o, eight, 8) == 8)
			return o;
	return UINT64_MAX;
}

#endif
