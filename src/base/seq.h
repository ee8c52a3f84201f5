/* SPDX-License-Identifier: MIT */
/*
 * base/seq.h - TCP sequence numbers, a type of their own
 *
 * A struct of one member costs nothing in a register, and makes a sequence number
 * that is mixed with a length or compared with "<" a compile error.  Sequence
 * numbers wrap: these are the only comparisons of them in the tree.
 * Spec: RFC 9293 section 3.4
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef struct {
	uint32_t v; /* host order */
} seq32;

static inline bool seq_lt(seq32 a, seq32 b) { return (int32_t)(a.v - b.v) < 0; }
static inline bool seq_le(seq32 a, seq32 b)
{
	return (int32_t)(a.v - b.v) <= 0;
}
static inline bool seq_eq(seq32 a, seq32 b) { return a.v == b.v; }
static inline seq32 seq_add(seq32 a, uint32_t n) { return (seq32){ a.v + n }; }
static inline seq32 seq_sub(seq32 a, uint32_t n) { return (seq32){ a.v - n }; }

/* The bytes from one number to another one, which must not lie before it. */
static inline uint32_t seq_len(seq32 from, seq32 to) { return to.v - from.v; }

static inline seq32 seq_min(seq32 a, seq32 b) { return seq_lt(a, b) ? a : b; }
static inline seq32 seq_max(seq32 a, seq32 b) { return seq_lt(a, b) ? b : a; }
