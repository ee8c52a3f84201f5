/* SPDX-License-Identifier: MIT */
/*
 * tools/bench/peer_sock.c - sockets, as the benchmarks' peers use them
 *
 * Loopback, or the address in front of the port.  Everything here is what a textbook program does.
 */
#include "osf.h"
#include "peer.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

void peer_die(const char *what)
{
	complain("bench-peer: %s: %s", what, strerror(errno));
	exit(EXIT_FAILURE);
}

struct sockaddr_in peer_addr(const char *port)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	const char *colon = strchr(port, ':');
	char host[INET_ADDRSTRLEN] = "127.0.0.1";

	if (colon)
		snprintf(host, sizeof(host), "%.*s", (int)(colon - port), port);
	if (inet_pton(AF_INET, host, &a.sin_addr) != 1)
		peer_die(host);
	a.sin_port = htons((uint16_t)atoi(colon ? colon + 1 : port));
	return a;
}

static void without_nagle(int fd)
{
	int on = 1;

	if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) < 0)
		peer_die("TCP_NODELAY");
}

int peer_listen(const char *port)
{
	struct sockaddr_in a = peer_addr(port);
	int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
	    bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 ||
	    listen(fd, SOMAXCONN) < 0)
		peer_die("listen");
	return fd;
}

int peer_accept(int listener)
{
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

	if (fd < 0)
		peer_die("accept");
	without_nagle(fd);
	return fd;
}

int peer_connect(const char *port)
{
	struct sockaddr_in a = peer_addr(port);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		peer_die("connect");
	without_nagle(fd);
	return fd;
}

void peer_send(int fd, const void *buf, size_t len)
{
	const char *at = buf;

	while (len > 0) {
		ssize_t n = send(fd, at, len, MSG_NOSIGNAL);
		if (n < 0 && errno != EINTR)
			peer_die("send");
		if (n > 0) {
			at += n;
			len -= (size_t)n;
		}
	}
}

bool peer_recv(int fd, void *buf, size_t len)
{
	char *at = buf;

	while (len > 0) {
		ssize_t n = recv(fd, at, len, 0);
		if (n == 0)
			return false;
		if (n < 0 && errno != EINTR)
			peer_die("recv");
		if (n > 0) {
			at += n;
			len -= (size_t)n;
		}
	}
	return true;
}

void peer_ask(int fd)
{
	char buf[PEER_BYTES] = "";

	peer_send(fd, buf, sizeof(buf));
	if (!peer_recv(fd, buf, sizeof(buf))) {
		errno = ECONNRESET;
		peer_die("the server has gone");
	}
}

/* As many descriptors as this process may have; root may have more. */
void peer_raise_files(void)
{
	struct rlimit lim, more = { 262144, 262144 };

	if (setrlimit(RLIMIT_NOFILE, &more) == 0)
		return;
	if (getrlimit(RLIMIT_NOFILE, &lim) == 0) {
		lim.rlim_cur = lim.rlim_max;
		setrlimit(RLIMIT_NOFILE, &lim);
	}
}

uint64_t peer_cpu_us(void)
{
	struct rusage u;

	if (getrusage(RUSAGE_SELF, &u) < 0)
		peer_die("getrusage");
	return (uint64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000 +
	       (uint64_t)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static volatile uint64_t seen_sum;

void peer_look_at(const void *data, size_t len)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < len; i += 64)
		sum += ((const uint8_t *)data)[i];
	seen_sum += sum;
}
