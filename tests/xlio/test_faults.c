/* SPDX-License-Identifier: MIT */
/* tests/xlio/test_faults.c - what goes wrong: peers, addresses, limits, memory */
#include "xlio_test.h"

#include <netinet/tcp.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define FLUSH XLIO_SOCKET_SEND_FLAG_FLUSH
#define INLINE XLIO_SOCKET_SEND_FLAG_INLINE

static void a_closed_port_refuses(void)
{
	struct sockaddr_storage gone;

	world_open(0);
	memcpy(&gone, &w->addr, sizeof(gone));
	end_destroy(w->listening);
	UNTIL(w->listening->is_gone);
	struct end *e = end_new(w->client, AF_INET);
	EXPECT_EQ(
	    xlio_socket_connect(e->sock, (struct sockaddr *)&gone, w->addr_len),
	    0);
	UNTIL(e->n_error);
	EXPECT_EQ(e->error, ECONNREFUSED);
	EXPECT_EQ(e->n_established, 0);
	struct xlio_socket_send_attr attr = { .flags = FLUSH };
	EXPECT_ERR(xlio_socket_send(e->sock, "x", 1, &attr), ECONNREFUSED);
	EXPECT_ERR(
	    xlio_socket_connect(e->sock, (struct sockaddr *)&gone, w->addr_len),
	    ECONNABORTED);
	EXPECT_ERR(xlio_socket_detach_group(e->sock), EINVAL);
	poll_n(100);
	EXPECT(!e->is_gone);
	world_close();
}

static void an_unreachable_address_ends_within_a_second(void)
{
	struct sockaddr_in in = { .sin_family = AF_INET,
				  .sin_port = htons(9),
				  .sin_addr.s_addr = htonl(0xf0000001) };
	int ms = 1;

	world_open(0);
	struct end *e = end_new(w->client, AF_INET);
	EXPECT_EQ(xlio_socket_setsockopt(e->sock, IPPROTO_TCP, TCP_USER_TIMEOUT,
					 &ms, sizeof(ms)),
		  0);
	/* Never beyond this host, whatever would answer there. */
	EXPECT_EQ(xlio_socket_setsockopt(e->sock, SOL_SOCKET, SO_BINDTODEVICE,
					 "lo", 3),
		  0);
	double start = now();
	EXPECT_EQ(xlio_socket_connect(e->sock, (void *)&in, sizeof(in)), 0);
	UNTIL(e->n_error);
	EXPECT(now() - start < 1);
	EXPECT(e->error == ETIMEDOUT || e->error == ECONNREFUSED);
	world_close();
}

/* A listener whose queue is full answers no SYN. */
static void a_user_timeout_bounds_connecting(void)
{
	struct sockaddr_in in = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(in);
	int fd = socket(AF_INET, SOCK_STREAM, 0), ms = 1;
	struct end *e[4];

	world_open(0);
	EXPECT_EQ(bind(fd, (void *)&in, len), 0);
	EXPECT_EQ(listen(fd, 0), 0);
	EXPECT_EQ(getsockname(fd, (void *)&in, &len), 0);
	for (int i = 0; i < 4; i++) {
		e[i] = end_new(w->client, AF_INET);
		EXPECT_EQ(xlio_socket_setsockopt(e[i]->sock, IPPROTO_TCP,
						 TCP_USER_TIMEOUT, &ms,
						 sizeof(ms)),
			  0);
		EXPECT_EQ(xlio_socket_connect(e[i]->sock, (void *)&in, len), 0);
	}
	double start = now();
	UNTIL(e[3]->n_error);
	EXPECT_EQ(e[3]->error, ETIMEDOUT);
	EXPECT(now() - start < 1);
	close(fd);
	world_close();
}

/* A peer in another process, which talks a little and is killed. */
static void the_peer_is_killed(void)
{
	world_open(0);
	for (int i = 0; i < 10; i++) {
		int n = w->listening->n_accepted;
		pid_t pid = fork();

		if (!pid) {
			int fd = socket(AF_INET, SOCK_STREAM, 0);
			char byte;

			if (connect(fd, (struct sockaddr *)&w->addr,
				    w->addr_len))
				_exit(1);
			for (int k = 0; k < 20; k++)
				if (send(fd, "q", 1, 0) != 1 ||
				    recv(fd, &byte, 1, 0) != 1)
					_exit(1);
			pause();
			_exit(0);
		}
		UNTIL(w->listening->n_accepted > n);
		struct end *s = w->newest;
		for (size_t k = 1; k <= 20; k++) {
			UNTIL(s->received == k);
			end_send(s, "a", 1, FLUSH);
		}
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		UNTIL(s->n_closed || s->n_error);
		UNTIL(s->n_comps == s->n_ops || s->n_error);
		end_destroy(s);
		UNTIL(s->is_gone);
	}
	world_close();
}

static void the_peer_resets_under_load(void)
{
	static uint8_t data[1 << 20];
	struct linger l = { .l_onoff = 1 };
	struct end *c, *s;

	world_open(0);
	for (int i = 0; i < 20; i++) {
		pair(&c, &s);
		for (int k = 0; k < 16; k++)
			end_send(c, data, sizeof(data), FLUSH);
		poll_n(i);
		EXPECT_EQ(xlio_socket_setsockopt(s->sock, SOL_SOCKET, SO_LINGER,
						 &l, sizeof(l)),
			  0);
		end_destroy(s);
		UNTIL(s->is_gone && (c->n_error || c->n_closed));
		if (!c->n_error) /* told by the next send */
			UNTIL(c->n_comps == c->n_ops || c->n_error);
		end_destroy(c);
		UNTIL(c->is_gone);
	}
	world_close();
}

static void too_many_descriptors(void)
{
	struct xlio_poll_group_attr attr = world_attr(0);
	struct rlimit old, few = { 40, 40 };
	struct xlio_socket_attr sa = { .domain = AF_INET };
	xlio_socket_t socks[100];
	xlio_poll_group_t g;
	int n = 0;

	world_open(0);
	EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &old), 0);
	few.rlim_max = old.rlim_max;
	EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
	struct end *e = &w->ends[w->n_ends++];
	*e = (struct end){ .world = w };
	sa.group = w->client;
	sa.userdata_sq = (uintptr_t)e;
	errno = 0;
	while (n < 100 && !xlio_socket_create(&sa, &socks[n]))
		n++;
	EXPECT(n < 100);
	EXPECT_EQ(errno, EMFILE);
	EXPECT_ERR(xlio_poll_group_create(&attr, &g), EMFILE);
	/* And an arrival waits until there is one. */
	EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &old), 0);
	e->is_destroyed = e->is_gone = true; /* below they come without rules */
	w->on_event = NULL;
	for (int i = 0; i < n; i++) {
		e->is_gone = false;
		e->n_terminated = 0;
		e->sock = socks[i];
		EXPECT_EQ(xlio_socket_destroy(socks[i]), 0);
		UNTIL(e->is_gone);
	}
	struct end *c, *s;
	pair(&c, &s);
	world_close();
}

static void an_arrival_waits_for_a_descriptor(void)
{
	struct rlimit old, few;
	struct end *c;
	int used = dup(0);

	world_open(0);
	c = end_connect();
	EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &old), 0);
	few = old;
	few.rlim_cur = (rlim_t)used;
	EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
	poll_n(50);
	EXPECT_EQ(w->listening->n_accepted, 0);
	EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &old), 0);
	UNTIL(c->n_established && w->listening->n_accepted == 1);
	close(used);
	world_close();
}

/*
 * Memory.
 */

static int allocs_left = -1, n_allocs;

static void *counted_alloc(size_t n)
{
	if (!allocs_left)
		return NULL;
	allocs_left--;
	n_allocs++;
	return malloc(n);
}

static void counted_free(void *p)
{
	n_allocs--;
	free(p);
}

static struct {
	uint8_t *at;
	size_t len;
} told[64];
static int n_told;

static void memory_told(void *addr, size_t len, size_t hugepage_size)
{
	EXPECT_EQ(hugepage_size, 0);
	EXPECT(n_told < 64);
	told[n_told].at = addr;
	told[n_told++].len = len;
}

static bool lies_in_told(struct end *e, void *data, size_t len,
			 struct xlio_buf *buf)
{
	(void)e, (void)buf;
	for (int i = 0; i < n_told; i++)
		if ((uint8_t *)data >= told[i].at &&
		    (uint8_t *)data + len <= told[i].at + told[i].len)
			return false;
	EXPECT(!"received data lies in memory that was told of");
	return false;
}

static void received_data_lies_in_memory_that_was_told_of(void)
{
	static uint8_t data[1 << 20];
	struct xlio_init_attr init = { .memory_cb = memory_told };

	for (int external = 0; external < 2; external++) {
		struct end *c, *s;

		if (external) {
			allocs_left = -1;
			init.memory_alloc = counted_alloc;
			init.memory_free = counted_free;
		}
		EXPECT_EQ(xlio_init_ex(&init), 0);
		world_open(0);
		w->on_rx = lies_in_told;
		pair(&c, &s);
		s->key = 4;
		stream_fill(data, 4, 0, sizeof(data));
		end_send(c, data, sizeof(data), FLUSH);
		UNTIL(s->received == sizeof(data));
		EXPECT(n_told > 0);
		EXPECT_EQ(external, n_allocs > 0);
		world_close();
		EXPECT_EQ(n_allocs, 0);
		memset(w, 0, sizeof(*w));
	}
}

/* Two ends and an allocator that gives out after @k calls: nothing may be lost or
 * sent in part, whatever fails. */
static int with_allocs(int k)
{
	static uint8_t data[3 << 20];
	struct xlio_init_attr init = { .memory_alloc = counted_alloc,
				       .memory_free = counted_free };
	struct xlio_socket_send_attr attr = { .flags = FLUSH | INLINE };
	struct end *c, *s;
	int n_failed = 0;
	size_t off = 0;

	allocs_left = -1;
	n_allocs = 0;
	EXPECT_EQ(xlio_init_ex(&init), 0);
	world_open(0);
	c = end_connect();
	UNTIL(c->n_established && w->listening->n_accepted == 1);
	s = w->newest;
	s->key = 8;
	stream_fill(data, 8, 0, sizeof(data));
	allocs_left = k;
	for (int i = 0; i < 6; i++) {
		size_t len = sizeof(data) / 6;

		if (xlio_socket_send(c->sock, data + off, len, &attr)) {
			EXPECT_EQ(errno, ENOMEM);
			n_failed++;
			allocs_left = 16; /* and then there is some again */
			EXPECT_EQ(
			    xlio_socket_send(c->sock, data + off, len, &attr),
			    0);
		}
		off += len;
		poll_n(3);
	}
	poll_n(20);
	n_failed += !allocs_left;
	allocs_left = -1;
	UNTIL(s->received == off);
	world_close();
	EXPECT_EQ(n_allocs, 0);
	memset(w, 0, sizeof(*w));
	return n_failed;
}

static void an_allocator_that_fails_at_any_call(void)
{
	int k = 0;

	while (with_allocs(k))
		EXPECT(++k < 64);
	EXPECT(k > 0);
	fprintf(stderr, "failed at each of %d calls\n", k);
}

/*
 * fork.
 */

static void a_child_has_none_of_the_parents_groups(void)
{
	struct end *c, *s;
	int status;

	world_open(0);
	pair(&c, &s);
	end_send(c, "not flushed", 11, 0);
	pid_t pid = fork();
	if (!pid) {
		struct end *mine, *peers;

		EXPECT_ERR(xlio_socket_destroy(c->sock), EINVAL);
		EXPECT_ERR(xlio_poll_group_destroy(w->client), EINVAL);
		errno = 0;
		xlio_poll_group_poll(w->client);
		EXPECT_EQ(errno, EINVAL);
		memset(w, 0, sizeof(*w));
		world_open(0); /* it makes its own */
		pair(&mine, &peers);
		end_send(mine, "child", 5, FLUSH);
		UNTIL(peers->received == 5);
		world_close();
		exit(0);
	}
	EXPECT_EQ(waitpid(pid, &status, 0), pid);
	EXPECT_EQ(status, 0);
	end_send(c, "parent", 6, FLUSH); /* goes on as before */
	UNTIL(s->received == 17 && c->n_comps == 2);
	world_close();
}

static void a_child_does_not_keep_connections_open(void)
{
	struct end *c, *s;

	world_open(0);
	pair(&c, &s);
	pid_t pid = fork();
	if (!pid) {
		pause();
		_exit(0);
	}
	end_destroy(c);
	UNTIL(c->is_gone && s->n_closed);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	world_close();
}

#define T(name)                                                                \
	{                                                                      \
#name, name                                                    \
	}
const struct test tests_faults[] = {
	T(a_closed_port_refuses),
	T(an_unreachable_address_ends_within_a_second),
	T(a_user_timeout_bounds_connecting),
	T(the_peer_is_killed),
	T(the_peer_resets_under_load),
	T(too_many_descriptors),
	T(an_arrival_waits_for_a_descriptor),
	T(received_data_lies_in_memory_that_was_told_of),
	T(an_allocator_that_fails_at_any_call),
	T(a_child_has_none_of_the_parents_groups),
	T(a_child_does_not_keep_connections_open),
	{ 0 },
};
