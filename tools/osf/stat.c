/* SPDX-License-Identifier: MIT */
/*
 * tools/osf/stat.c - "osf stat": what the sockets of running programs do
 *
 *     /proc/PID/fd, or DIR -> snapshots (seg.h) -> table, tabs or JSON
 *
 * The command only reads.  It locks, signals and writes nothing, so it does not disturb the
 * programs.  With --watch it goes on until it is interrupted, and shows rates.
 */
#include "osf.h"
#include "look.h"
#include "stat.h"
#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WATCH_DEFAULT_S 1.0
#define WATCH_LEAST_S 0.05 /* below, looking would be most of the work */
#define WATCH_MOST_S 86400.0

#define WATCH_MOST_WORD_S 60 /* of SECONDS as a word of its own */

enum {
	OPT_JSON = 'j',
	OPT_WATCH = 'w',
	OPT_DIR = 'd',
	OPT_CLOSED = 'c',
	OPT_WIDE = 'W',
	OPT_VERBOSE = 'v',
};

struct stat_args {
	bool wants_json, wants_closed, is_wide, is_verbose;
	double watch_s; /* 0: once */
	const char *dir;
	pid_t *pids;
	size_t n_pids;
};

static const struct argp_option options[] = {
	{ "json", OPT_JSON, NULL, 0, "JSON, as described in osf(1)", 0 },
	{ "watch", OPT_WATCH, "SECONDS", OPTION_ARG_OPTIONAL,
	  "Again and again, with rates; every second, or every SECONDS", 0 },
	{ "dir", OPT_DIR, "DIR", 0,
	  "Read DIR/*.osf, which OSF_STATS_DIR=DIR left there, and not the "
	  "processes that run",
	  0 },
	{ "closed", OPT_CLOSED, NULL, 0,
	  "Also what sockets did that are closed by now", 0 },
	{ "wide", OPT_WIDE, NULL, 0,
	  "Lines as long as they are, wider than the terminal", 0 },
	{ "verbose", OPT_VERBOSE, NULL, 0,
	  "Also what our own TCP knows of its connections", 0 },
	{ 0 },
};

static void add_pid(struct stat_args *a, const char *arg,
		    struct argp_state *state)
{
	char *end;
	errno = 0;
	long pid = strtol(arg, &end, 10);

	if (errno || *end || end == arg || pid <= 0 || pid > INT32_MAX)
		argp_error(state, "'%s' is not a process number", arg);
	a->pids = xgrow(a->pids, a->n_pids, sizeof(*a->pids));
	a->pids[a->n_pids++] = (pid_t)pid;
}

static double parse_seconds(const char *arg, struct argp_state *state)
{
	char *end;
	double s = strtod(arg, &end);

	if (*end || end == arg || !(s >= WATCH_LEAST_S && s <= WATCH_MOST_S))
		argp_error(state, "--watch takes %g to %g seconds, not '%s'",
			   WATCH_LEAST_S, WATCH_MOST_S, arg);
	return s;
}

/* -w 1: a word that is a number of seconds.  One that is too large to be meant as
 * such may be a process. */
static double take_seconds(struct argp_state *state)
{
	const char *word =
	    state->next < state->argc ? state->argv[state->next] : NULL;
	char *end;

	if (!word)
		return WATCH_DEFAULT_S;
	double s = strtod(word, &end);
	if (*end || end == word)
		return WATCH_DEFAULT_S;
	if (s > WATCH_MOST_WORD_S)
		argp_error(state,
			   "is %s a process, or a number of seconds?  Write "
			   "--watch=%s, or %s in front of --watch",
			   word, word, word);
	state->next++;
	return parse_seconds(word, state);
}

static error_t parse_opt(int key, char *arg, struct argp_state *state)
{
	struct stat_args *a = state->input;

	switch (key) {
	case OPT_JSON:
		a->wants_json = true;
		return 0;
	case OPT_CLOSED:
		a->wants_closed = true;
		return 0;
	case OPT_DIR:
		a->dir = arg;
		return 0;
	case OPT_WATCH:
		a->watch_s =
		    arg ? parse_seconds(arg, state) : take_seconds(state);
		return 0;
	case OPT_WIDE:
		a->is_wide = true;
		return 0;
	case OPT_VERBOSE:
		a->is_verbose = true;
		return 0;
	case ARGP_KEY_ARG:
		add_pid(a, arg, state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {
	.options = options,
	.parser = parse_opt,
	.args_doc = "[PID...]",
	.doc = "Show the sockets of programs that run under osf: where their "
	       "bytes go, how many, and why there.",
};

static bool has_pid(const struct seg_list *l, pid_t pid)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->segs[i].head.pid == (uint32_t)pid)
			return true;
	return false;
}

static bool is_wanted(const struct stat_args *a, uint32_t pid)
{
	for (size_t i = 0; i < a->n_pids; i++)
		if ((uint32_t)a->pids[i] == pid)
			return true;
	return a->n_pids == 0;
}

static void keep_wanted(const struct stat_args *a, struct seg_list *l)
{
	size_t n = 0;

	for (size_t i = 0; i < l->n; i++)
		if (is_wanted(a, l->segs[i].head.pid))
			l->segs[n++] = l->segs[i];
		else
			seg_free(&l->segs[i]);
	l->n = n;
}

/* The files of DIR, all of them or those of some processes. */
static int find_in_dir(const struct stat_args *a, struct seg_list *l)
{
	int err = seg_list_dir(l, a->dir);

	if (err) {
		complain("cannot read %s: %s", a->dir, strerror(-err));
		return err;
	}
	keep_wanted(a, l);
	seg_list_running(l);
	for (size_t i = 0; i < a->n_pids; i++)
		if (!has_pid(l, a->pids[i])) {
			complain("process %d has no statistics in %s",
				 (int)a->pids[i], a->dir);
			err = -ESRCH;
		}
	return err;
}

static int find_process(struct seg_list *l, pid_t pid)
{
	size_t n_before = l->n;
	unsigned n_bad = l->n_bad;
	int err = seg_list_pid(l, pid);

	if (err == -ENOENT)
		complain("there is no process %d", (int)pid);
	else if (err)
		complain("the descriptors of process %d cannot be read: %s",
			 (int)pid, strerror(-err));
	else if (l->n == n_before && l->n_bad == n_bad)
		complain("process %d does not run under osf", (int)pid);
	return err || l->n == n_before ? -ESRCH : 0;
}

static int find_segments(const struct stat_args *a, struct seg_list *l)
{
	int err = 0;

	if (a->dir)
		return find_in_dir(a, l);
	if (a->n_pids == 0)
		return seg_list_all(l);
	for (size_t i = 0; i < a->n_pids; i++)
		if (find_process(l, a->pids[i]) < 0)
			err = -ESRCH;
	return err;
}

/* Fills @l as the arguments say; what is missing has been complained of. */
static int find_all(const struct stat_args *a, struct seg_list *l)
{
	int err = find_segments(a, l);

	seg_look(l);
	return err;
}

static void print(const struct stat_args *a, const struct seg_list *now,
		  const struct seg_list *before)
{
	struct stat_ports ports = { 0 };

	if (!a->dir)
		stat_ports_read(&ports);
	struct stat_view v = {
		.now = now,
		.before = before,
		.is_watching = a->watch_s > 0,
		.wants_closed = a->wants_closed,
		.is_wide = a->is_wide,
		.is_verbose = a->is_verbose,
		.ports = &ports,
	};

	if (a->wants_json)
		stat_print_json(&v);
	else if (isatty(STDOUT_FILENO))
		stat_print_table(&v);
	else
		stat_print_tabs(&v);
	fflush(stdout);
	stat_ports_free(&ports);
}

static void sleep_s(double s)
{
	struct timespec ts = { .tv_sec = (time_t)s };

	ts.tv_nsec = (long)((s - (double)ts.tv_sec) * 1e9);
	while (nanosleep(&ts, &ts) < 0 && errno == EINTR)
		;
}

/* Until a signal, or until processes that were named are gone. */
static int watch(const struct stat_args *a)
{
	struct seg_list before = { 0 };
	bool has_before = false;

	for (;;) {
		struct seg_list now = { .is_quiet = has_before };

		if (find_all(a, &now) < 0 && now.n == 0) {
			seg_list_free(&before);
			return has_before ? EXIT_SUCCESS : EXIT_FAILURE;
		}
		print(a, &now, has_before ? &before : NULL);
		if (ferror(stdout))
			return EXIT_FAILURE;
		seg_list_free(&before);
		before = now;
		has_before = true;
		sleep_s(a->watch_s);
	}
}

int cmd_stat(int argc, char **argv)
{
	struct stat_args a = { 0 };
	struct seg_list list = { 0 };

	argp_parse(&argp, argc, argv, 0, NULL, &a);
	if (a.watch_s > 0)
		return watch(&a);

	int err = find_all(&a, &list);
	if (!err || list.n > 0)
		print(&a, &list, NULL);

	bool is_bad = err < 0 || list.n_bad > 0;
	if (list.n == 0 && !is_bad && isatty(STDOUT_FILENO) && !a.wants_json)
		complain(a.dir ? "there are no statistics in %s"
			       : "no process that may be seen runs under osf",
			 a.dir);
	seg_list_free(&list);
	free(a.pids);
	return is_bad ? EXIT_FAILURE : EXIT_SUCCESS;
}
