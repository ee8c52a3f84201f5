/* SPDX-License-Identifier: MIT */
/* base/spin.c - see base/spin.h */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/compiler.h"
#include "base/env.h"
#include "base/setting.h"
#include "base/spin.h"

/* The cost of a sleep and a wake-up together on virtual machines, rounded up. */
#define SPIN_DEFAULT_NS (50 * NS_PER_US)
#define SPIN_MAX_US (3600 * 1000000ll) /* for ever */
#define LOOKS_FIRST 16
/* After so many waits whose first looks were in vain, one look is enough, except in one
 * wait of that many: they take as long as half a sleep. */
#define LOOKS_IN_VAIN 16
#define YIELD_AFTER_NS (2 * NS_PER_US)
/* A round of looks takes less than this, unless something else ran on the core. */
#define ROUND_NS (3 * NS_PER_US)
/* The pause after a lost core is as long as losing it took.  If spinning has not paid
 * since the last pause, or not for CALM_TIMES as long as that, the pause is so many
 * times the last one. */
#define CALM_TIMES 8
#define PAUSE_GROWTH 4
#define PAUSE_MAX_NS NS_PER_S
/* How many spins may find nothing before a pause: for a thread that probes, and the
 * maximum. */
#define CREDIT_PROBE 4
#define CREDIT_MAX 8
/* A peer that sleeps must be woken before it can answer. */
#define PROBE_TIMES 3
#define PAUSE_WAITS 16
#define PAUSE_MAX_WAITS 64u
/* Among peers that share a core, each has its turn soon.  Who does not wait for anything keeps the
 * core for a time slice, which is 0.7 ms at least. */
#define YIELD_LONG_NS (500 * NS_PER_US)
/* Without another thread on the core a yield takes less than this. */
#define YIELD_ALONE_NS 1500
/* A single long one in this time is forgiven. */
#define YIELD_LAST_NS (256 * NS_PER_MS)
#define YIELD_PAUSE_NS (64 * NS_PER_MS)
#define YIELD_PAUSE_GROWTH 8
#define YIELD_PAUSE_MAX_NS (4096 * NS_PER_MS)
/* So many yields may be in vain, and two more for each that was not. */
#define YIELDS_IN_VAIN 4
#define YIELDS_TRUSTED 16
/* If a thread's last wait was this long ago, its peer is asleep by now, unless it serves others.
 * To spin until it has been woken costs more than to sleep, so such a wait spins for a part. */
#define RARE_NS NS_PER_MS
#define RARE_PART 3

static __thread struct spinner spinner
    __attribute__((tls_model("initial-exec")));
static uint64_t spin_ns = SPIN_DEFAULT_NS;

void spin_configure(void)
{
	const char *s = secure_getenv("OSF_SPIN_US");

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

/* Begins to find out whether spinning pays. */
static void probe(struct spinner *s)
{
	s->has_paid = false;
	s->credit = CREDIT_PROBE;
}

/* Has the kernel given this thread's core to another one since the last call? */
static bool lost_core(struct spinner *s)
{
	struct rusage used;

	if (getrusage(RUSAGE_THREAD, &used))
		return false;
	bool lost = used.ru_nivcsw != s->n_lost;
	s->n_lost = used.ru_nivcsw;
	return lost;
}

/* A yield gave the core away for long. */
static void yielded_long(struct spinner *s, uint64_t now)
{
	uint64_t last = s->long_ns, ns = YIELD_PAUSE_NS;

	s->long_ns = now;
	if (now < s->yield_end || now - last > YIELD_LAST_NS)
		return;
	if (now - s->yield_end < s->yield_pause_ns * CALM_TIMES)
		ns = s->yield_pause_ns * YIELD_PAUSE_GROWTH;
	s->yield_pause_ns = MIN(ns, YIELD_PAUSE_MAX_NS);
	s->yield_end = (now / s->yield_pause_ns + 1) * s->yield_pause_ns;
}

static void pause_crowded(struct spinner *s, uint64_t now, uint64_t cost_ns)
{
	uint64_t calm_ns = now - cost_ns - s->pause_end;
	uint64_t ns = cost_ns;

	if (!s->has_paid || calm_ns < cost_ns * CALM_TIMES)
		ns = MAX(ns, s->pause_ns * PAUSE_GROWTH);
	s->pause_ns = MIN(ns, PAUSE_MAX_NS);
	s->pause_end = now + s->pause_ns;
	probe(s);
}

/* Two peers that both pause must probe at the same time, once, to find out that
 * spinning pays again: so the pauses' lengths are random, and limited. */
static void pause_fruitless(struct spinner *s, uint64_t now)
{
	unsigned n = PAUSE_WAITS;

	if (!s->has_paid && s->pause_waits)
		n = MIN(2u * s->pause_waits, PAUSE_MAX_WAITS);
	s->pause_waits = (uint16_t)n;
	s->waits_left = (uint16_t)(n + now % n);
	probe(s);
}

static void learn(struct spinner *s, uint64_t now, bool pays)
{
	if (pays) {
		s->has_paid = true;
		s->n_in_vain = 0;
		s->credit = (int8_t)MIN(s->credit + 1, CREDIT_MAX);
		return;
	}
	s->credit -= s->is_rare ? 2 : 1;
	if (s->credit <= 0)
		pause_fruitless(s, now);
}

static bool spin_for_long(struct spinner *s, spin_ready *ready, void *arg,
			  uint64_t start, uint64_t deadline_ns)
{
	uint64_t now = start, pays_until = start + spin_ns, end = pays_until;

	if (s->is_rare)
		end = pays_until = start + spin_ns / RARE_PART;
	else if (!s->has_paid)
		end = start + spin_ns * PROBE_TIMES;

	while (now < MIN(end, deadline_ns)) {
		for (int i = 0; i < 8; i++) {
			if (ready(arg)) {
				learn(s, now, now < pays_until);
				return true;
			}
			cpu_relax();
		}
		uint64_t before = now;
		if (now - start > YIELD_AFTER_NS)
			sched_yield();
		now = now_ns();
		/* An interrupt takes as long, but does not take the core away. */
		if (now - before > ROUND_NS && lost_core(s)) {
			if (now - before >= YIELD_LONG_NS)
				yielded_long(s, now);
			pause_crowded(s, now, now - before);
			return ready(arg);
		}
	}
	if (now >= end)
		learn(s, now, false);
	return ready(arg);
}

static void begin(struct spinner *s, uint64_t now)
{
	s->has_begun = true;
	s->last_ns = now;
	lost_core(s);
	probe(s);
}

/* Not while waits are rare: they save nothing by a spin that has to wait for the peer
 * to wake. */
static bool may_spin(struct spinner *s, uint64_t now)
{
	s->is_rare = !s->was_quick && now - s->last_ns > RARE_NS;
	s->was_quick = false;
	s->last_ns = now;
	if (s->waits_left && (s->waits_left > 1 || !s->is_rare))
		s->waits_left--;
	return !s->waits_left && now >= s->pause_end;
}

/* Not if the wait is to end soon, because a yield may take a time slice. */
static bool may_yield(struct spinner *s, uint64_t now, uint64_t deadline_ns)
{
	if (s->is_rare || now < s->yield_end ||
	    deadline_ns < now + 2 * YIELD_LONG_NS)
		return false;
	if (s->yield_waits_left)
		s->yield_waits_left--;
	return !s->yield_waits_left;
}

static bool yield_once(struct spinner *s, spin_ready *ready, void *arg,
		       uint64_t before)
{
	sched_yield();
	bool found = ready(arg);
	uint64_t now = now_ns();

	s->last_ns = now;
	if (now - before >= YIELD_LONG_NS) {
		yielded_long(s, now);
	} else if (found && now - before >= YIELD_ALONE_NS) {
		s->yields_in_vain =
		    (int8_t)MAX(s->yields_in_vain - 2, -YIELDS_TRUSTED);
	} else if (++s->yields_in_vain >= YIELDS_IN_VAIN) {
		s->yields_in_vain = YIELDS_IN_VAIN - 1; /* one is to probe */
		s->yield_waits_left =
		    (uint16_t)(PAUSE_WAITS + now % PAUSE_WAITS);
	}
	return found;
}

/* How often to look before asking whether it may spin? */
static int first_looks(struct spinner *s)
{
	if (s->n_in_vain < LOOKS_IN_VAIN) {
		s->n_in_vain++;
		return LOOKS_FIRST;
	}
	if (++s->n_in_vain < 2 * LOOKS_IN_VAIN)
		return 1;
	s->n_in_vain = LOOKS_IN_VAIN;
	return LOOKS_FIRST;
}

bool spinner_wait(struct spinner *s, spin_ready *ready, void *arg,
		  uint64_t deadline_ns)
{
	int n_looks = first_looks(s);

	for (int i = 0; i < n_looks; i++) {
		if (ready(arg)) {
			s->was_quick = true;
			s->n_in_vain = 0;
			return true;
		}
		cpu_relax();
	}
	if (!spin_ns)
		return false;

	uint64_t now = now_ns();
	if (!s->has_begun)
		begin(s, now);
	if (may_spin(s, now))
		return spin_for_long(s, ready, arg, now, deadline_ns);
	return may_yield(s, now, deadline_ns) && yield_once(s, ready, arg, now);
}

bool spin_until(spin_ready *ready, void *arg, uint64_t deadline_ns)
{
	return spinner_wait(&spinner, ready, arg, deadline_ns);
}

bool spin_pays(void)
{
	const struct spinner *s = &spinner;

	return spin_ns && !s->waits_left && (!s->has_begun || s->has_paid);
}
