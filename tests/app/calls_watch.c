/* SPDX-License-Identifier: MIT */
/* tests/app/calls_watch.c - scenarios: waiting in epoll (see calls.h); what it says of
 * closed connections is in calls_close.c, and threads that change a set are in calls_epoll.c */
#include "calls_poll.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int ep_new(struct ctx *x, uint32_t events)
{
	struct epoll_event ev = { .events = events,
				  .data.u64 = 0x1122334455667788ull };
	int ep = epoll_create1(EPOLL_CLOEXEC);

	if (epoll_ctl(ep, EPOLL_CTL_ADD, x->fd, &ev))
		out(" ADD-FAILED");
	return ep;
}

static void ep_mod(struct ctx *x, int ep, uint32_t events)
{
	struct epoll_event ev = { .events = events,
				  .data.u64 = 0x1122334455667788ull };

	RES("mod", epoll_ctl(ep, EPOLL_CTL_MOD, x->fd, &ev));
}

static void ep_see(int ep, const char *what, int ms)
{
	struct epoll_event ev = { 0 };

	errno = 0;
	int r = epoll_wait(ep, &ev, 1, ms);
	if (r != 1) {
		res(what, r);
		return;
	}
	bits(what, (int)ev.events);
	if (ev.data.u64 != 0x1122334455667788ull)
		out(" WRONG-DATA");
}

SCENARIO(epoll_ctl_errors)
{
	struct epoll_event ev = { .events = EPOLLIN };
	int ep = ep_new(x, EPOLLIN), fd2 = dup(x->fd),
	    file = open("/dev/null", O_RDONLY), reg = file_of(x, 1);

	RES("twice", epoll_ctl(ep, EPOLL_CTL_ADD, x->fd, &ev));
	RES("mod-absent", epoll_ctl(ep, EPOLL_CTL_MOD, fd2, &ev));
	RES("del-absent", epoll_ctl(ep, EPOLL_CTL_DEL, fd2, &ev));
	RES("self", epoll_ctl(ep, EPOLL_CTL_ADD, ep, &ev));
	RES("bad-fd", epoll_ctl(ep, EPOLL_CTL_ADD, -1, &ev));
	RES("bad-ep", epoll_ctl(-1, EPOLL_CTL_ADD, x->fd, &ev));
	RES("not-ep", epoll_ctl(x->fd, EPOLL_CTL_ADD, fd2, &ev));
	RES("regular", epoll_ctl(ep, EPOLL_CTL_ADD, reg, &ev));
	RES("null", epoll_ctl(ep, EPOLL_CTL_ADD, file, &ev));
	RES("op", epoll_ctl(ep, 9, x->fd, &ev));
	RES("pointer", epoll_ctl(ep, EPOLL_CTL_ADD, fd2, BAD_POINTER));
	RES("dup", epoll_ctl(ep, EPOLL_CTL_ADD, fd2, &ev));
	RES("del", epoll_ctl(ep, EPOLL_CTL_DEL, x->fd, NULL));
	RES("del-again", epoll_ctl(ep, EPOLL_CTL_DEL, x->fd, NULL));
	RES("closed", (close(fd2), epoll_ctl(ep, EPOLL_CTL_DEL, fd2, NULL)));
}

SCENARIO(epoll_wait_errors)
{
	struct epoll_event ev;
	int ep = ep_new(x, EPOLLIN | EPOLLOUT);

	RES("none", epoll_wait(ep, &ev, 0, 0));
	RES("minus", epoll_wait(ep, &ev, (int)n((size_t)-1), 0));
	RES("many", epoll_wait(ep, &ev, (int)n(2000000000), 0));
	RES("pointer", epoll_wait(ep, BAD_POINTER, 1, 0));
	RES("socket", epoll_wait(x->fd, &ev, 1, 0));
	RES("bad", epoll_wait(-1, &ev, 1, 0));
	RES("create", epoll_create(0));
	RES("create1", epoll_create1(0x7));
	RES("read", read(ep, buf, n(10)));
}

SCENARIO(epoll_wakes_by_other_names)
{
	int ep = ep_new(x, EPOLLRDNORM);

	far_do(x, FAR_SEND_LATER, 16);
	ep_see(ep, "bytes", -1);
	ep_mod(x, ep, EPOLLRDHUP); /* the bytes stay unread */
	far_do(x, FAR_SHUT_LATER, SHUT_WR);
	ep_see(ep, "end", -1);
	recv_got(x, 100);
}

SCENARIO(epoll_level)
{
	int ep = ep_new(x, EPOLLIN);

	ep_see(ep, "idle", 0);
	far_do(x, FAR_SEND, 100);
	settle(x, POLLIN);
	ep_see(ep, "data", 0);
	ep_see(ep, "still", 0);
	recv_got(x, 50);
	ep_see(ep, "half", 0);
	recv_got(x, 50);
	ep_see(ep, "empty", 0);
	ep_mod(x, ep, EPOLLIN | EPOLLOUT);
	ep_see(ep, "room", 0);
	ep_mod(x, ep, 0);
	ep_see(ep, "nothing", 0);
}

SCENARIO(epoll_edge)
{
	int ep = ep_new(x, EPOLLIN | EPOLLET);

	far_do(x, FAR_SEND, 100);
	settle(x, POLLIN);
	ep_see(ep, "data", 0);
	ep_see(ep, "once", 0);
	recv_got(x, 50);
	ep_see(ep, "half", 0);
	far_do(x, FAR_SEND, 10);
	usleep(20000);
	ep_see(ep, "more", 0);
	ep_see(ep, "once", 0);
	recv_got(x, 200);
	ep_see(ep, "empty", 0);
	far_do(x, FAR_SEND, 10);
	settle(x, POLLIN);
	ep_mod(x, ep, EPOLLIN | EPOLLET);
	ep_see(ep, "mod", 0);
	ep_mod(x, ep, EPOLLIN | EPOLLET);
	ep_see(ep, "mod-again", 0);
	recv_got(x, 200);
	far_do(x, FAR_SHUT, SHUT_WR);
	settle(x, POLLRDHUP);
	ep_see(ep, "eof", 0);
	ep_see(ep, "once", 0);
}

static void has_come(struct ctx *x, int want)
{
	int have = 0;

	for (int i = 0; i < 2000 && have < want; i++)
		if (ioctl(x->fd, FIONREAD, &have) || have < want)
			usleep(1000);
}

/* Bytes are unread in shared memory while more come by TCP behind them.  Nobody sleeps. */
SCENARIO(epoll_edge_behind_the_ring)
{
	far_do(x, FAR_SEND, 100);
	has_come(x, 100);
	far_do(x, FAR_INLINE, 0);
	int ep = ep_new(x, EPOLLIN | EPOLLOUT | EPOLLET);
	ep_see(ep, "data", 0);
	for (int i = 1; i <= 3; i++) {
		while (epoll_wait(ep, &(struct epoll_event){ 0 }, 1, 0) > 0)
			;
		far_do(x, FAR_SEND, 10);
		has_come(x, 100 + 10 * i);
		ep_see(ep, "more", 0);
	}
	recv_got(x, 100);
}

SCENARIO(epoll_edge_out)
{
	int ep = ep_new(x, EPOLLOUT | EPOLLET);

	ep_see(ep, "first", 0);
	ep_see(ep, "once", 0);
	size_t total = fill_up(x);
	ep_see(ep, "full", 0);
	far_do(x, FAR_RECV, (long)total);
	ep_see(ep, "room", 2000);
	/* One edge or several while it drained: the kernel's affair. */
	while (epoll_wait(ep, &(struct epoll_event){ 0 }, 1, 50) > 0)
		;
	ep_see(ep, "quiet", 0);
}

/* Programs take a short count for EAGAIN and wait for the edge. */
SCENARIO(epoll_edge_out_short_send)
{
	int ep = ep_new(x, EPOLLOUT | EPOLLET);
	size_t total = 0;
	ssize_t r;

	ep_see(ep, "first", 0);
	set_nonblock(x->fd);
	do {
		made(x, buf, sizeof(buf));
		r = send(x->fd, buf, n(sizeof(buf)), 0);
		total += r > 0 ? (size_t)r : 0;
	} while (r == (ssize_t)sizeof(buf));
	x->sent = x->sent - sizeof(buf) + (size_t)(r > 0 ? r : 0);
	far_do(x, FAR_RECV, (long)total);
	ep_see(ep, "room", 2000);
}

SCENARIO(epoll_edge_out_short_sendfile)
{
	int ep = ep_new(x, EPOLLOUT | EPOLLET), file = file_of(x, sizeof(buf));
	uint64_t start = x->sent - sizeof(buf);
	size_t total = 0;
	ssize_t r;

	ep_see(ep, "first", 0);
	set_nonblock(x->fd);
	do {
		off_t off = 0;

		x->sent = start + total;
		made(x, buf, sizeof(buf));
		if (pwrite(file, buf, sizeof(buf), 0) < 0)
			return;
		r = sendfile(x->fd, file, &off, n(sizeof(buf)));
		total += r > 0 ? (size_t)r : 0;
		/* The kernel sends the file's own pages: not again. */
		close(file);
		file = memfd_create("calls", 0);
	} while (r == (ssize_t)sizeof(buf));
	far_do(x, FAR_RECV, (long)total);
	ep_see(ep, "room", 2000);
}

SCENARIO(epoll_edge_both)
{
	int ep = ep_new(x, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET);

	ep_see(ep, "first", 0);
	ep_see(ep, "once", 0);
	far_do(x, FAR_SEND, 10);
	settle(x, POLLIN);
	ep_see(ep, "data", 0);
	far_do(x, FAR_SHUT, SHUT_WR);
	settle(x, POLLRDHUP);
	ep_see(ep, "shut", 0);
	shutdown(x->fd, SHUT_WR);
	settle(x, POLLHUP);
	ep_see(ep, "both", 0);
}

SCENARIO(epoll_oneshot)
{
	int ep = ep_new(x, EPOLLIN | EPOLLONESHOT);

	far_do(x, FAR_SEND, 10);
	settle(x, POLLIN);
	ep_see(ep, "data", 0);
	ep_see(ep, "once", 0);
	far_do(x, FAR_SEND, 10);
	usleep(20000);
	ep_see(ep, "disarmed", 0);
	ep_mod(x, ep, EPOLLIN | EPOLLONESHOT);
	ep_see(ep, "rearmed", 0);
	far_do(x, FAR_RESET, 0);
	settle(x, POLLERR);
	ep_see(ep, "disarmed-reset", 0);
	ep_mod(x, ep, EPOLLONESHOT);
	ep_see(ep, "rearmed", 0);
}

SCENARIO(epoll_exclusive)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLEXCLUSIVE };
	int ep = ep_new(x, EPOLLIN | EPOLLEXCLUSIVE), fd2 = dup(x->fd);

	RES("mod", epoll_ctl(ep, EPOLL_CTL_MOD, x->fd, &ev));
	ev.events = EPOLLIN | EPOLLEXCLUSIVE | EPOLLONESHOT;
	RES("oneshot", epoll_ctl(ep, EPOLL_CTL_ADD, fd2, &ev));
	ev.events = EPOLLIN | EPOLLEXCLUSIVE | EPOLLRDHUP;
	RES("rdhup", epoll_ctl(ep, EPOLL_CTL_ADD, fd2, &ev));
	far_do(x, FAR_SEND, 10);
	settle(x, POLLIN);
	ep_see(ep, "data", 0);
}

SCENARIO(epoll_hup_unasked)
{
	int ep = ep_new(x, 0);

	far_do(x, FAR_SEND, 10);
	far_do(x, FAR_SHUT, SHUT_WR);
	settle(x, POLLRDHUP);
	ep_see(ep, "shut", 0);
	shutdown(x->fd, SHUT_WR);
	settle(x, POLLHUP);
	ep_see(ep, "both", 0);
}

SCENARIO(epoll_nested)
{
	struct epoll_event ev = { .events = EPOLLIN,
				  .data.u64 = 0x1122334455667788ull };
	int in = ep_new(x, EPOLLIN), outer = epoll_create1(0);
	struct pollfd pfd = { .fd = in, .events = POLLIN };

	RES("add", epoll_ctl(outer, EPOLL_CTL_ADD, in, &ev));
	RES("loop", epoll_ctl(in, EPOLL_CTL_ADD, outer, &ev));
	ep_see(outer, "idle", 0);
	RES("poll", poll(&pfd, 1, 0));
	far_do(x, FAR_SEND_LATER, 10);
	ep_see(outer, "later", 3000);
	ep_see(outer, "still", 0);
	RES("poll", poll(&pfd, 1, 0));
	bits("revents", pfd.revents);
	sel(in, 1, 0, "select");
	ep_see(in, "inner", 0);
	recv_got(x, 100);
	ep_see(outer, "empty", 0);
	RES("poll", poll(&pfd, 1, 0));
}

/* What the inner set has reported, and will not report again, does not make it readable. */
static void nested_once(struct ctx *x, uint32_t how)
{
	struct epoll_event ev = { .events = EPOLLIN };
	int in = ep_new(x, EPOLLIN | how), outer = epoll_create1(0);

	RES("add", epoll_ctl(outer, EPOLL_CTL_ADD, in, &ev));
	for (int i = 0; i < 3; i++) {
		far_do(x, FAR_SEND_LATER, 10);
		ep_see(outer, "later", i && how & EPOLLONESHOT ? 60 : 3000);
		ep_see(in, "inner", 0);
		ep_see(outer, "told", 20);
		ep_see(outer, "still told", 20);
		if (how & EPOLLONESHOT && i) {
			settle(x, POLLIN);
			ep_mod(x, in, EPOLLIN | how);
			ep_see(outer, "asked again", 0);
			ep_see(in, "inner again", 0);
		}
		recv_got(x, 10);
		ep_see(outer, "empty", 20);
	}
}

SCENARIO(epoll_nested_edge) { nested_once(x, EPOLLET); }

SCENARIO(epoll_nested_oneshot) { nested_once(x, EPOLLONESHOT); }

/* Nor do bytes that the program does not want to know of; it wants them later, and then their
 * end alone. */
SCENARIO(epoll_nested_wants_nothing)
{
	struct epoll_event ev = { .events = EPOLLIN,
				  .data.u64 = 0x1122334455667788ull };
	int in = ep_new(x, 0), outer = epoll_create1(0);

	RES("add", epoll_ctl(outer, EPOLL_CTL_ADD, in, &ev));
	far_do(x, FAR_SEND, 10);
	settle(x, POLLIN);
	ep_see(outer, "nothing", 0);
	ep_see(outer, "still nothing", 0);
	ep_mod(x, in, EPOLLIN);
	ep_see(outer, "bytes", 3000);
	ep_see(in, "inner", 0);
	ep_mod(x, in, EPOLLONESHOT);
	ep_see(outer, "off", 0);
	far_do(x, FAR_SHUT, SHUT_WR);
	settle(x, POLLRDHUP);
	ep_see(outer, "end", 0);
	ep_mod(x, in, EPOLLRDHUP);
	ep_see(outer, "end wanted", 3000);
	ep_mod(x, in, 0);
	ep_see(outer, "off", 0);
	far_do(x, FAR_RESET, 0);
	ep_see(outer, "reset", 3000);
}

/* A set may tell the same room twice, but not for ever. */
static void ep_hush(int ep)
{
	struct epoll_event ev;

	for (int i = 0; i < 3; i++)
		epoll_wait(ep, &ev, 1, 20);
}

/* Before a fork, a connection that lives in this process alone goes back to the kernel. */
SCENARIO(epoll_nested_room_after_fork)
{
	struct epoll_event ev = { .events = EPOLLIN,
				  .data.u64 = 0x1122334455667788ull };
	int in = ep_new(x, EPOLLIN | EPOLLOUT | EPOLLET);
	int outer = epoll_create1(0);

	RES("add", epoll_ctl(outer, EPOLL_CTL_ADD, in, &ev));
	ep_see(outer, "room", 3000);
	ep_see(in, "inner", 0);
	pid_t pid = fork();
	if (!pid)
		_exit(0);
	waitpid(pid, NULL, 0);
	ep_hush(in);
	ep_see(outer, "told", 20);
	ep_see(outer, "still told", 20);
	far_do(x, FAR_SEND_LATER, 10);
	ep_see(outer, "later", 3000);
	ep_see(in, "inner", 0);
	ep_hush(in);
	ep_see(outer, "told", 20);
	recv_got(x, 100);
	ep_hush(in);
	ep_see(outer, "empty", 20);
}

SCENARIO(epoll_polled_blocks)
{
	int ep = ep_new(x, EPOLLIN);
	struct pollfd pfd = { .fd = ep, .events = POLLIN };

	far_do(x, FAR_SEND_LATER, 10);
	RES("poll", poll(&pfd, 1, -1));
	recv_got(x, 100);
	far_do(x, FAR_SEND_LATER, 10);
	sel(ep, 1, 3000, "select");
}

SCENARIO(epoll_two_sets)
{
	int a = ep_new(x, EPOLLIN), b = ep_new(x, EPOLLIN | EPOLLET);

	far_do(x, FAR_SEND, 10);
	settle(x, POLLIN);
	ep_see(a, "level", 0);
	ep_see(b, "edge", 0);
	ep_see(a, "level", 0);
	ep_see(b, "edge", 0);
	recv_got(x, 100);
	ep_see(a, "level", 0);
	far_do(x, FAR_SEND_LATER, 10);
	ep_see(b, "edge", 3000);
	ep_see(a, "level", 0);
}

SCENARIO(epoll_timeout)
{
	struct epoll_event ev;
	struct timespec ts = { 0, 60000000 };
	int ep = ep_new(x, EPOLLIN);

	long long t = ms_now();
	ep_see(ep, "wait", 60);
	took(t, 60);
	t = ms_now();
	RES("pwait2", epoll_pwait2(ep, &ev, 1, &ts, NULL));
	took(t, 60);
	t = ms_now();
	RES("pwait", epoll_pwait(ep, &ev, 1, 60, NULL));
	took(t, 60);
}

SCENARIO(epoll_wakes)
{
	int ep = ep_new(x, EPOLLIN | EPOLLRDHUP);
	size_t total;

	far_do(x, FAR_SEND_LATER, 10);
	ep_see(ep, "data", -1);
	recv_got(x, 100);
	ep_mod(x, ep, EPOLLOUT);
	total = fill_up(x);
	far_do(x, FAR_RECV_LATER, (long)total);
	ep_see(ep, "room", -1);
	ep_mod(x, ep, EPOLLIN | EPOLLRDHUP);
	far_do(x, FAR_SHUT_LATER, SHUT_WR);
	ep_see(ep, "end", -1);
	ep_mod(x, ep, 0);
	far_do(x, FAR_RESET_LATER, 0);
	ep_see(ep, "reset", -1);
}

SCENARIO(epoll_intr)
{
	int ep = ep_new(x, EPOLLIN);

	interrupt_after(30, 0);
	ep_see(ep, "wait", -1);
	interrupt_over();
	interrupt_after(30, SA_RESTART);
	ep_see(ep, "restart", 3000);
	interrupt_over();
	out(" signals=%d", interrupted);
}

SCENARIO(epoll_pwait_mask)
{
	struct epoll_event ev;
	int ep = ep_new(x, EPOLLIN);
	sigset_t open = block_alarm();

	signal_after(1, 0);
	usleep(20000);
	RES("pwait", epoll_pwait(ep, &ev, 1, 3000, &open));
	out(" signals=%d", signals);
	signal_after(20, 0);
	RES("later", epoll_pwait2(ep, &ev, 1, NULL, &open));
	out(" signals=%d", signals);
}

SCENARIO(epoll_close_removes)
{
	int ep = ep_new(x, EPOLLIN | EPOLLOUT);

	ep_see(ep, "open", 0);
	RES("close", close(x->fd));
	ep_see(ep, "closed", 0);
	/* The number comes back as something else. */
	int p[2];
	if (!pipe(p) && write(p[1], "x", 1) == 1)
		ep_see(ep, "reused", 0);
}

SCENARIO(epoll_dup_keeps)
{
	struct epoll_event ev = { .events = EPOLLIN };
	int ep = ep_new(x, EPOLLIN), fd2 = dup(x->fd), old = x->fd;

	RES("close", close(old));
	x->fd = fd2;
	far_do(x, FAR_SEND, 10);
	settle(x, POLLIN);
	ep_see(ep, "stays", 0);
	RES("del", epoll_ctl(ep, EPOLL_CTL_DEL, old, NULL));
	RES("add", epoll_ctl(ep, EPOLL_CTL_ADD, fd2, &ev));
	RES("close", close(fd2));
	ep_see(ep, "gone", 0);
}

/* The set's first number is closed, and comes back as another set. */
SCENARIO(epoll_set_is_duplicated)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLOUT,
				  .data.u64 = 0x1122334455667788ull };
	int ep = ep_new(x, EPOLLIN), ep2 = dup(ep), fd2 = dup(x->fd);

	RES("close", close(ep));
	int ep3 = epoll_create1(0);
	RES("add", epoll_ctl(ep2, EPOLL_CTL_ADD, fd2, &ev));
	ep_see(ep2, "room", 0);
	ep_see(ep3, "empty", 0);
	RES("del", epoll_ctl(ep2, EPOLL_CTL_DEL, fd2, NULL));
	RES("not-there", epoll_ctl(ep3, EPOLL_CTL_DEL, fd2, NULL));
	far_do(x, FAR_SEND, 10);
	settle(x, POLLIN);
	ep_see(ep2, "data", 0);
	ep_see(ep3, "empty", 0);
}

/* The same, when the process may open nothing more. */
SCENARIO(epoll_set_is_duplicated_at_limit)
{
	struct rlimit were, none;
	int ep = ep_new(x, EPOLLIN), ep2 = dup(ep), ep3 = dup(ep);

	RES("limits", getrlimit(RLIMIT_NOFILE, &were));
	none = were;
	none.rlim_cur = 0;
	RES("limit", setrlimit(RLIMIT_NOFILE, &none));
	RES("close", close(ep));
	RES("limit", setrlimit(RLIMIT_NOFILE, &were));
	int other = epoll_create1(0), fd2 = dup(x->fd);
	struct epoll_event ev = { .events = EPOLLIN | EPOLLOUT,
				  .data.u64 = 0x1122334455667788ull };
	RES("add", epoll_ctl(ep2, EPOLL_CTL_ADD, fd2, &ev));
	RES("close", close(ep2));
	ep_see(ep3, "room", 0);
	ep_see(other, "empty", 0);
	RES("not-there", epoll_ctl(other, EPOLL_CTL_DEL, fd2, NULL));
	RES("del", epoll_ctl(ep3, EPOLL_CTL_DEL, fd2, NULL));
	far_do(x, FAR_SEND, 10);
	settle(x, POLLIN);
	ep_see(ep3, "data", 0);
	ep_see(other, "empty", 0);
}

static void *ctl_later(void *p)
{
	int *a = p;
	struct epoll_event ev = { .events = (uint32_t)a[3],
				  .data.u64 = 0x1122334455667788ull };

	usleep(50000);
	RES("ctl", epoll_ctl(a[0], a[1], a[2], &ev));
	return NULL;
}

static void ctl_from_thread(struct ctx *x, int ep, int op, uint32_t events)
{
	int a[4] = { ep, op, x->fd, (int)events };
	pthread_t t;

	pthread_create(&t, NULL, ctl_later, a);
	struct epoll_event ev = { 0 };
	int r = epoll_wait(ep, &ev, 1, -1);
	pthread_join(t, NULL);
	out(" wait=%d", r);
	bits("events", (int)ev.events);
}

SCENARIO(epoll_add_wakes)
{
	far_do(x, FAR_SEND, 10);
	settle(x, POLLIN);
	ctl_from_thread(x, epoll_create1(0), EPOLL_CTL_ADD, EPOLLIN);
}

SCENARIO(epoll_mod_wakes)
{
	int ep = ep_new(x, EPOLLIN);

	ctl_from_thread(x, ep, EPOLL_CTL_MOD, EPOLLIN | EPOLLOUT);
}

SCENARIO(epoll_rearm_wakes)
{
	int ep = ep_new(x, EPOLLIN | EPOLLONESHOT);

	far_do(x, FAR_SEND, 10);
	ep_see(ep, "first", 3000);
	ctl_from_thread(x, ep, EPOLL_CTL_MOD, EPOLLIN | EPOLLONESHOT);
}

SCENARIO(epoll_with_others)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u64 = 1 }, got_ev[4];
	int ep = ep_new(x, EPOLLIN), efd = eventfd(0, 0), p[2];
	uint64_t one = 1;

	if (pipe(p))
		return;
	epoll_ctl(ep, EPOLL_CTL_ADD, efd, &ev);
	epoll_ctl(ep, EPOLL_CTL_ADD, p[0], &ev);
	if (write(efd, &one, 8) != 8 || write(p[1], "x", 1) != 1)
		return;
	RES("two", epoll_wait(ep, got_ev, 4, -1));
	far_do(x, FAR_SEND, 10);
	settle(x, POLLIN);
	RES("three", epoll_wait(ep, got_ev, 4, -1));
	/* Where all have room, a descriptor that is ready again and again is in each report. */
	int least = 4;
	for (int i = 0; i < 12; i++) {
		int n = epoll_wait(ep, got_ev, 4, -1);
		least = n < least ? n : least;
	}
	out(" least=%d", least);
	/* With room for one, each has its turn. */
	int seen = 0;
	for (int i = 0; i < 12; i++)
		if (epoll_wait(ep, got_ev, 1, 0) == 1)
			seen |= got_ev[0].data.u64 == 1 ? 1 : 2;
	out(" turns=%d", seen);
}

SCENARIO(epoll_mod_data)
{
	struct epoll_event ev = { .events = EPOLLOUT, .data.u64 = 5 };
	int ep = ep_new(x, EPOLLIN);

	RES("mod", epoll_ctl(ep, EPOLL_CTL_MOD, x->fd, &ev));
	ev.data.u64 = 0;
	RES("wait", epoll_wait(ep, &ev, 1, 0));
	out(" data=%d", (int)ev.data.u64);
}

SCENARIO(epoll_del_add)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET,
				  .data.u64 = 0x1122334455667788ull };
	int ep = ep_new(x, EPOLLIN | EPOLLET);

	far_do(x, FAR_SEND, 10);
	settle(x, POLLIN);
	ep_see(ep, "data", 0);
	RES("del", epoll_ctl(ep, EPOLL_CTL_DEL, x->fd, NULL));
	ep_see(ep, "deleted", 0);
	RES("add", epoll_ctl(ep, EPOLL_CTL_ADD, x->fd, &ev));
	ep_see(ep, "again", 0);
}

SCENARIO(epoll_forked)
{
	int ep = ep_new(x, EPOLLIN), p[2];

	if (pipe(p))
		return;
	if (!fork()) {
		struct epoll_event ev = { 0 };
		int r = epoll_wait(ep, &ev, 1, -1);
		_exit(write(p[1], &r, sizeof(r)) != sizeof(r));
	}
	usleep(30000);
	far_do(x, FAR_SEND, 10);
	int r = -1;
	RES("read", read(p[0], &r, sizeof(r)));
	out(" child=%d", r);
	ep_see(ep, "parent", 1000);
}
