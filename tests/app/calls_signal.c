/* SPDX-License-Identifier: MIT */
/* tests/app/calls_signal.c - scenarios: what happens in the middle of a call:
 * handlers that use its connection or jump out, signals that sockets send,
 * threads that are cancelled (see calls_part.h) */
#include "calls_part.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SIGNAL_MS 30 /* in the middle of a call that ends at LATER_MS */

static struct ctx *handled; /* the connection of the handlers */
static sigjmp_buf jump;

static void alarms_with(void (*handler)(int), int flags, int again_ms)
{
	struct sigaction sa = { .sa_handler = handler, .sa_flags = flags };
	struct itimerval it = { .it_value.tv_usec = SIGNAL_MS * 1000,
				.it_interval.tv_usec = again_ms * 1000 };

	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &it, NULL);
}

static void alarm_with(void (*handler)(int), int flags)
{
	alarms_with(handler, flags, 0);
}

/* --- handlers that use the connection --- */

static char handler_bytes[64];
static volatile long handler_result;

static void handler_sends(int sig)
{
	int saved = errno;

	handler_result = send(handled->fd, handler_bytes, n(16), MSG_NOSIGNAL);
	errno = saved;
}

static void handler_sends_once(int sig)
{
	if (!handler_result)
		handler_sends(sig);
}

static void handler_receives(int sig)
{
	int saved = errno;

	handler_result = recv(handled->fd, handler_bytes, n(16), MSG_DONTWAIT);
	errno = saved;
}

static void handler_closes(int sig) { handler_result = close(handled->fd); }

struct order {
	struct ctx *x;
	enum far_op op;
	long arg;
};

static void *ordered_main(void *p)
{
	struct order *o = p;

	while (!handler_result)
		usleep(1000);
	far_do(o->x, o->op, o->arg);
	return NULL;
}

/* The far end gets its order when the handler has run, on this thread. */
static pthread_t handler_first(struct order *o, void (*handler)(int sig))
{
	sigset_t set;
	pthread_t t;

	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	pthread_create(&t, NULL, ordered_main, o);
	alarm_with(handler, SA_RESTART);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	return t;
}

SCENARIO(process_signal_sends)
{
	struct order send_later = { x, FAR_SEND_LATER, 20 };

	handled = x;
	play(x, "w60s100r100");
	made(x, handler_bytes, 16);
	pthread_t t = handler_first(&send_later, handler_sends);
	play(x, "r20");
	pthread_join(t, NULL);
	out(" handler=%ld", handler_result);
	play(x, "f76w10f10s10r10");
}

/* A timer that strikes again, in case that the first time was too early. */
SCENARIO(process_signal_sends_once)
{
	struct itimerval never = { 0 };

	handled = x;
	play(x, "w60s100r100");
	made(x, handler_bytes, 16);
	alarms_with(handler_sends_once, 0, SIGNAL_MS);
	RES("recv", recv(x->fd, buf, n(20), 0));
	setitimer(ITIMER_REAL, &never, NULL);
	out(" handler=%ld", handler_result);
	play(x, "s20r20f76w10f10s10r10");
}

/* Inside of a send that waits for room. */
SCENARIO(process_signal_receives)
{
	size_t total = fill_up(x);
	struct order drain = { x, FAR_RECV_LATER, (long)total + 1000 };

	handled = x;
	play(x, "s16");
	pthread_t t = handler_first(&drain, handler_receives);
	made(x, buf, 1000);
	RES("send", send(x->fd, buf, n(1000), 0));
	pthread_join(t, NULL);
	out(" handler=%ld", handler_result);
	got(x, handler_bytes, handler_result);
	play(x, "s10r10w10f10");
}

/* Inside of a recv that waits, where there is nothing to be had. */
SCENARIO(process_signal_receives_nothing)
{
	struct order send_later = { x, FAR_SEND_LATER, 20 };

	handled = x;
	play(x, "w60f60");
	pthread_t t = handler_first(&send_later, handler_receives);
	play(x, "r20");
	pthread_join(t, NULL);
	out(" handler=%ld", handler_result);
	play(x, "s10r10w10f10");
}

static void closes_in_handler(struct ctx *x, int flags)
{
	handled = x;
	play(x, "w60s100r100f60");
	alarm_with(handler_closes, flags);
	RES("recv", recv(x->fd, buf, n(20), 0));
	out(" close=%ld", handler_result);
	RES("recv", recv(x->fd, buf, n(20), 0));
	play(x, "E");
}

SCENARIO(process_signal_closes) { closes_in_handler(x, SA_RESTART); }
SCENARIO(process_signal_closes_once) { closes_in_handler(x, 0); }

/* A handler closes one of two descriptors of the socket.  Whenever it runs, before the call,
 * in it, or just before the call sleeps, the call ends. */
#define CLOSES 300

static volatile int closes_fd;
static void handler_closes_one(int sig) { close(closes_fd); }

SCENARIO(process_signal_closes_at_any_time)
{
	struct itimerval soon = { 0 };
	struct sigaction sa = { .sa_handler = handler_closes_one,
				.sa_flags = SA_RESTART };
	int n_closed = 0;

	play(x, "w60s100r100f60");
	sigaction(SIGALRM, &sa, NULL);
	for (int i = 0; i < CLOSES; i++) {
		closes_fd = dup(x->fd);
		soon.it_value.tv_usec = 1 + i;
		setitimer(ITIMER_REAL, &soon, NULL);
		ssize_t r = recv(closes_fd, buf, n(20), 0);
		n_closed += r < 0 && errno == EBADF;
	}
	out(" closed=%d", n_closed);
	play(x, "s10r10w10f10");
}

static void handler_forks(int sig)
{
	pid_t pid = fork();

	if (!pid) {
		send(handled->fd, handler_bytes, n(16), MSG_NOSIGNAL);
		_exit(0);
	}
	child_ended(pid, "child");
}

SCENARIO(process_signal_forks)
{
	handled = x;
	play(x, "w60s100r100");
	made(x, handler_bytes, 16);
	alarm_with(handler_forks, SA_RESTART);
	play(x, "l20r20f76w10f10s10r10");
}

/* Bytes in both directions while a timer strikes all the time. */
static void handler_looks(int sig)
{
	int saved = errno, avail;
	struct pollfd pfd = { .fd = handled->fd, .events = POLLIN };

	signals++;
	poll(&pfd, 1, 0);
	ioctl(handled->fd, FIONREAD, &avail);
	recv(handled->fd, handler_bytes, n(1), MSG_PEEK | MSG_DONTWAIT);
	errno = saved;
}

SCENARIO(process_signal_storm)
{
	struct itimerval often = { .it_value.tv_usec = 300,
				   .it_interval.tv_usec = 300 },
			 never = { 0 };
	struct sigaction sa = { .sa_handler = handler_looks,
				.sa_flags = SA_RESTART };
	long long end = ms_now() + 150;
	bool right = true;

	handled = x;
	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	while (ms_now() < end && right) {
		turns(x, 20);
		far_do(x, FAR_SEND, 3000);
		for (long r, left = 3000; left && right; left -= r) {
			r = recv(x->fd, buf, n((size_t)left), 0);
			right = r > 0;
			got(x, buf, r);
		}
	}
	setitimer(ITIMER_REAL, &never, NULL);
	out(" right=%d signals=%d", right, signals > 5);
	play(x, "w10f10s10r10");
}

/* --- handlers that jump out --- */

static void handler_jumps(int sig) { siglongjmp(jump, 1); }

static long waits_in_recv(struct ctx *x) { return recv(x->fd, buf, n(20), 0); }

static long waits_in_read(struct ctx *x) { return read(x->fd, buf, n(20)); }

static long waits_in_poll(struct ctx *x)
{
	struct pollfd pfd = { .fd = x->fd, .events = POLLIN };

	return poll(&pfd, 1, -1);
}

static long waits_in_select(struct ctx *x)
{
	struct timeval limit = { .tv_sec = 3 };
	fd_set in;

	FD_ZERO(&in);
	FD_SET(x->fd, &in);
	return select(x->fd + 1, &in, NULL, NULL, &limit);
}

static long waits_in_epoll(struct ctx *x)
{
	struct epoll_event ev = { .events = EPOLLIN };
	int ep = epoll_create1(0);

	epoll_ctl(ep, EPOLL_CTL_ADD, x->fd, &ev);
	return epoll_wait(ep, &ev, 1, -1);
}

static long waits_in_accept(struct ctx *x)
{
	int port = 0;

	return accept(listener_at(&port, false), NULL, NULL);
}

static void jumps(struct ctx *x, long (*waits)(struct ctx *x))
{
	play(x, "w60s100r100");
	for (int i = 0; i < 3; i++) {
		if (!sigsetjmp(jump, 1)) {
			alarm_with(handler_jumps, 0);
			RES("NO-JUMP", waits(x));
		}
		play(x, "s10r10w10");
	}
	play(x, "f90l10r10w10f10");
	child_plays(x, "s10r10w10f10");
	play(x, "cE");
}

SCENARIO(process_jump_recv) { jumps(x, waits_in_recv); }
SCENARIO(process_jump_read) { jumps(x, waits_in_read); }
SCENARIO(process_jump_poll) { jumps(x, waits_in_poll); }
SCENARIO(process_jump_select) { jumps(x, waits_in_select); }
SCENARIO(process_jump_epoll) { jumps(x, waits_in_epoll); }
SCENARIO(process_jump_accept) { jumps(x, waits_in_accept); }

SCENARIO(process_jump_send)
{
	size_t total = fill_up(x);

	if (!sigsetjmp(jump, 1)) {
		alarm_with(handler_jumps, 0);
		RES("NO-JUMP", send(x->fd, buf, n(sizeof(buf)), 0));
	}
	/* Some of the last may be on its way: it has the right bytes. */
	long r = far_do(x, FAR_DRAIN, (long)total);
	out(" %s", r >= (long)total ? "all-there" : "lost");
	x->sent += (uint64_t)r - total;
	play(x, "s10r10w10f10");
}

/* --- signals from the socket --- */

SCENARIO(process_sigurg)
{
	char byte = 0;
	int at_mark = -1;

	on_signal(SIGURG, SA_RESTART);
	RES("owner", fcntl(x->fd, F_SETOWN, getpid()));
	play(x, "w60s100");
	far_res(x, "oob", FAR_SEND_OOB, 0);
	settle(x, POLLPRI);
	out(" signals=%d", signals);
	play(x, "r100");
	RES("atmark", ioctl(x->fd, SIOCATMARK, &at_mark));
	out("/%d", at_mark);
	RES("recv", recv(x->fd, &byte, n(1), MSG_OOB));
	out("/%c", byte);
	play(x, "f60s10r10w10f10");
}

SCENARIO(process_sigio_info)
{
	struct timespec limit = { .tv_sec = 2 };
	siginfo_t info = { 0 };
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	play(x, "w60f60");
	RES("sig", fcntl(x->fd, F_SETSIG, SIGUSR2));
	RES("owner", fcntl(x->fd, F_SETOWN, getpid()));
	RES("async", fcntl(x->fd, F_SETFL, O_ASYNC));
	play(x, "s100");
	RES("wait", sigtimedwait(&set, &info, &limit) == SIGUSR2);
	out(" fd=%d in=%d", info.si_fd == x->fd, info.si_code == POLL_IN);
	RES("getsig", fcntl(x->fd, F_GETSIG) == SIGUSR2);
	play(x, "r100l20r20w10f10");
}

/* --- cancelled threads --- */

struct waiter {
	struct ctx *x;
	long (*waits)(struct ctx *x);
};

static void *waiter_main(void *p)
{
	struct waiter *w = p;

	w->waits(w->x);
	return NULL;
}

static void cancels(struct ctx *x, long (*waits)(struct ctx *x))
{
	struct waiter w = { x, waits };
	void *result = NULL;
	pthread_t t;

	play(x, "w60s100r100");
	for (int i = 0; i < 2; i++) {
		pthread_create(&t, NULL, waiter_main, &w);
		usleep(SIGNAL_MS * 1000);
		pthread_cancel(t);
		pthread_join(t, &result);
		out(" canceled=%d", result == PTHREAD_CANCELED);
		play(x, "s10r10w10");
	}
	play(x, "f80l10r10w10f10");
	child_plays(x, "s10r10w10f10");
	play(x, "cE");
}

SCENARIO(process_cancel_recv) { cancels(x, waits_in_recv); }
SCENARIO(process_cancel_read) { cancels(x, waits_in_read); }
SCENARIO(process_cancel_poll) { cancels(x, waits_in_poll); }
SCENARIO(process_cancel_select) { cancels(x, waits_in_select); }
SCENARIO(process_cancel_epoll) { cancels(x, waits_in_epoll); }
SCENARIO(process_cancel_accept) { cancels(x, waits_in_accept); }

static long waits_in_send(struct ctx *x)
{
	static char zeros[100];

	return send(x->fd, zeros, n(sizeof(zeros)), 0);
}

SCENARIO(process_cancel_send)
{
	struct waiter w = { x, waits_in_send };
	size_t total = fill_up(x);
	void *result = NULL;
	pthread_t t;

	pthread_create(&t, NULL, waiter_main, &w);
	usleep(SIGNAL_MS * 1000);
	pthread_cancel(t);
	pthread_join(t, &result);
	out(" canceled=%d", result == PTHREAD_CANCELED);
	long r = far_do(x, FAR_DRAIN, (long)total);
	out(" %s", r == (long)total ? "all-there" : "lost");
	play(x, "s10r10w10f10");
}

/* A request that comes while cancellation is off waits for its time. */
static void *cancelled_later(void *p)
{
	struct ctx *x = p;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	play(x, "r20");
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
	RES("NOT-CANCELLED", recv(x->fd, buf, n(20), 0));
	return NULL;
}

SCENARIO(process_cancel_disabled)
{
	void *result = NULL;
	pthread_t t;

	play(x, "w60f60");
	pthread_create(&t, NULL, cancelled_later, x);
	usleep(SIGNAL_MS * 1000);
	pthread_cancel(t);
	far_do(x, FAR_SEND, 20);
	pthread_join(t, &result);
	out(" canceled=%d", result == PTHREAD_CANCELED);
	play(x, "s10r10w10f10");
}

/* A pending cancellation acts only in the calls that POSIX names.  It must not act in another
 * call just because osf asks the kernel by one that POSIX names. */
struct steps {
	struct ctx *x;
	int n, copy;
};

static void *goes_on(void *p)
{
	struct steps *s = p;
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET };
	int fd = s->x->fd, v = 0, one = 1;
	socklen_t len = sizeof(v);

	pthread_cancel(pthread_self());
	int ep = epoll_create1(EPOLL_CLOEXEC);
	s->n++;
	epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev);
	s->n++;
	epoll_ctl(ep, EPOLL_CTL_MOD, fd, &ev);
	s->n++;
	ioctl(fd, FIONREAD, &v);
	s->n++;
	getsockopt(fd, SOL_SOCKET, SO_ERROR, &v, &len);
	s->n++;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	s->n++;
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
	s->n++;
	s->copy = dup2(fd, dup(fd));
	s->n++;
	epoll_ctl(ep, EPOLL_CTL_DEL, fd, NULL);
	s->n++;
	fcntl(fd, F_SETFL, O_NONBLOCK);
	fcntl(fd, F_SETFL, 0);
	s->n++;
	pthread_testcancel();
	s->n = -1;
	return NULL;
}

SCENARIO(process_cancel_pending)
{
	struct steps s = { .x = x };
	void *result = NULL;
	pthread_t t;

	play(x, "w60s100");
	pthread_create(&t, NULL, goes_on, &s);
	pthread_join(t, &result);
	out(" canceled=%d after=%d", result == PTHREAD_CANCELED, s.n);
	close(s.copy);
	play(x, "r100f60s10r10w10f10");
	child_plays(x, "s10r10w10f10");
	play(x, "cE");
}
