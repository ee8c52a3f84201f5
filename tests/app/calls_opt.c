/* SPDX-License-Identifier: MIT */
/* tests/app/calls_opt.c - scenarios: options and flags that change what other calls
 * do, and arguments that the kernel refuses (see calls.h) */
#include "calls.h"
#include "calls_part.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void set_int(struct ctx *x, const char *what, int level, int name, int v)
{
	RES(what, setsockopt(x->fd, level, name, &v, sizeof(v)));
}

static void far_sends(struct ctx *x, long len)
{
	far_do(x, FAR_SEND, len);
	settle(x, POLLIN);
}

/* Off is how a socket begins: test_stays.py sees that the connection is moved. */
SCENARIO(inline_beside)
{
	set_int(x, "off", SOL_SOCKET, SO_OOBINLINE, 0);
	play(x, "t30w10000f10000s10000r10000");
}

/* --- TCP_INQ --- */

static void recv_inq(struct ctx *x, size_t len, size_t room, int flags)
{
	char control[64] = { 0 };
	struct iovec iov = { buf, n(len) };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = room ? control : NULL,
			    .msg_controllen = room };
	long r = recvmsg(x->fd, &m, flags);
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	int inq;

	res("recvmsg", r);
	out("/0x%x/%zu", m.msg_flags, m.msg_controllen);
	if (!(flags & MSG_PEEK))
		got(x, buf, r);
	if (!c)
		return;
	memcpy(&inq, CMSG_DATA(c), sizeof(inq));
	out("/%d,%d,%zu", c->cmsg_level, c->cmsg_type, (size_t)c->cmsg_len);
	if (c->cmsg_len == CMSG_LEN(sizeof(inq)))
		out("=%d", inq);
}

/* The kernel's length has a sign. */
SCENARIO(opt_bad_length)
{
	int v = 3;

	RES("lowat", setsockopt(x->fd, SOL_SOCKET, SO_RCVLOWAT, &v, -1u));
	RES("nodelay", setsockopt(x->fd, IPPROTO_TCP, TCP_NODELAY, &v, -1u));
	RES("short", setsockopt(x->fd, SOL_SOCKET, SO_RCVLOWAT, &v, 1));
	RES("long", setsockopt(x->fd, IPPROTO_TCP, TCP_NODELAY, &v, 4));
}

SCENARIO(opt_inq)
{
	int v = 0;
	socklen_t len = sizeof(v);

	set_int(x, "bad", IPPROTO_TCP, TCP_INQ, 2);
	set_int(x, "on", IPPROTO_TCP, TCP_INQ, 1);
	RES("get", getsockopt(x->fd, IPPROTO_TCP, TCP_INQ, &v, &len));
	out(" is=%d", v);
	far_sends(x, 30);
	recv_inq(x, 10, 64, 0);
	recv_inq(x, 10, 64, MSG_PEEK);
	recv_inq(x, 2, 0, 0);
	recv_inq(x, 2, 8, 0);
	recv_inq(x, 2, sizeof(struct cmsghdr), 0);
	recv_inq(x, 14, 64, 0);
	recv_inq(x, 10, 64, MSG_DONTWAIT);
	set_int(x, "off", IPPROTO_TCP, TCP_INQ, 0);
	far_sends(x, 10);
	recv_inq(x, 5, 64, 0);
	set_int(x, "on", IPPROTO_TCP, TCP_INQ, 1);
	far_do(x, FAR_SHUT, SHUT_WR);
	settle(x, POLLRDHUP);
	recv_inq(x, 10, 64, 0);
	recv_inq(x, 10, 64, 0);
}

/* --- SO_PEEK_OFF --- */

static void peek(struct ctx *x, size_t len)
{
	long r = recv(x->fd, buf, n(len), MSG_PEEK | MSG_DONTWAIT);

	res("peek", r);
	/* Where in the stream it was, by the bytes. */
	if (r > 0)
		out("/%d", buf[0]);
}

SCENARIO(opt_peek_off)
{
	far_sends(x, 40);
	set_int(x, "set", SOL_SOCKET, SO_PEEK_OFF, 2);
	peek(x, 3);
	peek(x, 3);
	long r = recv(x->fd, buf, n(5), 0);
	res("recv", r);
	got(x, buf, r);
	peek(x, 3);
	set_int(x, "off", SOL_SOCKET, SO_PEEK_OFF, -1);
	peek(x, 3);
	r = recv(x->fd, buf, n(100), 0);
	res("recv", r);
	got(x, buf, r);
	made(x, buf, 10);
	RES("send", send(x->fd, buf, n(10), 0));
	far_res(x, "far", FAR_RECV, 10);
}

/* --- SO_LINGER --- */

static void linger(struct ctx *x, int on, int seconds)
{
	struct linger l = { .l_onoff = on, .l_linger = seconds };

	RES("linger", setsockopt(x->fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l)));
}

static void close_near(struct ctx *x)
{
	RES("close", close(x->fd));
	x->fd = -1;
}

SCENARIO(opt_linger_waits)
{
	fill_up(x);
	linger(x, 1, 1);
	long long start = ms_now();
	close_near(x);
	took(start, 1000);
}

SCENARIO(opt_linger_is_done)
{
	size_t total = fill_up(x);

	linger(x, 1, 5);
	long long start = ms_now();
	far_do(x, FAR_RECV_LATER, (long)total);
	close_near(x);
	took(start, LATER_MS);
}

SCENARIO(opt_linger_nothing_to_send)
{
	linger(x, 1, 5);
	made(x, buf, 10);
	RES("send", send(x->fd, buf, n(10), 0));
	long long start = ms_now();
	close_near(x);
	took(start, 0);
	far_res(x, "far", FAR_RECV, 10);
	far_res(x, "end", FAR_RECV, 10);
}

SCENARIO(opt_linger_intr)
{
	fill_up(x);
	linger(x, 1, 5);
	long long start = ms_now();
	interrupt_after(LATER_MS, SA_RESTART);
	close_near(x);
	interrupt_over();
	took(start, LATER_MS);
	out(" signals=%d", interrupted);
}

SCENARIO(opt_linger_far_closes)
{
	fill_up(x);
	linger(x, 1, 5);
	long long start = ms_now();
	far_do(x, FAR_RESET_LATER, 0);
	close_near(x);
	took(start, LATER_MS);
}

/* --- SO_SNDBUF --- */

SCENARIO(opt_sndbuf_grows)
{
	set_int(x, "small", SOL_SOCKET, SO_SNDBUF, 20000);
	/* Of single bytes, the kernel takes a few in 40 ms: close the peer's window first. */
	fill_with(x, 4096, 60);
	fill_up(x);
	state(x, "full");
	set_int(x, "large", SOL_SOCKET, SO_SNDBUF, 1000000);
	settle(x, POLLOUT);
	made(x, buf, 1000);
	RES("send", send(x->fd, buf, n(1000), MSG_DONTWAIT));
}

/* --- what else tells --- */

static int signals_after(int before)
{
	usleep(50000);
	return signals > before;
}

SCENARIO(opt_sigio_each_time)
{
	on_signal(SIGIO, 0);
	RES("owner", fcntl(x->fd, F_SETOWN, getpid()));
	RES("async", fcntl(x->fd, F_SETFL, O_ASYNC | O_NONBLOCK));
	for (int i = 0; i < 3; i++) { /* none of which is read */
		int before = signals;
		far_sends(x, 10);
		out(" data=%d", signals_after(before));
	}
	int before = signals;
	far_do(x, FAR_SHUT, SHUT_WR);
	settle(x, POLLRDHUP);
	out(" end=%d", signals_after(before));
	long r = recv(x->fd, buf, n(100), 0);
	res("recv", r);
	got(x, buf, r);
	RES("eof", recv(x->fd, buf, n(100), 0));
}

SCENARIO(opt_sigio_blocked_reader)
{
	on_signal(SIGIO, SA_RESTART);
	RES("owner", fcntl(x->fd, F_SETOWN, getpid()));
	RES("async", fcntl(x->fd, F_SETFL, O_ASYNC));
	far_begin(x, FAR_SEND_LATER, 10);
	long r = recv(x->fd, buf, n(10), 0);
	res("recv", r);
	got(x, buf, r);
	far_end(x);
	int before = signals;
	far_do(x, FAR_SHUT, SHUT_WR);
	settle(x, POLLRDHUP);
	out(" end=%d", signals_after(before));
}

/* --- between descriptors --- */

SCENARIO(opt_splice_waits_for_the_socket)
{
	int p[2];

	/* The flag is about the pipe. */
	if (pipe(p))
		return;
	far_do(x, FAR_SEND_LATER, 100);
	RES("in", splice(x->fd, NULL, p[1], NULL, n(100), SPLICE_F_NONBLOCK));
	RES("read", read(p[0], buf, n(200)));
	got(x, buf, 100);
	far_sends(x, 6000);
	RES("all", splice(x->fd, NULL, p[1], NULL, n(6000), SPLICE_F_NONBLOCK));
	long r = read(p[0], buf, n(6000));
	res("read", r);
	got(x, buf, r);
	fill_up(x);
	RES("fill", write(p[1], "xy", 2));
	signals_begin(LATER_MS);
	RES("out", splice(p[0], NULL, x->fd, NULL, n(2), SPLICE_F_NONBLOCK));
	signals_end();
	RES("left", read(p[0], buf, n(10)));
}

SCENARIO(opt_sendfile_from_what)
{
	int p[2], file = file_of(x, 10);

	if (pipe(p) || write(p[1], "xyz", 3) != 3)
		return;
	RES("socket", sendfile(x->fd, x->fd, NULL, n(10)));
	RES("pipe", sendfile(x->fd, p[0], NULL, n(3)));
	RES("none", sendfile(x->fd, -1, NULL, n(3)));
	RES("none-zero", sendfile(x->fd, -1, NULL, n(0)));
	RES("read", read(p[0], buf, n(10)));
	RES("file", sendfile(x->fd, file, NULL, n(10)));
	far_res(x, "far", FAR_RECV, 10);
}

/* --- the time that is left --- */

static void left(const struct timespec *ts, long at_most_ms)
{
	long ms = ts->tv_sec * 1000 + ts->tv_nsec / 1000000;

	out("/%s", ms < 0 || ms > at_most_ms ? "WRONG" : ms ? "some" : "none");
}

SCENARIO(process_syscall_time_left)
{
	struct timespec ts = { .tv_sec = 5 }, *fixed;
	struct pollfd pfd = { .fd = x->fd, .events = POLLIN };
	fd_set set;
	int p[2];

	far_begin(x, FAR_SEND_LATER, 10);
	RES("ppoll", syscall(SYS_ppoll, &pfd, 1, &ts, NULL, 8));
	left(&ts, 5000 - LATER_MS + 5);
	far_end(x);
	ts = (struct timespec){ .tv_sec = 5 };
	FD_ZERO(&set);
	FD_SET(x->fd, &set);
	RES("pselect",
	    syscall(SYS_pselect6, x->fd + 1, &set, NULL, NULL, &ts, NULL));
	left(&ts, 5000);
	RES("recv", recv(x->fd, buf, n(10), 0));
	ts = (struct timespec){ .tv_nsec = 20000000 };
	RES("late", syscall(SYS_ppoll, &pfd, 1, &ts, NULL, 8));
	left(&ts, 0);
	ts = (struct timespec){ .tv_nsec = 1000000000 };
	RES("bad", syscall(SYS_ppoll, &pfd, 1, &ts, NULL, 8));
	RES("pointer", syscall(SYS_ppoll, &pfd, 1, BAD_POINTER, NULL, 8));
	/* A descriptor that is nobody's of ours. */
	if (pipe(p))
		return;
	pfd.fd = p[1];
	pfd.events = POLLOUT;
	ts = (struct timespec){ .tv_sec = 5, .tv_nsec = 1 };
	RES("pipe", syscall(SYS_ppoll, &pfd, 1, &ts, NULL, 8));
	out("/%d", ts.tv_nsec != 1);
	/* Read-only: the call is worth more than the time. */
	fixed = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	fixed->tv_nsec = 1000000;
	mprotect(fixed, 4096, PROT_READ);
	pfd = (struct pollfd){ .fd = x->fd, .events = POLLIN };
	RES("read-only", syscall(SYS_ppoll, &pfd, 1, fixed, NULL, 8));
	munmap(fixed, 4096);
}

/* --- arguments that are refused --- */

SCENARIO(opt_bad_addresses)
{
	char *page =
	    mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void *bad[] = { (void *)n(8), (void *)n((size_t)-1), page,
			(void *)n((size_t)1 << 46), NULL };

	for (int i = 0; i < 5; i++) {
		int s = socket(AF_INET, SOCK_STREAM, 0);

		RES("connect", connect(s, bad[i], sizeof(struct sockaddr_in)));
		RES("bind", bind(s, bad[i], sizeof(struct sockaddr_in)));
		RES("connected",
		    connect(x->fd, bad[i], sizeof(struct sockaddr_in)));
		RES("long", connect(s, bad[i], n(1000)));
		RES("zero", connect(s, bad[i], n(0)));
		close(s);
	}
	RES("recv", recv(x->fd, buf, n(10), MSG_DONTWAIT));
	made(x, buf, 10);
	RES("send", send(x->fd, buf, n(10), 0));
	far_res(x, "far", FAR_RECV, 10);
	munmap(page, 4096);
}

/* --- after the end --- */

static void after_the_end(struct ctx *x)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);
	struct tcp_info ti = { 0 };

	RES("getpeername", getpeername(x->fd, (void *)&ss, &len));
	RES("getsockname", getsockname(x->fd, (void *)&ss, &len));
	len = sizeof(ti);
	RES("info", getsockopt(x->fd, IPPROTO_TCP, TCP_INFO, &ti, &len));
	out(" state=%d", ti.tcpi_state);
	RES("shut", shutdown(x->fd, SHUT_WR));
	RES("shut-both", shutdown(x->fd, SHUT_RDWR));
}

SCENARIO(opt_both_shut_near_first)
{
	RES("shut", shutdown(x->fd, SHUT_WR));
	far_res(x, "end", FAR_RECV, 10);
	far_res(x, "far", FAR_SHUT, SHUT_WR);
	settle(x, POLLHUP);
	after_the_end(x);
}

SCENARIO(opt_both_shut_far_first)
{
	far_res(x, "far", FAR_SHUT, SHUT_WR);
	RES("recv", recv(x->fd, buf, n(10), 0));
	RES("shut", shutdown(x->fd, SHUT_WR));
	far_res(x, "end", FAR_RECV, 10);
	settle(x, POLLHUP);
	usleep(20000); /* the last acknowledgement */
	after_the_end(x);
}

SCENARIO(opt_after_reset)
{
	int err = 0;
	socklen_t len = sizeof(err);

	far_do(x, FAR_RESET, 0);
	settle(x, POLLHUP);
	RES("error", getsockopt(x->fd, SOL_SOCKET, SO_ERROR, &err, &len));
	out(" is=%d", err);
	RES("recv", recv(x->fd, buf, n(10), MSG_DONTWAIT));
	after_the_end(x);
}

SCENARIO(opt_info_counts_unread)
{
	struct tcp_info before = { 0 }, ti = { 0 };
	socklen_t len = sizeof(ti);

	getsockopt(x->fd, IPPROTO_TCP, TCP_INFO, &before, &len);
	far_sends(x, 1000);
	RES("info", getsockopt(x->fd, IPPROTO_TCP, TCP_INFO, &ti, &len));
	out(" received=%d",
	    (int)(ti.tcpi_bytes_received - before.tcpi_bytes_received));
	RES("recv", recv(x->fd, buf, n(600), 0));
	getsockopt(x->fd, IPPROTO_TCP, TCP_INFO, &ti, &len);
	out(" received=%d",
	    (int)(ti.tcpi_bytes_received - before.tcpi_bytes_received));
	fill_up(x);
	getsockopt(x->fd, IPPROTO_TCP, TCP_INFO, &ti, &len);
	out(" waiting=%d", ti.tcpi_notsent_bytes > 0);
}

/* --- a descriptor that goes while others wait for it --- */

struct goes {
	struct ctx *x;
	int over; /* takes its place, or -1 */
};

static void *goes_later(void *arg)
{
	struct goes *g = arg;

	usleep(LATER_MS * 1000);
	if (g->over < 0)
		close(g->x->fd);
	else
		dup2(g->over, g->x->fd);
	far_do(g->x, FAR_SEND, 10);
	return NULL;
}

/* @timeout_ms: for a poll that nothing ends, where the number names a pipe that stays empty. */
static void polled_while_it_goes(struct ctx *x, int over, int timeout_ms)
{
	struct goes g = { x, over };
	struct pollfd p = { .fd = x->fd, .events = POLLIN };
	int kept = dup(x->fd);
	pthread_t thread;

	pthread_create(&thread, NULL, goes_later, &g);
	RES("poll", poll(&p, 1, timeout_ms));
	bits("revents", p.revents);
	pthread_join(thread, NULL);
	long r = recv(kept, buf, n(10), 0);
	res("kept", r);
	got(x, buf, r);
	x->fd = kept;
}

SCENARIO(poll_closed_meanwhile) { polled_while_it_goes(x, -1, -1); }

SCENARIO(poll_replaced_meanwhile)
{
	int p[2];

	if (pipe(p))
		return;
	polled_while_it_goes(x, p[1], 300);
	RES("write", write(p[1], "x", 1));
	polled_while_it_goes(x, p[0], -1);
}

struct readable {
	int pipe, fd, wake;
};

static void *becomes_readable(void *arg)
{
	struct readable *r = arg;

	usleep(LATER_MS * 1000);
	dup2(r->pipe, r->fd);
	(void)!write(r->wake, "x", 1);
	return NULL;
}

/* The unread byte is not the connection's, which goes on under another number. */
SCENARIO(poll_replaced_by_a_readable_pipe)
{
	int p[2], wake[2], kept = dup(x->fd);
	pthread_t thread;

	if (pipe(p) || pipe(wake) || write(p[1], "x", 1) != 1)
		return;
	struct readable r = { p[0], x->fd, wake[1] };
	struct pollfd polled[2] = { { .fd = x->fd, .events = POLLIN },
				    { .fd = wake[0], .events = POLLIN } };
	pthread_create(&thread, NULL, becomes_readable, &r);
	RES("poll", poll(polled, 2, -1));
	bits("revents", polled[0].revents);
	pthread_join(thread, NULL);
	close(x->fd);
	x->fd = kept;
	play(x, "s10r10w10f10");
}

/* --- options that are older than the connection --- */

static void give_options(int fd)
{
	struct timeval tv = { .tv_usec = 100000 };
	int one = 1, low = 5;

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof(low));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

/* Does @fd, whose peer is @other, still have what give_options() gave? */
static void has_options(const char *what, int fd, int other)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	socklen_t len = sizeof(int);
	int v = -1;

	getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &v, &len);
	out(" %s-nodelay=%d", what, v);
	len = sizeof(v);
	getsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &v, &len);
	out(" lowat=%d", v);
	if (write(other, "123", 3) != 3)
		return;
	RES("poll", poll(&p, 1, 20));
	RES("take", recv(fd, buf, n(10), MSG_DONTWAIT));
	long long t = ms_now();
	RES("recv", recv(fd, buf, n(10), 0));
	took(t, 100);
}

SCENARIO(opt_before_connect)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(at);
	int l = socket(AF_INET, SOCK_STREAM, 0);
	int c = socket(AF_INET, SOCK_STREAM, 0);

	give_options(l);
	give_options(c);
	if (bind(l, (struct sockaddr *)&at, len) || listen(l, 1) ||
	    getsockname(l, (struct sockaddr *)&at, &len) ||
	    connect(c, (struct sockaddr *)&at, len)) {
		out(" connect=%s", strerrorname_np(errno));
		return;
	}
	int a = accept(l, NULL, NULL);
	has_options("accepted", a, c);
	has_options("connected", c, a);
	close(a);
	close(c);
	close(l);
}

static void odd_addresses(const char *what,
			  int (*call)(int, const struct sockaddr *, socklen_t),
			  int fd, char *hidden)
{
	struct sockaddr unspec = { .sa_family = AF_UNSPEC };
	struct sockaddr unix_path = { .sa_family = AF_UNIX };

	out(" %s:", what);
	RES("null", call(fd, (void *)(n(1) - 1), n(16)));
	RES("bad", call(fd, BAD_POINTER, n(16)));
	RES("hidden", call(fd, (void *)hidden, n(16)));
	RES("half", call(fd, (void *)(hidden - 8), n(16)));
	RES("long", call(fd, (void *)(hidden - 256), n(200)));
	RES("short", call(fd, (void *)(hidden - 256), n(8)));
	RES("none", call(fd, &unspec, 0));
	RES("unix", call(fd, &unix_path, sizeof(unix_path)));
	RES("unspec", call(fd, &unspec, sizeof(unspec)));
	RES("short-unspec", call(fd, &unspec, sizeof(unspec.sa_family)));
}

/* Addresses that the kernel refuses, before one that ends where memory does, which it
 * takes. */
SCENARIO(opt_odd_addresses)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr unspec = { .sa_family = AF_UNSPEC };
	socklen_t len = sizeof(at);
	char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *hidden = pages + 4096;
	int l = socket(AF_INET, SOCK_STREAM, 0);
	int c = socket(AF_INET, SOCK_STREAM, 0);

	if (pages == MAP_FAILED || mprotect(hidden, 4096, PROT_NONE) ||
	    bind(l, (struct sockaddr *)&at, len) || listen(l, 2) ||
	    getsockname(l, (struct sockaddr *)&at, &len))
		return;
	memcpy(hidden - len, &at, len);
	odd_addresses("connect", connect, c, hidden);
	RES("connect", connect(c, (struct sockaddr *)(hidden - len), len));
	int a = accept(l, NULL, NULL);
	RES("send", send(c, buf, n(10), 0));
	RES("recv", recv(a, buf, n(10), MSG_WAITALL));
	RES("again", connect(c, (struct sockaddr *)&at, len));
	odd_addresses("connected", connect, c, hidden);
	RES("connect", connect(c, (struct sockaddr *)&at, len));
	close(a);
	a = accept(l, NULL, NULL);
	RES("send", send(a, buf, n(10), 0));
	RES("recv", recv(c, buf, n(10), MSG_WAITALL));
	close(a);
	close(c);
	c = socket(AF_INET, SOCK_STREAM, 0);
	odd_addresses("bind", bind, c, hidden);
	at.sin_port = 0;
	memcpy(hidden - len, &at, len);
	RES("bind", bind(c, (struct sockaddr *)(hidden - len), len));
	RES("unspec", connect(c, &unspec, sizeof(unspec)));
	close(c);
	close(l);
	munmap(pages, 8192);
}

/* What bounds the rate, in TCP_INFO; some programs know only half of that member. */
static void info_rate(const struct ctx *x)
{
	const size_t at = offsetof(struct tcp_info, tcpi_max_pacing_rate);
	struct tcp_info ti = { 0 };

	for (socklen_t len = at + 4; len <= at + 8; len += 4) {
		socklen_t part = len;

		RES("info",
		    getsockopt(x->fd, IPPROTO_TCP, TCP_INFO, &ti, &part));
		out(" rate=%llx", (unsigned long long)ti.tcpi_max_pacing_rate);
	}
}

SCENARIO(opt_info_rate)
{
	uint64_t rate = 123456789;

	info_rate(x);
	made(x, buf, 10);
	RES("send", send(x->fd, buf, n(10), 0));
	info_rate(x);
	far_res(x, "far", FAR_RECV, 10);
	info_rate(x);
	RES("set", setsockopt(x->fd, SOL_SOCKET, SO_MAX_PACING_RATE, &rate,
			      sizeof(rate)));
	made(x, buf, 10);
	RES("send", send(x->fd, buf, n(10), 0));
	info_rate(x);
}
