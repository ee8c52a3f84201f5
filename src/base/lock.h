/* SPDX-License-Identifier: MIT */
/*
 * base/lock.h - a four-byte mutex for threads and for processes that share memory
 *
 * The word holds the owner's thread id, so that a waiter in another process can
 * see that the owner has died and take the lock over.  Nobody sleeps in the
 * kernel on behalf of a socket while holding one: holders copy bytes and go.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include "base/atomic.h"

struct lock {
	uint32_t word; /* 0 free, else owner's tid, top bit: somebody waits */
};

#define LOCK_WAITERS 0x80000000u

extern __thread uint32_t lock_tid; /* this thread's id, 0 before first use */

uint32_t lock_tid_load(void);
void lock_slow(struct lock *l);
void lock_wake(struct lock *l);
void lock_after_fork(void);

static inline uint32_t lock_self(void)
{
	return lock_tid ? lock_tid : lock_tid_load();
}

static inline bool lock_try(struct lock *l)
{
	return cas(&l->word, 0u, lock_self());
}

static inline void lock_get(struct lock *l)
{
	if (__builtin_expect(!lock_try(l), 0))
		lock_slow(l);
}

static inline void lock_put(struct lock *l)
{
	if (__builtin_expect(xchg(&l->word, 0u) & LOCK_WAITERS, 0))
		lock_wake(l);
}

static inline void lock_put_cleanup(struct lock **l) { lock_put(*l); }

/* Hold @l to the end of the block. */
#define GUARD(l) GUARD_(l, __LINE__)
#define GUARD_(l, line) GUARD__(l, line)
#define GUARD__(l, line)                                                       \
	struct lock *guard_##line                                              \
	    __attribute__((cleanup(lock_put_cleanup), unused)) =               \
		(lock_get(l), (l))
