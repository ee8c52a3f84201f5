/* SPDX-License-Identifier: MIT */
/*
 * tools/osf/run_stats.c - "osf run --stats": wait for CMD, then sum up
 *
 *     fork -> CMD, with OSF_STATS_DIR naming a fresh directory
 *     wait, passing signals on -> read the segments -> summary -> status
 *
 * CMD stays in our process group, so that to the shell the two are one job:
 * what is typed at the terminal (^C, ^Z) reaches CMD by itself, and only
 * signals that a process sent to us alone are passed on.
 */
#include "osf.h"
#include "run.h"
#include "scratch.h"
#include "seg.h"
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const int passed_on[] = { SIGINT,  SIGTERM, SIGHUP,
				 SIGQUIT, SIGUSR1, SIGUSR2 };

static void wanted_signals(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGCHLD);
	for (size_t i = 0; i < sizeof(passed_on) / sizeof(*passed_on); i++)
		sigaddset(set, passed_on[i]);
}

/* Returns CMD's wait status once it has ended. */
static int wait_for(pid_t pid, const sigset_t *set)
{
	siginfo_t info;
	int status;

	for (;;) {
		if (waitpid(pid, &status, WNOHANG) == pid)
			return status;
		int sig = sigwaitinfo(set, &info);
		if (sig > 0 && sig != SIGCHLD && info.si_code <= 0 &&
		    info.si_pid != pid)
			kill(pid, sig); /* from a process, not the terminal */
	}
}

static void print_reasons(const struct seg_sums *sums)
{
	for (unsigned i = 0; i < OSF_REASONS; i++) {
		if (i == OSF_REASON_NONE || i == OSF_REASON_UPGRADED ||
		    i == OSF_REASON_LISTENER || !sums->t.n_reason[i])
			continue;
		complain("  %s on the kernel: %s",
			 unit_count(sums->t.n_reason[i]).s, seg_reason_text(i));
	}
}

static void print_summary(const struct seg_sums *sums, size_t n_segs)
{
	const struct osf_stats_totals *t = &sums->t;

	if (n_segs == 0) {
		complain("no process ran under osf");
		return;
	}
	complain("%zu process%s: %s opened, %s accepted, %s upgraded"
		 ", %s fell back",
		 n_segs, n_segs == 1 ? "" : "es", unit_count(t->n_connected).s,
		 unit_count(t->n_accepted).s, unit_count(t->n_upgraded).s,
		 unit_count(t->n_fallbacks).s);
	complain("bytes over shm: %s in, %s out; over the kernel: %s%s in, "
		 "%s out",
		 unit_bytes(t->rx_bytes_shm).s, unit_bytes(t->tx_bytes_shm).s,
		 t->n_uncounted ? "at least " : "",
		 unit_bytes(t->rx_bytes_inet).s,
		 unit_bytes(t->tx_bytes_inet).s);
	if (t->n_broken)
		complain("%s reset because the peer broke the segment",
			 unit_count(t->n_broken).s);
	if (t->n_raw)
		complain("%s of the processes made system calls past the C "
			 "library (Go), and what they did is not here",
			 unit_count(t->n_raw).s);
	print_reasons(sums);
}

static pid_t start_child(const char *path, char **cmd, const struct run_as *as,
			 const sigset_t *mask, const struct sigaction *old_chld)
{
	pid_t pid = fork();

	if (pid == 0) {
		sigaction(SIGCHLD, old_chld, NULL);
		sigprocmask(SIG_SETMASK, mask, NULL);
		_exit(run_become(as) ? EXIT_REFUSED : run_exec(path, cmd));
	}
	return pid;
}

int run_and_wait(const char *path, char **cmd, const struct run_as *as)
{
	struct sigaction chld = { .sa_handler = SIG_DFL }, old_chld;
	sigset_t set, mask;

	wanted_signals(&set);
	sigaction(SIGCHLD, &chld, &old_chld); /* ignored, it never comes */
	sigprocmask(SIG_BLOCK, &set, &mask);

	pid_t pid = start_child(path, cmd, as, &mask, &old_chld);
	if (pid < 0) {
		complain("cannot fork: %s", strerror(errno));
		return EXIT_REFUSED;
	}
	int status = wait_for(pid, &set);
	return WIFSIGNALED(status) ? EXIT_SIGNAL + WTERMSIG(status)
				   : WEXITSTATUS(status);
}

int run_with_stats(const char *path, char **cmd, const struct run_as *as)
{
	struct scratch dir = { 0 };
	size_t n_segs;

	int err = scratch_open(&dir);
	if (!err && as->name && chown(dir.path, as->uid, as->gid) < 0)
		err = -errno;
	if (err || setenv("OSF_STATS_DIR", dir.path, 1) < 0) {
		complain("cannot make a directory for the statistics: %s",
			 strerror(-err));
		scratch_close(&dir);
		return EXIT_REFUSED;
	}
	int status = run_and_wait(path, cmd, as);
	struct seg_sums sums = seg_dir_sums(dir.path, &n_segs);

	print_summary(&sums, n_segs);
	scratch_close(&dir);
	return status;
}
