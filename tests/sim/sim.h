/* SPDX-License-Identifier: MIT */
/*
 * tests/sim/sim.h - runs seeds, in this process or in others, and shrinks those that fail
 *
 *     sim.c: options, workers  ->  sim_run.c: one seed  <-  sim_shrink.c: the smallest failure
 *
 * A failed assertion ends its process, so each worker is a process.
 */
#pragma once

#include "swarm.h"

#define SIM_JOBS_MAX 64

/* Memory that all processes share and change with atomics only. */
struct sim_shared {
	uint64_t next; /* the seed that nobody has yet */
	uint64_t n_done, n_frames, n_unopened, n_moves;
	uint64_t running[SIM_JOBS_MAX]; /* the seed of each worker */
	uint64_t n_excused[EXCUSES];    /* ends */
	uint64_t transitions[TCP_STATES][TCP_STATES];
};

extern struct sim_shared *sim_shared;

/* Runs a seed in this process, and ends the process if the seed fails.  @capture: a
 * file for the packets, or NULL */
void sim_run(const struct swarm_how *how, const char *capture);

/* Runs a seed in a process of its own.  Return: whether it fails */
bool sim_fails(const struct swarm_how *how, bool is_quiet, const char *capture);

/* Turns faults off and lowers numbers as long as the seed still fails. */
void sim_shrink(struct swarm_how *how);

/* Prints the command that runs this seed with these settings. */
void sim_print_command(const struct swarm_how *how);
