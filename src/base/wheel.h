/* SPDX-License-Identifier: MIT */
/*
 * base/wheel.h - a timer wheel: timers that cost little to set and to cancel
 *
 * There are four levels of 64 slots.  A tick is 2^17 ns (131 us), so the levels reach
 * 8.4 ms, 537 ms, 34 s and 37 minutes.  A timer further away waits in the last slot,
 * and is put again from there.  Arming and disarming are O(1); wheel_next() reads four
 * words.  A timer fires at the tick after its instant, never before it.
 *
 * The timers of a slot are in several lists, whose heads are taken in rotation.  So the
 * next timers are known before they expire, and can be fetched all at once
 * (wheel_soon()).
 *
 * A timer that is set to a later instant stays where it lies, and moves on when its
 * slot is reached.  So setting it touches no cache line but its own.
 *
 * Owner: one group; the caller gives the time, which does not go back.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

#define WHEEL_TICK_SHIFT 17
#define WHEEL_BITS 6
#define WHEEL_SLOTS (1 << WHEEL_BITS)
#define WHEEL_LEVELS 4
#define WHEEL_LANES 8 /* lists of a slot */
#define WHEEL_NEVER UINT64_MAX

struct timer {
	struct list link;
	uint64_t at_ns; /* where it lies; WHEEL_NEVER: nowhere */
	uint64_t
	    due_ns; /* when it fires, not before @at_ns; WHEEL_NEVER: not at all */
	uint32_t
	    early; /* ticks before it is due when it is to be looked at first */
	uint16_t slot; /* level * WHEEL_SLOTS + slot */
};

struct wheel {
	uint64_t tick;                  /* all before it have fired */
	uint64_t is_used[WHEEL_LEVELS]; /* a bit a slot */
	struct list slots[WHEEL_LEVELS * WHEEL_SLOTS][WHEEL_LANES];
	uint32_t n_lying;
	uint32_t put_lane, take_lane; /* running freely */
	const struct timer *soon;
};

void wheel_init(struct wheel *w, uint64_t now_ns);

static inline void timer_init(struct timer *t)
{
	list_init(&t->link);
	t->at_ns = t->due_ns = WHEEL_NEVER;
}

/* Whether the timer lies in the wheel; one that was cancelled may still do so for a
 * while. */
static inline bool timer_is_lying(const struct timer *t)
{
	return t->at_ns != WHEEL_NEVER;
}

void wheel_move(struct wheel *w, struct timer *t, uint64_t at_ns);

/* The timer fires at @due_ns; WHEEL_NEVER: not at all. */
static inline void wheel_set(struct wheel *w, struct timer *t, uint64_t due_ns)
{
	t->due_ns = due_ns;
	t->early = 0;
	if (due_ns < t->at_ns)
		wheel_move(w, t, due_ns);
}

/* As wheel_set(), for a timer that will probably be set again to an instant as early as
 * @by_ns.  It lies at @by_ns: an early look at it costs less than a move. */
static inline void wheel_set_by(struct wheel *w, struct timer *t,
				uint64_t due_ns, uint64_t by_ns)
{
	wheel_set(w, t, due_ns < by_ns ? due_ns : by_ns);
	if (due_ns <= by_ns)
		return;
	/* Rounded so that the timer is not looked at again one tick after @by_ns. */
	uint64_t early =
	    (due_ns >> WHEEL_TICK_SHIFT) - (by_ns >> WHEEL_TICK_SHIFT);
	t->due_ns = due_ns;
	t->early = early < UINT32_MAX ? (uint32_t)early : 0;
}

/* Takes the timer out of the wheel. */
void wheel_disarm(struct wheel *w, struct timer *t);

/* Takes out and returns a timer that has expired by @now_ns, or NULL. */
struct timer *wheel_expire(struct wheel *w, uint64_t now_ns);

/* The timer that wheel_expire() will probably return some calls later, or NULL: to be
 * fetched into the cache. */
const struct timer *wheel_soon(const struct wheel *w);

/* An instant before which no timer fires, and at which wheel_expire() makes progress;
 * WHEEL_NEVER if the wheel is empty. */
uint64_t wheel_next(const struct wheel *w);
