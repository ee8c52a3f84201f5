/* SPDX-License-Identifier: MIT */
/*
 * tests/sim/swarm.h - makes a world from a seed, and judges what became of it
 *
 *     seed, faults that are off -> swarm_make() -> world_run() -> swarm_judge()
 *
 * A seed selects some of the faults of faults.def, because a fault that is always there
 * hides others.  Each fault draws random numbers of its own.  So turning one off does
 * not change the others, and a failure can be shrunk.
 */
#pragma once

#include "world.h"

enum fault {
#define F(name, what) FAULT_##name,
#include "faults.def"
#undef F
	FAULTS
};

/* Which worlds have a second stack in each host, to which connections move: those that
 * their seed chooses, all, or none. */
enum swarm_moves { MOVES_SOME, MOVES_ALL, MOVES_NONE };

struct swarm_how {
	uint64_t seed;
	uint64_t off; /* bit n: no fault n */
	enum swarm_moves moves;
	uint32_t pairs_max; /* 0: as the seed says */
	uint32_t bytes_max;
	uint32_t heal_ms;
	bool is_strict; /* nothing excuses a connection that breaks */
};

/* Why an end may come to something else than all bytes and a FIN: excuses.def. */
enum excuse {
	EXCUSE_NONE,
#define X(name, what) EXCUSE_##name,
#include "excuses.def"
#undef X
	EXCUSES
};

struct swarm_verdict {
	bool is_good;
	uint32_t n_unopened;         /* opens that failed, as they may */
	uint32_t n_excused[EXCUSES]; /* ends, by the excuse of each */
	char why[300];
};

const char *swarm_fault_name(enum fault f);

/* Return: the name of the excuse, and what it means. */
const char *swarm_excuse(enum excuse x);

/* Return: the faults that the seed has and that are not off, as bits. */
uint64_t swarm_faults(const struct swarm_how *how);

void swarm_make(const struct swarm_how *how, struct world_config *out);

/* Return: when all ends must be done. */
uint64_t swarm_deadline(const struct world_config *cfg);

/* @faults: bits, from swarm_faults() */
void swarm_judge(const struct world *w, uint64_t faults, bool is_strict,
		 struct swarm_verdict *out);
