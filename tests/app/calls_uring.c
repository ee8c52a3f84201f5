/* SPDX-License-Identifier: MIT */
/* tests/app/calls_uring.c - scenarios: liburing, with the connection and beside it
 * (see calls_part.h); rings made by system call are in calls_raw.c */
#include "calls_part.h"

#include <fcntl.h>
#include <liburing.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

static bool ring_open(struct io_uring *ring, unsigned flags)
{
	int err = io_uring_queue_init(8, ring, flags);

	if (err)
		out(" no-io_uring");
	return !err;
}

static void start(struct io_uring *ring)
{
	int n_sent = io_uring_submit(ring);

	/* The kernel's thread may not have seen the entry before this one. */
	if (n_sent != 1 && !(ring->flags & IORING_SETUP_SQPOLL))
		out(" submit=%d", n_sent);
}

static long end(struct io_uring *ring)
{
	struct io_uring_cqe *cqe;
	int err = io_uring_wait_cqe(ring, &cqe);
	long r = err ? err : cqe->res;

	if (!err)
		io_uring_cqe_seen(ring, cqe);
	errno = r < 0 ? (int)-r : 0;
	return r < 0 ? -1 : r;
}

static long finish(struct io_uring *ring)
{
	start(ring);
	return end(ring);
}

static void ring_recv(struct ctx *x, struct io_uring *ring, int fd, size_t len)
{
	io_uring_prep_recv(io_uring_get_sqe(ring), fd, buf, len, 0);
	long r = finish(ring);

	res("recv", r);
	got(x, buf, r);
}

static void ring_send(struct ctx *x, struct io_uring *ring, size_t len)
{
	made(x, buf, len);
	io_uring_prep_send(io_uring_get_sqe(ring), x->fd, buf, len, 0);
	res("send", finish(ring));
}

SCENARIO(uring_both_ways)
{
	struct io_uring ring;

	play(x, "w60s100r10");
	if (!ring_open(&ring, 0))
		return;
	ring_recv(x, &ring, x->fd, 40);
	ring_send(x, &ring, 40);
	play(x, "r20w10");
	ring_recv(x, &ring, x->fd, 100);
	ring_send(x, &ring, 20);
	play(x, "f130t3s10r10");
	io_uring_queue_exit(&ring);
	play(x, "t3");
}

/* The kernel's thread picks entries up. */
SCENARIO(uring_sqpoll)
{
	struct io_uring ring;

	play(x, "w60s100r10");
	if (!ring_open(&ring, IORING_SETUP_SQPOLL))
		return;
	ring_recv(x, &ring, x->fd, 40);
	ring_send(x, &ring, 40);
	play(x, "r50f100t3");
	io_uring_queue_exit(&ring);
}

/* Several at once, linked, and submitted by a wait. */
SCENARIO(uring_linked)
{
	struct io_uring_cqe *cqe;
	struct io_uring ring;

	play(x, "w60f60");
	if (!ring_open(&ring, 0))
		return;
	made(x, buf, 30);
	for (int i = 0; i < 3; i++) {
		struct io_uring_sqe *s = io_uring_get_sqe(&ring);

		io_uring_prep_send(s, x->fd, buf + 10 * i, 10, 0);
		io_uring_sqe_set_flags(s, i < 2 ? IOSQE_IO_LINK : 0);
	}
	RES("wait", io_uring_submit_and_wait(&ring, 3));
	for (int i = 0; i < 3; i++) {
		RES("peek", io_uring_peek_cqe(&ring, &cqe));
		res("send", cqe->res);
		io_uring_cqe_seen(&ring, cqe);
	}
	play(x, "f30s10");
	io_uring_prep_recv(io_uring_get_sqe(&ring), x->fd, buf, 10, 0);
	struct __kernel_timespec ts = { .tv_sec = 3 };
	RES("timeout",
	    io_uring_submit_and_wait_timeout(&ring, &cqe, 1, &ts, NULL));
	res("recv", cqe->res);
	got(x, buf, cqe->res);
	io_uring_queue_exit(&ring);
	play(x, "t3");
}

SCENARIO(uring_poll)
{
	struct io_uring ring;

	play(x, "w60f60");
	if (!ring_open(&ring, 0))
		return;
	io_uring_prep_poll_add(io_uring_get_sqe(&ring), x->fd, POLLIN);
	start(&ring);
	play(x, "l20");
	res("poll", end(&ring) & POLLIN);
	play(x, "r20t3");
	io_uring_queue_exit(&ring);
}

/* The kernel is to say when a set of ours has something. */
SCENARIO(uring_polls_epoll)
{
	struct epoll_event ev = { .events = EPOLLIN };
	int ep = epoll_create1(EPOLL_CLOEXEC);
	struct io_uring ring;

	play(x, "w60f60");
	RES("add", epoll_ctl(ep, EPOLL_CTL_ADD, x->fd, &ev));
	RES("none", epoll_wait(ep, &ev, 1, 0));
	if (!ring_open(&ring, 0))
		return;
	for (int i = 0; i < 3; i++) {
		io_uring_prep_poll_add(io_uring_get_sqe(&ring), ep, POLLIN);
		start(&ring);
		play(x, "l20");
		res("poll", end(&ring) & POLLIN);
		RES("wait", epoll_wait(ep, &ev, 1, 0));
		play(x, "r20");
	}
	io_uring_queue_exit(&ring);
	play(x, "t3");
}

SCENARIO(uring_adds_to_epoll)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u64 = 77 };
	int ep = epoll_create1(EPOLL_CLOEXEC);
	struct io_uring ring;

	play(x, "w60f60");
	if (!ring_open(&ring, 0))
		return;
	io_uring_prep_epoll_ctl(io_uring_get_sqe(&ring), ep, x->fd,
				EPOLL_CTL_ADD, &ev);
	res("add", finish(&ring));
	play(x, "l20");
	ev.data.u64 = 0;
	RES("wait", epoll_wait(ep, &ev, 1, -1));
	out("/%d", (int)ev.data.u64);
	play(x, "r20t3");
	io_uring_queue_exit(&ring);
}

SCENARIO(uring_registered)
{
	int fds[2] = { -1, x->fd };
	struct io_uring ring;

	play(x, "w60s100r10");
	if (!ring_open(&ring, 0))
		return;
	RES("register", io_uring_register_files(&ring, fds, 2));
	for (int i = 0; i < 2; i++) {
		struct io_uring_sqe *s = io_uring_get_sqe(&ring);

		io_uring_prep_recv(s, i ? 0 : 1, buf, 40, 0);
		io_uring_sqe_set_flags(s, IOSQE_FIXED_FILE);
		long r = finish(&ring);
		res("recv", r);
		got(x, buf, r);
		RES("update",
		    io_uring_register_files_update(&ring, 0, &x->fd, 1));
	}
	play(x, "r10f60t3");
	io_uring_queue_exit(&ring);
}

SCENARIO(uring_updates_registered)
{
	struct io_uring ring;
	int fds[1] = { -1 };

	play(x, "w60s100r10");
	if (!ring_open(&ring, 0))
		return;
	RES("register", io_uring_register_files(&ring, fds, 1));
	io_uring_prep_files_update(io_uring_get_sqe(&ring), &x->fd, 1, 0);
	res("update", finish(&ring));
	struct io_uring_sqe *s = io_uring_get_sqe(&ring);
	io_uring_prep_recv(s, 0, buf, 40, 0);
	io_uring_sqe_set_flags(s, IOSQE_FIXED_FILE);
	long r = finish(&ring);
	res("recv", r);
	got(x, buf, r);
	play(x, "r50f60t3");
	io_uring_queue_exit(&ring);
}

SCENARIO(uring_accepts)
{
	struct io_uring ring;
	int port = 0, listener = listener_at(&port, false);

	if (!ring_open(&ring, 0))
		return;
	far_res(x, "connect", FAR_CONNECT, (long)port << 16 | 4);
	io_uring_prep_accept(io_uring_get_sqe(&ring), listener, NULL, NULL, 0);
	x->fd = (int)finish(&ring);
	setsockopt(x->fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
	play(x, "t30w60s100");
	ring_recv(x, &ring, x->fd, 40);
	play(x, "r60f60");
	io_uring_prep_close(io_uring_get_sqe(&ring), x->fd);
	res("close", finish(&ring));
	play(x, "E");
	io_uring_queue_exit(&ring);
}

/* The ring closes, and the number becomes a pipe's. */
SCENARIO(uring_closes)
{
	struct io_uring ring;
	int p[2];

	play(x, "w60f60s10r10");
	if (!ring_open(&ring, 0))
		return;
	io_uring_prep_close(io_uring_get_sqe(&ring), x->fd);
	res("close", finish(&ring));
	play(x, "E");
	RES("recv", recv(x->fd, buf, n(10), 0));
	if (pipe(p))
		return;
	out(" same=%d", p[0] == x->fd || p[1] == x->fd);
	RES("write", write(p[1], "abc", n(3)));
	RES("read", read(p[0], buf, n(10)));
	io_uring_queue_exit(&ring);
}

SCENARIO(uring_splices)
{
	struct io_uring ring;
	int p[2];

	play(x, "w60f60s50r10");
	if (!ring_open(&ring, 0) || pipe(p))
		return;
	io_uring_prep_splice(io_uring_get_sqe(&ring), x->fd, -1, p[1], -1, 40,
			     0);
	res("splice", finish(&ring));
	RES("read", read(p[0], buf, n(40)));
	got(x, buf, 40);
	play(x, "t3");
	io_uring_queue_exit(&ring);
}

/* A connection that another thread waits for is given to a ring. */
static void *receive(void *arg)
{
	struct ctx *x = arg;

	RES("received", recv(x->fd, buf, n(20), MSG_WAITALL));
	got(x, buf, 20);
	return NULL;
}

SCENARIO(uring_under_recv)
{
	static char bytes[16];
	struct io_uring ring;
	pthread_t thread;

	play(x, "w60f60");
	pthread_create(&thread, NULL, receive, x);
	wait_a_bit();
	if (ring_open(&ring, 0)) {
		made(x, bytes, 16);
		io_uring_prep_send(io_uring_get_sqe(&ring), x->fd, bytes, 16,
				   0);
		res("send", finish(&ring));
	}
	play(x, "f16s20");
	pthread_join(thread, NULL);
	play(x, "t3");
}

/* The ring is for files: test_stays.py sees that the connection is moved. */
SCENARIO(uring_beside)
{
	int file = memfd_create("uring", MFD_CLOEXEC);
	struct io_uring ring;

	if (!ring_open(&ring, 0))
		return;
	for (int i = 0; i < 30; i++) {
		io_uring_prep_write(io_uring_get_sqe(&ring), file, "abc", 3, 0);
		if (finish(&ring) != 3)
			out(" WRITE");
		io_uring_prep_read(io_uring_get_sqe(&ring), file, buf, 3, 0);
		if (finish(&ring) != 3 || memcmp(buf, "abc", 3))
			out(" READ");
		play(x, "t1");
	}
	play(x, "w10000f10000s10000r10000");
	io_uring_queue_exit(&ring);
}
