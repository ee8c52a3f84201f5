/* SPDX-License-Identifier: MIT */
/* tests/app/calls_exec.c - scenarios: another program continues a connection
 * after exec() or spawn, with the library and without it (see
 * calls_part.h) */
#include "calls_part.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- exec in all its forms --- */

enum way {
	WAY_EXECVE,
	WAY_EXECV,
	WAY_EXECVP,
	WAY_EXECVPE,
	WAY_EXECL,
	WAY_EXECLE,
	WAY_EXECLP,
	WAY_FEXECVE,
	WAY_EXECVEAT,
	WAY_SYSCALL,
};

static void exec_by(enum way way, char **v, char **env)
{
	int self = way >= WAY_FEXECVE ? open(v[0], O_RDONLY | O_CLOEXEC) : -1;

	switch (way) {
	case WAY_EXECVE:
		execve(v[0], v, env);
		break;
	case WAY_EXECV:
		execv(v[0], v);
		break;
	case WAY_EXECVP:
		execvp(v[0], v);
		break;
	case WAY_EXECVPE:
		execvpe(v[0], v, env);
		break;
	case WAY_EXECL:
		execl(v[0], v[0], v[1], v[2], v[3], v[4], v[5], v[6], NULL);
		break;
	case WAY_EXECLE:
		execle(v[0], v[0], v[1], v[2], v[3], v[4], v[5], v[6], NULL,
		       env);
		break;
	case WAY_EXECLP:
		execlp(v[0], v[0], v[1], v[2], v[3], v[4], v[5], v[6], NULL);
		break;
	case WAY_FEXECVE:
		fexecve(self, v, env);
		break;
	case WAY_EXECVEAT:
		execveat(self, "", v, env, AT_EMPTY_PATH);
		break;
	case WAY_SYSCALL:
		syscall(SYS_execve, v[0], v, env);
		break;
	}
}

/* In a child: this program goes on with the connection, as @fd. */
static void talk_on(struct ctx *x, enum way way, int fd, const char *script,
		    bool is_bare)
{
	struct words w;

	report_keep();
	if (fd >= 0)
		dup2(x->fd, fd);
	else
		inherit(fd = x->fd);
	talk_words(&w, x, fd, script);
	exec_by(way, w.argv, environment(is_bare));
	out(" NOT-EXECUTED");
	_exit(7);
}

static void executed(struct ctx *x, enum way way, int fd, bool is_bare)
{
	play(x, "w60s100");
	pid_t pid = fork();
	if (!pid) {
		child_begins();
		talk_on(x, way, fd, "r40w20r60r30w10", is_bare);
	}
	wait_a_bit();
	far_do(x, FAR_SEND, 30);
	played(x, "r40w20r60r30w10");
	child_ended(pid, "child");
	play(x, "f90s50r50w50f50");
}

SCENARIO(process_execve) { executed(x, WAY_EXECVE, -1, false); }
SCENARIO(process_execv) { executed(x, WAY_EXECV, -1, false); }
SCENARIO(process_execvp) { executed(x, WAY_EXECVP, -1, false); }
SCENARIO(process_execvpe) { executed(x, WAY_EXECVPE, -1, false); }
SCENARIO(process_execl) { executed(x, WAY_EXECL, -1, false); }
SCENARIO(process_execle) { executed(x, WAY_EXECLE, -1, false); }
SCENARIO(process_execlp) { executed(x, WAY_EXECLP, -1, false); }
SCENARIO(process_fexecve) { executed(x, WAY_FEXECVE, -1, false); }
SCENARIO(process_execveat) { executed(x, WAY_EXECVEAT, -1, false); }
SCENARIO(process_exec_syscall) { executed(x, WAY_SYSCALL, -1, false); }
SCENARIO(process_exec_bare) { executed(x, WAY_EXECVE, -1, true); }
SCENARIO(process_exec_fd0) { executed(x, WAY_EXECVE, 0, false); }
SCENARIO(process_exec_fd1) { executed(x, WAY_EXECVE, 1, false); }
SCENARIO(process_exec_fd3) { executed(x, WAY_EXECVE, 3, false); }
SCENARIO(process_exec_fd0_bare) { executed(x, WAY_EXECVE, 0, true); }

/* Nobody else holds it: what is on the way must outlive the old program. */
static void execute_alone(struct ctx *x, bool is_bare)
{
	int gate[2];
	char byte;

	if (pipe2(gate, O_CLOEXEC))
		return;
	play(x, "w60s100");
	pid_t pid = fork();
	if (!pid) {
		child_begins();
		close(gate[1]);
		if (read(gate[0], &byte, 1))
			_exit(1);
		play(x, "r10w10");
		talk_on(x, WAY_EXECVE, -1, "r40w20r50r30w10", is_bare);
	}
	play(x, "c");
	close(gate[1]);
	wait_a_bit();
	far_do(x, FAR_SEND, 30);
	child_ended(pid, "child");
	play(x, "f100E");
}

SCENARIO(process_exec_alone) { execute_alone(x, false); }
SCENARIO(process_exec_alone_bare) { execute_alone(x, true); }

/* With much on the way in both directions, more than a buffer of either. */
SCENARIO(process_exec_full)
{
	size_t total = fill_up(x);

	play(x, "s20000");
	pid_t pid = fork();
	if (!pid) {
		child_begins();
		talk_on(x, WAY_EXECVE, -1, "r5000r15000", true);
	}
	played(x, "r20000");
	child_ended(pid, "child");
	long r = far_do(x, FAR_RECV, (long)total);
	out(" %s", r == (long)total ? "all-there" : "lost");
	play(x, "s50r50w50f50");
}

/* The program executes itself, and itself again. */
PART(again)
{
	struct words w;

	if (argc < 5)
		return 2;
	struct ctx x = { .fd = atoi(argv[1]),
			 .got = strtoull(argv[3], NULL, 10),
			 .sent = strtoull(argv[4], NULL, 10) };
	int left = atoi(argv[2]);
	play(&x, "r10w10");
	if (!left)
		return 0;
	talk_words(&w, &x, x.fd, "");
	snprintf(w.text[2], sizeof(w.text[2]), "again");
	snprintf(w.text[4], sizeof(w.text[4]), "%d", left - 1);
	execv(w.argv[0], w.argv);
	return 3;
}

SCENARIO(process_exec_again)
{
	struct words w;

	play(x, "w60s100");
	pid_t pid = fork();
	if (!pid) {
		child_begins();
		report_keep();
		inherit(x->fd);
		talk_words(&w, x, x->fd, "4");
		snprintf(w.text[2], sizeof(w.text[2]), "again");
		execv(w.argv[0], w.argv);
		_exit(7);
	}
	played(x, "r50w50");
	child_ended(pid, "child");
	play(x, "r50w10f120s10r10w10f10");
}

/* The number is another file's from now on.  A stream closes with libc's own calls. */
static void reopened(FILE *f, const char *path)
{
	int fd = fileno(f), ep = epoll_create1(0);
	struct epoll_event ev = { .events = EPOLLIN };

	out(" reopened=%d", freopen(path, "r", f) == f && fileno(f) == fd);
	RES("read", read(fd, buf, n(10)));
	RES("recv", recv(fd, buf, n(10), MSG_DONTWAIT));
	RES("type",
	    getsockopt(fd, SOL_SOCKET, SO_TYPE, buf, &(socklen_t){ 4 }));
	RES("add", epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev));
	int copy = dup(fd);
	RES("copy", read(copy, buf, n(10)));
	RES("close", close(copy));
	RES("fclose", fclose(f));
}

PART(reopens)
{
	if (argc < 5)
		return 2;
	struct ctx x = { .fd = 0,
			 .got = strtoull(argv[3], NULL, 10),
			 .sent = strtoull(argv[4], NULL, 10) };
	play(&x, "r10w10");
	reopened(stdin, "/dev/zero");
	return 0;
}

SCENARIO(process_reopens_standard_input)
{
	struct words w;

	play(x, "w60s100");
	pid_t pid = fork();
	if (!pid) {
		child_begins();
		report_keep();
		dup2(x->fd, 0);
		talk_words(&w, x, 0, "");
		snprintf(w.text[2], sizeof(w.text[2]), "reopens");
		execv(w.argv[0], w.argv);
		_exit(7);
	}
	played(x, "r10w10");
	child_ended(pid, "child");
	play(x, "r90w10f80s10r10w10f10");
}

SCENARIO(stdio_reopens)
{
	FILE *f = fdopen(x->fd, "r");

	reopened(f, "/dev/zero");
	far_res(x, "eof", FAR_RECV, 10);
}

SCENARIO(stdio_reopens_in_vain)
{
	FILE *f = fdopen(x->fd, "r");
	int fd = x->fd;

	out(" failed=%d", !freopen("/nowhere/at/all", "r", f));
	far_res(x, "eof", FAR_RECV, 10);
	int zero = open("/dev/zero", O_RDONLY);
	out(" same=%d", zero == fd);
	RES("read", read(zero, buf, n(10)));
}

/* A program that could not be executed has not taken anything. */
SCENARIO(process_exec_fails)
{
	char **argv = ARGV("/nowhere/at/all");

	play(x, "w60s100r10");
	RES("noent", execv(argv[0], argv));
	play(x, "r10w10");
	RES("acces", execv("/dev/null", argv));
	RES("noexec", execvp("calls-not-there", argv));
	play(x, "r10w10l10r70r10f80");
	pid_t pid = fork();
	if (!pid) {
		child_begins();
		RES("child", execv(argv[0], argv));
		play(x, "w20s30r10");
		_exit(0);
	}
	played(x, "w20s30r10");
	child_ended(pid, "child");
	play(x, "r20w10f30t20");
}

/* The new program does not have it: the far end sees the end at exec(). */
SCENARIO(process_exec_cloexec)
{
	char **argv = ARGV("cat");
	int hold[2];

	if (pipe2(hold, O_CLOEXEC))
		return;
	play(x, "w60s100r100");
	fcntl(x->fd, F_SETFD, FD_CLOEXEC);
	pid_t pid = fork();
	if (!pid) {
		child_begins();
		dup2(hold[0], 0);
		execv("/bin/cat", argv);
		_exit(7);
	}
	play(x, "cf60E");
	close(hold[1]);
	child_ended(pid, "child");
}

/* A word of the command happens to be the number; the program reads nothing. */
static void number_told(struct ctx *x)
{
	char number[16];
	char **argv = ARGV("/bin/true", number);

	snprintf(number, sizeof(number), "%d", x->fd);
	pid_t pid = fork();
	if (!pid) {
		child_begins();
		inherit(x->fd);
		execv(argv[0], argv);
		_exit(7);
	}
	child_ended(pid, "child");
}

/* The far end may be on its way back already, before we have looked at all. */
SCENARIO(process_exec_number_urgent)
{
	far_do(x, FAR_SEND, 40);
	far_do(x, FAR_SEND, 60);
	far_do(x, FAR_SEND_OOB, 0);
	number_told(x);
	play(x, "r100");
}

/* More is unread than the kernel's buffers would hold. */
SCENARIO(process_exec_number_full)
{
	play(x, "w60s100000f60");
	for (int i = 0; i < 8; i++)
		far_do(x, FAR_SEND, 100000);
	number_told(x);
	for (int i = 0; i < 9; i++)
		play(x, "r100000");
	play(x, "w20f20");
}

/* --- programs that know nothing of all this --- */

/* What @pid's program wrote into the pipe, to its end. */
static void printed(int fd, const char *what)
{
	char text[4096];
	size_t len = 0;
	ssize_t r;

	while ((r = read(fd, text + len, sizeof(text) - 1 - len)) > 0)
		len += (size_t)r;
	for (size_t i = 0; i < len; i++)
		if (text[i] == '\n')
			text[i] = ';';
	text[len] = 0;
	out(" %s=%s", what, text);
}

/* The connection as stdin, stdout in a pipe.  Return: the pipe. */
static int program_starts(struct ctx *x, char **argv, bool is_bare, pid_t *pid)
{
	int p[2];

	if (pipe2(p, O_CLOEXEC))
		return -1;
	*pid = fork();
	if (!*pid) {
		child_begins();
		dup2(x->fd, 0);
		dup2(p[1], 1);
		execve(argv[0], argv, environment(is_bare));
		_exit(7);
	}
	close(p[1]);
	return p[0];
}

static void program_reads(struct ctx *x, char **argv, bool is_bare)
{
	pid_t pid = -1;

	play(x, "w60");
	far_do(x, FAR_TEXT, 3);
	settle(x, POLLIN);
	int p = program_starts(x, argv, is_bare, &pid);
	wait_a_bit();
	far_do(x, FAR_TEXT, 2);
	far_do(x, FAR_SHUT, SHUT_WR);
	printed(p, "read");
	child_ended(pid, "child");
	play(x, "w20f80");
	close(p);
}

#define SHELL_READS                                                            \
	"read a; echo $a; read b; echo $b; read a; read a; read a; echo $a;"   \
	"read a || echo end"

SCENARIO(process_exec_cat) { program_reads(x, ARGV("/bin/cat"), true); }

SCENARIO(process_exec_cat_library)
{
	program_reads(x, ARGV("/bin/cat"), false);
}

SCENARIO(process_exec_shell)
{
	program_reads(x, ARGV("/bin/sh", "-c", SHELL_READS), true);
}

SCENARIO(process_exec_shell_library)
{
	program_reads(x, ARGV("/bin/sh", "-c", SHELL_READS), false);
}

SCENARIO(process_exec_dd)
{
	program_reads(x, ARGV("/bin/dd", "bs=1", "count=20", "status=none"),
		      true);
}

/* As inetd starts its servers: the connection is 0, 1 and 2. */
static void inetd(struct ctx *x, bool is_bare)
{
	char **argv = ARGV("cat");

	far_do(x, FAR_SEND, 100);
	pid_t pid = fork();
	if (!pid) {
		child_begins();
		for (int i = 0; i < 3; i++)
			dup2(x->fd, i);
		execve("/bin/cat", argv, environment(is_bare));
		_exit(7);
	}
	play(x, "cf100");
	for (int i = 0; i < 5; i++) {
		far_do(x, FAR_SEND, 1000);
		play(x, "f1000");
	}
	far_do(x, FAR_SHUT, SHUT_WR);
	play(x, "E");
	child_ended(pid, "child");
}

SCENARIO(process_inetd) { inetd(x, false); }
SCENARIO(process_inetd_bare) { inetd(x, true); }

/* Its first bytes were exchanged by the server that accepted. */
SCENARIO(process_inetd_accepted)
{
	x->fd = far_connects(x);
	play(x, "t30");
	inetd(x, true);
}

/* The server that inetd starts takes turns, and then writes by stdio. */
SCENARIO(process_inetd_stdio)
{
	x->fd = far_connects(x);
	pid_t pid = fork();
	if (!pid) {
		child_begins();
		talk_on(x, WAY_EXECVE, STDOUT_FILENO,
			"w16r16w16r16w16r16w16r16w16r16w16r16w16r16w16r16p50",
			false);
	}
	close(x->fd);
	long turned = far_do(x, FAR_ECHO, 8);
	long printed = far_do(x, FAR_RECV, 50);
	child_ended(pid, "child");
	out(" turned=%ld printed=%ld", turned, printed);
	play(x, "E");
}

/* A shell's redirections know sockets by one digit, and pipes by a path. */
__attribute__((format(printf, 1, 0))) static char *with_fds(const char *command,
							    int fd, int pipe_fd)
{
	static char text[256];

	if (fd > 9)
		out(" NO-DIGIT");
	int len = snprintf(text, sizeof(text), command, fd, pipe_fd);
	if (len >= (int)sizeof(text))
		out(" LONG-COMMAND");
	return text;
}

SCENARIO(process_system)
{
	int fd = dup(x->fd), p[2];

	play(x, "w60");
	far_do(x, FAR_TEXT, 3);
	settle(x, POLLIN);
	if (pipe(p))
		return;
	RES("true", system("true"));
	RES("dd", system(with_fds("exec dd bs=1 count=7 status=none <&%d "
				  ">/dev/fd/%d",
				  fd, p[1])));
	RES("head",
	    system(with_fds("head -c 7 <&%d | cat >/dev/fd/%d", fd, p[1])));
	RES("read", recv(x->fd, buf, n(7), MSG_WAITALL));
	out(" %.6s", buf);
	RES("unset", system(with_fds("unset LD_PRELOAD; exec printf hello >&%d",
				     fd, 0)));
	close(fd);
	close(p[1]);
	printed(p[0], "printed");
	far_res(x, "f60", FAR_RECV, 60);
	far_res(x, "far", FAR_COUNT, 5);
	play(x, "w10");
	far_res(x, "far", FAR_COUNT, 10);
}

SCENARIO(process_popen)
{
	int fd = dup(x->fd);
	char line[64] = "";

	play(x, "w60");
	far_do(x, FAR_TEXT, 3);
	settle(x, POLLIN);
	FILE *f = popen(with_fds("exec head -c 7 <&%d", fd, 0), "r");
	out(" %.6s", f && fgets(line, sizeof(line), f) ? line : "-");
	RES("pclose", pclose(f));
	f = popen(with_fds("exec cat >&%d", fd, 0), "w");
	fputs("hello", f);
	RES("pclose", pclose(f));
	far_res(x, "f60", FAR_RECV, 60);
	far_res(x, "far", FAR_COUNT, 5);
	RES("read", recv(x->fd, buf, n(14), MSG_WAITALL));
	out(" %.6s", buf);
}

/* --- spawn and vfork --- */

static void vfork_talks(const struct words *w, char **env, pid_t *pid)
{
	*pid = vfork();
	if (!*pid) {
		execve(w->argv[0], (char **)w->argv, env);
		_exit(7);
	}
}

static void vforked(struct ctx *x, bool is_bare)
{
	struct words w;
	pid_t pid;

	report_keep();
	play(x, "w60s100");
	inherit(x->fd);
	talk_words(&w, x, x->fd, "r40w20r60r30w10");
	vfork_talks(&w, environment(is_bare), &pid);
	wait_a_bit();
	far_do(x, FAR_SEND, 30);
	played(x, "r40w20r60r30w10");
	child_ended(pid, "child");
	play(x, "f90s50r50w50f50");
}

SCENARIO(process_vfork) { vforked(x, false); }
SCENARIO(process_vfork_bare) { vforked(x, true); }

SCENARIO(process_vfork_fails)
{
	struct words w;
	pid_t pid;

	w.n = 0;
	word(&w, "/nowhere/at/all");
	play(x, "w60s100r10");
	inherit(x->fd);
	vfork_talks(&w, environment(false), &pid);
	child_ended(pid, "child");
	play(x, "r90w10f70t20");
}

static void spawned(struct ctx *x, posix_spawn_file_actions_t *fa, int fd,
		    bool is_bare)
{
	struct words w;
	pid_t pid = -1;

	report_keep();
	play(x, "w60s100");
	talk_words(&w, x, fd, "r40w20r60r30w10");
	int err = posix_spawn(&pid, w.argv[0], fa, NULL, w.argv,
			      environment(is_bare));
	wait_a_bit();
	far_do(x, FAR_SEND, 30);
	played(x, "r40w20r60r30w10");
	child_ended(pid, "child");
	out(" spawn=%d", err);
	play(x, "f90s50r50w50f50");
}

SCENARIO(process_spawn)
{
	inherit(x->fd);
	spawned(x, NULL, x->fd, false);
}

SCENARIO(process_spawn_bare)
{
	inherit(x->fd);
	spawned(x, NULL, x->fd, true);
}

SCENARIO(process_spawn_dup2)
{
	posix_spawn_file_actions_t fa;

	posix_spawn_file_actions_init(&fa);
	posix_spawn_file_actions_adddup2(&fa, x->fd, 77);
	posix_spawn_file_actions_adddup2(&fa, 77, 0);
	posix_spawn_file_actions_addclose(&fa, x->fd);
	posix_spawn_file_actions_addclose(&fa, 77);
	spawned(x, &fa, 0, false);
	posix_spawn_file_actions_destroy(&fa);
}

SCENARIO(process_spawn_dup2_bare)
{
	posix_spawn_file_actions_t fa;

	posix_spawn_file_actions_init(&fa);
	posix_spawn_file_actions_adddup2(&fa, x->fd, 3);
	spawned(x, &fa, 3, true);
	posix_spawn_file_actions_destroy(&fa);
}

/* FD_CLOEXEC, but a copy onto itself takes that away. */
SCENARIO(process_spawn_onto_itself)
{
	posix_spawn_file_actions_t fa;

	posix_spawn_file_actions_init(&fa);
	posix_spawn_file_actions_adddup2(&fa, x->fd, x->fd);
	spawned(x, &fa, x->fd, false);
	posix_spawn_file_actions_destroy(&fa);
}

/* It is closed in the new program, so the far end sees the end of our own. */
SCENARIO(process_spawn_close)
{
	char **argv = ARGV("cat");
	posix_spawn_file_actions_t fa;
	int hold[2];
	pid_t pid;

	if (pipe2(hold, O_CLOEXEC))
		return;
	play(x, "w60s100");
	inherit(x->fd);
	posix_spawn_file_actions_init(&fa);
	posix_spawn_file_actions_addclose(&fa, x->fd);
	posix_spawn_file_actions_adddup2(&fa, hold[0], 0);
	RES("spawn",
	    posix_spawnp(&pid, "cat", &fa, NULL, argv, environment(true)));
	play(x, "r100w20f80cE");
	close(hold[1]);
	child_ended(pid, "child");
	posix_spawn_file_actions_destroy(&fa);
}

SCENARIO(process_spawn_fails)
{
	char **argv = ARGV("nowhere");
	pid_t pid;

	play(x, "w60s100r10");
	inherit(x->fd);
	out(" spawn=%s",
	    strerrorname_np(posix_spawn(&pid, "/nowhere/at/all", NULL, NULL,
					argv, environment(false))));
	play(x, "r90w10f70t20");
}
