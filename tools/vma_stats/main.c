/* SPDX-License-Identifier: MIT */
/*
 * tools/vma_stats/main.c - vma_stats and xlio_stats: options, and turns
 *
 *     options -> the process -> -z, -l, -D, -S -> a view each interval
 *
 * Each turn takes a new snapshot.  The command ends after -c turns, with the process,
 * or when it is interrupted.  The manual page is docs/vma_stats.8.
 */
#include "vma_stats.h"
#include <argp.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define DIR_DEFAULT "/tmp"
#define INTERVAL_MAX_S 86400

const char *argp_program_version = "vma_stats of osf " OSF_VERSION;
const char *own_name = "vmastat";

static const struct argp_option options[] = {
	{ "pid", 'p', "PID", 0, "The process to show", 0 },
	{ "directory", 'k', "DIR", 0, "Where -z keeps its files; /tmp", 0 },
	{ "name", 'n', "PROGRAM", 0, "The first process of that program", 0 },
	{ "find_pid", 'f', NULL, 0, "The first process that is found", 0 },
	{ "forbid_clean", 'F', NULL, 0,
	  "Leave files of -z of processes that have ended", 0 },
	{ "interval", 'i', "SECONDS", 0, "From one report to the next; 1", 0 },
	{ "cycles", 'c', "N", 0, "Reports; 0, for no end", 0 },
	{ "view", 'v', "1..5", 0,
	  "1 basic, 2 with queues, 3 all, 4 multicast groups, 5 as netstat",
	  0 },
	{ "details", 'd', "1|2", 0, "1 totals, 2 changes a second", 0 },
	{ "zero", 'z', NULL, 0, "Count from 0 from now on", 0 },
	{ "log_level", 'l', "LEVEL", 0,
	  "Set the level of the program's log: none, panic, error, warn, "
	  "info, details, debug, fine, finer, all",
	  0 },
	{ "fd_dump", 'S', "FD [LEVEL]", 0,
	  "Write what is known of FD into the program's log; 0: of all", 0 },
	{ "details_level", 'D', "0..3", 0,
	  "What each line of the program's log begins with", 0 },
	{ "sockets", 's', "LIST", 0, "Descriptors to show, as in 4-16,9", 0 },
	{ NULL, 'h', NULL, OPTION_HIDDEN, NULL, 0 },
	{ 0 },
};

static void say(FILE *f, const char *fmt, va_list ap)
{
	char *text = xvasprintf(fmt, ap);

	fprintf(f, "%s: %s\n", own_name, text);
	free(text);
}

void tell(const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	say(stdout, fmt, ap);
	va_end(ap);
}

void tell_error(const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	fflush(stdout);
	say(stderr, fmt, ap);
	va_end(ap);
}

static long number(struct argp_state *state, int key, const char *s, long least,
		   long most)
{
	char *end;
	errno = 0;
	long n = strtol(s, &end, 0);

	if (errno || end == s || *end || n < least || n > most)
		argp_error(state,
			   "-%c takes a number from %ld to %ld, not '%s'", key,
			   least, most, s);
	return n;
}

static int level_of(struct argp_state *state, int key, const char *s)
{
	int level = level_parse(s, INT_MAX);

	if (level == INT_MAX)
		argp_error(state, "-%c: '%s' is no level of the log", key, s);
	return level;
}

/* "4-16,9" */
static void parse_ranges(struct options *o, const char *list,
			 struct argp_state *state)
{
	char *copy = xstrdup(list), *rest = copy, *part;

	while ((part = strsep(&rest, ","))) {
		char *dash = strchr(part, '-');

		if (dash)
			*dash = '\0';
		int first = (int)number(state, 's', part, 0, INT_MAX);
		int last = dash ? (int)number(state, 's', dash + 1, 0, INT_MAX)
				: first;
		o->ranges = xgrow(o->ranges, o->n_ranges, sizeof(*o->ranges));
		o->ranges[o->n_ranges][0] = first < last ? first : last;
		o->ranges[o->n_ranges++][1] = first < last ? last : first;
	}
	free(copy);
}

/* "5", "5,debug", or "5" and "debug" as the next word. */
static void parse_dump(struct options *o, char *arg, struct argp_state *state)
{
	char *level = strchr(arg, ',');

	if (level)
		*level++ = '\0';
	else if (state->next < state->argc &&
		 state->argv[state->next][0] != '-')
		level = state->argv[state->next++];
	o->has_dump = true;
	o->dump_fd = (int)number(state, 'S', arg, 0, INT_MAX);
	if (level)
		o->dump_level = level_of(state, 'S', level);
}

static error_t parse_what(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;

	switch (key) {
	case 'z':
		o->is_zeroing = true;
		return 0;
	case 'l':
		o->has_level = true;
		o->level = level_of(state, key, arg);
		return 0;
	case 'D':
		o->has_details = true;
		o->details = (int)number(state, key, arg, 0, 3);
		return 0;
	case 'S':
		parse_dump(o, arg, state);
		return 0;
	case 's':
		parse_ranges(o, arg, state);
		return 0;
	case 'h':
		argp_state_help(state, stdout, ARGP_HELP_STD_HELP);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static error_t parse_opt(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;

	switch (key) {
	case 'p':
		o->pid = (pid_t)number(state, key, arg, 1, INT_MAX);
		return 0;
	case 'k':
		o->dir = arg;
		return 0;
	case 'n':
		o->name = arg;
		return 0;
	case 'f':
		o->pid = 0;
		o->name = NULL;
		return 0;
	case 'F':
		o->forbids_clean = true;
		return 0;
	case 'i':
		o->interval_s =
		    (unsigned)number(state, key, arg, 0, INTERVAL_MAX_S);
		return 0;
	case 'c':
		o->cycles = (unsigned long)number(state, key, arg, 0, LONG_MAX);
		return 0;
	case 'v':
		o->view = (enum view)number(state, key, arg, VIEW_BASIC,
					    VIEW_NETSTAT);
		return 0;
	case 'd':
		o->wants_deltas = number(state, key, arg, 1, 2) == 2;
		return 0;
	default:
		return parse_what(key, arg, state);
	}
}

static const struct argp argp = {
	.options = options,
	.parser = parse_opt,
	.doc = "Show the sockets of a program that runs under osf, in the form "
	       "of libvma's vma_stats.",
};

static void sleep_s(unsigned s)
{
	struct timespec ts = { .tv_sec = s, .tv_nsec = s ? 0 : 10000000 };

	while (nanosleep(&ts, &ts) < 0 && errno == EINTR)
		;
}

static void show(const struct shown *s)
{
	switch (s->o->view) {
	case VIEW_FULL:
		if (isatty(STDOUT_FILENO))
			fputs("\033[H\033[2J", stdout);
		show_full(s);
		break;
	case VIEW_GROUPS:
		show_groups(s);
		break;
	case VIEW_NETSTAT:
		show_netstat(s);
		break;
	default:
		show_table(s);
	}
	if (s->o->view == VIEW_GROUPS ||
	    (s->o->view != VIEW_NETSTAT && s->now->n))
		puts("------------------------------------------------------"
		     "-------------------------");
	fflush(stdout);
}

/* A snapshot of @pid, and its rows from the last -z on.  Return: 0 or a negative
 * errno. */
static int look(const struct options *o, pid_t pid, struct process *p,
		struct rows *r)
{
	int err = process_read(p, pid, false);

	*r = (struct rows){ 0 };
	if (err) {
		process_free(p);
		return err;
	}
	rows_read(r, o, p);
	zero_apply(o, p, r);
	return 0;
}

static int complain_of(pid_t pid, int err)
{
	if (err == -EPERM || err == -EACCES)
		tell_error("process %d belongs to another user", (int)pid);
	else if (err == -ESRCH)
		tell_error("there is no process %d", (int)pid);
	else
		tell_error("VMA statistics data for process id %d not found",
			   (int)pid);
	return EXIT_FAILURE;
}

/* What is to be done once, before anything is shown.  Return: is there anything to
 * show?  *@status is not 0 when something failed. */
static bool prepare(const struct options *o, pid_t pid, int *status)
{
	struct process p;
	struct rows r = { 0 };

	if (!o->has_level && !o->has_details && !o->is_zeroing && !o->has_dump)
		return true;
	int err = process_read(&p, pid, o->has_level || o->has_details);
	if (err)
		*status = complain_of(pid, err);
	if (!err && control_log(o, &p))
		*status = EXIT_FAILURE;
	if (!err)
		rows_read(&r, o, &p);
	if (!err && o->is_zeroing) {
		tell("Zero counters...");
		int bad = zero_now(o, &p, &r);
		if (bad) {
			tell_error("%s: %s", o->dir, strerror(-bad));
			*status = EXIT_FAILURE;
		}
	}
	if (!err && o->has_dump && control_dump(o, &p, &r))
		*status = EXIT_FAILURE;
	rows_free(&r);
	process_free(&p);
	return !err && !o->has_dump && *status == EXIT_SUCCESS;
}

/* One turn: shows @pid, and keeps its rows in *@before for the next. */
static int turn(const struct options *o, pid_t pid, struct rows *before,
		unsigned *n_lines)
{
	struct process p;
	struct rows now;
	int err = look(o, pid, &p, &now);

	if (err)
		return err;
	if (!o->wants_deltas || before->taken_ns)
		show(&(struct shown){
		    o, &p, &now, o->wants_deltas ? before : NULL, n_lines });
	rows_free(before);
	*before = now;
	process_free(&p);
	return 0;
}

static int watch(const struct options *o, pid_t pid)
{
	bool is_once = o->view == VIEW_GROUPS;
	unsigned n_lines = UINT_MAX / 2; /* so the first has headings */
	struct rows before = { 0 };
	unsigned long left = o->cycles;
	int err = 0;

	if (o->wants_deltas && !is_once) {
		err = turn(o, pid, &before, &n_lines);
		if (!err)
			sleep_s(o->interval_s);
	}
	while (!err) {
		err = turn(o, pid, &before, &n_lines);
		if (err || is_once || (left && !--left) || ferror(stdout))
			break;
		sleep_s(o->interval_s);
	}
	bool was_seen = before.taken_ns;
	rows_free(&before);
	if (err && (!was_seen || process_runs(pid)))
		return complain_of(pid, err);
	if (err)
		tell("Process %d ended", (int)pid);
	return EXIT_SUCCESS;
}

static int show_all(const struct options *o, const pid_t *pids, size_t n)
{
	unsigned n_lines = 0;

	netstat_head();
	for (size_t i = 0; i < n; i++) {
		struct rows r = { 0 };
		struct options once = *o;

		once.wants_deltas = false;
		int err = turn(&once, pids[i], &r, &n_lines);
		rows_free(&r);
		if (err && o->pid)
			return complain_of(pids[i], err);
	}
	return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	struct options o = { .dir = DIR_DEFAULT,
			     .interval_s = 1,
			     .view = VIEW_BASIC,
			     .dump_level = VMA_LEVEL_INFO };
	int status = EXIT_SUCCESS;
	pid_t *pids;

	if (strstr(program_invocation_short_name, "xlio"))
		own_name = "xliostat";
	argp_err_exit_status = EXIT_FAILURE;
	argp_parse(&argp, argc, argv, 0, NULL, &o);
	zero_clean(&o);
	size_t n = find_processes(&o, &pids);
	if (o.view == VIEW_NETSTAT) {
		status = show_all(&o, pids, n);
	} else if (!n) {
		tell_error("no process that may be seen runs under osf; "
			   "name one with -p");
		status = EXIT_FAILURE;
	} else if (prepare(&o, pids[0], &status)) {
		status = watch(&o, pids[0]);
	}
	free(pids);
	free(o.ranges);
	return status;
}
