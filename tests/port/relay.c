/* SPDX-License-Identifier: MIT */
/*
 * tests/port/relay.c - a bad wire between two devices
 *
 *     relay DEVICE DEVICE LOSS DOUBLE REORDER DELAY_US SEED
 *
 *     a device -> frame -> lost, doubled, late or in time -> the other device
 *
 * LOSS, DOUBLE and REORDER are of 10,000 frames of TCP.  All are late by DELAY_US, and those
 * that are reordered by up to LATE_US more.  Other frames are neither lost nor doubled.  The
 * ends' devices must cut frames to the MTU themselves and write whole checksums.  Prints
 * "relays" when it does, and ends when its standard input does, with what it did.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "unit.h"

#define FRAME_MAX 9216u
#define N_FRAMES 8192u
#define LATE_US 3000u
#define PARTS 10000u

#ifndef PACKET_IGNORE_OUTGOING
#define PACKET_IGNORE_OUTGOING 23
#endif

struct late {
	uint64_t at_ns, number;
	uint32_t len;
	int to;
	uint8_t bytes[FRAME_MAX];
};

static struct late *heap[N_FRAMES];
static uint32_t n_heap;
static uint64_t n_seen, n_lost, n_doubled, n_reordered;
static uint32_t loss, doubles, reorder, delay_us;
static struct rng rng;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static int open_device(const char *name)
{
	struct sockaddr_ll to = { .sll_family = AF_PACKET,
				  .sll_protocol = htons(ETH_P_ALL),
				  .sll_ifindex = (int)if_nametoindex(name) };
	int one = 1, room = 8 << 20;
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK, 0);

	if (fd < 0 ||
	    setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one,
		       sizeof(one)) ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room)) ||
	    bind(fd, (struct sockaddr *)&to, sizeof(to)))
		die(name);
	return fd;
}

static bool is_before(const struct late *a, const struct late *b)
{
	return a->at_ns != b->at_ns ? a->at_ns < b->at_ns
				    : a->number < b->number;
}

static void heap_put(struct late *l)
{
	uint32_t i = n_heap++;

	for (; i && is_before(l, heap[(i - 1) / 2]); i = (i - 1) / 2)
		heap[i] = heap[(i - 1) / 2];
	heap[i] = l;
}

static struct late *heap_take(void)
{
	struct late *first = heap[0], *last = heap[--n_heap];
	uint32_t i = 0, child;

	while ((child = 2 * i + 1) < n_heap) {
		if (child + 1 < n_heap &&
		    is_before(heap[child + 1], heap[child]))
			child++;
		if (!is_before(heap[child], last))
			break;
		heap[i] = heap[child];
		i = child;
	}
	heap[i] = last;
	return first;
}

static bool is_tcp(const uint8_t *f, size_t len)
{
	unsigned type = len > 67 ? (unsigned)(f[12] << 8 | f[13]) : 0;

	return (type == ETH_P_IP && f[23] == 6) ||
	       (type == ETH_P_IPV6 && f[20] == 6);
}

/* Nobody sends a reset again: a program that waits for one which is lost waits for ever, on
 * the kernel as well. */
static bool is_reset(const uint8_t *f)
{
	return f[f[12] == 0x08 ? 34 + 13 : 54 + 13] & 4;
}

static void pass(const uint8_t *f, size_t len, int to, uint64_t at_ns)
{
	struct late *l = n_heap < N_FRAMES ? malloc(sizeof(*l)) : NULL;

	if (!l) {
		n_lost++;
		return;
	}
	l->at_ns = at_ns;
	l->number = n_seen;
	l->len = (uint32_t)len;
	l->to = to;
	memcpy(l->bytes, f, len);
	heap_put(l);
}

static void take(int from, int to)
{
	uint8_t f[FRAME_MAX];
	ssize_t len;

	while ((len = recv(from, f, sizeof(f), 0)) > 0) {
		uint64_t at = now_ns() + delay_us * NS_PER_US;
		bool tcp = is_tcp(f, (size_t)len);

		n_seen++;
		if (tcp && rng_below(&rng, PARTS) < loss && !is_reset(f)) {
			n_lost++;
			continue;
		}
		if (tcp && rng_below(&rng, PARTS) < reorder) {
			n_reordered++;
			at += rng_below(&rng, LATE_US) * NS_PER_US;
		}
		pass(f, (size_t)len, to, at);
		if (tcp && rng_below(&rng, PARTS) < doubles) {
			n_doubled++;
			pass(f, (size_t)len, to,
			     at + rng_below(&rng, LATE_US) * NS_PER_US);
		}
	}
}

/* A frame that the device does not take is one more that is lost. */
static void send_due(void)
{
	while (n_heap && heap[0]->at_ns <= now_ns()) {
		struct late *l = heap_take();

		if (send(l->to, l->bytes, l->len, 0) < 0)
			n_lost++;
		free(l);
	}
}

static uint32_t number(const char *text)
{
	return (uint32_t)strtoul(text, NULL, 10);
}

int main(int argc, char **argv)
{
	if (argc != 8)
		return 2;
	prctl(PR_SET_TIMERSLACK, 1);
	int a = open_device(argv[1]), b = open_device(argv[2]);
	loss = number(argv[3]);
	doubles = number(argv[4]);
	reorder = number(argv[5]);
	delay_us = number(argv[6]);
	rng.state = number(argv[7]);
	printf("relays\n");
	fflush(stdout);
	for (;;) {
		struct pollfd p[] = { { a, POLLIN, 0 },
				      { b, POLLIN, 0 },
				      { 0, POLLIN, 0 } };
		uint64_t now = now_ns();
		uint64_t left =
		    n_heap && heap[0]->at_ns > now ? heap[0]->at_ns - now : 0;
		struct timespec t = ns_timespec(left);

		if (ppoll(p, 3, n_heap ? &t : NULL, NULL) < 0)
			die("poll");
		if (p[2].revents)
			break;
		take(a, b);
		take(b, a);
		send_due();
	}
	printf("%llu frames, %llu lost, %llu doubled, %llu reordered\n",
	       (unsigned long long)n_seen, (unsigned long long)n_lost,
	       (unsigned long long)n_doubled, (unsigned long long)n_reordered);
	return 0;
}
