/* SPDX-License-Identifier: MIT */
/* tests/app/calls_close.c - scenarios: how connections end, by close() and by a reset,
 * and while others use them (see calls.h); calls_shut.c has shutdown() */
#include "calls.h"
#include "calls_close.h"

#include <netinet/in.h>
#include <pthread.h>
#include <spawn.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

void recv_now(struct ctx *x, const char *what, size_t len)
{
	errno = 0;
	long r = recv(x->fd, buf, n(len), MSG_DONTWAIT);
	res(what, r);
	got(x, buf, r);
}

void send_now(struct ctx *x, const char *what, size_t len)
{
	made(x, buf, len);
	RES(what, send(x->fd, buf, n(len), MSG_NOSIGNAL | MSG_DONTWAIT));
}

void so_error(struct ctx *x, const char *what)
{
	int err = -1;
	socklen_t len = sizeof(err);

	RES("getsockopt", getsockopt(x->fd, SOL_SOCKET, SO_ERROR, &err, &len));
	out(" %s=%s", what, err ? strerrorname_np(err) : "0");
}

/* poll() with nothing asked for, epoll and select's three sets. */
void all_states(struct ctx *x, const char *what)
{
	struct pollfd none = { .fd = x->fd },
		      norm = { .fd = x->fd,
			       .events = POLLRDNORM | POLLWRNORM | POLLRDBAND |
					 POLLWRBAND };
	struct epoll_event ev = { .events = EPOLLIN | EPOLLOUT | EPOLLRDHUP |
					    EPOLLPRI };
	struct timeval tv = { 0, 0 };
	fd_set in, ou, ex;
	int ep = epoll_create1(0);

	out("\n  ");
	state(x, what);
	poll(&none, 1, 0);
	bits("none", none.revents);
	poll(&norm, 1, 0);
	bits("norm", norm.revents);
	epoll_ctl(ep, EPOLL_CTL_ADD, x->fd, &ev);
	int n_got = epoll_wait(ep, &ev, 1, 0);
	bits("epoll", n_got > 0 ? (int)ev.events : 0);
	close(ep);
	FD_ZERO(&in);
	FD_SET(x->fd, &in);
	ou = ex = in;
	RES("select", select(x->fd + 1, &in, &ou, &ex, &tv));
	out("/%d%d%d", FD_ISSET(x->fd, &in) != 0, FD_ISSET(x->fd, &ou) != 0,
	    FD_ISSET(x->fd, &ex) != 0);
}

SCENARIO(close_peer_close)
{
	far_do(x, FAR_SEND, 100);
	far_do(x, FAR_CLOSE, 0);
	settle(x, POLLRDHUP);
	all_states(x, "closed");
	recv_now(x, "recv", 60);
	recv_now(x, "recv", 60);
	recv_now(x, "recv", 60);
	all_states(x, "eof");
	RES("shutdown", shutdown(x->fd, SHUT_WR));
	settle(x, POLLHUP); /* POLLERR too when the far end's socket is gone */
	RES("again", shutdown(x->fd, SHUT_WR));
}

SCENARIO(close_peer_first)
{
	far_res(x, "far", FAR_SHUT, SHUT_WR);
	settle(x, POLLRDHUP);
	RES("shutdown", shutdown(x->fd, SHUT_WR));
	settle(x, POLLHUP);
	all_states(x, "both");
	RES("again", shutdown(x->fd, SHUT_WR));
	RES("rd", shutdown(x->fd, SHUT_RD));
}

SCENARIO(close_reset)
{
	far_do(x, FAR_RESET, 0);
	settle(x, POLLERR);
	all_states(x, "reset");
	recv_now(x, "recv", 10);
	all_states(x, "taken");
	recv_now(x, "recv", 10);
	recv_now(x, "recv", 10);
	send_now(x, "send", 10);
}

SCENARIO(close_reset_so_error)
{
	far_do(x, FAR_RESET, 0);
	settle(x, POLLERR);
	so_error(x, "first");
	so_error(x, "second");
	all_states(x, "taken");
	recv_now(x, "recv", 10);
	send_now(x, "send", 10);
	so_error(x, "third");
}

SCENARIO(close_reset_with_data)
{
	far_do(x, FAR_SEND, 100);
	settle(x, POLLIN);
	far_do(x, FAR_RESET, 0);
	settle(x, POLLERR);
	all_states(x, "reset");
	recv_now(x, "recv", 60);
	recv_now(x, "recv", 60);
	recv_now(x, "recv", 60);
	recv_now(x, "recv", 60);
}

SCENARIO(close_reset_names)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);
	int avail = -1;

	far_do(x, FAR_RESET, 0);
	settle(x, POLLERR);
	RES("peer", getpeername(x->fd, (void *)&ss, &len));
	RES("sock", getsockname(x->fd, (void *)&ss, &len));
	RES("shutdown", shutdown(x->fd, SHUT_RDWR));
	RES("fionread", ioctl(x->fd, FIONREAD, &avail));
	out("/%d", avail);
	RES("read", read(x->fd, buf, n(10)));
	RES("shutdown", shutdown(x->fd, SHUT_WR));
}

SCENARIO(close_reset_after_near_shut)
{
	shutdown(x->fd, SHUT_WR);
	far_do(x, FAR_RESET, 0);
	settle(x, POLLERR);
	all_states(x, "reset");
	recv_now(x, "recv", 10);
	recv_now(x, "recv", 10);
	send_now(x, "send", 10);
}

SCENARIO(close_reset_after_peer_shut)
{
	far_do(x, FAR_SHUT, SHUT_WR);
	settle(x, POLLRDHUP);
	far_do(x, FAR_RESET, 0);
	settle(x, POLLERR);
	all_states(x, "reset");
	recv_now(x, "recv", 10);
	send_now(x, "send", 10);
	send_now(x, "send", 10);
}

SCENARIO(close_with_unread)
{
	far_do(x, FAR_SEND, 100);
	settle(x, POLLIN);
	RES("close", close(x->fd));
	far_res(x, "far", FAR_RECV, 10);
	far_res(x, "again", FAR_RECV, 10);
	far_res(x, "send", FAR_SEND, 10);
}

SCENARIO(close_with_half_read)
{
	far_do(x, FAR_SEND, 100);
	settle(x, POLLIN);
	recv_now(x, "recv", 60);
	send_now(x, "send", 20);
	RES("close", close(x->fd));
	far_res(x, "far", FAR_RECV, 20);
	far_res(x, "again", FAR_RECV, 10);
}

SCENARIO(close_all_read)
{
	far_do(x, FAR_SEND, 100);
	settle(x, POLLIN);
	recv_now(x, "recv", 100);
	send_now(x, "send", 20);
	RES("close", close(x->fd));
	far_res(x, "far", FAR_RECV, 100);
	far_res(x, "eof", FAR_RECV, 10);
}

SCENARIO(close_peer_with_unread)
{
	send_now(x, "send", 100);
	far_do(x, FAR_SEND, 50);
	settle(x, POLLIN);
	far_do(x, FAR_CLOSE, 0);
	settle(x, POLLERR);
	all_states(x, "closed");
	recv_now(x, "recv", 100);
	recv_now(x, "recv", 100);
	recv_now(x, "recv", 100);
}

SCENARIO(close_linger_zero)
{
	struct linger now = { .l_onoff = 1 };

	send_now(x, "send", 100);
	RES("linger",
	    setsockopt(x->fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now)));
	RES("close", close(x->fd));
	far_res(x, "far", FAR_RECV, 100);
	far_res(x, "again", FAR_RECV, 100);
	far_res(x, "third", FAR_RECV, 100);
}

SCENARIO(close_linger_waits)
{
	struct linger some = { .l_onoff = 1, .l_linger = 1 };

	send_now(x, "send", 100);
	setsockopt(x->fd, SOL_SOCKET, SO_LINGER, &some, sizeof(some));
	RES("close", close(x->fd));
	far_res(x, "far", FAR_RECV, 200);
}

SCENARIO(close_much_in_flight)
{
	size_t total = fill_up(x);

	RES("close", close(x->fd));
	long r = far_do(x, FAR_DRAIN, (long)total);
	out(" %s", r == (long)total ? "all-there" : "lost");
}

SCENARIO(close_twice)
{
	RES("close", close(x->fd));
	RES("again", close(x->fd));
	RES("recv", recv(x->fd, buf, n(10), 0));
	RES("send", send(x->fd, buf, n(10), 0));
	RES("write", write(x->fd, buf, n(10)));
	struct pollfd pfd = { .fd = x->fd, .events = POLLIN };
	RES("poll", poll(&pfd, 1, 0));
	bits("revents", pfd.revents);
}

SCENARIO(close_by_range)
{
	RES("close_range", close_range((unsigned)x->fd, (unsigned)x->fd, 0));
	RES("send", send(x->fd, buf, n(10), 0));
	far_res(x, "far", FAR_RECV, 10);
}

SCENARIO(close_dup_open)
{
	int fd2 = dup(x->fd);

	RES("close", close(x->fd));
	x->fd = fd2;
	send_now(x, "send", 100);
	far_res(x, "far", FAR_RECV, 100);
	far_do(x, FAR_SEND, 50);
	settle(x, POLLIN);
	recv_now(x, "recv", 100);
	RES("close", close(fd2));
	far_res(x, "eof", FAR_RECV, 10);
}

SCENARIO(close_by_dup2)
{
	int p[2], old = x->fd;

	if (pipe(p))
		return;
	RES("dup2", dup2(p[1], x->fd) == old ? 0 : -1);
	RES("write", write(old, "abc", n(3)));
	RES("send", send(old, "abc", n(3), 0));
	RES("read", read(p[0], buf, n(10)));
	far_res(x, "eof", FAR_RECV, 10);
}

SCENARIO(close_dup2_onto_other)
{
	int p[2];

	if (pipe(p))
		return;
	RES("dup2", dup2(x->fd, p[0]) == p[0] ? 0 : -1);
	made(x, buf, 10);
	RES("send", send(p[0], buf, n(10), 0));
	RES("same", dup2(x->fd, x->fd) == x->fd ? 0 : -1);
	RES("dup3-same", dup3(x->fd, x->fd, 0));
	RES("bad", dup2(-1, x->fd));
	far_res(x, "far", FAR_RECV, 10);
}

static void *blocked_recv(void *p)
{
	struct ctx *x = p;

	errno = 0;
	long r = recv(x->fd, buf, n(100), 0);
	res("recv", r);
	got(x, buf, r);
	return NULL;
}

static void *blocked_poll(void *p)
{
	struct ctx *x = p;
	struct pollfd pfd = { .fd = x->fd, .events = POLLIN | POLLRDHUP };

	RES("poll", poll(&pfd, 1, -1));
	bits("revents", pfd.revents);
	return NULL;
}

static void shut_under(struct ctx *x, void *(*blocked)(void *), int how)
{
	pthread_t t;

	pthread_create(&t, NULL, blocked, x);
	others_sleep();
	shutdown(x->fd, how);
	pthread_join(t, NULL);
}

SCENARIO(close_shut_rd_under_recv) { shut_under(x, blocked_recv, SHUT_RD); }
SCENARIO(close_shut_rdwr_under_recv) { shut_under(x, blocked_recv, SHUT_RDWR); }
SCENARIO(close_shut_rd_under_poll) { shut_under(x, blocked_poll, SHUT_RD); }
SCENARIO(close_shut_rdwr_under_poll) { shut_under(x, blocked_poll, SHUT_RDWR); }

/* A connection of this process with itself that has had time to move. */
static bool moved_pair(int listener, int fd[2])
{
	struct sockaddr_in at;
	socklen_t len = sizeof(at);
	char byte = 'x';
	bool all = true;

	getsockname(listener, (struct sockaddr *)&at, &len);
	fd[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (connect(fd[0], (struct sockaddr *)&at, len))
		return false;
	fd[1] = accept(listener, NULL, NULL);
	for (int i = 0; i < 24; i++)
		all &= send(fd[i % 2], &byte, 1, 0) == 1 &&
		       recv(fd[!(i % 2)], &byte, 1, 0) == 1;
	return all;
}

struct racer {
	int fd;
	bool fills; /* the peer's buffers, else it reads */
	_Atomic bool begins;
};

static void *waits_for_shutdown(void *arg)
{
	struct racer *r = arg;
	static char zeros[65536];
	ssize_t n;

	r->begins = true;
	do
		n = r->fills ? send(r->fd, zeros, sizeof(zeros), MSG_NOSIGNAL)
			     : recv(r->fd, zeros, 1, 0);
	while (n > 0);
	return NULL;
}

/* The other thread is about to sleep, or sleeps already: neither may miss it. */
static void shut_races(bool fills, int how)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int l = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), fd[2];
	bool all =
	    !bind(l, (struct sockaddr *)&at, sizeof(at)) && !listen(l, 8);
	long long end = ms_now() + 1500;

	for (unsigned i = 0; all && i < 400 && ms_now() < end; i++) {
		struct racer r = { .fills = fills };
		pthread_t t;

		all = moved_pair(l, fd);
		r.fd = fd[0];
		pthread_create(&t, NULL, waits_for_shutdown, &r);
		while (!r.begins)
			sched_yield();
		for (volatile unsigned k = i * 37 % 4000; k; k--)
			;
		all &= !shutdown(fd[0], how);
		pthread_join(t, NULL);
		close(fd[0]);
		close(fd[1]);
	}
	close(l);
	out(" all=%d", all);
}

SCENARIO(close_shut_rd_races_recv) { shut_races(false, SHUT_RD); }
SCENARIO(close_shut_rdwr_races_recv) { shut_races(false, SHUT_RDWR); }
SCENARIO(close_shut_wr_races_send) { shut_races(true, SHUT_WR); }

/* The call that waits holds the socket; it takes what comes. */
SCENARIO(close_under_recv)
{
	pthread_t t;

	pthread_create(&t, NULL, blocked_recv, x);
	others_sleep();
	RES("close", close(x->fd));
	far_do(x, FAR_SEND, 16);
	pthread_join(t, NULL);
	far_res(x, "far", FAR_RECV, 10);
}

/* The same, and the number is another file's at once. */
SCENARIO(close_reuse_under_recv)
{
	pthread_t t;
	int other = eventfd(0, EFD_CLOEXEC);

	pthread_create(&t, NULL, blocked_recv, x);
	others_sleep();
	out(" reuse=%d", dup2(other, x->fd) == x->fd);
	far_do(x, FAR_SEND, 16);
	pthread_join(t, NULL);
	RES("close", close(x->fd));
	close(other);
	far_res(x, "far", FAR_RECV, 10);
}

SCENARIO(close_fork_child_writes)
{
	pid_t pid = fork();

	made(x, buf, 32);
	if (!pid)
		_exit(write(x->fd, buf, n(16)) != 16);
	int status = -1;
	waitpid(pid, &status, 0);
	out(" child=%d", status);
	RES("parent", write(x->fd, buf + 16, n(16)));
	far_res(x, "far", FAR_RECV, 32);
	far_do(x, FAR_SEND, 10);
	settle(x, POLLIN);
	recv_now(x, "recv", 100);
	RES("close", close(x->fd));
	far_res(x, "eof", FAR_RECV, 10);
}

SCENARIO(close_fork_child_reads)
{
	far_do(x, FAR_SEND, 32);
	settle(x, POLLIN);
	pid_t pid = fork();
	if (!pid) {
		recv_now(x, "child", 16);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	x->got += 16;
	recv_now(x, "parent", 100);
}

SCENARIO(close_fork_parent_closes)
{
	pid_t pid = fork();

	if (!pid) {
		far_do(x, FAR_SEND, 16);
		settle(x, POLLIN);
		recv_now(x, "child", 100);
		send_now(x, "send", 20);
		_exit(0);
	}
	int r = close(x->fd);
	waitpid(pid, NULL, 0);
	out(" close=%d", r);
	far_res(x, "far", FAR_RECV, 20);
	far_res(x, "eof", FAR_RECV, 20);
}

SCENARIO(close_spawned_program)
{
	char sh[] = "sh", c[] = "-c", script[] = "read line && echo got $line";
	char *argv[] = { sh, c, script, NULL };
	posix_spawn_file_actions_t fa;
	extern char **environ;
	pid_t pid;
	int status = -1;

	far_do(x, FAR_TEXT, 1);
	settle(x, POLLIN);
	posix_spawn_file_actions_init(&fa);
	posix_spawn_file_actions_adddup2(&fa, x->fd, 0);
	posix_spawn_file_actions_adddup2(&fa, x->fd, 1);
	RES("spawn", posix_spawn(&pid, "/bin/sh", &fa, NULL, argv, environ));
	waitpid(pid, &status, 0);
	out(" status=%d", status);
	RES("close", close(x->fd));
	far_res(x, "far", FAR_COUNT, 100); /* "got line 0\n" */
	posix_spawn_file_actions_destroy(&fa);
}

SCENARIO(close_passed_descriptor)
{
	int pair[2], fd2 = -1;
	union {
		struct cmsghdr h;
		char space[CMSG_SPACE(sizeof(int))];
	} u = { .h = { .cmsg_len = CMSG_LEN(sizeof(int)),
		       .cmsg_level = SOL_SOCKET,
		       .cmsg_type = SCM_RIGHTS } };
	char byte = 0;
	struct iovec iov = { &byte, 1 };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = &u,
			    .msg_controllen = sizeof(u) };

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		return;
	memcpy(CMSG_DATA(&u.h), &x->fd, sizeof(int));
	RES("sendmsg", sendmsg(pair[0], &m, 0));
	RES("close", close(x->fd));
	RES("recvmsg", recvmsg(pair[1], &m, 0));
	memcpy(&fd2, CMSG_DATA(&u.h), sizeof(int));
	x->fd = fd2;
	send_now(x, "send", 100);
	far_res(x, "far", FAR_RECV, 100);
	far_do(x, FAR_SEND, 10);
	settle(x, POLLIN);
	recv_now(x, "recv", 100);
	RES("close", close(fd2));
	far_res(x, "eof", FAR_RECV, 10);
}

/* A send of no bytes tells of the end, and does not make one. */
SCENARIO(close_far_closed_then_sends_nothing)
{
	RES("open", send(x->fd, buf, 0, MSG_NOSIGNAL));
	far_do(x, FAR_CLOSE, 0);
	settle(x, POLLRDHUP);
	RES("half", send(x->fd, buf, 0, MSG_NOSIGNAL));
	RES("again", send(x->fd, buf, 0, MSG_NOSIGNAL));
	RES("byte", send(x->fd, buf, n(1), MSG_NOSIGNAL));
	settle(x, POLLHUP);
	RES("over", send(x->fd, buf, 0, MSG_NOSIGNAL));
	all_states(x, "told");
}

static void disconnect(struct ctx *x, socklen_t len)
{
	struct sockaddr sa = { .sa_family = AF_UNSPEC };

	RES("unspec", connect(x->fd, &sa, len));
	far_res(x, "far", FAR_RECV, 10);
	RES("send", send(x->fd, buf, n(10), MSG_NOSIGNAL));
	RES("recv", recv(x->fd, buf, n(10), MSG_DONTWAIT));
	state(x, "state");
}

SCENARIO(close_disconnect) { disconnect(x, sizeof(struct sockaddr)); }

/* The family is all that the kernel reads of such an address. */
SCENARIO(close_disconnect_short) { disconnect(x, sizeof(sa_family_t)); }
