/* SPDX-License-Identifier: MIT */
/*
 * tests/port/pingpong.c - how long a 64 B frame takes over two ports and back
 *
 *     pingpong [ROUNDS]
 *     pingpong flight
 *
 * Two processes, two namespaces, one veth pair, no TCP: the floor of all that TCP over
 * a port can reach here.  Both busy poll.  Prints the median and the best of batches of
 * 200; it fails only when a frame is lost.
 *
 * With "flight" one process is both ends and has up to 50 questions under way, as frames
 * over the ports and as messages over the kernel's TCP.  Prints how much CPU a question and
 * its answer take each way.  What the kernel takes more is all that a port can save,
 * besides sleeps.
 */
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "ip/ip.h"
#include "osfd/steer.h"
#include "world.h"

#define FRAME 64
#define BATCH 200
#define LIMIT_S 20
#define FLIGHT_MAX 50
#define MESSAGE 10
#define QUESTIONS 40000u
#define ROUNDS 7

static struct world world;

static void open_port(enum place at, struct steer *s, struct packet_port *p)
{
	struct packet_ring ring = packet_ring_for(1500);
	struct sockaddr_storage local = world_addr(at, false, 7),
				peer = world_addr(!at, false, 7);
	struct steer_flow ours = { STEER_OURS, 0 };
	struct steer_key k;

	world_enter(&world, at);
	if (steer_open(s, world.ifindex[at], 1) ||
	    steer_key_of(&local, &peer, &k) || steer_set(s, &k, &ours) ||
	    packet_open(p,
			packet_socket(world.ifindex[at], &ring, s->filter_fd),
			&ring)) {
		fprintf(stderr, "no port\n");
		exit(1);
	}
}

static void make_frame(enum place at, uint8_t frame[FRAME])
{
	struct ip_addr us = ip_addr_v4(0x0a090001u + at),
		       peer = ip_addr_v4(0x0a090001u + !at);

	memset(frame, 0, FRAME);
	memcpy(frame, world.mac[!at], 6);
	memcpy(frame + 6, world.mac[at], 6);
	store_be16(frame + 12, 0x0800);
	ip_build(frame + 14, &us, &peer, IP_PROTO_TCP, 0, FRAME - 34);
	store_be16(frame + 34, 7);
	store_be16(frame + 36, 7);
}

static void send_one(struct packet_port *p, uint8_t frame[FRAME])
{
	struct iovec iov = { frame, FRAME };

	if (packet_tx(p, &iov, 1, NULL)) {
		perror("send");
		exit(1);
	}
}

static void wait_one(struct packet_port *p)
{
	struct packet_frame f;
	uint64_t end = 0;

	for (unsigned i = 1; !packet_rx(p, &f); i++) {
		__builtin_ia32_pause();
		if (i & 0xffff)
			continue;
		if (!end)
			end = now_ns() + LIMIT_S * NS_PER_S;
		if (now_ns() > end) {
			fprintf(stderr, "a frame is lost\n");
			exit(1);
		}
	}
	packet_rx_done(p);
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

struct flight {
	struct steer steer[2];
	struct packet_port port[2];
	uint8_t frame[2][FRAME];
	struct pair pair[FLIGHT_MAX];
	int set_fd[2]; /* the ends of the pairs */
};

static void must(bool is_good, const char *what)
{
	if (is_good)
		return;
	perror(what);
	exit(1);
}

static void flight_open(struct flight *f)
{
	for (int at = HERE; at <= THERE; at++) {
		open_port((enum place)at, &f->steer[at], &f->port[at]);
		make_frame((enum place)at, f->frame[at]);
		f->set_fd[at] = epoll_create1(EPOLL_CLOEXEC);
	}
	for (int i = 0; i < FLIGHT_MAX; i++) {
		pair_open(&world, false, HERE, &f->pair[i]);
		for (int at = HERE; at <= THERE; at++) {
			int fd = f->pair[i].end[at];
			struct epoll_event ev = { EPOLLIN, { .fd = fd } };
			must(epoll_ctl(f->set_fd[at], EPOLL_CTL_ADD, fd, &ev) ==
				 0,
			     "epoll_ctl");
		}
	}
}

static void by_frames(struct flight *f, enum place from, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		send_one(&f->port[from], f->frame[from]);
	for (unsigned i = 0; i < n; i++)
		wait_one(&f->port[!from]);
}

static void by_kernel(struct flight *f, enum place from, unsigned n)
{
	struct epoll_event ev[FLIGHT_MAX];
	char m[MESSAGE] = { 0 };

	for (unsigned i = 0; i < n; i++)
		must(send(f->pair[i].end[from], m, MESSAGE, 0) == MESSAGE,
		     "send");
	while (n) {
		int ready = epoll_wait(f->set_fd[!from], ev, FLIGHT_MAX,
				       LIMIT_S * 1000);
		must(ready > 0, "epoll_wait");
		for (int i = 0; i < ready; i++)
			must(recv(ev[i].data.fd, m, MESSAGE, 0) == MESSAGE,
			     "recv");
		n -= (unsigned)ready;
	}
}

/* The least of some rounds, in microseconds. */
static double flight_cost(struct flight *f, unsigned n,
			  void (*by)(struct flight *f, enum place from,
				     unsigned n))
{
	uint64_t least = UINT64_MAX;

	for (int i = 0; i < ROUNDS; i++) {
		uint64_t start = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
		for (unsigned k = 0; k < QUESTIONS; k += n) {
			by(f, HERE, n);
			by(f, THERE, n);
		}
		least = MIN(least, clock_ns(CLOCK_PROCESS_CPUTIME_ID) - start);
	}
	return (double)least / QUESTIONS / 1000;
}

static int flights(void)
{
	static const unsigned n_under_way[] = { 1, 4, 16, 32, FLIGHT_MAX };
	static struct flight f;

	flight_open(&f);
	for (size_t i = 0; i < ARRAY_LEN(n_under_way); i++)
		printf("%2u under way: frames %.2f us of CPU, the kernel's TCP "
		       "%.2f us\n",
		       n_under_way[i],
		       flight_cost(&f, n_under_way[i], by_frames),
		       flight_cost(&f, n_under_way[i], by_kernel));
	return 0;
}

int main(int argc, char **argv)
{
	unsigned n = argc > 1 ? (unsigned)atoi(argv[1]) : 5000;
	struct steer s;
	struct packet_port p;
	uint8_t frame[FRAME];

	world_open(&world);
	if (argc > 1 && strcmp(argv[1], "flight") == 0)
		return flights();
	n -= n % BATCH;
	uint64_t *took = calloc(n / BATCH + 1, sizeof(*took));
	int ready[2];
	if (!took || pipe(ready) < 0)
		return 1;
	pid_t pid = fork();
	enum place at = pid ? HERE : THERE;
	open_port(at, &s, &p);
	make_frame(at, frame);
	if (!pid) {
		if (write(ready[1], "x", 1) != 1)
			return 1;
		for (unsigned i = 0; i < n; i++) {
			wait_one(&p);
			send_one(&p, frame);
		}
		_exit(0);
	}
	char c;
	if (read(ready[0], &c, 1) != 1)
		return 1;
	for (unsigned i = 0; i < n; i++) {
		uint64_t start = now_ns();
		send_one(&p, frame);
		wait_one(&p);
		took[i / BATCH] += now_ns() - start;
	}
	int status;
	waitpid(pid, &status, 0);
	qsort(took, n / BATCH, sizeof(*took), compare);
	printf("64 B there and back: median %.2f us, best %.2f us\n",
	       (double)took[n / BATCH / 2] / BATCH / 1000,
	       (double)took[0] / BATCH / 1000);
	free(took);
	return status ? 1 : 0;
}
