/* SPDX-License-Identifier: MIT */
/* tests/vma/test_zcopy.c - recvfrom_zcopy(): bytes where they lie */
#include "vma_test.h"

#include <fcntl.h>
#include <poll.h>

static union {
	struct vma_packets_t head;
	char bytes[256];
} z;

static int zcopy(int fd, size_t len, int flags_in, int *flags)
{
	*flags = flags_in;
	return api->recvfrom_zcopy(fd, &z, len, flags, NULL, NULL);
}

static void takes_in_place_on(struct ends *e)
{
	struct sockaddr_in from;
	socklen_t len = sizeof(from);
	int flags = 0;

	say(e, "in place", 8);
	EXPECT_EQ(api->recvfrom_zcopy(e->rx, &z, sizeof(z), &flags,
				      (struct sockaddr *)&from, &len),
		  8);
	EXPECT_EQ(flags, MSG_VMA_ZCOPY);
	EXPECT_EQ(z.head.n_packet_num, 1);
	EXPECT_EQ(z.head.pkts[0].sz_iov, 1);
	EXPECT_EQ(z.head.pkts[0].iov[0].iov_len, 8);
	EXPECT(!memcmp(z.head.pkts[0].iov[0].iov_base, "in place", 8));
	EXPECT(!memcmp(&from, &e->tx_addr, sizeof(from)));
	EXPECT_EQ(api->free_packets(e->rx, z.head.pkts, 1), 0);
	EXPECT_ERR(api->free_packets(e->rx, z.head.pkts, 1), ENOENT);
}

static void bytes_are_taken_in_place(void) { over_both(takes_in_place_on); }

static void has_limits_on(struct ends *e, size_t least)
{
	int flags;

	say(e, "data", 4);
	EXPECT_ERR(zcopy(e->rx, least - 1, 0, &flags), ENOBUFS);
	EXPECT_EQ(zcopy(e->rx, 40, MSG_VMA_ZCOPY_FORCE, &flags), 4);
	EXPECT_EQ(flags, MSG_VMA_ZCOPY);
	EXPECT_EQ(api->free_packets(e->rx, z.head.pkts, 1), 0);
	EXPECT_ERR(zcopy(e->rx, 100, MSG_DONTWAIT, &flags), EAGAIN);
	EXPECT_EQ(fcntl(e->rx, F_SETFL, O_NONBLOCK), 0);
	EXPECT_ERR(zcopy(e->rx, 100, 0, &flags), EAGAIN);
	EXPECT_EQ(fcntl(e->rx, F_SETFL, 0), 0);
	flags = 0;
	EXPECT_ERR(api->recvfrom_zcopy(e->rx, NULL, 100, &flags, NULL, NULL),
		   EFAULT);
	EXPECT_ERR(api->recvfrom_zcopy(e->rx, &z, 100, NULL, NULL, NULL),
		   EFAULT);
}

static void buffers_have_least_sizes(void)
{
	struct ends t = tcp_ends(), u = udp_ends();
	int flags;

	has_limits_on(&t, 40);
	has_limits_on(&u, 24);
	/* A datagram whose vector does not fit. */
	say(&u, "data", 4);
	EXPECT_EQ(zcopy(u.rx, 24, 0, &flags), 0);
	EXPECT_EQ(flags, MSG_VMA_ZCOPY | MSG_TRUNC);
	EXPECT_EQ(z.head.pkts[0].sz_iov, 0);
	EXPECT_EQ(api->free_packets(u.rx, z.head.pkts, 1), 0);
}

static void mixes_with_recv_on(struct ends *e)
{
	char buf[16];
	int flags;

	say(e, "first", 5);
	EXPECT_EQ(zcopy(e->rx, 100, MSG_PEEK, &flags), 5);
	EXPECT_EQ(api->free_packets(e->rx, z.head.pkts, 1), 0);
	EXPECT_EQ(recv(e->rx, buf, 16, 0), 5);
	say(e, "second", 6);
	EXPECT_EQ(zcopy(e->rx, 100, 0, &flags), 6);
	say(e, "third", 5);
	EXPECT_EQ(recv(e->rx, buf, 16, 0), 5);
	EXPECT(!memcmp(z.head.pkts[0].iov[0].iov_base, "second", 6));
	EXPECT(!memcmp(buf, "third", 5));
}

static void it_mixes_with_recv(void) { over_both(mixes_with_recv_on); }

static void a_stream_of_packets_is_whole(void)
{
	static char out[200000], in[200000];
	struct ends e = tcp_ends();
	size_t sent = 0, got = 0;
	int flags;

	for (size_t i = 0; i < sizeof(out); i++)
		out[i] = (char)(i * 7 + i / 251);
	EXPECT_EQ(fcntl(e.tx, F_SETFL, O_NONBLOCK), 0);
	while (got < sizeof(in)) {
		ssize_t n = send(e.tx, out + sent, sizeof(out) - sent, 0);

		sent += n > 0 ? (size_t)n : 0;
		int r = zcopy(e.rx, 100, 0, &flags);
		EXPECT(r > 0 && got + (size_t)r <= sizeof(in));
		memcpy(in + got, z.head.pkts[0].iov[0].iov_base, (size_t)r);
		got += (size_t)r;
		EXPECT_EQ(api->free_packets(e.rx, z.head.pkts, 1), 0);
	}
	EXPECT(!memcmp(in, out, sizeof(in)));
	shutdown(e.tx, SHUT_WR);
	EXPECT_EQ(zcopy(e.rx, 100, 0, &flags), 0);
	EXPECT_EQ(z.head.n_packet_num, 0);
	EXPECT_EQ(flags, 0);
}

static vma_recv_callback_retval_t drops_d(int fd, size_t n, struct iovec iov[],
					  struct vma_info_t *info,
					  void *context)
{
	(void)fd, (void)n, (void)info;
	++*(int *)context;
	return *(char *)iov[0].iov_base == 'd' ? VMA_PACKET_DROP
					       : VMA_PACKET_RECV;
}

static void obeys_the_callback_on(struct ends *e)
{
	struct pollfd p = { .fd = e->rx, .events = POLLIN };
	int flags, n = 0;

	EXPECT_EQ(api->register_recv_callback(e->rx, drops_d, &n), 0);
	say(e, "drop", 4);
	EXPECT_ERR(zcopy(e->rx, 100, MSG_DONTWAIT, &flags), EAGAIN);
	say(e, "keep", 4);
	EXPECT_EQ(zcopy(e->rx, 100, 0, &flags), 4);
	say(e, "keep", 4);
	EXPECT_EQ(poll(&p, 1, 5000), 1);
	EXPECT_EQ(zcopy(e->rx, 100, 0, &flags), 4);
	EXPECT_EQ(n, 3);
	say(e, "drop", 4);
	EXPECT_EQ(poll(&p, 1, 20), 0);
	EXPECT_ERR(zcopy(e->rx, 100, MSG_DONTWAIT, &flags), EAGAIN);
}

static void it_obeys_the_callback(void) { over_both(obeys_the_callback_on); }

static void other_descriptors_are_read_plainly(void)
{
	int sv[2], flags;

	EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, sv), 0);
	EXPECT_EQ(send(sv[0], "plain", 5, 0), 5);
	EXPECT_EQ(zcopy(sv[1], 100, MSG_VMA_ZCOPY_FORCE, &flags), 5);
	EXPECT_EQ(flags, 0);
	EXPECT(!memcmp(z.bytes, "plain", 5));
	EXPECT_ERR(zcopy(-1, 100, 0, &flags), EBADF);
}

const struct test tests_zcopy[] = {
#define T(name)                                                                \
	{                                                                      \
#name, name, false                                             \
	}
	T(bytes_are_taken_in_place),
	T(buffers_have_least_sizes),
	T(it_mixes_with_recv),
	T(a_stream_of_packets_is_whole),
	T(it_obeys_the_callback),
	T(other_descriptors_are_read_plainly),
	{ 0 }
};
