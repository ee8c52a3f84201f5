/* SPDX-License-Identifier: MIT */
/*
 * tools/osf/run.h - the parts of "osf run", some of which bench uses too
 */
#pragma once
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct run_args {
	char **cmd;         /* CMD and its arguments, NULL at the end */
	const char *lib;    /* --lib, or NULL */
	const char *log;    /* --log, or NULL */
	const char **rules; /* --rule, in order */
	size_t n_rules;
	const char *port; /* --port, or NULL */
	const char *user; /* --user, or NULL */
	bool wants_stats;
	bool is_strict;
};

/**
 * lib_find() - where libosf.so is
 * @given: a path that was asked for, or NULL to look in the usual places
 * @path: PATH_MAX bytes; an absolute path that LD_PRELOAD can carry
 *
 * Says on standard error what is wrong.
 *
 * Return: 0, -ENOENT, or -EINVAL for a path that cannot be preloaded.
 */
int lib_find(const char *given, char *path);

/* @lib, with the software RDMA device beside it if that was built, as LD_PRELOAD has them.
 * The caller frees the result. */
char *env_libraries(const char *lib);
bool env_has_verbs(const char *lib);

/* Adds @lib, and the software RDMA device beside it, in front of what LD_PRELOAD in the
 * environment holds. */
void env_preload(const char *lib);

/**
 * env_rules() - check all rules, and put those of @args into OSF_RULES
 *
 * Checks the configuration file, OSF_RULES as it was, then each --rule.
 *
 * Return: 0, or a negative errno after a complaint with line and column.
 */
int env_rules(const struct run_args *args);

/* Who CMD runs as. */
struct run_as {
	uid_t uid;
	gid_t gid;
	const char *name; /* NULL: the caller, as it is */
};

/* @name: NULL for the caller.  Return: 0, or a negative errno after a line why */
int run_user(const char *name, struct run_as *out);
/* In the child: become it.  Return: 0, or -EPERM after a line why */
int run_become(const struct run_as *as);

/* Makes @dev a port for CMD's user.  *@is_new: @dev was no port before.  Return: 0, or a
 * negative errno after a line that says why */
int run_port_begin(const char *dev, const struct run_as *as, bool *is_new);
void run_port_end(const char *dev, const struct run_as *as);

/* Fork, exec, wait: the exit status.  @path is what to execute. */
int run_and_wait(const char *path, char **cmd, const struct run_as *as);
/* The same, and print what the statistics say. */
int run_with_stats(const char *path, char **cmd, const struct run_as *as);

/* Executes @path, and returns the exit status that says why it could not. */
int run_exec(const char *path, char **cmd);
