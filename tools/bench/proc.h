/* SPDX-License-Identifier: MIT */
/*
 * tools/bench/proc.h - the programs that a benchmark starts and always ends
 *
 * Each is the leader of a process group of its own, has a time limit, is ended
 * by its number and takes its children with it.  ^C stops waiting at once: then
 * everything returns -EINTR, and what was started is ended as usual.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <pwd.h>
#include <sys/types.h>

struct proc {
	pid_t pid; /* 0: not started, or reaped */
	int out;   /* its standard output, or -1 */
};
#define PROC_NONE ((struct proc){ .out = -1 })

struct proc_spec {
	const char *const *argv; /* searched along PATH, NULL at the end */
	const char *const *env;  /* "NAME=VALUE" sets, "NAME" unsets; or NULL */
	const int *cpus;         /* the CPUs that it may use */
	unsigned n_cpus;         /* 0: any */
	const int *netns;        /* a network namespace; NULL: ours */
	const struct passwd *user; /* becomes this user; NULL: stays ours */
	bool wants_output;         /* standard output is for proc_output() */
	bool is_loud;              /* standard error is ours, else nowhere */
};

/* SIGINT, SIGTERM and SIGHUP interrupt from now on, instead of killing. */
void proc_catch_signals(void);
bool proc_is_interrupted(void);

/* Return: 0 or a negative errno.  If the program is missing, that shows later, as exit
 * status 127. */
int proc_start(struct proc *p, const struct proc_spec *spec);

/**
 * proc_output() - all that a process prints until it ends
 * @text: NUL terminated; the caller's to free(), NULL on error
 *
 * Return: 0, -ETIMEDOUT, -EINTR, -EMSGSIZE for far too much text, or -ECHILD
 * when the exit status was not 0.  In any case the process is gone.
 */
int proc_output(struct proc *p, double timeout_s, char **text);

/* SIGTERM, a while later SIGKILL, to the process and its children.  Takes
 * PROC_NONE and an ended process too. */
void proc_stop(struct proc *p);

/* Waits until TCP port @port of @p's network namespace has a listener: 0, -ETIMEDOUT,
 * -EINTR, or -ECHILD when @p has ended instead. */
int proc_wait_listening(const struct proc *p, unsigned port, double timeout_s);

/* A port of 127.0.0.1 that nobody uses now, or a negative errno. */
int port_free(void);

/* Is there such a program along PATH? */
bool program_exists(const char *name);
