/* SPDX-License-Identifier: MIT */
/*
 * tools/bench/bench_pair.h - a server, a client, and what the client printed
 *
 * Programs that take part in one run of one benchmark.  Whatever fails is
 * written to r->why, and a negative errno is returned.
 */
#pragma once
#include "bench.h"
#include "proc.h"

struct port_text {
	char s[16];  /* a number */
	char at[32]; /* the same with the server's address, for peers of ours */
};

/* Where the server of this run listens. */
const char *run_host(const struct bench_run *r);

int run_fail(struct bench_run *r, int err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
int run_port(struct bench_run *r, struct port_text *text);
int run_start(struct bench_run *r, struct proc *p, const char *const *argv,
	      bool is_server, bool wants_output);
/* A program that prepares something, on the kernel and as the server's user. */
int run_step(struct bench_run *r, const char *const *argv);
int run_server(struct bench_run *r, struct proc *p, const char *const *argv,
	       const char *port);
/* All that a program prints until it ends; @name: whose failure it is. */
int run_output(struct bench_run *r, struct proc *p, const char *name,
	       double timeout_s, char **text);
int run_client(struct bench_run *r, const char *const *argv, double timeout_s,
	       char **text);
/* Where the run warms up, the client runs twice, and @text is of the second time. */
int run_pair(struct bench_run *r, const char *const *server, const char *port,
	     const char *const *client, char **text);
/* The number that follows the last @key in @text, into r->value; that of the first load, if there
 * was one, into r->first. */
int run_value(struct bench_run *r, const char *text, const char *key);
/* Our own peers as such a pair, and the figure called @key: both by "bench-peer", the
 * client with up to two arguments behind the port. */
int run_peers(struct bench_run *r, const char *server, const char *client,
	      const char *arg1, const char *arg2, const char *key);
int run_alone(struct bench_run *r, const char *peer, const char *arg1,
	      const char *arg2, const char *arg3, const char *key);

/* ucx_perftest's last row: us, MiB/s, messages a second. */
enum ucx_column { UCX_MEDIAN = 1, UCX_MIB = 5, UCX_RATE = 7 };
struct ucx_test {
	const char *test, *size;
	double per_second; /* operations, for each second of load */
	enum ucx_column column;
	const char *tls; /* "UCX_TLS=..."; NULL: posix,self */
	const char *const
	    *options; /* of the client, NULL at the end; or NULL */
};
int run_ucx(struct bench_run *r, const struct ucx_test *t);
/* Where the software RDMA device writes what the run's programs have done with it. */
void run_counters(const struct bench_run *r, char *path, size_t size);
double run_timeout_s(const struct bench_run *r);
