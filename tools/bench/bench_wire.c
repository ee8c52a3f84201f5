/* SPDX-License-Identifier: MIT */
/*
 * tools/bench/bench_wire.c - benchmarks that exist over a wire only
 *
 *     bare frames, below every TCP     frame-echo <- frame-ask
 *     the kernel beside ports          iperf3, while a connection of others has moved
 *     freeze and thaw                  echo <- moves, which asks osfd itself
 *
 * The others are those of bench_own.c and bench_tools.c, with the server at another
 * address (run_host()).
 */
#include "osf.h"
#include "bench_pair.h"
#include "bench_runs.h"
#include "wire.h"
#include <stdlib.h>

/* The echo of frames listens to no port, so the client asks until it answers. */
int bench_wire_floor(struct bench_run *r)
{
	const char *self = r->args->self;
	char seconds[24], *text = NULL;
	struct proc echo;

	snprintf(seconds, sizeof(seconds), "%g", r->args->seconds);
	int err =
	    run_start(r, &echo,
		      (const char *const[]){ self, "bench-peer", "frame-echo",
					     WIRE_SERVER_DEVICE, NULL },
		      true, false);
	if (err)
		return err;
	err = run_client(r,
			 (const char *const[]){ self, "bench-peer", "frame-ask",
						WIRE_CLIENT_DEVICE, seconds,
						NULL },
			 run_timeout_s(r), &text);
	if (!err)
		err = run_value(r, text, "one_way_us ");
	free(text);
	proc_stop(&echo);
	return err;
}

/* A connection of other programs, moved on a side of osf: a question every 10 ms. */
static int start_others(struct bench_run *r, struct proc p[2])
{
	struct bench_run others = *r;
	struct port_text port;

	others.wire = WIRE_FORCED;
	int err = run_port(&others, &port);
	if (!err)
		err = run_server(&others, &p[0],
				 (const char *const[]){ r->args->self,
							"bench-peer", "echo",
							port.at, NULL },
				 port.s);
	if (!err)
		err = run_start(&others, &p[1],
				(const char *const[]){ r->args->self,
						       "bench-peer", "asleep",
						       port.at, "600", NULL },
				false, false);
	if (err)
		snprintf(r->why, sizeof(r->why), "%s", others.why);
	return err;
}

int bench_wire_beside(struct bench_run *r)
{
	struct proc others[2] = { PROC_NONE, PROC_NONE };
	int err = start_others(r, others);

	if (!err)
		err = bench_stream(r);
	proc_stop(&others[1]);
	proc_stop(&others[0]);
	return err;
}

static int moves(struct bench_run *r, const char *key)
{
	char seconds[24];

	snprintf(seconds, sizeof(seconds), "%g", r->args->seconds);
	return run_peers(r, "echo", "moves", seconds, NULL, key);
}

int bench_wire_freeze(struct bench_run *r) { return moves(r, "freeze_us "); }
int bench_wire_thaw(struct bench_run *r) { return moves(r, "thaw_us "); }
