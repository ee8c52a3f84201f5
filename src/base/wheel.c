/* SPDX-License-Identifier: MIT */
/*
 * base/wheel.c - the timer wheel; see wheel.h
 *
 * A timer lies on the lowest level on which its tick and the wheel's tick have all
 * higher digits (base 64) in common.  When the wheel reaches a slot of a higher level,
 * the slot's timers move down at least one level.  So each timer moves at most three
 * times.
 */
#include "base/wheel.h"

#include <assert.h>
#include <stddef.h>

#define REACH (UINT64_C(1) << (WHEEL_BITS * WHEEL_LEVELS))

void wheel_init(struct wheel *w, uint64_t now_ns)
{
	*w = (struct wheel){ .tick = now_ns >> WHEEL_TICK_SHIFT };
	for (unsigned i = 0; i < WHEEL_LEVELS * WHEEL_SLOTS; i++)
		for (unsigned lane = 0; lane < WHEEL_LANES; lane++)
			list_init(&w->slots[i][lane]);
}

static unsigned digit(uint64_t tick, unsigned level)
{
	return (unsigned)(tick >> (level * WHEEL_BITS)) & (WHEEL_SLOTS - 1);
}

/* The first tick at or after @at_ns. */
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
	/* The last slot of the last level that the wheel reaches. */
	if (tick - w->tick >= REACH - REACH / WHEEL_SLOTS)
		tick = w->tick + REACH - REACH / WHEEL_SLOTS - 1;
	while (level < WHEEL_LEVELS - 1 &&
	       tick >> ((level + 1) * WHEEL_BITS) !=
		   w->tick >> ((level + 1) * WHEEL_BITS))
		level++;
	t->slot = (uint16_t)(level * WHEEL_SLOTS + digit(tick, level));
	list_add_tail(&w->slots[t->slot][w->put_lane++ % WHEEL_LANES],
		      &t->link);
	w->is_used[level] |= UINT64_C(1) << digit(tick, level);
}

static bool is_slot_empty(const struct list *lanes)
{
	for (unsigned i = 0; i < WHEEL_LANES; i++)
		if (!list_is_empty(&lanes[i]))
			return false;
	return true;
}

static void take(struct wheel *w, struct timer *t)
{
	bool is_last = t->link.next == t->link.prev; /* of its lane */

	list_del(&t->link);
	if (is_last && is_slot_empty(w->slots[t->slot]))
		w->is_used[t->slot / WHEEL_SLOTS] &=
		    ~(UINT64_C(1) << t->slot % WHEEL_SLOTS);
}

/* @at_ns: earlier than the time for which the timer is queued */
void wheel_move(struct wheel *w, struct timer *t, uint64_t at_ns)
{
	assert(at_ns < t->at_ns);
	if (timer_is_lying(t))
		take(w, t);
	else
		w->n_lying++;
	t->at_ns = at_ns;
	put(w, t);
}

void wheel_disarm(struct wheel *w, struct timer *t)
{
	if (timer_is_lying(t)) {
		take(w, t);
		w->n_lying--;
	}
	t->at_ns = t->due_ns = WHEEL_NEVER;
}

/* Puts a timer that was taken out into the slot where the wheel must look at it next, if
 * any. */
static void put_again(struct wheel *w, struct timer *t)
{
	uint64_t early_ns = (uint64_t)t->early << WHEEL_TICK_SHIFT;

	t->at_ns = t->due_ns;
	if (!timer_is_lying(t)) {
		w->n_lying--;
		return;
	}
	if (tick_of(t->due_ns - early_ns) > w->tick)
		t->at_ns -= early_ns;
	put(w, t);
}

/* The next tick at which the wheel reaches a slot of some level. */
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

/* Moves all timers of a slot down.  While one moves, the next ones are fetched. */
static void slot_down(struct wheel *w, struct list *lanes)
{
	struct list due[WHEEL_LANES];
	unsigned n_left = WHEEL_LANES;

	for (unsigned i = 0; i < WHEEL_LANES; i++) {
		list_init(&due[i]);
		list_splice_tail(&due[i], &lanes[i]);
		__builtin_prefetch(due[i].next, 1);
	}
	for (unsigned i = 0; n_left; i = (i + 1) % WHEEL_LANES) {
		struct timer *t = (struct timer *)due[i].next;

		n_left = list_is_empty(&due[i]) ? n_left - 1 : WHEEL_LANES;
		if (list_is_empty(&due[i]))
			continue;
		list_del(&t->link);
		__builtin_prefetch(due[i].next, 1);
		put_again(w, t);
	}
}

/* Moves the timers down that lie in this tick's slots of the higher levels. */
static void cascade(struct wheel *w)
{
	for (unsigned l = WHEEL_LEVELS - 1; l > 0; l--) {
		unsigned at = digit(w->tick, l);

		if (!(w->is_used[l] >> at & 1))
			continue;
		w->is_used[l] &= ~(UINT64_C(1) << at);
		slot_down(w, w->slots[l * WHEEL_SLOTS + at]);
	}
}

const struct timer *wheel_soon(const struct wheel *w) { return w->soon; }

/* The next timer of a slot that is not empty, taken from each of its lists in
 * rotation. */
static struct timer *slot_take(struct wheel *w, struct list *lanes)
{
	while (list_is_empty(&lanes[w->take_lane % WHEEL_LANES]))
		w->take_lane++;
	struct list *lane = &lanes[w->take_lane++ % WHEEL_LANES];
	struct timer *t = (struct timer *)lane->next;

	take(w, t);
	w->soon = list_is_empty(lane) ? NULL : (struct timer *)lane->next;
	__builtin_prefetch(w->soon, 1);
	return t;
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
		unsigned at = digit(w->tick, 0);
		if (!(w->is_used[0] >> at & 1))
			continue;
		struct timer *t = slot_take(w, w->slots[at]);
		if (tick_of(t->due_ns) > tick) {
			put_again(w, t);
			continue;
		}
		w->n_lying--;
		t->at_ns = t->due_ns = WHEEL_NEVER;
		return t;
	}
}
