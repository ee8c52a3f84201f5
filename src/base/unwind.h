/* SPDX-License-Identifier: MIT */
/*
 * base/unwind.h - undoes what a call has taken when longjmp() leaves it
 *
 *     UNWIND(type, name) = { ... };      a struct whose first member is u
 *     unwind_push(&name.u, undo);
 *
 * A signal handler may jump out of the call that it has interrupted, and a cancelled
 * thread leaves the call through its clean-ups.  In each case, and at the end of the
 * block, @undo runs once.  Each thread has a list, the innermost entry first.
 *
 * Handlers never run while their thread holds a lock (base/lock.h), so @undo may take
 * locks.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct unwind {
	struct unwind *outer;
	void (*undo)(struct unwind *u);
};

extern __thread struct unwind *unwind_top
    __attribute__((tls_model("initial-exec")));

static inline void unwind_push(struct unwind *u, void (*undo)(struct unwind *u))
{
	u->undo = undo;
	u->outer = unwind_top;
	/* A signal handler sees the whole entry or nothing of it. */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	unwind_top = u;
}

/* An entry that was never pushed has no undo. */
static inline void unwind_pop(struct unwind *u)
{
	void (*undo)(struct unwind * u) = u->undo;

	/* The compiler must assume that the function called with @u has cleared
	 * @undo.  In every case the list must not lead to a frame that is
	 * gone. */
	if (undo || unwind_top == u)
		unwind_top = u->outer;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (undo)
		undo(u);
}

/* The clean-up of a struct that begins with a struct unwind. */
static inline void unwind_end(void *p) { unwind_pop(p); }

#define UNWIND(type, name) type name __attribute__((cleanup(unwind_end)))

/* The thread goes on in a frame whose stack pointer is @sp: all frames below it are
 * gone. */
void unwind_to(uintptr_t sp);
