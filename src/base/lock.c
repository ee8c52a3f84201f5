/* SPDX-License-Identifier: MIT */
/* base/lock.c - the slow half of base/lock.h: waiting, waking, dead owners */
#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <time.h>

#include "base/lock.h"
#include "base/rawcall.h"

__thread uint32_t lock_tid __attribute__((tls_model("initial-exec")));

__thread struct lock_held lock_held __attribute__((tls_model("initial-exec")));

/* Unblocks the signals that were deferred. */
void lock_signals_come(void)
{
	uint64_t mask = lock_held.mask;

	lock_held.is_put_off = 0;
	rawcall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, NULL, sizeof(mask));
}

uint32_t lock_tid_load(void)
{
	lock_tid = (uint32_t)rawcall(SYS_gettid);
	return lock_tid;
}

/* The only thread of a forked child has a new id. */
void lock_after_fork(void) { lock_tid = 0; }

static bool owner_is_dead(uint32_t tid)
{
	return rawcall(SYS_tkill, tid, 0) == -ESRCH;
}

/*
 * Spins shortly, then sleeps on the word.  After 20 ms without a wake-up it asks
 * whether the owner is alive: only a dead owner keeps a lock that long.
 */
void lock_slow(struct lock *l)
{
	uint32_t self = lock_self();

	for (int i = 0; i < 200; i++) {
		if (!load_rlx(&l->word) && cas(&l->word, 0u, self))
			return;
		cpu_relax();
	}
	for (;;) {
		uint32_t word = load_rlx(&l->word);

		if (!word) {
			/* Other threads may be waiting as well, so wake one when done. */
			if (cas(&l->word, 0u, self | LOCK_WAITERS))
				break;
			continue;
		}
		if (!(word & LOCK_WAITERS) &&
		    !cas(&l->word, word, word | LOCK_WAITERS))
			continue;
		struct timespec ts = { .tv_nsec = 20 * 1000 * 1000 };
		if (rawcall(SYS_futex, &l->word, FUTEX_WAIT,
			    word | LOCK_WAITERS, &ts, NULL, 0) == -ETIMEDOUT &&
		    owner_is_dead(word & ~LOCK_WAITERS) &&
		    cas(&l->word, word | LOCK_WAITERS, self | LOCK_WAITERS))
			break;
	}
}

void lock_wake(struct lock *l)
{
	rawcall(SYS_futex, &l->word, FUTEX_WAKE, 1, NULL, NULL, 0);
}
