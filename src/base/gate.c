/* SPDX-License-Identifier: MIT */
/* base/gate.c - see base/gate.h */
#include <sched.h>

#include "base/compiler.h"
#include "base/gate.h"

uint32_t gate_inside;
uint32_t gate_closer;
__thread uint32_t gate_depth __attribute__((tls_model("initial-exec")));

static struct lock lock; /* of the one who forks */

/* Waits until the gate is open, unless this thread is the one that forks. */
void gate_wait(void)
{
	uint32_t closer;

	while ((closer = load_seq(&gate_closer)) && closer != lock_self() &&
	       gate_depth == 1) {
		fetch_sub(&gate_inside, 1);
		while (load_acq(&gate_closer))
			sched_yield();
		fetch_add(&gate_inside, 1);
	}
}

void gate_close(void)
{
	lock_get(&lock);
	xchg(&gate_closer, lock_self()); /* Dekker with gate_enter() */
	while (load_seq(&gate_inside) != gate_depth)
		sched_yield();
}

void gate_open(void)
{
	store_rel(&gate_closer, 0u);
	lock_put(&lock);
}

static void (*on_child[8])(void);
static unsigned n_on_child;

void gate_on_child(void (*fn)(void))
{
	unsigned n = fetch_add(&n_on_child, 1);

	assert(n < ARRAY_LEN(on_child));
	on_child[n] = fn;
}

void gate_child(void)
{
	gate_inside = gate_depth;
	gate_open();
	/* Another thread of the parent may have been between these two steps. */
	for (unsigned n = 0; n < n_on_child; n++)
		if (on_child[n])
			on_child[n]();
}
