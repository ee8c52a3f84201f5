/* SPDX-License-Identifier: MIT */
/*
 * tests/script/main.c - runs packet scripts on a back end, and reports verdicts
 *
 *     build/tests/script --engine tests/script
 *     build/tests/script --kernel tests/script/open/active.pkt -v
 *
 * Each script runs in a process of its own, once for IPv4 and once for IPv6: a process
 * cannot leave its namespace, and a failed assertion of the engine ends one script, not
 * all.  The kernel runs in real time, and a busy machine is late.  So a script that
 * fails there gets two more tries, with few others beside it.
 */
#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "leave.h"
#include "base/clock.h"
#include "base/compiler.h"
#include "script.h"

#define JOBS_MAX 4096
#define SECONDS_MAX 100
#define SKIP 77
#define KERNEL_TOLERANCE_MS 30
#define ENGINE_TOLERANCE_MS 5

enum verdict { WAITS, RUNS, PASSED, FAILED, SKIPPED };

struct job {
	char *path;
	bool is_v6;
	enum verdict verdict;
	pid_t pid;
	FILE *out; /* what it says */
	bool is_not_yet;
};

static struct {
	bool is_kernel, is_loud, records, may_v4, may_v6;
	uint32_t tolerance_ms, n_parallel;
	const char *not_yet;
	struct job jobs[JOBS_MAX];
	uint32_t n_jobs;
} g = { .may_v4 = true, .may_v6 = true };

static const char help[] =
    "usage: script --engine|--kernel [options] FILE|FOLDER...\n"
    "Runs packet scripts (docs/scripts.md); exit status 0: all passed, 77: none ran.\n"
    "  --engine          over src/tcp, in virtual time\n"
    "  --kernel          over Linux behind a TUN, in a namespace of its own\n"
    "  -4, -6            for IPv4 alone, for IPv6 alone\n"
    "  -j N              so many at once (1; with --kernel 24)\n"
    "  --tolerance MS    how late or early a packet may be (5; with --kernel 30)\n"
    "  --not-yet FILE    scripts that must fail, one \"FOLDER/NAME: reason\" a line\n"
    "  -v                print each event as it is played\n"
    "  --record          print the script with what came out\n"
    "  --help            this\n";

/* --- one script --- */

static int run_on(const struct script *s, struct run_options *opt)
{
	struct backend_setting settings[SCRIPT_SETTINGS + 3] = {
		/* A window scale of 7, whatever the machine's setting is. */
		{ "tcp_rmem", "4096 131072 6291456" },
		{ "tcp_no_metrics_save", "1" },
		{ "tcp_congestion_control", "cubic" },
	};
	struct backend_config cfg = { .mtu = s->mtu + (opt->is_v6 ? 20 : 0),
				      .settings = settings,
				      .n_settings = 3 + s->n_settings };
	struct backend b;

	memcpy(settings + 3, s->settings, sizeof(s->settings));
	int err =
	    g.is_kernel ? backend_kernel(&b, &cfg) : backend_engine(&b, &cfg);

	if (err == -EPERM || err == -EACCES || err == -ENOENT ||
	    err == -ENODEV) {
		fprintf(opt->out, "no TUN, or no namespace: %s\n",
			strerror(-err));
		return SKIP;
	}
	if (err) {
		fprintf(opt->out, "%s: %s does not begin: %s\n", s->path,
			g.is_kernel ? "the kernel" : "the engine",
			strerror(-err));
		return 1;
	}
	bool is_good = script_run(s, &b, opt);
	b.ops->free(b.self);
	return !is_good;
}

static int run_script(const struct job *j, FILE *out)
{
	struct run_options opt = { .is_v6 = j->is_v6,
				   .is_loud = g.is_loud,
				   .records = g.records,
				   .is_real_time = g.is_kernel,
				   .out = out,
				   .tolerance_ns = g.tolerance_ms * NS_PER_MS };
	struct script *s = script_read(j->path, out);
	int status;

	if (!s)
		return 1;
	if ((g.is_kernel ? s->is_engine_only : s->is_kernel_only) ||
	    (s->is_v4_only && j->is_v6))
		status = SKIP;
	else
		status = run_on(s, &opt);
	script_free(s);
	return status;
}

/* --- all of them --- */

static void job_start(struct job *j)
{
	if (!j->out)
		j->out = tmpfile();
	if (!j->out)
		abort();
	rewind(j->out);
	if (ftruncate(fileno(j->out), 0))
		abort();
	fflush(NULL);
	j->verdict = RUNS;
	j->pid = fork();
	if (j->pid < 0)
		abort();
	if (j->pid)
		return;
	alarm(SECONDS_MAX);
	dup2(fileno(j->out), STDERR_FILENO);
	int status = run_script(j, j->out);
	fflush(j->out);
	leave(status);
}

static void job_end(pid_t pid, int status)
{
	for (uint32_t i = 0; i < g.n_jobs; i++) {
		struct job *j = &g.jobs[i];

		if (j->pid != pid || j->verdict != RUNS)
			continue;
		if (WIFSIGNALED(status))
			fprintf(j->out, "%s: ended by signal %d (%s)\n",
				j->path, WTERMSIG(status),
				strsignal(WTERMSIG(status)));
		j->verdict = WIFEXITED(status) && !WEXITSTATUS(status) ? PASSED
			     : WIFEXITED(status) && WEXITSTATUS(status) == SKIP
				 ? SKIPPED
				 : FAILED;
	}
}

static void run_jobs(uint32_t n_parallel)
{
	uint32_t next = 0, n_running = 0;
	int status;

	for (;;) {
		while (next < g.n_jobs && n_running < n_parallel) {
			struct job *j = &g.jobs[next++];

			if (j->verdict != WAITS)
				continue;
			job_start(j);
			n_running++;
		}
		if (!n_running)
			return;
		pid_t pid = wait(&status);
		if (pid < 0)
			abort();
		job_end(pid, status);
		n_running--;
	}
}

/* The kernel runs in real time, so try again those that failed. */
static void run_late_again(void)
{
	for (unsigned again = 0; again < 2; again++) {
		for (uint32_t i = 0; i < g.n_jobs; i++)
			if (g.jobs[i].verdict == FAILED)
				g.jobs[i].verdict = WAITS;
		run_jobs(4);
	}
}

/* --- which --- */

static void add_job(const char *path, bool is_v6)
{
	if (g.n_jobs == JOBS_MAX)
		abort();
	struct job *j = &g.jobs[g.n_jobs++];
	j->path = strdup(path);
	j->is_v6 = is_v6;
}

static int is_wanted(const struct dirent *d)
{
	size_t n = strlen(d->d_name);

	return d->d_name[0] != '.' &&
	       (!strchr(d->d_name, '.') ||
		(n > 4 && !strcmp(d->d_name + n - 4, ".pkt")));
}

static void add_path(const char *path, unsigned depth)
{
	struct stat st;
	struct dirent **list;
	char name[4096];

	if (stat(path, &st)) {
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
		exit(2);
	}
	if (!S_ISDIR(st.st_mode)) {
		if (g.may_v4)
			add_job(path, false);
		if (g.may_v6)
			add_job(path, true);
		return;
	}
	int n = depth > 4 ? 0 : scandir(path, &list, is_wanted, alphasort);
	for (int i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "%s/%s", path, list[i]->d_name);
		add_path(name, depth + 1);
		free(list[i]);
	}
	if (n > 0)
		free(list);
}

static bool ends_with(const char *path, const char *end, size_t n)
{
	size_t len = strlen(path);

	return len > n && path[len - n - 1] == '/' &&
	       !strncmp(path + len - n, end, n);
}

/* Marks the scripts that a file lists; a line without a script is an error. */
static bool read_not_yet(const char *path)
{
	FILE *f = fopen(path, "re");
	char line[512];
	bool is_good = true;

	if (!f) {
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
		return false;
	}
	while (fgets(line, sizeof(line), f)) {
		const char *colon = strchr(line, ':');
		bool is_known = false;

		if (line[0] == '#' || line[0] == '\n')
			continue;
		for (uint32_t i = 0; colon && i < g.n_jobs; i++)
			if (ends_with(g.jobs[i].path, line,
				      (size_t)(colon - line)))
				is_known = g.jobs[i].is_not_yet = true;
		if (!is_known)
			fprintf(stderr, "%s names no script: %s", path, line);
		is_good = is_good && is_known;
	}
	fclose(f);
	return is_good;
}

/* --- the end --- */

static void print_said(struct job *j)
{
	char buf[4096];
	size_t n;

	rewind(j->out);
	while ((n = fread(buf, 1, sizeof(buf), j->out)) > 0)
		fwrite(buf, 1, n, stdout);
}

/* Whether the script is known to fail with both IPv4 and IPv6. */
static bool is_expected(const struct job *j)
{
	bool fails = j->verdict == FAILED;

	for (uint32_t i = 0; i < g.n_jobs; i++)
		if (!strcmp(g.jobs[i].path, j->path))
			fails = fails || g.jobs[i].verdict == FAILED;
	if (j->is_not_yet && !fails)
		printf("%s passes: take it from %s\n", j->path, g.not_yet);
	return j->is_not_yet ? fails : j->verdict != FAILED;
}

static int tell(void)
{
	uint32_t n[SKIPPED + 1] = { 0 }, n_wrong = 0, n_not_yet = 0;

	for (uint32_t i = 0; i < g.n_jobs; i++) {
		struct job *j = &g.jobs[i];
		bool is_good = is_expected(j);

		n[j->verdict]++;
		n_wrong += !is_good;
		n_not_yet += j->verdict == FAILED && j->is_not_yet;
		if (!is_good || g.is_loud)
			print_said(j);
	}
	if (n[SKIPPED] == g.n_jobs && g.n_jobs)
		print_said(&g.jobs[0]);
	if (g.records)
		return n_wrong != 0;
	printf("%s: %u passed, %u failed (%u of them are in the list), "
	       "%u skipped\n",
	       g.is_kernel ? "kernel" : "engine", n[PASSED], n[FAILED],
	       n_not_yet, n[SKIPPED]);
	return n_wrong ? 1 : n[PASSED] ? 0 : SKIP;
}

static bool read_options(int argc, char **argv)
{
	static const struct option names[] = {
		{ "engine", 0, NULL, 'e' },    { "kernel", 0, NULL, 'k' },
		{ "tolerance", 1, NULL, 't' }, { "not-yet", 1, NULL, 'n' },
		{ "record", 0, NULL, 'r' },    { "help", 0, NULL, 'h' },
		{ NULL, 0, NULL, 0 }
	};
	bool is_chosen = false;
	int ch;

	while ((ch = getopt_long(argc, argv, "46j:v", names, NULL)) != -1)
		switch (ch) {
		case 'e':
		case 'k':
			is_chosen = true;
			g.is_kernel = ch == 'k';
			break;
		case '4':
			g.may_v6 = false;
			break;
		case '6':
			g.may_v4 = false;
			break;
		case 'j':
			g.n_parallel = (uint32_t)atoi(optarg);
			break;
		case 't':
			g.tolerance_ms = (uint32_t)atoi(optarg);
			break;
		case 'n':
			g.not_yet = optarg;
			break;
		case 'r':
			g.records = g.is_loud = true;
			break;
		case 'v':
			g.is_loud = true;
			break;
		case 'h':
			fputs(help, stdout);
			exit(0);
		default:
			return false;
		}
	return is_chosen && optind < argc;
}

int main(int argc, char **argv)
{
	if (!read_options(argc, argv)) {
		fputs(help, stderr);
		return 2;
	}
	for (int i = optind; i < argc; i++)
		add_path(argv[i], 0);
	if (g.not_yet && !read_not_yet(g.not_yet))
		return 1;
	if (!g.tolerance_ms)
		g.tolerance_ms =
		    g.is_kernel ? KERNEL_TOLERANCE_MS : ENGINE_TOLERANCE_MS;
	run_jobs(g.n_parallel ? g.n_parallel : g.is_kernel ? 24 : 1);
	if (g.is_kernel)
		run_late_again();
	return tell();
}
