/* SPDX-License-Identifier: MIT */
/*
 * tests/unit/unit.h - cmocka, and what several unit tests share
 *
 * A test is a function `static void a_sentence_about_the_world(void **state)`; a
 * random one takes its seed from OSF_SEED or from the list in the test, and
 * prints the one that failed.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

struct rng {
	uint64_t state;
};

/* splitmix64: the same numbers on every machine. */
static inline uint64_t rng_next(struct rng *r)
{
	uint64_t z = r->state += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

static inline uint32_t rng_below(struct rng *r, uint32_t n)
{
	return (uint32_t)(rng_next(r) % n);
}

/* The byte at an offset of the one stream that all tests send. */
static inline uint8_t stream_byte(uint64_t off)
{
	return (uint8_t)(off * 131 + (off >> 8) * 17 + (off >> 16) * 3);
}

static inline void stream_fill(uint8_t *buf, uint64_t off, size_t n)
{
	for (size_t i = 0; i < n; i++)
		buf[i] = stream_byte(off + i);
}

/* The index of the first byte that is wrong, or @n. */
static inline size_t stream_differs(const uint8_t *buf, uint64_t off, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (buf[i] != stream_byte(off + i))
			return i;
	return n;
}
