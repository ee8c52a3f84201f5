/* SPDX-License-Identifier: MIT */
/* ops/threads.c - see ops/threads.h */
#include <errno.h>
#include <pthread.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/compiler.h"
#include "base/env.h"
#include "base/lock.h"
#include "ops/ops.h"
#include "ops/threads.h"

/* The thread's own choice for its sockets; without one all_leave counts. */
enum { SAID_NOTHING, SAID_OFFLOAD, SAID_LEAVE };
static __thread uint8_t thread_said __attribute__((tls_model("initial-exec")));
static bool all_leave;

void threads_configure(void) { all_leave = env_other_leaves(); }

/* What other threads have asked for on behalf of a thread
 * (xlio_thread_offload()).  The thread reads its entry when it makes its next
 * socket. */
#define SAID_FOR_MAX 256
static struct {
	pthread_t tid;
	uint8_t say;
} said_for[SAID_FOR_MAX];
static uint32_t n_said_for;
static struct lock said_for_lock; /* both */

static COLD void take_over(void)
{
	GUARD(&said_for_lock);
	for (uint32_t i = 0; i < n_said_for; i++) {
		if (!pthread_equal(said_for[i].tid, pthread_self()))
			continue;
		thread_said = said_for[i].say;
		said_for[i] = said_for[n_said_for - 1];
		store_rel(&n_said_for, n_said_for - 1);
		return;
	}
}

/* What was said last counts. */
void ops_thread_offload(bool offload)
{
	if (unlikely(load_acq(&n_said_for)))
		take_over();
	thread_said = offload ? SAID_OFFLOAD : SAID_LEAVE;
}

int ops_thread_offload_of(pthread_t tid, bool offload)
{
	uint32_t i = 0;

	if (pthread_equal(tid, pthread_self()))
		return ops_thread_offload(offload), 0;
	GUARD(&said_for_lock);
	while (i < n_said_for && !pthread_equal(said_for[i].tid, tid))
		i++;
	if (i == SAID_FOR_MAX)
		return -ENOMEM;
	said_for[i].tid = tid;
	said_for[i].say = offload ? SAID_OFFLOAD : SAID_LEAVE;
	if (i == n_said_for)
		store_rel(&n_said_for, i + 1);
	return 0;
}

bool thread_leaves(void)
{
	if (unlikely(load_acq(&n_said_for)))
		take_over();
	return thread_said == SAID_NOTHING ? all_leave
					   : thread_said == SAID_LEAVE;
}
