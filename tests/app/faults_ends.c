/* SPDX-License-Identifier: MIT */
/*
 * tests/app/faults_ends.c - a peer that announces something and then does not do it
 *
 *     hostile.c, manner ends_*  <- one connection ->  near end: every call returns
 *
 * The peer says that its stream has ended in the ring, but no end mark is there; its records
 * point to each other in a circle; it has counted doorbells that never come; or it dies while
 * it falls back, also after a shutdown() of its direction.  The first two are attacks.  The
 * others happen to honest peers that are killed.  A thread that waits for bytes or for room
 * must learn of the end, and sleep until then.  Called by faults.c.
 */
#include "faults_hostile.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define CALLS_MAX 100 /* on a stream that has ended; a few bytes come first */
#define AWAKE_MS 600
#define CIRCLE_MAX (100u << 20)

enum { BY_RECV, BY_POLL, BY_EPOLL, BY_SEND };

static void peer_ends(struct ctx *x)
{
	const char *how = strstr(x->sc->name, "ends_");
	char manner[64];

	/* The scenario's name is the manner, and which call waits. */
	snprintf(manner, sizeof(manner), "%.*s", (int)(strrchr(how, '_') - how),
		 how);
	spawn_hostile(x, manner, &x->ctl, 0);
	connect_with_hostile(x);
	until_upgraded(x);
	stage = "the peer ends";
	tell(x, 1);
	hear(x);
}

static void await_event(struct ctx *x, int ep)
{
	struct pollfd p = { .fd = x->fd, .events = POLLIN };
	struct epoll_event ev = { .events = EPOLLIN };

	if (x->sc->arg == BY_POLL)
		need(poll(&p, 1, -1) == 1, "poll: %m");
	if (x->sc->arg == BY_EPOLL)
		need(epoll_wait(ep, &ev, 1, -1) == 1, "epoll_wait: %m");
}

static void near_receives(struct ctx *x)
{
	int flags = x->sc->arg == BY_RECV ? 0 : MSG_DONTWAIT;
	struct epoll_event ev = { .events = EPOLLIN };
	int ep = epoll_create1(EPOLL_CLOEXEC);
	char buf[1000];
	ssize_t r = 1;

	peer_ends(x);
	need(!epoll_ctl(ep, EPOLL_CTL_ADD, x->fd, &ev), "epoll_ctl: %m");
	stage = "the end of the stream";
	for (int i = 0; i < CALLS_MAX && (r > 0 || errno == EAGAIN); i++) {
		await_event(x, ep);
		r = recv(x->fd, buf, sizeof(buf), flags);
	}
	need(!r || (r < 0 && errno != EAGAIN), "recv() never ends: %m");
	close(ep);
}

/* No more than two rings of bytes. */
static void near_reads_on(struct ctx *x)
{
	static char buf[256 * 1024];
	uint64_t n = 0;
	ssize_t r;

	peer_ends(x);
	stage = "a stream that leads in a circle";
	while ((r = recv(x->fd, buf, sizeof(buf), 0)) > 0)
		n += (uint64_t)r;
	need(n < CIRCLE_MAX, "%llu bytes came", (unsigned long long)n);
}

static void near_sends(struct ctx *x)
{
	static const char buf[64 * 1024];
	ssize_t r = 1;

	peer_ends(x);
	stage = "sends to a peer that has ended";
	for (int i = 0; i < CALLS_MAX * CALLS_MAX && r > 0; i++) {
		struct pollfd p = { .fd = x->fd, .events = POLLOUT };

		if (x->sc->arg == BY_POLL)
			need(poll(&p, 1, -1) == 1, "poll: %m");
		r = send(x->fd, buf, sizeof(buf), MSG_NOSIGNAL);
	}
	need(r < 0, "send() never fails");
}

static uint64_t cpu_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000u + (uint64_t)ts.tv_nsec / 1000000u;
}

/* The peer reads nothing, and what it sends is not for this call. */
static void near_sleeps(struct ctx *x)
{
	struct timeval some = { .tv_usec = AWAKE_MS * 1000 };
	static char buf[64 * 1024];
	ssize_t r = 1;

	peer_ends(x);
	need(recv(x->fd, buf, 100, MSG_WAITALL) == 100,
	     "what had come before: %m");
	need(!setsockopt(x->fd, SOL_SOCKET, SO_SNDTIMEO, &some, sizeof(some)),
	     "SO_SNDTIMEO: %m");
	stage = "a send that has to wait";
	while (r == 1 || r == sizeof(buf)) {
		uint64_t cpu = cpu_ms(), start = ms_now();

		r = send(x->fd, buf, sizeof(buf), MSG_NOSIGNAL);
		if (ms_now() - start >= AWAKE_MS / 2)
			need(cpu_ms() - cpu < AWAKE_MS / 4,
			     "a send that waited used the core for %llu ms",
			     (unsigned long long)(cpu_ms() - cpu));
	}
}

#define ENDS(name, function, call)                                             \
	SCENARIO(ends_##name, .near = function, .flags = FAR_NONE | NEEDS_OSF, \
		 .arg = call)

ENDS(unmarked_back_recv, near_receives, BY_RECV);
ENDS(unmarked_back_poll, near_receives, BY_POLL);
ENDS(unmarked_back_epoll, near_receives, BY_EPOLL);
ENDS(unmarked_fin_poll, near_receives, BY_POLL);
ENDS(unmarked_fin_epoll, near_receives, BY_EPOLL);
ENDS(owing_recv, near_receives, BY_RECV);
ENDS(owing_poll, near_receives, BY_POLL);
ENDS(owing_epoll, near_receives, BY_EPOLL);
ENDS(owing_reset_recv, near_receives, BY_RECV);
ENDS(owing_reset_poll, near_receives, BY_POLL);
ENDS(owing_reset_epoll, near_receives, BY_EPOLL);
ENDS(circle_recv, near_reads_on, BY_RECV);
ENDS(unsettled_send, near_sends, BY_SEND);
ENDS(unsettled_shut_send, near_sends, BY_SEND);
ENDS(unsettled_shut_poll, near_sends, BY_POLL);
ENDS(awake_send, near_sleeps, BY_SEND);
