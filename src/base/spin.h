/* SPDX-License-Identifier: MIT */
/*
 * base/spin.h - how long to look before sleeping
 *
 * Ski rental: spinning is worth about what sleeping and being woken would cost,
 * and only while waits have been short lately.  Each thread remembers its last
 * eight waits.  A thread that shares its core with somebody who has work sleeps at once
 * for a while: a yield of its own tells, by how long it takes, and by whether it brings
 * what the thread waits for (docs/notes/2026-11-22-bells.md).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef bool spin_ready(void *arg);

void spin_configure(void); /* reads OSF_SPIN_US; 0: never spin */

/* Look at @ready until it holds or spinning no longer pays, or @deadline_ns
 * (UINT64_MAX: none) is over.  True if it holds. */
bool spin_until(spin_ready *ready, void *arg, uint64_t deadline_ns);

/* Will spin_until() do more than glance? */
bool spin_pays(void);

/* A sleep of @ns ended by what was waited for: so short that spinning would have
 * paid? */
void spin_learn(uint64_t ns);
