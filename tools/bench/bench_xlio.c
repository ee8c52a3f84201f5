/* SPDX-License-Identifier: MIT */
/*
 * tools/bench/bench_xlio.c - benchmarks of the XLIO API
 *
 *     xlio-echo <- xlio-pingpong, ...   and the same by plain calls, in one run
 *
 * Where the bar is a ratio of two ways to do the same under osf, both are measured
 * in one run, one after the other, and the figure is the ratio.
 */
#include "osf.h"
#include "bench_pair.h"
#include "bench_runs.h"
#include <errno.h>
#include <stdlib.h>

/* The same with the figure as @value. */
static int pair(struct bench_run *r, const char *server, const char *client,
		const char *arg1, const char *arg2, const char *key,
		double *value)
{
	int err = run_peers(r, server, client, arg1, arg2, key);

	*value = r->value;
	return err;
}

static const char *seconds(const struct bench_run *r, char *text, size_t size)
{
	snprintf(text, size, "%g", r->args->seconds);
	return text;
}

int bench_xlio_pingpong(struct bench_run *r)
{
	char s[24];

	if (r->side == SIDE_UCX)
		return bench_pingpong(r);
	return pair(r, "xlio-echo", "xlio-pingpong", seconds(r, s, sizeof(s)),
		    NULL, "one_way_us ", &r->value);
}

/* @a over @b, each a pair. */
static int ratio(struct bench_run *r, const char *const a[2],
		 const char *const b[2], const char *key)
{
	double one, other;
	char s[24];

	seconds(r, s, sizeof(s));
	int err = pair(r, a[0], a[1], s, NULL, key, &one);
	if (!err)
		err = pair(r, b[0], b[1], s, NULL, key, &other);
	if (!err)
		r->value = other > 0 ? one / other : 0;
	return err;
}

int bench_xlio_pingpong_ratio(struct bench_run *r)
{
	return ratio(r, (const char *const[]){ "xlio-echo", "xlio-pingpong" },
		     (const char *const[]){ "echo", "pingpong" },
		     "one_way_us ");
}

int bench_xlio_stream(struct bench_run *r)
{
	return ratio(r, (const char *const[]){ "xlio-sink", "xlio-flood" },
		     (const char *const[]){ "plain-sink", "plain-flood" },
		     "gbit ");
}

int bench_xlio_serve(struct bench_run *r)
{
	struct port_text port;
	char s[24];

	if (run_port(r, &port) < 0)
		return -EADDRINUSE;
	return run_alone(r,
			 r->side == SIDE_KERNEL ? "epoll-serve" : "xlio-serve",
			 port.s, "100", seconds(r, s, sizeof(s)), "rate ");
}

int bench_xlio_idle(struct bench_run *r)
{
	char n[16];

	snprintf(n, sizeof(n), "%u", r->args->n_connections);
	return run_alone(r, "xlio-idle", n, NULL, NULL, "ns ");
}

int bench_xlio_memory(struct bench_run *r)
{
	return run_alone(r, "xlio-memory", "1000", "100000", NULL, "bytes ");
}
