/* SPDX-License-Identifier: MIT */
/*
 * base/fork_lock.h - keeps fork() out of steps on which both processes must agree
 *
 *   a thread that makes a socket, or upgrades one:   fork_lock_enter() ... fork_lock_leave()
 *   the thread that forks:                           fork_lock_get() fork fork_lock_put()
 *
 * The child gets what is mapped and recorded at the moment of the fork.  Without this lock,
 * another thread could add a mapping to shared memory just then, and the parent alone would
 * have it.
 *
 * Any number of threads may be inside, and none waits for another one.  The thread that takes
 * the lock to fork waits for all of them except itself.  A signal handler waits until its
 * thread has left, as it waits while its thread holds a lock.  Otherwise other threads would
 * wait for the step that the handler interrupts.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/lock.h"

extern uint32_t fork_lock_inside;
extern uint32_t fork_lock_owner; /* thread id; 0: nobody forks */
extern __thread uint32_t fork_lock_depth
    __attribute__((tls_model("initial-exec")));

void fork_lock_wait(void);

static inline void fork_lock_enter(void)
{
	lock_enter();
	fork_lock_depth++;
	fetch_add(&fork_lock_inside, 1);
	if (__builtin_expect(load_seq(&fork_lock_owner) != 0, 0))
		fork_lock_wait();
}

static inline void fork_lock_leave(void);

/* For a thread that holds locks which the fork takes.  False: another thread forks, and
 * this one is not inside. */
static inline bool fork_lock_try(void)
{
	lock_enter();
	fork_lock_depth++;
	fetch_add(&fork_lock_inside, 1);
	uint32_t owner = load_seq(&fork_lock_owner);
	if (__builtin_expect(!owner, 1) || owner == lock_self() ||
	    fork_lock_depth > 1)
		return true;
	fork_lock_leave();
	return false;
}

static inline void fork_lock_leave(void)
{
	fetch_sub(&fork_lock_inside, 1);
	fork_lock_depth--;
	lock_leave();
}

void fork_lock_get(void);
void fork_lock_put(void);   /* in the parent */
void fork_lock_child(void); /* in the child */
/* Calls @fn in the child of every later fork, of whatever kind.  Thread-safe. */
void fork_lock_on_child(void (*fn)(void));

static inline void fork_lock_leave_cleanup(int *unused) { fork_lock_leave(); }

/* Stays inside to the end of the block. */
#define INSIDE_FORK_LOCK()                                                     \
	int inside_fork_lock                                                   \
	    __attribute__((cleanup(fork_lock_leave_cleanup), unused)) =        \
		(fork_lock_enter(), 0)
