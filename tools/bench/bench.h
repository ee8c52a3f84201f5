/* SPDX-License-Identifier: MIT */
/*
 * tools/bench/bench.h - what a benchmark is, what a run of it gets and gives
 *
 * This folder, in the order in which a benchmark passes through it:
 *
 *     bench.c        the command
 *     bench_table.c  what is measured, and the bars: bench_*.def
 *     bench_run.c    runs them: kernel, osf, older osf, UCX, kernel, ...
 *     bench_runs.h   the function that runs each of them once:
 *       bench_tools.c    those made of other projects' programs
 *       bench_postgres.c PostgreSQL
 *       bench_crowd.c    those beside programs that keep the cores busy
 *       bench_own.c      those made of "osf bench-peer" (peer.c)
 *       bench_xlio.c     those of the XLIO API (peer_xlio.c)
 *       bench_vma.c      those of VMA's extra API (peer_vma.c)
 *       bench_engine.c   those of our own TCP, without a wire (peer_engine.c)
 *       bench_wire.c     those of our own TCP over a wire (peer_wire.c)
 *       bench_rdma.c     those of the software RDMA device (peer_udp.c, peer_rdma.c)
 *     wire.h         two network namespaces, a veth pair, and ports on it
 *     bench_pair.h   what these share: a server, a client, and a figure; UCX (bench_ucx.c)
 *     proc.h         a program that is started and always ended
 *     bench_judge.h  medians, ratios, bars
 *     bench_print.h  the table, JSON, the chart (bench_plot.c)
 *     peer.h         the programs of ours that are measured
 *
 * Absolute times drift between machines and minutes, so every bar is a ratio
 * of figures that were taken in turns, on the same cores.
 */
#pragma once
#include <limits.h>
#include <pwd.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "scratch.h"

#define RUNS_MAX 25
#define BARS_MAX 3
#define WHY_MAX 160

enum side { SIDE_KERNEL, SIDE_OSF, SIDE_AGAINST, SIDE_UCX, SIDES };
#define KERNEL (1u << SIDE_KERNEL)
#define OSF (1u << SIDE_OSF)
#define UCX (1u << SIDE_UCX)

/* What every run has in common. */
struct bench_args {
	double seconds;         /* of load, for each run */
	unsigned n_runs;        /* rounds */
	unsigned n_connections; /* for idle */
	const char *lib;        /* libosf.so */
	const char *against;    /* that of an older build, or NULL */
	const char *self;       /* this program, for bench-peer */
	int cpus[2];            /* server's, client's; -1: any */
	unsigned n_cpus;        /* of them: 0 or 2 */
	bool is_verbose;        /* show what the tools say */
	bool wants_json;
	const char *plot; /* FILE.png or NULL */
};

/* Where the programs of a run may run, of args->cpus. */
enum bench_cores {
	CORES_APART, /* the server on the first, the client on the second */
	CORES_ONE,   /* both on the first */
	CORES_BOTH,  /* each on either, as the kernel decides */
};

/* Which ends of the connections are under osf, on a side of osf, over a wire. */
enum bench_wire {
	WIRE_NONE,   /* 127.0.0.1 */
	WIRE_BOTH,   /* a veth pair with a port at each end */
	WIRE_CLIENT, /* the same, with the server on the kernel */
	WIRE_FORCED, /* WIRE_BOTH, and rules that move every connection */
	WIRE_BESIDE, /* none of them: other programs use the ports */
	WIRE_PLAIN,  /* a veth pair without ports, for RoCEv2 */
};

struct wire;

/* One run of one benchmark on one side. */
struct bench_run {
	const struct bench_args *args;
	enum bench_wire wire;
	const struct wire *world; /* NULL: none is needed */
	enum side side;
	enum bench_cores cores;
	bool needs_verbs;
	bool moves_each;     /* no policy leaves a connection with the kernel */
	bool warms_up;       /* the load runs twice, see struct bench */
	const char *ucx_tls; /* "UCX_TLS=..."; NULL: the usual */
	const struct passwd
	    *server_user;   /* the server becomes it; NULL: ours */
	struct scratch dir; /* of the two sides of osf */
	double value;       /* out */
	double first;       /* out, where it warms up: of the first load */
	char *first_text; /* what the first load printed; run_once() frees it */
	char why[WHY_MAX]; /* out, on error */
};

enum bar_kind {
	BAR_NONE,
	BAR_TIMES_KERNEL, /* at least so many times as good as the kernel */
	BAR_TIMES_UCX,    /* at least so many times as good as UCX */
	BAR_COST_KERNEL,  /* at most so many times what the kernel takes */
	BAR_COST_UCX,     /* at most so many times what UCX takes */
	BAR_EACH_UCX,     /* the same, in each of the rounds */
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
	unsigned sides; /* KERNEL | OSF | UCX */
	enum bench_cores cores;
	enum bench_wire wire;
	bool is_cost;          /* less is better */
	bool is_unit_scaled;   /* printed with k, M, G */
	bool needs_no_upgrade; /* its connections are right on the kernel */
	bool has_no_lib;       /* what it measures is in this program */
	bool needs_verbs;      /* its programs use the software RDMA device */
	/* Both ends of all of args->n_connections are to be in shared memory.  The default
	 * policy would leave most of them with the kernel, because they gain nothing. */
	bool needs_connections;
	/* On each side the load runs twice against the same server, and only the second one
	 * counts.  The first one shows the programs whether moving their connections pays, and
	 * costs what trying that costs; the result's note tells its ratio, and what moved. */
	bool warms_up;
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
	uint64_t n_back;       /* of the moves to our TCP, likewise */
	uint64_t n_reason[64]; /* ends by osf_reason, likewise */
	double first[SIDES]; /* of the loads that do not count, in all rounds */
	bool lost_against; /* the older build failed, and takes part no more */
	enum outcome outcome;
	char why[WHY_MAX];
};

#define N_BENCHES 67
extern const struct bench benches[N_BENCHES];

/* Runs @b as @args says; fills @res, whatever happens. */
void bench_run(const struct bench *b, const struct bench_args *args,
	       struct result *res);
