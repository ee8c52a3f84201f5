/* SPDX-License-Identifier: MIT */
/*
 * tests/packetdrill/test_wait.c - time, poll(), epoll, and calls of a second thread
 */
#include "test_interface.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

void test_clock(void)
{
	long long from = now_us(), at;
	struct timezone tz = { 1, 1 };
	struct timeval tv;
	int listener = listen_v4();
	struct peer p;

	/* Who asks again and again sees time go on. */
	EXPECT_EQ(now_us(), from + 1);
	EXPECT_EQ(pd.usleep(U, 250000), 0);
	EXPECT_EQ(now_us(), from + 250002);
	EXPECT_EQ(pd.gettimeofday(U, &tv, &tz), 0);
	EXPECT_EQ(tz.tz_minuteswest, 0);
	/* A lost segment is sent again: 200 ms, or a little more, then twice that. */
	int fd = serve(listener, &p);
	EXPECT_EQ(pd.write(U, fd, "x", 1), 1);
	EXPECT_EQ(peer_receive(&p, &from).len, 1);
	EXPECT_EQ(peer_receive(&p, &at).len, 1);
	EXPECT_EQ(at - from >= 200000 && at - from < 1010000, 1);
	EXPECT_EQ(now_us() >= at, 1);
	peer_send(&p, TCP_RST, 0);
	EXPECT_EQ(pd.close(U, fd), 0);
	EXPECT_EQ(pd.close(U, listener), 0);
}

void test_poll(void)
{
	int listener = listen_v4(), pipe[2];
	struct peer p;
	struct pollfd fds[3] = { { .fd = listener, .events = POLLIN } };

	EXPECT_EQ(pd.poll(U, fds, 1, 0), 0);
	int fd = serve(listener, &p);
	long long from = now_us();
	EXPECT_EQ(pd.pipe(U, pipe), 0);
	fds[0] = (struct pollfd){ .fd = fd, .events = POLLIN };
	fds[1] = (struct pollfd){ .fd = pipe[0], .events = POLLIN };
	fds[2] = (struct pollfd){ .fd = -1, .events = POLLIN };
	EXPECT_EQ(pd.poll(U, fds, 3, 100), 0);
	EXPECT_EQ(now_us(), from + 100001);
	peer_send(&p, TCP_ACK, 10);
	EXPECT_EQ(pd.poll(U, fds, 3, -1), 1);
	EXPECT_EQ(fds[0].revents, POLLIN);
	EXPECT_EQ(pd.write(U, pipe[1], "x", 1), 1);
	EXPECT_EQ(pd.poll(U, fds, 3, -1), 2);
	peer_send(&p, TCP_RST, 0);
	EXPECT_EQ(pd.poll(U, fds, 1, 0), 1);
	EXPECT_EQ(fds[0].revents, POLLIN | POLLERR | POLLHUP);
	EXPECT_EQ(pd.close(U, fd), 0);
	fds[0].fd = 4000;
	EXPECT_EQ(pd.poll(U, fds, 1, 0), 1);
	EXPECT_EQ(fds[0].revents, POLLNVAL);
	EXPECT_EQ(pd.close(U, pipe[0]), 0);
	EXPECT_EQ(pd.close(U, pipe[1]), 0);
	EXPECT_EQ(pd.close(U, listener), 0);
}

static uint32_t wait_one(int ep)
{
	struct epoll_event ev[4];
	int n = pd.epoll_wait(U, ep, ev, 4, 0);

	EXPECT_EQ(n <= 1, 1);
	return n ? ev[0].events : 0;
}

void test_epoll(void)
{
	int listener = listen_v4(), ep = pd.epoll_create(U, 1), pipe[2];
	struct epoll_event ev = { .events = EPOLLIN, .data.u64 = 77 }, got[4];
	struct peer p;
	char buf[100];
	int fd = serve(listener, &p);

	EXPECT_ERR(pd.epoll_create(U, 0), EINVAL);
	EXPECT_ERR(pd.epoll_ctl(U, ep, EPOLL_CTL_MOD, fd, &ev), ENOENT);
	EXPECT_ERR(pd.epoll_ctl(U, ep, EPOLL_CTL_ADD, fd, NULL), EFAULT);
	EXPECT_EQ(pd.epoll_ctl(U, ep, EPOLL_CTL_ADD, fd, &ev), 0);
	EXPECT_ERR(pd.epoll_ctl(U, ep, EPOLL_CTL_ADD, fd, &ev), EEXIST);
	EXPECT_ERR(pd.epoll_ctl(U, ep, 9, fd, &ev), EINVAL);
	EXPECT_ERR(pd.epoll_wait(U, ep, got, 0, 0), EINVAL);
	EXPECT_ERR(pd.epoll_wait(U, fd, got, 4, 0), EINVAL);
	EXPECT_EQ(wait_one(ep), 0);
	peer_send(&p, TCP_ACK, 10);
	EXPECT_EQ(pd.epoll_wait(U, ep, got, 4, -1), 1);
	EXPECT_EQ(got[0].data.u64, 77);
	EXPECT_EQ(wait_one(ep), EPOLLIN);
	/* An edge is told of once, and more bytes are an edge. */
	ev.events = EPOLLIN | EPOLLET;
	EXPECT_EQ(pd.epoll_ctl(U, ep, EPOLL_CTL_MOD, fd, &ev), 0);
	EXPECT_EQ(wait_one(ep), EPOLLIN);
	EXPECT_EQ(wait_one(ep), 0);
	peer_send(&p, TCP_ACK, 10);
	EXPECT_EQ(wait_one(ep), EPOLLIN);
	EXPECT_EQ(pd.read(U, fd, buf, 100), 20);
	EXPECT_EQ(wait_one(ep), 0);
	peer_send(&p, TCP_ACK, 10);
	EXPECT_EQ(wait_one(ep), EPOLLIN);
	ev.events = EPOLLIN | EPOLLONESHOT;
	EXPECT_EQ(pd.epoll_ctl(U, ep, EPOLL_CTL_MOD, fd, &ev), 0);
	EXPECT_EQ(wait_one(ep), EPOLLIN);
	EXPECT_EQ(wait_one(ep), 0);
	/* The kernel's files stand beside ours, and time passes for nobody else. */
	EXPECT_EQ(pd.pipe(U, pipe), 0);
	ev.events = EPOLLIN;
	EXPECT_EQ(pd.epoll_ctl(U, ep, EPOLL_CTL_ADD, pipe[0], &ev), 0);
	long long from = now_us();
	EXPECT_EQ(pd.epoll_wait(U, ep, got, 4, 50), 0);
	EXPECT_EQ(now_us(), from + 50001);
	EXPECT_EQ(pd.write(U, pipe[1], "x", 1), 1);
	EXPECT_EQ(wait_one(ep), EPOLLIN);
	EXPECT_EQ(pd.epoll_ctl(U, ep, EPOLL_CTL_DEL, pipe[0], NULL), 0);
	EXPECT_EQ(pd.epoll_ctl(U, ep, EPOLL_CTL_DEL, fd, NULL), 0);
	EXPECT_ERR(pd.epoll_ctl(U, ep, EPOLL_CTL_DEL, fd, NULL), ENOENT);
	/* A watch ends with its file. */
	EXPECT_EQ(pd.epoll_ctl(U, ep, EPOLL_CTL_ADD, fd, &ev), 0);
	peer_send(&p, TCP_RST, 0);
	EXPECT_EQ(wait_one(ep), EPOLLIN | EPOLLERR | EPOLLHUP);
	EXPECT_EQ(pd.close(U, fd), 0);
	EXPECT_EQ(wait_one(ep), 0);
	EXPECT_EQ(pd.close(U, ep), 0);
	EXPECT_EQ(pd.close(U, pipe[0]), 0);
	EXPECT_EQ(pd.close(U, pipe[1]), 0);
	EXPECT_EQ(pd.close(U, listener), 0);
}

/* --- a thread whose calls wait --- */

struct blocked {
	int fd;
	ssize_t r;
	int err;
	long long at_us; /* when it was over */
	_Atomic pid_t tid;
	_Atomic bool has_begun;
	ssize_t (*call)(struct blocked *b);
};

static ssize_t do_read(struct blocked *b)
{
	char buf[100];

	return pd.read(U, b->fd, buf, sizeof(buf));
}

static ssize_t do_read_all(struct blocked *b)
{
	char buf[100];

	return pd.recv(U, b->fd, buf, sizeof(buf), MSG_WAITALL);
}

static ssize_t do_accept(struct blocked *b)
{
	return pd.accept(U, b->fd, NULL, NULL);
}

static ssize_t do_connect(struct blocked *b)
{
	struct sockaddr_in a = v4("192.0.2.1", PORT);

	return pd.connect(U, b->fd, (struct sockaddr *)&a, sizeof(a));
}

static ssize_t do_poll(struct blocked *b)
{
	struct pollfd p = { .fd = b->fd, .events = POLLIN };

	return pd.poll(U, &p, 1, 700);
}

static void *blocked_main(void *arg)
{
	struct blocked *b = arg;

	b->tid = gettid();
	b->r = b->call(b);
	b->err = errno;
	b->at_us = now_us();
	return NULL;
}

static bool is_asleep(pid_t tid)
{
	char path[64], stat[256] = "";

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	FILE *f = fopen(path, "r");
	EXPECT_EQ(!!f, 1);
	EXPECT_EQ(!!fgets(stat, sizeof(stat), f), 1);
	fclose(f);
	return strstr(stat, ") S ");
}

/* Starts the call, and comes back when its thread sleeps in it, as the tool does. */
static pthread_t block(struct blocked *b)
{
	pthread_t t;

	EXPECT_EQ(pthread_create(&t, NULL, blocked_main, b), 0);
	while (!b->tid || !is_asleep(b->tid))
		sched_yield();
	return t;
}

static void expect_over(pthread_t t, const struct blocked *b, ssize_t r,
			long long at_us)
{
	EXPECT_EQ(pthread_join(t, NULL), 0);
	EXPECT_EQ(b->r, r);
	EXPECT_EQ(b->at_us, at_us);
}

/* The tool's thread waits for when its call is to begin, and the owner waits for it. */
static ssize_t do_read_later(struct blocked *b)
{
	while (now_us() < b->at_us)
		;
	b->has_begun = true;
	return do_read(b);
}

void test_begins_later(void)
{
	struct peer p;
	int listener = listen_v4(), fd = serve(listener, &p);
	long long begin = now_us() + 100000;
	struct blocked b = { .fd = fd, .call = do_read_later, .at_us = begin };
	pthread_t t;

	EXPECT_EQ(pthread_create(&t, NULL, blocked_main, &b), 0);
	while (!b.has_begun || !is_asleep(b.tid))
		sched_yield();
	long long at = now_us();

	EXPECT_EQ(at >= begin && at < begin + 10, 1);
	peer_send(&p, TCP_ACK | TCP_PSH, 10);
	expect_over(t, &b, 10, at);
	peer_send(&p, TCP_RST, 0);
	EXPECT_EQ(pd.close(U, fd), 0);
	EXPECT_EQ(pd.close(U, listener), 0);
}

void test_blocking(void)
{
	int listener = listen_v4();
	struct peer p;
	struct timeval tv = { 0, 300000 };
	int fd = serve(listener, &p);

	/* Bytes wake it, and it sees the time at which they came. */
	struct blocked b = { .fd = fd, .call = do_read };
	pthread_t t = block(&b);
	pd.usleep(U, 100000);
	long long at = now_us();
	peer_send(&p, TCP_ACK, 10);
	pd.usleep(U, 5000000);
	expect_over(t, &b, 10, at);
	/* All that was asked for, in two parts. */
	b = (struct blocked){ .fd = fd, .call = do_read_all };
	t = block(&b);
	peer_send(&p, TCP_ACK, 60);
	pd.usleep(U, 1000);
	at = now_us();
	peer_send(&p, TCP_ACK, 40);
	pd.usleep(U, 1000);
	expect_over(t, &b, 100, at);
	for (int i = 0; i < 3; i++)
		EXPECT_EQ(peer_receive(&p, NULL).flags, TCP_ACK);
	/* A time-out of the socket's own, in the middle of a longer sleep. */
	EXPECT_EQ(
	    pd.setsockopt(U, fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)), 0);
	b = (struct blocked){ .fd = fd, .call = do_read };
	at = now_us();
	t = block(&b);
	pd.usleep(U, 5000000);
	expect_over(t, &b, -1, at + 300000);
	EXPECT_EQ(b.err, EAGAIN);
	b = (struct blocked){ .fd = fd, .call = do_poll };
	at = now_us();
	t = block(&b);
	pd.usleep(U, 5000000);
	expect_over(t, &b, 0, at + 700000);
	/* An accept() and a connect(). */
	peer_send(&p, TCP_RST, 0);
	EXPECT_EQ(pd.close(U, fd), 0);
	b = (struct blocked){ .fd = listener, .call = do_accept };
	t = block(&b);
	p.rport++;
	p.una.v = 0;
	peer_send(&p, TCP_SYN, 0);
	peer_receive(&p, NULL);
	at = now_us();
	peer_send(&p, TCP_ACK, 0);
	EXPECT_EQ(pthread_join(t, NULL), 0);
	EXPECT_EQ(b.r >= 0, 1);
	EXPECT_EQ(b.at_us, at);
	peer_send(&p, TCP_RST, 0);
	EXPECT_EQ(pd.close(U, (int)b.r), 0);
	b = (struct blocked){ .fd = pd.socket(U, AF_INET, SOCK_STREAM, 0),
			      .call = do_connect };
	t = block(&b);
	p.rport = PORT;
	struct tcp_seg seg = peer_receive(&p, NULL);
	EXPECT_EQ(seg.flags, TCP_SYN);
	p.lport = seg.sport;
	at = now_us();
	peer_send(&p, TCP_RST | TCP_ACK, 0);
	expect_over(t, &b, -1, at);
	EXPECT_EQ(b.err, ECONNREFUSED);
	EXPECT_EQ(pd.close(U, b.fd), 0);
	EXPECT_EQ(pd.close(U, listener), 0);
}

/* close() waits for what was sent to arrive, for some seconds. */
void test_linger(void)
{
	struct linger two = { 1, 2 };
	struct peer p;
	int fd = call(&p);

	EXPECT_EQ(
	    pd.setsockopt(U, fd, SOL_SOCKET, SO_LINGER, &two, sizeof(two)), 0);
	long long from = now_us();
	EXPECT_EQ(pd.close(U, fd), 0);
	EXPECT_EQ(now_us(), from + 2000001);
	EXPECT_EQ(peer_receive(&p, NULL).flags, TCP_FIN | TCP_ACK);
	peer_send(&p, TCP_RST, 0);
}
