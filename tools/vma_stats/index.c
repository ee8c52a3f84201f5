/* SPDX-License-Identifier: MIT */
/* tools/vma_stats/index.c - see tools/vma_stats/index.h */
#include "index.h"
#include "../osf/osf.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

void index_init(struct index *x, size_t key_bytes, size_t n)
{
	size_t n_slots = 16;

	assert(key_bytes <= INDEX_KEY_MAX);
	while (n_slots < 2 * n)
		n_slots *= 2;
	*x = (struct index){ .key_bytes = key_bytes, .mask = n_slots - 1 };
	x->keys = xcalloc(n_slots, key_bytes);
	x->values = xcalloc(n_slots, sizeof(*x->values));
	memset(x->values, 0xff, n_slots * sizeof(*x->values));
	/* Without random numbers, what few know. */
	if (getrandom(&x->seed, sizeof(x->seed), GRND_NONBLOCK) !=
	    sizeof(x->seed))
		x->seed.k[0] = (uintptr_t)x->keys;
}

static uint64_t hash(const struct index *x, const void *key)
{
	uint64_t words[INDEX_KEY_MAX / sizeof(uint64_t)] = { 0 };

	memcpy(words, key, x->key_bytes);
	return siphash(&x->seed, words,
		       (x->key_bytes + sizeof(*words) - 1) / sizeof(*words));
}

/* Where @key is, or would be. */
static size_t slot(const struct index *x, const void *key)
{
	size_t i = hash(x, key) & x->mask;

	while (x->values[i] != INDEX_NONE &&
	       memcmp(x->keys + i * x->key_bytes, key, x->key_bytes) != 0)
		i = (i + 1) & x->mask;
	return i;
}

bool index_put(struct index *x, const void *key, uint32_t value)
{
	size_t i = slot(x, key);

	if (x->values[i] != INDEX_NONE)
		return false;
	memcpy(x->keys + i * x->key_bytes, key, x->key_bytes);
	x->values[i] = value;
	return true;
}

uint32_t index_get(const struct index *x, const void *key)
{
	return x->values ? x->values[slot(x, key)] : INDEX_NONE;
}

void index_free(struct index *x)
{
	free(x->keys);
	free(x->values);
	*x = (struct index){ 0 };
}
