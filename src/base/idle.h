/* SPDX-License-Identifier: MIT */
/*
 * base/idle.h - a descriptor that every sleeping call also waits for
 *
 *     src/ops  --idle_set()-->  idle  --idle_fd()-->   what a call sleeps on
 *                                     <--idle_run()--  when it is readable
 *
 * osf has no thread of its own.  So somebody who wants to hear of a descriptor while
 * the program only waits lends it to the calls that wait: they sleep on it beside what
 * the program asked for, and run what belongs to it when it is readable.  To the
 * program it looks as if nothing had happened.  There is one such descriptor, and in
 * most processes none.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/compiler.h"

struct idle {
	/* The descriptor, opened if need be; -1: none.  @number: another one for
	 * each descriptor that there has been, for they may have the same value. */
	int (*fd)(uint32_t *number);
	/* Reads everything, so that the descriptor is no longer readable. */
	void (*run)(void);
	/* Whether it may be readable: one load, for threads that spin.  NULL: only poll()
	 * tells. */
	bool (*has_come)(void);
	/* The calling thread begins to wait for the descriptor, or would if it had to.  NULL:
	 * nobody wants to know. */
	void (*waits)(void);
	/* Has another thread waited for it lately?  NULL: unknown. */
	bool (*is_driven)(void);
	/* The calling thread wants to wait without it for a while.  Return: whether others
	 * wait for it, and will not all do the same. */
	bool (*leaves)(void);
};

extern const struct idle *idle;
extern const struct idle *idle_known; /* its descriptor is open */

/* NULL: there is no longer any. */
static inline void idle_set(const struct idle *w)
{
	store_rel(&idle_known, w);
	store_rel(&idle, w);
}

/* Nobody needs to sleep on @w at the moment.  Its descriptor stays open. */
static inline void idle_off(const struct idle *w)
{
	if (load_acq(&idle) == w)
		store_rel(&idle, (const struct idle *)NULL);
}

static inline bool idle_is_on(void) { return unlikely(load_acq(&idle)); }

/* Return: the descriptor to sleep on, or -1.  Call it right before a sleep, without a lock. */
static inline int idle_fd(uint32_t *number)
{
	const struct idle *w = load_acq(&idle);

	return likely(!w) ? -1 : w->fd(number);
}

/* Whether the number @fd still means that descriptor.  If not, it was closed, and may be
 * anybody's. */
static inline bool idle_is_at(int fd, uint32_t number)
{
	const struct idle *w = load_acq(&idle_known);
	uint32_t is;

	return w && w->fd(&is) == fd && is == number;
}

/* For a thread that spins before it sleeps: runs it, if that pays. */
static inline void idle_spin(void)
{
	const struct idle *w = load_acq(&idle);

	if (unlikely(w != NULL) && w->has_come && w->has_come())
		w->run();
}

static inline void idle_waits(void)
{
	const struct idle *w = load_acq(&idle);

	if (unlikely(w != NULL) && w->waits)
		w->waits();
}

static inline bool idle_is_driven(void)
{
	const struct idle *w = load_acq(&idle);

	return w && w->is_driven && w->is_driven();
}

static inline bool idle_leaves(void)
{
	const struct idle *w = load_acq(&idle);

	return w && w->leaves && w->leaves();
}

static inline void idle_run(void)
{
	const struct idle *w = load_acq(&idle);

	if (w)
		w->run();
}
