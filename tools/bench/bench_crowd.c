/* SPDX-License-Identifier: MIT */
/*
 * tools/bench/bench_crowd.c - benchmarks beside programs that keep the cores busy
 *
 *     a busy loop on each of the two cores -> the benchmark -> the loops end
 *
 * A thread that spins on a core takes time from the thread that it waits for.
 * The busy loops never run under osf, and start before the server.
 */
#include "osf.h"
#include "bench_pair.h"
#include "bench_runs.h"
#include <string.h>

#define LOOPS 2

static int start_loop(struct bench_run *r, struct proc *p, unsigned i)
{
	struct proc_spec spec = {
		.argv = (const char *const[]){ r->args->self, "bench-peer",
					       "busy", NULL },
		.env = (const char *const[]){ "LD_PRELOAD", NULL },
		.cpus = &r->args->cpus[i],
		.n_cpus = r->args->n_cpus ? 1 : 0,
	};
	int err = proc_start(p, &spec);

	return err ? run_fail(r, err, "a busy loop: %s", strerror(-err)) : 0;
}

static int beside_loops(struct bench_run *r, int (*run)(struct bench_run *r))
{
	struct proc loops[LOOPS] = { PROC_NONE, PROC_NONE };
	int err = 0;

	for (unsigned i = 0; i < LOOPS && !err; i++)
		err = start_loop(r, &loops[i], i);
	if (!err)
		err = run(r);
	for (unsigned i = 0; i < LOOPS; i++)
		proc_stop(&loops[i]);
	return err;
}

int bench_nginx_crowd(struct bench_run *r)
{
	return beside_loops(r, bench_nginx);
}
