/* SPDX-License-Identifier: MIT */
/*
 * tests/sim/sim_shrink.c - finds the smallest settings that still fail
 *
 * It turns off one fault after the other, and keeps a fault off if the seed still
 * fails.  Then it halves the connections, the bytes and the time as long as the seed
 * fails.  It repeats all of this until nothing gets smaller.  The failure may change on
 * the way.
 */
#include <stdio.h>
#include <time.h>

#include "sim.h"

#define BUDGET_S 120 /* of real time: what is reached by then is printed */

static bool is_over(const struct timespec *from)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec - from->tv_sec > BUDGET_S;
}

static bool try_off(struct swarm_how *how)
{
	bool is_less = false;

	for (unsigned f = 0; f < FAULTS; f++) {
		struct swarm_how less = *how;

		less.off |= 1ull << f;
		if (swarm_faults(&less) == swarm_faults(how))
			continue;
		if (sim_fails(&less, true, NULL)) {
			*how = less;
			is_less = true;
		}
	}
	return is_less;
}

static bool try_without_moves(struct swarm_how *how)
{
	struct swarm_how less = *how;

	less.moves = MOVES_NONE;
	if (how->moves == MOVES_NONE || !sim_fails(&less, true, NULL))
		return false;
	*how = less;
	return true;
}

/* Halves *number, which is a field of @how, while the seed still fails. */
static bool try_half(struct swarm_how *how, uint32_t *number, uint32_t from)
{
	uint32_t good = *number, at = good ? good : from;
	bool is_less = false;

	for (at /= 2; at; at /= 2) {
		*number = at;
		if (!sim_fails(how, true, NULL))
			break;
		good = at;
		is_less = true;
	}
	*number = good;
	return is_less;
}

void sim_shrink(struct swarm_how *how)
{
	static struct world_config cfg;
	struct timespec from;
	bool is_less = true;

	clock_gettime(CLOCK_MONOTONIC, &from);
	while (is_less && !is_over(&from)) {
		swarm_make(how, &cfg);
		is_less = try_off(how);
		is_less |= try_without_moves(how);
		is_less |= try_half(how, &how->pairs_max, cfg.n_pairs);
		is_less |= try_half(how, &how->bytes_max, 12000000);
		is_less |= try_half(how, &how->heal_ms,
				    (uint32_t)(cfg.heals_at_ns / NS_PER_MS));
	}
}

void sim_print_command(const struct swarm_how *how)
{
	const char *comma = " --off ";

	printf("sim");
	for (unsigned f = 0; f < FAULTS; f++)
		if (how->off >> f & 1) {
			printf("%s%s", comma, swarm_fault_name(f));
			comma = ",";
		}
	if (how->moves)
		printf(" --moves %s", how->moves == MOVES_ALL ? "all" : "none");
	if (how->pairs_max)
		printf(" --pairs %u", how->pairs_max);
	if (how->bytes_max)
		printf(" --bytes %u", how->bytes_max);
	if (how->heal_ms)
		printf(" --heal-ms %u", how->heal_ms);
	if (how->is_strict)
		printf(" --strict");
	printf(" %llu\n", (unsigned long long)how->seed);
}
