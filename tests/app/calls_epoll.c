/* SPDX-License-Identifier: MIT */
/*
 * tests/app/calls_epoll.c - scenarios: one thread waits in epoll_wait() while another
 * changes the set (see calls.h)
 *
 * The waiting thread checks that each event carries data that the program has given.
 * Every round makes a new set, because a set that has served a socket behaves differently.
 * There are many rounds, because each is a race.
 */
#include "calls.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS 300
/* A busy machine does fewer: each round waits for many others' turns. */
#define ROUNDS_MS 2000
#define SOCKET_DATA UINT64_C(0x1111)
#define END_DATA UINT64_C(0x2222)

struct waiter {
	int ep, end; /* the set; an eventfd in it that ends the wait */
	_Atomic bool waits;
	int n_foreign; /* events with data that nobody gave */
	int n_socket;
	pthread_t thread;
};

static void *wait_for_end(void *arg)
{
	struct waiter *w = arg;
	struct epoll_event ev[4];

	for (;;) {
		w->waits = true;
		int n_got = epoll_wait(w->ep, ev, 4, -1);
		bool is_end = n_got <= 0;

		for (int i = 0; i < n_got; i++) {
			if (ev[i].data.u64 == END_DATA)
				is_end = true;
			else if (ev[i].data.u64 == SOCKET_DATA)
				w->n_socket++;
			else
				w->n_foreign++;
		}
		if (is_end)
			return NULL;
	}
}

static void waiter_start(struct waiter *w)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u64 = END_DATA };

	w->ep = epoll_create1(EPOLL_CLOEXEC);
	w->end = eventfd(0, EFD_CLOEXEC);
	w->waits = false;
	epoll_ctl(w->ep, EPOLL_CTL_ADD, w->end, &ev);
	pthread_create(&w->thread, NULL, wait_for_end, w);
	while (!w->waits)
		sched_yield();
	for (int i = 0; i < 20; i++)
		sched_yield();
}

static void waiter_end(struct waiter *w)
{
	uint64_t one = 1;

	if (write(w->end, &one, sizeof(one)) < 0)
		out(" write failed");
	pthread_join(w->thread, NULL);
	close(w->end);
	close(w->ep);
}

/* The socket is readable when it is added, and is taken out again if @drops. */
static void added_while_another_waits(struct ctx *x, bool drops)
{
	struct waiter w = { 0 };

	far_do(x, FAR_SEND, 10);
	settle(x, POLLIN);
	long long end = ms_now() + ROUNDS_MS;
	for (int i = 0; i < ROUNDS && ms_now() < end; i++) {
		struct epoll_event ev = { .events = EPOLLIN | EPOLLONESHOT,
					  .data.u64 = SOCKET_DATA };

		waiter_start(&w);
		epoll_ctl(w.ep, EPOLL_CTL_ADD, x->fd, &ev);
		if (drops)
			epoll_ctl(w.ep, EPOLL_CTL_DEL, x->fd, NULL);
		waiter_end(&w);
	}
	out(" foreign=%d", w.n_foreign);
}

SCENARIO(epoll_added_while_another_waits)
{
	added_while_another_waits(x, false);
}

SCENARIO(epoll_dropped_while_another_waits)
{
	added_while_another_waits(x, true);
}

/* Each arming may report once: more is a shot too many. */
SCENARIO(epoll_oneshot_rearmed_while_another_waits)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLONESHOT,
				  .data.u64 = SOCKET_DATA };
	struct waiter w = { 0 };

	far_do(x, FAR_SEND, 10);
	settle(x, POLLIN);
	waiter_start(&w);
	epoll_ctl(w.ep, EPOLL_CTL_ADD, x->fd, &ev);
	for (int i = 0; i < ROUNDS; i++)
		epoll_ctl(w.ep, EPOLL_CTL_MOD, x->fd, &ev);
	waiter_end(&w);
	out(" foreign=%d too-many=%d", w.n_foreign, w.n_socket > ROUNDS + 1);
}

/* Both ends of a connection of this process's own. */
static bool own_pair(int listener, int fd[2])
{
	struct sockaddr_in at;
	socklen_t len = sizeof(at);

	getsockname(listener, (struct sockaddr *)&at, &len);
	fd[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (connect(fd[0], (struct sockaddr *)&at, len))
		return false;
	fd[1] = accept(listener, NULL, NULL);
	return fd[1] >= 0;
}

static int own_listener(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	return bind(fd, (struct sockaddr *)&at, sizeof(at)) || listen(fd, 8)
		   ? -1
		   : fd;
}

SCENARIO(epoll_waits_while_connections_move)
{
	struct waiter w = { 0 };
	int listener = own_listener(), fd[2];
	long long end = ms_now() + ROUNDS_MS;
	bool all = true;

	for (int i = 0; i < 60 && ms_now() < end; i++) {
		struct epoll_event ev = { .events = EPOLLIN,
					  .data.u64 = SOCKET_DATA };
		char byte = 'x';

		waiter_start(&w);
		if (!own_pair(listener, fd))
			break;
		epoll_ctl(w.ep, EPOLL_CTL_ADD, fd[1], &ev);
		for (int turn = 0; turn < 12; turn++) {
			all &= send(fd[0], &byte, 1, 0) == 1;
			all &= recv(fd[1], &byte, 1, 0) == 1;
			all &= send(fd[1], &byte, 1, 0) == 1;
			all &= recv(fd[0], &byte, 1, 0) == 1;
		}
		waiter_end(&w);
		close(fd[0]);
		close(fd[1]);
	}
	out(" all=%d foreign=%d", all, w.n_foreign);
}

/* What a process adds to a set that a fork shares is told to both by its data. */
SCENARIO(epoll_oneshot_in_forked_set)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLONESHOT,
				  .data.u64 = SOCKET_DATA };
	int ep = epoll_create1(0), go[2], listener = own_listener(), fd[2];

	if (pipe(go))
		return;
	pid_t pid = fork();
	if (!pid) {
		struct epoll_event got_ev = { 0 };
		char byte;

		if (read(go[0], &byte, 1) != 1 ||
		    epoll_wait(ep, &got_ev, 1, -1) != 1)
			_exit(1);
		_exit(got_ev.data.u64 == SOCKET_DATA ? 0 : 2);
	}
	if (!own_pair(listener, fd) || send(fd[0], "x", 1, 0) != 1)
		return;
	RES("add", epoll_ctl(ep, EPOLL_CTL_ADD, fd[1], &ev));
	RES("go", write(go[1], "x", 1));
	int status;
	waitpid(pid, &status, 0);
	out(" child=%d", WEXITSTATUS(status));
	ev.data.u64 = 0;
	RES("parent", epoll_wait(ep, &ev, 1, 0));
	ev = (struct epoll_event){ .events = EPOLLIN | EPOLLONESHOT,
				   .data.u64 = SOCKET_DATA };
	RES("mod", epoll_ctl(ep, EPOLL_CTL_MOD, fd[1], &ev));
	RES("parent", epoll_wait(ep, &ev, 1, -1));
	out(" data=%#llx", (unsigned long long)ev.data.u64);
}

/* The child's MOD is the kernel's, so it holds for the parent, too. */
SCENARIO(epoll_oneshot_rearmed_by_a_child)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLONESHOT,
				  .data.u64 = SOCKET_DATA };
	int ep = epoll_create1(0), listener = own_listener(), fd[2], status;

	if (!own_pair(listener, fd))
		return;
	RES("add", epoll_ctl(ep, EPOLL_CTL_ADD, fd[1], &ev));
	pid_t pid = fork();
	if (!pid)
		_exit(epoll_ctl(ep, EPOLL_CTL_MOD, fd[1], &ev) ? 1 : 0);
	waitpid(pid, &status, 0);
	out(" child=%d", WEXITSTATUS(status));
	RES("send", send(fd[0], "x", 1, 0));
	ev.data.u64 = 0;
	RES("parent", epoll_wait(ep, &ev, 1, -1));
	out(" data=%#llx", (unsigned long long)ev.data.u64);
}

SCENARIO(epoll_exclusive_refused)
{
	int a = epoll_create1(0), b = epoll_create1(0);
	struct epoll_event ev = { .events = EPOLLIN | EPOLLEXCLUSIVE };
	struct epoll_event plain = { .events = EPOLLIN };

	RES("set", epoll_ctl(a, EPOLL_CTL_ADD, b, &ev));
	RES("set", epoll_ctl(a, EPOLL_CTL_ADD, b, &plain));
	RES("mod-set", epoll_ctl(a, EPOLL_CTL_MOD, b, &ev));
	ev.events = EPOLLIN | EPOLLEXCLUSIVE | EPOLLONESHOT;
	RES("oneshot", epoll_ctl(a, EPOLL_CTL_ADD, x->fd, &ev));
	RES("mod-none", epoll_ctl(a, EPOLL_CTL_MOD, x->fd, &ev));
	RES("add", epoll_ctl(a, EPOLL_CTL_ADD, x->fd, &plain));
	RES("twice", epoll_ctl(a, EPOLL_CTL_ADD, x->fd, &ev));
	RES("del", epoll_ctl(a, EPOLL_CTL_DEL, x->fd, NULL));
	RES("again", epoll_ctl(a, EPOLL_CTL_ADD, x->fd, &ev));
}

struct later {
	int ep, fd;
};

static void *add_later(void *arg)
{
	struct later *l = arg;
	struct epoll_event ev = { .events = EPOLLPRI };

	usleep(20000);
	epoll_ctl(l->ep, EPOLL_CTL_ADD, l->fd, &ev);
	return NULL;
}

/* A wait with a timeout keeps it when the set gets its first socket meanwhile. */
SCENARIO(epoll_timeout_kept)
{
	struct later l = { epoll_create1(0), x->fd };
	struct epoll_event ev;
	pthread_t t;

	pthread_create(&t, NULL, add_later, &l);
	long long since = ms_now();
	RES("wait", epoll_wait(l.ep, &ev, 1, 100));
	took(since, 100);
	pthread_join(t, NULL);
}
