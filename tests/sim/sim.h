/* SPDX-License-Identifier: MIT */
/*
 * tests/sim/sim.h - running seeds: in this process, in others, and until least is left
 *
 *     sim.c: options, workers  ->  sim_run.c: one seed  <-  sim_shrink.c: what fails
 *
 * An assertion that fails ends its process, so workers are processes.
 */
#pragma once

#include "swarm.h"

#define SIM_JOBS_MAX 64

/* Memory that all processes share.  Only atomics touch it. */
struct sim_shared {
	uint64_t next; /* the seed that nobody has yet */
	uint64_t n_done, n_frames, n_unopened;
	uint64_t running[SIM_JOBS_MAX]; /* the seed of each worker */
	uint64_t n_excused[EXCUSES];    /* ends */
	uint64_t transitions[TCP_STATES][TCP_STATES];
};

extern struct sim_shared *sim_shared;

/* Runs a seed in this process, which it ends if the seed fails.  @capture: the name
 * of a file, or NULL */
void sim_run(const struct swarm_how *how, const char *capture);

/* Runs a seed in a process of its own.  Return: whether it fails. */
bool sim_fails(const struct swarm_how *how, bool is_quiet, const char *capture);

/* Turns off and makes smaller what can be without the failure going away. */
void sim_shrink(struct swarm_how *how);

/* The command that runs a seed so. */
void sim_print_command(const struct swarm_how *how);
