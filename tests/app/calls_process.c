/* SPDX-License-Identifier: MIT */
/* tests/app/calls_process.c - scenarios: a connection in several processes, by
 * fork and its kin, and servers made of several (see calls_part.h) */
#include "calls_part.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- two processes, one connection --- */

SCENARIO(process_fork_both)
{
	play(x, "w60s100");
	child_plays(x, "r40w20");
	play(x, "r60w20s50");
	child_plays(x, "w30r20");
	play(x, "r30f130s10r10w10f10");
}

/* Neither ends before the other has used it again. */
SCENARIO(process_fork_by_turns)
{
	int to[2], from[2];
	char byte;

	if (pipe(to) || pipe(from))
		return;
	play(x, "w60s100");
	pid_t pid = fork();
	if (!pid) {
		child_begins();
		for (int i = 0; i < 3; i++) {
			if (read(to[0], &byte, 1) != 1)
				_exit(1);
			play(x, "r10w10");
			played(x, "r10w10"); /* the parent's */
			if (write(from[1], &byte, 1) != 1)
				_exit(1);
		}
		_exit(0);
	}
	for (int i = 0; i < 3; i++) {
		if (write(to[1], "x", 1) != 1 || read(from[0], &byte, 1) != 1)
			out(" CHILD-GONE");
		played(x, "r10w10");
		play(x, "r10w10");
	}
	child_ended(pid, "child");
	play(x, "r40f120s500r500w500f500");
}

/* What the parent sets while the child has the connection, too, stays set. */
SCENARIO(process_fork_options)
{
	struct timeval soon = { .tv_usec = 1000 };
	int hold[2];
	char byte;

	if (pipe(hold))
		return;
	play(x, "w60s100r100");
	pid_t pid = fork();
	if (!pid) {
		child_begins();
		close(hold[1]);
		_exit(read(hold[0], &byte, 1) != 0);
	}
	RES("nonblock", fcntl(x->fd, F_SETFL, O_NONBLOCK));
	RES("shared", recv(x->fd, &byte, 1, 0));
	RES("block", fcntl(x->fd, F_SETFL, 0));
	RES("timeout",
	    setsockopt(x->fd, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof(soon)));
	RES("shared", recv(x->fd, &byte, 1, 0));
	RES("nonblock", fcntl(x->fd, F_SETFL, O_NONBLOCK));
	close(hold[0]);
	close(hold[1]);
	child_ended(pid, "child");
	RES("alone", recv(x->fd, &byte, 1, 0));
}

SCENARIO(process_fork_generations)
{
	play(x, "w60s100");
	pid_t pid = fork();
	if (!pid) {
		child_begins();
		play(x, "r10w10");
		child_plays(x, "r10w10");
		child_plays(x, "r10w10");
		play(x, "r10w10");
		_exit(0);
	}
	played(x, "r40w40");
	child_ended(pid, "child");
	play(x, "r60f100s5000r5000w5000f5000");
}

SCENARIO(process_fork_many)
{
	play(x, "w60s100");
	for (int i = 0; i < 8; i++)
		child_plays(x, "r10w10");
	play(x, "r20f140cE");
}

SCENARIO(process_fork_parent_closes)
{
	int gate[2];
	char byte;

	if (pipe(gate))
		return;
	play(x, "w60s100");
	pid_t pid = fork();
	if (!pid) {
		child_begins();
		close(gate[1]);
		if (read(gate[0], &byte, 1))
			_exit(1);
		play(x, "r100w40l30r30w10");
		_exit(0);
	}
	play(x, "c");
	close(gate[1]);
	child_ended(pid, "child");
	play(x, "f110E");
}

SCENARIO(process_fork_child_closes)
{
	play(x, "w60s100");
	child_plays(x, "r10w10c");
	play(x, "r90w10f80");
	pid_t pid = fork();
	if (!pid) {
		child_begins();
		RES("shutdown", shutdown(x->fd, SHUT_WR));
		_exit(0);
	}
	child_ended(pid, "child");
	play(x, "Es50r50");
	RES("send", send(x->fd, buf, n(10), MSG_NOSIGNAL));
}

/* Both ends of a connection come over into the child, and stay apart. */
SCENARIO(process_fork_two_connections)
{
	int old = x->fd;

	play(x, "w60s100r50f60");
	x->fd = far_connects(x);
	x->got += 50; /* the far end has sent them on the other */
	play(x, "t30w60s100");
	child_plays(x, "r60w20");
	play(x, "r40f80");
	uint64_t off = x->got;
	x->got = off - 480 - 100 - 50;
	RES("old", recv(old, buf, n(50), 0));
	got(x, buf, 50);
}

static void *receives_later(void *p)
{
	play(p, "r16");
	return NULL;
}

SCENARIO(process_fork_in_recv)
{
	struct ctx other = *x;
	pthread_t t;

	play(x, "w60");
	pthread_create(&t, NULL, receives_later, &other);
	usleep(30000);
	child_plays(x, "w20");
	play(x, "f80s16");
	pthread_join(t, NULL);
	x->got += 16;
	play(x, "w10f10s10r10");
}

SCENARIO(process_fork_in_epoll)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLRDHUP };
	int ep = epoll_create1(EPOLL_CLOEXEC);

	epoll_ctl(ep, EPOLL_CTL_ADD, x->fd, &ev);
	play(x, "w60s100");
	RES("epoll", epoll_wait(ep, &ev, 1, -1));
	child_plays(x, "r100w20");
	RES("epoll", epoll_wait(ep, &ev, 1, 0));
	play(x, "s40");
	pid_t pid = fork();
	if (!pid) {
		child_begins();
		RES("epoll", epoll_wait(ep, &ev, 1, -1));
		bits("events", (int)ev.events);
		play(x, "r20");
		_exit(0);
	}
	played(x, "r20");
	child_ended(pid, "child");
	RES("epoll", epoll_wait(ep, &ev, 1, -1));
	play(x, "r20");
	RES("epoll", epoll_wait(ep, &ev, 1, 0));
	play(x, "f80s10r10w10f10");
}

/* --- other ways to fork --- */

static void forked_plays(struct ctx *x, pid_t pid)
{
	if (pid < 0) {
		out(" NO-FORK");
		return;
	}
	if (!pid) {
		alarm(CHILD_S);
		play(x, "r40w20");
		_exit(0);
	}
	played(x, "r40w20");
	child_ended(pid, "child");
	play(x, "r60w20f100s10r10w10f10");
}

SCENARIO(process_fork_bare)
{
	play(x, "w60s100");
	forked_plays(x, _Fork());
}

SCENARIO(process_fork_clone)
{
	play(x, "w60s100");
	forked_plays(x, (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
}

SCENARIO(process_fork_syscall)
{
	play(x, "w60s100");
	forked_plays(x, (pid_t)syscall(SYS_fork));
}

SCENARIO(process_daemon)
{
	int gone[2];
	char byte;

	if (pipe(gone))
		return;
	play(x, "w60s100");
	pid_t pid = fork();
	if (!pid) {
		child_begins();
		if (daemon(1, 1))
			_exit(1);
		alarm(CHILD_S);
		play(x, "r40w20");
		_exit(0);
	}
	played(x, "r40w20");
	close(gone[1]);
	RES("daemon", read(gone[0], &byte, 1));
	child_ended(pid, "starter");
	play(x, "r60w20f100s10r10w10f10");
}

/* --- servers --- */

static long far_talks(struct ctx *x, int count)
{
	for (int i = 0; i < count; i++) {
		long r = far_do(x, FAR_SEND, 16);
		if (r == 16)
			r = far_do(x, FAR_RECV, 16);
		if (r != 16)
			return r;
	}
	return count;
}

/* Echoes until the end of one connection after the other. */
static void serve(int listener, int n_conns)
{
	char part[64];

	while (n_conns--) {
		int fd = accept(listener, NULL, NULL);
		ssize_t r;

		while ((r = recv(fd, part, sizeof(part), 0)) > 0)
			if (send(fd, part, (size_t)r, MSG_NOSIGNAL) != r)
				_exit(1);
		close(fd);
		if (fd < 0)
			_exit(2);
	}
}

static pid_t server_starts(int listener, int n_conns)
{
	pid_t pid = fork();

	if (!pid) {
		child_begins();
		serve(listener, n_conns);
		_exit(0);
	}
	return pid;
}

static void far_visits(struct ctx *x, int port)
{
	far_do(x, FAR_CLOSE, 0);
	far_res(x, "connect", FAR_CONNECT, (long)port << 16 | 4);
	out(" talked=%ld", far_talks(x, 25));
}

SCENARIO(process_child_accepts)
{
	int port = 0, listener = listener_at(&port, false);
	pid_t pid = server_starts(listener, 2);

	far_visits(x, port);
	far_visits(x, port);
	far_do(x, FAR_CLOSE, 0);
	child_ended(pid, "child");
	pid = server_starts(listener, 1);
	close(listener);
	far_visits(x, port);
	far_do(x, FAR_CLOSE, 0);
	child_ended(pid, "child");
}

static int open_fds(void)
{
	int n = 0;

	for (int fd = 0; fd < 65536; fd++)
		n += syscall(SYS_fcntl, fd, F_GETFD) >= 0;
	return n;
}

SCENARIO(process_child_serves)
{
	for (int i = 0; i < 2; i++) {
		x->fd = far_connects(x);
		far_do(x, FAR_SEND, 16);
		pid_t pid = fork();
		if (!pid) {
			child_begins();
			play(x, "r16w16t25w60s100r100f76");
			_exit(0);
		}
		played(x, "r16w16t25w60r100");
		close(x->fd);
		child_ended(pid, "child");
		play(x, "E");
	}
}

/* The parent has begun before the child goes on. */
SCENARIO(process_child_goes_on)
{
	x->fd = far_connects(x);
	play(x, "t25w60s100r10");
	pid_t pid = child_starts(x, "r90w60f120t10");
	close(x->fd);
	child_ended(pid, "child");
	play(x, "E");
}

/* What a process has given away leaves nothing open in it. */
SCENARIO(process_children_serve_all)
{
	int before = open_fds();

	for (int i = 0; i < 20; i++) {
		x->fd = far_connects(x);
		far_do(x, FAR_SEND, 16);
		pid_t pid = fork();
		if (!pid) {
			long r = recv(x->fd, buf, n(16), MSG_WAITALL);
			_exit(r == 16 && send(x->fd, buf, n(16), 0) == 16 ? 0
									  : 1);
		}
		close(x->fd);
		int status = -1;
		waitpid(pid, &status, 0);
		out("%s", status ? " BROKEN" : "");
		far_do(x, FAR_COUNT, 16);
		far_do(x, FAR_CLOSE, 0);
	}
	out(" %s", open_fds() - before < 10 ? "none-left" : "LEFT-OPEN");
	x->fd = -1;
}

SCENARIO(process_prefork)
{
	int port = 0, listener = listener_at(&port, false);
	pid_t pid[3];

	for (int i = 0; i < 3; i++)
		pid[i] = server_starts(listener, 100);
	for (int i = 0; i < 8; i++)
		far_visits(x, port);
	for (int i = 0; i < 3; i++) {
		kill(pid[i], SIGTERM);
		child_ended(pid[i], "child");
	}
}

SCENARIO(process_reuseport)
{
	int port = 0;
	pid_t pid[3];

	for (int i = 0; i < 3; i++) {
		int listener = listener_at(&port, true);
		pid[i] = server_starts(listener, 100);
		close(listener);
	}
	for (int i = 0; i < 8; i++)
		far_visits(x, port);
	for (int i = 0; i < 3; i++) {
		kill(pid[i], SIGTERM);
		child_ended(pid[i], "child");
	}
}

/* --- how a process ends --- */

static void end_abort(void) { abort(); }
static void end_kill(void) { kill(getpid(), SIGKILL); }
static void end_exit(void) { exit(0); }
static void end_at_once(void) { _exit(0); }
static void end_fault(void) { *(volatile char *)n(8) = 0; }
static void end_return(void) { syscall(SYS_exit_group, 0); }

/* @script is the child's; the parent has let go of the connection by then. */
static void ends(struct ctx *x, void (*end)(void), const char *script,
		 const char *after)
{
	int gate[2];
	char byte;

	if (pipe(gate))
		return;
	pid_t pid = fork();
	if (!pid) {
		child_begins();
		signal(SIGSEGV, SIG_DFL);
		close(gate[1]);
		if (read(gate[0], &byte, 1))
			_exit(1);
		play(x, script);
		end();
		_exit(9);
	}
	play(x, "c");
	close(gate[1]);
	child_ended(pid, "child");
	play(x, after);
	far_res(x, "send", FAR_SEND, 10);
}

#define ALL_READ "s100r100w5000"
#define SOME_UNREAD "s100r60w5000"

SCENARIO(process_end_exit) { ends(x, end_exit, ALL_READ, "f5000E"); }
SCENARIO(process_end_at_once) { ends(x, end_at_once, ALL_READ, "f5000E"); }
SCENARIO(process_end_syscall) { ends(x, end_return, ALL_READ, "f5000E"); }
SCENARIO(process_end_abort) { ends(x, end_abort, ALL_READ, "f5000E"); }
SCENARIO(process_end_fault) { ends(x, end_fault, ALL_READ, "f5000E"); }
SCENARIO(process_end_kill) { ends(x, end_kill, ALL_READ, "f5000E"); }
SCENARIO(process_end_exit_unread) { ends(x, end_exit, SOME_UNREAD, "f5000E"); }
SCENARIO(process_end_kill_unread) { ends(x, end_kill, SOME_UNREAD, "f5000E"); }

static FILE *unflushed;

static void end_unflushed(void)
{
	if (fwrite(buf, 1, n(700), unflushed) != 700)
		_exit(8);
	exit(0);
}

/* What stdio holds is sent after all destructors have run. */
SCENARIO(process_end_stdio)
{
	unflushed = fdopen(dup(x->fd), "w");
	play(x, "w60");
	made(x, buf, 700);
	pid_t pid = fork();
	if (!pid) {
		child_begins();
		end_unflushed();
	}
	child_ended(pid, "child");
	play(x, "f760s10r10w10f10");
}

static int atexit_fd;

static void sends_at_exit(void)
{
	if (send(atexit_fd, buf, n(100), MSG_NOSIGNAL) != 100)
		out(" NOT-SENT");
}

SCENARIO(process_end_atexit)
{
	play(x, "w60s10");
	made(x, buf, 100);
	pid_t pid = fork();
	if (!pid) {
		child_begins();
		atexit_fd = x->fd;
		atexit(sends_at_exit);
		exit(0);
	}
	child_ended(pid, "child");
	play(x, "f160r10cE");
}

/* --- copies --- */

/* @count copies made in every way, then used and closed in a given order. */
static void copies(struct ctx *x, const int *order)
{
	int fds[6], old = x->fd;

	play(x, "w60s600");
	fds[0] = dup(old);
	fds[1] = dup2(fds[0], 110);
	fds[2] = dup3(fds[1], 111, O_CLOEXEC);
	fds[3] = fcntl(fds[2], F_DUPFD, 115);
	fds[4] = fcntl(fds[3], F_DUPFD_CLOEXEC, 115);
	fds[5] = old;
	out(" %d,%d,%d,%d", fds[1], fds[2], fds[3], fds[4]);
	for (int i = 0; i < 6; i++) {
		x->fd = fds[order[i]];
		play(x, "r50w10");
		x->fd = fds[order[(i + 1) % 6]];
		play(x, i < 5 ? "r20w5" : "");
		x->fd = fds[order[i]];
		play(x, "c");
	}
}

SCENARIO(process_copies_in_order)
{
	copies(x, (const int[]){ 5, 0, 1, 2, 3, 4 });
	play(x, "f145E");
}

SCENARIO(process_copies_in_reverse)
{
	copies(x, (const int[]){ 4, 3, 2, 1, 0, 5 });
	play(x, "f145E");
}

SCENARIO(process_copies_mixed)
{
	copies(x, (const int[]){ 2, 5, 4, 0, 3, 1 });
	play(x, "f145E");
}

/* The connection becomes 0, 1 and 2, and they what they were. */
SCENARIO(process_copies_stdio)
{
	int saved[3], old = x->fd;

	report_keep();
	out_to(PART_REPORT);
	for (int i = 0; i < 3; i++)
		saved[i] = fcntl(i, F_DUPFD_CLOEXEC, 120);
	play(x, "w60s100");
	for (int i = 0; i < 3; i++)
		RES("dup2", dup2(old, i));
	x->fd = 0;
	play(x, "r20w10");
	RES("close", close(old));
	x->fd = 1;
	play(x, "r20w10");
	RES("dprintf", dprintf(2, "%s", ""));
	x->fd = 2;
	play(x, "r20w10");
	for (int i = 0; i < 3; i++)
		RES("back", dup2(saved[i], i));
	play(x, "f90E");
}

/* stdio on what has become standard input and output. */
SCENARIO(process_copies_stdio_streams)
{
	char line[64];

	report_keep();
	out_to(PART_REPORT);
	play(x, "w60s100r100f60");
	for (int i = 0; i < 2; i++)
		RES("dup2", dup2(x->fd, i));
	for (int i = 0; i < 3; i++) {
		far_do(x, FAR_TEXT, 1);
		out(" %.6s",
		    fgets(line, (int)n(sizeof(line)), stdin) ? line : "-");
		RES("printf", printf("%s", line));
		RES("fflush", fflush(stdout));
		far_res(x, "far", FAR_COUNT, 7);
	}
	play(x, "w10f10s10r10");
}

static void *plays_here(void *x)
{
	play(x, "t30w60s100r100f60");
	return NULL;
}

/* As proxies with a thread for each client have it. */
SCENARIO(process_small_stack)
{
	pthread_attr_t attr;
	pthread_t t;

	pthread_attr_init(&attr);
	RES("size", pthread_attr_setstacksize(&attr, 16384));
	int fresh = far_connects(x);
	RES("close", close(x->fd));
	x->fd = fresh;
	RES("create", pthread_create(&t, &attr, plays_here, x));
	RES("join", pthread_join(t, NULL));
	pthread_attr_destroy(&attr);
	play(x, "t30w20s20r20f20");
}

/* Another connection takes its place, and the place of its copy. */
SCENARIO(process_copies_over)
{
	int old = x->fd, copy = dup(old), fresh;

	play(x, "w60f60");
	fresh = far_connects(x);
	x->fd = fresh;
	play(x, "t30w60s100");
	RES("dup2", dup2(fresh, old) == old ? 0 : -1);
	x->fd = old;
	play(x, "r40w20");
	RES("dup3", dup3(fresh, copy, O_CLOEXEC) == copy ? 0 : -1);
	RES("close", close(fresh));
	x->fd = copy;
	play(x, "r60w20");
	RES("close", close(old));
	play(x, "w20f120cE");
}

/* A file and a connection change places. */
SCENARIO(process_copies_swapped)
{
	int old = x->fd, file = file_of(x, 100), third = dup(old);

	x->sent -= 100;
	play(x, "w60s100");
	RES("file", dup2(file, old) == old ? 0 : -1);
	RES("connection", dup2(third, file) == file ? 0 : -1);
	RES("close", close(third));
	RES("pread", pread(old, buf, n(200), 0));
	RES("recv", recv(old, buf, n(10), 0));
	x->fd = file;
	play(x, "r100w40f100");
	RES("pread", pread(file, buf, n(200), 0));
	play(x, "cE");
}
