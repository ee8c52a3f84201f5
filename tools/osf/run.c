/* SPDX-License-Identifier: MIT */
/*
 * tools/osf/run.c - "osf run": start a program with libosf.so preloaded
 *
 *     arguments -> library, rules, program checked -> environment -> exec
 *
 * osf run reports every error that it can find before CMD starts, so that a rule with a
 * typing error does not quietly leave a program on the kernel.  Then osf becomes CMD by
 * exec: same pid, parent, terminal and exit status.  With --stats it stays as the parent
 * (run_stats.c), and with --port, too (run_port.c).
 *
 * A program that cannot be preloaded runs on the kernel, after one line that says so; with
 * --strict it does not run.
 */
#include "osf.h"
#include "run.h"
#include "program.h"
#include "scratch.h"
#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	OPT_RULE = 'r',
	OPT_STATS = 's',
	OPT_PORT = 'p',
	OPT_USER = 'u',
	OPT_LIB = 256,
	OPT_LOG,
	OPT_STRICT
};

static const struct argp_option options[] = {
	{ "rule", OPT_RULE, "RULE", 0,
	  "Add a rule, as in osf.conf: \"use os tcp_client *:443\"; "
	  "may be given more than once",
	  0 },
	{ "stats", OPT_STATS, NULL, 0,
	  "When CMD has ended, say on standard error what was offloaded", 0 },
	{ "port", OPT_PORT, "DEV", 0,
	  "Connections to other hosts over DEV run over osf's own TCP; needs "
	  "root",
	  0 },
	{ "user", OPT_USER, "USER", 0, "With --port: run CMD as USER", 0 },
	{ "log", OPT_LOG, "LEVEL", 0, "What to log: err, warn, info or dbg",
	  0 },
	{ "lib", OPT_LIB, "PATH", 0, "The libosf.so to preload", 0 },
	{ "strict", OPT_STRICT, NULL, 0,
	  "Do not start a CMD that cannot be offloaded", 0 },
	{ 0 },
};

static bool is_log_level(const char *s)
{
	return strcmp(s, "err") == 0 || strcmp(s, "warn") == 0 ||
	       strcmp(s, "info") == 0 || strcmp(s, "dbg") == 0;
}

static error_t parse_opt(int key, char *arg, struct argp_state *state)
{
	struct run_args *a = state->input;

	switch (key) {
	case OPT_RULE:
		a->rules = xgrow(a->rules, a->n_rules, sizeof(*a->rules));
		a->rules[a->n_rules++] = arg;
		return 0;
	case OPT_STATS:
		a->wants_stats = true;
		return 0;
	case OPT_LOG:
		if (!is_log_level(arg))
			argp_error(state,
				   "--log is err, warn, info or dbg, "
				   "not '%s'",
				   arg);
		a->log = arg;
		return 0;
	case OPT_PORT:
		a->port = arg;
		return 0;
	case OPT_USER:
		a->user = arg;
		return 0;
	case OPT_LIB:
		a->lib = arg;
		return 0;
	case OPT_STRICT:
		a->is_strict = true;
		return 0;
	case ARGP_KEY_ARG:
		a->cmd = &state->argv[state->next - 1];
		state->next = state->argc;
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "no command to run was given");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {
	.options = options,
	.parser = parse_opt,
	.args_doc = "[--] CMD [ARGS]",
	.doc = "Run CMD with its TCP sockets offloaded wherever that is "
	       "possible.\v"
	       "The exit status is CMD's, or 125 when osf itself fails, 126 "
	       "when CMD cannot be executed, 127 when it cannot be found.",
};

/* One element of PATH and a name: 0 when that can be executed. */
static int try_path(const char *dir, size_t dir_len, const char *name,
		    char *path)
{
	struct stat st;
	const char *slash = dir_len ? "/" : "";

	int n = snprintf(path, PATH_MAX, "%.*s%s%s", (int)dir_len, dir, slash,
			 name);
	if (n < 0 || n >= PATH_MAX)
		return -ENAMETOOLONG;
	if (stat(path, &st) < 0)
		return -errno;
	if (S_ISDIR(st.st_mode))
		return -EISDIR;
	return eaccess(path, X_OK) < 0 ? -errno : 0;
}

/* Looks for a command as execvp(3) does: a name without a slash in each directory of PATH.
 * If a file there may not be executed, the search goes on, and reports it if it finds no
 * other. */
static int find_command(const char *name, char *path)
{
	const char *dirs = getenv("PATH");
	int err = -ENOENT;

	if (strchr(name, '/') || !*name)
		return try_path("", 0, name, path);
	if (!dirs)
		dirs = "/bin:/usr/bin";

	for (;;) {
		size_t len = strcspn(dirs, ":");
		const char *dir = len ? dirs : ".";
		int e = try_path(dir, len ? len : 1, name, path);

		if (e == 0)
			return 0;
		if (e == -EACCES && access(path, F_OK) == 0)
			err = e; /* it is there */
		if (!dirs[len])
			return err;
		dirs += len + 1;
	}
}

/* The line that says why a command was not run, and its exit status. */
static int cannot_run(const char *name, int err)
{
	if (err == -ENOENT || err == -ENOTDIR) {
		complain("%s: command not found", name);
		return EXIT_NOT_FOUND;
	}
	complain("%s: cannot be executed: %s", name, strerror(-err));
	return EXIT_CANNOT_EXEC;
}

int run_exec(const char *path, char **cmd)
{
	execvp(path, cmd); /* has a slash: no search, but /bin/sh on ENOEXEC */

	int err = -errno;
	if (err == -ENOENT) {
		complain("%s: cannot be executed: its interpreter is missing",
			 cmd[0]);
		return EXIT_CANNOT_EXEC;
	}
	return cannot_run(cmd[0], err);
}

/* Sets LD_PRELOAD, unless the program is of another class or machine than the library.  If
 * the program is static or gains privileges, LD_PRELOAD does no harm to it, and reaches its
 * children. */
static int preload_into(const struct run_args *a, const char *path,
			const char *lib)
{
	char why[ELF_WHY_MAX];
	enum elf_verdict v = elf_examine(path, lib, why);

	if (v != ELF_MAY_PRELOAD) {
		complain("%s cannot be %s because %s; %s", path,
			 v == ELF_IS_RAW ? "offloaded" : "preloaded", why,
			 a->is_strict ? "not started (--strict)"
				      : "it runs on the kernel");
		if (a->is_strict)
			return -ENOEXEC;
	}
	if (v != ELF_IS_FOREIGN)
		env_preload(lib);
	return 0;
}

/* With a port somebody has to be there when CMD has ended. */
static int run_cmd(const struct run_args *a, const char *path)
{
	struct run_as as = { 0 };
	bool is_new = false;

	if (a->user && !a->port) {
		complain("run: --user goes with --port");
		return EXIT_REFUSED;
	}
	if (a->port &&
	    (run_user(a->user, &as) || run_port_begin(a->port, &as, &is_new)))
		return EXIT_REFUSED;
	if (!a->port && !a->wants_stats)
		return run_exec(path, a->cmd);
	int status = a->wants_stats ? run_with_stats(path, a->cmd, &as)
				    : run_and_wait(path, a->cmd, &as);
	if (is_new)
		run_port_end(a->port, &as);
	return status;
}

int cmd_run(int argc, char **argv)
{
	struct run_args a = { 0 };
	char lib[PATH_MAX], path[PATH_MAX];

	argp_err_exit_status = EXIT_REFUSED;
	argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &a);
	scratch_sweep();

	int err = env_rules(&a);
	free(a.rules);
	if (err || lib_find(a.lib, lib) < 0)
		return EXIT_REFUSED;

	err = find_command(a.cmd[0], path);
	if (err)
		return cannot_run(a.cmd[0], err);
	if (preload_into(&a, path, lib) < 0)
		return EXIT_REFUSED;
	if (a.log && setenv("OSF_LOG", a.log, 1) < 0)
		return EXIT_REFUSED;

	return run_cmd(&a, path);
}
