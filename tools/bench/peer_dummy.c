/* SPDX-License-Identifier: MIT */
/*
 * tools/bench/peer_dummy.c - the benchmarks' peer that sends after a pause
 *
 *     a millisecond of other memory -> [dummy sends] -> a timed send() of 64 bytes
 *
 * With and without dummy sends in turns, over a connection to itself, so nobody has to be
 * woken and what is timed is the send alone.
 */
#include "osf.h"
#include "peer.h"
#include <arpa/inet.h>
#include <mellanox/vma_extra.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAUSE_NS 1000000
#define OTHER_BYTES (4u << 20) /* more than the caches near a core */
#define DUMMIES 3
#define MOVED 100 /* round trips until a connection has moved to memory */
#define LEAST 100 /* pauses of each kind */

/* Both ends of a connection. */
static void connect_to_self(int fds[2])
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);
	int l = socket(AF_INET, SOCK_STREAM, 0);

	fds[0] = socket(AF_INET, SOCK_STREAM, 0);
	if (l < 0 || fds[0] < 0 || bind(l, (struct sockaddr *)&a, len) ||
	    listen(l, 1) || getsockname(l, (struct sockaddr *)&a, &len) ||
	    connect(fds[0], (struct sockaddr *)&a, len) ||
	    (fds[1] = accept(l, NULL, NULL)) < 0)
		peer_die("a connection to itself");
	close(l);
}

static void one_way(int from, int to)
{
	char buf[PEER_BYTES] = { 0 };

	peer_send(from, buf, sizeof(buf));
	if (!peer_recv(to, buf, sizeof(buf)))
		peer_die("recv");
}

/* The program does something else. */
static void pause_busy(void)
{
	static volatile char other[OTHER_BYTES];
	uint64_t until_ns = now_ns() + PAUSE_NS;

	for (size_t i = 0; i < sizeof(other); i += 64)
		other[i]++;
	while (now_ns() < until_ns)
		;
}

static uint64_t timed_send(const int fds[2], bool has_dummies)
{
	char buf[PEER_BYTES] = { 0 };

	pause_busy();
	for (int i = 0; i < DUMMIES && has_dummies; i++)
		if (send(fds[0], buf, sizeof(buf), VMA_SND_FLAGS_DUMMY) !=
		    sizeof(buf))
			peer_die("a dummy send");
	uint64_t before = tick_now();
	peer_send(fds[0], buf, sizeof(buf));
	uint64_t took = tick_now() - before;
	if (!peer_recv(fds[1], buf, sizeof(buf)))
		peer_die("recv");
	return took;
}

int peer_vma_dummy(int argc, char **args)
{
	struct times times[2];
	int fds[2];

	if (!vma_get_api())
		peer_die("VMA's extra API");
	connect_to_self(fds);
	for (int i = 0; i < MOVED; i++) {
		one_way(fds[0], fds[1]);
		one_way(fds[1], fds[0]);
	}
	times_init(&times[0]);
	times_init(&times[1]);
	uint64_t until_ns = now_ns() + (uint64_t)(atof(args[0]) * 1e9);
	while (times[1].n < LEAST || now_ns() < until_ns)
		for (int has = 0; has < 2; has++)
			times_add(&times[has], timed_send(fds, has));
	double without = times_median_ns(&times[0]);
	double with = times_median_ns(&times[1]);
	printf("without_ns %.0f\nwith_ns %.0f\nratio %.3f\n", without, with,
	       without > 0 ? with / without : 0);
	times_fini(&times[0]);
	times_fini(&times[1]);
	return 0;
}
