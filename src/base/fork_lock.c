/* SPDX-License-Identifier: MIT */
/* base/fork_lock.c - see base/fork_lock.h */
#include <sched.h>

#include "base/compiler.h"
#include "base/fork_lock.h"

uint32_t fork_lock_inside;
uint32_t fork_lock_owner;
__thread uint32_t fork_lock_depth __attribute__((tls_model("initial-exec")));

static struct lock lock; /* of the one who forks */

/* Waits until nobody forks, unless this thread is the one that forks. */
void fork_lock_wait(void)
{
	uint32_t owner;

	while ((owner = load_seq(&fork_lock_owner)) && owner != lock_self() &&
	       fork_lock_depth == 1) {
		fetch_sub(&fork_lock_inside, 1);
		while (load_acq(&fork_lock_owner))
			sched_yield();
		fetch_add(&fork_lock_inside, 1);
	}
}

void fork_lock_get(void)
{
	lock_get(&lock);
	xchg(&fork_lock_owner, lock_self()); /* Dekker with fork_lock_enter() */
	while (load_seq(&fork_lock_inside) != fork_lock_depth)
		sched_yield();
}

void fork_lock_put(void)
{
	store_rel(&fork_lock_owner, 0u);
	lock_put(&lock);
}

static void (*on_child[8])(void);
static unsigned n_on_child;

void fork_lock_on_child(void (*fn)(void))
{
	unsigned n = fetch_add(&n_on_child, 1);

	assert(n < ARRAY_LEN(on_child));
	on_child[n] = fn;
}

void fork_lock_child(void)
{
	fork_lock_inside = fork_lock_depth;
	fork_lock_put();
	/* Another thread of the parent may have been between these two steps. */
	for (unsigned n = 0; n < n_on_child; n++)
		if (on_child[n])
			on_child[n]();
}
