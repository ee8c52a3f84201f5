/* SPDX-License-Identifier: MIT */
/*
 * rdma/roce/crc.c - see rdma/roce/crc.h
 *
 * A register is a polynomial over one bit, its lowest power in the highest bit.  To run
 * zero bytes through the register is to multiply it by a power of x, modulo the CRC's
 * polynomial.
 *
 * Folding: 16 bytes that are @d bits ahead of others are replaced by their product with
 * x^d, which is added to those others.  So 64 bytes at a time shrink to 16, and the table
 * does the rest.
 */
#include <endian.h>
#include <stdbool.h>
#include <string.h>

#include "base/compiler.h"
#include "rdma/roce/crc.h"

#define POLYNOMIAL 0xedb88320u
#define ONE 0x80000000u /* the polynomial 1 */
#define POWERS 16u
#define FOLDED_MIN 128u /* bytes; below, the table is as fast */

static uint32_t table[8][256];
static uint32_t back[POWERS]; /* x to the power of -8, -16, -32 ... */
static struct {
	uint64_t low, high; /* for the first and the second 8 bytes */
} by_64, by_16;
static bool can_fold;

static uint32_t times_x(uint32_t a)
{
	return a >> 1 ^ (a & 1 ? POLYNOMIAL : 0);
}

static uint32_t divided_by_x(uint32_t a)
{
	return a & ONE ? (a ^ POLYNOMIAL) << 1 | 1 : a << 1;
}

static uint32_t product(uint32_t a, uint32_t b)
{
	uint32_t sum = 0;

	for (; a; a <<= 1, b = times_x(b))
		if (a & ONE)
			sum ^= b;
	return sum;
}

/* x to the power of @n; a bit higher, as a product of reflected numbers wants it. */
static uint64_t factor(uint32_t n)
{
	uint32_t a = ONE;

	while (n--)
		a = times_x(a);
	return (uint64_t)a << 1;
}

static void make_table(void)
{
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t crc = i;

		for (int bit = 0; bit < 8; bit++)
			crc = times_x(crc);
		table[0][i] = crc;
	}
	for (uint32_t i = 0; i < 256; i++)
		for (int t = 1; t < 8; t++)
			table[t][i] = table[t - 1][i] >> 8 ^
				      table[0][table[t - 1][i] & 0xff];
}

static void make_powers(void)
{
	back[0] = ONE;
	for (int bit = 0; bit < 8; bit++)
		back[0] = divided_by_x(back[0]);
	for (uint32_t i = 1; i < POWERS; i++)
		back[i] = product(back[i - 1], back[i - 1]);
	by_64.low = factor(512 + 32);
	by_64.high = factor(512 - 32);
	by_16.low = factor(128 + 32);
	by_16.high = factor(128 - 32);
}

HOT uint32_t crc32_add_by_table(uint32_t crc, const void *from, size_t n)
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

#if defined(__x86_64__)
#include <immintrin.h>

#define CLMUL __attribute__((target("pclmul,sse2")))

static bool processor_folds(void) { return __builtin_cpu_supports("pclmul"); }

CLMUL static inline __m128i load(const uint8_t *p)
{
	return _mm_loadu_si128((const void *)p);
}

CLMUL static inline __m128i fold(__m128i a, __m128i by, __m128i next)
{
	return _mm_xor_si128(next,
			     _mm_xor_si128(_mm_clmulepi64_si128(a, by, 0x00),
					   _mm_clmulepi64_si128(a, by, 0x11)));
}

/* @n >= 64 */
CLMUL HOT static uint32_t fold_all(uint32_t crc, const uint8_t *p, size_t n)
{
	__m128i by =
	    _mm_set_epi64x((long long)by_64.high, (long long)by_64.low);
	__m128i a = load(p), b = load(p + 16), c = load(p + 32),
		d = load(p + 48);
	uint8_t rest[16];

	a = _mm_xor_si128(a, _mm_cvtsi32_si128((int)crc));
	for (n -= 64, p += 64; n >= 64; n -= 64, p += 64) {
		a = fold(a, by, load(p));
		b = fold(b, by, load(p + 16));
		c = fold(c, by, load(p + 32));
		d = fold(d, by, load(p + 48));
	}
	by = _mm_set_epi64x((long long)by_16.high, (long long)by_16.low);
	a = fold(fold(fold(a, by, b), by, c), by, d);
	for (; n >= 16; n -= 16, p += 16)
		a = fold(a, by, load(p));
	_mm_storeu_si128((void *)rest, a);
	crc = crc32_add_by_table(0, rest, sizeof(rest));
	return crc32_add_by_table(crc, p, n);
}
#else
static bool processor_folds(void) { return false; }

static uint32_t fold_all(uint32_t crc, const uint8_t *p, size_t n)
{
	return crc32_add_by_table(crc, p, n);
}
#endif

__attribute__((constructor)) static void make_tables(void)
{
	make_table();
	make_powers();
	can_fold = processor_folds();
}

HOT uint32_t crc32_add(uint32_t crc, const void *p, size_t n)
{
	return n >= FOLDED_MIN && can_fold ? fold_all(crc, p, n)
					   : crc32_add_by_table(crc, p, n);
}

uint32_t crc32_undo_zeros(uint32_t crc, size_t n)
{
	for (uint32_t i = 0; n && i < POWERS; i++, n >>= 1)
		if (n & 1)
			crc = product(crc, back[i]);
	return crc;
}
