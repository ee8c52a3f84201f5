/* SPDX-License-Identifier: MIT */
/*
 * tests/app/soak_kills.c - peers that are killed under load
 *
 *     kills_run() -> round: a victim is started, LINKS connections with it are
 *                    opened, by one side or the other; a thread each moves bytes
 *                    in its own way; the victim is killed; each thread must see
 *                    the end within LATEST_US
 *
 * This process lives through all rounds, so what it holds after the first ones
 * is what it may hold at the end.
 */
#include "soak.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LINKS 2
#define LATEST_US 1000000ull
#define SETTLED 10           /* rounds after which holdings are counted first */
#define SLEEPERS (2 * LINKS) /* at once: the threads of two rounds */
#define LOOPBACK 0x7f000001u
#define TELL_FD 190 /* where a listening victim tells its port */

enum way { WAY_RECV, WAY_POLL, WAY_EPOLL, WAY_SELECT, WAY_SEND, WAYS };

static const char *const way_names[WAYS] = { "recv", "poll", "epoll", "select",
					     "send" };

struct link {
	int fd;
	uint32_t id;
	bool is_victim;
	enum way way;
	uint64_t rx_off, tx_off;
	uint64_t ended_us;
	pthread_t thread;
};

/* --- moving bytes --- */

/* Return: false at the end of the connection. */
static bool link_recv(struct link *l, int flags)
{
	uint64_t key = pattern_key(seed, l->id, !l->is_victim);
	char part[16384];
	ssize_t r = recv(l->fd, part, sizeof(part), flags);

	if (r < 0)
		return errno == EAGAIN || errno == EINTR;
	if (pattern_check(key, l->rx_off, part, (size_t)r) != (size_t)r)
		die("wrong bytes at %llu of connection %u",
		    (unsigned long long)l->rx_off, l->id);
	l->rx_off += (uint64_t)r;
	return r > 0;
}

static bool link_send(struct link *l, int flags)
{
	uint64_t key = pattern_key(seed, l->id, l->is_victim);
	char part[16384];
	size_t n = 1 + (l->tx_off * 7 + 100) % sizeof(part);

	pattern_fill(key, l->tx_off, part, n);
	ssize_t r = send(l->fd, part, n, flags | MSG_NOSIGNAL);
	if (r < 0)
		return errno == EAGAIN || errno == EINTR;
	l->tx_off += (uint64_t)r;
	return true;
}

static void wait_poll(const struct link *l)
{
	struct pollfd pfd = { .fd = l->fd, .events = POLLIN | POLLOUT };

	poll(&pfd, 1, -1);
}

static void wait_select(const struct link *l)
{
	fd_set in, ou;

	FD_ZERO(&in);
	FD_SET(l->fd, &in);
	ou = in;
	select(l->fd + 1, &in, &ou, NULL, NULL);
}

static void wait_epoll(const struct link *l, int ep)
{
	struct epoll_event ev;

	epoll_wait(ep, &ev, 1, -1);
}

static int epoll_of(const struct link *l)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLOUT };
	int ep = epoll_create1(EPOLL_CLOEXEC);

	if (ep < 0 || epoll_ctl(ep, EPOLL_CTL_ADD, l->fd, &ev))
		die("epoll: %s", strerror(errno));
	return ep;
}

/* Until the connection ends. */
static void link_pump(struct link *l)
{
	int ep = l->way == WAY_EPOLL ? epoll_of(l) : -1;
	bool lives = true;

	while (lives) {
		if (l->way == WAY_POLL)
			wait_poll(l);
		else if (l->way == WAY_SELECT)
			wait_select(l);
		else if (l->way == WAY_EPOLL)
			wait_epoll(l, ep);
		if (l->way == WAY_SEND) {
			lives = link_send(l, 0);
			continue;
		}
		link_send(l, MSG_DONTWAIT);
		lives = link_recv(l, l->way == WAY_RECV ? 0 : MSG_DONTWAIT);
	}
	l->ended_us = now_us();
	while (l->way == WAY_SEND && link_recv(l, 0))
		;
	if (ep >= 0)
		close(ep);
}

static void *link_main(void *p)
{
	link_pump(p);
	return NULL;
}

/* --- the victim --- */

/* victim connects|listens PORT FIRST_ID WAY */
int kills_part(int argc, char **argv)
{
	struct link l[LINKS];
	int listener = -1;

	if (argc < 5)
		return 2;
	uint16_t port = (uint16_t)atoi(argv[2]);
	if (!strcmp(argv[1], "listens")) {
		listener = listener_open(LOOPBACK, &port);
		if (write(TELL_FD, &port, sizeof(port)) != sizeof(port))
			die("telling the port: %s", strerror(errno));
	}
	for (int i = 0; i < LINKS; i++) {
		l[i] =
		    (struct link){ .is_victim = true,
				   .id = (uint32_t)atoi(argv[3]) + (uint32_t)i,
				   .way = WAY_POLL };
		l[i].fd = listener >= 0 ? accept(listener, NULL, NULL)
					: connect_to(LOOPBACK, port);
		if (l[i].fd < 0)
			die("accept: %s", strerror(errno));
	}
	/* A peer that sends and does not read is read from by nobody. */
	for (int i = 0; i < LINKS && atoi(argv[4]) != WAY_SEND; i++)
		pthread_create(&l[i].thread, NULL, link_main, &l[i]);
	pause();
	return 0;
}

/* --- the survivor --- */

struct round {
	uint32_t i;
	enum way way;
	bool victim_listens;
	uint64_t load_us;
	pid_t victim;
	struct link link[LINKS];
};

static void round_plan(struct round *r, uint32_t i)
{
	struct rng rng = { seed + i };

	*r = (struct round){ .i = i,
			     .way = (enum way)rng_below(&rng, WAYS),
			     .victim_listens = rng_one_in(&rng, 2) };
	r->load_us = rng_one_in(&rng, 4) ? rng_below(&rng, 3000)
					 : rng_below(&rng, 40000);
}

static pid_t victim_start(const struct round *r, uint16_t port)
{
	char *const words[] = {
		(char *)(uintptr_t) "kills",
		(char *)(uintptr_t) "victim",
		(char *)(uintptr_t)(r->victim_listens ? "listens" : "connects"),
		text(port),
		text(r->i * LINKS),
		text(r->way),
		NULL
	};

	return part_start(words, false);
}

/* Return: a listening victim's port. */
static uint16_t victim_listens(struct round *r)
{
	uint16_t port = 0;
	int tell[2];

	if (pipe(tell) || dup2(tell[1], TELL_FD) < 0)
		die("pipe: %s", strerror(errno));
	close(tell[1]);
	r->victim = victim_start(r, 0);
	close(TELL_FD);
	if (read(tell[0], &port, sizeof(port)) != sizeof(port))
		die("a victim did not start");
	close(tell[0]);
	return port;
}

static void links_open(struct round *r, int listener, uint16_t port)
{
	if (r->victim_listens)
		port = victim_listens(r);
	else
		r->victim = victim_start(r, port);
	for (int i = 0; i < LINKS; i++) {
		struct link *l = &r->link[i];

		l->id = r->i * LINKS + (uint32_t)i;
		l->way = r->way;
		l->fd = r->victim_listens ? connect_to(LOOPBACK, port)
					  : accept(listener, NULL, NULL);
		if (l->fd < 0)
			die("accept: %s", strerror(errno));
	}
}

/* Return: microseconds from the kill until the thread saw it. */
static uint64_t link_join(const struct round *r, struct link *l, uint64_t t0)
{
	struct timespec limit;

	clock_gettime(CLOCK_REALTIME, &limit);
	limit.tv_sec += HANG_S;
	if (pthread_timedjoin_np(l->thread, NULL, &limit))
		die("round %u: %s does not see that its peer was killed "
		    "(which %s), after %llu bytes in, %llu out",
		    r->i, way_names[r->way],
		    r->victim_listens ? "had accepted" : "had connected",
		    (unsigned long long)l->rx_off,
		    (unsigned long long)l->tx_off);
	close(l->fd);
	return l->ended_us > t0 ? l->ended_us - t0 : 0;
}

struct outcome {
	uint64_t sum_us, worst_us;
	enum way worst;
	unsigned n, n_late;
	uint64_t bytes;
};

static void round_run(uint32_t i, int listener, uint16_t port,
		      struct outcome *o)
{
	struct round r;

	round_plan(&r, i);
	links_open(&r, listener, port);
	for (int k = 0; k < LINKS; k++)
		if (pthread_create(&r.link[k].thread, NULL, link_main,
				   &r.link[k]))
			die("no more threads");
	sleep_us(r.load_us);
	uint64_t t0 = now_us();
	kill(r.victim, SIGKILL);
	for (int k = 0; k < LINKS; k++) {
		uint64_t us = link_join(&r, &r.link[k], t0);

		o->n++;
		o->sum_us += us;
		if (us > o->worst_us) {
			o->worst_us = us;
			o->worst = r.way;
		}
		o->n_late += us > LATEST_US;
		o->bytes += r.link[k].rx_off + r.link[k].tx_off;
	}
	waitpid(r.victim, NULL, 0);
}

/*
 * A closed connection may take a moment to disappear.  A process keeps the bells that it has
 * made, one for each thread that slept at the same time.  The kernel may still have a thread
 * that was joined when the threads of the next round begin, so there may be more bells than
 * a round has threads.  What else a round leaves differs by what each of its connections may
 * leave until another call: an inbox, and its address while a waiter looks there.  What is never
 * let go of grows with the rounds.
 */
static bool is_clean(const struct holdings *before, struct holdings *now)
{
	for (int i = 0; i < 30; i++) {
		holdings_take(now);
		if (now->n_fds <= before->n_fds + LINKS &&
		    now->n_names <= before->n_names &&
		    now->n_memfds <= before->n_memfds + LINKS &&
		    now->n_bells <= SLEEPERS &&
		    now->n_shared_maps <= before->n_shared_maps + LINKS &&
		    now->n_maps <= before->n_maps + 8)
			return true;
		sleep_us(100000);
	}
	return false;
}

/* What is left, for whoever reads the log. */
static void say_fds(void)
{
	char path[64], to[256];

	for (int fd = 0; fd < (1 << 20); fd++) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		ssize_t n = readlink(path, to, sizeof(to) - 1);

		if (n > 0)
			printf("  fd %d: %.*s\n", fd, (int)n, to);
	}
}

int kills_run(unsigned n)
{
	struct outcome o = { 0 };
	struct holdings before = { 0 }, now;
	unsigned files = shm_files();
	uint16_t port = 0;
	int listener = listener_open(LOOPBACK, &port);

	for (unsigned i = 0; i < n + SETTLED; i++) {
		if (i == SETTLED) {
			holdings_take(&before);
			o = (struct outcome){ 0 };
		}
		round_run(i, listener, port, &o);
	}
	bool clean = is_clean(&before, &now);
	bool ok = clean && !o.n_late && shm_files() <= files;
	if (!clean)
		say_fds();
	printf(
	    "soak kills: %s: seed %llu, %u killed, %u connections, seen after "
	    "%.2f ms on average, %.1f at worst (by %s), %u late, %.1f MB, left: "
	    "fds "
	    "%+d, bells %u, memfds %+d, shared maps %+d, maps %+d, names %+d, "
	    "/dev/shm %+d\n",
	    ok ? "ok" : "FAIL", (unsigned long long)seed, n, o.n,
	    (double)o.sum_us / 1e3 / o.n, (double)o.worst_us / 1e3,
	    way_names[o.worst], o.n_late, (double)o.bytes / 1e6,
	    (int)(now.n_fds - before.n_fds), now.n_bells,
	    (int)(now.n_memfds - before.n_memfds),
	    (int)(now.n_shared_maps - before.n_shared_maps),
	    (int)(now.n_maps - before.n_maps),
	    (int)(now.n_names - before.n_names), (int)(shm_files() - files));
	return !ok;
}
