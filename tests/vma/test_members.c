/* SPDX-License-Identifier: MIT */
/* tests/vma/test_members.c - SocketXtreme: who is a member of a ring */
#include "xtreme.h"

#include <fcntl.h>

static int udp_at(int family, struct sockaddr_storage *at)
{
	socklen_t len = sizeof(*at);
	int fd = socket(family, SOCK_DGRAM, 0);

	memset(at, 0, sizeof(*at));
	at->ss_family = (sa_family_t)family;
	EXPECT_EQ(bind(fd, (struct sockaddr *)at, len), 0);
	EXPECT_EQ(getsockname(fd, (struct sockaddr *)at, &len), 0);
	return fd;
}

/* VMA_SOCKETXTREME=1: nobody asks for the socket's ring. */
static void sockets_join_if_told_to(void)
{
	struct sockaddr_storage at, other;
	int l, ring = ring_of(udp_at(AF_INET, &other)), tx;

	int before = udp_at(AF_INET, &at);
	tx = socket(AF_INET, SOCK_DGRAM, 0);
	EXPECT_EQ(
	    sendto(tx, "not yet", 7, 0, (struct sockaddr *)&at, sizeof(at)), 7);
	nothing(ring);
	close(before);
	setenv("VMA_SOCKETXTREME", "1", 1);
	EXPECT(vma_get_api() == api);
	int fd = udp_at(AF_INET, &at);
	EXPECT_EQ(
	    sendto(tx, "joined", 6, 0, (struct sockaddr *)&at, sizeof(at)), 6);
	EXPECT_EQ(next_packet(ring, "joined", 6).user_data, fd);
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);
	l = socket(AF_INET, SOCK_STREAM, 0);
	EXPECT_EQ(bind(l, (struct sockaddr *)&a, len), 0);
	EXPECT_EQ(listen(l, 5), 0);
	EXPECT_EQ(getsockname(l, (struct sockaddr *)&a, &len), 0);
	fd = connecting(&a);
	int n_new = 0, n_up = 0;
	while (n_new + n_up < 2) {
		struct vma_completion_t c = next(ring);

		n_new += c.events == NEW_CONNECTION && c.listen_fd == l;
		n_up += c.events == EPOLLOUT && (int)c.user_data == fd;
	}
	EXPECT_EQ(n_new, 1);
	nothing(ring);
}

static void an_ipv6_socket_is_a_member(void)
{
	struct sockaddr_storage at;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&at;
	int fd = udp_at(AF_INET6, &at), ring = ring_of(fd);
	int tx = socket(AF_INET6, SOCK_DGRAM, 0);

	in6->sin6_addr = in6addr_loopback;
	EXPECT_EQ(sendto(tx, "six", 3, 0, (struct sockaddr *)&at, sizeof(at)),
		  3);
	EXPECT_EQ(next_packet(ring, "six", 3).src.sin_family, AF_INET6);
	/* A v4 sender of a v6 socket. */
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_port = in6->sin6_port,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	tx = socket(AF_INET, SOCK_DGRAM, 0);
	EXPECT_EQ(sendto(tx, "four", 4, 0, (struct sockaddr *)&to, sizeof(to)),
		  4);
	struct vma_completion_t c = next_packet(ring, "four", 4);
	EXPECT_EQ(c.src.sin_family, AF_INET);
	EXPECT_EQ(c.src.sin_addr.s_addr, htonl(INADDR_LOOPBACK));
}

static void a_copy_of_a_member_is_an_ordinary_socket(void)
{
	struct sockaddr_in at;
	struct vma_completion_t c;
	char b[8];
	int ring;

	listener(&at, &ring);
	struct ends e = xtreme_ends(ring, &at);
	int copy = dup(e.rx);
	close(e.rx);
	say(&e, "copy", 4);
	nothing(ring);
	EXPECT_EQ(recv(copy, b, sizeof(b), 0), 4);
	EXPECT_EQ(ring_of(copy), ring);
	EXPECT_EQ(next(ring).events, EPOLLOUT);
	say(&e, "again", 5);
	EXPECT_EQ(next_packet(ring, "again", 5).user_data, copy);
	/* Another socket in its place. */
	struct ends u = udp_ends();
	EXPECT_EQ(dup2(u.rx, copy), copy);
	say(&u, "other", 5);
	nothing(ring);
	EXPECT_EQ(recv(copy, b, sizeof(b), 0), 5);
	EXPECT_EQ(close_range(3, ~0u, 0), 0);
	EXPECT_ERR(api->socketxtreme_poll(ring, &c, 1, 0), EBADFD);
}

static void options_of_a_socket_are_kept(void)
{
	struct ends u = udp_ends(), t = tcp_ends();
	uint64_t data = 0;
	socklen_t len = sizeof(data);
	char b[8];

	EXPECT_EQ(setsockopt(t.rx, SOL_SOCKET, SO_VMA_USER_DATA,
			     &(uint64_t){ 77 }, sizeof(data)),
		  0);
	EXPECT_EQ(getsockopt(t.rx, SOL_SOCKET, SO_VMA_USER_DATA, &data, &len),
		  0);
	EXPECT_EQ(data, 77);
	EXPECT_ERR(setsockopt(t.rx, SOL_SOCKET, SO_VMA_USER_DATA, NULL, 8),
		   EFAULT);
	EXPECT_ERR(setsockopt(0, SOL_SOCKET, SO_VMA_USER_DATA, &data, 8),
		   ENOTSOCK);
	EXPECT_EQ(setsockopt(t.rx, SOL_SOCKET, SO_VMA_SHUTDOWN_RX, NULL, 0), 0);
	EXPECT_EQ(recv(t.rx, b, sizeof(b), 0), 0);
	EXPECT_EQ(send(t.rx, "still", 5, 0), 5);
	EXPECT_EQ(recv(t.tx, b, sizeof(b), 0), 5);
	EXPECT_EQ(setsockopt(u.rx, SOL_SOCKET, SO_VMA_SHUTDOWN_RX, NULL, 0), 0);
	EXPECT_EQ(recv(u.rx, b, sizeof(b), 0), 0);
}

#define CROWD 9 /* more than a ring looks at without the kernel */

/* Takes completions, up to @n at once, until the crowd has @sent bytes each. */
static void take_from_crowd(int ring, const struct ends e[CROWD], int n,
			    const uint32_t sent[CROWD], uint32_t got[CROWD])
{
	struct vma_completion_t c[16];

	for (int left = 1; left;) {
		int r = api->socketxtreme_poll(ring, c, (unsigned)n, 0);

		EXPECT(r >= 0 && r <= n);
		for (int i = 0; i < r; i++) {
			int who = 0;

			while (who < CROWD && e[who].rx != (int)c[i].user_data)
				who++;
			EXPECT(who < CROWD && c[i].events & PACKET);
			const uint8_t *b = c[i].packet.buff_lst->payload;
			for (int k = 0; k < c[i].packet.total_len; k++)
				EXPECT_EQ(b[k], (uint8_t)got[who]++);
			api->socketxtreme_free_vma_packets(&c[i].packet, 1);
		}
		left = memcmp(sent, got, CROWD * sizeof(*sent));
	}
}

/* Messages that come alone and in a row, from more members than are looked at first. */
static void a_crowd_loses_nothing(void)
{
	uint32_t sent[CROWD] = { 0 }, got[CROWD] = { 0 }, dice = 1;
	struct ends e[CROWD];
	struct sockaddr_in at;
	int ring;

	listener(&at, &ring);
	for (int i = 0; i < CROWD; i++)
		e[i] = xtreme_ends(ring, &at);
	for (int round = 0; round < 300; round++) {
		for (int i = 0; i < CROWD; i++) {
			dice = dice * 1664525 + 1013904223;
			for (unsigned k = dice >> 30; k; k--) {
				uint8_t b[1000];
				size_t n = 1 + (dice >> 8) % sizeof(b);

				for (size_t j = 0; j < n; j++)
					b[j] = (uint8_t)sent[i]++;
				say(&e[i], b, n);
			}
		}
		take_from_crowd(ring, e, round % 2 ? 16 : 1, sent, got);
	}
	nothing(ring);
}

/* Those that nobody has accepted are reset, those that were are whole. */
static void a_listener_may_end_before_its_connections(void)
{
	struct sockaddr_in at;
	int ring, l = listener(&at, &ring), tx[8];
	char b;

	for (int i = 0; i < 8; i++)
		tx[i] = connecting(&at);
	struct vma_completion_t c = next(ring);
	EXPECT_EQ(c.events, NEW_CONNECTION);
	struct ends e = { .tx = tx[0], .rx = (int)c.user_data };
	socklen_t len = sizeof(at);
	EXPECT_EQ(getpeername(e.rx, (struct sockaddr *)&at, &len), 0);
	close(l);
	for (int i = 0; i < 8; i++) {
		EXPECT_EQ(
		    getsockname(tx[i], (struct sockaddr *)&e.tx_addr, &len), 0);
		if (e.tx_addr.sin_port == at.sin_port) {
			e.tx = tx[i];
			continue;
		}
		fcntl(tx[i], F_SETFL, 0);
		EXPECT_ERR(recv(tx[i], &b, 1, 0), ECONNRESET);
		close(tx[i]);
	}
	say(&e, "whole", 5);
	c = next_packet(ring, "whole", 5);
	EXPECT_EQ(api->socketxtreme_free_vma_packets(&c.packet, 1), 0);
	ends_close(&e);
}

/* One completion a call, and one connection that has a packet for each. */
static void a_busy_connection_leaves_turns_to_others(void)
{
	struct sockaddr_in at;
	struct sockaddr_storage udp;
	int ring, l = listener(&at, &ring), by_udp = udp_at(AF_INET, &udp);
	struct ends busy = xtreme_ends(ring, &at);
	struct ends other = xtreme_ends(ring, &at);
	bool is_out = false;
	unsigned seen = 0;

	EXPECT_EQ(ring_of(by_udp), ring);
	nothing(ring);
	int tx = socket(AF_INET, SOCK_DGRAM, 0);
	for (unsigned i = 0; seen != 7; i++) {
		struct vma_completion_t c;

		EXPECT(i < 1000000);
		if (i == 300) { /* the busy one is warm */
			say(&other, "o", 1);
			EXPECT_EQ(sendto(tx, "u", 1, 0, (struct sockaddr *)&udp,
					 sizeof(udp)),
				  1);
			connecting(&at);
		}
		if (!is_out)
			say(&busy, "b", 1);
		is_out = true;
		if (!api->socketxtreme_poll(ring, &c, 1, 0))
			continue;
		int fd = (int)c.user_data;
		is_out &= fd != busy.rx;
		seen |= (unsigned)(fd == other.rx) | (fd == by_udp) << 1 |
			(c.events == NEW_CONNECTION && c.listen_fd == l) << 2;
		if (c.events & PACKET)
			EXPECT_EQ(
			    api->socketxtreme_free_vma_packets(&c.packet, 1),
			    0);
	}
	ends_close(&busy);
	ends_close(&other);
}

const struct test tests_members[] = {
#define T(name)                                                                \
	{                                                                      \
#name, name, false                                             \
	}
	T(sockets_join_if_told_to),
	T(a_crowd_loses_nothing),
	T(a_busy_connection_leaves_turns_to_others),
	T(a_listener_may_end_before_its_connections),
	T(an_ipv6_socket_is_a_member),
	T(a_copy_of_a_member_is_an_ordinary_socket),
	T(options_of_a_socket_are_kept),
	{ 0 }
};
