/* SPDX-License-Identifier: MIT */
/* tests/app/calls_shut.c - scenarios: what either end shuts, and what poll() says of
 * each way (see calls.h) */
#include "calls.h"
#include "calls_close.h"

#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <unistd.h>

/* A file with @len bytes, at its beginning. */
static int memfd_of(size_t len)
{
	int fd = memfd_create("calls", MFD_CLOEXEC);

	return ftruncate(fd, (off_t)len) ? -1 : fd;
}

SCENARIO(close_states_open)
{
	all_states(x, "idle");
	far_do(x, FAR_SEND, 10);
	settle(x, POLLIN);
	all_states(x, "data");
	recv_now(x, "recv", 100);
	fill_up(x);
	all_states(x, "full");
}

SCENARIO(close_peer_shut_wr)
{
	far_do(x, FAR_SHUT, SHUT_WR);
	settle(x, POLLRDHUP);
	all_states(x, "shut");
	recv_now(x, "recv", 10);
	recv_now(x, "recv", 10);
	RES("read", read(x->fd, buf, n(10)));
	all_states(x, "eof");
	so_error(x, "so_error");
	send_now(x, "send", 100);
	far_res(x, "far", FAR_RECV, 100);
}

SCENARIO(close_peer_shut_wr_with_data)
{
	far_do(x, FAR_SEND, 100);
	far_do(x, FAR_SHUT, SHUT_WR);
	settle(x, POLLRDHUP);
	all_states(x, "shut");
	recv_now(x, "recv", 60);
	all_states(x, "less");
	recv_now(x, "recv", 60);
	recv_now(x, "recv", 60);
	all_states(x, "eof");
}

SCENARIO(close_peer_shut_rd)
{
	far_do(x, FAR_SHUT, SHUT_RD);
	usleep(20000);
	all_states(x, "shut");
	send_now(x, "send", 100);
	far_res(x, "far", FAR_RECV, 100);
	all_states(x, "after");
}

SCENARIO(close_peer_shut_rdwr)
{
	far_do(x, FAR_SHUT, SHUT_RDWR);
	settle(x, POLLRDHUP);
	all_states(x, "shut");
	recv_now(x, "recv", 10);
	far_res(x, "far", FAR_RECV, 10);
}

SCENARIO(close_near_shut_wr)
{
	send_now(x, "send", 100);
	RES("shutdown", shutdown(x->fd, SHUT_WR));
	RES("again", shutdown(x->fd, SHUT_WR));
	all_states(x, "shut");
	far_res(x, "far", FAR_RECV, 200);
	far_res(x, "eof", FAR_RECV, 200);
	far_do(x, FAR_SEND, 50);
	settle(x, POLLIN);
	all_states(x, "data");
	recv_now(x, "recv", 100);
	send_now(x, "send", 10);
}

SCENARIO(close_near_shut_rd)
{
	RES("shutdown", shutdown(x->fd, SHUT_RD));
	all_states(x, "shut");
	recv_now(x, "recv", 100);
	RES("read", read(x->fd, buf, n(10)));
	send_now(x, "send", 100);
	far_res(x, "far", FAR_RECV, 100);
}

/* Linux still delivers what comes after SHUT_RD. */
SCENARIO(close_near_shut_rd_data)
{
	RES("shutdown", shutdown(x->fd, SHUT_RD));
	far_res(x, "far", FAR_SEND, 100);
	usleep(20000);
	all_states(x, "data");
	recv_now(x, "recv", 60);
	recv_now(x, "recv", 60);
	recv_now(x, "recv", 60);
}

SCENARIO(close_near_shut_rdwr)
{
	far_do(x, FAR_SEND, 100);
	settle(x, POLLIN);
	RES("shutdown", shutdown(x->fd, SHUT_RDWR));
	all_states(x, "shut");
	recv_now(x, "recv", 200);
	recv_now(x, "recv", 200);
	send_now(x, "send", 10);
	far_res(x, "far", FAR_RECV, 10);
}

/* What our own shutdown does to the kernel's socket is no end of the peer's. */
SCENARIO(close_near_shut_before_far_reads)
{
	send_now(x, "send", 10);
	RES("wr", shutdown(x->fd, SHUT_WR));
	RES("rd", shutdown(x->fd, SHUT_RD));
	all_states(x, "shut");
	so_error(x, "so_error");
	far_res(x, "far", FAR_RECV, 10);
	recv_now(x, "recv", 10);
	so_error(x, "so_error");
}

SCENARIO(close_near_shut_rdwr_before_far_reads)
{
	send_now(x, "send", 10);
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
	recv_now(x, "recv", 10);
	send_now(x, "send", 10);
	so_error(x, "so_error");
	RES("rd", shutdown(x->fd, SHUT_RD));
	RES("wr", shutdown(x->fd, SHUT_WR));
	RES("rdwr", shutdown(x->fd, SHUT_RDWR));
}

SCENARIO(close_shutdown_bad)
{
	int p[2];

	RES("how", shutdown(x->fd, 3));
	RES("minus", shutdown(x->fd, -1));
	RES("fd", shutdown(-1, SHUT_RD));
	if (!pipe(p))
		RES("pipe", shutdown(p[0], SHUT_RD));
	send_now(x, "send", 10);
	far_res(x, "far", FAR_RECV, 10);
}

/* The near end's kernel answers with a reset, and has that error itself. */
SCENARIO(close_shut_rdwr_then_far_sends)
{
	RES("shut", shutdown(x->fd, SHUT_RDWR));
	far_do(x, FAR_SEND, 100);
	settle(x, POLLERR);
	all_states(x, "reset");
	send_now(x, "send", 10);
	send_now(x, "send", 10);
	all_states(x, "told");
	recv_now(x, "recv", 10);
}

SCENARIO(close_shut_rdwr_then_far_sends_so_error)
{
	RES("shut", shutdown(x->fd, SHUT_RDWR));
	far_do(x, FAR_SEND, 100);
	settle(x, POLLERR);
	so_error(x, "first");
	so_error(x, "second");
	send_now(x, "send", 10);
}

/* The far end's kernel answers with a reset: first it is seen, then told. */
SCENARIO(close_far_shut_rdwr_then_sends)
{
	far_do(x, FAR_SHUT, SHUT_RDWR);
	settle(x, POLLRDHUP);
	send_now(x, "send", 100);
	settle(x, POLLHUP);
	all_states(x, "reset");
	send_now(x, "send", 10);
	all_states(x, "told");
	recv_now(x, "recv", 10);
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
	send_now(x, "send", 10);
	send_now(x, "send", 10);
	all_states(x, "told");
	recv_now(x, "recv", 10);
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
	recv_now(x, "recv", 10);
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
	send_now(x, "send", 10);
	send_now(x, "send", 10);
}
