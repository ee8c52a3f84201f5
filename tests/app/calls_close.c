/* SPDX-License-Identifier: MIT */
/* tests/app/calls_close.c - scenarios: how connections end, and what poll() says
 * of each way (see calls.h) */
#include "calls.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/wait.h>
#include <unistd.h>

static void recv_got(struct ctx *x, const char *what, size_t len)
{
	errno = 0;
	long r = recv(x->fd, buf, n(len), MSG_DONTWAIT);
	res(what, r);
	got(x, buf, r);
}

static void send_made(struct ctx *x, const char *what, size_t len)
{
	made(x, buf, len);
	RES(what, send(x->fd, buf, n(len), MSG_NOSIGNAL | MSG_DONTWAIT));
}

static void so_error(struct ctx *x, const char *what)
{
	int err = -1;
	socklen_t len = sizeof(err);

	RES("getsockopt", getsockopt(x->fd, SOL_SOCKET, SO_ERROR, &err, &len));
	out(" %s=%s", what, err ? strerrorname_np(err) : "0");
}

/* A file with @len bytes, at its beginning. */
static int memfd_of(size_t len)
{
	int fd = memfd_create("calls", MFD_CLOEXEC);

	return ftruncate(fd, (off_t)len) ? -1 : fd;
}

/* poll() with nothing asked for, epoll and select's three sets. */
static void all_states(struct ctx *x, const char *what)
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

SCENARIO(close_states_open)
{
	all_states(x, "idle");
	far_do(x, FAR_SEND, 10);
	settle(x, POLLIN);
	all_states(x, "data");
	recv_got(x, "recv", 100);
	fill_up(x);
	all_states(x, "full");
}

SCENARIO(close_peer_shut_wr)
{
	far_do(x, FAR_SHUT, SHUT_WR);
	settle(x, POLLRDHUP);
	all_states(x, "shut");
	recv_got(x, "recv", 10);
	recv_got(x, "recv", 10);
	RES("read", read(x->fd, buf, n(10)));
	all_states(x, "eof");
	so_error(x, "so_error");
	send_made(x, "send", 100);
	far_res(x, "far", FAR_RECV, 100);
}

SCENARIO(close_peer_shut_wr_with_data)
{
	far_do(x, FAR_SEND, 100);
	far_do(x, FAR_SHUT, SHUT_WR);
	settle(x, POLLRDHUP);
	all_states(x, "shut");
	recv_got(x, "recv", 60);
	all_states(x, "less");
	recv_got(x, "recv", 60);
	recv_got(x, "recv", 60);
	all_states(x, "eof");
}

SCENARIO(close_peer_shut_rd)
{
	far_do(x, FAR_SHUT, SHUT_RD);
	usleep(20000);
	all_states(x, "shut");
	send_made(x, "send", 100);
	far_res(x, "far", FAR_RECV, 100);
	all_states(x, "after");
}

SCENARIO(close_peer_shut_rdwr)
{
	far_do(x, FAR_SHUT, SHUT_RDWR);
	settle(x, POLLRDHUP);
	all_states(x, "shut");
	recv_got(x, "recv", 10);
	far_res(x, "far", FAR_RECV, 10);
}

SCENARIO(close_peer_close)
{
	far_do(x, FAR_SEND, 100);
	far_do(x, FAR_CLOSE, 0);
	settle(x, POLLRDHUP);
	all_states(x, "closed");
	recv_got(x, "recv", 60);
	recv_got(x, "recv", 60);
	recv_got(x, "recv", 60);
	all_states(x, "eof");
	RES("shutdown", shutdown(x->fd, SHUT_WR));
	settle(x, POLLHUP); /* POLLERR too when the far end's socket is gone */
	RES("again", shutdown(x->fd, SHUT_WR));
}

SCENARIO(close_near_shut_wr)
{
	send_made(x, "send", 100);
	RES("shutdown", shutdown(x->fd, SHUT_WR));
	RES("again", shutdown(x->fd, SHUT_WR));
	all_states(x, "shut");
	far_res(x, "far", FAR_RECV, 200);
	far_res(x, "eof", FAR_RECV, 200);
	far_do(x, FAR_SEND, 50);
	settle(x, POLLIN);
	all_states(x, "data");
	recv_got(x, "recv", 100);
	send_made(x, "send", 10);
}

SCENARIO(close_near_shut_rd)
{
	RES("shutdown", shutdown(x->fd, SHUT_RD));
	all_states(x, "shut");
	recv_got(x, "recv", 100);
	RES("read", read(x->fd, buf, n(10)));
	send_made(x, "send", 100);
	far_res(x, "far", FAR_RECV, 100);
}

/* Linux still delivers what comes after SHUT_RD. */
SCENARIO(close_near_shut_rd_data)
{
	RES("shutdown", shutdown(x->fd, SHUT_RD));
	far_res(x, "far", FAR_SEND, 100);
	usleep(20000);
	all_states(x, "data");
	recv_got(x, "recv", 60);
	recv_got(x, "recv", 60);
	recv_got(x, "recv", 60);
}

SCENARIO(close_near_shut_rdwr)
{
	far_do(x, FAR_SEND, 100);
	settle(x, POLLIN);
	RES("shutdown", shutdown(x->fd, SHUT_RDWR));
	all_states(x, "shut");
	recv_got(x, "recv", 200);
	recv_got(x, "recv", 200);
	send_made(x, "send", 10);
	far_res(x, "far", FAR_RECV, 10);
}

/* What our own shutdown does to the kernel's socket is no end of the peer's. */
SCENARIO(close_near_shut_before_far_reads)
{
	send_made(x, "send", 10);
	RES("wr", shutdown(x->fd, SHUT_WR));
	RES("rd", shutdown(x->fd, SHUT_RD));
	all_states(x, "shut");
	so_error(x, "so_error");
	far_res(x, "far", FAR_RECV, 10);
	recv_got(x, "recv", 10);
	so_error(x, "so_error");
}

SCENARIO(close_near_shut_rdwr_before_far_reads)
{
	send_made(x, "send", 10);
	RES("shutdown", shutdown(x->fd, SHUT_RDWR));
	all_states(x, "shut");
	so_error(x, "so_error");
	far_res(x, "far", FAR_RECV, 10);
	far_do(x, FAR_CLOSE, 0);
	settle(x, POLLHUP);
	all_states(x, "closed");
	so_error(x, "so_error");
}

SCENARIO(close_both_shut)
{
	RES("shutdown", shutdown(x->fd, SHUT_WR));
	far_res(x, "far", FAR_SHUT, SHUT_WR);
	settle(x, POLLHUP);
	all_states(x, "both");
	recv_got(x, "recv", 10);
	send_made(x, "send", 10);
	so_error(x, "so_error");
	RES("rd", shutdown(x->fd, SHUT_RD));
	RES("wr", shutdown(x->fd, SHUT_WR));
	RES("rdwr", shutdown(x->fd, SHUT_RDWR));
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

SCENARIO(close_shutdown_bad)
{
	int p[2];

	RES("how", shutdown(x->fd, 3));
	RES("minus", shutdown(x->fd, -1));
	RES("fd", shutdown(-1, SHUT_RD));
	if (!pipe(p))
		RES("pipe", shutdown(p[0], SHUT_RD));
	send_made(x, "send", 10);
	far_res(x, "far", FAR_RECV, 10);
}

SCENARIO(close_reset)
{
	far_do(x, FAR_RESET, 0);
	settle(x, POLLERR);
	all_states(x, "reset");
	recv_got(x, "recv", 10);
	all_states(x, "taken");
	recv_got(x, "recv", 10);
	recv_got(x, "recv", 10);
	send_made(x, "send", 10);
}

SCENARIO(close_reset_so_error)
{
	far_do(x, FAR_RESET, 0);
	settle(x, POLLERR);
	so_error(x, "first");
	so_error(x, "second");
	all_states(x, "taken");
	recv_got(x, "recv", 10);
	send_made(x, "send", 10);
	so_error(x, "third");
}

SCENARIO(close_reset_with_data)
{
	far_do(x, FAR_SEND, 100);
	settle(x, POLLIN);
	far_do(x, FAR_RESET, 0);
	settle(x, POLLERR);
	all_states(x, "reset");
	recv_got(x, "recv", 60);
	recv_got(x, "recv", 60);
	recv_got(x, "recv", 60);
	recv_got(x, "recv", 60);
}

/* The near end's kernel answers with a reset, and has that error itself. */
SCENARIO(close_shut_rdwr_then_far_sends)
{
	RES("shut", shutdown(x->fd, SHUT_RDWR));
	far_do(x, FAR_SEND, 100);
	settle(x, POLLERR);
	all_states(x, "reset");
	send_made(x, "send", 10);
	send_made(x, "send", 10);
	all_states(x, "told");
	recv_got(x, "recv", 10);
}

SCENARIO(close_shut_rdwr_then_far_sends_so_error)
{
	RES("shut", shutdown(x->fd, SHUT_RDWR));
	far_do(x, FAR_SEND, 100);
	settle(x, POLLERR);
	so_error(x, "first");
	so_error(x, "second");
	send_made(x, "send", 10);
}

/* The far end's kernel answers with a reset: first it is seen, then told. */
SCENARIO(close_far_shut_rdwr_then_sends)
{
	far_do(x, FAR_SHUT, SHUT_RDWR);
	settle(x, POLLRDHUP);
	send_made(x, "send", 100);
	settle(x, POLLHUP);
	all_states(x, "reset");
	send_made(x, "send", 10);
	all_states(x, "told");
	recv_got(x, "recv", 10);
}

/* Whatever the directions are shut with, and whoever watches, the kernel has to hear of
 * both: or it takes the bytes, which nobody wants. */
static void shut_twice(struct ctx *x, int first, int second)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET };
	int ep = epoll_create1(EPOLL_CLOEXEC);

	RES("add", epoll_ctl(ep, EPOLL_CTL_ADD, x->fd, &ev));
	RES("idle", epoll_wait(ep, &ev, 1, 0));
	RES("first", shutdown(x->fd, first));
	RES("wait", epoll_wait(ep, &ev, 1, -1));
	RES("second", shutdown(x->fd, second));
	far_do(x, FAR_SEND, 100);
	settle(x, POLLERR);
	RES("wait", epoll_wait(ep, &ev, 1, -1));
	all_states(x, "reset");
	send_made(x, "send", 10);
	send_made(x, "send", 10);
	all_states(x, "told");
	recv_got(x, "recv", 10);
}

SCENARIO(close_shut_rd_wr_then_far_sends) { shut_twice(x, SHUT_RD, SHUT_WR); }

/* Here the far end's kernel answers, and send() fails with EPIPE. */
static void far_shuts_twice(struct ctx *x, int first, int second, bool watches)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLRDHUP };
	int ep = epoll_create1(EPOLL_CLOEXEC);

	if (watches)
		RES("add", epoll_ctl(ep, EPOLL_CTL_ADD, x->fd, &ev));
	far_do(x, FAR_SHUT, first);
	far_do(x, FAR_SHUT, second);
	if (watches)
		RES("wait", epoll_wait(ep, &ev, 1, -1));
	settle(x, POLLRDHUP);
	RES("send", send(x->fd, buf, n(1000), MSG_NOSIGNAL));
	settle(x, POLLHUP);
	RES("send", send(x->fd, buf, n(1000), MSG_NOSIGNAL));
	all_states(x, "told");
	recv_got(x, "recv", 10);
}

SCENARIO(close_far_shut_rd_wr_then_sends)
{
	far_shuts_twice(x, SHUT_RD, SHUT_WR, false);
}

SCENARIO(close_far_shut_wr_rd_then_sends)
{
	far_shuts_twice(x, SHUT_WR, SHUT_RD, false);
}

SCENARIO(close_far_shut_wr_rd_then_sends_watched)
{
	far_shuts_twice(x, SHUT_WR, SHUT_RD, true);
}

/* The near end shuts writing first, as a Java program may do, with a set or without. */
SCENARIO(close_shut_wr_rd_then_far_sends)
{
	RES("first", shutdown(x->fd, SHUT_WR));
	RES("second", shutdown(x->fd, SHUT_RD));
	far_do(x, FAR_SEND, 100);
	settle(x, POLLERR);
	all_states(x, "reset");
	RES("sendfile", sendfile(x->fd, memfd_of(100), NULL, n(100)));
	RES("sendfile", sendfile(x->fd, memfd_of(100), NULL, n(100)));
	all_states(x, "told");
}

SCENARIO(close_shut_wr_rd_then_far_sends_watched)
{
	struct epoll_event ev = { .events = EPOLLIN };
	int ep = epoll_create1(EPOLL_CLOEXEC);

	RES("add", epoll_ctl(ep, EPOLL_CTL_ADD, x->fd, &ev));
	RES("first", shutdown(x->fd, SHUT_WR));
	RES("second", shutdown(x->fd, SHUT_RD));
	far_do(x, FAR_SEND, 100);
	settle(x, POLLERR);
	RES("wait", epoll_wait(ep, &ev, 1, -1));
	bits("events", (int)ev.events);
	send_made(x, "send", 10);
	send_made(x, "send", 10);
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
	recv_got(x, "recv", 10);
	recv_got(x, "recv", 10);
	send_made(x, "send", 10);
}

SCENARIO(close_reset_after_peer_shut)
{
	far_do(x, FAR_SHUT, SHUT_WR);
	settle(x, POLLRDHUP);
	far_do(x, FAR_RESET, 0);
	settle(x, POLLERR);
	all_states(x, "reset");
	recv_got(x, "recv", 10);
	send_made(x, "send", 10);
	send_made(x, "send", 10);
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
	recv_got(x, "recv", 60);
	send_made(x, "send", 20);
	RES("close", close(x->fd));
	far_res(x, "far", FAR_RECV, 20);
	far_res(x, "again", FAR_RECV, 10);
}

SCENARIO(close_all_read)
{
	far_do(x, FAR_SEND, 100);
	settle(x, POLLIN);
	recv_got(x, "recv", 100);
	send_made(x, "send", 20);
	RES("close", close(x->fd));
	far_res(x, "far", FAR_RECV, 100);
	far_res(x, "eof", FAR_RECV, 10);
}

SCENARIO(close_peer_with_unread)
{
	send_made(x, "send", 100);
	far_do(x, FAR_SEND, 50);
	settle(x, POLLIN);
	far_do(x, FAR_CLOSE, 0);
	settle(x, POLLERR);
	all_states(x, "closed");
	recv_got(x, "recv", 100);
	recv_got(x, "recv", 100);
	recv_got(x, "recv", 100);
}

SCENARIO(close_linger_zero)
{
	struct linger now = { .l_onoff = 1 };

	send_made(x, "send", 100);
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

	send_made(x, "send", 100);
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
	send_made(x, "send", 100);
	far_res(x, "far", FAR_RECV, 100);
	far_do(x, FAR_SEND, 50);
	settle(x, POLLIN);
	recv_got(x, "recv", 100);
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
	recv_got(x, "recv", 100);
	RES("close", close(x->fd));
	far_res(x, "eof", FAR_RECV, 10);
}

SCENARIO(close_fork_child_reads)
{
	far_do(x, FAR_SEND, 32);
	settle(x, POLLIN);
	pid_t pid = fork();
	if (!pid) {
		recv_got(x, "child", 16);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	x->got += 16;
	recv_got(x, "parent", 100);
}

SCENARIO(close_fork_parent_closes)
{
	pid_t pid = fork();

	if (!pid) {
		far_do(x, FAR_SEND, 16);
		settle(x, POLLIN);
		recv_got(x, "child", 100);
		send_made(x, "send", 20);
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
	send_made(x, "send", 100);
	far_res(x, "far", FAR_RECV, 100);
	far_do(x, FAR_SEND, 10);
	settle(x, POLLIN);
	recv_got(x, "recv", 100);
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
