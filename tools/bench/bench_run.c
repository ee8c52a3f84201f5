/* SPDX-License-Identifier: MIT */
/*
 * tools/osf/bench_run.c - one benchmark, all its rounds on all its sides
 *
 *     round 1: kernel, osf, UCX; round 2: ...  -> samples -> result_judge()
 *
 * A figure of the osf side counts only when the statistics of the processes
 * that took part show connections in shared memory: a benchmark that quietly
 * ran on the kernel is a failure, however good its figures.
 */
#include "osf.h"
#include "bench.h"
#include "bench_judge.h"
#include "bench_pair.h"
#include "seg.h"
#include <errno.h>
#include <string.h>

/* What is missing on this machine, or NULL. */
static const char *missing_program(const struct bench *b)
{
	if (b->program && !program_exists(b->program))
		return b->program;
	if (b->server && !program_exists(b->server))
		return b->server;
	return NULL;
}

static bool has_side(const struct bench *b, enum side side)
{
	return b->sides & 1u << side &&
	       (side != SIDE_UCX || program_exists("ucx_perftest"));
}

/* Were the connections of this run where they were to be measured? */
static int check_upgraded(struct bench_run *r, const struct bench *b,
			  struct result *res)
{
	size_t n_segs;
	struct seg_sums sums = seg_dir_sums(r->dir.path, &n_segs);
	uint64_t need = b->needs_no_upgrade    ? 0
			: b->needs_connections ? r->args->n_connections
					       : 1;

	res->n_connections += sums.t.n_connected + sums.t.n_accepted;
	res->n_upgraded += sums.t.n_upgraded;
	res->bytes_shm += sums.t.rx_bytes_shm;
	res->bytes_inet += sums.t.rx_bytes_inet;
	if (sums.t.n_upgraded >= need)
		return 0;
	if (n_segs == 0)
		return run_fail(r, -ENOTCONN, "no process ran under osf");
	return run_fail(
	    r, -ENOTCONN, "%llu ends of connections were upgraded, not %llu",
	    (unsigned long long)sums.t.n_upgraded, (unsigned long long)need);
}

/* One run of one side; what is to be said of a failure goes to res->why. */
static void run_once(const struct bench *b, const struct bench_args *args,
		     enum side side, struct result *res)
{
	struct bench_run r = { .args = args, .side = side };
	int err = side == SIDE_OSF ? scratch_open(&r.dir) : 0;

	if (err)
		run_fail(&r, err, "no temporary directory: %s", strerror(-err));
	else
		err = b->run(&r);
	if (!err && side == SIDE_OSF) {
		err = check_upgraded(&r, b, res);
		if (err)
			res->outcome = OUT_KERNEL;
	}
	scratch_close(&r.dir);

	if (!err || err == -ENOTCONN)
		res->sample[side][res->n_samples[side]++] = r.value;
	if (err && err != -ENOTCONN)
		res->outcome = OUT_FAILED;
	if (err)
		snprintf(res->why, sizeof(res->why), "%s: %.140s",
			 side_name(side), r.why);
}

void bench_run(const struct bench *b, const struct bench_args *args,
	       struct result *res)
{
	const char *missing = missing_program(b);

	*res = (struct result){ .bench = b, .outcome = OUT_OK };
	if (missing) {
		res->outcome = OUT_SKIPPED;
		snprintf(res->why, sizeof(res->why),
			 "no %s; install the package %s", missing, b->package);
		return;
	}
	if (b->sides & UCX && !has_side(b, SIDE_UCX))
		snprintf(res->why, sizeof(res->why),
			 "no ucx_perftest; install the package ucx-utils");

	for (unsigned i = 0; i < args->n_runs; i++)
		for (unsigned side = 0; side < SIDES; side++) {
			if (has_side(b, side))
				run_once(b, args, side, res);
			if (res->outcome == OUT_FAILED || proc_is_interrupted())
				return;
		}
	if (res->outcome == OUT_OK)
		result_judge(res);
}
