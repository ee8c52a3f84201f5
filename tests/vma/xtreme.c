/* SPDX-License-Identifier: MIT */
/* tests/vma/xtreme.c - see tests/vma/xtreme.h */
#include "xtreme.h"

#include <netinet/tcp.h>
#include <time.h>

#define ROOMS_MAX 32 /* connections of a test that may say it once more */

int ring_of(int fd)
{
	int ring = -1;

	EXPECT_EQ(api->get_socket_rings_num(fd), 1);
	EXPECT_EQ(api->get_socket_rings_fds(fd, &ring, 1), 1);
	EXPECT(ring >= 0);
	return ring;
}

int listener(struct sockaddr_in *at, int *ring)
{
	socklen_t len = sizeof(*at);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	*at = (struct sockaddr_in){ .sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	EXPECT_EQ(bind(fd, (struct sockaddr *)at, len), 0);
	EXPECT_EQ(listen(fd, 1000), 0);
	EXPECT_EQ(getsockname(fd, (struct sockaddr *)at, &len), 0);
	*ring = ring_of(fd);
	return fd;
}

int connecting(const struct sockaddr_in *at)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	int r = connect(fd, (const struct sockaddr *)at, sizeof(*at));

	EXPECT(!r || errno == EINPROGRESS);
	return fd;
}

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

struct vma_completion_t next(int ring)
{
	struct vma_completion_t c;
	double end = now() + 20;
	int n;

	do
		n = api->socketxtreme_poll(ring, &c, 1, 0);
	while (!n && now() < end);
	EXPECT_EQ(n, 1);
	return c;
}

struct vma_completion_t next_packet(int ring, const void *data, size_t n)
{
	struct vma_completion_t c = next(ring);

	EXPECT_EQ(c.events & ~(uint64_t)EPOLLOUT, PACKET);
	EXPECT_EQ(c.packet.num_bufs, 1);
	EXPECT_EQ(c.packet.total_len, n);
	EXPECT_EQ(c.packet.buff_lst->len, n);
	EXPECT(!c.packet.buff_lst->next);
	EXPECT(!memcmp(c.packet.buff_lst->payload, data, n));
	return c;
}

/* A connection that leaves a module or our own TCP, at a fork, says once more that it has
 * room. */
void nothing(int ring)
{
	struct vma_completion_t c = { .events = 0 };
	double end = now() + 0.02;
	unsigned n_room = 0;

	do
		if (api->socketxtreme_poll(ring, &c, 1, 0) &&
		    !(c.events == EPOLLOUT && n_room++ < ROOMS_MAX &&
		      (is_protocol("module") || is_protocol("tcp"))))
			EXPECT_EQ(c.events, 0);
	while (now() < end);
}

struct ends xtreme_ends(int ring, const struct sockaddr_in *at)
{
	struct ends e = { .tx = connecting(at) };
	struct vma_completion_t c = next(ring);
	socklen_t len = sizeof(e.tx_addr);
	int one = 1;

	EXPECT_EQ(c.events, NEW_CONNECTION);
	e.rx = (int)c.user_data;
	setsockopt(e.tx, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	EXPECT_EQ(getsockname(e.tx, (struct sockaddr *)&e.tx_addr, &len), 0);
	EXPECT_EQ(getsockname(e.rx, (struct sockaddr *)&e.rx_addr, &len), 0);
	/* Long enough to move to shared memory. */
	for (int i = 0; i < 40; i++) {
		char b;

		say(&e, "x", 1);
		c = next_packet(ring, "x", 1);
		EXPECT_EQ(api->socketxtreme_free_vma_packets(&c.packet, 1), 0);
		EXPECT_EQ(send(e.rx, "y", 1, 0), 1);
		while (recv(e.tx, &b, 1, 0) != 1)
			EXPECT_EQ(errno, EAGAIN);
	}
	return e;
}
