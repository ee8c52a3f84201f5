/* SPDX-License-Identifier: MIT */
/*
 * base/siphash.h - a keyed hash that strangers cannot predict
 *
 * SipHash-2-4 over whole 64-bit words is for numbers that others must not guess.
 * SipHash-1-3 is for tables that the wire fills, whose hashes nobody sees.  Spec:
 * Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012
 */
#pragma once

#include <stdint.h>

struct sip_key {
	uint64_t k[2];
};

static inline uint64_t sip_rotl(uint64_t x, int n)
{
	return x << n | x >> (64 - n);
}

static inline void sip_round(uint64_t v[4])
{
	v[0] += v[1];
	v[2] += v[3];
	v[1] = sip_rotl(v[1], 13) ^ v[0];
	v[3] = sip_rotl(v[3], 16) ^ v[2];
	v[0] = sip_rotl(v[0], 32);
	v[2] += v[1];
	v[0] += v[3];
	v[1] = sip_rotl(v[1], 17) ^ v[2];
	v[3] = sip_rotl(v[3], 21) ^ v[0];
	v[2] = sip_rotl(v[2], 32);
}

static inline void sip_word(uint64_t v[4], uint64_t m)
{
	v[3] ^= m;
	sip_round(v);
	sip_round(v);
	v[0] ^= m;
}

static inline void sip_begin(uint64_t v[4], const struct sip_key *key)
{
	v[0] = key->k[0] ^ 0x736f6d6570736575ull;
	v[1] = key->k[1] ^ 0x646f72616e646f6dull;
	v[2] = key->k[0] ^ 0x6c7967656e657261ull;
	v[3] = key->k[1] ^ 0x7465646279746573ull;
}

/* The hash of @n words, each as eight little-endian bytes. */
static inline uint64_t siphash(const struct sip_key *key, const uint64_t *words,
			       unsigned n)
{
	uint64_t v[4];

	sip_begin(v, key);
	for (unsigned i = 0; i < n; i++)
		sip_word(v, words[i]);
	sip_word(v, (uint64_t)(n * 8) << 56);
	v[2] ^= 0xff;
	for (int i = 0; i < 4; i++)
		sip_round(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* SipHash-1-3 of @n words and of @n_tail bytes, 0 to 7: the low bytes of @tail. */
static inline uint64_t siphash_table(const struct sip_key *key,
				     const uint64_t *words, unsigned n,
				     uint64_t tail, unsigned n_tail)
{
	uint64_t v[4], last = (uint64_t)(n * 8 + n_tail) << 56 | tail;

	sip_begin(v, key);
	for (unsigned i = 0; i <= n; i++) {
		uint64_t m = i < n ? words[i] : last;

		v[3] ^= m;
		sip_round(v);
		v[0] ^= m;
	}
	v[2] ^= 0xff;
	for (int i = 0; i < 3; i++)
		sip_round(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}
