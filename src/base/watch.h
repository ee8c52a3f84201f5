/* SPDX-License-Identifier: MIT */
/*
 * base/watch.h - a descriptor that is watched by whoever sleeps
 *
 *     src/ops  --watch_set()-->  watch  --watch_fd()-->   what a call sleeps on
 *                                       <--watch_run()--  when it is readable
 *
 * osf has no thread of its own.  So somebody who wants to hear of a descriptor while
 * the program only waits lends it to the calls that wait: they sleep on it beside what
 * the program asked for, and run what belongs to it when it is readable.  To the
 * program it looks as if nothing had happened.  There is one such descriptor, and in
 * most processes none.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/compiler.h"

struct watch {
	/* The descriptor, opened if need be; -1: none.  @number: another one for
	 * each descriptor that there has been, for they may have the same value. */
	int (*fd)(uint32_t *number);
	/* Takes all that is there, so that it is readable no more. */
	void (*run)(void);
};

extern const struct watch *watch;

/* NULL: nothing is watched any more. */
static inline void watch_set(const struct watch *w) { store_rel(&watch, w); }

static inline bool watch_is_on(void) { return unlikely(load_acq(&watch)); }

/* -1: nothing to watch.  Call it right before a sleep, not while holding a lock. */
static inline int watch_fd(uint32_t *number)
{
	const struct watch *w = load_acq(&watch);

	return likely(!w) ? -1 : w->fd(number);
}

static inline void watch_run(void)
{
	const struct watch *w = load_acq(&watch);

	if (w)
		w->run();
}
