/* SPDX-License-Identifier: MIT */
/*
 * tests/app/soak_conns.c - many connections, one after another and all at once
 *
 *     conns_run()  a server of THREADS threads; its clients are another process,
 *                  run twice: for the first twentieth, and for the rest.  Between
 *                  and after them nothing is open, and the server's memory is
 *                  measured.
 *     many_run()   connects N times, then moves bytes on all of them in both
 *                  directions; the server does the same.  One thread each.
 */
#include "soak.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define LOOPBACK 0x7f000001u
#define THREADS 4
#define MESSAGE_MAX 2000

/* What a few pages more or less make; sanitizers keep what was freed. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SLACK_BYTES (256 << 20)
#else
#define SLACK_BYTES (64 << 10)
#endif

/* --- one after another --- */

static _Atomic uint32_t next_id;
static _Atomic unsigned served;

static unsigned n_messages(uint32_t id) { return 3 + id % 4; }

static size_t message_bytes(uint32_t id, unsigned i)
{
	struct rng r = { pattern_key(seed, id, 2) + i };

	return rng_size(&r, MESSAGE_MAX);
}

static void message_send(int fd, uint32_t id, unsigned i, int direction)
{
	size_t n = message_bytes(id, i);
	char part[MESSAGE_MAX];

	pattern_fill(pattern_key(seed, id, direction), i * 1000, part, n);
	send_all(fd, part, n);
}

static void message_recv(int fd, uint32_t id, unsigned i, int direction)
{
	size_t n = message_bytes(id, i);
	uint64_t key = pattern_key(seed, id, direction);
	char part[MESSAGE_MAX];

	if (!recv_all(fd, part, n))
		die("connection %u ended before message %u", id, i);
	if (pattern_check(key, i * 1000, part, n) != n)
		die("wrong bytes in message %u of connection %u", i, id);
}

static void ends_here(int fd, uint32_t id)
{
	char byte;

	if (recv_all(fd, &byte, 1))
		die("bytes behind the end of connection %u", id);
}

/* The client closes connections of even numbers, the server the others. */
static void *server_main(void *p)
{
	int listener = *(int *)p;
	uint32_t id;

	for (;;) {
		int fd = accept(listener, NULL, NULL);
		if (fd < 0)
			die("accept: %s", strerror(errno));
		if (!recv_all(fd, &id, sizeof(id)))
			die("no number");
		for (unsigned i = 0; i < n_messages(id); i++) {
			message_recv(fd, id, i, 0);
			message_send(fd, id, i, 1);
		}
		if (id % 2 == 0)
			ends_here(fd, id);
		close(fd);
		served++;
	}
	return NULL;
}

static void *client_main(void *p)
{
	const unsigned *range = p; /* port, end */
	uint32_t id;

	while ((id = next_id++) < range[1]) {
		int fd = connect_to(LOOPBACK, (uint16_t)range[0]);

		send_all(fd, &id, sizeof(id));
		for (unsigned i = 0; i < n_messages(id); i++) {
			message_send(fd, id, i, 0);
			message_recv(fd, id, i, 1);
		}
		if (id % 2)
			ends_here(fd, id);
		close(fd);
	}
	return NULL;
}

/* client PORT FIRST END */
int conns_part(int argc, char **argv)
{
	pthread_t thread[THREADS];

	if (argc < 4)
		return 2;
	unsigned range[] = { (unsigned)atoi(argv[1]),
			     (unsigned)strtoul(argv[3], NULL, 10) };
	next_id = (uint32_t)strtoul(argv[2], NULL, 10);
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&thread[i], NULL, client_main, range))
			die("no more threads");
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	return 0;
}

/* Dies when nothing is served for HANG_S. */
static void conns_serve(uint16_t port, unsigned first, unsigned end)
{
	char *const words[] = { (char *)(uintptr_t) "conns",
				(char *)(uintptr_t) "client",
				text(port),
				text(first),
				text(end),
				NULL };
	pid_t pid = part_start(words, false);
	uint64_t since = now_us();
	unsigned seen = served;

	while (served < end) {
		sleep_us(20000);
		if (served != seen) {
			seen = served;
			since = now_us();
		}
		if (now_us() - since > HANG_S * 1000000ull)
			die("no connection was served in %d s, after %u",
			    HANG_S, seen);
	}
	part_wait(pid, "the client", HANG_S);
}

/* What is closed may take a moment to go. */
static void settle(struct holdings *h)
{
	uint64_t rss = 0;

	for (int i = 0; i < 10; i++) {
		holdings_take(h);
		if (h->rss == rss)
			break;
		rss = h->rss;
		sleep_us(100000);
	}
}

int conns_run(unsigned n)
{
	pthread_t thread[THREADS];
	struct holdings early, late;
	uint64_t start = now_us();
	uint16_t port = 0;
	int listener = listener_open(LOOPBACK, &port);

	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&thread[i], NULL, server_main, &listener))
			die("no more threads");
	conns_serve(port, 0, n / 20 + 1);
	settle(&early);
	conns_serve(port, n / 20 + 1, n);
	settle(&late);
	int64_t grown = (int64_t)late.rss - (int64_t)early.rss;
	bool ok = grown <= (int64_t)early.rss / 100 + SLACK_BYTES &&
		  late.n_fds <= early.n_fds &&
		  late.n_memfds <= early.n_memfds &&
		  late.n_maps <= early.n_maps + 8;
	printf(
	    "soak conns: %s: seed %llu, %u connections in %.1f s, resident "
	    "%.2f MB after 5 %%, %.2f MB at the end (%+.2f %%), anonymous %+d "
	    "kB, fds %+d, maps %+d\n",
	    ok ? "ok" : "FAIL", (unsigned long long)seed, n,
	    (double)(now_us() - start) / 1e6, (double)early.rss / 1e6,
	    (double)late.rss / 1e6, 100.0 * (double)grown / (double)early.rss,
	    (int)(late.anonymous - early.anonymous) / 1024,
	    (int)(late.n_fds - early.n_fds), (int)(late.n_maps - early.n_maps));
	return !ok;
}

/* --- all at once --- */

#define PER_ADDRESS 20000u /* connections; ports run out beyond 28000 */
#define STREAM_BYTES (96 << 10)

struct many {
	int fd;
	uint32_t id;
	bool is_server, knows_id, is_shut, saw_end, is_done;
	uint64_t rx_off, tx_off;
};

static uint8_t part[16384];

static uint64_t stream_bytes(uint32_t id, int direction)
{
	struct rng r = { pattern_key(seed, id, direction) };

	return STREAM_BYTES / 2 + rng_below(&r, STREAM_BYTES);
}

/* Return: did anything move? */
static bool many_recv(struct many *c)
{
	uint64_t key = pattern_key(seed, c->id, !c->is_server);
	uint8_t *p = part;
	ssize_t r = recv(c->fd, part, sizeof(part), MSG_DONTWAIT);

	if (r < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (r < 0)
		die("recv on connection %u: %s", c->id, strerror(errno));
	if (r == 0) {
		c->saw_end = true;
		if (c->rx_off != stream_bytes(c->id, !c->is_server))
			die("connection %u ended at %llu", c->id,
			    (unsigned long long)c->rx_off);
		return true;
	}
	if (!c->knows_id) { /* four bytes, which were sent in one piece */
		if (r < 4)
			die("a torn number");
		memcpy(&c->id, part, 4);
		c->knows_id = true;
		key = pattern_key(seed, c->id, 0);
		p += 4;
		r -= 4;
	}
	if (pattern_check(key, c->rx_off, p, (size_t)r) != (size_t)r)
		die("wrong bytes at %llu of connection %u",
		    (unsigned long long)c->rx_off, c->id);
	c->rx_off += (uint64_t)r;
	return true;
}

static bool many_send(struct many *c, struct rng *rng)
{
	uint64_t key = pattern_key(seed, c->id, c->is_server);
	uint64_t left = stream_bytes(c->id, c->is_server) - c->tx_off;
	size_t n = rng_size(rng, 8192);

	if (!c->knows_id || c->is_shut)
		return false;
	n = n < left ? n : left;
	pattern_fill(key, c->tx_off, part, n);
	ssize_t r = send(c->fd, part, n, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (r < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (r < 0)
		die("send on connection %u: %s", c->id, strerror(errno));
	c->tx_off += (uint64_t)r;
	if ((uint64_t)r == left) {
		if (shutdown(c->fd, SHUT_WR))
			die("shutdown: %s", strerror(errno));
		c->is_shut = true;
	}
	return true;
}

static void many_add(int ep, struct many *c)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLOUT, .data.ptr = c };

	if (epoll_ctl(ep, EPOLL_CTL_ADD, c->fd, &ev))
		die("epoll_ctl: %s", strerror(errno));
}

/* When all is sent, room for more is no news. */
static void many_step(int ep, struct many *c, uint32_t events, struct rng *rng)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = c };
	bool was_shut = c->is_shut;

	if (events & ~(uint32_t)EPOLLOUT)
		many_recv(c);
	if (events & EPOLLOUT)
		many_send(c, rng);
	if (!was_shut && c->is_shut && epoll_ctl(ep, EPOLL_CTL_MOD, c->fd, &ev))
		die("epoll_ctl: %s", strerror(errno));
	if (c->saw_end && c->is_shut) {
		close(c->fd);
		c->is_done = true;
	}
}

/* Until all @n are over. */
static void many_loop(int ep, unsigned n)
{
	struct epoll_event ev[64];
	struct rng rng = { seed + (uint64_t)getpid() };

	for (unsigned n_done = 0; n_done < n;) {
		int k = epoll_wait(ep, ev, 64, HANG_S * 1000);
		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			die("epoll_wait: %s", strerror(errno));
		if (!k)
			die("nothing has moved in %d s, %u of %u connections "
			    "are over",
			    HANG_S, n_done, n);
		for (int i = 0; i < k; i++) {
			many_step(ep, ev[i].data.ptr, ev[i].events, &rng);
			n_done += ((struct many *)ev[i].data.ptr)->is_done;
		}
	}
}

/* server LISTENER N */
int many_part(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	int listener = atoi(argv[1]);
	unsigned n = (unsigned)strtoul(argv[2], NULL, 10);
	struct many *all = calloc(n, sizeof(*all));
	int ep = epoll_create1(EPOLL_CLOEXEC);

	nofile_raise();
	for (unsigned i = 0; all && i < n; i++) {
		all[i] = (struct many){ .is_server = true };
		all[i].fd = accept(listener, NULL, NULL);
		if (all[i].fd < 0)
			die("accept: %s", strerror(errno));
		many_add(ep, &all[i]);
	}
	many_loop(ep, n);
	free(all);
	return 0;
}

static struct many *many_connect(int ep, unsigned n, uint16_t port)
{
	struct many *all = calloc(n, sizeof(*all));

	if (!all)
		die("no memory");
	for (unsigned i = 0; i < n; i++) {
		struct many *c = &all[i];

		*c = (struct many){ .id = i, .knows_id = true };
		c->fd = connect_to(LOOPBACK + i / PER_ADDRESS, port);
		send_all(c->fd, &c->id, sizeof(c->id));
	}
	for (unsigned i = 0; i < n; i++)
		many_add(ep, &all[i]);
	return all;
}

static uint64_t many_total(unsigned n)
{
	uint64_t total = 0;

	for (unsigned i = 0; i < n; i++)
		total += stream_bytes(i, 0) + stream_bytes(i, 1);
	return total;
}

int many_run(unsigned n)
{
	unsigned may = nofile_raise() - 64;
	uint64_t start = now_us();
	uint16_t port = 0;
	int listener = listener_open(0, &port);
	int ep = epoll_create1(EPOLL_CLOEXEC);

	if (n > may) {
		printf("soak many: only %u descriptors, so %u connections\n",
		       may + 64, may);
		n = may;
	}
	int inherited = dup(listener);
	char *const words[] = { (char *)(uintptr_t) "many",
				(char *)(uintptr_t) "server",
				text((uint64_t)inherited), text(n), NULL };
	pid_t pid = part_start(words, false);
	close(inherited);
	close(listener);
	struct many *all = many_connect(ep, n, port);
	uint64_t connected = now_us();
	many_loop(ep, n);
	part_wait(pid, "the server", HANG_S);
	uint64_t us = now_us() - connected;
	printf("soak many: ok: seed %llu, %u connections at a time, opened in "
	       "%.1f s, %.1f MB in %.1f s\n",
	       (unsigned long long)seed, n, (double)(connected - start) / 1e6,
	       (double)many_total(n) / 1e6, (double)us / 1e6);
	free(all);
	return 0;
}
