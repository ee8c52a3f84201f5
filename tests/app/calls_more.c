/* SPDX-License-Identifier: MIT */
/* tests/app/calls_more.c - scenarios: MSG_MORE and TCP_CORK: which bytes are held back,
 * until when, and which calls send them (see calls_part.h) */
#include "calls_part.h"

#include <sys/resource.h>
#include <sys/time.h>

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/wait.h>
#include <unistd.h>

#define HELD_MS 200 /* at most: tcp(7) */
#define SURE_MS 150 /* the machine was not so slow that it may be over */

static void set_tcp(struct ctx *x, const char *what, int name, int v)
{
	RES(what, setsockopt(x->fd, IPPROTO_TCP, name, &v, sizeof(v)));
}

static void sends(struct ctx *x, size_t len, int flags)
{
	made(x, buf, len);
	RES("send", send(x->fd, buf, n(len), flags));
}

/* What far_has_none() has read after the kernel may let it go. */
static long came_late;

/* Is what was sent since @start still held back?  Too late to say counts as yes. */
static void far_has_none(struct ctx *x, long long start)
{
	long r = far_do(x, FAR_NOW, 100);
	bool is_late = ms_now() - start > SURE_MS;

	out(" held=%d", r == -EAGAIN || is_late);
	came_late += r > 0 && is_late ? r : 0;
}

/* All that has come since the last time. */
static void far_has_all(struct ctx *x, long most)
{
	long r = far_do(x, FAR_NOW, most);

	out(" far=%ld", r == -EAGAIN ? came_late : r + came_late);
	came_late = 0;
}

SCENARIO(more_goes_with_the_rest)
{
	long long start = ms_now();

	sends(x, 3, MSG_MORE);
	far_has_none(x, start);
	sends(x, 4, MSG_MORE);
	far_has_none(x, start);
	sends(x, 5, 0);
	far_has_all(x, 100);
	sends(x, 6, 0);
	far_has_all(x, 100);
}

SCENARIO(more_is_one_read)
{
	/* The reader is asleep, and wakes once. */
	far_begin(x, FAR_RECV, 7);
	wait_a_bit();
	sends(x, 3, MSG_MORE);
	sends(x, 4, 0);
	out(" far=%ld", far_end(x));
}

SCENARIO(more_goes_in_time)
{
	long long start = ms_now();

	sends(x, 3, MSG_MORE);
	far_res(x, "far", FAR_RECV, 3);
	took(start, SURE_MS);
	sends(x, 4, 0);
	far_res(x, "far", FAR_RECV, 4);
}

SCENARIO(more_again_and_again)
{
	for (int i = 0; i < 50; i++) {
		made(x, buf, 7);
		if (send(x->fd, buf, n(3), MSG_MORE) != 3 ||
		    send(x->fd, buf + 3, n(4), 0) != 4 ||
		    far_do(x, FAR_RECV, 7) != 7)
			out(" WRONG");
	}
	sends(x, 3, MSG_MORE);
	far_res(x, "far", FAR_RECV, 3);
	turns(x, 10);
}

SCENARIO(more_than_a_segment)
{
	sends(x, 200000, MSG_MORE);
	far_res(x, "far", FAR_RECV, 200000);
}

SCENARIO(more_of_many)
{
	long total = 0;

	for (int i = 0; i < 3000; i++) {
		made(x, buf, 100);
		long r = send(x->fd, buf, n(100), MSG_MORE);
		total += r > 0 ? r : 0;
	}
	out(" total=%ld", total);
	far_res(x, "far", FAR_RECV, 300000);
}

SCENARIO(more_and_a_file)
{
	long long start = ms_now();
	int p[2];

	sends(x, 30, MSG_MORE);
	far_has_none(x, start);
	int file = file_of(x, 1000);
	RES("sendfile", sendfile(x->fd, file, NULL, n(1000)));
	far_has_all(x, 2000);
	if (pipe(p))
		return;
	made(x, buf, 20);
	RES("fill", write(p[1], buf, 20));
	start = ms_now();
	RES("splice", splice(p[0], NULL, x->fd, NULL, n(10), SPLICE_F_MORE));
	far_has_none(x, start);
	RES("splice", splice(p[0], NULL, x->fd, NULL, n(10), 0));
	far_has_all(x, 2000);
}

SCENARIO(more_is_counted)
{
	int q = -1;
	long long start = ms_now();

	sends(x, 3, MSG_MORE);
	RES("outq", ioctl(x->fd, TIOCOUTQ, &q));
	out("/%d", ms_now() - start > SURE_MS ? 3 : q);
	far_res(x, "far", FAR_RECV, 3);
}

SCENARIO(more_before_the_end)
{
	sends(x, 3, MSG_MORE);
	RES("shut", shutdown(x->fd, SHUT_WR));
	far_res(x, "far", FAR_NOW, 100);
	far_res(x, "end", FAR_RECV, 100);
}

SCENARIO(more_before_close)
{
	sends(x, 3, MSG_MORE);
	RES("close", close(x->fd));
	x->fd = -1;
	far_res(x, "far", FAR_RECV, 3);
	far_res(x, "end", FAR_RECV, 100);
}

static void dies(struct ctx *x, bool is_killed)
{
	pid_t pid = fork();

	if (!pid) {
		sends(x, 3, MSG_MORE);
		if (is_killed)
			raise(SIGKILL);
		_exit(0);
	}
	close(x->fd);
	child_ended(pid, "child");
	x->sent += 3;
	x->fd = -1;
	far_res(x, "far", FAR_RECV, 3);
	far_res(x, "end", FAR_RECV, 100);
}

SCENARIO(more_before_exit) { dies(x, false); }
SCENARIO(more_before_kill) { dies(x, true); }

SCENARIO(more_in_a_child)
{
	pid_t pid = fork();

	if (!pid) {
		sends(x, 3, MSG_MORE);
		_exit(0);
	}
	child_ended(pid, "child");
	x->sent += 3;
	sends(x, 4, 0);
	far_res(x, "far", FAR_RECV, 7);
}

/* Whoever takes the connection from the rings takes what waits too. */
SCENARIO(more_and_back_to_tcp)
{
	int off = -1;

	sends(x, 3, MSG_MORE);
	RES("near",
	    setsockopt(x->fd, SOL_SOCKET, SO_PEEK_OFF, &off, sizeof(off)));
	sends(x, 4, 0);
	far_res(x, "far", FAR_RECV, 7);
	far_do(x, FAR_SEND, 10);
	RES("recv", recv(x->fd, buf, n(10), MSG_WAITALL));
	got(x, buf, 10);
}

SCENARIO(more_of_the_far_end_and_back)
{
	int off = -1;

	far_do(x, FAR_SEND_MORE, 3);
	RES("near",
	    setsockopt(x->fd, SOL_SOCKET, SO_PEEK_OFF, &off, sizeof(off)));
	far_do(x, FAR_SEND, 4);
	long r = recv(x->fd, buf, n(7), MSG_WAITALL);
	res("recv", r);
	got(x, buf, r);
	turns(x, 10);
}

/* --- TCP_CORK --- */

SCENARIO(more_cork)
{
	long long start = ms_now();

	set_tcp(x, "cork", TCP_CORK, 1);
	sends(x, 3, 0);
	sends(x, 4, 0);
	far_has_none(x, start);
	set_tcp(x, "uncork", TCP_CORK, 0);
	far_has_all(x, 100);
	start = ms_now();
	set_tcp(x, "cork", TCP_CORK, 1);
	sends(x, 5, 0);
	far_res(x, "far", FAR_RECV, 5);
	took(start, SURE_MS);
	start = ms_now();
	sends(x, 6, 0);
	far_has_none(x, start);
	set_tcp(x, "nodelay", TCP_NODELAY, 1);
	far_has_all(x, 100);
	sends(x, 100000, 0);
	set_tcp(x, "uncork", TCP_CORK, 0);
	far_res(x, "far", FAR_RECV, 100000);
}

/* --- the reader's side: however it waits --- */

static long long held_since;

static void near_got(struct ctx *x)
{
	long r = recv(x->fd, buf, n(100), MSG_DONTWAIT);

	res("recv", r);
	got(x, buf, r);
}

static void in_time(long long start)
{
	long long ms = ms_now() - start;

	out(ms < SURE_MS ? " early" : ms > 1500 ? " late" : " in-time");
}

static void by_recv(struct ctx *x)
{
	long r = recv(x->fd, buf, n(100), 0);

	res("recv", r);
	got(x, buf, r);
}

static void by_poll(struct ctx *x)
{
	struct pollfd p = { .fd = x->fd, .events = POLLIN };

	RES("poll", poll(&p, 1, -1));
	near_got(x);
}

static void by_select(struct ctx *x)
{
	struct timeval tv = { .tv_sec = 3 };
	fd_set set;

	FD_ZERO(&set);
	FD_SET(x->fd, &set);
	RES("select", select(x->fd + 1, &set, NULL, NULL, &tv));
	near_got(x);
}

/* Too late to say that there is nothing yet counts as nothing. */
static void by_epoll(struct ctx *x, uint32_t events)
{
	struct epoll_event ev = { .events = events };
	int ep = epoll_create1(0);

	RES("add", epoll_ctl(ep, EPOLL_CTL_ADD, x->fd, &ev));
	int r = epoll_wait(ep, &ev, 1, 0);
	out(" none=%d", r && ms_now() - held_since < SURE_MS);
	RES("wait", r ? r : epoll_wait(ep, &ev, 1, -1));
	near_got(x);
	RES("none", epoll_wait(ep, &ev, 1, 0));
	close(ep);
}

static void by_epoll_level(struct ctx *x) { by_epoll(x, EPOLLIN); }
static void by_epoll_edge(struct ctx *x) { by_epoll(x, EPOLLIN | EPOLLET); }

static void by_looking(struct ctx *x)
{
	long long end = ms_now() + 10000;
	int q = 0;

	while (!q && ms_now() < end) {
		ioctl(x->fd, FIONREAD, &q);
		usleep(1000);
	}
	out(" inq=%d", q);
	near_got(x);
}

/* An acknowledgement that is due lets the kernel's bytes go early: this brings it. */
static void acknowledge(struct ctx *x)
{
	sends(x, 16, 0);
	far_res(x, "far", FAR_RECV, 16);
}

/* The far end holds back before, and while, the near end waits. */
static void waits(struct ctx *x, void (*by)(struct ctx *x))
{
	acknowledge(x);
	held_since = ms_now();
	far_do(x, FAR_SEND_MORE, 10);
	by(x);
	in_time(held_since);
	acknowledge(x);
	held_since = ms_now();
	far_do(x, FAR_SEND_MORE_LATER, 10);
	by(x);
	in_time(held_since);
	turns(x, 3);
}

SCENARIO(more_wakes_recv) { waits(x, by_recv); }
SCENARIO(more_wakes_poll) { waits(x, by_poll); }
SCENARIO(more_wakes_select) { waits(x, by_select); }
SCENARIO(more_wakes_epoll) { waits(x, by_epoll_level); }
SCENARIO(more_wakes_epoll_edge) { waits(x, by_epoll_edge); }
SCENARIO(more_shows_in_time) { waits(x, by_looking); }

SCENARIO(more_wakes_child)
{
	pid_t pid = fork();

	if (!pid) {
		wait_a_bit();
		by_recv(x);
		_exit(0);
	}
	far_do(x, FAR_SEND_MORE, 10);
	child_ended(pid, "child");
	x->got += 10;
	turns(x, 3);
}

SCENARIO(more_timeouts)
{
	struct timeval tv = { .tv_usec = 30000 };
	struct pollfd p = { .fd = x->fd, .events = POLLIN };

	acknowledge(x);
	far_do(x, FAR_SEND_MORE, 10);
	long long start = ms_now();
	int r = poll(&p, 1, 30);
	out(" poll=%d", ms_now() - start > SURE_MS ? 0 : r);
	took(start, 30);
	setsockopt(x->fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	long got_bytes = recv(x->fd, buf, n(100), 0);
	out(" recv=%d", ms_now() - start > SURE_MS || got_bytes < 0);
	if (got_bytes < 0) {
		settle(x, POLLIN);
		got_bytes = recv(x->fd, buf, n(100), 0);
	}
	got(x, buf, got_bytes);
	tv.tv_usec = 0; /* turns() waits as long as it takes */
	setsockopt(x->fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	turns(x, 3);
}

/* A program that has shut its reading half never reads the bytes that are held back.  When it
 * waits for something else, it sleeps until its timeout, and does not spin. */
SCENARIO(more_wakes_no_deaf_one)
{
	struct pollfd p = { .fd = x->fd, .events = POLLPRI };
	struct rusage before, after;
	struct timeval used;

	RES("shutdown", shutdown(x->fd, SHUT_RD));
	far_do(x, FAR_SEND_MORE, 10);
	RES("poll", poll(&p, 1, 400)); /* until it is due */
	getrusage(RUSAGE_SELF, &before);
	RES("poll", poll(&p, 1, 800));
	getrusage(RUSAGE_SELF, &after);
	timersub(&after.ru_stime, &before.ru_stime, &used);
	out(" spins=%d", used.tv_sec || used.tv_usec > 100000);
}
