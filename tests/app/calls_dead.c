/* SPDX-License-Identifier: MIT */
/*
 * tests/app/calls_dead.c - scenarios: the peer's process is killed, or resets (see
 * calls.h)
 *
 * The peer is a forked child.  It opens a connection of its own and makes some turns, so
 * that osf moves the connection where it can.  Then the peer does what the scenario
 * says.  When peer_kill() has returned, the kernel has told us all that it will.
 */
#include "calls.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/wait.h>
#include <unistd.h>

#define TURNS 12
#define FLOOD_CHUNK (64 * 1024)

struct peer {
	pid_t pid;
	int fd;   /* our end */
	int said; /* the peer writes a byte here when it has done its part */
};

/* Nagle's algorithm would hold back what the peer is to leave unread. */
static void send_at_once(int fd)
{
	int one = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

/* What the peer does in front of its turns, in which its connection moves. */
static void (*first_part)(int fd);

static int peer_connect(int listener, bool has_turns)
{
	struct sockaddr_in at;
	socklen_t len = sizeof(at);
	char byte = 'x';

	getsockname(listener, (struct sockaddr *)&at, &len);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (connect(fd, (struct sockaddr *)&at, len))
		_exit(1);
	send_at_once(fd);
	if (first_part)
		first_part(fd);
	for (int i = 0; has_turns && i < TURNS; i++)
		if (send(fd, &byte, 1, 0) != 1 || recv(fd, &byte, 1, 0) != 1)
			_exit(2);
	return fd;
}

/* A peer that calls @part after its turns and then sleeps. */
static struct peer peer_start(void (*part)(int fd), bool has_turns)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct peer p = { 0 };
	int said[2];
	char byte;

	if (bind(listener, (struct sockaddr *)&at, sizeof(at)) ||
	    listen(listener, 4) || pipe(said))
		_exit(3);
	p.pid = fork();
	if (!p.pid) {
		signal(SIGPIPE, SIG_IGN);
		close(said[0]);
		int fd = peer_connect(listener, has_turns);
		part(fd);
		if (write(said[1], "x", 1) != 1)
			_exit(4);
		for (;;)
			pause();
	}
	close(said[1]);
	p.said = said[0];
	p.fd = accept(listener, NULL, NULL);
	close(listener);
	send_at_once(p.fd);
	for (int i = 0; has_turns && i < TURNS; i++)
		if (recv(p.fd, &byte, 1, 0) != 1 ||
		    send(p.fd, &byte, 1, 0) != 1)
			_exit(5);
	return p;
}

static void peer_wait(struct peer *p)
{
	char byte;

	if (read(p->said, &byte, 1) != 1)
		out(" peer failed");
	close(p->said);
}

static void peer_kill(struct peer *p)
{
	kill(p->pid, SIGKILL);
	waitpid(p->pid, NULL, 0);
}

static struct peer peer_killed(void (*part)(int fd))
{
	struct peer p = peer_start(part, true);

	peer_wait(&p);
	peer_kill(&p);
	return p;
}

static void nothing(int fd) {}

static void linger(int fd, int on)
{
	struct linger l = { on, 0 };

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l));
}

static void linger_zero(int fd) { linger(fd, 1); }

static void reset(int fd)
{
	linger_zero(fd);
	close(fd);
}

static void poll_now(int fd, int events, const char *what)
{
	struct pollfd p = { .fd = fd, .events = (short)events };

	RES(what, poll(&p, n(1), 0));
	bits("revents", p.revents);
}

static void select_now(int fd)
{
	struct timeval tv = { 0 };
	fd_set r, w;

	FD_ZERO(&r);
	FD_ZERO(&w);
	FD_SET(fd, &r);
	FD_SET(fd, &w);
	RES("select", select(fd + 1, &r, &w, NULL, &tv));
	out(" read=%d write=%d", FD_ISSET(fd, &r), FD_ISSET(fd, &w));
}

SCENARIO(dead_seen_by_poll_at_once)
{
	struct peer p = peer_killed(nothing);

	poll_now(p.fd, POLLIN, "in");
	poll_now(p.fd, POLLIN | POLLRDHUP, "rdhup");
	poll_now(p.fd, 0, "nothing");
	RES("recv", recv(p.fd, buf, n(10), MSG_DONTWAIT));
}

SCENARIO(dead_seen_by_select_at_once)
{
	struct peer p = peer_killed(nothing);

	select_now(p.fd);
	RES("recv", recv(p.fd, buf, n(10), MSG_DONTWAIT));
}

SCENARIO(dead_seen_by_epoll_at_once)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLRDHUP };
	int ep = epoll_create1(0);
	struct peer p = peer_start(nothing, true);

	epoll_ctl(ep, EPOLL_CTL_ADD, p.fd, &ev);
	peer_wait(&p);
	peer_kill(&p);
	RES("epoll", epoll_wait(ep, &ev, 1, 0));
	bits("events", (int)ev.events);
}

SCENARIO(dead_seen_beside_a_ready_pipe)
{
	struct peer p = peer_killed(nothing);
	struct pollfd pfd[2] = { { .fd = p.fd, .events = POLLIN } };
	int pipe_fd[2];

	if (pipe(pipe_fd) || write(pipe_fd[1], "x", 1) != 1)
		return;
	pfd[1] = (struct pollfd){ .fd = pipe_fd[0], .events = POLLIN };
	RES("poll", poll(pfd, n(2), -1));
	bits("socket", pfd[0].revents);
	pfd[0].events = POLLIN | POLLOUT;
	RES("poll", poll(pfd, n(1), -1));
	bits("socket", pfd[0].revents);
}

SCENARIO(dead_by_reset_seen_at_once)
{
	struct peer p = peer_start(reset, true);

	peer_wait(&p);
	poll_now(p.fd, POLLIN, "in");
	select_now(p.fd);
	RES("recv", recv(p.fd, buf, n(10), MSG_DONTWAIT));
	poll_now(p.fd, POLLIN | POLLRDHUP, "after");
	peer_kill(&p);
}

/* What the peer has read decides between the end of the stream and a reset. */
SCENARIO(dead_with_all_read)
{
	struct peer p = peer_killed(nothing);

	poll_now(p.fd, POLLIN | POLLOUT | POLLRDHUP, "poll");
	RES("send", send(p.fd, buf, n(10), MSG_NOSIGNAL));
	RES("send", send(p.fd, buf, n(10), MSG_NOSIGNAL));
	RES("recv", recv(p.fd, buf, n(10), 0));
}

static void end_of(struct peer *p)
{
	int err = -1;
	socklen_t len = sizeof(err);

	poll_now(p->fd, POLLIN | POLLOUT | POLLRDHUP, "poll");
	RES("send", send(p->fd, buf, n(10), MSG_NOSIGNAL));
	RES("send", send(p->fd, buf, n(10), MSG_NOSIGNAL));
	RES("SO_ERROR", getsockopt(p->fd, SOL_SOCKET, SO_ERROR, &err, &len));
	out(" err=%d", err);
	RES("recv", recv(p->fd, buf, n(10), 0));
	poll_now(p->fd, POLLIN | POLLOUT | POLLRDHUP, "poll");
}

/* The stream has ended in both directions: there is nothing to shut any more. */
SCENARIO(dead_and_shut)
{
	struct peer p = peer_killed(nothing);
	struct tcp_info ti = { 0 };
	socklen_t len = sizeof(ti);

	poll_now(p.fd, POLLIN | POLLOUT | POLLRDHUP, "poll");
	RES("write", shutdown(p.fd, SHUT_WR));
	while (ti.tcpi_state != TCP_CLOSE)
		getsockopt(p.fd, IPPROTO_TCP, TCP_INFO, &ti, &len);
	RES("read", shutdown(p.fd, SHUT_RD));
	close(p.fd);
}

SCENARIO(dead_with_bytes_unread)
{
	struct peer p = peer_start(nothing, true);

	peer_wait(&p);
	RES("send", send(p.fd, buf, n(10), 0));
	peer_kill(&p);
	end_of(&p);
}

SCENARIO(dead_with_bytes_unread_is_told_by_so_error)
{
	struct peer p = peer_start(nothing, true);
	int err = -1;
	socklen_t len = sizeof(err);

	peer_wait(&p);
	RES("send", send(p.fd, buf, n(10), 0));
	peer_kill(&p);
	RES("SO_ERROR", getsockopt(p.fd, SOL_SOCKET, SO_ERROR, &err, &len));
	out(" err=%s", strerrorname_np(err));
	poll_now(p.fd, POLLIN | POLLOUT | POLLRDHUP, "poll");
	RES("recv", recv(p.fd, buf, n(10), 0));
}

static void send_ten(int fd)
{
	if (send(fd, "0123456789", 10, 0) != 10)
		_exit(6);
}

SCENARIO(dead_after_it_sent)
{
	struct peer p = peer_start(send_ten, true);

	peer_wait(&p);
	RES("send", send(p.fd, buf, n(10), 0));
	peer_kill(&p);
	poll_now(p.fd, POLLIN | POLLRDHUP, "poll");
	RES("recv", recv(p.fd, buf, n(4), 0));
	RES("recv", recv(p.fd, buf, n(100), 0));
	RES("recv", recv(p.fd, buf, n(100), 0));
	RES("recv", recv(p.fd, buf, n(100), 0));
}

/* It has read less of the bytes than there were. */
static void read_four(int fd)
{
	char bytes[4];

	if (recv(fd, bytes, sizeof(bytes), MSG_WAITALL) != sizeof(bytes))
		_exit(7);
}

SCENARIO(dead_with_a_part_unread)
{
	struct peer p = peer_start(read_four, true);

	RES("send", send(p.fd, buf, n(10), 0));
	peer_wait(&p);
	peer_kill(&p);
	end_of(&p);
}

/* The peer has read all and is killed before it has said so to anybody. */
SCENARIO(dead_just_after_reading)
{
	struct peer p = peer_start(read_four, true);

	RES("send", send(p.fd, buf, n(4), 0));
	peer_wait(&p);
	peer_kill(&p);
	end_of(&p);
}

/* Fills all buffers, and does not read. */
static void flood(int fd)
{
	static char chunk[FLOOD_CHUNK];

	for (int quiet = 0; quiet < 5;) {
		struct pollfd p = { .fd = fd, .events = POLLOUT };

		if (poll(&p, 1, 20) <= 0)
			quiet++;
		else if (send(fd, chunk, sizeof(chunk), MSG_DONTWAIT) > 0)
			quiet = 0;
	}
}

/* The bytes that were sent before the move fill TCP's window.  So the peer's kernel cannot
 * send its FIN behind them. */
static void closed_window(bool has_turns)
{
	struct peer p = peer_start(flood, has_turns);
	struct epoll_event ev = { .events = EPOLLOUT };
	int ep = epoll_create1(0);
	struct pollfd pfd = { .fd = p.fd, .events = POLLOUT };

	epoll_ctl(ep, EPOLL_CTL_ADD, p.fd, &ev);
	RES("recv", recv(p.fd, buf, n(FLOOD_CHUNK), MSG_WAITALL));
	peer_wait(&p);
	/* Until there is no room, whoever moves the bytes. */
	set_nonblock(p.fd);
	do
		while (send(p.fd, buf, n(10000), MSG_NOSIGNAL) > 0)
			;
	while (poll(&pfd, 1, 100) > 0);
	peer_kill(&p);
	RES("epoll", epoll_wait(ep, &ev, 1, -1));
	bits("events", (int)ev.events);
	poll_now(p.fd, POLLOUT, "poll");
	end_of(&p);
}

SCENARIO(dead_behind_a_closed_window) { closed_window(true); }

SCENARIO(dead_behind_a_window_closed_from_the_start) { closed_window(false); }

/* The kernel resets the connection of such a process, whatever was read. */
SCENARIO(dead_with_linger_zero)
{
	struct peer p = peer_killed(linger_zero);

	end_of(&p);
}

SCENARIO(dead_with_linger_zero_is_told_by_recv)
{
	struct peer p = peer_killed(linger_zero);

	RES("recv", recv(p.fd, buf, n(10), 0));
	RES("recv", recv(p.fd, buf, n(10), 0));
	RES("send", send(p.fd, buf, n(10), MSG_NOSIGNAL));
}

SCENARIO(dead_with_linger_zero_from_the_start)
{
	first_part = linger_zero;
	struct peer p = peer_killed(nothing);

	end_of(&p);
}

static void linger_no_more(int fd)
{
	linger(fd, 1);
	linger(fd, 0);
}

SCENARIO(dead_with_linger_no_more)
{
	struct peer p = peer_killed(linger_no_more);

	RES("recv", recv(p.fd, buf, n(10), 0));
}

SCENARIO(dead_with_linger_no_more_since_the_start)
{
	first_part = linger_zero;
	struct peer p = peer_killed(linger_no_more);

	RES("recv", recv(p.fd, buf, n(10), 0));
}

static void linger_zero_and_send(int fd)
{
	linger_zero(fd);
	send_ten(fd);
}

SCENARIO(dead_with_linger_zero_after_it_sent)
{
	struct peer p = peer_killed(linger_zero_and_send);

	RES("recv", recv(p.fd, buf, n(4), 0));
	RES("recv", recv(p.fd, buf, n(100), 0));
	RES("recv", recv(p.fd, buf, n(100), 0));
	RES("recv", recv(p.fd, buf, n(100), 0));
}

/* recv() waits when the peer is killed, or is about to. */
SCENARIO(dead_with_linger_zero_wakes_recv)
{
	struct peer p = peer_start(linger_zero, true);

	peer_wait(&p);
	pid_t killer = fork();
	if (!killer) {
		kill(p.pid, SIGKILL);
		_exit(0);
	}
	RES("recv", recv(p.fd, buf, n(10), 0));
	waitpid(killer, NULL, 0);
	waitpid(p.pid, NULL, 0);
}

static void linger_zero_and_exit(int fd)
{
	linger_zero(fd);
	exit(0);
}

/* exit() without a close(). */
SCENARIO(dead_with_linger_zero_by_exit)
{
	struct peer p = peer_start(linger_zero_and_exit, true);

	waitpid(p.pid, NULL, 0);
	end_of(&p);
}

/* A child has inherited the connection, and is the last one to close it. */
static void linger_zero_and_leave(int fd)
{
	char byte;
	int word[2];

	linger_zero(fd);
	if (pipe(word))
		_exit(8);
	if (!fork()) {
		close(word[1]);
		if (read(word[0], &byte, 1) == 0)
			close(fd);
		_exit(0);
	}
	close(fd);
	exit(0);
}

SCENARIO(dead_with_linger_zero_closed_by_a_child)
{
	struct peer p = peer_start(linger_zero_and_leave, true);

	waitpid(p.pid, NULL, 0);
	RES("recv", recv(p.fd, buf, n(10), 0));
}

/* The child is killed, as its parent was before. */
static void linger_zero_and_two_die(int fd)
{
	linger_zero(fd);
	if (!fork()) {
		pid_t parent = getppid();

		kill(parent, SIGKILL);
		while (getppid() == parent)
			usleep(100);
		raise(SIGKILL);
	}
	pause();
}

SCENARIO(dead_with_linger_zero_killed_in_a_child)
{
	struct peer p = peer_start(linger_zero_and_two_die, true);

	waitpid(p.pid, NULL, 0);
	RES("recv", recv(p.fd, buf, n(10), 0));
}
