/* SPDX-License-Identifier: MIT */
/* tests/app/calls_errq.c - scenarios: the error queue, where the kernel puts the
 * completions of MSG_ZEROCOPY and the times at which something was sent (see calls.h) */
#include "calls.h"
#include "calls_part.h"

#include <linux/errqueue.h>
#include <linux/net_tstamp.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#define MANY 64

/* Sent from here with MSG_ZEROCOPY: the kernel may read it after the call. */
static char pages[MANY * 1024];

static void zerocopy_on(struct ctx *x)
{
	int one = 1;

	RES("on",
	    setsockopt(x->fd, SOL_SOCKET, SO_ZEROCOPY, &one, sizeof(one)));
}

/* The next @len bytes of the stream, which the far end then has received. */
static void zerocopy_send(struct ctx *x, size_t len)
{
	made(x, pages, len);
	RES("zerocopy",
	    send(x->fd, pages, n(len), MSG_ZEROCOPY | MSG_NOSIGNAL));
	far_res(x, "far", FAR_RECV, (long)len);
}

static void see(int ep, const char *what, int ms)
{
	struct epoll_event ev = { 0 };
	int r = epoll_wait(ep, &ev, 1, ms);

	if (r == 1)
		bits(what, (int)ev.events);
	else
		res(what, r);
}

static int set_of(struct ctx *x, uint32_t events)
{
	int ep = epoll_create1(EPOLL_CLOEXEC);

	epoll_ctl(ep, EPOLL_CTL_ADD, x->fd,
		  &(struct epoll_event){ .events = events });
	return ep;
}

/* What one entry of the queue says. */
static long errq_read(struct ctx *x, struct sock_extended_err *ee)
{
	char control[256];
	struct msghdr m = { .msg_control = control,
			    .msg_controllen = sizeof(control) };

	memset(ee, 0, sizeof(*ee));
	long r = recvmsg(x->fd, &m, MSG_ERRQUEUE);
	if (r < 0)
		return r;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c))
		if ((c->cmsg_level == SOL_IP && c->cmsg_type == IP_RECVERR) ||
		    (c->cmsg_level == SOL_IPV6 && c->cmsg_type == IPV6_RECVERR))
			memcpy(ee, CMSG_DATA(c), sizeof(*ee));
	return r;
}

/* Until the queue has told of @count sends, however many it tells of at once. */
static void completions(struct ctx *x, unsigned count)
{
	struct sock_extended_err ee;
	unsigned first = 0, n_told = 0;

	while (n_told < count) {
		settle(x, POLLERR);
		if (errq_read(x, &ee) < 0) {
			out(" errq=%s", strerrorname_np(errno));
			return;
		}
		if (ee.ee_origin != SO_EE_ORIGIN_ZEROCOPY ||
		    ee.ee_code != SO_EE_CODE_ZEROCOPY_COPIED || ee.ee_errno)
			out(" ODD-ENTRY");
		if (!n_told)
			first = ee.ee_info;
		else if (ee.ee_info != first + n_told)
			out(" GAP");
		n_told += ee.ee_data - ee.ee_info + 1;
	}
	out(" completed=%u-%u", first, first + n_told - 1);
	RES("then", errq_read(x, &ee));
}

/* --- the numbers --- */

SCENARIO(errq_numbers)
{
	int one = 1, v = -1;
	socklen_t len = sizeof(v);

	RES("off",
	    send(x->fd, (made(x, pages, 10), pages), n(10), MSG_ZEROCOPY));
	zerocopy_on(x);
	RES("get", getsockopt(x->fd, SOL_SOCKET, SO_ZEROCOPY, &v, &len));
	out("/%d", v);
	RES("nothing", send(x->fd, pages, n(0), MSG_ZEROCOPY));
	RES("pointer", send(x->fd, BAD_POINTER, n(10), MSG_ZEROCOPY));
	far_res(x, "far", FAR_RECV, 10);
	zerocopy_send(x, 10);
	zerocopy_send(x, 4000);
	play(x, "w10f10");
	zerocopy_send(x, 10);
	completions(x, 3);
	one = 0;
	RES("off",
	    setsockopt(x->fd, SOL_SOCKET, SO_ZEROCOPY, &one, sizeof(one)));
	zerocopy_send(x, 10);
	state(x, "state");
	zerocopy_on(x);
	zerocopy_send(x, 10);
	completions(x, 1);
}

/* Counted on from what the kernel has numbered, and unread or not. */
SCENARIO(errq_numbers_go_on)
{
	zerocopy_on(x);
	zerocopy_send(x, 100);
	zerocopy_send(x, 100);
	completions(x, 2);
	zerocopy_send(x, 100);
	play(x, "t40");
	settle(x, POLLERR);
	state(x, "state");
	zerocopy_send(x, 100);
	zerocopy_send(x, 100);
	play(x, "t3");
	completions(x, 3);
	state(x, "state");
	zerocopy_send(x, 100);
	completions(x, 1);
}

/* The connection goes back to the kernel: an urgent byte. */
SCENARIO(errq_numbers_go_back)
{
	zerocopy_on(x);
	zerocopy_send(x, 100);
	play(x, "t3");
	zerocopy_send(x, 100);
	far_res(x, "oob", FAR_SEND_OOB, 0);
	RES("oob", send(x->fd, "!", n(1), MSG_OOB));
	play(x, "t3");
	zerocopy_send(x, 100);
	completions(x, 3);
	zerocopy_send(x, 4000);
	zerocopy_send(x, 4000);
	settle(x, POLLERR);
	state(x, "state");
	completions(x, 2);
	state(x, "state");
}

SCENARIO(errq_numbers_are_per_call)
{
	struct iovec iov[2] = { { pages, 100 }, { pages + 100, 0 } };
	struct msghdr m = { .msg_iov = iov, .msg_iovlen = 2 };
	struct mmsghdr mm[3] = {
		{ .msg_hdr = m },
		{ .msg_hdr = { .msg_iov = iov + 1, .msg_iovlen = 1 } },
		{ .msg_hdr = { .msg_iov = iov + 1, .msg_iovlen = 1 } }
	};

	zerocopy_on(x);
	made(x, pages, 200);
	RES("sendmsg", sendmsg(x->fd, &m, MSG_ZEROCOPY));
	mm[0].msg_hdr.msg_iov = &(struct iovec){ pages + 100, 60 };
	mm[2].msg_hdr.msg_iov = &(struct iovec){ pages + 160, 40 };
	mm[0].msg_hdr.msg_iovlen = 1;
	RES("sendmmsg", sendmmsg(x->fd, mm, 3, MSG_ZEROCOPY));
	far_res(x, "far", FAR_RECV, 200);
	RES("sendto", (made(x, pages, 10),
		       sendto(x->fd, pages, n(10), MSG_ZEROCOPY, NULL, 0)));
	far_res(x, "far", FAR_RECV, 10);
	completions(x, 4);
}

/* More than fits, in one call: one number.  None for a call that sends nothing. */
SCENARIO(errq_numbers_of_full)
{
	static char large[8 << 20];

	zerocopy_on(x);
	made(x, large, sizeof(large));
	far_begin(x, FAR_RECV, sizeof(large));
	RES("large", send(x->fd, large, n(sizeof(large)), MSG_ZEROCOPY));
	out(" far=%ld", far_end(x));
	completions(x, 1);
	size_t total = fill_up(x);
	RES("full", send(x->fd, pages, n(10), MSG_ZEROCOPY | MSG_DONTWAIT));
	far_do(x, FAR_RECV, (long)total);
	zerocopy_send(x, 10);
	completions(x, 1);
}

SCENARIO(errq_numbers_are_shared)
{
	zerocopy_on(x);
	zerocopy_send(x, 100);
	pid_t pid = fork();
	if (!pid) {
		child_begins();
		zerocopy_send(x, 100);
		_exit(0);
	}
	child_ended(pid, "child");
	x->sent += 100;
	settle(x, POLLERR);
	state(x, "state");
	int fd = dup(x->fd);
	zerocopy_send(x, 100);
	dup2(fd, x->fd);
	close(fd);
	completions(x, 3);
}

SCENARIO(errq_is_read_once_while_a_child_holds_it)
{
	zerocopy_on(x);
	zerocopy_send(x, 100);
	pid_t pid = fork();
	if (!pid)
		for (;;)
			pause();
	zerocopy_send(x, 100);
	completions(x, 2);
	state(x, "state");
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	zerocopy_send(x, 100);
	completions(x, 1);
	state(x, "state");
}

/* test_stays.py sees that the connection is moved. */
SCENARIO(errq_beside)
{
	zerocopy_on(x);
	play(x, "t30");
	zerocopy_send(x, 100);
	completions(x, 1);
	play(x, "w10000f10000s10000r10000");
}

/* --- reading the queue --- */

static void shape(struct ctx *x, const char *what, size_t room, bool name)
{
	union {
		struct cmsghdr align;
		char room[256];
	} control;
	struct sockaddr_storage from;
	struct msghdr m = { .msg_control = room ? &control : NULL,
			    .msg_controllen = room,
			    .msg_name = name ? &from : NULL,
			    .msg_namelen = sizeof(from),
			    .msg_flags = -1 };

	memset(&control, 0x55, sizeof(control));
	zerocopy_send(x, 100);
	settle(x, POLLERR);
	RES(what, recvmsg(x->fd, &m, MSG_ERRQUEUE | MSG_CMSG_CLOEXEC));
	out("/%zu/%u/%x", m.msg_controllen, m.msg_namelen, m.msg_flags);
	if (room < sizeof(struct cmsghdr))
		return;
	out("/%zu/%d/%d:", (size_t)control.align.cmsg_len,
	    control.align.cmsg_level, control.align.cmsg_type);
	for (size_t i = sizeof(struct cmsghdr); i < m.msg_controllen; i++)
		out("%02x", (unsigned char)control.room[i]);
}

SCENARIO(errq_shape)
{
	struct iovec iov = { buf, 10 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct mmsghdr mm = { .msg_hdr = m };

	zerocopy_on(x);
	RES("empty", recvmsg(x->fd, &m, MSG_ERRQUEUE));
	shape(x, "all", 256, false);
	shape(x, "name", 256, true);
	shape(x, "none", 0, false);
	shape(x, "few", 10, false);
	shape(x, "head", sizeof(struct cmsghdr), false);
	shape(x, "part", 30, false);
	zerocopy_send(x, 100);
	settle(x, POLLERR);
	RES("recv", recv(x->fd, buf, n(10), MSG_ERRQUEUE));
	RES("recv", recv(x->fd, buf, n(10), MSG_ERRQUEUE));
	zerocopy_send(x, 100);
	settle(x, POLLERR);
	RES("recvmmsg", recvmmsg(x->fd, &mm, 1, MSG_ERRQUEUE, NULL));
	out("/%u/%x", mm.msg_len, mm.msg_hdr.msg_flags);
	play(x, "t3");
}

/* --- another thread waits for completions --- */

static void *reap_by_poll(void *arg)
{
	struct ctx *x = arg;
	struct pollfd pfd = { .fd = x->fd };

	RES("woken", poll(&pfd, 1, -1));
	bits("revents", pfd.revents);
	return NULL;
}

static void *reap_by_epoll(void *arg)
{
	int ep = set_of(arg, EPOLLET);

	see(ep, "woken", 5000);
	return NULL;
}

static void reap(struct ctx *x, void *(*reaper)(void *))
{
	pthread_t thread;

	pthread_create(&thread, NULL, reaper, x);
	wait_a_bit();
	long long t = ms_now();
	made(x, pages, 100);
	send(x->fd, pages, n(100), MSG_ZEROCOPY);
	pthread_join(thread, NULL);
	took(t, 0);
	far_res(x, "far", FAR_RECV, 100);
	completions(x, 1);
}

SCENARIO(errq_reaper)
{
	zerocopy_on(x);
	reap(x, reap_by_poll);
	reap(x, reap_by_epoll);
}

/* --- a completion is no end of the connection --- */

SCENARIO(errq_completion_is_no_end)
{
	struct sock_extended_err ee;
	struct pollfd pfd = { .fd = x->fd };

	zerocopy_on(x);
	zerocopy_send(x, 4000);
	RES("poll", poll(&pfd, n(1), -1));
	bits("revents", pfd.revents);
	state(x, "state");
	RES("recv", recv(x->fd, buf, n(1), MSG_DONTWAIT));
	state(x, "state");
	play(x, "t3");
	state(x, "state");
	play(x, "l20r20w10f10");
	RES("errq", errq_read(x, &ee));
	state(x, "state");
	play(x, "t3s10r10w10f10");
}

SCENARIO(errq_completion_in_epoll)
{
	int level = set_of(x, EPOLLIN), edge = set_of(x, EPOLLIN | EPOLLET);
	struct sock_extended_err ee;

	see(level, "level", 0);
	see(edge, "edge", 0);
	zerocopy_on(x);
	zerocopy_send(x, 4000);
	settle(x, POLLERR);
	see(level, "level", 0);
	see(level, "again", 0);
	see(edge, "edge", 0);
	see(edge, "once", 0);
	play(x, "s10");
	settle(x, POLLIN);
	see(level, "with-data", 0);
	see(edge, "with-data", 0);
	play(x, "r10");
	see(level, "level", 0);
	RES("errq", errq_read(x, &ee));
	see(level, "empty", 0);
	see(edge, "empty", 0);
	play(x, "t3");
}

/* Each completion is an edge, also when the one before was not read yet. */
SCENARIO(errq_completion_is_an_edge)
{
	int edge = set_of(x, EPOLLET);

	zerocopy_on(x);
	see(edge, "none", 0);
	for (int i = 0; i < 3; i++) {
		zerocopy_send(x, 100);
		see(edge, "edge", 2000);
		see(edge, "once", 0);
	}
	completions(x, 3);
	see(edge, "empty", 0);
}

static void *receive(void *arg)
{
	struct ctx *x = arg;

	RES("received", recv(x->fd, buf, n(20), MSG_WAITALL));
	got(x, buf, 20);
	return NULL;
}

SCENARIO(errq_completion_leaves_blocked_recv)
{
	pthread_t thread;

	zerocopy_on(x);
	pthread_create(&thread, NULL, receive, x);
	wait_a_bit();
	zerocopy_send(x, 100);
	settle(x, POLLERR);
	state(x, "state");
	play(x, "s20");
	pthread_join(thread, NULL);
	completions(x, 1);
}

SCENARIO(errq_end_is_told_with_completion)
{
	zerocopy_on(x);
	zerocopy_send(x, 100);
	settle(x, POLLERR);
	far_res(x, "shut", FAR_SHUT, SHUT_WR);
	settle(x, POLLRDHUP);
	state(x, "state");
	RES("recv", recv(x->fd, buf, n(10), 0));
	play(x, "w10f10");
	completions(x, 1);
	state(x, "state");
}

SCENARIO(errq_reset_is_told_with_completion)
{
	zerocopy_on(x);
	zerocopy_send(x, 100);
	settle(x, POLLERR);
	far_do(x, FAR_RESET, 0);
	settle(x, POLLHUP);
	state(x, "state");
	RES("recv", recv(x->fd, buf, n(10), 0));
	RES("recv", recv(x->fd, buf, n(10), 0));
	completions(x, 1);
	state(x, "state");
}

SCENARIO(errq_sent_time_is_no_end)
{
	int on = SOF_TIMESTAMPING_TX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE |
		 SOF_TIMESTAMPING_OPT_TSONLY;
	struct sock_extended_err ee;

	RES("on",
	    setsockopt(x->fd, SOL_SOCKET, SO_TIMESTAMPING, &on, sizeof(on)));
	play(x, "t3w10f10");
	settle(x, POLLERR);
	state(x, "state");
	RES("recv", recv(x->fd, buf, n(1), MSG_DONTWAIT));
	RES("errq", errq_read(x, &ee));
	out(" %d/%d/%u", ee.ee_errno, ee.ee_origin, ee.ee_info);
	state(x, "state");
	on = 0;
	RES("off",
	    setsockopt(x->fd, SOL_SOCKET, SO_TIMESTAMPING, &on, sizeof(on)));
	play(x, "t3");
}
