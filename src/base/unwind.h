/* SPDX-License-Identifier: MIT */
/*
 * base/unwind.h - what a call has to give back when it is left by longjmp()
 *
 *     UNWIND(type, name) = { ... };      a struct whose first member is u
 *     unwind_push(&name.u, undo);
 *
 * A handler may jump out of the call that it interrupted; a cancelled thread leaves
 * it by its clean-ups.  Either way @undo runs once, as it does at the end of the
 * block.  Each thread has a list, the innermost first.
 *
 * Handlers run nowhere near our locks (base/lock.h), so @undo may take them.
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
	/* A handler sees it whole or not at all. */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	unwind_top = u;
}

static inline void unwind_pop(struct unwind *u)
{
	if (u->undo) {
		unwind_top = u->outer;
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
		u->undo(u);
	}
}

/* The clean-up of a struct that begins with a struct unwind. */
static inline void unwind_end(void *p) { unwind_pop(p); }

#define UNWIND(type, name) type name __attribute__((cleanup(unwind_end)))

/* The thread goes on in a frame whose stack pointer is @sp: all that lie below it
 * are gone. */
void unwind_to(uintptr_t sp);
