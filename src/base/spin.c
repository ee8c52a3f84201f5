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
/* Somebody else has run while we yielded, or it was an interrupt. */
#define SWITCHED_NS (1 * NS_PER_US)
#define CROWDED_WAITS 16
#define CROWDED_WAITS_MAX 1024
#define WARY_WAITS 256
#define WARY_HIT 32 /* waits that one of less than YIELD_AFTER_NS stands for */

struct spinner {
	uint8_t misses; /* one bit a wait, 1: it was too long to spin */
	uint8_t
	    was_handed;   /* the last spin's yield brought what it waited for */
	uint16_t crowded; /* waits left to sleep through at once */
	uint16_t n_crowded; /* as many next time */
	uint16_t wary;      /* waits left in which to spin, but not to yield */
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

/*
 * The one we wait for shares the core: a sleep lets him run at once, and costs less than
 * a spin and a yield.
 */
static COLD void crowded(void)
{
	spinner.crowded = MAX(spinner.n_crowded, (uint16_t)CROWDED_WAITS);
	spinner.n_crowded =
	    (uint16_t)MIN(spinner.crowded * 2, CROWDED_WAITS_MAX);
	spinner.was_handed = 0;
}

/* A stranger has work on this core.  He may take a yield for a whole slice of time, so
 * there are none until short waits have come again. */
static COLD void lost_core(void)
{
	spinner.crowded = CROWDED_WAITS;
	spinner.wary = WARY_WAITS;
}

/* Who we wait for is on another core, and runs. */
static inline void hit_at_once(void)
{
	if (unlikely(spinner.wary | spinner.n_crowded | spinner.was_handed)) {
		spinner.wary -= MIN(spinner.wary, (uint16_t)WARY_HIT);
		spinner.n_crowded = 0;
		spinner.was_handed = 0;
	}
}

/* Let others run.  0, or for how long they did so. */
static uint64_t yield(void)
{
	uint64_t before = now_ns();

	sched_yield();
	uint64_t ns = now_ns() - before;
	return ns > SWITCHED_NS ? ns : 0;
}

static bool spin(spin_ready *ready, void *arg, uint64_t deadline_ns)
{
	uint64_t start = now_ns(), now = start;
	uint64_t end = MIN(start + spin_ns, deadline_ns);

	while (now < end) {
		for (int i = 0; i < 8; i++) {
			if (ready(arg)) {
				hit_at_once();
				return true;
			}
			cpu_relax();
		}
		uint64_t before = now, ns = 0;
		if (now - start > YIELD_AFTER_NS) {
			if (spinner.wary)
				break;
			ns = yield();
		}
		if (ns && ready(arg)) {
			if (spinner.was_handed)
				crowded();
			else
				spinner.was_handed = 1;
			return true;
		}
		now = now_ns();
		if (now - before > LOST_CORE_NS) {
			lost_core();
			break;
		}
	}
	return ready(arg);
}

bool spin_pays(void)
{
	return spin_ns && !spinner.crowded &&
	       __builtin_popcount(spinner.misses) <= 4;
}

bool spin_until(spin_ready *ready, void *arg, uint64_t deadline_ns)
{
	for (int i = 0; i < 16; i++) {
		if (ready(arg)) {
			hit_at_once();
			return true;
		}
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
	if (spinner.wary)
		spinner.wary--;
	if (!spin(ready, arg, deadline_ns))
		return false;
	remember(false);
	return true;
}
