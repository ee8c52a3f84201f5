/* SPDX-License-Identifier: MIT */
/*
 * tools/bench/bench_run.c - one benchmark, all its rounds on all its sides
 *
 *     round 1: kernel, osf, older osf, UCX; round 2: UCX, older osf, osf, kernel; ...
 *           -> samples
 *           -> result_judge()
 *
 * The sides change places from round to round, because on a machine that gets slower meanwhile
 * whoever goes first looks better.
 *
 * A figure of the osf side counts only when the statistics of the processes
 * that took part show connections in shared memory: a benchmark that quietly
 * ran on the kernel is a failure, however good its figures.  The older build may
 * fail, or write no statistics: the result then says so, and does not count as failed.
 */
#include "osf.h"
#include "bench.h"
#include "bench_judge.h"
#include "bench_pair.h"
#include "run.h"
#include "seg.h"
#include "wire.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define N_REASONS 64 /* of struct osf_stats_totals */

static const char *missing_program(const struct bench *b)
{
	if (b->program && !program_exists(b->program))
		return b->program;
	if (b->server && !program_exists(b->server))
		return b->server;
	return NULL;
}

/* What is missing on this machine, written to @why; false: nothing. */
static bool is_something_missing(const struct bench *b,
				 const struct bench_args *args, char *why)
{
	const char *missing = missing_program(b);

	if (missing) {
		snprintf(why, WHY_MAX, "no %s; install the package %s", missing,
			 b->package);
		return true;
	}
	if (b->needs_verbs && !env_has_verbs(args->lib)) {
		snprintf(why, WHY_MAX,
			 "no libosf-verbs.so beside libosf.so: it was built "
			 "without the package libibverbs-dev");
		return true;
	}
	return false;
}

static bool has_side(const struct bench *b, const struct bench_args *args,
		     enum side side)
{
	if (side == SIDE_AGAINST)
		return args->against && b->sides & OSF && !b->has_no_lib;
	return b->sides & 1u << side &&
	       (side != SIDE_UCX || program_exists("ucx_perftest"));
}

/* Why nothing is known of the connections: no process wrote a statistics file,
 * or the segments are of a version that we do not read. */
static int say_no_segment(struct bench_run *r)
{
	struct seg_list list = { .is_quiet = true };

	(void)seg_list_dir(&list, r->dir.path);
	bool is_strange = list.n_bad;
	seg_list_free(&list);
	if (is_strange)
		return run_fail(r, -ENOTCONN,
				"its statistics have another version, "
				"so what it offloaded is not known");
	return run_fail(r, -ENOTCONN, "no process ran under osf");
}

/* Were the connections of this run where they were to be measured? */
static int check_upgraded(struct bench_run *r, const struct bench *b,
			  struct result *res)
{
	size_t n_segs;
	struct seg_sums sums = seg_dir_sums(r->dir.path, &n_segs);
	uint64_t need = b->needs_no_upgrade    ? 0
			: b->needs_connections ? 2ull * r->args->n_connections
					       : 1;

	if (r->side == SIDE_OSF) {
		res->n_connections += sums.t.n_connected + sums.t.n_accepted;
		res->n_upgraded += sums.t.n_upgraded;
		res->bytes_shm += sums.t.rx_bytes_shm;
		res->bytes_inet += sums.t.rx_bytes_inet;
		res->n_back += sums.t.n_fallbacks;
		for (unsigned i = 0; i < N_REASONS; i++)
			res->n_reason[i] += sums.t.n_reason[i];
	}
	if (n_segs == 0 && (need || r->side == SIDE_AGAINST))
		return say_no_segment(r);
	if (sums.t.n_upgraded >= need)
		return 0;
	return run_fail(
	    r, -ENOTCONN, "%llu ends of connections were upgraded, not %llu",
	    (unsigned long long)sums.t.n_upgraded, (unsigned long long)need);
}

/* What a failure of one side means for the whole. */
static void note_failure(struct result *res, const struct bench_run *r, int err)
{
	bool has_figure = err == -ENOTCONN;

	snprintf(res->why, sizeof(res->why), "%s: %.140s", side_name(r->side),
		 r->why);
	if (r->side == SIDE_AGAINST)
		res->lost_against = !has_figure;
	else
		res->outcome = has_figure ? OUT_KERNEL : OUT_FAILED;
}

/* One run of one side; what is to be said of a failure goes to res->why. */
static void run_once(const struct bench *b, const struct bench_args *args,
		     struct wire *world, enum side side, struct result *res)
{
	bool is_osf = side == SIDE_OSF || side == SIDE_AGAINST;
	struct bench_run r = { .args = args,
			       .side = side,
			       .cores = b->cores,
			       .wire = b->wire,
			       .needs_verbs = b->needs_verbs,
			       .moves_each = b->needs_connections,
			       .warms_up = b->warms_up,
			       .world = world };
	int err = is_osf ? scratch_open(&r.dir) : 0;

	if (err)
		run_fail(&r, err, "no temporary directory: %s", strerror(-err));
	else if (world && is_osf && b->wire != WIRE_PLAIN)
		err = wire_ports_add(world, args->self, r.why);
	if (!err)
		err = b->run(&r);
	if (world && is_osf)
		wire_ports_del(world);
	if (!err && is_osf)
		err = check_upgraded(&r, b, res);
	scratch_close(&r.dir);
	free(r.first_text);
	res->first[side] += r.first;

	if (!err || err == -ENOTCONN)
		res->sample[side][res->n_samples[side]++] = r.value;
	if (err)
		note_failure(res, &r, err);
}

/* Notes what the policy has decided, and what it has cost to find that out.  An end of a
 * connection that has never moved and may still move counts as young. */
static void note_ends(struct result *res)
{
	int n = snprintf(
	    res->why, WHY_MAX,
	    "%llu ends, %llu moves, %llu back; the load before: %.2fx; last",
	    (unsigned long long)res->n_connections,
	    (unsigned long long)res->n_upgraded,
	    (unsigned long long)res->n_back,
	    res->first[SIDE_OSF] / res->first[SIDE_KERNEL]);

	for (unsigned i = 0; i < N_REASONS && n < WHY_MAX; i++)
		if (res->n_reason[i])
			n += snprintf(res->why + n, (size_t)(WHY_MAX - n),
				      " %s %llu", seg_reason_name(i),
				      (unsigned long long)res->n_reason[i]);
}

/* False: there is no use in going on. */
static bool run_round(const struct bench *b, const struct bench_args *args,
		      struct wire *world, unsigned round, struct result *res)
{
	static const enum side orders[2][SIDES] = {
		{ SIDE_KERNEL, SIDE_OSF, SIDE_AGAINST, SIDE_UCX },
		{ SIDE_UCX, SIDE_AGAINST, SIDE_OSF, SIDE_KERNEL },
	};

	for (unsigned i = 0; i < SIDES; i++) {
		enum side side = orders[round % 2][i];

		if (side == SIDE_AGAINST && res->lost_against)
			continue;
		if (has_side(b, args, side))
			run_once(b, args, world, side, res);
		if (res->outcome == OUT_FAILED || proc_is_interrupted())
			return false;
	}
	return true;
}

void bench_run(const struct bench *b, const struct bench_args *args,
	       struct result *res)
{
	*res = (struct result){ .bench = b, .outcome = OUT_OK };
	if (is_something_missing(b, args, res->why)) {
		res->outcome = OUT_SKIPPED;
		return;
	}
	if (b->sides & UCX && !has_side(b, args, SIDE_UCX))
		snprintf(res->why, sizeof(res->why),
			 "no ucx_perftest; install the package ucx-utils");

	struct wire world = WIRE_CLOSED;
	int err =
	    b->wire ? wire_open(&world, b->wire != WIRE_PLAIN, res->why) : 0;
	if (err) {
		res->outcome =
		    err == -EPERM || err == -ENOENT ? OUT_SKIPPED : OUT_FAILED;
		return;
	}
	bool goes_on = true;
	for (unsigned i = 0; goes_on && i < args->n_runs; i++)
		goes_on = run_round(b, args, b->wire ? &world : NULL, i, res);
	wire_close(&world);
	if (goes_on && res->outcome == OUT_OK)
		result_judge(res);
	else if (res->outcome == OUT_OK)
		res->outcome = OUT_UNJUDGED; /* interrupted */
	if (goes_on && b->warms_up && !*res->why)
		note_ends(res);
}
