/* SPDX-License-Identifier: MIT */
/* api/vma/fd_bits.h - a bit for each descriptor; those above FD_BITS have none */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/compiler.h"

#define FD_BITS 65536u

struct fd_bits {
	uint64_t word[FD_BITS / 64]; /* atomic */
};

static inline void fd_bits_set(struct fd_bits *b, int fd)
{
	if ((unsigned)fd < FD_BITS)
		fetch_or(&b->word[fd / 64], UINT64_C(1) << (fd % 64));
}

static inline bool fd_bits_has(const struct fd_bits *b, int fd)
{
	return (unsigned)fd < FD_BITS &&
	       load_rlx(&b->word[fd / 64]) & UINT64_C(1) << (fd % 64);
}

/* Those from @first to @last. */
static inline void fd_bits_clear(struct fd_bits *b, unsigned first,
				 unsigned last)
{
	last = MIN(last, FD_BITS - 1);
	for (unsigned i = first / 64; first <= last && i <= last / 64; i++) {
		uint64_t gone = UINT64_MAX;

		if (i == first / 64)
			gone &= UINT64_MAX << first % 64;
		if (i == last / 64)
			gone &= UINT64_MAX >> (63 - last % 64);
		if (load_rlx(&b->word[i]) & gone)
			fetch_and(&b->word[i], ~gone);
	}
}
