/* SPDX-License-Identifier: MIT */
/*
 * tools/vma_stats/index.h - what lies under a key
 *
 * The keys come from files and tables that other users may write.  So they are hashed with
 * numbers that nobody can guess, and equal keys are kept once.  A look-up costs the same
 * whatever the keys are.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/siphash.h"

#define INDEX_NONE UINT32_MAX
#define INDEX_KEY_MAX 40u /* bytes */

struct index {
	uint8_t *keys;
	uint32_t *values; /* INDEX_NONE: free */
	size_t key_bytes, mask;
	struct sip_key seed;
};

/* For at most @n keys of @key_bytes each, padding included. */
void index_init(struct index *x, size_t key_bytes, size_t n);
/* False: the key has a value already, which stays. */
bool index_put(struct index *x, const void *key, uint32_t value);
/* INDEX_NONE: no such key, or index_init() was never called. */
uint32_t index_get(const struct index *x, const void *key);
void index_free(struct index *x);
