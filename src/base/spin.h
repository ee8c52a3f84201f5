/* SPDX-License-Identifier: MIT */
/*
 * base/spin.h - how long to spin before sleeping
 *
 * Ski rental: it pays to spin about as long as a sleep and a wake-up would cost, and
 * only while waits have been short lately.  Each thread remembers its last eight waits.
 * A thread that shares its core with somebody who has work sleeps at once for a while: a
 * yield of its own tells, by how long it takes, and by whether it brings what the thread
 * waits for (docs/notes/2026-11-22-bells.md).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef bool spin_ready(void *arg);

void spin_configure(void); /* reads OSF_SPIN_US; 0: never spin */

/* Spins until @ready holds, spinning no longer pays, or @deadline_ns (UINT64_MAX: none)
 * is over.  Return: whether it holds */
bool spin_until(spin_ready *ready, void *arg, uint64_t deadline_ns);

/* Tells whether spin_until() would do more than glance. */
bool spin_pays(void);

/* Notes a sleep of @ns that ended well, to learn whether spinning would have paid. */
void spin_learn(uint64_t ns);
