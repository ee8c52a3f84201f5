/* SPDX-License-Identifier: MIT */
/*
 * tests/app/mates.c - a process that makes one call at a time, as test_mates.py says
 *
 *     mates INDEX ctl=FDS in=FDS out=FDS      starts process INDEX
 *     ctl[INDEX]  ->  "send 2 100 64 7"       a step: call, slot, arguments
 *     ctl[INDEX]  <-  "100"                   what the call answered
 *
 * A process has slots, numbers of descriptors that never change: connections, whose
 * two ends may be in any process.  fork() makes a process with an index of its own, exec()
 * starts this program again under the same one.  Descriptors travel from out[J] to in[J], the
 * inbox of process J.  All calls are such that they do not wait.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROCS 8
#define SLOTS 8
#define FIRST_FD 300 /* of the slots */
#define EPOLL_FD 320
#define LISTEN_FD 321
#define EP_CALLS 8 /* KERNEL_LOOK_CALLS of src/file/epoll_wait.c */
#define ARGS 6
#define BYTES_MAX (256 * 1024)
#define LIMIT_S 60

static int ctl[PROCS], in[PROCS], out[PROCS];
static long me;
static char answer[4096];
static uint8_t buf[BYTES_MAX];
static char **args_given;

__attribute__((format(printf, 1, 2))) static void say(const char *fmt, ...)
{
	size_t at = strlen(answer);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(answer + at, sizeof(answer) - at, fmt, ap);
	va_end(ap);
}

static void say_result(long r)
{
	if (r < 0)
		say("%s", strerrorname_np(errno));
	else
		say("%ld", r);
}

static void reply(void)
{
	if (send(ctl[me], answer, strlen(answer) + 1, MSG_NOSIGNAL) < 0)
		_exit(0);
	answer[0] = 0;
}

static int slot_fd(long slot) { return FIRST_FD + (int)(slot % SLOTS); }

/* --- bytes --- */

static void do_send(const long *a)
{
	size_t n = (size_t)a[1] % BYTES_MAX;

	for (size_t i = 0; i < n; i++)
		buf[i] = (uint8_t)((size_t)a[3] + i * 7);
	say_result(send(slot_fd(a[0]), buf, n,
			(int)a[2] | MSG_DONTWAIT | MSG_NOSIGNAL));
}

static uint32_t sum_of(const uint8_t *p, size_t n)
{
	uint32_t sum = 1;

	for (size_t i = 0; i < n; i++)
		sum = sum * 16777619u + p[i];
	return sum;
}

static void do_recv(const long *a)
{
	struct iovec iov = { buf, (size_t)a[1] % BYTES_MAX };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t r = recvmsg(slot_fd(a[0]), &m, (int)a[2] | MSG_DONTWAIT);

	say_result(r);
	if (r < 0)
		return;
	if (!(a[2] & MSG_TRUNC))
		say(" %08x", sum_of(buf, (size_t)r));
	if (m.msg_flags & ~MSG_CMSG_CLOEXEC)
		say(" flags %x", (unsigned)m.msg_flags & ~MSG_CMSG_CLOEXEC);
}

/* --- readiness --- */

static void say_events(unsigned bits)
{
	static const struct {
		unsigned bit;
		const char *name;
	} names[] = { { POLLIN, "IN" },       { POLLPRI, "PRI" },
		      { POLLOUT, "OUT" },     { POLLERR, "ERR" },
		      { POLLHUP, "HUP" },     { POLLNVAL, "NVAL" },
		      { POLLRDHUP, "RDHUP" }, { 0, NULL } };

	for (int i = 0; names[i].bit; i++)
		if (bits & names[i].bit)
			say("|%s", names[i].name);
}

static void do_poll(const long *a)
{
	struct pollfd p = { .fd = slot_fd(a[0]),
			    .events = POLLIN | POLLPRI | POLLOUT | POLLRDHUP };

	say_result(poll(&p, 1, 0));
	say_events((unsigned)p.revents);
}

static void do_ep_new(const long *a)
{
	int fd = epoll_create1(EPOLL_CLOEXEC);

	say_result(fd < 0 || dup3(fd, EPOLL_FD, O_CLOEXEC) < 0 ? -1 : 0);
	if (fd >= 0)
		close(fd);
}

static void ep_ctl(int op, const long *a)
{
	struct epoll_event ev = { .events = (uint32_t)a[1],
				  .data.u64 = (uint64_t)(a[0] % SLOTS) };

	say_result(epoll_ctl(EPOLL_FD, op, slot_fd(a[0]), &ev));
}

static void do_ep_add(const long *a) { ep_ctl(EPOLL_CTL_ADD, a); }
static void do_ep_mod(const long *a) { ep_ctl(EPOLL_CTL_MOD, a); }
static void do_ep_del(const long *a) { ep_ctl(EPOLL_CTL_DEL, a); }

/* The events of several calls, those of each slot together, and the same one once. */
struct told {
	unsigned bits[SLOTS][EP_CALLS];
	int n[SLOTS];
};

static void tell(struct told *t, const struct epoll_event *ev)
{
	uint64_t slot = ev->data.u64;

	for (int i = 0; i < t->n[slot]; i++)
		if (t->bits[slot][i] == ev->events)
			return;
	if (t->n[slot] < EP_CALLS)
		t->bits[slot][t->n[slot]++] = ev->events;
}

static int ep_calls(struct told *t)
{
	struct epoll_event ev[4 * SLOTS];

	for (int call = 0; call < EP_CALLS; call++) {
		int n = epoll_wait(EPOLL_FD, ev, 4 * SLOTS, 0);

		if (n < 0)
			return -1;
		for (int i = 0; i < n; i++)
			tell(t, &ev[i]);
	}
	return 0;
}

/* Under osf a set tells of the kernel's descriptors in one of eight calls, when others are ready,
 * too.  So a step is eight calls, and eight more, which tell again what has not changed. */
static void do_ep_wait(const long *a)
{
	(void)a;
	for (int part = 0; part < 2; part++) {
		struct told t = { 0 };

		if (ep_calls(&t)) {
			say_result(-1);
			return;
		}
		say(part ? " then" : "first");
		for (int slot = 0; slot < SLOTS; slot++) {
			for (int i = 0; i < t.n[slot]; i++) {
				say(" %d", slot);
				say_events(t.bits[slot][i]);
			}
		}
	}
}

/* --- what a socket is asked, and told --- */

static const struct {
	int level, name;
} options[] = {
	{ SOL_SOCKET, SO_RCVLOWAT },  { SOL_SOCKET, SO_ERROR },
	{ SOL_SOCKET, SO_OOBINLINE }, { IPPROTO_TCP, TCP_NODELAY },
	{ SOL_SOCKET, SO_KEEPALIVE }, { IPPROTO_TCP, TCP_CORK },
	{ SOL_SOCKET, SO_LINGER },
};
#define OPTIONS (long)(sizeof(options) / sizeof(options[0]))

static void do_get(const long *a)
{
	long i = a[1] % OPTIONS;
	int v[2] = { 0, 0 };
	socklen_t len = options[i].name == SO_LINGER ? sizeof(v) : sizeof(v[0]);
	int r = getsockopt(slot_fd(a[0]), options[i].level, options[i].name, v,
			   &len);

	say_result(r);
	if (!r)
		say(" %d %d", v[0], v[1]);
}

static void do_set(const long *a)
{
	long i = a[1] % OPTIONS;
	int v[2] = { (int)a[2], 0 };

	say_result(setsockopt(
	    slot_fd(a[0]), options[i].level, options[i].name, v,
	    options[i].name == SO_LINGER ? sizeof(v) : sizeof(v[0])));
}

static void do_inq(const long *a)
{
	int n = -1;

	if (ioctl(slot_fd(a[0]), FIONREAD, &n) < 0)
		say_result(-1);
	else
		say_result(n);
}

static void do_mark(const long *a)
{
	int at = -1;

	if (ioctl(slot_fd(a[0]), SIOCATMARK, &at) < 0)
		say_result(-1);
	else
		say_result(at);
}

/* --- the life of connections, and of processes --- */

static void do_shut(const long *a)
{
	say_result(shutdown(slot_fd(a[0]), (int)a[1]));
}

static void do_close(const long *a) { say_result(close(slot_fd(a[0]))); }

static void do_dup(const long *a)
{
	say_result(dup2(slot_fd(a[0]), slot_fd(a[1])) < 0 ? -1 : 0);
}

static void do_pass(const long *a)
{
	int fd = slot_fd(a[0]);
	char byte = 0;
	struct iovec iov = { &byte, 1 };
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = &control,
			    .msg_controllen = sizeof(control) };

	control.align.cmsg_len = CMSG_LEN(sizeof(fd));
	control.align.cmsg_level = SOL_SOCKET;
	control.align.cmsg_type = SCM_RIGHTS;
	memcpy(CMSG_DATA(&control.align), &fd, sizeof(fd));
	say_result(sendmsg(out[a[1] % PROCS], &m, MSG_DONTWAIT | MSG_NOSIGNAL));
}

static void do_take(const long *a)
{
	char byte;
	struct iovec iov = { &byte, 1 };
	char control[CMSG_SPACE(sizeof(int))];
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = control,
			    .msg_controllen = sizeof(control) };
	ssize_t r = recvmsg(in[me], &m, MSG_DONTWAIT);
	struct cmsghdr *c = r < 0 ? NULL : CMSG_FIRSTHDR(&m);
	int fd;

	say_result(r);
	if (!c)
		return;
	memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	dup2(fd, slot_fd(a[0]));
	close(fd);
}

static void do_fork(const long *a)
{
	pid_t pid = fork();

	say_result(pid < 0 ? -1 : 0);
	if (!pid) {
		me = a[0] % PROCS;
		say(" %d", (int)getpid());
		alarm(LIMIT_S);
	}
}

/* The new program is told which descriptors it has. */
static void do_exec(const long *a)
{
	static char index[8], names[SLOTS][16];
	char *argv[6 + SLOTS] = { args_given[0], index, args_given[2],
				  args_given[3], args_given[4] };
	int n = 5;

	snprintf(index, sizeof(index), "%ld", me);
	for (int i = 0; i < SLOTS; i++) {
		if (fcntl(slot_fd(i), F_GETFD) < 0)
			continue;
		snprintf(names[i], sizeof(names[i]), "fd=%d", slot_fd(i));
		argv[n++] = names[i];
	}
	execv("/proc/self/exe", argv);
	say_result(-1);
}

static void do_exit(const long *a)
{
	if (a[0])
		kill(getpid(), SIGKILL);
	_exit(0);
}

/* --- how connections come to be --- */

static void do_listen(const long *a)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&at, len) ||
	    listen(fd, SLOTS) ||
	    getsockname(fd, (struct sockaddr *)&at, &len) ||
	    dup2(fd, LISTEN_FD) < 0)
		say_result(-1);
	else
		say_result(ntohs(at.sin_port));
	close(fd);
}

static void put_in_slot(int fd, long slot)
{
	say_result(fd < 0 || dup2(fd, slot_fd(slot)) < 0 ? -1 : 0);
	if (fd >= 0)
		close(fd);
}

static void do_connect(const long *a)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
				  .sin_port = htons((uint16_t)a[1]) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (fd >= 0 && connect(fd, (struct sockaddr *)&at, sizeof(at))) {
		close(fd);
		fd = -1;
	}
	put_in_slot(fd, a[0]);
}

static void do_accept(const long *a)
{
	put_in_slot(accept(LISTEN_FD, NULL, NULL), a[0]);
}

static void do_unlisten(const long *a) { say_result(close(LISTEN_FD)); }

/* --- steps --- */

static const struct {
	const char *name;
	void (*run)(const long *a);
} calls[] = {
	{ "send", do_send },     { "recv", do_recv },
	{ "poll", do_poll },     { "ep_new", do_ep_new },
	{ "ep_add", do_ep_add }, { "ep_mod", do_ep_mod },
	{ "ep_del", do_ep_del }, { "ep_wait", do_ep_wait },
	{ "get", do_get },       { "set", do_set },
	{ "inq", do_inq },       { "mark", do_mark },
	{ "shut", do_shut },     { "close", do_close },
	{ "dup", do_dup },       { "pass", do_pass },
	{ "take", do_take },     { "fork", do_fork },
	{ "exec", do_exec },     { "exit", do_exit },
	{ "listen", do_listen }, { "connect", do_connect },
	{ "accept", do_accept }, { "unlisten", do_unlisten },
};

static void step(char *text)
{
	long a[ARGS] = { 0 };
	char *rest, *name = strtok_r(text, " ", &rest), *word;

	for (int i = 0; i < ARGS && (word = strtok_r(NULL, " ", &rest)); i++)
		a[i] = strtol(word, NULL, 10);
	for (size_t i = 0; name && i < sizeof(calls) / sizeof(calls[0]); i++) {
		if (!strcmp(name, calls[i].name)) {
			errno = 0;
			calls[i].run(a);
			return;
		}
	}
	say("what?");
}

static void numbers(const char *list, int *to)
{
	const char *p = strchr(list, '=');

	for (int i = 0; i < PROCS && p; i++, p = strchr(p, ','))
		to[i] = atoi(++p);
}

int main(int argc, char **argv)
{
	char text[200];

	if (argc < 5) {
		fprintf(stderr, "see the top of tests/app/mates.c\n");
		return 2;
	}
	args_given = argv;
	me = atol(argv[1]) % PROCS;
	numbers(argv[2], ctl);
	numbers(argv[3], in);
	numbers(argv[4], out);
	alarm(LIMIT_S);
	signal(SIGCHLD, SIG_IGN);
	say("0 %d", (int)getpid());
	reply();
	for (;;) {
		ssize_t n = recv(ctl[me], text, sizeof(text) - 1, 0);

		if (n <= 0)
			return 0;
		text[n] = 0;
		step(text);
		reply();
	}
}
