/* SPDX-License-Identifier: MIT */
/*
 * tests/vma/test_joined.c - datagrams that the kernel hands over joined (UDP_GRO)
 *
 * The sender joins them (UDP_SEGMENT), and the program is to see what it would see
 * without: one datagram after the other, by every call.
 */
#include "xtreme.h"

#include <netinet/udp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

#define PART 24 /* bytes of each but the last */
#define LAST 9
#define PARTS 40

/* A datagram's bytes are its number, four of them each time. */
static uint32_t sent, got;

static void fill(uint8_t *b, size_t n, uint32_t number)
{
	for (size_t i = 0; i < n; i++)
		b[i] = (uint8_t)(number >> 8 * (i % 4));
}

static void check(const void *b, size_t n, uint32_t number)
{
	uint8_t want[PART];

	EXPECT_EQ(n, number % PARTS == PARTS - 1 ? LAST : PART);
	fill(want, n, number);
	EXPECT(!memcmp(b, want, n));
}

/* PARTS datagrams in one call. */
static void send_joined(const struct ends *e)
{
	static uint8_t b[PART * PARTS];
	int size = PART;

	for (int i = 0; i < PARTS; i++)
		fill(b + i * PART, PART, sent++);
	EXPECT_EQ(
	    setsockopt(e->tx, IPPROTO_UDP, UDP_SEGMENT, &size, sizeof(size)),
	    0);
	say(e, b, sizeof(b) - PART + LAST);
	size = 0;
	EXPECT_EQ(
	    setsockopt(e->tx, IPPROTO_UDP, UDP_SEGMENT, &size, sizeof(size)),
	    0);
}

/* What the kernel has, whatever the library says. */
static int option(int fd)
{
	int on = -1;
	socklen_t len = sizeof(on);
	long r;
	register long r10 __asm__("r10") = (long)&on;
	register long r8 __asm__("r8") = (long)&len;

	__asm__ volatile("syscall"
			 : "=a"(r)
			 : "a"((long)SYS_getsockopt), "D"((long)fd),
			   "S"((long)IPPROTO_UDP), "d"((long)UDP_GRO), "r"(r10),
			   "r"(r8)
			 : "rcx", "r11", "memory");
	return r ? -1 : on;
}

static vma_recv_callback_retval_t take_all(int fd, size_t n, struct iovec iov[],
					   struct vma_info_t *info,
					   void *context)
{
	return VMA_PACKET_RECV;
}

static void receive(int fd)
{
	uint8_t b[64];
	ssize_t n = recv(fd, b, sizeof(b), MSG_DONTWAIT);

	EXPECT(n >= 0);
	check(b, (size_t)n, got++);
}

/* Two sockets; the second one's callback has seen so much that joined ones may come. */
static struct ends joined_ends(void)
{
	struct ends e = udp_ends();

	sent = got = 0;
	EXPECT_EQ(api->register_recv_callback(e.rx, take_all, NULL), 0);
	for (int i = 0; i < 4; i++) {
		send_joined(&e);
		while (got < sent)
			receive(e.rx);
	}
	EXPECT_EQ(option(e.rx), 1);
	return e;
}

static bool is_readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1 && p.revents & POLLIN;
}

static int in_queue(int fd)
{
	int n = -1;

	EXPECT_EQ(ioctl(fd, FIONREAD, &n), 0);
	return n;
}

/* The next part, by all calls that leave it where it is. */
static void look(const struct ends *e, int epfd)
{
	size_t n = got % PARTS == PARTS - 1 ? LAST : PART;
	struct epoll_event ev;
	uint8_t b[64];

	EXPECT(is_readable(e->rx));
	EXPECT_EQ(epoll_wait(epfd, &ev, 1, 0), 1);
	EXPECT_EQ(in_queue(e->rx), n);
	EXPECT_EQ(recv(e->rx, b, sizeof(b), MSG_PEEK), n);
	check(b, n, got);
	EXPECT_EQ(recv(e->rx, b, 4, MSG_PEEK | MSG_TRUNC), n);
}

static void receive_message(const struct ends *e)
{
	struct sockaddr_in from;
	uint8_t b[PART];
	struct iovec iov[2] = { { b, 4 }, { b + 4, sizeof(b) - 4 } };
	char control[128];
	struct msghdr m = { .msg_name = &from,
			    .msg_namelen = sizeof(from),
			    .msg_iov = iov,
			    .msg_iovlen = 2,
			    .msg_control = control,
			    .msg_controllen = sizeof(control) };
	ssize_t n = recvmsg(e->rx, &m, 0);

	check(b, (size_t)n, got++);
	EXPECT_EQ(m.msg_namelen, sizeof(from));
	EXPECT(!memcmp(&from, &e->tx_addr, sizeof(from)));
	EXPECT_EQ(m.msg_flags, 0);
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	EXPECT(c && c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO);
	EXPECT(!CMSG_NXTHDR(&m, c));
}

static void receive_short(const struct ends *e)
{
	uint8_t b[4], want[4];
	struct iovec iov = { b, sizeof(b) };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };

	EXPECT_EQ(recvmsg(e->rx, &m, 0), 4);
	EXPECT(m.msg_flags & MSG_TRUNC);
	fill(want, 4, got++);
	EXPECT(!memcmp(b, want, 4));
}

static void receive_some(const struct ends *e)
{
	uint8_t b[3][64];
	struct iovec iov[3];
	struct mmsghdr m[3];

	memset(m, 0, sizeof(m));
	for (int i = 0; i < 3; i++) {
		iov[i] = (struct iovec){ b[i], 64 };
		m[i].msg_hdr.msg_iov = &iov[i];
		m[i].msg_hdr.msg_iovlen = 1;
	}
	int n = recvmmsg(e->rx, m, 3, MSG_DONTWAIT, NULL);
	EXPECT(n >= 1);
	for (int i = 0; i < n; i++)
		check(b[i], m[i].msg_len, got++);
}

static void every_call_sees_each_datagram(void)
{
	struct ends e = joined_ends();
	int on = 1, epfd = epoll_create1(0);
	struct epoll_event ev = { .events = EPOLLIN };
	socklen_t len = sizeof(on);

	EXPECT_EQ(setsockopt(e.rx, IPPROTO_IP, IP_PKTINFO, &on, sizeof(on)), 0);
	EXPECT_EQ(epoll_ctl(epfd, EPOLL_CTL_ADD, e.rx, &ev), 0);
	EXPECT_EQ(getsockopt(e.rx, IPPROTO_UDP, UDP_GRO, &on, &len), 0);
	EXPECT_EQ(on, 0); /* the program has not set it */
	for (int i = 0; i < 8; i++)
		send_joined(&e);
	for (unsigned i = 0; got < sent; i++) {
		look(&e, epfd);
		switch (i % 4) {
		case 0:
			receive(e.rx);
			break;
		case 1:
			receive_message(&e);
			break;
		case 2:
			receive_short(&e);
			break;
		default:
			receive_some(&e);
			break;
		}
	}
	EXPECT(!is_readable(e.rx));
	EXPECT_EQ(epoll_wait(epfd, &ev, 1, 0), 0);
	EXPECT_EQ(in_queue(e.rx), 0);
	EXPECT_EQ(option(e.rx), 1);
}

static struct {
	unsigned n, n_held;
	struct vma_packet_t held[PARTS * 4];
	void *at[PARTS * 4];
} chosen;

/* Of three the first is held, the second dropped. */
static vma_recv_callback_retval_t choose(int fd, size_t n, struct iovec iov[],
					 struct vma_info_t *info, void *context)
{
	const struct ends *e = context;
	uint32_t number = got + chosen.n++;

	check(iov[0].iov_base, iov[0].iov_len, number);
	EXPECT(!memcmp(info->src, &e->tx_addr, sizeof(e->tx_addr)));
	EXPECT_EQ(info->payload_sz, iov[0].iov_len);
	if (chosen.n % 3 != 1)
		return chosen.n % 3 ? VMA_PACKET_DROP : VMA_PACKET_RECV;
	chosen.at[chosen.n_held] = iov[0].iov_base;
	chosen.held[chosen.n_held++].packet_id = info->packet_id;
	return VMA_PACKET_HOLD;
}

static void parts_are_dropped_and_held(void)
{
	struct ends e = joined_ends();
	uint8_t b[64];

	EXPECT_EQ(api->register_recv_callback(e.rx, choose, &e), 0);
	for (int i = 0; i < 3; i++)
		send_joined(&e);
	for (unsigned n = 0; n < PARTS; n++) {
		if (n % 2)
			EXPECT(is_readable(e.rx));
		ssize_t r = recv(e.rx, b, sizeof(b), MSG_DONTWAIT);
		check(b, (size_t)r, got + 3 * n + 2);
	}
	EXPECT(!is_readable(e.rx));
	EXPECT_EQ(chosen.n, 3 * PARTS);
	EXPECT_EQ(chosen.n_held, PARTS);
	uint32_t first = got;
	got = sent;
	EXPECT_EQ(api->register_recv_callback(e.rx, take_all, NULL), 0);
	send_joined(&e);
	while (got < sent)
		receive(e.rx);
	/* They are still what they were. */
	for (unsigned i = 0; i < PARTS; i++) {
		uint32_t number = first + 3 * i;

		check(chosen.at[i], number % PARTS == PARTS - 1 ? LAST : PART,
		      number);
		EXPECT_EQ(api->free_packets(e.rx, &chosen.held[i], 1), 0);
	}
	EXPECT_ERR(api->free_packets(e.rx, chosen.held, 1), ENOENT);
}

union zcopy {
	struct vma_packets_t head;
	char room[64];
};

static void without_a_copy(void)
{
	struct ends e = joined_ends();
	union zcopy z[PARTS];

	EXPECT_EQ(api->register_recv_callback(e.rx, NULL, NULL), 0);
	send_joined(&e);
	for (int i = 0; i < PARTS; i++) {
		struct sockaddr_in from;
		socklen_t len = sizeof(from);
		int flags = 0;

		int n = api->recvfrom_zcopy(e.rx, &z[i], sizeof(z[i]), &flags,
					    (struct sockaddr *)&from, &len);
		EXPECT(flags & MSG_VMA_ZCOPY);
		check(z[i].head.pkts[0].iov[0].iov_base, (size_t)n, got++);
		EXPECT(!memcmp(&from, &e.tx_addr, sizeof(from)));
	}
	send_joined(&e);
	for (int i = 0; i < PARTS; i++)
		receive(e.rx); /* the program's own call splits, too */
	for (int i = 0; i < PARTS; i++) {
		struct iovec v = z[i].head.pkts[0].iov[0];

		check(v.iov_base, v.iov_len, got - 2 * PARTS + (uint32_t)i);
		EXPECT_EQ(api->free_packets(e.rx, z[i].head.pkts, 1), 0);
	}
}

static void by_completions(void)
{
	struct ends e = joined_ends();
	int ring = ring_of(e.rx);

	EXPECT_EQ(api->register_recv_callback(e.rx, NULL, NULL), 0);
	for (int i = 0; i < 3; i++)
		send_joined(&e);
	while (got < sent) {
		struct vma_completion_t c = next(ring);

		EXPECT_EQ(c.events, PACKET);
		EXPECT(!memcmp(&c.src, &e.tx_addr, sizeof(c.src)));
		check(c.packet.buff_lst->payload, c.packet.total_len, got++);
		EXPECT_EQ(api->socketxtreme_free_vma_packets(&c.packet, 1), 0);
	}
	nothing(ring);
}

static void the_option_goes_if_it_is_of_no_use(void)
{
	struct ends e = joined_ends();
	uint8_t b[64];

	for (int i = 0; i < 100; i++) {
		say(&e, "alone", 5);
		EXPECT_EQ(recv(e.rx, b, sizeof(b), 0), 5);
	}
	EXPECT_ERR(recv(e.rx, b, sizeof(b), MSG_DONTWAIT), EAGAIN);
	EXPECT_EQ(option(e.rx), 0);
	/* What comes joined now the kernel takes apart. */
	send_joined(&e);
	while (got < sent)
		receive(e.rx);
}

static void a_fork_ends_it(void)
{
	struct ends e = joined_ends();
	int status;

	send_joined(&e);
	send_joined(&e);
	for (int i = 0; i < 7; i++)
		receive(e.rx);
	pid_t pid = fork();
	EXPECT_EQ(option(e.rx), 0);
	if (!pid) { /* where the parent was */
		while (got < sent)
			receive(e.rx);
		EXPECT(!is_readable(e.rx));
		_exit(0);
	}
	EXPECT_EQ(waitpid(pid, &status, 0), pid);
	EXPECT_EQ(status, 0);
}

static void a_copy_of_the_descriptor_splits(void)
{
	struct ends e = joined_ends();
	uint8_t b[64];

	send_joined(&e);
	send_joined(&e);
	receive(e.rx);
	int copy = dup(e.rx);
	EXPECT_EQ(option(e.rx), 0);
	for (int i = 0; got < sent; i++)
		receive(i % 3 ? copy : e.rx);
	EXPECT_ERR(recv(copy, b, sizeof(b), MSG_DONTWAIT), EAGAIN);
	EXPECT_ERR(recv(e.rx, b, sizeof(b), MSG_DONTWAIT), EAGAIN);
	/* And is a plain one afterwards. */
	say(&e, "plain", 5);
	EXPECT_EQ(recv(copy, b, sizeof(b), 0), 5);
	send_joined(&e);
	close(e.rx);
	while (got < sent)
		receive(copy);
}

static void a_socket_that_is_passed_on_has_no_option(void)
{
	struct ends e = joined_ends();
	char control[CMSG_SPACE(sizeof(int))] = { 0 };
	char x = 0;
	struct iovec iov = { &x, 1 };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = control,
			    .msg_controllen = sizeof(control) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	int two[2];

	EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, two), 0);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &e.rx, sizeof(int));
	EXPECT_EQ(sendmsg(two[0], &m, 0), 1);
	EXPECT_EQ(option(e.rx), 0);
	for (int i = 0; i < 60; i++) {
		send_joined(&e);
		while (got < sent)
			receive(e.rx);
	}
	EXPECT_EQ(option(e.rx), 0);
}

static void the_program_may_join_by_itself(void)
{
	struct ends e = joined_ends();
	static uint8_t b[65536];
	int on = 1;
	socklen_t len = sizeof(on);

	EXPECT_EQ(setsockopt(e.rx, IPPROTO_UDP, UDP_GRO, &on, len), 0);
	EXPECT_ERR(recv(e.rx, b, sizeof(b), MSG_DONTWAIT), EAGAIN);
	on = 0;
	EXPECT_EQ(getsockopt(e.rx, IPPROTO_UDP, UDP_GRO, &on, &len), 0);
	EXPECT_EQ(on, 1);
	send_joined(&e);
	EXPECT_EQ(recv(e.rx, b, sizeof(b), 0), PART * (PARTS - 1) + LAST);
}

/* A callback that goes while a joined datagram is half read. */
static void a_callback_may_go(void)
{
	struct ends e = joined_ends();

	send_joined(&e);
	send_joined(&e);
	for (int i = 0; i < 5; i++)
		receive(e.rx);
	EXPECT(is_readable(e.rx)); /* the callback has accepted one */
	EXPECT_EQ(api->register_recv_callback(e.rx, NULL, NULL), 0);
	while (got < sent)
		receive(e.rx);
	EXPECT(!is_readable(e.rx));
}

static void a_held_part_outlives_its_socket(void)
{
	struct ends e = joined_ends();

	memset(&chosen, 0, sizeof(chosen));
	EXPECT_EQ(api->register_recv_callback(e.rx, choose, &e), 0);
	send_joined(&e);
	EXPECT(is_readable(e.rx));
	close(e.rx);
	check(chosen.at[0], PART, got);
	EXPECT_EQ(api->free_packets(e.rx, chosen.held, 1), 0);
}

/* One datagram that looks like a part. */
static void send_one(const struct ends *e)
{
	uint8_t b[PART];
	size_t n = sent % PARTS == PARTS - 1 ? LAST : PART;

	fill(b, n, sent++);
	say(e, b, n);
}

/* The program is always so far behind. */
#define BEHIND 100

static void the_option_goes_from_a_busy_socket(void)
{
	struct ends e = joined_ends();

	for (int i = 0; i < BEHIND; i++)
		send_one(&e);
	for (int i = 0; i < 4 * BEHIND; i++) {
		send_one(&e);
		receive(e.rx);
	}
	EXPECT_EQ(option(e.rx), 0);
	EXPECT(is_readable(e.rx));
	while (got < sent)
		receive(e.rx);
	EXPECT(!is_readable(e.rx));
}

/* What is joined when the option is to go is split, and the option waits for it. */
static void a_busy_socket_loses_nothing(void)
{
	struct ends e = joined_ends();

	for (int i = 0; i < 3000; i++) {
		if (sent - got < BEHIND && sent % PARTS == 0 && i % 7 == 0)
			send_joined(&e);
		else if (sent - got < BEHIND)
			send_one(&e);
		receive(e.rx);
	}
	while (got < sent)
		receive(e.rx);
	EXPECT(!is_readable(e.rx));
}

const struct test tests_joined[] = {
#define T(name)                                                                \
	{                                                                      \
#name, name, false                                             \
	}
	T(every_call_sees_each_datagram),
	T(parts_are_dropped_and_held),
	T(without_a_copy),
	T(by_completions),
	T(the_option_goes_if_it_is_of_no_use),
	T(the_option_goes_from_a_busy_socket),
	T(a_busy_socket_loses_nothing),
	T(a_fork_ends_it),
	T(a_copy_of_the_descriptor_splits),
	T(a_socket_that_is_passed_on_has_no_option),
	T(the_program_may_join_by_itself),
	T(a_callback_may_go),
	T(a_held_part_outlives_its_socket),
	{ 0 }
};
