/* SPDX-License-Identifier: MIT */
/*
 * tools/bench/bench_own.c - benchmarks made of "osf bench-peer"; UCX beside some
 * (bench_ucx.c)
 *
 *     osf bench-peer SERVER PORT  <-  osf bench-peer CLIENT PORT ...
 *
 * The peers (peer.c) use nothing but libc's socket calls.  The environment in which they
 * start decides whether they run on the kernel or under osf.
 */
#include "osf.h"
#include "bench_pair.h"
#include "bench_runs.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct seconds_text {
	char s[24];
};

static struct seconds_text seconds_text(const struct bench_run *r)
{
	struct seconds_text t;

	snprintf(t.s, sizeof(t.s), "%g", r->args->seconds);
	return t;
}

/* A pair of peers; the client has up to two arguments after the port. */
int run_peers(struct bench_run *r, const char *server, const char *client,
	      const char *arg1, const char *arg2, const char *key)
{
	const char *self = r->args->self;
	struct port_text port;
	char *text = NULL;

	if (run_port(r, &port) < 0)
		return -EADDRINUSE;
	int err = run_pair(
	    r,
	    (const char *const[]){ self, "bench-peer", server, port.at, NULL },
	    port.s,
	    (const char *const[]){ self, "bench-peer", client, port.at, arg1,
				   arg2, NULL },
	    &text);
	if (!err)
		err = run_value(r, text, key);
	free(text);
	return err;
}

int bench_pingpong(struct bench_run *r)
{
	if (r->side == SIDE_UCX)
		return run_ucx(r, &(struct ucx_test){ "tag_lat", "64", 500e3,
						      UCX_MEDIAN, NULL, NULL });
	return run_peers(r, "echo", "pingpong", seconds_text(r).s, NULL,
			 "one_way_us ");
}

int bench_messages(struct bench_run *r)
{
	if (r->side == SIDE_UCX)
		return run_ucx(r, &(struct ucx_test){ "tag_bw", "64", 4e6,
						      UCX_RATE, NULL, NULL });
	return run_peers(r, "sink", "flood", seconds_text(r).s, NULL, "rate ");
}

int bench_oneshot(struct bench_run *r)
{
	return run_peers(r, "oneshot-server", "oneshot", seconds_text(r).s,
			 NULL, "rate ");
}

static int proof(struct bench_run *r, const char *key)
{
	struct port_text port;

	if (run_port(r, &port) < 0)
		return -EADDRINUSE;
	return run_alone(r, "proof", port.at, seconds_text(r).s, NULL, key);
}

int bench_proof(struct bench_run *r) { return proof(r, "proof_us "); }
int bench_proof_user(struct bench_run *r) { return proof(r, "user_us "); }

int bench_passthrough(struct bench_run *r)
{
	return run_alone(r, "passthrough", seconds_text(r).s, NULL, NULL,
			 "ns ");
}

int bench_read_zero(struct bench_run *r)
{
	return run_alone(r, "read-zero", seconds_text(r).s, NULL, NULL, "ns ");
}

int bench_vma_dummy(struct bench_run *r)
{
	return run_alone(r, "vma-dummy", seconds_text(r).s, NULL, NULL,
			 "ratio ");
}

/* The client reads how much memory the server has: it is told its number. */
static int idle(struct bench_run *r, const char *key)
{
	const char *self = r->args->self;
	char pid[16], n[16], *text = NULL;
	struct port_text port;
	struct proc server;

	if (run_port(r, &port) < 0)
		return -EADDRINUSE;
	int err =
	    run_server(r, &server,
		       (const char *const[]){ self, "bench-peer", "idle-server",
					      port.s, NULL },
		       port.s);
	if (err)
		return err;
	snprintf(pid, sizeof(pid), "%d", (int)server.pid);
	snprintf(n, sizeof(n), "%u", r->args->n_connections);
	err = run_client(r,
			 (const char *const[]){ self, "bench-peer", "idle",
						port.s, n, pid, NULL },
			 run_timeout_s(r) + r->args->n_connections / 500.0,
			 &text);
	if (!err)
		err = run_value(r, text, key);
	free(text);
	proc_stop(&server);
	return err;
}

int bench_idle_latency(struct bench_run *r)
{
	return idle(r, "latency_ratio ");
}

int bench_idle_memory(struct bench_run *r) { return idle(r, "bytes "); }

/* CPU time of both ends for each question, in us. */
int bench_asleep(struct bench_run *r)
{
	const char *self = r->args->self;
	struct seconds_text s = seconds_text(r);
	char *client = NULL, *server = NULL;
	struct port_text port;
	struct proc p;

	if (run_port(r, &port) < 0)
		return -EADDRINUSE;
	int err = run_start(
	    r, &p,
	    (const char *const[]){ self, "bench-peer", "echo", port.s, NULL },
	    true, true);
	if (!err)
		err = proc_wait_listening(&p, (unsigned)atoi(port.s), 10);
	if (!err)
		err = run_client(r,
				 (const char *const[]){ self, "bench-peer",
							"asleep", port.s, s.s,
							NULL },
				 run_timeout_s(r), &client);
	if (!err)
		err = proc_output(&p, 5, &server);
	if (!err)
		err = run_value(r, server, "cpu_us ");
	double server_us = r->value;
	if (!err)
		err = run_value(r, client, "asked ");
	double n_asked = r->value;
	if (!err)
		err = run_value(r, client, "cpu_us ");
	r->value = (r->value + server_us) / (n_asked > 0 ? n_asked : 1);
	proc_stop(&p);
	free(client);
	free(server);
	return err;
}
