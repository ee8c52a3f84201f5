/* SPDX-License-Identifier: MIT */
/*
 * base/wheel.c - the timer wheel; see wheel.h
 *
 * A timer lies on the lowest level on which its tick and the wheel's share all
 * higher digits (base 64).  When the wheel comes to a slot of a higher level, what
 * lies there goes down at least one level, so each timer moves at most three times.
 */
#include "base/wheel.h"

#include <assert.h>
#include <stddef.h>

#define REACH (UINT64_C(1) << (WHEEL_BITS * WHEEL_LEVELS))

void wheel_init(struct wheel *w, uint64_t now_ns)
{
	*w = (struct wheel){ .tick = now_ns >> WHEEL_TICK_SHIFT };
	for (unsigned i = 0; i < WHEEL_LEVELS * WHEEL_SLOTS; i++)
		list_init(&w->slots[i]);
}

static unsigned digit(uint64_t tick, unsigned level)
{
	return (unsigned)(tick >> (level * WHEEL_BITS)) & (WHEEL_SLOTS - 1);
}

/* The first tick that is not before the instant. */
static uint64_t tick_of(uint64_t at_ns)
{
	const uint64_t mask = (UINT64_C(1) << WHEEL_TICK_SHIFT) - 1;

	return (at_ns >> WHEEL_TICK_SHIFT) + !!(at_ns & mask);
}

static void put(struct wheel *w, struct timer *t)
{
	uint64_t tick = tick_of(t->at_ns);
	unsigned level = 0;

	if (tick < w->tick)
		tick = w->tick;
	/* The last slot of the last level before the wheel comes round. */
	if (tick - w->tick >= REACH - REACH / WHEEL_SLOTS)
		tick = w->tick + REACH - REACH / WHEEL_SLOTS - 1;
	while (level < WHEEL_LEVELS - 1 &&
	       tick >> ((level + 1) * WHEEL_BITS) !=
		   w->tick >> ((level + 1) * WHEEL_BITS))
		level++;
	t->slot = (uint16_t)(level * WHEEL_SLOTS + digit(tick, level));
	list_add_tail(&w->slots[t->slot], &t->link);
	w->is_used[level] |= UINT64_C(1) << digit(tick, level);
}

static void take(struct wheel *w, struct timer *t)
{
	list_del(&t->link);
	if (list_is_empty(&w->slots[t->slot]))
		w->is_used[t->slot / WHEEL_SLOTS] &=
		    ~(UINT64_C(1) << t->slot % WHEEL_SLOTS);
}

void wheel_arm(struct wheel *w, struct timer *t, uint64_t at_ns)
{
	assert(at_ns != WHEEL_NEVER);
	wheel_disarm(w, t);
	t->at_ns = at_ns;
	put(w, t);
	w->n_armed++;
}

void wheel_disarm(struct wheel *w, struct timer *t)
{
	if (!timer_is_armed(t))
		return;
	take(w, t);
	t->at_ns = WHEEL_NEVER;
	w->n_armed--;
}

/* The next tick at which a slot of some level comes up. */
static uint64_t next_tick(const struct wheel *w)
{
	uint64_t first = WHEEL_NEVER;

	for (unsigned l = 0; l < WHEEL_LEVELS; l++) {
		unsigned shift = l * WHEEL_BITS, at = digit(w->tick, l);
		uint64_t used = w->is_used[l];
		uint64_t base = w->tick >> shift;

		if (!used)
			continue;
		/* Rotated so that bit 0 is the slot where the wheel is. */
		used = at ? used >> at | used << (WHEEL_SLOTS - at) : used;
		uint64_t tick = (base + (unsigned)__builtin_ctzll(used))
				<< shift;
		tick = tick < w->tick ? w->tick : tick;
		first = tick < first ? tick : first;
	}
	return first;
}

uint64_t wheel_next(const struct wheel *w)
{
	uint64_t tick = next_tick(w);

	return tick == WHEEL_NEVER ? WHEEL_NEVER : tick << WHEEL_TICK_SHIFT;
}

/* What lies in the higher levels' slots of this tick goes down. */
static void cascade(struct wheel *w)
{
	for (unsigned l = WHEEL_LEVELS - 1; l > 0; l--) {
		unsigned slot = l * WHEEL_SLOTS + digit(w->tick, l);
		struct list due;

		list_init(&due);
		list_splice_tail(&due, &w->slots[slot]);
		w->is_used[l] &= ~(UINT64_C(1) << digit(w->tick, l));
		while (!list_is_empty(&due)) {
			struct timer *t = (struct timer *)due.next;

			list_del(&t->link);
			put(w, t);
		}
	}
}

const struct timer *wheel_soon(const struct wheel *w)
{
	const struct list *slot = &w->slots[digit(w->tick, 0)];

	return list_is_empty(slot) ? NULL : (const struct timer *)slot->next;
}

struct timer *wheel_expire(struct wheel *w, uint64_t now_ns)
{
	uint64_t now = now_ns >> WHEEL_TICK_SHIFT;

	for (;;) {
		uint64_t tick = next_tick(w);

		if (tick > now) {
			w->tick = now > w->tick ? now : w->tick;
			return NULL;
		}
		w->tick = tick;
		cascade(w);
		struct list *slot = &w->slots[digit(w->tick, 0)];
		if (list_is_empty(slot))
			continue;
		struct timer *t = (struct timer *)slot->next;
		wheel_disarm(w, t);
		return t;
	}
}
