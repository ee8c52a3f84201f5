/* SPDX-License-Identifier: MIT */
/*
 * tools/osf/osf.h - what the files of the command share
 *
 *     main.c -> cmd_run(), cmd_stat(), cmd_port(), cmd_tap(), cmd_rdma(), cmd_bench(),
 *               cmd_bench_peer()
 *
 * Each command takes its own argv (argv[0] is "osf run" and so on) and returns the exit
 * status of the process.  The command is one thread and short-lived.  It may use stdio.  If
 * there is no memory it ends (xcalloc() and friends), so no caller has to handle that.
 */
#pragma once
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifndef OSF_VERSION
#define OSF_VERSION "0.1"
#endif
#ifndef OSF_PREFIX_LIBDIR
#define OSF_PREFIX_LIBDIR "/usr/local/lib"
#endif

/* Exit statuses; those of run follow env(1), timeout(1) and nohup(1). */
enum {
	EXIT_USAGE = 2,         /* wrong arguments; run says 125 */
	EXIT_REFUSED = 125,     /* osf itself failed, CMD was not started */
	EXIT_CANNOT_EXEC = 126, /* CMD was found and cannot be executed */
	EXIT_NOT_FOUND = 127,   /* CMD was not found */
	EXIT_SIGNAL = 128,      /* plus the number of the signal */
};

int cmd_run(int argc, char **argv);
int cmd_stat(int argc, char **argv);
int cmd_port(int argc, char **argv);
int cmd_tap(int argc, char **argv);
int cmd_rdma(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_bench_peer(int argc, char **argv);
int cmd_vma_env(int argc, char **argv);

/* "osf: " in front, a newline behind, in one write to standard error. */
void complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* These end the process with EXIT_FAILURE when there is no memory. */
void *xcalloc(size_t n, size_t size);
void *xgrow(void *array, size_t n_used, size_t size); /* doubles at 2^k */
char *xstrdup(const char *s);
char *xasprintf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
char *xvasprintf(const char *fmt, va_list ap);

/* units.c - numbers for people; each fills @out and returns it */
struct unit_text {
	char s[32];
};
struct unit_text unit_bytes(uint64_t bytes);     /* "999", "1.2k", "34M" */
struct unit_text unit_count(uint64_t n);         /* the same */
struct unit_text unit_age(uint64_t age_ns);      /* "5s", "3m20s", "2d4h" */
struct unit_text unit_figure(double value);      /* four significant digits */
struct unit_text unit_clock(uint64_t wall_ns);   /* "14:03:59", local time */
struct unit_text unit_rfc3339(uint64_t wall_ns); /* UTC, milliseconds */
uint64_t now_wall_ns(void);
uint64_t now_ns(void); /* CLOCK_MONOTONIC */
