/* SPDX-License-Identifier: MIT */
/* tests/app/calls_vfork.c - scenarios: how long vfork() keeps the parent (see
 * calls_part.h) */
#include "calls_part.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* What the child of vfork() does before the parent goes on. */
enum vfork_end { VF_EXIT, VF_EXEC, VF_KILLED, VF_FORKS, VF_FAILS };

#define VF_CHILD_MS 100

static void vf_child(enum vfork_end how, int p[2], const struct words *w)
{
	usleep(VF_CHILD_MS * 1000);
	if (how == VF_KILLED)
		raise(SIGKILL);
	if (how == VF_FORKS && !fork()) {
		usleep(1500 * 1000); /* nobody waits for this one */
		_exit(0);
	}
	if (how == VF_FAILS)
		execve("/nowhere/at/all", (char **)w->argv, environ);
	if (write(p[1], "x", 1) != 1)
		_exit(1);
	if (how == VF_EXEC)
		execve(w->argv[0], (char **)w->argv, environ);
	_exit(5);
}

PART(sleeps)
{
	usleep(1500 * 1000);
	return 6;
}

static void vfork_waits(enum vfork_end how)
{
	long long start = ms_now();
	struct words w;
	int p[2], status;
	char byte;

	part_words(&w, "sleeps");
	if (pipe(p))
		return;
	set_nonblock(p[0]);
	on_signal(SIGALRM, 0);
	signal_after(VF_CHILD_MS / 4, 0); /* it waits for the parent to go on */
	pid_t pid = vfork();
	if (!pid)
		vf_child(how, p, &w);
	out(" before=%ld signals=%d", (long)read(p[0], &byte, 1), signals);
	took(start, VF_CHILD_MS);
	if (how == VF_EXEC) /* it is still there */
		out(" ended=%d", waitpid(pid, &status, WNOHANG) == pid);
	child_ended(pid, "child");
	close(p[0]);
	close(p[1]);
}

SCENARIO(process_vfork_waits_for_exit) { vfork_waits(VF_EXIT); }
SCENARIO(process_vfork_waits_for_exec) { vfork_waits(VF_EXEC); }
SCENARIO(process_vfork_waits_for_end) { vfork_waits(VF_KILLED); }
SCENARIO(process_vfork_waits_for_child_only) { vfork_waits(VF_FORKS); }
SCENARIO(process_vfork_waits_past_failure) { vfork_waits(VF_FAILS); }

SCENARIO(process_vfork_by_number)
{
	long long start = ms_now();
	pid_t pid =
	    (pid_t)syscall(SYS_clone, CLONE_VFORK | SIGCHLD, 0, 0, 0, 0);

	if (!pid) {
		usleep(VF_CHILD_MS * 1000);
		_exit(5);
	}
	took(start, VF_CHILD_MS);
	child_ended(pid, "child");
}

/* The children of the other threads live so long, if nobody ends them. */
#define OTHERS_MS 15000

static void *forks(void *arg)
{
	pid_t *pid = arg;

	*pid = fork();
	if (!*pid) {
		usleep(OTHERS_MS * 1000);
		_exit(0);
	}
	return NULL;
}

/* A child of another thread's keeps nobody waiting. */
SCENARIO(process_vfork_beside_fork)
{
	long long start = ms_now();
	pthread_t t[4];
	pid_t others[4];

	for (int i = 0; i < 4; i++)
		pthread_create(&t[i], NULL, forks, &others[i]);
	for (int i = 0; i < 20; i++) {
		pid_t pid = vfork();
		if (!pid)
			_exit(5);
		waitpid(pid, NULL, 0);
	}
	out(" waited=%d", ms_now() - start >= OTHERS_MS);
	for (int i = 0; i < 4; i++) {
		pthread_join(t[i], NULL);
		kill(others[i], SIGKILL);
	}
}

SCENARIO(process_vfork_stores)
{
	volatile int seen = 0;
	pid_t pid = vfork();

	if (!pid) {
		seen = 7;
		_exit(0);
	}
	child_ended(pid, "child");
	out(" seen=%d", seen);
}
