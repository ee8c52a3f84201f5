/* SPDX-License-Identifier: MIT */
/*
 * base/gate.h - keeps fork() out of steps on which both processes must agree
 *
 *   a thread that makes a socket, or upgrades one:   gate_enter() ... gate_leave()
 *   the thread that forks:                           gate_close() fork gate_open()
 *
 * The child gets what is mapped and recorded at the moment of the fork.
 * Without the gate, another thread could add a mapping to shared memory just
 * then, and the parent alone would have it.
 *
 * A signal handler waits until its thread has left the gate, as it waits while
 * its thread holds a lock.  Otherwise other threads would wait for the step
 * that the handler interrupts.  Threads inside the gate never wait for each
 * other.  The thread that closes the gate waits for all of them except itself.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/lock.h"

extern uint32_t gate_inside;
extern uint32_t gate_closer; /* thread id; 0: open */
extern __thread uint32_t gate_depth __attribute__((tls_model("initial-exec")));

void gate_wait(void);

static inline void gate_enter(void)
{
	lock_enter();
	gate_depth++;
	fetch_add(&gate_inside, 1);
	if (__builtin_expect(load_seq(&gate_closer) != 0, 0))
		gate_wait();
}

static inline void gate_leave(void);

/* For a thread that holds locks which the fork takes.  False: another thread forks, and
 * this one is not inside. */
static inline bool gate_try(void)
{
	lock_enter();
	gate_depth++;
	fetch_add(&gate_inside, 1);
	uint32_t closer = load_seq(&gate_closer);
	if (__builtin_expect(!closer, 1) || closer == lock_self() ||
	    gate_depth > 1)
		return true;
	gate_leave();
	return false;
}

static inline void gate_leave(void)
{
	fetch_sub(&gate_inside, 1);
	gate_depth--;
	lock_leave();
}

void gate_close(void);
void gate_open(void);  /* in the parent */
void gate_child(void); /* in the child */
/* Calls @fn in the child of every later fork, of whatever kind.  Thread-safe. */
void gate_on_child(void (*fn)(void));

static inline void gate_leave_cleanup(int *unused) { gate_leave(); }

/* Stays inside to the end of the block. */
#define INSIDE_GATE()                                                          \
	int inside_gate __attribute__((cleanup(gate_leave_cleanup), unused)) = \
	    (gate_enter(), 0)
