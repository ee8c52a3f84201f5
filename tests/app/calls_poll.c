/* SPDX-License-Identifier: MIT */
/* tests/app/calls_poll.c - scenarios: waiting in poll and select (see calls.h); what they
 * say of closed connections is in calls_close.c */
#include "calls_poll.h"
#include "calls_part.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

void recv_got(struct ctx *x, size_t len)
{
	long r = recv(x->fd, buf, n(len), MSG_DONTWAIT);

	if (r < 0)
		out(" recv=%s", strerrorname_np(errno));
	got(x, buf, r);
}

/* --- poll --- */

SCENARIO(poll_timeout)
{
	struct pollfd pfd = { .fd = x->fd, .events = POLLIN };
	struct timespec ts = { 0, 60000000 };

	long long t = ms_now();
	RES("poll", poll(&pfd, n(1), 60));
	took(t, 60);
	t = ms_now();
	RES("ppoll", ppoll(&pfd, n(1), &ts, NULL));
	took(t, 60);
	t = ms_now();
	RES("zero", poll(&pfd, n(1), 0));
	took(t, 0);
	t = ms_now();
	RES("no-fds", poll(NULL, 0, 30));
	took(t, 30);
	out(" ts=%ld", ts.tv_nsec);
}

SCENARIO(poll_wakes_on_data)
{
	struct pollfd pfd = { .fd = x->fd, .events = POLLIN };

	long long t = ms_now();
	far_do(x, FAR_SEND_LATER, 16);
	RES("poll", poll(&pfd, n(1), -1));
	took(t, LATER_MS - 20);
	bits("revents", pfd.revents);
	recv_got(x, 100);
	far_do(x, FAR_SEND_LATER, 16);
	RES("forever", poll(&pfd, n(1), -1));
	bits("revents", pfd.revents);
}

SCENARIO(poll_wakes_on_room)
{
	struct pollfd pfd = { .fd = x->fd, .events = POLLOUT };
	size_t total = fill_up(x);

	RES("full", poll(&pfd, n(1), 0));
	far_do(x, FAR_RECV_LATER, (long)total);
	RES("poll", poll(&pfd, n(1), -1));
	bits("revents", pfd.revents);
}

SCENARIO(poll_wakes_on_room_by_its_other_name)
{
	struct pollfd pfd = { .fd = x->fd, .events = POLLWRNORM };
	size_t total = fill_up(x);

	far_do(x, FAR_RECV_LATER, (long)total);
	RES("poll", poll(&pfd, n(1), -1));
	bits("revents", pfd.revents);
}

/* The kernel has the connection again, both directions, and no room. */
static size_t full_after_the_way_back(struct ctx *x)
{
	int one = 1;

	RES("inline",
	    setsockopt(x->fd, SOL_SOCKET, SO_OOBINLINE, &one, sizeof(one)));
	for (int i = 0; i < 4; i++) {
		made(x, buf, 16);
		RES("send", send(x->fd, buf, n(16), 0));
		far_do(x, FAR_RECV, 16);
		far_do(x, FAR_SEND, 16);
		settle(x, POLLIN);
		recv_got(x, 100);
	}
	return fill_up(x);
}

SCENARIO(poll_wakes_on_room_after_the_way_back)
{
	struct pollfd pfd = { .fd = x->fd, .events = POLLOUT };
	size_t total = full_after_the_way_back(x);

	RES("full", poll(&pfd, n(1), 0));
	far_do(x, FAR_RECV_LATER, (long)total);
	RES("poll", poll(&pfd, n(1), -1));
	bits("revents", pfd.revents);
}

/* In a set that a child has inherited. */
SCENARIO(epoll_wakes_a_child_on_room_after_the_way_back)
{
	struct epoll_event ev = { .events = EPOLLOUT };
	int ep = epoll_create1(0), status;
	size_t total = full_after_the_way_back(x);

	RES("add", epoll_ctl(ep, EPOLL_CTL_ADD, x->fd, &ev));
	RES("full", epoll_wait(ep, &ev, 1, 0));
	pid_t pid = fork();
	if (!pid) {
		alarm(CHILD_S);
		_exit(epoll_wait(ep, &ev, 1, -1) == 1 && ev.events & EPOLLOUT);
	}
	far_do(x, FAR_RECV_LATER, (long)total);
	waitpid(pid, &status, 0);
	out(" child=%d", status ? WEXITSTATUS(status) : -1);
	RES("parent", epoll_wait(ep, &ev, 1, -1));
	close(ep);
}

SCENARIO(poll_wakes_on_end)
{
	struct pollfd pfd = { .fd = x->fd, .events = POLLRDHUP };

	far_do(x, FAR_SHUT_LATER, SHUT_WR);
	RES("poll", poll(&pfd, n(1), -1));
	bits("revents", pfd.revents);
}

/* POLLIN is not the only name of what wakes a reader. */
SCENARIO(poll_wakes_by_other_names)
{
	struct pollfd pfd = { .fd = x->fd, .events = POLLRDNORM };

	far_do(x, FAR_SEND_LATER, 16);
	RES("bytes", poll(&pfd, n(1), -1));
	bits("revents", pfd.revents);
	pfd.events = POLLRDHUP; /* the bytes stay unread */
	far_do(x, FAR_SHUT_LATER, SHUT_WR);
	RES("end", poll(&pfd, n(1), -1));
	bits("revents", pfd.revents);
	recv_got(x, 100);
}

SCENARIO(poll_wakes_on_hangup)
{
	struct pollfd pfd = { .fd = x->fd };

	RES("shutdown", shutdown(x->fd, SHUT_WR));
	far_do(x, FAR_SHUT_LATER, SHUT_WR);
	RES("poll", poll(&pfd, n(1), -1));
	bits("revents", pfd.revents);
}

/* Of the core, by this process. */
static long used_us(void)
{
	struct rusage r;

	getrusage(RUSAGE_SELF, &r);
	return (r.ru_utime.tv_sec + r.ru_stime.tv_sec) * 1000000 +
	       r.ru_utime.tv_usec + r.ru_stime.tv_usec;
}

/* Bytes lie unread, and the program waits for the end, or for room: asleep. */
SCENARIO(poll_with_unread_bytes_sleeps)
{
	struct pollfd pfd = { .fd = x->fd, .events = POLLRDHUP };

	far_do(x, FAR_SEND, 16);
	settle(x, POLLIN);
	long us = used_us();
	RES("end", poll(&pfd, n(1), 400));
	us = used_us() - us;
	fill_up(x);
	pfd.events = POLLOUT;
	us -= used_us();
	RES("room", poll(&pfd, n(1), 400));
	us += used_us();
	out(" spins=%d", us > 200000);
	recv_got(x, 100);
}

SCENARIO(poll_wakes_on_reset)
{
	struct pollfd pfd = { .fd = x->fd };

	far_do(x, FAR_RESET_LATER, 0);
	RES("poll", poll(&pfd, n(1), -1));
	bits("revents", pfd.revents);
}

SCENARIO(poll_mixed)
{
	int p[2];

	if (pipe(p))
		return;
	struct pollfd pfd[5] = { { .fd = -1, .events = POLLIN, .revents = 77 },
				 { .fd = x->fd, .events = POLLIN | POLLOUT },
				 { .fd = p[0], .events = POLLIN },
				 { .fd = x->fd, .events = POLLIN },
				 { .fd = 90000, .events = POLLIN } };

	RES("poll", poll(pfd, n(5), 0));
	for (int i = 0; i < 5; i++)
		bits("", pfd[i].revents);
	far_do(x, FAR_SEND, 10);
	settle(x, POLLIN);
	if (write(p[1], "x", 1) != 1)
		return;
	RES("poll", poll(pfd, n(5), -1));
	for (int i = 0; i < 5; i++)
		bits("", pfd[i].revents);
}

SCENARIO(poll_pipe_wakes)
{
	int p[2];

	if (pipe(p))
		return;
	struct pollfd pfd[2] = { { .fd = x->fd, .events = POLLIN },
				 { .fd = p[0], .events = POLLIN } };
	pid_t pid = fork();
	if (!pid) {
		usleep(LATER_MS * 1000);
		_exit(write(p[1], "x", 1) != 1);
	}
	RES("poll", poll(pfd, n(2), -1));
	bits("socket", pfd[0].revents);
	bits("pipe", pfd[1].revents);
}

SCENARIO(poll_bad)
{
	struct timespec bad = { 0, 2000000000 };
	struct pollfd pfd = { .fd = x->fd, .events = POLLIN };

	RES("pointer", poll(BAD_POINTER, n(1), 0));
	/* Through a pointer: a fortified poll() would know better and abort. */
	int (*volatile plain)(struct pollfd *, nfds_t, int) = poll;
	RES("many", plain(&pfd, n(2000000000), 0));
	RES("time", ppoll(&pfd, n(1), &bad, NULL));
}

SCENARIO(poll_intr)
{
	struct pollfd pfd = { .fd = x->fd, .events = POLLIN };

	interrupt_after(30, 0);
	RES("poll", poll(&pfd, n(1), -1));
	interrupt_over();
	interrupt_after(30, SA_RESTART);
	RES("restart", poll(&pfd, n(1), -1));
	interrupt_over();
	out(" signals=%d", interrupted);
}

sigset_t block_alarm(void)
{
	sigset_t set, old;

	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	sigprocmask(SIG_BLOCK, &set, &old);
	return old;
}

SCENARIO(poll_ppoll_mask)
{
	struct pollfd pfd = { .fd = x->fd, .events = POLLIN };
	struct timespec ts = { 3, 0 }, zero = { 0, 0 };
	sigset_t open = block_alarm();

	signal_after(1, 0);
	usleep(20000);
	out(" signals=%d", signals);
	RES("blocked", ppoll(&pfd, n(1), &zero, NULL));
	RES("ppoll", ppoll(&pfd, n(1), &ts, &open));
	out(" signals=%d", signals);
	signal_after(20, 0);
	RES("later", ppoll(&pfd, n(1), NULL, &open));
	out(" signals=%d", signals);
}

SCENARIO(poll_ready_and_signal)
{
	struct pollfd pfd = { .fd = x->fd, .events = POLLIN };
	struct timespec ts = { 3, 0 };
	sigset_t open = block_alarm();

	far_do(x, FAR_SEND, 10);
	settle(x, POLLIN);
	signal_after(1, 0);
	usleep(20000);
	RES("ppoll", ppoll(&pfd, n(1), &ts, &open));
	out(" signals=%d", signals);
}

/* --- select --- */

int sel(int fd, int which, int ms, const char *what)
{
	struct timeval tv = { ms / 1000, ms % 1000 * 1000 };
	fd_set set[3];

	for (int i = 0; i < 3; i++) {
		FD_ZERO(&set[i]);
		if (which & 1 << i)
			FD_SET(fd, &set[i]);
	}
	errno = 0;
	int r = select(fd + 1, &set[0], &set[1], &set[2], &tv);
	res(what, r);
	out("/%d%d%d", FD_ISSET(fd, &set[0]) != 0, FD_ISSET(fd, &set[1]) != 0,
	    FD_ISSET(fd, &set[2]) != 0);
	return (int)(tv.tv_sec * 1000 + tv.tv_usec / 1000);
}

SCENARIO(select_sets)
{
	sel(x->fd, 7, 0, "idle");
	sel(x->fd, 1, 0, "read");
	far_do(x, FAR_SEND, 10);
	settle(x, POLLIN);
	sel(x->fd, 7, 0, "data");
	sel(x->fd, 5, 3000, "read");
	recv_got(x, 100);
	fill_up(x);
	sel(x->fd, 7, 0, "full");
	far_do(x, FAR_SHUT, SHUT_WR);
	settle(x, POLLRDHUP);
	sel(x->fd, 7, 0, "eof");
}

SCENARIO(select_timeout)
{
	long long t = ms_now();
	int left = sel(x->fd, 1, 60, "timeout");
	took(t, 60);
	out(" left=%d", left);
	far_do(x, FAR_SEND_LATER, 10);
	left = sel(x->fd, 1, 3000, "data");
	out(" %s", left > 500 && left < 3000 ? "less-left" : "odd");
}

SCENARIO(select_bad)
{
	struct timeval tv = { 0, 0 }, minus = { -1, 0 };
	fd_set set;
	int fd2 = dup(x->fd);

	FD_ZERO(&set);
	FD_SET(fd2, &set);
	close(fd2);
	RES("closed", select(fd2 + 1, &set, NULL, NULL, &tv));
	RES("nfds", select(-1, &set, NULL, NULL, &tv));
	RES("time", select(0, NULL, NULL, NULL, &minus));
	RES("nothing", select(0, NULL, NULL, NULL, &tv));
	RES("pointer", select(1, BAD_POINTER, NULL, NULL, &tv));
	FD_ZERO(&set);
	FD_SET(x->fd, &set);
	RES("beyond", select(x->fd, &set, NULL, NULL, &tv));
}

SCENARIO(select_intr)
{
	interrupt_after(30, 0);
	sel(x->fd, 1, 3000, "select");
	interrupt_over();
	interrupt_after(30, SA_RESTART);
	sel(x->fd, 1, 3000, "restart");
	interrupt_over();
	out(" signals=%d", interrupted);
}

SCENARIO(select_pselect_mask)
{
	struct timespec ts = { 3, 0 };
	sigset_t open = block_alarm();
	fd_set set;

	FD_ZERO(&set);
	FD_SET(x->fd, &set);
	signal_after(1, 0);
	usleep(20000);
	RES("pselect", pselect(x->fd + 1, &set, NULL, NULL, &ts, &open));
	out(" signals=%d ts=%ld", signals, (long)ts.tv_sec);
}

SCENARIO(select_mixed)
{
	struct timeval tv = { 3, 0 };
	int p[2];
	fd_set in;

	if (pipe(p))
		return;
	FD_ZERO(&in);
	FD_SET(x->fd, &in);
	FD_SET(p[0], &in);
	far_do(x, FAR_SEND_LATER, 10);
	int top = x->fd > p[0] ? x->fd : p[0];
	RES("select", select(top + 1, &in, NULL, NULL, &tv));
	out("/%d%d", FD_ISSET(x->fd, &in) != 0, FD_ISSET(p[0], &in) != 0);
}
