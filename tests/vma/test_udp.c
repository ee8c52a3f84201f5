/* SPDX-License-Identifier: MIT */
/*
 * tests/vma/test_udp.c - what the kernel promises of UDP holds under a callback
 *
 * Groups, connected sockets, SO_REUSEPORT, control messages, order, MSG_PEEK.
 */
#include "xtreme.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>

#define GROUP 0xefff2a2a /* 239.255.42.42 */
#define MANY 200

/* A first byte of d is dropped, of h held, all else received. */
static struct heard {
	unsigned n, n_held;
	struct sockaddr_in src, dst;
	struct timespec time;
	struct vma_packet_t held[MANY];
} heard;

static vma_recv_callback_retval_t hear(int fd, size_t n_iov, struct iovec iov[],
				       struct vma_info_t *info, void *context)
{
	char first = iov[0].iov_len ? *(char *)iov[0].iov_base : 0;

	heard.n++;
	heard.src = *info->src;
	heard.dst = *info->dst;
	heard.time = info->sw_timestamp;
	if (first != 'h' || heard.n_held == MANY)
		return first == 'd' ? VMA_PACKET_DROP : VMA_PACKET_RECV;
	heard.held[heard.n_held++].packet_id = info->packet_id;
	return VMA_PACKET_HOLD;
}

static void listen_to(int fd)
{
	memset(&heard, 0, sizeof(heard));
	EXPECT_EQ(api->register_recv_callback(fd, hear, NULL), 0);
}

static bool is_readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1 && p.revents & POLLIN;
}

static int take_byte(int fd)
{
	char c;

	return recv(fd, &c, 1, MSG_DONTWAIT);
}

static int socket_at(struct sockaddr_in *a, bool is_shared)
{
	int fd = socket(AF_INET, SOCK_DGRAM, 0), on = 1;
	socklen_t len = sizeof(*a);

	EXPECT_EQ(setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on,
			     is_shared ? sizeof(on) : 0),
		  is_shared ? 0 : -1);
	EXPECT_EQ(bind(fd, (struct sockaddr *)a, sizeof(*a)), 0);
	EXPECT_EQ(getsockname(fd, (struct sockaddr *)a, &len), 0);
	return fd;
}

static void send_to(int fd, const struct sockaddr_in *to, const void *data,
		    size_t n)
{
	EXPECT_EQ(
	    sendto(fd, data, n, 0, (const struct sockaddr *)to, sizeof(*to)),
	    n);
}

static void a_group_is_joined_and_left(void)
{
	struct sockaddr_in any = { .sin_family = AF_INET }, to, on_lo = any;
	struct ip_mreq who = { { htonl(GROUP) }, { htonl(INADDR_LOOPBACK) } };
	struct vma_completion_t c;
	char buf[16];

	on_lo.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	int rx = socket_at(&any, false), tx = socket_at(&on_lo, false), ring;
	to = any;
	to.sin_addr.s_addr = htonl(GROUP);
	EXPECT_EQ(setsockopt(tx, IPPROTO_IP, IP_MULTICAST_IF,
			     &who.imr_interface, sizeof(who.imr_interface)),
		  0);
	for (int round = 0; round < 3; round++) {
		listen_to(rx);
		EXPECT_EQ(setsockopt(rx, IPPROTO_IP, IP_ADD_MEMBERSHIP, &who,
				     sizeof(who)),
			  0);
		send_to(tx, &to, "drop", 4);
		send_to(tx, &to, "group", 5);
		EXPECT_EQ(recv(rx, buf, sizeof(buf), 0), 5);
		EXPECT_EQ(heard.n, 2);
		EXPECT(!memcmp(&heard.dst, &to, sizeof(to)));
		EXPECT(!memcmp(&heard.src, &on_lo, sizeof(on_lo)));
		EXPECT_EQ(setsockopt(rx, IPPROTO_IP, IP_DROP_MEMBERSHIP, &who,
				     sizeof(who)),
			  0);
		send_to(tx, &to, "group", 5);
		EXPECT_ERR(take_byte(rx), EAGAIN);
		EXPECT(!is_readable(rx));
		EXPECT_EQ(heard.n, 2);
	}
	EXPECT_EQ(api->register_recv_callback(rx, NULL, NULL), 0);
	EXPECT_EQ(
	    setsockopt(rx, IPPROTO_IP, IP_ADD_MEMBERSHIP, &who, sizeof(who)),
	    0);
	EXPECT_EQ(api->get_socket_rings_fds(rx, &ring, 1), 1);
	send_to(tx, &to, "group", 5);
	while (!api->socketxtreme_poll(ring, &c, 1, 0))
		;
	EXPECT(c.events & VMA_SOCKETXTREME_PACKET);
	EXPECT_EQ(c.packet.total_len, 5);
	EXPECT_EQ(c.user_data, rx);
	EXPECT(!memcmp(&c.src, &on_lo, sizeof(on_lo)));
	EXPECT_EQ(api->socketxtreme_free_vma_packets(&c.packet, 1), 0);
}

/* IP_PKTINFO of the program's datagram, not of one before it. */
static void control_messages_are_the_datagrams(void)
{
	struct sockaddr_in any = { .sin_family = AF_INET }, to;
	int rx = socket_at(&any, false), on = 1;
	struct ends e = { .tx = socket(AF_INET, SOCK_DGRAM, 0) };

	EXPECT_EQ(setsockopt(rx, IPPROTO_IP, IP_PKTINFO, &on, sizeof(on)), 0);
	listen_to(rx);
	to = any;
	for (uint32_t i = 1; i < 9; i++) {
		char buf[16], control[256];
		struct iovec iov = { buf, sizeof(buf) };
		struct msghdr m = { .msg_iov = &iov,
				    .msg_iovlen = 1,
				    .msg_control = control,
				    .msg_controllen = sizeof(control) };
		struct in_pktinfo info;

		to.sin_addr.s_addr = htonl(0x7f000001);
		send_to(e.tx, &to, "drop", 4);
		to.sin_addr.s_addr = htonl(0x7f000001 + i);
		send_to(e.tx, &to, "info", 4);
		EXPECT(i % 2 || is_readable(rx));
		EXPECT_EQ(recvmsg(rx, &m, 0), 4);
		struct cmsghdr *c = CMSG_FIRSTHDR(&m);
		EXPECT(c && c->cmsg_level == IPPROTO_IP &&
		       c->cmsg_type == IP_PKTINFO);
		EXPECT(!CMSG_NXTHDR(&m, c));
		memcpy(&info, CMSG_DATA(c), sizeof(info));
		EXPECT_EQ(info.ipi_addr.s_addr, to.sin_addr.s_addr);
		EXPECT_EQ(heard.dst.sin_addr.s_addr, to.sin_addr.s_addr);
		m.msg_controllen = 4; /* too short for it */
		send_to(e.tx, &to, "info", 4);
		EXPECT(i % 2 || is_readable(rx));
		EXPECT_EQ(recvmsg(rx, &m, 0), 4);
		EXPECT_EQ(m.msg_flags, MSG_CTRUNC);
	}
}

/* The callback sees times as soon as they are asked for, on any descriptor. */
static void times_may_be_asked_for_on_a_copy(void)
{
	struct ends e = udp_ends();
	int copy = dup(e.rx), on = 1;
	char c;

	listen_to(e.rx);
	for (int i = 0; i < 4; i++) {
		say(&e, "x", 1);
		EXPECT(i % 2 || is_readable(e.rx));
		EXPECT_EQ(recv(e.rx, &c, 1, 0), 1);
		EXPECT_EQ(heard.time.tv_sec != 0, i >= 2);
		if (i != 1)
			continue;
		EXPECT_EQ(setsockopt(copy, SOL_SOCKET, SO_TIMESTAMPNS, &on,
				     sizeof(on)),
			  0);
		EXPECT_ERR(setsockopt(e.rx, SOL_SOCKET, SO_TIMESTAMPNS, &on, 1),
			   EINVAL);
	}
	on = 0;
	setsockopt(e.rx, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof(on));
	say(&e, "x", 1);
	EXPECT_EQ(recv(e.rx, &c, 1, 0), 1);
	EXPECT_EQ(heard.time.tv_sec, 0);
}

static void a_connected_socket_hears_its_peer_alone(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_in b = a, c = a;
	int rx = socket_at(&a, false), peer = socket_at(&b, false);
	int other = socket_at(&c, false);
	char buf[8];

	listen_to(rx);
	EXPECT_EQ(connect(rx, (struct sockaddr *)&b, sizeof(b)), 0);
	send_to(other, &a, "other", 5);
	send_to(peer, &a, "peer", 4);
	EXPECT_EQ(recv(rx, buf, sizeof(buf), 0), 4);
	EXPECT_EQ(heard.n, 1);
	EXPECT(!memcmp(&heard.src, &b, sizeof(b)));
	close(peer);
	EXPECT_EQ(send(rx, "x", 1, 0), 1); /* nobody is there: an error */
	struct pollfd p = { .fd = rx, .events = POLLIN };
	EXPECT_EQ(poll(&p, 1, 5000), 1);
	EXPECT_EQ(p.revents & POLLERR, POLLERR);
	EXPECT_ERR(take_byte(rx), ECONNREFUSED);
	EXPECT_ERR(take_byte(rx), EAGAIN);
	EXPECT_EQ(send(rx, "x", 1, 0), 1);
	EXPECT_ERR(recv(rx, buf, sizeof(buf), 0), ECONNREFUSED);
	EXPECT_EQ(heard.n, 1);
}

/* Each datagram reaches one of the group, and the same one from the same sender. */
static void a_reuseport_group_shares(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int rx[3], of[40], n[3] = { 0 };

	for (int i = 0; i < 3; i++) {
		rx[i] = socket_at(&a, true);
		EXPECT_EQ(api->register_recv_callback(rx[i], hear, NULL), 0);
	}
	for (int i = 0; i < 80; i++) {
		struct sockaddr_in from = { .sin_family = AF_INET };
		static int tx[40];
		int got = 0;

		if (i < 40)
			tx[i] = socket_at(&from, false);
		send_to(tx[i % 40], &a, &(char){ 'x' }, 1);
		for (int k = 0; k < 3; k++) {
			if (i % 2 && !is_readable(rx[k]))
				continue;
			if (take_byte(rx[k]) != 1)
				continue;
			got++;
			n[k]++;
			EXPECT(i < 40 || of[i % 40] == k);
			of[i % 40] = k;
		}
		EXPECT_EQ(got, 1);
	}
	EXPECT_EQ(n[0] + n[1] + n[2], 80);
	EXPECT(n[0] < 80 && n[1] < 80 && n[2] < 80);
	EXPECT_EQ(heard.n, 80);
}

static void datagrams_keep_their_order(void)
{
	struct ends e = udp_ends();
	char what[MANY], got[4], peeked[4];
	int held = 0, n = 0, queued;

	listen_to(e.rx);
	srand(7);
	for (int i = 0; i < MANY; i++) {
		what[i] = "dhr"[rand() % 3];
		held += what[i] == 'h';
		say(&e, (char[]){ what[i], (char)i, (char)(i >> 8) }, 3);
	}
	for (int i = 0; i < MANY; i++) {
		if (what[i] != 'r')
			continue;
		if (i % 3 == 0) {
			EXPECT(is_readable(e.rx));
			EXPECT_EQ(ioctl(e.rx, FIONREAD, &queued), 0);
			EXPECT_EQ(queued, 3);
		}
		if (i % 2 == 0)
			EXPECT_EQ(recv(e.rx, peeked, 4, MSG_PEEK), 3);
		EXPECT_EQ(recv(e.rx, got, 4, 0), 3);
		EXPECT(i % 2 || !memcmp(got, peeked, 3));
		EXPECT_EQ((uint8_t)got[1] | (uint8_t)got[2] << 8, i);
		n++;
	}
	EXPECT_ERR(take_byte(e.rx), EAGAIN);
	EXPECT_EQ(heard.n, MANY);
	EXPECT_EQ(heard.n_held, held);
	EXPECT_EQ(api->free_packets(e.rx, heard.held, (size_t)held), 0);
}

/* The callback sees an IPv4 sender, recvfrom() one as the kernel writes it. */
static void an_ipv6_socket_hears_ipv4_senders(void)
{
	struct sockaddr_in6 at = { .sin6_family = AF_INET6 }, from;
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int rx = socket(AF_INET6, SOCK_DGRAM, 0), no = 0;
	socklen_t len = sizeof(at);
	char c;

	EXPECT_EQ(inet_pton(AF_INET6, "::ffff:127.0.0.1", &at.sin6_addr), 1);
	EXPECT_EQ(setsockopt(rx, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no)),
		  0);
	EXPECT_EQ(bind(rx, (struct sockaddr *)&at, len), 0);
	EXPECT_EQ(getsockname(rx, (struct sockaddr *)&at, &len), 0);
	to.sin_port = at.sin6_port;
	listen_to(rx);
	for (unsigned i = 1; i < 4; i++) {
		int tx = socket(AF_INET, SOCK_DGRAM, 0);

		EXPECT_EQ(connect(tx, (struct sockaddr *)&to, sizeof(to)), 0);
		EXPECT_EQ(send(tx, "m", 1, 0), 1);
		len = sizeof(from);
		EXPECT_EQ(
		    recvfrom(rx, &c, 1, 0, (struct sockaddr *)&from, &len), 1);
		EXPECT_EQ(from.sin6_family, AF_INET6);
		EXPECT_EQ(heard.n, i);
		EXPECT_EQ(heard.src.sin_family, AF_INET);
		EXPECT_EQ(heard.src.sin_port, from.sin6_port);
		EXPECT_EQ(heard.src.sin_addr.s_addr, to.sin_addr.s_addr);
		EXPECT_EQ(heard.dst.sin_port, to.sin_port);
		close(tx);
	}
}

const struct test tests_udp[] = {
#define T(name)                                                                \
	{                                                                      \
#name, name, false                                             \
	}
	T(a_group_is_joined_and_left),
	T(control_messages_are_the_datagrams),
	T(times_may_be_asked_for_on_a_copy),
	T(a_connected_socket_hears_its_peer_alone),
	T(a_reuseport_group_shares),
	T(datagrams_keep_their_order),
	T(an_ipv6_socket_hears_ipv4_senders),
	{ 0 }
};
