/* SPDX-License-Identifier: MIT */
/*
 * base/spin.h - how long to look before sleeping
 *
 * A spin that finds something saves a sleep and a wake.  A spin that finds nothing
 * has cost its own time, and a spin on a core that another thread wants costs that
 * thread's time as well, or a whole time slice when the kernel takes the core away.
 *
 * Each thread watches what its spins cost, and pauses when spinning does not pay: for
 * a while its waits sleep at once.
 *
 *   a spin lost the core   the pause lasts as long as the core was away.  If the core is
 *                          lost again soon after, each pause is four times the last
 *                          one, up to a second, so a busy core costs little.
 *   spins found nothing    the pause lasts 16 waits, and twice as many each time, up to
 *                          64.  Then a few spins probe, and for longer than others:
 *                          the peer may sleep as well, so it must be woken before it
 *                          can answer and spin.  Its pauses have other lengths, so
 *                          both probe at the same time soon.
 *
 * A thread that does not spin looks a few times before it sleeps, for what comes at once.
 * Where that finds nothing, it looks once, and only now and then a few times.
 *
 * Then it yields the core, once for each wait, because its peers may be on the same one.  If all
 * who share a core do so, nobody has to sleep or to be woken, and each finds the work of several
 * peers when its turn comes.  Where yields find nothing, or nobody else is on the core, they pause
 * as spins do.
 *
 * A yield that took long has given a time slice to a program that does not wait.  Or peers that do
 * not yield yet have taken turns meanwhile.  So after two such yields a thread yields no more until
 * a time that is the same for all peers: the next multiple of 64 ms, and if that is soon in vain,
 * of eight times as long each time, up to 4 s.  There, peers find out together that they all yield;
 * a busy loop gets two slices more.
 *
 * The kernel counts how often it has given the core of a thread to another thread
 * (ru_nivcsw).  A thread asks for that only after a look that took long.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef bool spin_ready(void *arg);

/* What a thread knows about its spins.  All zero: nothing yet. */
struct spinner {
	/* After the core was lost: sleep at once until then. */
	uint64_t pause_end, pause_ns;
	/* After yields that took long: no other one until then. */
	uint64_t yield_end, yield_pause_ns;
	uint64_t long_ns; /* when the last of these was over */
	uint64_t last_ns; /* the last wait that was not over at once */
	long n_lost;      /* involuntary context switches, when last asked */
	/* After spins that found nothing: sleep at once so many times. */
	uint16_t waits_left, pause_waits;
	/* After yields that found nothing: yield not so many times. */
	uint16_t yield_waits_left;
	int8_t credit;         /* spins that may still find nothing */
	int8_t yields_in_vain; /* less twice those that were not */
	uint8_t
	    n_in_vain; /* waits in a row, or so, whose first looks found nothing */
	bool has_begun;
	bool was_quick; /* the wait before this one was over at once */
	bool is_rare;   /* the wait before this one was long ago */
	bool has_paid;  /* a spin has found something since the last pause */
};

void spin_configure(void); /* reads OSF_SPIN_US; 0: never spin */

/* Look at @ready until it holds or spinning no longer pays, or @deadline_ns
 * (UINT64_MAX: none) is over.  True if it holds. */
bool spin_until(spin_ready *ready, void *arg, uint64_t deadline_ns);

/* The same, with @s in place of what the calling thread knows. */
bool spinner_wait(struct spinner *s, spin_ready *ready, void *arg,
		  uint64_t deadline_ns);

/* Would spin_until() spin, as far as can be known without asking for the time? */
bool spin_pays(void);
