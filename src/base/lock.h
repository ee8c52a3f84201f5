/* SPDX-License-Identifier: MIT */
/*
 * base/lock.h - a four-byte mutex for threads and for processes that share memory
 *
 * The word holds the owner's thread id, so a waiter in another process can see that the
 * owner has died, and take the lock.  No thread sleeps in the kernel for a socket while
 * it holds a lock: it copies bytes and releases it.
 *
 * A signal handler may want a lock that its own thread holds.  So handlers run only
 * while their thread holds none: preload/signals.c defers the signal, and the release
 * of the last lock delivers it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include "base/atomic.h"

struct lock {
	uint32_t word; /* 0 free, else owner's tid, top bit: somebody waits */
};

#define LOCK_WAITERS 0x80000000u

/* The locks of a thread. */
struct lock_held {
	uint32_t depth;      /* locks held, elided ones too */
	uint32_t is_put_off; /* a signal waits for depth 0 */
	uint64_t mask;       /* signals: blocked again at depth 0 */
	uint32_t n_handled;  /* handlers that have run */
	uint32_t n_ends;     /* of them, those without SA_RESTART */
};

extern __thread struct lock_held lock_held
    __attribute__((tls_model("initial-exec")));

void lock_signals_come(void);

static inline void lock_enter(void)
{
	lock_held.depth++;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

static inline void lock_leave(void)
{
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (__builtin_expect(!--lock_held.depth && lock_held.is_put_off, 0))
		lock_signals_come();
}

extern __thread uint32_t lock_tid; /* this thread's id, 0 before first use */

uint32_t lock_tid_load(void);
void lock_slow(struct lock *l);
void lock_wake(struct lock *l);
void lock_after_fork(void);

/* A call that is about to sleep compares: a handler that ran just before must end the
 * call as one that runs during the sleep does. */
struct handlers_seen {
	uint32_t n_handled, n_ends;
};

static inline struct handlers_seen handlers_seen(void)
{
	return (struct handlers_seen){ lock_held.n_handled, lock_held.n_ends };
}

/* @restarts: ignore handlers with SA_RESTART. */
static inline bool handlers_ran(struct handlers_seen seen, bool restarts)
{
	return restarts ? seen.n_ends != lock_held.n_ends
			: seen.n_handled != lock_held.n_handled;
}

static inline uint32_t lock_self(void)
{
	return lock_tid ? lock_tid : lock_tid_load();
}

static inline bool lock_try(struct lock *l)
{
	lock_enter();
	if (cas(&l->word, 0u, lock_self()))
		return true;
	lock_leave();
	return false;
}

static inline void lock_get(struct lock *l)
{
	lock_enter();
	if (__builtin_expect(!cas(&l->word, 0u, lock_self()), 0))
		lock_slow(l);
}

static inline void lock_put(struct lock *l)
{
	if (__builtin_expect(xchg(&l->word, 0u) & LOCK_WAITERS, 0))
		lock_wake(l);
	lock_leave();
}

static inline bool lock_is_mine(const struct lock *l)
{
	return (load_rlx(&l->word) & ~LOCK_WAITERS) == lock_self();
}

/* In the child of a fork: a thread of the parent may have @l.  A lock that is free is not
 * written: the kernel would copy its page. */
static inline void lock_inherit(struct lock *l)
{
	if (__builtin_expect(l->word != 0, 0))
		l->word = 0;
}

static inline void lock_put_cleanup(struct lock **l) { lock_put(*l); }

/* Holds @l to the end of the block. */
#define GUARD(l) GUARD_(l, __LINE__)
#define GUARD_(l, line) GUARD__(l, line)
#define GUARD__(l, line)                                                       \
	struct lock *guard_##line                                              \
	    __attribute__((cleanup(lock_put_cleanup), unused)) =               \
		(lock_get(l), (l))
