/* SPDX-License-Identifier: MIT */
/*
 * tests/port/victim.h - what death.c and the program that it kills both know
 *
 * Both draw the same lengths from one seed: in a turn the victim sends LENGTH bytes of the
 * one stream, and the other end answers with REPLY bytes of it, or with none.
 */
#pragma once

#include <stdbool.h>

#include "unit.h"

/* In memory that both have mapped, at the victim's descriptor VICTIM_FD. */
struct victim {
	uint64_t sent; /* bytes for which send() has returned */
	uint32_t asks; /* the test: set an option that only the kernel has */
	uint32_t asked;
	uint32_t
	    stays_away; /* the test: make no call after a turn, for as long */
	uint32_t is_away;
	bool is_gentle; /* never more in a turn than any window lets leave */
};
#define VICTIM_FD 40
#define VICTIM_TURNS_MAX 1000000

static inline uint32_t victim_length(const struct victim *v, struct rng *rng)
{
	uint32_t kind = rng_below(rng, 1024);

	if (v->is_gentle)
		kind = 0;
	return 1 + rng_below(rng, kind < 800    ? 200
				  : kind < 1020 ? 4000
						: 60000);
}

static inline uint32_t victim_reply(struct rng *rng)
{
	return rng_below(rng, 8) ? 1 + rng_below(rng, 300) : 0;
}
