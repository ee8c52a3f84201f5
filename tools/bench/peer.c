/* SPDX-License-Identifier: MIT */
/*
 * tools/bench/peer.c - "osf bench-peer": the programs that bench measures
 *
 *     echo            <- pingpong, asleep      64 bytes there and back
 *     sink            <- flood                 64 bytes, one way, many
 *     oneshot-server  <- oneshot               a connection for each question
 *
 * peer_many.c has those with many connections, peer_calls.c those without any.
 * Started by bench_own.c, on the kernel or under osf; they cannot tell.
 */
#include "osf.h"
#include "peer.h"
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define WARM_UP 5000 /* round trips that are not measured */
#define ROUND_TRIPS                                                            \
	10000 /* at least so many are; what is slow takes minutes else */
#define RECV_BYTES 65536 /* the sink's buffer */
#define FLOOD_BATCH 1024 /* messages between two looks at the clock */
#define ASK_EVERY_NS 10000000
#define CONNECTIONS_PER_SOURCE 8000 /* ports that one address gives away */

static uint64_t until(const char *seconds)
{
	return now_ns() + (uint64_t)(atof(seconds) * 1e9);
}

int peer_echo(int argc, char **args)
{
	char buf[PEER_BYTES];
	int fd = peer_accept(peer_listen(args[0]));
	uint64_t from_us = peer_cpu_us();

	while (peer_recv(fd, buf, sizeof(buf)))
		peer_send(fd, buf, sizeof(buf));
	printf("cpu_us %" PRIu64 "\n", peer_cpu_us() - from_us);
	close(fd);
	return 0;
}

int peer_pingpong(int argc, char **args)
{
	int fd = peer_connect(args[0]);
	struct times times;

	times_init(&times);
	for (unsigned i = 0; i < WARM_UP; i++)
		peer_ask(fd);

	uint64_t until_ns = until(args[1]), before = tick_now();
	while (times.n < ROUND_TRIPS ||
	       (now_ns() < until_ns && times.n < TIMES_MAX))
		for (unsigned i = 0; i < 1000; i++) {
			peer_ask(fd);
			uint64_t now = tick_now();
			times_add(&times, now - before);
			before = now;
		}
	printf("one_way_us %.4f\n", times_median_ns(&times) / 2000);
	printf("round_trips %zu\n", times.n);
	times_fini(&times);
	close(fd);
	return 0;
}

int peer_asleep(int argc, char **args)
{
	int fd = peer_connect(args[0]);
	uint64_t until_ns = until(args[1]), n_asked = 0;
	struct timespec pause = { .tv_nsec = ASK_EVERY_NS };

	uint64_t from_us = peer_cpu_us();
	while (now_ns() < until_ns) {
		peer_ask(fd);
		n_asked++;
		nanosleep(&pause, NULL);
	}
	printf("asked %" PRIu64 "\ncpu_us %" PRIu64 "\n", n_asked,
	       peer_cpu_us() - from_us);
	close(fd);
	return 0;
}

/* Counts bytes to the end, then tells how many there were. */
int peer_sink(int argc, char **args)
{
	static char buf[RECV_BYTES];
	int fd = peer_accept(peer_listen(args[0]));
	uint64_t sum = 0;
	ssize_t n;

	while ((n = recv(fd, buf, sizeof(buf), 0)) > 0)
		sum += (uint64_t)n;
	if (n < 0)
		peer_die("recv");
	peer_send(fd, &sum, sizeof(sum));
	close(fd);
	return 0;
}

/* Time runs until the sink has said that it has everything. */
int peer_flood(int argc, char **args)
{
	char message[PEER_BYTES] = "";
	int fd = peer_connect(args[0]);
	uint64_t until_ns = until(args[1]), n_sent = 0, sum = 0;

	uint64_t from_ns = now_ns();
	while (now_ns() < until_ns) {
		for (unsigned i = 0; i < FLOOD_BATCH; i++)
			peer_send(fd, message, sizeof(message));
		n_sent += FLOOD_BATCH;
	}
	shutdown(fd, SHUT_WR);
	if (!peer_recv(fd, &sum, sizeof(sum)) ||
	    sum != n_sent * sizeof(message)) {
		errno = EPROTO;
		peer_die("the sink did not get everything");
	}
	printf("rate %.1f\n",
	       (double)n_sent * 1e9 / (double)(now_ns() - from_ns));
	close(fd);
	return 0;
}

int peer_oneshot_server(int argc, char **args)
{
	char buf[PEER_BYTES];
	int listener = peer_listen(args[0]);

	for (;;) {
		int fd = peer_accept(listener);
		while (peer_recv(fd, buf, sizeof(buf)))
			peer_send(fd, buf, sizeof(buf));
		close(fd);
	}
}

/* The client closes first and its ports stay in TIME_WAIT, so it goes through
 * source addresses: a run finds free ports whatever the one before it used. */
static void bind_source(int fd, uint64_t i)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	uint32_t host = (uint32_t)(i / CONNECTIONS_PER_SOURCE) % 250 + 1;
	uint32_t net = (uint32_t)getpid() % 60000 + 256;
	int on = 1;

	a.sin_addr.s_addr = htonl(127u << 24 | net << 8 | host);
	if (setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on,
		       sizeof(on)) < 0 ||
	    bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		peer_die("bind");
}

int peer_oneshot(int argc, char **args)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	uint64_t until_ns = until(args[1]), from_ns = now_ns(), n = 0;

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	a.sin_port = htons((uint16_t)atoi(args[0]));
	for (; now_ns() < until_ns; n++) {
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (fd < 0)
			peer_die("socket");
		bind_source(fd, n);
		if (connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
			peer_die("connect");
		peer_ask(fd);
		close(fd);
	}
	printf("rate %.1f\n", (double)n * 1e9 / (double)(now_ns() - from_ns));
	return 0;
}

/* Not measured: somebody who always wants the core. */
int peer_busy(int argc, char **args)
{
	for (;;)
		__asm__ volatile("");
}

/* Not measured: has ld.so loaded the library, whose path is absolute? */
int peer_loaded(int argc, char **args)
{
	char line[4096 + 128];
	bool yes = false;
	FILE *f = fopen("/proc/self/maps", "re");

	while (f && !yes && fgets(line, sizeof(line), f))
		yes = strstr(line, args[0]);
	if (f)
		fclose(f);
	return yes ? EXIT_SUCCESS : EXIT_FAILURE;
}

static const struct peer {
	const char *name;
	int n_args;
	int (*run)(int argc, char **args);
} peers[] = {
	{ "echo", 1, peer_echo },
	{ "pingpong", 2, peer_pingpong },
	{ "asleep", 2, peer_asleep },
	{ "sink", 1, peer_sink },
	{ "flood", 2, peer_flood },
	{ "oneshot-server", 1, peer_oneshot_server },
	{ "oneshot", 2, peer_oneshot },
	{ "proof", 2, peer_proof },
	{ "idle-server", 1, peer_idle_server },
	{ "idle", 3, peer_idle },
	{ "memcached", 3, peer_memcached },
	{ "passthrough", 1, peer_passthrough },
	{ "read-zero", 1, peer_read_zero },
	{ "vma-dummy", 1, peer_vma_dummy },
	{ "xlio-echo", 1, peer_xlio_echo },
	{ "xlio-pingpong", 2, peer_xlio_pingpong },
	{ "xlio-sink", 1, peer_xlio_sink },
	{ "xlio-flood", 2, peer_xlio_flood },
	{ "xlio-serve", 3, peer_xlio_serve },
	{ "xlio-idle", 1, peer_xlio_idle },
	{ "xlio-memory", 2, peer_xlio_memory },
	{ "vma-echo", 1, peer_vma_echo },
	{ "vma-pingpong", 2, peer_vma_pingpong },
	{ "vma-sink", 1, peer_vma_sink },
	{ "vma-zcopy", 1, peer_vma_zcopy },
	{ "vma-udp", 1, peer_vma_udp },
	{ "plain-udp", 1, peer_plain_udp },
	{ "vma-udp-joined", 1, peer_vma_udp_joined },
	{ "plain-udp-joined", 1, peer_plain_udp_joined },
	{ "vma-callback", 1, peer_vma_callback },
	{ "plain-sink", 1, peer_plain_sink },
	{ "plain-flood", 2, peer_plain_flood },
	{ "epoll-serve", 3, peer_epoll_serve },
	{ "engine", 2, peer_engine },
	{ "busy", 0, peer_busy },
	{ "loaded", 1, peer_loaded },
	{ "frame-echo", 1, peer_frame_echo },
	{ "frame-ask", 2, peer_frame_ask },
	{ "moves", 2, peer_moves },
	{ "udp-echo", 1, peer_udp_echo },
	{ "udp-pingpong", 2, peer_udp_pingpong },
	{ "udp-sink", 1, peer_udp_sink },
	{ "udp-flood", 2, peer_udp_flood },
	{ "rdma-idle", 1, peer_rdma_idle },
};

int cmd_bench_peer(int argc, char **argv)
{
	for (size_t i = 0; argc > 1 && i < sizeof(peers) / sizeof(*peers); i++)
		if (strcmp(peers[i].name, argv[1]) == 0 &&
		    argc - 2 == peers[i].n_args)
			return peers[i].run(argc - 2, argv + 2);
	complain("bench-peer is what `osf bench' starts");
	return EXIT_USAGE;
}
