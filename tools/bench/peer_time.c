/* SPDX-License-Identifier: MIT */
/*
 * tools/bench/peer_time.c - times of single messages, and their median
 *
 * A message of 200 ns must not be measured with a clock of 25: where the CPU
 * has a counter that programs may read, that is the clock, and its rate is
 * measured against CLOCK_MONOTONIC.  Elsewhere CLOCK_MONOTONIC itself is.
 */
#include "osf.h"
#include "peer.h"
#include <stdlib.h>

#define RATE_NS 20000000ull /* long enough for a rate good to 1e-5 */

#if defined(__x86_64__)
uint64_t tick_now(void) { return __builtin_ia32_rdtsc(); }
#elif defined(__aarch64__)
uint64_t tick_now(void)
{
	uint64_t t;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(t));
	return t;
}
#else
uint64_t tick_now(void) { return now_ns(); }
#endif

double tick_ns(void)
{
	uint64_t from_ns = now_ns(), from = tick_now(), to_ns;

	do
		to_ns = now_ns();
	while (to_ns - from_ns < RATE_NS);
	return (double)(to_ns - from_ns) / (double)(tick_now() - from);
}

void times_init(struct times *t)
{
	t->ticks = xcalloc(TIMES_MAX, sizeof(*t->ticks));
	t->n = 0;
}

void times_add(struct times *t, uint64_t ticks)
{
	if (t->n < TIMES_MAX)
		t->ticks[t->n++] =
		    ticks < UINT32_MAX ? (uint32_t)ticks : UINT32_MAX;
}

static int compare_ticks(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

double times_median_ns(struct times *t)
{
	if (t->n == 0)
		return 0;
	qsort(t->ticks, t->n, sizeof(*t->ticks), compare_ticks);
	return t->ticks[t->n / 2] * tick_ns();
}

void times_fini(struct times *t)
{
	free(t->ticks);
	t->ticks = NULL;
	t->n = 0;
}
