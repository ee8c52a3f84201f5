/* SPDX-License-Identifier: MIT */
/*
 * tools/bench/peer_vma.c - the benchmarks' peers that use VMA's extra API
 *
 *     vma-echo <- vma-pingpong    64 bytes there and back, by SocketXtreme
 *     vma-sink <- plain-flood     64 KB, one way, by recvfrom_zcopy()
 *     vma-udp, plain-udp          datagrams to oneself, with and without a callback
 *     vma-udp-joined, plain-udp-joined    the same, of a sender that joins them
 *     vma-zcopy                   64 KB to oneself, by recv() and recvfrom_zcopy()
 *     vma-callback                what a callback adds to recv()
 *
 * The API is found at run time, so they are of use under osf only.
 */
#include "osf.h"
#include "peer.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <mellanox/vma_extra.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

#define WARM_UP 20000
#define ROUND_TRIPS 10000
#define IDLE_YIELD 1024 /* polls that find nothing */
#define DATAGRAMS 256   /* in the socket before they are received */
#define JOINED 64       /* of one sendmsg() */
#define MOVED 100       /* round trips until a connection has moved to memory */

static struct vma_api_t *api;
static int ring = -1;

static void open_api(void)
{
	api = vma_get_api();
	if (!api)
		peer_die("VMA's extra API");
}

static void join(int fd)
{
	if (api->get_socket_rings_fds(fd, &ring, 1) != 1)
		peer_die("ring");
}

/* Waits for the next completion. */
static void next(struct vma_completion_t *c)
{
	int n;

	for (unsigned idle = 1; !(n = api->socketxtreme_poll(ring, c, 1, 0));
	     idle++)
		if (idle % IDLE_YIELD == 0)
			sched_yield();
	if (n < 0)
		peer_die("socketxtreme_poll");
}

static void done(struct vma_completion_t *c)
{
	if (api->socketxtreme_free_vma_packets(&c->packet, 1) < 0)
		peer_die("socketxtreme_free_vma_packets");
}

int peer_vma_echo(int argc, char **args)
{
	struct vma_completion_t c;
	int on = 1;

	open_api();
	join(peer_listen(args[0]));
	for (;;) {
		next(&c);
		int fd = (int)c.user_data;
		if (c.events & VMA_SOCKETXTREME_NEW_CONNECTION_ACCEPTED)
			setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on,
				   sizeof(on));
		if (c.events & VMA_SOCKETXTREME_PACKET) {
			peer_send(fd, c.packet.buff_lst->payload,
				  c.packet.total_len);
			done(&c);
		} else if (c.events & (EPOLLRDHUP | EPOLLHUP)) {
			return 0;
		}
	}
}

static void ask(int fd)
{
	static char message[PEER_BYTES];
	struct vma_completion_t c;

	peer_send(fd, message, sizeof(message));
	for (size_t got = 0; got < sizeof(message);) {
		next(&c);
		if (!(c.events & VMA_SOCKETXTREME_PACKET))
			continue;
		got += c.packet.total_len;
		done(&c);
	}
}

int peer_vma_pingpong(int argc, char **args)
{
	struct times times;

	open_api();
	int fd = peer_connect(args[0]);
	join(fd);
	times_init(&times);
	for (unsigned i = 0; i < WARM_UP; i++)
		ask(fd);
	uint64_t until_ns = now_ns() + (uint64_t)(atof(args[1]) * 1e9);
	uint64_t before = tick_now();
	while (times.n < ROUND_TRIPS ||
	       (now_ns() < until_ns && times.n < TIMES_MAX))
		for (unsigned i = 0; i < 1000; i++) {
			ask(fd);
			uint64_t now = tick_now();
			times_add(&times, now - before);
			before = now;
		}
	printf("one_way_us %.4f\n", times_median_ns(&times) / 2000);
	times_fini(&times);
	return 0;
}

int peer_vma_sink(int argc, char **args)
{
	union {
		struct vma_packets_t head;
		char room[64];
	} z;
	uint64_t sum = 0;

	open_api();
	int fd = peer_accept(peer_listen(args[0]));
	/* The flood says how much it was by a byte that is not of a block. */
	while (sum % PEER_BLOCK != 1 || !sum) {
		int flags = 0;
		int n =
		    api->recvfrom_zcopy(fd, &z, sizeof(z), &flags, NULL, NULL);

		if (n <= 0)
			peer_die("recvfrom_zcopy");
		peer_look_at(z.head.pkts[0].iov[0].iov_base, (size_t)n);
		sum += (uint64_t)n;
		if (api->free_packets(fd, z.head.pkts, 1) < 0)
			peer_die("free_packets");
	}
	peer_send(fd, &sum, sizeof(sum));
	while (recv(fd, &z, sizeof(z), 0) > 0)
		;
	return 0;
}

/* Datagrams. */

static unsigned n_called;

static vma_recv_callback_retval_t on_packet(int fd, size_t n,
					    struct iovec iov[],
					    struct vma_info_t *info, void *arg)
{
	n_called++;
	return *(vma_recv_callback_retval_t *)arg;
}

/* Two sockets, connected to each other. */
static void pair_up(int type, int fds[2])
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);
	int on = 1, l = socket(AF_INET, type, 0);

	fds[0] = socket(AF_INET, type, 0);
	fds[1] = l;
	if (bind(l, (struct sockaddr *)&a, len) < 0 ||
	    (type == SOCK_STREAM && listen(l, 1) < 0) ||
	    getsockname(l, (struct sockaddr *)&a, &len) < 0 ||
	    connect(fds[0], (struct sockaddr *)&a, len) < 0)
		peer_die("sockets");
	if (type != SOCK_STREAM)
		return;
	fds[1] = peer_accept(l);
	close(l);
	setsockopt(fds[0], IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

/* Time for @count, which are there already. */
static uint64_t drain(int fd, bool is_called, unsigned count)
{
	char buf[PEER_BYTES];
	unsigned n = 0;
	uint64_t before = tick_now();

	n_called = 0;
	while (n + n_called < count) {
		struct sockaddr_in from;
		socklen_t len = sizeof(from);

		if (recvfrom(fd, buf, sizeof(buf), MSG_DONTWAIT,
			     (struct sockaddr *)&from, &len) >= 0)
			n++;
		else if (!is_called || errno != EAGAIN || n_called < count)
			peer_die("recvfrom");
	}
	return tick_now() - before;
}

static int receive_datagrams(char **args, bool is_called, bool is_joined)
{
	vma_recv_callback_retval_t drop = VMA_PACKET_DROP;
	static char message[JOINED * PEER_BYTES];
	unsigned count = is_joined ? JOINED : DATAGRAMS;
	size_t bytes = is_joined ? sizeof(message) : PEER_BYTES;
	struct times times;
	int fds[2], size = PEER_BYTES;

	if (is_called)
		open_api();
	pair_up(SOCK_DGRAM, fds);
	if (is_joined && setsockopt(fds[0], IPPROTO_UDP, UDP_SEGMENT, &size,
				    sizeof(size)) < 0)
		peer_die("UDP_SEGMENT");
	if (is_called && api->register_recv_callback(fds[1], on_packet, &drop))
		peer_die("register_recv_callback");
	times_init(&times);
	uint64_t until_ns = now_ns() + (uint64_t)(atof(args[0]) * 1e9);
	while (now_ns() < until_ns) {
		for (unsigned i = 0; i < (is_joined ? 1 : count); i++)
			peer_send(fds[0], message, bytes);
		times_add(&times, drain(fds[1], is_called, count));
	}
	printf("rate %.0f\n", 1e9 * count / times_median_ns(&times));
	times_fini(&times);
	return 0;
}

int peer_vma_udp(int argc, char **args)
{
	return receive_datagrams(args, true, false);
}

int peer_plain_udp(int argc, char **args)
{
	return receive_datagrams(args, false, false);
}

int peer_vma_udp_joined(int argc, char **args)
{
	return receive_datagrams(args, true, true);
}

int peer_plain_udp_joined(int argc, char **args)
{
	return receive_datagrams(args, false, true);
}

static void one_way(const int fds[2])
{
	char buf[PEER_BYTES] = { 0 };

	peer_send(fds[0], buf, sizeof(buf));
	if (!peer_recv(fds[1], buf, sizeof(buf)))
		peer_die("recv");
}

/* What it takes to receive a block that is there, and to look at it. */

static void receive_block(int fd, bool in_place)
{
	static char buf[PEER_BLOCK];
	union {
		struct vma_packets_t head;
		char room[64];
	} z;
	int flags = 0;

	for (size_t got = 0; got < PEER_BLOCK;) {
		ssize_t n = in_place ? api->recvfrom_zcopy(fd, &z, sizeof(z),
							   &flags, NULL, NULL)
				     : recv(fd, buf, sizeof(buf), 0);
		if (n <= 0)
			peer_die("receive");
		peer_look_at(in_place ? z.head.pkts[0].iov[0].iov_base : buf,
			     (size_t)n);
		if (in_place && api->free_packets(fd, z.head.pkts, 1) < 0)
			peer_die("free_packets");
		got += (size_t)n;
	}
}

/* Turns of each, so that both meet the same machine. */
#define TURN 256

int peer_vma_zcopy(int argc, char **args)
{
	static char block[PEER_BLOCK];
	struct times times[2];
	int fds[2];

	open_api();
	pair_up(SOCK_STREAM, fds);
	for (unsigned i = 0; i < MOVED; i++) {
		one_way(fds);
		one_way((const int[]){ fds[1], fds[0] });
	}
	times_init(&times[0]);
	times_init(&times[1]);
	uint64_t until_ns = now_ns() + (uint64_t)(atof(args[0]) * 1e9);
	for (unsigned i = 0; i % TURN || now_ns() < until_ns; i++) {
		unsigned in_place = i / TURN % 2;

		peer_send(fds[0], block, sizeof(block));
		uint64_t before = tick_now();
		receive_block(fds[1], in_place);
		times_add(&times[in_place], tick_now() - before);
	}
	double copied = times_median_ns(&times[0]);
	double lent = times_median_ns(&times[1]);
	printf("recv %.0f\nzcopy %.0f\ngain %.3f\n", copied, lent,
	       lent > 0 ? copied / lent : 0);
	times_fini(&times[0]);
	times_fini(&times[1]);
	return 0;
}

/* What a callback adds: turns without and with it, so that both meet the same machine. */

#define CALLS 1000

static uint64_t calls(const int fds[2], vma_recv_callback_t callback)
{
	static vma_recv_callback_retval_t take = VMA_PACKET_RECV;

	if (api->register_recv_callback(fds[1], callback, &take))
		peer_die("register_recv_callback");
	one_way(fds);
	uint64_t before = tick_now();
	for (unsigned i = 0; i < CALLS; i++)
		one_way(fds);
	return tick_now() - before;
}

int peer_vma_callback(int argc, char **args)
{
	struct times without, with;
	int fds[2];

	open_api();
	pair_up(SOCK_STREAM, fds);
	for (unsigned i = 0; i < MOVED; i++) {
		one_way(fds);
		one_way((const int[]){ fds[1], fds[0] });
	}
	times_init(&without);
	times_init(&with);
	uint64_t until_ns = now_ns() + (uint64_t)(atof(args[0]) * 1e9);
	while (now_ns() < until_ns) {
		times_add(&without, calls(fds, NULL));
		times_add(&with, calls(fds, on_packet));
	}
	double ns[] = { times_median_ns(&without) / CALLS,
			times_median_ns(&with) / CALLS };
	printf("without %.2f\nwith %.2f\nns %.2f\n", ns[0], ns[1],
	       ns[1] - ns[0]);
	times_fini(&without);
	times_fini(&with);
	return 0;
}
