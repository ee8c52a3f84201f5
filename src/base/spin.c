/* SPDX-License-Identifier: MIT */
/* base/spin.c - see base/spin.h */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/compiler.h"
#include "base/env.h"
#include "base/setting.h"
#include "base/spin.h"

/* The cost of a sleep and a wake-up on virtual machines, rounded up. */
#define SPIN_DEFAULT_NS (50 * NS_PER_US)
#define SPIN_MAX_US (3600 * 1000000ll) /* for ever */
#define YIELD_AFTER_NS (2 * NS_PER_US)
#define LOST_CORE_NS (6 * NS_PER_US)
#define CROWDED_WAITS 16

struct spinner {
	uint8_t misses;  /* one bit a wait, 1: it was too long to spin */
	uint8_t crowded; /* waits left to sleep through at once */
};

static __thread struct spinner spinner
    __attribute__((tls_model("initial-exec")));
static uint64_t spin_ns = SPIN_DEFAULT_NS;

void spin_configure(void)
{
	const char *s = getenv("OSF_SPIN_US");

	if (!s || !*s)
		s = env_text("OSF_SPIN_US");
	else
		s = NULL; /* ours, which goes first, has no -1 */
	if (s && !strcmp(s, "-1"))
		spin_ns = SPIN_MAX_US * NS_PER_US;
	else
		spin_ns =
		    setting_number("OSF_SPIN_US", SPIN_DEFAULT_NS / NS_PER_US,
				   0, SPIN_MAX_US) *
		    NS_PER_US;
}

static void remember(bool too_long)
{
	spinner.misses = (uint8_t)(spinner.misses << 1 | too_long);
}

void spin_learn(uint64_t ns) { remember(ns > spin_ns); }

bool spin_until(spin_ready *ready, void *arg, uint64_t deadline_ns)
{
	for (int i = 0; i < 16; i++) {
		if (ready(arg))
			return true;
		cpu_relax();
	}
	if (!spin_ns)
		return false;
	if (spinner.crowded) {
		spinner.crowded--;
		return false;
	}
	if (__builtin_popcount(spinner.misses) > 4)
		return false; /* the sleep itself is what we learn from */

	uint64_t start = now_ns(), now = start;
	uint64_t end = MIN(start + spin_ns, deadline_ns);
	while (now < end) {
		for (int i = 0; i < 8; i++) {
			if (ready(arg)) {
				remember(false);
				return true;
			}
			cpu_relax();
		}
		uint64_t before = now;
		if (now - start > YIELD_AFTER_NS)
			sched_yield();
		now = now_ns();
		if (now - before > LOST_CORE_NS) {
			spinner.crowded = CROWDED_WAITS;
			break;
		}
	}
	return ready(arg);
}
