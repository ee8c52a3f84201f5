/* SPDX-License-Identifier: MIT */
/*
 * tools/bench/bench_vma.c - benchmarks of VMA's extra API
 *
 *     vma-echo <- vma-pingpong, ...   and the same by other calls, in one run
 *
 * Where the bar is a ratio of two ways to do the same under osf, both are measured
 * in one run, one after the other, and the figure is the ratio.
 */
#include "osf.h"
#include "bench_pair.h"
#include "bench_runs.h"

static const char *seconds(const struct bench_run *r, char *text, size_t size)
{
	snprintf(text, size, "%g", r->args->seconds);
	return text;
}

/* Peers @a over peers @b: server, client. */
static int ratio(struct bench_run *r, const char *const a[2],
		 const char *const b[2], const char *key)
{
	char s[24];
	int err = run_peers(r, a[0], a[1], seconds(r, s, sizeof(s)), NULL, key);
	double one = r->value;

	if (!err)
		err = run_peers(r, b[0], b[1], s, NULL, key);
	if (!err)
		r->value = r->value > 0 ? one / r->value : 0;
	return err;
}

int bench_vma_pingpong(struct bench_run *r)
{
	return ratio(r, (const char *const[]){ "vma-echo", "vma-pingpong" },
		     (const char *const[]){ "echo", "pingpong" },
		     "one_way_us ");
}

int bench_vma_pingpong_xlio(struct bench_run *r)
{
	return ratio(r, (const char *const[]){ "vma-echo", "vma-pingpong" },
		     (const char *const[]){ "xlio-echo", "xlio-pingpong" },
		     "one_way_us ");
}

int bench_vma_zcopy(struct bench_run *r)
{
	return ratio(r, (const char *const[]){ "vma-sink", "plain-flood" },
		     (const char *const[]){ "plain-sink", "plain-flood" },
		     "gbit ");
}

int bench_vma_udp(struct bench_run *r)
{
	char s[24];

	return run_alone(r, r->side == SIDE_KERNEL ? "plain-udp" : "vma-udp",
			 seconds(r, s, sizeof(s)), NULL, NULL, "rate ");
}

int bench_vma_udp_joined(struct bench_run *r)
{
	char s[24];

	return run_alone(
	    r, r->side == SIDE_KERNEL ? "plain-udp-joined" : "vma-udp-joined",
	    seconds(r, s, sizeof(s)), NULL, NULL, "rate ");
}

int bench_vma_callback(struct bench_run *r)
{
	char s[24];

	return run_alone(r, "vma-callback", seconds(r, s, sizeof(s)), NULL,
			 NULL, "ns ");
}

int bench_vma_receive(struct bench_run *r)
{
	char s[24];

	return run_alone(r, "vma-zcopy", seconds(r, s, sizeof(s)), NULL, NULL,
			 "gain ");
}
