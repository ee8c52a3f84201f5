/* SPDX-License-Identifier: MIT */
/*
 * tools/bench/peer_udp.c - what the kernel's UDP does with packets like RoCEv2's
 *
 *     udp-echo <- udp-pingpong   a datagram there and back; both poll
 *     udp-sink <- udp-flood      datagrams of one packet each, one way, as fast as sendto() takes them
 *
 * A TCP connection says that both are there, and when it is over.  The flood counts the
 * packets that have arrived, and the time between the first and the last, so a sender that
 * fills a queue gains nothing.
 */
#include "osf.h"
#include "peer.h"
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define SMALL 20 /* bytes: those of a RoCEv2 packet with 2 of the program's */
#define HEADERS 16
#define PAYLOAD 1024 /* of a RoCEv2 packet, where the MTU is 1500 */
#define WARM_UP 1000
#define LOST_NS 1000000000ull
#define BETWEEN_LOOKS 4096 /* at the TCP connection */
#define ROOM (4 << 20)

static int udp_open(const char *port, bool is_server)
{
	struct sockaddr_in a = peer_addr(port);
	int room = ROOM, fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room)) < 0 ||
	    (is_server && bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0))
		peer_die("UDP");
	return fd;
}

/* The server's ends: UDP first, because a client comes as soon as TCP listens. */
static int udp_serve(const char *port, int *control)
{
	int fd = udp_open(port, true);

	*control = peer_accept(peer_listen(port));
	return fd;
}

static bool is_over(int control)
{
	char byte;

	return recv(control, &byte, 1, MSG_DONTWAIT) == 0;
}

int peer_udp_echo(int argc, char **args)
{
	char buf[PAYLOAD];
	int control, fd = udp_serve(args[0], &control);

	for (unsigned n_empty = 0;;) {
		struct sockaddr_in from;
		socklen_t len = sizeof(from);
		ssize_t n = recvfrom(fd, buf, sizeof(buf), MSG_DONTWAIT,
				     (struct sockaddr *)&from, &len);

		if (n >= 0)
			sendto(fd, buf, (size_t)n, 0, (struct sockaddr *)&from,
			       len);
		else if (++n_empty % BETWEEN_LOOKS == 0 && is_over(control))
			return 0;
	}
}

static void udp_ask(int fd, const struct sockaddr_in *to)
{
	char buf[SMALL] = "";
	uint64_t until_ns = 0;

	for (unsigned n = 0;; n++) {
		if (n % BETWEEN_LOOKS == 0 && now_ns() >= until_ns) {
			if (sendto(fd, buf, sizeof(buf), 0,
				   (const struct sockaddr *)to,
				   sizeof(*to)) < 0)
				peer_die("sendto");
			until_ns = now_ns() + LOST_NS;
		}
		struct sockaddr_in from;
		socklen_t len = sizeof(from);
		if (recvfrom(fd, buf, sizeof(buf), MSG_DONTWAIT,
			     (struct sockaddr *)&from, &len) >= 0)
			return;
	}
}

int peer_udp_pingpong(int argc, char **args)
{
	struct sockaddr_in to = peer_addr(args[0]);
	int control = peer_connect(args[0]), fd = udp_open(args[0], false);
	struct times times;

	times_init(&times);
	for (unsigned i = 0; i < WARM_UP; i++)
		udp_ask(fd, &to);
	uint64_t until_ns = now_ns() + (uint64_t)(atof(args[1]) * 1e9);
	while (now_ns() < until_ns)
		for (unsigned i = 0; i < 100; i++) {
			uint64_t before = tick_now();
			udp_ask(fd, &to);
			times_add(&times, tick_now() - before);
		}
	printf("one_way_us %.4f\n", times_median_ns(&times) / 2000);
	times_fini(&times);
	close(control);
	return 0;
}

/* What has arrived, and in which time. */
struct arrived {
	uint64_t bytes, ns;
};

int peer_udp_sink(int argc, char **args)
{
	char buf[HEADERS + PAYLOAD];
	int control, fd = udp_serve(args[0], &control);
	struct arrived sum = { 0 };
	uint64_t first_ns = 0, last_ns = 0;

	for (unsigned n_empty = 0;;) {
		ssize_t n = recv(fd, buf, sizeof(buf), MSG_DONTWAIT);

		if (n > HEADERS) {
			sum.bytes += (uint64_t)n - HEADERS;
			last_ns = now_ns();
			first_ns = first_ns ? first_ns : last_ns;
		} else if (++n_empty % BETWEEN_LOOKS == 0 && is_over(control)) {
			break;
		}
	}
	sum.ns = last_ns - first_ns;
	peer_send(control, &sum, sizeof(sum));
	return 0;
}

int peer_udp_flood(int argc, char **args)
{
	static char buf[HEADERS + PAYLOAD];
	struct sockaddr_in to = peer_addr(args[0]);
	int control = peer_connect(args[0]), fd = udp_open(args[0], false);
	struct arrived sum;

	uint64_t until_ns = now_ns() + (uint64_t)(atof(args[1]) * 1e9);
	while (now_ns() < until_ns)
		for (unsigned i = 0; i < 100; i++)
			if (sendto(fd, buf, sizeof(buf), 0,
				   (struct sockaddr *)&to, sizeof(to)) < 0 &&
			    errno != ENOBUFS)
				peer_die("sendto");
	shutdown(control, SHUT_WR);
	if (!peer_recv(control, &sum, sizeof(sum)) || !sum.ns) {
		errno = EPROTO;
		peer_die("the sink got nothing");
	}
	printf("gbit %.4f\n", (double)sum.bytes * 8 / (double)sum.ns);
	return 0;
}
