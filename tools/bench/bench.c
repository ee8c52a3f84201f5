/* SPDX-License-Identifier: MIT */
/*
 * tools/bench/bench.c - "osf bench": the kernel against osf, side by side
 *
 *     arguments -> the benchmarks that are meant -> bench_run() each
 *               -> table or JSON, plot -> exit status
 *
 * bench.h says which file does what.
 */
#include "osf.h"
#include "bench.h"
#include "bench_print.h"
#include "proc.h"
#include "run.h"
#include <argp.h>
#include <errno.h>
#include <glob.h>
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SECONDS_MOST 600.0
#define SECONDS_LEAST 0.1
#define LOAD_S 10.0
#define CONNECTIONS_MOST 25000 /* one address has some 28,000 ports */

enum {
	OPT_JSON = 'j',
	OPT_PLOT = 'p',
	OPT_SECONDS = 't',
	OPT_RUNS = 'n',
	OPT_LIST = 'l',
	OPT_VERBOSE = 'v',
	OPT_LIB = 256,
	OPT_CONNECTIONS,
	OPT_AGAINST
};

static const struct argp_option options[] = {
	{ "json", OPT_JSON, NULL, 0, "JSON with every sample", 0 },
	{ "plot", OPT_PLOT, "FILE.png", 0, "Draw the ratios (takes gnuplot)",
	  0 },
	{ "seconds", OPT_SECONDS, "N", 0, "Load for so long in each run (2)",
	  0 },
	{ "runs", OPT_RUNS, "N", 0, "Rounds; the median counts (3)", 0 },
	{ "connections", OPT_CONNECTIONS, "N", 0,
	  "Idle connections in the idle benchmarks (10000)", 0 },
	{ "list", OPT_LIST, NULL, 0, "What there is to measure, and the bars",
	  0 },
	{ "lib", OPT_LIB, "PATH", 0, "The libosf.so to measure", 0 },
	{ "against", OPT_AGAINST, "PATH", 0,
	  "The libosf.so of an older build: run it as well, and compare", 0 },
	{ "verbose", OPT_VERBOSE, NULL, 0, "Show what the programs say", 0 },
	{ 0 },
};

struct parsed {
	struct bench_args args;
	const char *lib, *against;
	bool wants_list;
	bool is_chosen[N_BENCHES]; /* none: all */
	size_t n_chosen;
};

static double parse_number(const char *arg, double least, double most,
			   const char *option, struct argp_state *state)
{
	char *end;
	double v = strtod(arg, &end);

	if (*end || end == arg || !(v >= least && v <= most))
		argp_error(state, "%s takes %g to %g, not '%s'", option, least,
			   most, arg);
	return v;
}

static void choose(struct parsed *p, const char *name, struct argp_state *state)
{
	bool found = false;

	for (size_t i = 0; i < N_BENCHES; i++) {
		if (strcmp(name, benches[i].group) != 0 &&
		    strcmp(name, benches[i].name) != 0)
			continue;
		found = true;
		p->n_chosen += !p->is_chosen[i];
		p->is_chosen[i] = true;
	}
	if (!found)
		argp_error(state,
			   "there is no benchmark '%s'; --list names "
			   "them",
			   name);
}

static error_t parse_opt(int key, char *arg, struct argp_state *state)
{
	struct parsed *p = state->input;

	switch (key) {
	case OPT_JSON:
		p->args.wants_json = true;
		return 0;
	case OPT_PLOT:
		p->args.plot = arg;
		return 0;
	case OPT_SECONDS:
		p->args.seconds = parse_number(arg, SECONDS_LEAST, SECONDS_MOST,
					       "--seconds", state);
		return 0;
	case OPT_RUNS:
		p->args.n_runs =
		    (unsigned)parse_number(arg, 1, RUNS_MAX, "--runs", state);
		return 0;
	case OPT_CONNECTIONS:
		p->args.n_connections = (unsigned)parse_number(
		    arg, 2, CONNECTIONS_MOST, "--connections", state);
		return 0;
	case OPT_LIST:
		p->wants_list = true;
		return 0;
	case OPT_LIB:
		p->lib = arg;
		return 0;
	case OPT_AGAINST:
		if (!*arg)
			argp_error(state, "--against takes a path");
		p->against = arg;
		return 0;
	case OPT_VERBOSE:
		p->args.is_verbose = true;
		return 0;
	case ARGP_KEY_ARG:
		choose(p, arg, state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {
	.options = options,
	.parser = parse_opt,
	.args_doc = "[NAME...]",
	.doc = "Measure the kernel against osf (and UCX), in turns and on the "
	       "same cores of this machine, and compare with what osf promises."
	       "\vThe exit status is 0 when every bar that could be judged was "
	       "reached, 1 when one was not or a benchmark failed.",
};

/* The first two cores that this process may use; of fewer, none. */
static void choose_cpus(struct bench_args *args)
{
	int *cpus = args->cpus;
	cpu_set_t set;
	unsigned n = 0;

	cpus[0] = cpus[1] = -1;
	if (sched_getaffinity(0, sizeof(set), &set) < 0 || CPU_COUNT(&set) < 2)
		return;
	for (int i = 0; i < CPU_SETSIZE && n < 2; i++)
		if (CPU_ISSET((size_t)i, &set))
			cpus[n++] = i;
	args->n_cpus = n;
}

/* nginx and others lie where only root's PATH leads.  Debian has the programs of each
 * PostgreSQL in a folder of its own, and scripts of the same names in PATH; the newest
 * folder goes first. */
static void extend_path(void)
{
	const char *path = getenv("PATH");
	glob_t g = { 0 };
	bool has_any = !glob("/usr/lib/postgresql/*/bin", 0, NULL, &g);
	char *more = xasprintf("%s%s%s:/usr/local/sbin:/usr/sbin:/sbin",
			       has_any ? g.gl_pathv[g.gl_pathc - 1] : "",
			       has_any ? ":" : "",
			       path ? path : "/usr/local/bin:/usr/bin:/bin");

	globfree(&g);
	setenv("PATH", more, 1);
	free(more);
}

static void progress(const struct parsed *p, const struct bench *b,
		     size_t n_done)
{
	size_t n = p->n_chosen ? p->n_chosen : N_BENCHES;

	if (isatty(STDERR_FILENO))
		fprintf(stderr, "\r\033[K[%zu/%zu] %s: %s", n_done + 1, n,
			b->name, b->what);
}

static int report(const struct parsed *p, const struct result *results,
		  size_t n)
{
	int status = EXIT_SUCCESS;

	if (isatty(STDERR_FILENO))
		fputs("\r\033[K", stderr);
	if (p->args.wants_json)
		bench_print_json(results, n, &p->args);
	else
		bench_print_table(results, n, &p->args);
	if (p->args.plot && bench_plot(results, n, &p->args) < 0)
		status = EXIT_FAILURE;
	for (size_t i = 0; i < n; i++)
		if (results[i].outcome == OUT_MISSED ||
		    results[i].outcome == OUT_KERNEL ||
		    results[i].outcome == OUT_FAILED)
			status = EXIT_FAILURE;
	return status;
}

static int bench_all(const struct parsed *p)
{
	struct result *results = xcalloc(N_BENCHES, sizeof(*results));
	size_t n = 0;

	for (size_t i = 0; i < N_BENCHES && !proc_is_interrupted(); i++) {
		if (p->n_chosen && !p->is_chosen[i])
			continue;
		progress(p, &benches[i], n);
		bench_run(&benches[i], &p->args, &results[n++]);
	}
	int status = report(p, results, n);
	free(results);
	return proc_is_interrupted() ? EXIT_SIGNAL + 2 : status;
}

/* Finds the library to compare with, and loads it once into a program of ours.  ld.so would
 * start programs without a library that it cannot load, and they would measure the kernel. */
static int find_against(struct parsed *p, char *path)
{
	char preload[PATH_MAX + 16];
	struct proc child;
	char *text = NULL;

	if (lib_find(p->against, path) < 0)
		return -ENOENT;
	snprintf(preload, sizeof(preload), "LD_PRELOAD=%s", path);
	struct proc_spec spec = {
		.argv = (const char *const[]){ p->args.self, "bench-peer",
					       "loaded", path, NULL },
		.env = (const char *const[]){ preload, NULL },
		.wants_output = true,
		.is_loud = true,
	};
	int err = proc_start(&child, &spec);
	if (!err)
		err = proc_output(&child, LOAD_S, &text);
	free(text);
	if (err)
		complain("%s cannot be loaded", path);
	return err;
}

int cmd_bench(int argc, char **argv)
{
	struct parsed p = {
		.args = { .seconds = 2, .n_runs = 3, .n_connections = 10000 },
	};
	char lib[PATH_MAX], against[PATH_MAX], self[PATH_MAX];

	argp_parse(&argp, argc, argv, 0, NULL, &p);
	if (p.wants_list) {
		bench_print_list();
		return EXIT_SUCCESS;
	}
	if (lib_find(p.lib, lib) < 0 || !realpath("/proc/self/exe", self))
		return EXIT_USAGE;
	p.args.lib = lib;
	p.args.self = self;
	choose_cpus(&p.args);
	extend_path();
	proc_catch_signals();
	if (p.against && find_against(&p, against) < 0)
		return EXIT_USAGE;
	if (p.against)
		p.args.against = against;

	return bench_all(&p);
}
