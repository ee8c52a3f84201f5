/* SPDX-License-Identifier: MIT */
/* tests/vma/test_xtreme.c - SocketXtreme: rings, completions, buffers */
#include "xtreme.h"

#include <fcntl.h>
#include <poll.h>

static int bound(int type, struct sockaddr_in *at, bool by_device)
{
	socklen_t len = sizeof(*at);
	int fd = socket(AF_INET, type, 0);

	*at = (struct sockaddr_in){ .sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	if (by_device)
		EXPECT_EQ(setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "lo", 3),
			  0);
	EXPECT_EQ(bind(fd, (struct sockaddr *)at, len), 0);
	EXPECT_EQ(getsockname(fd, (struct sockaddr *)at, &len), 0);
	return fd;
}

static void has_no_ring(int fd)
{
	int ring = -1;

	EXPECT_EQ(api->get_socket_rings_num(fd), 0);
	EXPECT_EQ(api->get_socket_rings_fds(fd, &ring, 1), 0);
	EXPECT_EQ(ring, -1);
}

static void rings_are_there_when_libvma_has_them(void)
{
	struct sockaddr_in at;
	int udp = socket(AF_INET, SOCK_DGRAM, 0);
	int tcp = bound(SOCK_STREAM, &at, false);

	has_no_ring(udp);
	has_no_ring(tcp);
	EXPECT_EQ(connect(udp, (struct sockaddr *)&at, sizeof(at)), 0);
	int ring = ring_of(udp);
	EXPECT_EQ(listen(tcp, 5), 0);
	EXPECT_EQ(ring_of(tcp), ring);
	EXPECT_EQ(ring_of(bound(SOCK_DGRAM, &at, false)), ring);
	EXPECT_EQ(ring_of(bound(SOCK_STREAM, &at, true)), ring);
	EXPECT_EQ(ring_of(tcp), ring);
	socklen_t len = sizeof(at);
	EXPECT_EQ(getsockname(tcp, (struct sockaddr *)&at, &len), 0);
	int fd = connecting(&at);
	EXPECT_EQ(ring_of(fd), ring);
	EXPECT_EQ(api->get_socket_tx_ring_fd(fd, NULL, 0), ring);
	EXPECT_EQ(api->get_socket_tx_ring_fd(socket(AF_INET, SOCK_DGRAM, 0),
					     (struct sockaddr *)&at,
					     sizeof(at)),
		  ring);
	EXPECT_ERR(api->get_socket_tx_ring_fd(socket(AF_INET, SOCK_STREAM, 0),
					      NULL, 0),
		   ENOTCONN);
	EXPECT_ERR(
	    api->get_socket_tx_ring_fd(socket(AF_INET, SOCK_DGRAM, 0), NULL, 0),
	    ENODATA);
}

static void wrong_calls_are_refused(void)
{
	struct vma_completion_t c;
	struct vma_buff_t b = { 0 };
	struct vma_packet_desc_t p = { .buff_lst = &b };
	struct sockaddr_in at;
	int ring, l = listener(&at, &ring), sv[2];

	EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, sv), 0);
	EXPECT_ERR(api->socketxtreme_poll(l, &c, 1, 0), EBADFD);
	EXPECT_ERR(api->socketxtreme_poll(-1, &c, 1, 0), EBADFD);
	EXPECT_ERR(api->socketxtreme_poll(ring, NULL, 1, 0), EINVAL);
	EXPECT_ERR(api->socketxtreme_poll(ring, &c, 0, 0), EINVAL);
	EXPECT_ERR(api->get_socket_rings_num(sv[0]), EINVAL);
	EXPECT_ERR(api->get_socket_rings_fds(sv[0], &ring, 1), EINVAL);
	EXPECT_ERR(api->get_socket_rings_fds(l, NULL, 1), EINVAL);
	EXPECT_ERR(api->get_socket_rings_fds(l, &ring, 0), EINVAL);
	EXPECT_ERR(api->socketxtreme_free_vma_packets(NULL, 1), EINVAL);
	EXPECT_ERR(api->socketxtreme_free_vma_packets(&p, 1), EINVAL);
	EXPECT_ERR(api->socketxtreme_ref_vma_buff(NULL), EINVAL);
	EXPECT_ERR(api->socketxtreme_free_vma_buff(&b), EINVAL);
	EXPECT_EQ(api->socketxtreme_free_vma_packets(NULL, 0), 0);
}

static void a_server_needs_no_accept(void)
{
	struct sockaddr_in at, mine;
	socklen_t len = sizeof(mine);
	void *data = &at;
	int ring, l = listener(&at, &ring);

	nothing(ring);
	int fd = connecting(&at);
	EXPECT_EQ(getsockname(fd, (struct sockaddr *)&mine, &len), 0);
	EXPECT_EQ(send(fd, "early", 5, 0), 5);
	struct vma_completion_t c = next(ring);
	EXPECT_EQ(c.events, NEW_CONNECTION);
	EXPECT_EQ(c.listen_fd, l);
	EXPECT(!memcmp(&c.src, &mine, 8));
	int rx = (int)c.user_data;
	c = next_packet(ring, "early", 5);
	EXPECT_EQ(c.user_data, rx);
	EXPECT(!memcmp(&c.src, &mine, 8));
	EXPECT_EQ(api->socketxtreme_free_vma_packets(&c.packet, 1), 0);
	EXPECT_ERR(setsockopt(rx, SOL_SOCKET, SO_VMA_USER_DATA, &data, 4),
		   EINVAL);
	EXPECT_EQ(
	    setsockopt(rx, SOL_SOCKET, SO_VMA_USER_DATA, &data, sizeof(data)),
	    0);
	EXPECT_EQ(send(fd, "more", 4, 0), 4);
	c = next_packet(ring, "more", 4);
	EXPECT_EQ(c.user_data, (uintptr_t)data);
	EXPECT_EQ(api->socketxtreme_free_vma_packets(&c.packet, 1), 0);
	EXPECT_EQ(send(rx, "back", 4, 0), 4);
	char buf[8];
	struct pollfd p = { .fd = fd, .events = POLLIN };
	EXPECT_EQ(poll(&p, 1, 5000), 1);
	EXPECT_EQ(recv(fd, buf, 8, 0), 4);
	nothing(ring);
	close(fd);
	c = next(ring);
	EXPECT_EQ(c.events, EPOLLIN | EPOLLRDHUP);
	EXPECT_EQ(c.user_data, (uintptr_t)data);
	nothing(ring);
	close(rx);
	close(l);
	nothing(ring);
}

static void a_client_hears_of_its_connection(void)
{
	struct sockaddr_in at;
	int one = 1, ring, l = listener(&at, &ring);
	int tx = connecting(&at);

	EXPECT_EQ(ring_of(tx), ring);
	int rx = -1, is_up = 0;
	while (rx < 0 || !is_up) {
		struct vma_completion_t c = next(ring);

		if (c.events == NEW_CONNECTION)
			rx = (int)c.user_data;
		else
			EXPECT_EQ(c.events, EPOLLOUT);
		is_up += c.user_data == (uint64_t)tx;
	}
	nothing(ring);
	EXPECT_EQ(send(rx, "hello", 5, 0), 5);
	EXPECT_EQ(next_packet(ring, "hello", 5).user_data, tx);
	/* The other end resets. */
	struct linger lg = { .l_onoff = 1 };
	setsockopt(rx, IPPROTO_TCP, 1, &one, sizeof(one));
	setsockopt(rx, SOL_SOCKET, SO_LINGER, &lg, sizeof(lg));
	close(rx);
	EXPECT_EQ(next(ring).events, RESET);
	nothing(ring);
	/* Nobody is there. */
	close(l);
	int no = connecting(&at), err;
	socklen_t len = sizeof(err);
	EXPECT_EQ(ring_of(no), ring);
	struct vma_completion_t c = next(ring);
	EXPECT_EQ(c.events, RESET);
	EXPECT_EQ(c.user_data, no);
	EXPECT_EQ(getsockopt(no, SOL_SOCKET, SO_ERROR, &err, &len), 0);
	EXPECT_EQ(err, ECONNREFUSED);
}

static void datagrams_are_completed(void)
{
	struct ends e = udp_ends();
	int ring = ring_of(e.rx);

	for (int i = 0; i < 100; i++)
		say(&e, &i, sizeof(i));
	for (int i = 0; i < 100; i++) {
		struct vma_completion_t c = next_packet(ring, &i, sizeof(i));

		EXPECT(!memcmp(&c.src, &e.tx_addr, sizeof(c.src)));
		EXPECT_EQ(c.user_data, e.rx);
		EXPECT_EQ(api->socketxtreme_free_vma_packets(&c.packet, 1), 0);
	}
	say(&e, "", 0);
	next_packet(ring, "", 0);
	nothing(ring);
	EXPECT_EQ(sendto(e.rx, "echo", 4, 0, (struct sockaddr *)&e.tx_addr,
			 sizeof(e.tx_addr)),
		  4);
	char b[8];
	EXPECT_EQ(recv(e.tx, b, 8, 0), 4);
	nothing(ring);
}

/* Programs pass one completion, and look at its events whatever the poll returns. */
static void the_place_after_the_last_completion_has_no_events(void)
{
	struct ends e = udp_ends();
	int ring = ring_of(e.rx), n;
	struct vma_completion_t c[3];

	memset(c, 0xff, sizeof(c));
	EXPECT_EQ(api->socketxtreme_poll(ring, c, 3, 0), 0);
	EXPECT_EQ(c[0].events, 0);
	say(&e, "one", 3);
	do {
		memset(c, 0xff, sizeof(c));
		n = api->socketxtreme_poll(ring, c, 3, 0);
		EXPECT_EQ(c[n > 0 ? n : 0].events, 0);
	} while (!n);
	EXPECT_EQ(n, 1);
	EXPECT_EQ(c[0].events, PACKET);
	EXPECT_EQ(api->socketxtreme_free_vma_packets(&c[0].packet, 1), 0);
}

static void buffers_are_counted(void)
{
	struct sockaddr_in at;
	int ring;

	listener(&at, &ring);
	struct ends e = xtreme_ends(ring, &at);
	say(&e, "stay", 4);
	struct vma_completion_t c = next_packet(ring, "stay", 4);
	struct vma_buff_t *b = c.packet.buff_lst;
	EXPECT_EQ(api->socketxtreme_ref_vma_buff(b), 2);
	EXPECT_EQ(api->socketxtreme_free_vma_packets(&c.packet, 1), 0);
	for (int i = 0; i < 1000; i++) {
		say(&e, "flow", 4);
		c = next_packet(ring, "flow", 4);
		EXPECT_EQ(api->socketxtreme_free_vma_packets(&c.packet, 1), 0);
	}
	close(e.rx);
	EXPECT(!memcmp(b->payload, "stay", 4));
	EXPECT_EQ(api->socketxtreme_free_vma_buff(b), 0);
	EXPECT_ERR(api->socketxtreme_free_vma_buff(b), EINVAL);
	EXPECT_ERR(api->socketxtreme_free_vma_packets(&c.packet, 1), EINVAL);
}

static void room_to_send_is_told(void)
{
	static char bulk[1 << 16];
	struct sockaddr_in at;
	int ring;

	listener(&at, &ring);
	struct ends e = xtreme_ends(ring, &at);
	struct pollfd room = { .fd = e.rx, .events = POLLOUT };
	size_t sent = 0;
	ssize_t n;
	EXPECT_EQ(fcntl(e.rx, F_SETFL, O_NONBLOCK), 0);
	do { /* what nobody reads may get more room once */
		while ((n = send(e.rx, bulk, sizeof(bulk), 0)) > 0)
			sent += (size_t)n;
		EXPECT_EQ(errno, EAGAIN);
	} while (poll(&room, 1, 100) == 1);
	struct vma_completion_t c = { .events = 0 };
	while (api->socketxtreme_poll(ring, &c, 1, 0) == 1)
		EXPECT_EQ(c.events, EPOLLOUT);
	nothing(ring);
	while (sent) {
		struct pollfd p = { .fd = e.tx, .events = POLLIN };

		EXPECT_EQ(poll(&p, 1, 5000), 1);
		n = recv(e.tx, bulk, sizeof(bulk), 0);
		EXPECT(n > 0);
		sent -= (size_t)n;
	}
	c = next(ring);
	EXPECT_EQ(c.events, EPOLLOUT);
	EXPECT_EQ(c.user_data, e.rx);
	nothing(ring);
}

static void other_calls_stay_right(void)
{
	struct sockaddr_in at;
	int ring, l = listener(&at, &ring);
	char b[16];

	struct ends e = xtreme_ends(ring, &at);
	struct pollfd p = { .fd = e.rx, .events = POLLIN };
	say(&e, "one", 3);
	EXPECT_EQ(poll(&p, 1, 5000), 1);
	EXPECT_EQ(recv(e.rx, b, sizeof(b), 0), 3);
	nothing(ring);
	say(&e, "two", 3);
	next_packet(ring, "two", 3);
	EXPECT_EQ(poll(&p, 1, 0), 0);
	EXPECT_ERR(recv(e.rx, b, sizeof(b), MSG_DONTWAIT), EAGAIN);
	/* accept() is for those that the ring has not seen. */
	int tx = connecting(&at), fd = accept(l, NULL, NULL);
	EXPECT(fd >= 0);
	EXPECT(!(fcntl(l, F_GETFL) & O_NONBLOCK));
	nothing(ring);
	EXPECT_EQ(send(tx, "three", 5, 0), 5);
	EXPECT_EQ(recv(fd, b, sizeof(b), 0), 5);
	nothing(ring);
	EXPECT_EQ(ring_of(fd), ring);
	EXPECT_EQ(next(ring).events, EPOLLOUT);
	EXPECT_EQ(send(tx, "four", 4, 0), 4);
	EXPECT_EQ(next_packet(ring, "four", 4).user_data, fd);
}

const struct test tests_xtreme[] = {
#define T(name)                                                                \
	{                                                                      \
#name, name, false                                             \
	}
	T(rings_are_there_when_libvma_has_them),
	T(wrong_calls_are_refused),
	T(a_server_needs_no_accept),
	T(a_client_hears_of_its_connection),
	T(datagrams_are_completed),
	T(the_place_after_the_last_completion_has_no_events),
	T(buffers_are_counted),
	T(room_to_send_is_told),
	T(other_calls_stay_right),
	{ 0 }
};
