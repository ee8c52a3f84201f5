/* SPDX-License-Identifier: MIT */
/*
 * tests/app/faults_beside.c - who is no attacker, and does harm all the same
 *
 *     hostile.c, without the library  <- one connection, or none ->  near end
 *
 * One takes the name of another's inbox, one falls back first and loses its core in the
 * middle, one is another user who reaches for a connection of others.  Called by faults.c.
 */
#include "faults_hostile.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/uio.h>
#include <unistd.h>

/* --- one who calls its inbox by the name of another's --- */

#define SLEEPY_TURNS 5

/* Sleeps in its event loop before each message comes. */
static void far_named(struct ctx *x)
{
	struct stream s;
	uint16_t port;
	int fd, listener = listen_local(&port);

	tell(x, port);
	stage = "the thief comes";
	need(accept4(listener, NULL, NULL, SOCK_CLOEXEC) >= 0, "accept: %m");
	stage = "the victim comes";
	if (x->is_client)
		fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	else
		fd = connect_local((uint16_t)hear(x));
	need(fd >= 0, "accept: %m");
	s = stream_make(fd, x->seed, 1, !x->is_client);
	serve(&s, 1);
	tell(x, 1);
}

/* Until the hostile peer's inbox is known under its stolen name. */
void until_upgraded(struct ctx *x)
{
	struct osf_stats_sock st = { 0 };
	uint64_t end = ms_now() + 6000;

	stage = "the hostile peer's connection is upgraded";
	while (!stats_sock(x->near_pid, x->port, x->far_port, &st) ||
	       st.reason != OSF_REASON_UPGRADED) {
		need(send(x->fd, "x", 1, MSG_NOSIGNAL) == 1, "send: %m");
		need(ms_now() < end,
		     "the hostile peer's connection is not upgraded: "
		     "%s",
		     reason_name(st.reason));
		usleep(500);
	}
}

static void near_named(struct ctx *x)
{
	struct pollfd p = { .events = POLLIN };
	uint16_t far = (uint16_t)hear(x), port;
	int far_ctl = x->ctl, listener;

	pid_t pid = spawn_hostile(x, "stolen_name", &x->ctl, far);
	connect_with_hostile(x);
	until_upgraded(x);
	x->ctl = far_ctl;
	stage = "an honest connection is made";
	if (x->is_client) {
		x->fd = connect_local(far);
	} else {
		listener = listen_local(&port);
		tell(x, port);
		x->fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	}
	connection_is(x, x->fd, 1);
	p.fd = x->fd;
	for (int i = 0; i < WARM_TURNS + SLEEPY_TURNS; i++) {
		if (i >= WARM_TURNS)
			need(wait_asleep(x->far_pid, ANSWER_MS),
			     "the honest peer does not sleep");
		need(stream_send(&x->s, 16), "send: %m");
		need(poll(&p, 1, ANSWER_MS) == 1,
		     "message %d to the peer whose inbox's name was stolen is "
		     "not answered",
		     i);
		need(stream_recv(&x->s, 16), "recv: %m");
	}
	need_upgraded(x);
	end_child(pid, false);
	need(!shutdown(x->fd, SHUT_WR), "shutdown: %m");
	hear(x);
}

SCENARIO(hostile_stolen_name, .near = near_named, .far = far_named,
	 .flags = NEEDS_OSF | FAR_APART);

/* --- a peer that falls back first, and loses its core in the middle --- */

enum { BY_RECV, BY_POLL, BY_EPOLL, PEER_SHUT };

static void unsettled_begins(struct ctx *x, int ep)
{
	spawn_hostile(x,
		      x->sc->arg == PEER_SHUT ? "first_and_slow_shut"
					      : "first_and_slow",
		      &x->ctl, 0);
	connect_with_hostile(x);
	until_upgraded(x);
	if (ep >= 0)
		watch_fd(ep, x->fd, EPOLLIN, 0);
	stage = "the peer falls back";
	tell(x, 1);
	hear(x);
}

/* Our descriptor, passed to ourselves: another one of the same connection. */
static int passed_on(int fd)
{
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(sizeof(int))];
	} control = { .align = { .cmsg_level = SOL_SOCKET,
				 .cmsg_type = SCM_RIGHTS,
				 .cmsg_len = CMSG_LEN(sizeof(int)) } };
	char byte = 'x';
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = CMSG_SPACE(sizeof(int)) };
	int pair[2], got;

	need(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair),
	     "socketpair: %m");
	memcpy(CMSG_DATA(&control.align), &fd, sizeof(fd));
	need(TIMED("sendmsg(SCM_RIGHTS)", sendmsg(pair[0], &msg, 0)) == 1,
	     "sendmsg: %m");
	need(recvmsg(pair[1], &msg, MSG_CMSG_CLOEXEC) == 1, "recvmsg: %m");
	memcpy(&got, CMSG_DATA(&control.align), sizeof(got));
	close(pair[0]);
	close(pair[1]);
	return got;
}

/* What the descriptor's next user sends comes behind what the peer puts back. */
static void near_passes(struct ctx *x)
{
	char buf[1000];

	unsettled_begins(x, -1);
	int fd = passed_on(x->fd);
	stage = "the next user";
	need(recv(fd, buf, 100, MSG_WAITALL) == 100,
	     "what had not been read: %m");
	if (x->sc->arg == PEER_SHUT)
		need(!recv(fd, buf, 1, 0), "the end of the peer's stream");
	memset(buf, 7, sizeof(buf));
	need(send(fd, buf, sizeof(buf), MSG_NOSIGNAL) == sizeof(buf),
	     "send: %m");
	close(fd);
	close(x->fd);
	tell(x, 1);
	stage = "the peer gets it";
	uint64_t n = hear(x);
	need(n == sizeof(buf), "the peer got %lld bytes", (long long)n);
}

/* Who has shut down writing may not write by the new descriptor, either. */
static void near_passes_shut(struct ctx *x)
{
	char buf[100];

	unsettled_begins(x, -1);
	need(!shutdown(x->fd, SHUT_WR), "shutdown: %m");
	int fd = passed_on(x->fd);
	stage = "the next user";
	need(recv(fd, buf, 100, MSG_WAITALL) == 100,
	     "what had not been read: %m");
	need(send(fd, buf, 100, MSG_NOSIGNAL) < 0 && errno == EPIPE,
	     "send() after shutdown()");
	tell(x, 1);
	stage = "the peer gets the end";
	uint64_t n = hear(x);
	need(!n, "the peer got %lld bytes", (long long)n);
}

/* What is sent meanwhile finds no room, whatever the call; the end is due. */
static void near_shuts(struct ctx *x)
{
	struct pollfd p = { .fd = x->fd, .events = POLLIN };
	struct epoll_event ev;
	char buf[200];
	int ep = epoll_create1(EPOLL_CLOEXEC);

	unsettled_begins(x, ep);
	need(recv(x->fd, buf, 100, MSG_WAITALL) == 100,
	     "what had come before: %m");
	need(TIMED("send()",
		   send(x->fd, buf, 100, MSG_DONTWAIT | MSG_NOSIGNAL)) < 0 &&
		 errno == EAGAIN,
	     "send() has taken what may not go by TCP");
	need(!TIMED("shutdown()", shutdown(x->fd, SHUT_WR)), "shutdown: %m");
	tell(x, 1);
	stage = "the end is due, and this process sleeps";
	if (x->sc->arg == BY_POLL)
		need(poll(&p, 1, -1) == 1, "poll: %m");
	if (x->sc->arg == BY_EPOLL)
		need(epoll_wait(ep, &ev, 1, -1) == 1, "epoll_wait: %m");
	need(recv(x->fd, buf, 1, 0) == 1, "recv: %m");
	uint64_t n = hear(x);
	need(!n, "the peer got %lld bytes", (long long)n);
}

SCENARIO(first_and_slow_pass, .near = near_passes,
	 .flags = FAR_NONE | NEEDS_OSF);
SCENARIO(first_and_slow_shut_pass, .near = near_passes,
	 .flags = FAR_NONE | NEEDS_OSF, .arg = PEER_SHUT);
SCENARIO(first_and_slow_pass_shut, .near = near_passes_shut,
	 .flags = FAR_NONE | NEEDS_OSF);
SCENARIO(first_and_slow_recv, .near = near_shuts, .flags = FAR_NONE | NEEDS_OSF,
	 .arg = BY_RECV);
SCENARIO(first_and_slow_poll, .near = near_shuts, .flags = FAR_NONE | NEEDS_OSF,
	 .arg = BY_POLL);
SCENARIO(first_and_slow_epoll, .near = near_shuts,
	 .flags = FAR_NONE | NEEDS_OSF, .arg = BY_EPOLL);

/* --- a user who has no part in a connection of root's reaches for it --- */

static void far_of_another(struct ctx *x)
{
	uint16_t port;
	int fd;

	if (x->is_client) {
		int listener = listen_local(&port);

		tell(x, port);
		fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	} else {
		fd = connect_local((uint16_t)hear(x));
		tell(x, port_of(fd, false));
	}
	connection_is(x, fd, 0);
	far_echo(x);
}

static pid_t spawn_stranger(struct ctx *x, uint16_t client, uint16_t server,
			    int *ctl_out)
{
	uint64_t word = (uint64_t)client << 16 | server;
	int ctl;

	pid_t pid = spawn_hostile(x, "stranger", &ctl, 0);
	stage = "the stranger reaches for the connection";
	need(write(ctl, &word, sizeof(word)) == sizeof(word) &&
		 read(ctl, &word, sizeof(word)) == sizeof(word),
	     "the stranger ended early");
	*ctl_out = ctl;
	return pid;
}

static void near_of_another(struct ctx *x)
{
	struct pollfd p = { .events = POLLIN };
	uint16_t port, far;
	int ctl;
	pid_t pid;

	if (geteuid()) {
		fprintf(stderr, "skip: needs root\n");
		_exit(77);
	}
	if (x->is_client) {
		connection_is(x, connect_local((uint16_t)hear(x)), 0);
		pid = spawn_stranger(x, x->port, x->far_port, &ctl);
	} else {
		int listener = listen_local(&port);

		tell(x, port);
		far = (uint16_t)hear(x);
		pid = spawn_stranger(x, far, port, &ctl);
		connection_is(x, accept4(listener, NULL, NULL, SOCK_CLOEXEC),
			      0);
	}
	/* Has the stranger been let in, it says so, and is ready. */
	p.fd = ctl;
	poll(&p, 1, x->is_client ? 0 : 300);
	p.fd = x->fd;
	for (int i = 0; i < WARM_TURNS; i++) {
		need(stream_send(&x->s, 16), "send: %m");
		need(poll(&p, 1, ANSWER_MS) == 1,
		     "message %d went to a stranger, of another user", i);
		need(stream_recv(&x->s, 16), "recv: %m");
	}
	need_kernel(x, BIT(NO_PEER) | BIT(NO_PROPOSAL) | BIT(YOUNG) |
			   BIT(OTHER_UID));
	end_child(pid, false);
}

SCENARIO(stranger_takes_part, .near = near_of_another, .far = far_of_another,
	 .flags = NEEDS_OSF | FAR_APART | FAR_PLAIN);
