/* SPDX-License-Identifier: MIT */
/*
 * tools/bench/peer_load.c - an echo server with epoll, and load for any echo server
 *
 *     a message on each connection -> turns of the server, timed -> the replies
 *
 * Load and server take turns in one thread.  A load on another core costs as much for
 * each message as a server does, so that the server waits for it, and the figure is
 * the load's; here the server finds a message on every connection, and what is timed
 * is its work alone, whatever else the machine does.
 */
#include "osf.h"
#include "peer.h"
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define EVENTS 64
#define BYTES 4096
#define WARM_UP 100 /* bursts */

static void burst(const int *fds, unsigned n, void (*turn)(void),
		  const size_t *received, struct times *times)
{
	char message[PEER_BYTES] = "";
	size_t want = *received + (size_t)n * sizeof(message);

	for (unsigned i = 0; i < n; i++)
		peer_send(fds[i], message, sizeof(message));
	uint64_t from = tick_now();
	while (*received < want)
		turn();
	times_add(times, tick_now() - from);
	for (unsigned i = 0; i < n; i++)
		if (!peer_recv(fds[i], message, sizeof(message)))
			peer_die("the server has gone");
}

int peer_load(const char *port, char **args, void (*turn)(void),
	      const size_t *received)
{
	unsigned n = (unsigned)atoi(args[0]);
	int *fds = xcalloc(n, sizeof(*fds));
	struct times times;

	peer_raise_files();
	for (unsigned i = 0; i < n; i++)
		fds[i] = peer_connect(port);
	times_init(&times);
	for (unsigned i = 0; i < WARM_UP; i++)
		burst(fds, n, turn, received, &times);
	times.n = 0;
	uint64_t until_ns = now_ns() + (uint64_t)(atof(args[1]) * 1e9);
	while (now_ns() < until_ns)
		burst(fds, n, turn, received, &times);
	printf("rate %.1f\n", n * 1e9 / times_median_ns(&times));
	times_fini(&times);
	free(fds);
	return 0;
}

static int ep, listener;
static size_t received;

static void watch(int fd)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.fd = fd };

	if (epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev) < 0)
		peer_die("epoll_ctl");
}

static void serve(int fd)
{
	char buf[BYTES];
	ssize_t n = read(fd, buf, sizeof(buf));

	if (n <= 0 || write(fd, buf, (size_t)n) != n)
		peer_die("echo");
	received += (size_t)n;
}

static void epoll_turn(void)
{
	struct epoll_event events[EVENTS];
	int n = epoll_wait(ep, events, EVENTS, 0);

	for (int i = 0; i < n; i++)
		if (events[i].data.fd == listener)
			watch(peer_accept(listener));
		else
			serve(events[i].data.fd);
}

int peer_epoll_serve(int argc, char **args)
{
	listener = peer_listen(args[0]);
	ep = epoll_create1(EPOLL_CLOEXEC);
	if (ep < 0)
		peer_die("epoll_create1");
	watch(listener);
	return peer_load(args[0], args + 1, epoll_turn, &received);
}
