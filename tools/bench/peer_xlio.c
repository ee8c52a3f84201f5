/* SPDX-License-Identifier: MIT */
/*
 * tools/bench/peer_xlio.c - the benchmarks' peers that use the XLIO API
 *
 *     xlio-echo   <- xlio-pingpong   64 bytes there and back
 *     xlio-sink   <- xlio-flood      64 KB, one way;  plain-sink <- plain-flood;
 *                                    who receives looks at each line of it
 *     xlio-serve; epoll-serve        with their load, peer_load.c
 *     xlio-idle, xlio-memory         one process, many sockets
 *
 * The API is found at run time, so they are of use under osf only.
 */
#include "osf.h"
#include "peer.h"
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <mellanox/xlio_extra.h>
#include <osf/group.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define WARM_UP 20000
#define ROUND_TRIPS 10000
#define BLOCK PEER_BLOCK
#define BLOCKS 16 /* under way at once */
#define IDLE_POLLS 2000000
#define IDLE_YIELD 1024 /* turns */
#define NOW (XLIO_SOCKET_SEND_FLAG_FLUSH | XLIO_SOCKET_SEND_FLAG_INLINE)

static const struct xlio_api_t *api;
static xlio_poll_group_t group;
static xlio_socket_t sock; /* the connection, once there is one */
static size_t received;
static unsigned n_accepted, n_closed, n_established;

static void on_event(xlio_socket_t s, uintptr_t userdata, int event, int value)
{
	switch (event) {
	case XLIO_SOCKET_EVENT_ESTABLISHED:
		n_established++;
		break;
	case XLIO_SOCKET_EVENT_ERROR:
		errno = value;
		peer_die("connection");
	case XLIO_SOCKET_EVENT_CLOSED:
		n_closed++;
		api->xlio_socket_destroy(s);
		break;
	default:
		break;
	}
}

static void on_accept(xlio_socket_t s, xlio_socket_t parent, uintptr_t userdata)
{
	int on = 1;

	sock = s;
	n_accepted++;
	api->xlio_socket_setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &on,
				    sizeof(on));
}

static void on_rx_count(xlio_socket_t s, uintptr_t userdata, void *data,
			size_t len, struct xlio_buf *buf)
{
	received += len;
	api->xlio_socket_buf_free(s, buf);
}

static void on_rx_look(xlio_socket_t s, uintptr_t userdata, void *data,
		       size_t len, struct xlio_buf *buf)
{
	peer_look_at(data, len);
	on_rx_count(s, userdata, data, len, buf);
}

static void on_rx_echo(xlio_socket_t s, uintptr_t userdata, void *data,
		       size_t len, struct xlio_buf *buf)
{
	struct xlio_socket_send_attr attr = { .flags = NOW };

	received += len;
	if (api->xlio_socket_send(s, data, len, &attr) < 0)
		peer_die("xlio_socket_send");
	api->xlio_socket_buf_free(s, buf);
}

static unsigned n_free = BLOCKS;

static void on_comp(xlio_socket_t s, uintptr_t userdata, uintptr_t op)
{
	n_free++;
}

static void open_api(xlio_socket_rx_cb_t on_rx)
{
	struct xlio_poll_group_attr attr = { .socket_event_cb = on_event,
					     .socket_comp_cb = on_comp,
					     .socket_rx_cb = on_rx,
					     .socket_accept_cb = on_accept };
	struct xlio_init_attr init = { 0 };

	peer_raise_files();
	api = xlio_get_api();
	if (!api || api->xlio_init_ex(&init) < 0 ||
	    api->xlio_poll_group_create(&attr, &group) < 0)
		peer_die("the XLIO API");
}

static xlio_socket_t new_socket(xlio_poll_group_t in)
{
	struct xlio_socket_attr attr = { .domain = AF_INET, .group = in };
	xlio_socket_t s;
	int on = 1;

	if (api->xlio_socket_create(&attr, &s) < 0)
		peer_die("xlio_socket_create");
	api->xlio_socket_setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on,
				    sizeof(on));
	return s;
}

static struct sockaddr_in loopback(const char *port)
{
	struct sockaddr_in a = { .sin_family = AF_INET };

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	a.sin_port = htons((uint16_t)atoi(port));
	return a;
}

static void open_server(const char *port)
{
	struct sockaddr_in a = loopback(port);
	xlio_socket_t s = new_socket(group);

	if (api->xlio_socket_bind(s, (struct sockaddr *)&a, sizeof(a)) < 0 ||
	    api->xlio_socket_listen(s) < 0)
		peer_die("listen");
}

static void open_client(const char *port)
{
	struct sockaddr_in a = loopback(port);

	sock = new_socket(group);
	if (api->xlio_socket_connect(sock, (struct sockaddr *)&a, sizeof(a)) <
	    0)
		peer_die("connect");
	while (!n_established)
		api->xlio_poll_group_poll(group);
	on_accept(sock, 0, 0);
}

/* Spins, and yields the core when nothing has come for long, because the peer may need the
 * same core. */
static void turn(void)
{
	static size_t seen;
	static unsigned idle;

	api->xlio_poll_group_poll(group);
	if (++idle % IDLE_YIELD)
		return;
	if (seen == received)
		sched_yield();
	seen = received;
}

static void poll_until_closed(void)
{
	while (!n_closed)
		turn();
	for (int i = 0; i < 100; i++)
		turn();
}

int peer_xlio_echo(int argc, char **args)
{
	open_api(on_rx_echo);
	open_server(args[0]);
	poll_until_closed();
	return 0;
}

static void ask(void)
{
	static char message[PEER_BYTES];
	struct xlio_socket_send_attr attr = { .flags = NOW };
	size_t want = received + PEER_BYTES;

	if (api->xlio_socket_send(sock, message, sizeof(message), &attr) < 0)
		peer_die("xlio_socket_send");
	while (received < want)
		turn();
}

int peer_xlio_pingpong(int argc, char **args)
{
	struct times times;

	open_api(on_rx_count);
	open_client(args[0]);
	times_init(&times);
	for (unsigned i = 0; i < WARM_UP; i++)
		ask();
	uint64_t until_ns = now_ns() + (uint64_t)(atof(args[1]) * 1e9);
	uint64_t before = tick_now();
	while (times.n < ROUND_TRIPS ||
	       (now_ns() < until_ns && times.n < TIMES_MAX))
		for (unsigned i = 0; i < 1000; i++) {
			ask();
			uint64_t now = tick_now();
			times_add(&times, now - before);
			before = now;
		}
	printf("one_way_us %.4f\n", times_median_ns(&times) / 2000);
	times_fini(&times);
	return 0;
}

int peer_xlio_sink(int argc, char **args)
{
	open_api(on_rx_look);
	open_server(args[0]);
	uint64_t sum = 0;
	struct xlio_socket_send_attr attr = { .flags = NOW };
	/* The flood says how much it was by a byte that is not of a block. */
	while (received % BLOCK != 1 || !received)
		turn();
	sum = received;
	if (api->xlio_socket_send(sock, &sum, sizeof(sum), &attr) < 0)
		peer_die("xlio_socket_send");
	poll_until_closed();
	return 0;
}

/* Of osf's own allocator, so that it is sent by reference. */
static void *shared_blocks(void)
{
	struct osf_xlio_api osf = { .size = sizeof(osf),
				    .comp_mask = OSF_XLIO_API_MEM };
	socklen_t len = sizeof(osf);
	void *blocks = NULL;

	if (!getsockopt(-2, SOL_SOCKET, OSF_SO_XLIO_API, &osf, &len))
		blocks = osf.mem_alloc((size_t)BLOCKS * BLOCK);
	if (!blocks)
		peer_die("memory");
	memset(blocks, 1, (size_t)BLOCKS * BLOCK);
	return blocks;
}

int peer_xlio_flood(int argc, char **args)
{
	char(*blocks)[BLOCK] = shared_blocks();
	struct xlio_socket_send_attr attr = { .flags =
						  XLIO_SOCKET_SEND_FLAG_FLUSH,
					      .userdata_op = 1 };
	uint64_t n = 0;

	open_api(on_rx_count);
	open_client(args[0]);
	uint64_t from_ns = now_ns();
	uint64_t until_ns = from_ns + (uint64_t)(atof(args[1]) * 1e9);
	while (now_ns() < until_ns)
		for (unsigned i = 0; i < 64; i++) {
			while (!n_free)
				turn();
			n_free--;
			if (api->xlio_socket_send(sock, blocks[n++ % BLOCKS],
						  BLOCK, &attr) < 0)
				peer_die("xlio_socket_send");
		}
	attr = (struct xlio_socket_send_attr){ .flags = NOW };
	if (api->xlio_socket_send(sock, "", 1, &attr) < 0)
		peer_die("xlio_socket_send");
	while (received < sizeof(uint64_t))
		turn();
	printf("gbit %.3f\n",
	       (double)n * BLOCK * 8 / (double)(now_ns() - from_ns));
	return 0;
}

/* The same by send() and recv(). */
int peer_plain_sink(int argc, char **args)
{
	static char buf[BLOCK];
	int fd = peer_accept(peer_listen(args[0]));
	uint64_t sum = 0;
	ssize_t n;

	while (sum % BLOCK != 1 || !sum) {
		if ((n = recv(fd, buf, sizeof(buf), 0)) <= 0)
			peer_die("recv");
		peer_look_at(buf, (size_t)n);
		sum += (uint64_t)n;
	}
	peer_send(fd, &sum, sizeof(sum));
	while (recv(fd, buf, sizeof(buf), 0) > 0)
		;
	return 0;
}

int peer_plain_flood(int argc, char **args)
{
	static char blocks[BLOCKS][BLOCK];
	int fd = peer_connect(args[0]);
	uint64_t n = 0, sum, from_ns = now_ns();
	uint64_t until_ns = from_ns + (uint64_t)(atof(args[1]) * 1e9);

	while (now_ns() < until_ns)
		for (unsigned i = 0; i < 64; i++)
			peer_send(fd, blocks[n++ % BLOCKS], BLOCK);
	peer_send(fd, "", 1);
	if (!peer_recv(fd, &sum, sizeof(sum)))
		peer_die("recv");
	printf("gbit %.3f\n",
	       (double)n * BLOCK * 8 / (double)(now_ns() - from_ns));
	return 0;
}

/* An echo server for any number of connections, which stay with the kernel. */
int peer_xlio_serve(int argc, char **args)
{
	open_api(on_rx_echo);
	if (api->add_conf_rule("use os tcp_server *:*") < 0 ||
	    api->add_conf_rule("use os tcp_client *:*") < 0)
		peer_die("rule");
	open_server(args[0]);
	return peer_load(args[0], args + 1, turn, &received);
}

int peer_xlio_idle(int argc, char **args)
{
	unsigned n = (unsigned)atoi(args[0]) / 2;
	struct sockaddr_in a = { .sin_family = AF_INET };
	socklen_t len = sizeof(a);
	xlio_socket_t listener;

	open_api(on_rx_count);
	listener = new_socket(group);
	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (api->xlio_socket_bind(listener, (struct sockaddr *)&a, len) < 0 ||
	    api->xlio_socket_listen(listener) < 0 ||
	    api->xlio_socket_getsockname(listener, (struct sockaddr *)&a, &len))
		peer_die("listen");
	for (unsigned i = 0; i < n; i++) {
		xlio_socket_t s = new_socket(group);

		if (api->xlio_socket_connect(s, (struct sockaddr *)&a, len) < 0)
			peer_die("connect");
		while (n_established <= i || n_accepted <= i)
			api->xlio_poll_group_poll(group);
	}
	for (unsigned i = 0; i < WARM_UP; i++)
		api->xlio_poll_group_poll(group);
	uint64_t best = UINT64_MAX;
	for (unsigned round = 0; round < 10; round++) {
		uint64_t from_ns = now_ns();

		for (unsigned i = 0; i < IDLE_POLLS / 10; i++)
			api->xlio_poll_group_poll(group);
		uint64_t took = now_ns() - from_ns;
		best = took < best ? took : best;
	}
	printf("sockets %u\nns %.1f\n", n_established + n_accepted,
	       (double)best * 10 / IDLE_POLLS);
	return 0;
}

static uint64_t resident_bytes(void)
{
	unsigned long size, resident = 0;
	FILE *f = fopen("/proc/self/statm", "r");

	if (!f || fscanf(f, "%lu %lu", &size, &resident) != 2)
		peer_die("statm");
	fclose(f);
	return (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* As many sockets as there may be descriptors, in many groups. */
int peer_xlio_memory(int argc, char **args)
{
	unsigned n_groups = (unsigned)atoi(args[0]), n = 0;
	unsigned want = (unsigned)atoi(args[1]);
	struct xlio_poll_group_attr attr = { .socket_event_cb = on_event };
	struct rlimit rl = { want + 2048, want + 2048 };
	struct xlio_socket_attr sa = { .domain = AF_INET };
	xlio_poll_group_t *groups = calloc(n_groups, sizeof(*groups));
	xlio_socket_t s;

	setrlimit(RLIMIT_NOFILE, &rl); /* if we may */
	open_api(on_rx_count);
	sa.group = group;
	if (!groups || api->xlio_socket_create(&sa, &s) < 0)
		peer_die("memory");
	uint64_t before = resident_bytes();
	for (unsigned i = 0; i < n_groups; i++)
		if (api->xlio_poll_group_create(&attr, &groups[i]) < 0)
			peer_die("xlio_poll_group_create");
	for (; n < want; n++) {
		sa.group = groups[n % n_groups];
		if (api->xlio_socket_create(&sa, &s) < 0)
			break;
	}
	for (unsigned i = 0; i < 4 && n > 4; i++, n--) /* for a look at /proc */
		api->xlio_poll_group_destroy(groups[i]);
	printf("groups %u\nsockets %u\nbytes %.1f\n", n_groups, n,
	       (double)(resident_bytes() - before) / n);
	return 0;
}
