/* SPDX-License-Identifier: MIT */
/*
 * tools/osf/bench.h - what a benchmark is, what a run of it gets and gives
 *
 *     bench.c        the command
 *     bench_table.c  what is measured, and the bars
 *     bench_run.c    runs them: kernel, osf, UCX, kernel, osf, UCX, ...
 *     bench_tools.c  those made of other projects' programs
 *     bench_own.c    those made of "osf bench-peer" (peer.c)
 *     bench_xlio.c   those of the XLIO API (peer_xlio.c)
 *     bench_engine.c those of our own TCP, without a wire (peer_engine.c)
 *     bench_judge.c  medians, ratios, bars
 *     bench_print.c, bench_plot.c
 *
 * Absolute times drift between machines and minutes, so every bar is a ratio
 * of figures that were taken in turns, on the same cores.
 */
#pragma once
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "proc.h"
#include "scratch.h"

#define RUNS_MAX 25
#define BARS_MAX 3
#define WHY_MAX 160

enum side { SIDE_KERNEL, SIDE_OSF, SIDE_UCX, SIDES };
#define KERNEL (1u << SIDE_KERNEL)
#define OSF (1u << SIDE_OSF)
#define UCX (1u << SIDE_UCX)

/* What every run has in common. */
struct bench_args {
	double seconds;         /* of load, for each run */
	unsigned n_runs;        /* rounds */
	unsigned n_connections; /* for idle */
	const char *lib;        /* libosf.so */
	const char *self;       /* this program, for bench-peer */
	int cpus[2];            /* server's, client's */
	bool is_verbose;        /* show what the tools say */
	bool wants_json;
	const char *plot; /* FILE.png or NULL */
};

/* One run of one benchmark on one side. */
struct bench_run {
	const struct bench_args *args;
	enum side side;
	struct scratch dir; /* of the osf side */
	double value;       /* out */
	char why[WHY_MAX];  /* out, on error */
};

enum bar_kind {
	BAR_NONE,
	BAR_TIMES_KERNEL, /* at least so many times as good as the kernel */
	BAR_TIMES_UCX,    /* at least so many times as good as UCX */
	BAR_COST_KERNEL,  /* at most so many times what the kernel takes */
	BAR_COST_UCX,     /* at most so many times what UCX takes */
	BAR_OVER_KERNEL,  /* at most so much more than the kernel */
	BAR_AT_LEAST,
	BAR_AT_MOST,
};

struct bar {
	enum bar_kind kind;
	double limit;
	bool or_next; /* reaching the one that follows is as good */
};

struct bench {
	const char *group, *name;
	const char *unit;
	const char *what;
	unsigned sides;         /* KERNEL | OSF | UCX */
	bool is_cost;           /* less is better */
	bool is_unit_scaled;    /* printed with k, M, G */
	bool needs_no_upgrade;  /* its connections are right on the kernel */
	bool needs_connections; /* all of args->n_connections upgraded */
	const char *program, *server, *package; /* what it takes, or NULL */
	int (*run)(struct bench_run *r);
	struct bar bars[BARS_MAX];
};

enum outcome {
	OUT_OK,
	OUT_MISSED,
	OUT_UNJUDGED,
	OUT_KERNEL,
	OUT_FAILED,
	OUT_SKIPPED
};

struct result {
	const struct bench *bench;
	double sample[SIDES][RUNS_MAX];
	unsigned n_samples[SIDES];
	uint64_t n_connections, n_upgraded; /* both ends, all osf runs */
	uint64_t bytes_shm, bytes_inet;     /* received, likewise */
	enum outcome outcome;
	char why[WHY_MAX];
};

#define N_BENCHES 26
extern const struct bench benches[N_BENCHES];

/* Runs @b as @args says; fills @res, whatever happens. */
void bench_run(const struct bench *b, const struct bench_args *args,
	       struct result *res);

/* The runs themselves: 0 with r->value, or a negative errno with r->why. */
int bench_pingpong(struct bench_run *r);
int bench_sockperf(struct bench_run *r);
int bench_stream(struct bench_run *r);
int bench_messages(struct bench_run *r);
int bench_redis_1(struct bench_run *r);
int bench_redis_50(struct bench_run *r);
int bench_redis_pipelined(struct bench_run *r);
int bench_memcached(struct bench_run *r);
int bench_nginx(struct bench_run *r);
int bench_oneshot(struct bench_run *r);
int bench_passthrough(struct bench_run *r);
int bench_idle_latency(struct bench_run *r);
int bench_idle_memory(struct bench_run *r);
int bench_asleep(struct bench_run *r);
int bench_xlio_pingpong(struct bench_run *r);
int bench_xlio_pingpong_ratio(struct bench_run *r);
int bench_xlio_stream(struct bench_run *r);
int bench_xlio_serve(struct bench_run *r);
int bench_xlio_idle(struct bench_run *r);
int bench_xlio_memory(struct bench_run *r);
int bench_engine_rx_1(struct bench_run *r);
int bench_engine_tx_1(struct bench_run *r);
int bench_engine_rx_many(struct bench_run *r);
int bench_engine_tx_many(struct bench_run *r);
int bench_engine_lent_1(struct bench_run *r);
int bench_engine_lent_many(struct bench_run *r);

/* bench_pair.c - a server, a client, and what the client printed */
struct port_text {
	char s[16];
};

int run_fail(struct bench_run *r, int err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
int run_port(struct bench_run *r, struct port_text *text);
int run_start(struct bench_run *r, struct proc *p, const char *const *argv,
	      bool is_server, bool wants_output);
int run_server(struct bench_run *r, struct proc *p, const char *const *argv,
	       const char *port);
int run_client(struct bench_run *r, const char *const *argv, double timeout_s,
	       char **text);
int run_pair(struct bench_run *r, const char *const *server, const char *port,
	     const char *const *client, char **text);
/* The number that follows the last @key in @text, into r->value. */
int run_value(struct bench_run *r, const char *text, const char *key);
/* Our own peers as such a pair, and the figure called @key: both by "bench-peer", the
 * client with up to two arguments behind the port. */
int run_peers(struct bench_run *r, const char *server, const char *client,
	      const char *arg1, const char *arg2, const char *key);
int run_alone(struct bench_run *r, const char *peer, const char *arg1,
	      const char *arg2, const char *arg3, const char *key);
double run_timeout_s(const struct bench_run *r);

/* bench_judge.c */
#define MEDIAN_NONE (-1.0)
double result_median(const struct result *res, enum side side);
double result_spread(const struct result *res, enum side side);
double result_ratio(const struct result *res); /* times as good as kernel */
void result_judge(struct result *res);
char *bar_text(const struct result *res); /* the caller's to free() */
double bar_value(const struct result *res, const struct bar *bar);
const char *outcome_text(enum outcome o);
const char *side_name(enum side side);
const char *bar_kind_name(enum bar_kind kind);

void bench_print_list(void);
void bench_print_table(const struct result *results, size_t n);
void bench_print_json(const struct result *results, size_t n,
		      const struct bench_args *args);
int bench_plot(const struct result *results, size_t n,
	       const struct bench_args *args);
