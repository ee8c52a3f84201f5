/* SPDX-License-Identifier: MIT */
/*
 * tools/osf/peer_load.c - an echo server with epoll, and load for any echo server
 *
 *     epoll-serve, xlio-serve  <-  load PORT CONNECTIONS SECONDS
 *
 * The load keeps one message of 64 bytes under way on each connection.
 */
#include "osf.h"
#include "peer.h"
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define EVENTS 64
#define BYTES 4096
#define IDLE_YIELD 1024

static void watch(int ep, int fd)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.fd = fd };

	if (ep < 0 || epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev) < 0)
		peer_die("epoll_ctl");
}

static void serve(int fd)
{
	char buf[BYTES];
	ssize_t n = read(fd, buf, sizeof(buf));

	if (n <= 0)
		close(fd);
	else if (write(fd, buf, (size_t)n) != n)
		peer_die("write");
}

/* Does not sleep either, so that the two are alike. */
int peer_epoll_serve(int argc, char **args)
{
	struct epoll_event events[EVENTS];
	int ep = epoll_create1(EPOLL_CLOEXEC), listener = peer_listen(args[0]);
	unsigned idle = 0;

	watch(ep, listener);
	for (;;) {
		int n = epoll_wait(ep, events, EVENTS, 0);

		idle = n ? 0 : idle + 1;
		if (idle % IDLE_YIELD == IDLE_YIELD - 1)
			sched_yield();
		for (int i = 0; i < n; i++)
			if (events[i].data.fd == listener)
				watch(ep, peer_accept(listener));
			else
				serve(events[i].data.fd);
	}
}

int peer_load(int argc, char **args)
{
	struct epoll_event events[EVENTS];
	char buf[BYTES], message[PEER_BYTES] = "";
	int ep = epoll_create1(EPOLL_CLOEXEC);
	uint64_t n_done = 0;

	for (int i = 0; i < atoi(args[1]); i++) {
		int fd = peer_connect(args[0]);

		watch(ep, fd);
		peer_send(fd, message, sizeof(message));
	}
	uint64_t from_ns = now_ns();
	uint64_t until_ns = from_ns + (uint64_t)(atof(args[2]) * 1e9);
	while (now_ns() < until_ns) {
		int n = epoll_wait(ep, events, EVENTS, 1000);

		for (int i = 0; i < n; i++) {
			int fd = events[i].data.fd;

			if (recv(fd, buf, sizeof(buf), 0) != PEER_BYTES)
				peer_die("recv");
			peer_send(fd, message, sizeof(message));
			n_done++;
		}
	}
	printf("rate %.1f\n",
	       (double)n_done * 1e9 / (double)(now_ns() - from_ns));
	return 0;
}
