/* SPDX-License-Identifier: MIT */
/*
 * tests/port/turns.c - two ends that take turns, and compare each byte
 *
 *     turns listen|connect HOST PORT MBYTES SEED [MS]
 *
 * Both ends draw the same lengths from SEED.  In a turn the connecting end sends some
 * bytes and the other answers with some; now and then both send at once.  With MS, an end
 * sets a socket option every MS/10 to MS ms, at any point of a turn: under osf the
 * connection goes back to the kernel for it, and moves again after a few turns.  The last
 * turn ends by a FIN of each side, in an order that depends on SEED, or by a reset of one
 * side, which the other must see.  With 0 MBYTES the connecting end goes on until there is
 * something on its standard input, and says before each turn whether it is the last one.
 *
 * Prints the bytes, or what was wrong, with status 1.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "unit.h"

#define STALL_MS 20000

static struct rng rng, own_rng;
static int fd;
static bool opens;
static uint64_t sent, got, move_ns, move_ms;
static unsigned n_moves;

static void die(const char *what)
{
	fprintf(stderr, "turns: %s: %s (sent %llu, got %llu)\n", what,
		strerror(errno), (unsigned long long)sent,
		(unsigned long long)got);
	exit(1);
}

/* Time to go back to the kernel? */
static void move_now_and_then(void)
{
	int zero = 0;
	uint64_t now;

	if (!move_ms || (now = now_ns()) < move_ns)
		return;
	if (move_ns) {
		if (setsockopt(fd, SOL_SOCKET, SO_PRIORITY, &zero,
			       sizeof(zero)))
			die("SO_PRIORITY");
		n_moves++;
	}
	move_ns =
	    now + (move_ms / 10 + rng_next(&own_rng) % move_ms) * NS_PER_MS;
}

static size_t send_some(uint64_t left)
{
	static uint8_t buf[65536];
	size_t n = left < sizeof(buf) ? (size_t)left : sizeof(buf);

	stream_fill(buf, sent, n);
	ssize_t r = send(fd, buf, n, MSG_NOSIGNAL);
	if (r < 0 && errno != EAGAIN)
		die("send");
	sent += r > 0 ? (uint64_t)r : 0;
	return r > 0 ? (size_t)r : 0;
}

static size_t recv_some(uint64_t left)
{
	static uint8_t buf[65536];
	size_t n = left < sizeof(buf) ? (size_t)left : sizeof(buf);
	ssize_t r = recv(fd, buf, n, 0);

	if (r == 0)
		errno = 0;
	if (r == 0 || (r < 0 && errno != EAGAIN))
		die("recv");
	if (r < 0)
		return 0;
	size_t ok = stream_differs(buf, got, (size_t)r);
	if (ok != (size_t)r) {
		got += ok;
		errno = EBADMSG;
		die("wrong byte");
	}
	got += (uint64_t)r;
	return (size_t)r;
}

static void all(size_t (*some)(uint64_t left), uint64_t n)
{
	while (n) {
		move_now_and_then();
		n -= some(n);
	}
}

static void both_at_once(uint64_t to_send, uint64_t to_get)
{
	fcntl(fd, F_SETFL, O_NONBLOCK);
	while (to_send || to_get) {
		struct pollfd p = { fd,
				    (short)((to_send ? POLLOUT : 0) |
					    (to_get ? POLLIN : 0)),
				    0 };
		move_now_and_then();
		if (poll(&p, 1, STALL_MS) <= 0)
			die("stalls");
		if (p.revents & POLLOUT && to_send)
			to_send -= send_some(to_send);
		if (p.revents & (POLLIN | POLLHUP | POLLERR) && to_get)
			to_get -= recv_some(to_get);
	}
	fcntl(fd, F_SETFL, 0);
}

static uint64_t length(void)
{
	uint32_t kind = rng_below(&rng, 10);

	return 1 + rng_below(&rng, kind < 6 ? 200 : kind < 9 ? 20000 : 400000);
}

static void turn(void)
{
	uint64_t there = length(), back = length();

	if (!rng_below(&rng, 4)) {
		both_at_once(opens ? there : back, opens ? back : there);
	} else if (opens) {
		all(send_some, there);
		all(recv_some, back);
	} else {
		all(recv_some, there);
		all(send_some, back);
	}
}

static void must_end(void)
{
	char c;

	if (recv(fd, &c, 1, 0) != 0)
		die("no end");
}

static void by_fin(bool is_first)
{
	if (!is_first)
		must_end();
	if (shutdown(fd, SHUT_WR))
		die("shutdown");
	if (is_first)
		must_end();
	if (close(fd))
		die("close");
}

/* A reset discards what has not left; so the other side says first that it has all. */
static void by_reset(bool is_first)
{
	struct linger now = { 1, 0 };
	char c = 0;

	if (is_first) {
		if (recv(fd, &c, 1, 0) != 1 || c != 'x')
			die("not all");
		if (setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now)) ||
		    close(fd))
			die("reset");
		return;
	}
	if (send(fd, "x", 1, MSG_NOSIGNAL) != 1)
		die("send");
	if (recv(fd, &c, 1, 0) != -1 || errno != ECONNRESET)
		die("no reset");
	close(fd);
}

static void end(void)
{
	bool is_first = (rng_below(&rng, 2) != 0) == opens;

	if (rng_below(&rng, 3))
		by_fin(is_first);
	else
		by_reset(is_first);
}

static void reach(const char *host, const char *port)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *ai;
	int one = 1;

	if (getaddrinfo(host, port, &hints, &ai))
		die("getaddrinfo");
	fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (opens) {
		for (int i = 0; connect(fd, ai->ai_addr, ai->ai_addrlen); i++) {
			if (i == 100)
				die("connect");
			close(fd);
			usleep(50000); /* until the other process listens */
			fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC,
				    0);
		}
	} else {
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
		if (bind(fd, ai->ai_addr, ai->ai_addrlen) || listen(fd, 1))
			die("listen");
		int c = accept(fd, NULL, NULL);
		if (c < 0)
			die("accept");
		close(fd);
		fd = c;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	freeaddrinfo(ai);
}

/* Without a number of bytes.  Return: whether there is another turn */
static bool goes_on(void)
{
	struct pollfd p = { 0, POLLIN, 0 };
	char c = 'n';

	if (opens) {
		c = poll(&p, 1, 0) > 0 ? 'e' : 'n';
		if (send(fd, &c, 1, MSG_NOSIGNAL) != 1)
			die("send");
	} else if (recv(fd, &c, 1, 0) != 1) {
		die("recv");
	}
	return c == 'n';
}

int main(int argc, char **argv)
{
	if (argc < 6)
		return 2;
	opens = !strcmp(argv[1], "connect");
	uint64_t want = strtoull(argv[4], NULL, 10) << 20;
	rng.state = strtoull(argv[5], NULL, 10);
	own_rng.state = rng.state + opens;
	move_ms = argc > 6 ? strtoull(argv[6], NULL, 10) : 0;
	reach(argv[2], argv[3]);
	uint64_t start = now_ns();
	while (want ? sent + got < want : goes_on())
		turn();
	end();
	printf("%s: %llu MB, asked to go back %u times, %.0f Mbit/s\n", argv[1],
	       (unsigned long long)((sent + got) >> 20), n_moves,
	       (double)(sent + got) * 8000 / (double)(now_ns() - start));
	return 0;
}
