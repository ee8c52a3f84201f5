/* SPDX-License-Identifier: MIT */
/*
 * tools/bench/peer_many.c - the benchmarks' peers that have many connections
 *
 *     idle-server  <- idle       thousands that sleep, and one that does not
 *     memcached's  <- memcached  32 that always wait for one answer
 *
 * Both sides of idle hold every connection in one epoll set, as servers do.
 */
#include "osf.h"
#include "peer.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define EVENTS 256
#define IDLE_WARM_UP 5000
#define IDLE_ROUND_TRIPS 20000
#define IDLE_QUESTIONS 8 /* on each connection, before it falls asleep */
#define VALUE_BYTES 100
#define REPLY_BYTES 1024

static void watch(int ep, int fd)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.fd = fd };

	if (epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev) < 0)
		peer_die("epoll_ctl");
}

static int epoll_open(void)
{
	int ep = epoll_create1(EPOLL_CLOEXEC);

	if (ep < 0)
		peer_die("epoll_create1");
	return ep;
}

static int wait_for(int ep, struct epoll_event *events)
{
	int n = epoll_wait(ep, events, EVENTS, -1);

	if (n < 0 && errno != EINTR)
		peer_die("epoll_wait");
	return n;
}

/* Echoes whole messages; at the end of a connection, forgets it. */
static void serve(int fd)
{
	char buf[PEER_BYTES];

	if (peer_recv(fd, buf, sizeof(buf)))
		peer_send(fd, buf, sizeof(buf));
	else
		close(fd);
}

int peer_idle_server(int argc, char **args)
{
	struct epoll_event events[EVENTS];
	int ep = epoll_open();

	peer_raise_files();
	int listener = peer_listen(args[0]);
	watch(ep, listener);
	for (;;) {
		int n = wait_for(ep, events);

		for (int i = 0; i < n; i++)
			if (events[i].data.fd == listener)
				watch(ep, peer_accept(listener));
			else
				serve(events[i].data.fd);
	}
}

static double idle_latency_ns(int fd)
{
	struct times times;

	times_init(&times);
	for (unsigned i = 0; i < IDLE_WARM_UP; i++)
		peer_ask(fd);
	for (unsigned i = 0; i < IDLE_ROUND_TRIPS; i++) {
		uint64_t before = tick_now();
		peer_ask(fd);
		times_add(&times, tick_now() - before);
	}
	double ns = times_median_ns(&times);
	times_fini(&times);
	return ns;
}

/* Resident bytes of a process, shared memory included: proc(5), statm. */
static double resident_bytes(const char *pid)
{
	unsigned long size, resident;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%s/statm", pid);
	FILE *f = fopen(path, "re");
	if (!f || fscanf(f, "%lu %lu", &size, &resident) != 2)
		peer_die(path);
	fclose(f);
	return (double)resident * (double)sysconf(_SC_PAGESIZE);
}

static void open_idle(const char *port, int ep, unsigned n)
{
	for (unsigned i = 1; i < n; i++) {
		int fd = peer_connect(port);

		watch(ep, fd);
		for (unsigned j = 0; j < IDLE_QUESTIONS; j++)
			peer_ask(fd);
	}
}

int peer_idle(int argc, char **args)
{
	const char *port = args[0], *server = args[2];
	unsigned n = (unsigned)atoi(args[1]);
	int ep = epoll_open();

	peer_raise_files();
	int fd = peer_connect(port);
	watch(ep, fd);
	double alone_ns = idle_latency_ns(fd);

	double mine = resident_bytes("self"), theirs = resident_bytes(server);
	open_idle(port, ep, n);
	mine = (resident_bytes("self") - mine) / (n - 1);
	theirs = (resident_bytes(server) - theirs) / (n - 1);

	double among_ns = idle_latency_ns(fd);
	printf("alone_ns %.1f\namong_ns %.1f\nlatency_ratio %.4f\n", alone_ns,
	       among_ns, among_ns / alone_ns);
	printf("client %.1f\nserver %.1f\nbytes %.1f\n", mine, theirs,
	       mine > theirs ? mine : theirs);
	return 0;
}

/* One connection to memcached, and the reply that is coming in. */
struct asker {
	int fd;
	size_t len;
	char reply[REPLY_BYTES];
};

static const char get[] = "get key\r\n";
static const char get_end[] = "END\r\n";

/* Reads what there is; true when the whole reply was, and the next question
 * has been sent. */
static bool asker_turn(struct asker *a)
{
	const size_t end = sizeof(get_end) - 1;
	ssize_t n =
	    recv(a->fd, a->reply + a->len, sizeof(a->reply) - a->len, 0);

	if (n <= 0)
		peer_die("memcached's reply");
	a->len += (size_t)n;
	if (a->len < end || memcmp(a->reply + a->len - end, get_end, end) != 0)
		return false;
	if (a->len < VALUE_BYTES) {
		errno = ENODATA;
		peer_die("memcached lost the value");
	}
	a->len = 0;
	peer_send(a->fd, get, sizeof(get) - 1);
	return true;
}

static void store_value(const char *port)
{
	char value[VALUE_BYTES], reply[8];
	int fd = peer_connect(port);
	char *set = xasprintf("set key 0 0 %d\r\n", VALUE_BYTES);

	memset(value, 'v', sizeof(value));
	peer_send(fd, set, strlen(set));
	peer_send(fd, value, sizeof(value));
	peer_send(fd, "\r\n", 2);
	if (!peer_recv(fd, reply, 8) || memcmp(reply, "STORED\r\n", 8) != 0)
		peer_die("memcached did not store the value");
	free(set);
	close(fd);
}

int peer_memcached(int argc, char **args)
{
	struct epoll_event events[EVENTS];
	unsigned n_askers = (unsigned)atoi(args[1]);
	struct asker *askers = xcalloc(n_askers, sizeof(*askers));
	uint64_t n_answers = 0;
	int ep = epoll_open();

	store_value(args[0]);
	for (unsigned i = 0; i < n_askers; i++) {
		struct epoll_event ev = { .events = EPOLLIN };
		askers[i].fd = peer_connect(args[0]);
		ev.data.ptr = &askers[i];
		if (epoll_ctl(ep, EPOLL_CTL_ADD, askers[i].fd, &ev) < 0)
			peer_die("epoll_ctl");
		peer_send(askers[i].fd, get, sizeof(get) - 1);
	}

	uint64_t from_ns = now_ns();
	uint64_t until_ns = from_ns + (uint64_t)(atof(args[2]) * 1e9);
	while (now_ns() < until_ns) {
		int n = wait_for(ep, events);
		for (int i = 0; i < n; i++)
			n_answers += asker_turn(events[i].data.ptr);
	}
	printf("rate %.1f\n",
	       (double)n_answers * 1e9 / (double)(now_ns() - from_ns));
	free(askers);
	return 0;
}
