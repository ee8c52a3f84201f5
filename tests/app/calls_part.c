/* SPDX-License-Identifier: MIT */
/* tests/app/calls_part.c - see calls_part.h */
#include "calls_part.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

extern const struct part __start_parts[], __stop_parts[];
extern char **environ;

/* --- scripts --- */

static void receive(struct ctx *x, long len)
{
	char step[16];

	snprintf(step, sizeof(step), "r%ld", len);
	errno = 0;
	long r = recv(x->fd, buf, n((size_t)len), MSG_WAITALL);
	res(step, r);
	got(x, buf, r);
	x->got += (uint64_t)(r > 0 ? len - r : len);
}

static void transmit(struct ctx *x, long len)
{
	char step[16];

	snprintf(step, sizeof(step), "w%ld", len);
	made(x, buf, (size_t)len);
	RES(step, send(x->fd, buf, n((size_t)len), MSG_NOSIGNAL));
}

static void print(struct ctx *x, long len)
{
	made(x, buf, (size_t)len);
	RES("p", fwrite(buf, 1, (size_t)len, stdout));
	RES("fflush", fflush(stdout));
}

static void far_sends(struct ctx *x, enum far_op op, long len)
{
	long r = far_do(x, op, len);

	if (r != (op == FAR_SEND ? len : 0))
		out(" FAR-SENT=%ld", r);
}

static void step_play(struct ctx *x, char step, long len)
{
	char name[16];

	snprintf(name, sizeof(name), "%c%ld", step, len);
	switch (step) {
	case 'r':
		receive(x, len);
		break;
	case 'w':
		transmit(x, len);
		break;
	case 'p':
		print(x, len);
		break;
	case 's':
		far_sends(x, FAR_SEND, len);
		break;
	case 'l':
		far_sends(x, FAR_SEND_LATER, len);
		break;
	case 'f':
		far_res(x, name, FAR_RECV, len);
		break;
	case 't':
		turns(x, (int)len);
		break;
	case 'e':
		RES("e", recv(x->fd, buf, n(10), 0));
		break;
	case 'E':
		far_res(x, "E", FAR_RECV, 10);
		break;
	case 'c':
		RES("c", close(x->fd));
		break;
	default:
		out(" NO-STEP-%c", step);
	}
}

void play(struct ctx *x, const char *script)
{
	while (*script) {
		char *end, step = *script++;
		long len = strtol(script, &end, 10);

		step_play(x, step, len);
		script = end;
	}
}

void played(struct ctx *x, const char *script)
{
	while (*script) {
		char *end, step = *script++;
		long len = strtol(script, &end, 10);

		if (step == 't')
			len *= 16;
		if (step == 'r' || step == 't')
			x->got += (uint64_t)len;
		if (step == 'w' || step == 't')
			x->sent += (uint64_t)len;
		script = end;
	}
}

/* --- children --- */

void child_begins(void)
{
	struct rlimit none = { 0 };

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setrlimit(RLIMIT_CORE, &none);
	alarm(CHILD_S);
}

pid_t child_starts(struct ctx *x, const char *script)
{
	pid_t pid = fork();

	if (!pid) {
		child_begins();
		play(x, script);
		_exit(0);
	}
	played(x, script);
	return pid;
}

bool child_ended(pid_t pid, const char *what)
{
	int status = 0;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR) {
			out(" %s=LOST", what);
			return false;
		}
	if (WIFSIGNALED(status))
		out(" %s=%s", what, sigabbrev_np(WTERMSIG(status)));
	else
		out(" %s=%d", what, WEXITSTATUS(status));
	return !status;
}

void child_plays(struct ctx *x, const char *script)
{
	child_ended(child_starts(x, script), "child");
}

/* --- this program again --- */

int part_main(int argc, char **argv)
{
	child_begins();
	out_to(PART_REPORT);
	signal(SIGPIPE, SIG_IGN);
	for (const struct part *p = __start_parts; p < __stop_parts; p++)
		if (argc && !strcmp(p->name, argv[0]))
			return p->run(argc, argv);
	out(" NO-PART");
	return 2;
}

PART(talk)
{
	if (argc < 5)
		return 2;
	struct ctx x = { .fd = atoi(argv[1]),
			 .got = strtoull(argv[3], NULL, 10),
			 .sent = strtoull(argv[4], NULL, 10) };
	play(&x, argv[2]);
	return 0;
}

void word(struct words *w, const char *fmt, ...)
{
	size_t size = sizeof(w->text[0]);
	va_list ap;

	if (w->n >= 12)
		return;
	va_start(ap, fmt);
	int len = vsnprintf(w->text[w->n], size, fmt, ap);
	va_end(ap);
	if (len >= (int)size)
		out(" LONG-WORD");
	w->argv[w->n] = w->text[w->n];
	w->argv[++w->n] = NULL;
}

void part_words(struct words *w, const char *name)
{
	w->n = 0;
	word(w, "%s", self_path());
	word(w, "--part");
	word(w, "%s", name);
}

void talk_words(struct words *w, const struct ctx *x, int fd,
		const char *script)
{
	part_words(w, "talk");
	word(w, "%d", fd);
	word(w, "%s", script);
	word(w, "%llu", (unsigned long long)x->got);
	word(w, "%llu", (unsigned long long)x->sent);
}

char **environment(bool is_bare)
{
	static char *bare[256];
	int k = 0;

	if (!is_bare)
		return environ;
	for (char **e = environ; *e && k < 255; e++)
		if (strncmp(*e, "LD_PRELOAD=", 11))
			bare[k++] = *e;
	bare[k] = NULL;
	return bare;
}

const char *self_path(void)
{
	static char path[PATH_MAX];
	ssize_t len = readlink("/proc/self/exe", path, sizeof(path) - 1);

	path[len < 0 ? 0 : len] = 0;
	return path;
}

const char *beside_self(const char *name)
{
	static char path[2 * PATH_MAX];
	const char *self = self_path();

	snprintf(path, sizeof(path), "%.*s%s",
		 (int)(strrchr(self, '/') + 1 - self), self, name);
	return path;
}

void report_keep(void)
{
	if (dup2(out_to(-1), PART_REPORT) < 0)
		out(" NO-REPORT");
}

/* --- sockets --- */

void inherit(int fd) { fcntl(fd, F_SETFD, 0); }

int listener_at(int *port, bool is_shared)
{
	struct sockaddr_in sa = { .sin_family = AF_INET,
				  .sin_port = htons((uint16_t)*port),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(sa);
	int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (is_shared)
		setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one));
	if (bind(fd, (void *)&sa, len) || listen(fd, 16) ||
	    getsockname(fd, (void *)&sa, &len))
		out(" NO-LISTENER");
	*port = ntohs(sa.sin_port);
	return fd;
}

int far_connects(struct ctx *x)
{
	int port = 0, one = 1, listener = listener_at(&port, false);

	if (far_do(x, FAR_CONNECT, (long)port << 16 | 4))
		out(" NO-CONNECTION");
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	close(listener);
	return fd;
}

void pass_fd(int channel, int fd)
{
	union {
		struct cmsghdr h;
		char space[CMSG_SPACE(sizeof(int))];
	} u = { .h = { .cmsg_len = CMSG_LEN(sizeof(int)),
		       .cmsg_level = SOL_SOCKET,
		       .cmsg_type = SCM_RIGHTS } };
	char byte = 'F';
	struct iovec iov = { &byte, 1 };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = &u,
			    .msg_controllen = sizeof(u) };

	memcpy(CMSG_DATA(&u.h), &fd, sizeof(int));
	if (sendmsg(channel, &m, 0) != 1)
		out(" NOT-PASSED=%s", strerrorname_np(errno));
}

int passthrough_fd(int channel)
{
	union {
		struct cmsghdr h;
		char space[CMSG_SPACE(sizeof(int))];
	} u;
	char byte = 0;
	struct iovec iov = { &byte, 1 };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = &u,
			    .msg_controllen = sizeof(u) };
	int fd = -1;

	if (recvmsg(channel, &m, MSG_CMSG_CLOEXEC) == 1 &&
	    m.msg_controllen >= CMSG_LEN(sizeof(int)))
		memcpy(&fd, CMSG_DATA(&u.h), sizeof(int));
	else
		out(" NOTHING-PASSED=%s", strerrorname_np(errno));
	return fd;
}
