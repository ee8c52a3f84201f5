/* SPDX-License-Identifier: MIT */
/* tests/app/calls_pass.c - scenarios: listeners and connections that come to
 * another program through exec(), a unix socket or a pidfd (see calls_part.h) */
#include "calls_part.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

/* --- listeners --- */

PART(accept)
{
	if (argc < 3)
		return 2;
	struct ctx x = { .got = strtoull(argv[2], NULL, 10) };
	const char *fds = getenv("LISTEN_FDS"), *pid = getenv("LISTEN_PID");
	out(" fds=%s mine=%d", fds ? fds : "-",
	    pid && strtol(pid, NULL, 10) == getpid());
	x.sent = x.got;
	for (int i = 0; i < 2; i++) {
		x.fd = accept(atoi(argv[1]), NULL, NULL);
		for (int k = 0; k < 30; k++) {
			long r = recv(x.fd, buf, n(16), MSG_WAITALL);
			got(&x, buf, r);
			if (r != 16 || send(x.fd, buf, n(16), 0) != 16)
				out(" BROKEN");
		}
		play(&x, "ec");
	}
	return 0;
}

/* As systemd starts servers at their first connection. */
static void activated(struct ctx *x, bool is_bare)
{
	int port = 0, listener = listener_at(&port, false);
	struct words w;
	char text[16];

	far_do(x, FAR_CLOSE, 0);
	far_res(x, "connect", FAR_CONNECT, (long)port << 16 | 4);
	pid_t pid = fork();
	if (!pid) {
		child_begins();
		report_keep();
		dup2(listener, 3);
		snprintf(text, sizeof(text), "%d", getpid());
		setenv("LISTEN_FDS", "1", 1);
		setenv("LISTEN_PID", text, 1);
		part_words(&w, "accept");
		word(&w, "3");
		word(&w, "%llu", (unsigned long long)x->sent);
		execve(w.argv[0], w.argv, environment(is_bare));
		_exit(7);
	}
	close(listener);
	for (int i = 0; i < 2; i++) {
		for (int k = 0; k < 30; k++) {
			far_do(x, FAR_SEND, 16);
			if (far_do(x, FAR_RECV, 16) != 16)
				out(" FAR");
		}
		far_do(x, FAR_CLOSE, 0);
		if (!i)
			far_do(x, FAR_CONNECT, (long)port << 16 | 4);
	}
	child_ended(pid, "child");
}

SCENARIO(process_activation) { activated(x, false); }
SCENARIO(process_activation_bare) { activated(x, true); }

/* --- passed descriptors --- */

PART(receive)
{
	if (argc < 5)
		return 2;
	struct ctx x = { .fd = passthrough_fd(atoi(argv[1])),
			 .got = strtoull(argv[3], NULL, 10),
			 .sent = strtoull(argv[4], NULL, 10) };
	play(&x, argv[2]);
	return 0;
}

static pid_t receiver_starts(struct ctx *x, int channel, const char *script,
			     bool is_bare)
{
	struct words w;
	pid_t pid = fork();

	if (pid)
		return pid;
	child_begins();
	report_keep();
	close(x->fd);
	inherit(channel);
	talk_words(&w, x, channel, script);
	snprintf(w.text[2], sizeof(w.text[2]), "receive");
	execve(w.argv[0], w.argv, environment(is_bare));
	_exit(7);
}

/* @keeps: the sender goes on using it; otherwise it closes it at once. */
static void passed(struct ctx *x, bool is_bare, bool keeps)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		return;
	play(x, "w60s100r10");
	pid_t pid = receiver_starts(x, pair[1], "r40w20r50r30w10", is_bare);
	close(pair[1]);
	pass_fd(pair[0], x->fd);
	if (!keeps)
		close(x->fd);
	wait_a_bit();
	wait_a_bit();
	far_do(x, FAR_SEND, 30);
	played(x, "r40w20r50r30w10");
	child_ended(pid, "child");
	play(x, keeps ? "f90s50r50w50f50cE" : "f90E");
}

SCENARIO(process_pass) { passed(x, false, false); }
SCENARIO(process_pass_bare) { passed(x, true, false); }
SCENARIO(process_pass_keep) { passed(x, false, true); }
SCENARIO(process_pass_keep_bare) { passed(x, true, true); }

/* The receiver was forked, so it has a library that knows the connection. */
SCENARIO(process_pass_to_fork)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		return;
	pid_t pid = fork();
	if (!pid) {
		child_begins();
		close(x->fd);
		x->fd = passthrough_fd(pair[1]);
		played(x, "w60r10");
		play(x, "r40w20r50");
		_exit(0);
	}
	play(x, "w60s100r10");
	pass_fd(pair[0], x->fd);
	played(x, "r40w20r50");
	child_ended(pid, "child");
	play(x, "f80s50r50w50f50cE");
}

SCENARIO(process_pass_to_oneself)
{
	int pair[2], old = x->fd;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		return;
	play(x, "w60s100r10");
	pass_fd(pair[0], old);
	play(x, "r10w10");
	x->fd = passthrough_fd(pair[1]);
	play(x, "r10w10l20r70r20");
	close(x->fd);
	x->fd = old;
	play(x, "w10f90s10r10cE");
}

/* Through a socket of our own, and no other descriptor is left meanwhile. */
static void pass_around(struct ctx *x)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		return;
	pass_fd(pair[0], x->fd);
	close(x->fd);
	x->fd = passthrough_fd(pair[1]);
	close(pair[0]);
	close(pair[1]);
}

SCENARIO(process_pass_around)
{
	play(x, "w60s100r10");
	for (int i = 0; i < 5; i++) {
		pass_around(x);
		play(x, "r10w10s20f5t20");
	}
}

SCENARIO(process_pass_after_far_shut)
{
	play(x, "w60s100r10");
	far_do(x, FAR_SHUT, SHUT_WR);
	settle(x, POLLRDHUP);
	pass_around(x);
	play(x, "r90ew20f80w30");
	RES("shutdown", shutdown(x->fd, SHUT_WR));
	play(x, "f30E");
}

SCENARIO(process_pass_after_near_shut)
{
	play(x, "w60s100r10");
	RES("shutdown", shutdown(x->fd, SHUT_WR));
	pass_around(x);
	play(x, "r90f60Es50r50l50r50");
	RES("send", send(x->fd, buf, n(10), MSG_NOSIGNAL));
	far_do(x, FAR_SHUT, SHUT_WR);
	play(x, "e");
}

SCENARIO(process_pass_after_far_close)
{
	play(x, "w60f60s100r10");
	far_do(x, FAR_CLOSE, 0);
	settle(x, POLLRDHUP);
	pass_around(x);
	play(x, "r90e");
	RES("shutdown", shutdown(x->fd, SHUT_WR));
}

/* Much is on the way in both directions. */
SCENARIO(process_pass_full)
{
	size_t total = fill_up(x);

	play(x, "s20000r10");
	pass_around(x);
	play(x, "r19990");
	long r = far_do(x, FAR_RECV, (long)total);
	out(" %s", r == (long)total ? "all-there" : "lost");
	play(x, "s50r50w50f50");
	RES("shutdown", shutdown(x->fd, SHUT_WR));
	play(x, "Es50r50");
}

/* The far end holds bytes back, behind others that are unread. */
SCENARIO(process_pass_held)
{
	play(x, "w60s100");
	far_do(x, FAR_SEND_MORE, 20);
	pass_around(x);
	play(x, "s30r150w20f80s10r10cE");
}

/* On the way, with no descriptor left, it stays open; then it is dropped. */
SCENARIO(process_pass_dropped)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		return;
	play(x, "w60s100r100");
	pass_fd(pair[0], x->fd);
	play(x, "cf60");
	close(pair[0]);
	close(pair[1]);
	play(x, "E");
}

static void nothing(int sig) {}

/* The far end falls back to the kernel, so a relay process has to carry the unread bytes.
 * Signals interrupt the calls that start the relay. */
SCENARIO(process_pass_under_signals)
{
	struct itimerval often = { .it_value.tv_usec = 30,
				   .it_interval.tv_usec = 40 },
			 never = { 0 };
	struct sigaction sa = { .sa_handler = nothing };
	bool right = true;

	sigaction(SIGALRM, &sa, NULL);
	for (int i = 0; i < 60 && right; i++) {
		x->fd = far_connects(x);
		turns(x, 10);
		far_do(x, FAR_SEND, 100);
		far_do(x, FAR_SEND_OOB, 0);
		setitimer(ITIMER_REAL, &often, NULL);
		pass_around(x);
		setitimer(ITIMER_REAL, &never, NULL);
		long r = recv(x->fd, buf, n(100), MSG_WAITALL);
		got(x, buf, r);
		right = r == 100;
		close(x->fd);
		far_do(x, FAR_CLOSE, 0);
	}
	out(" right=%d", right);
	x->fd = -1;
}

PART(accept_passthrough)
{
	if (argc < 3)
		return 2;
	struct ctx x = { .got = strtoull(argv[2], NULL, 10) };
	int listener = passthrough_fd(atoi(argv[1]));
	x.fd = accept(listener, NULL, NULL);
	x.sent = x.got;
	for (int k = 0; k < 30; k++) {
		long r = recv(x.fd, buf, n(16), MSG_WAITALL);
		got(&x, buf, r);
		if (r != 16 || send(x.fd, buf, n(16), 0) != 16)
			out(" BROKEN");
	}
	play(&x, "e");
	return 0;
}

static void pass_listener(struct ctx *x, bool is_bare)
{
	int pair[2], port = 0, listener = listener_at(&port, false);
	struct words w;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		return;
	far_do(x, FAR_CLOSE, 0);
	pid_t pid = fork();
	if (!pid) {
		child_begins();
		report_keep();
		inherit(pair[1]);
		part_words(&w, "accept_passthrough");
		word(&w, "%d", pair[1]);
		word(&w, "%llu", (unsigned long long)x->sent);
		execve(w.argv[0], w.argv, environment(is_bare));
		_exit(7);
	}
	pass_fd(pair[0], listener);
	close(listener);
	far_do(x, FAR_CONNECT, (long)port << 16 | 4);
	for (int k = 0; k < 30; k++) {
		far_do(x, FAR_SEND, 16);
		if (far_do(x, FAR_RECV, 16) != 16)
			out(" FAR");
	}
	far_do(x, FAR_CLOSE, 0);
	child_ended(pid, "child");
}

SCENARIO(process_pass_listener) { pass_listener(x, false); }
SCENARIO(process_pass_listener_bare) { pass_listener(x, true); }

/* A debugger's way: it takes a copy out of a process that is not asked. */
#define STEAL_S 3 /* what the thief waits for is there, or never comes */

PART(steal)
{
	if (argc < 6)
		return 2;
	int owner = (int)syscall(SYS_pidfd_open, atoi(argv[5]), 0);
	errno = 0;
	int fd = (int)syscall(SYS_pidfd_getfd, owner, atoi(argv[1]), 0);
	if (fd < 0) {
		res("pidfd_getfd", fd);
		return 1;
	}
	struct ctx x = { .fd = fd,
			 .got = strtoull(argv[3], NULL, 10),
			 .sent = strtoull(argv[4], NULL, 10) };
	alarm(STEAL_S);
	play(&x, argv[2]);
	return 0;
}

/* Under the library the thief has the kernel connection, which is silent: the scenario ends
 * with the thief. */
SCENARIO(process_pidfd_getfd)
{
	struct words w;
	pid_t owner = getpid();

	play(x, "w60s100");
	pid_t pid = fork();
	if (!pid) {
		child_begins();
		report_keep();
		talk_words(&w, x, x->fd, "r40w20");
		snprintf(w.text[2], sizeof(w.text[2]), "steal");
		word(&w, "%d", owner);
		execve(w.argv[0], w.argv, environment(true));
		_exit(7);
	}
	played(x, "r40w20");
	if (child_ended(pid, "child"))
		play(x, "r60f80s10r10w10f10");
}

/* Under the library the thief is told, and nothing is lost. */
SCENARIO(process_pidfd_getfd_library)
{
	struct words w;

	play(x, "w60s100");
	pid_t owner = getpid(), pid = fork();
	if (!pid) {
		child_begins();
		report_keep();
		talk_words(&w, x, x->fd, "");
		snprintf(w.text[2], sizeof(w.text[2]), "steal");
		word(&w, "%d", owner);
		execve(w.argv[0], w.argv, environment(false));
		_exit(7);
	}
	child_ended(pid, "child");
	play(x, "r100f60s10r10w10f10");
}

/* Out of oneself it is a copy like others. */
SCENARIO(process_pidfd_getfd_own)
{
	int self = (int)syscall(SYS_pidfd_open, getpid(), 0);
	int old = x->fd;

	play(x, "w60s100r10");
	RES("flags", syscall(SYS_pidfd_getfd, self, old, 1));
	x->fd = (int)syscall(SYS_pidfd_getfd, self, old, 0);
	play(x, "r40w20");
	close(old);
	play(x, "r50f80s10r10w10f10");
	close(self);
}
