/* SPDX-License-Identifier: MIT */
/*
 * tests/app/calls_many.c - scenarios: many connections at once (see calls.h)
 *
 * The near end is a server with one epoll set, a forked child is its client: it opens
 * connections, and sends on them in an order that the kernel's ready list keeps.  The
 * first half of the connections have had many turns when the scenario begins, so that
 * they are upgraded; the others are young, or upgraded from the first byte.
 */
#include "calls.h"
#include "calls_part.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#define CONNS 6
#define YOUNG (CONNS / 2) /* from here on */
#define LISTENER 9        /* in what is printed */
#define MANY_TURNS 20

struct many {
	int listener, ep, port;
	int fd[CONNS];
	int script[2], done[2]; /* pipes: to the child, and back */
};

static struct sockaddr_in here(int port)
{
	return (struct sockaddr_in){ .sin_family = AF_INET,
				     .sin_port = htons((uint16_t)port),
				     .sin_addr.s_addr =
					 htonl(INADDR_LOOPBACK) };
}

static int connect_here(int port)
{
	struct sockaddr_in to = here(port);
	int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return connect(fd, (void *)&to, sizeof(to)) ? -1 : fd;
}

static int listen_here(int *port)
{
	struct sockaddr_in at = here(0);
	socklen_t len = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (bind(fd, (void *)&at, len) || listen(fd, 64) ||
	    getsockname(fd, (void *)&at, &len))
		return -1;
	*port = ntohs(at.sin_port);
	return fd;
}

/* Digits send on that connection, letters close it, '+' connects. */
static void child_acts(const int *fd, int port, const char *script)
{
	for (; *script; script++) {
		if (*script == '+')
			connect_here(port);
		else if (*script >= 'a')
			close(fd[*script - 'a']);
		else if (send(fd[*script - '0'], script, 1, 0) != 1)
			_exit(5);
	}
}

static void child_turns(int fd, int turns)
{
	char byte = 'x';

	while (turns--)
		if (send(fd, &byte, 1, 0) != 1 || recv(fd, &byte, 1, 0) != 1)
			_exit(4);
}

static void child_runs(struct many *m)
{
	char script[32];
	int fd[CONNS];
	ssize_t n;

	child_begins();
	close(m->script[1]);
	for (int i = 0; i < CONNS; i++) {
		fd[i] = connect_here(m->port);
		child_turns(fd[i], i < YOUNG ? MANY_TURNS : 1);
	}
	do {
		if (write(m->done[1], "", 1) != 1)
			break;
		n = read(m->script[0], script, sizeof(script) - 1);
		script[n > 0 ? n : 0] = '\0';
		child_acts(fd, m->port, script);
	} while (n > 0);
	_exit(0);
}

static void near_turns(int fd, int turns)
{
	char byte;

	while (turns--)
		if (recv(fd, &byte, 1, 0) != 1 || send(fd, &byte, 1, 0) != 1)
			out(" TURN");
}

/* Until it has done what it was told; what it does next, it waits with. */
static void child_is_done(struct many *m)
{
	struct pollfd p = { .fd = m->done[0], .events = POLLIN };

	poll(&p, 1, -1);
}

static pid_t many_begin(struct many *m, uint32_t events)
{
	pid_t pid;

	m->listener = listen_here(&m->port);
	if (pipe(m->script) || pipe(m->done) || (pid = fork()) < 0)
		return -1;
	if (!pid)
		child_runs(m);
	close(m->script[0]);
	m->ep = epoll_create1(0);
	struct epoll_event ev = { .events = EPOLLIN, .data.u32 = LISTENER };
	epoll_ctl(m->ep, EPOLL_CTL_ADD, m->listener, &ev);
	for (int i = 0; i < CONNS; i++) {
		m->fd[i] = accept(m->listener, NULL, NULL);
		near_turns(m->fd[i], i < YOUNG ? MANY_TURNS : 1);
		ev = (struct epoll_event){ .events = events,
					   .data.u32 = (uint32_t)i };
		epoll_ctl(m->ep, EPOLL_CTL_ADD, m->fd[i], &ev);
	}
	struct epoll_event none[16];
	child_is_done(m);
	epoll_wait(m->ep, none, 16, 0);
	return pid;
}

static void child_does(struct many *m, const char *script)
{
	char byte;

	if (read(m->done[0], &byte, 1) != 1 ||
	    write(m->script[1], script, strlen(script)) < 0)
		out(" CHILD-GONE");
}

/* What has come, in the order in which the set tells it; all of it is taken. */
static void tells(struct many *m, int max)
{
	struct epoll_event ev[16];
	char byte[16];
	int k = epoll_wait(m->ep, ev, max, 0);

	for (int i = 0; i < k; i++) {
		uint32_t who = ev[i].data.u32;

		out("%u", who);
		if (who == LISTENER)
			close(accept(m->listener, NULL, NULL));
		else if (recv(m->fd[who], byte, sizeof(byte), MSG_DONTWAIT) ==
			 0)
			close(m->fd[who]);
	}
}

static void in_order(struct many *m, const char *script)
{
	child_does(m, script);
	child_is_done(m);
	out(" %s=", script);
	tells(m, 16);
	tells(m, 16);
}

static void many_end(struct many *m, pid_t pid)
{
	close(m->script[1]);
	child_ended(pid, "child");
}

SCENARIO(many_in_order)
{
	struct many m;
	pid_t pid = many_begin(&m, EPOLLIN);

	for (int i = 0; i < 5; i++) {
		in_order(&m, "012");
		in_order(&m, "210");
		in_order(&m, "120");
		in_order(&m, "2021");
		in_order(&m, "1");
	}
	many_end(&m, pid);
}

SCENARIO(many_in_order_edge)
{
	struct many m;
	pid_t pid = many_begin(&m, EPOLLIN | EPOLLET);

	for (int i = 0; i < 5; i++) {
		in_order(&m, "210");
		in_order(&m, "102");
	}
	many_end(&m, pid);
}

/* Those that are upgraded and those that are not. */
SCENARIO(many_in_order_mixed)
{
	struct many m;
	pid_t pid = many_begin(&m, EPOLLIN);

	for (int i = 0; i < 9; i++) {
		in_order(&m, "03");
		in_order(&m, "30");
		in_order(&m, "1453");
		in_order(&m, "5321");
		in_order(&m, "2430");
		in_order(&m, "34");
	}
	many_end(&m, pid);
}

/* What the listener and closed connections tell stands in the same order. */
SCENARIO(many_in_order_opened_and_closed)
{
	struct many m;
	pid_t pid = many_begin(&m, EPOLLIN);

	for (int i = 0; i < 9; i++) {
		in_order(&m, "+0");
		in_order(&m, "0+");
		in_order(&m, "2+1");
	}
	in_order(&m, "d0");
	in_order(&m, "0e");
	in_order(&m, "b2");
	in_order(&m, "2a");
	many_end(&m, pid);
}

/* With room for one: whoever was told of goes to the end. */
SCENARIO(many_one_by_one)
{
	struct many m;
	struct epoll_event ev;
	pid_t pid = many_begin(&m, EPOLLIN);

	child_does(&m, "210");
	child_is_done(&m);
	for (int i = 0; i < 7; i++)
		if (epoll_wait(m.ep, &ev, 1, 0) == 1)
			out(" %u", ev.data.u32);
	child_does(&m, "0");
	child_is_done(&m);
	for (int i = 0; i < 6; i++)
		if (epoll_wait(m.ep, &ev, 1, 0) == 1)
			out(" %u", ev.data.u32);
	many_end(&m, pid);
}

/* The set is asleep when the first arrives. */
SCENARIO(many_in_order_asleep)
{
	struct many m;
	pid_t pid = many_begin(&m, EPOLLIN);

	for (int i = 0; i < 20; i++) {
		struct epoll_event none;

		epoll_wait(m.ep, &none, 1, 0); /* what is not ready leaves */
		child_does(&m, "20");
		for (int left = 2; left;) {
			struct epoll_event ev[16];
			char byte;
			int k = epoll_wait(m.ep, ev, 16, -1);

			if (k <= 0)
				break;
			for (int j = 0; j < k; j++, left--) {
				out("%u", ev[j].data.u32);
				recv(m.fd[ev[j].data.u32], &byte, 1, 0);
			}
		}
	}
	many_end(&m, pid);
}

/* --- as many as the limit allows --- */

#define LIMIT 64

static struct rlimit limit_to(rlim_t soft, bool hard_too)
{
	struct rlimit old;

	getrlimit(RLIMIT_NOFILE, &old);
	struct rlimit now = { soft, hard_too ? soft : old.rlim_max };
	if (setrlimit(RLIMIT_NOFILE, &now))
		out(" LIMIT");
	return old;
}

/* The peer echoes what comes on any of its connections, till the pipe closes. */
static void echoes(int listener, int port, int n, int till)
{
	struct pollfd p[2 * LIMIT] = { { .fd = till, .events = POLLIN } };
	char bytes[64];

	child_begins();
	for (int i = 1; i <= n; i++)
		p[i] = (struct pollfd){ .fd = port ? connect_here(port) : -1,
					.events = POLLIN };
	p[n + 1] = (struct pollfd){ .fd = listener, .events = POLLIN };
	while (poll(p, (nfds_t)n + 2, -1) > 0 && !p[0].revents) {
		for (int i = 1; i <= n; i++) {
			if (!(p[i].revents))
				continue;
			ssize_t k = recv(p[i].fd, bytes, sizeof(bytes), 0);
			if (k <= 0 || send(p[i].fd, bytes, (size_t)k, 0) != k)
				p[i].fd = -1;
		}
		for (int i = 1; p[n + 1].revents && i <= n; i++)
			if (p[i].fd < 0) {
				p[i].fd = accept(listener, NULL, NULL);
				break;
			}
	}
	_exit(0);
}

static bool is_echoed(int fd)
{
	char byte = 'x';

	return send(fd, &byte, 1, 0) == 1 && recv(fd, &byte, 1, 0) == 1;
}

/* Prints how many descriptors there are and how many of them work; also their numbers, unless
 * a descriptor of osf's could be among them. */
static void opened(const int *fd, int n, int err, bool hard_too)
{
	int n_work = 0, n_row = 0;

	for (int turn = 0; turn < 20; turn++)
		for (int i = 0; i < n; i++)
			n_work += is_echoed(fd[i]);
	for (int i = 1; i < n; i++)
		n_row += fd[i] == fd[i - 1] + 1;
	out(" n=%d %s works=%d", n, strerrorname_np(err), n_work);
	if (!hard_too)
		out(" top=%d row=%d", n ? fd[n - 1] : -1, n_row);
}

static void clients_at_the_limit(bool hard_too)
{
	int fd[LIMIT], port = 0, till[2], n = 0;
	int listener = listen_here(&port);

	if (pipe(till))
		return;
	pid_t pid = fork();
	if (!pid) {
		close(till[1]);
		echoes(listener, 0, LIMIT, till[0]);
	}
	close(listener);
	close(till[0]);
	struct rlimit old = limit_to(LIMIT, hard_too);
	while (n < LIMIT && (fd[n] = connect_here(port)) >= 0 &&
	       is_echoed(fd[n]))
		n++;
	opened(fd, n, errno, hard_too);
	/* One that is closed makes room for one. */
	close(fd[n / 2]);
	RES("again", connect_here(port) == fd[n / 2]);
	RES("more", connect_here(port));
	setrlimit(RLIMIT_NOFILE, &old);
	close(till[1]);
	child_ended(pid, "child");
}

SCENARIO(many_clients_at_the_limit) { clients_at_the_limit(false); }

static void server_at_the_limit(bool hard_too)
{
	int fd[LIMIT], port = 0, till[2], n = 0;
	int listener = listen_here(&port);

	if (pipe(till))
		return;
	pid_t pid = fork();
	if (!pid) {
		close(till[1]);
		close(listener);
		echoes(-1, port, LIMIT, till[0]);
	}
	close(till[0]);
	struct rlimit old = limit_to(LIMIT, hard_too);
	while (n < LIMIT && (fd[n] = accept(listener, NULL, NULL)) >= 0)
		n++;
	opened(fd, n, errno, hard_too);
	close(fd[n / 2]);
	RES("again", accept(listener, NULL, NULL) == fd[n / 2]);
	RES("more", accept(listener, NULL, NULL));
	setrlimit(RLIMIT_NOFILE, &old);
	close(till[1]);
	child_ended(pid, "child");
}

SCENARIO(many_accepted_at_the_limit) { server_at_the_limit(false); }

/* The same where nothing can stand above the limit. */
SCENARIO(many_clients_at_a_hard_limit) { clients_at_the_limit(true); }
SCENARIO(many_accepted_at_a_hard_limit) { server_at_the_limit(true); }
