/* SPDX-License-Identifier: MIT */
/* tests/vma/test_control.c - rules, threads, statistics, dummy sends, NIC calls */
#include "xtreme.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/uio.h>

/* What dump_fd_stats() writes about @fd. */
static const char *dump(int fd, int level)
{
	static char text[4096];
	int fds[2], err = dup(2);

	EXPECT_EQ(pipe(fds), 0);
	dup2(fds[1], 2);
	EXPECT_EQ(api->dump_fd_stats(fd, level), 0);
	dup2(err, 2);
	EXPECT_EQ(fcntl(fds[0], F_SETFL, O_NONBLOCK), 0);
	ssize_t n = read(fds[0], text, sizeof(text) - 1);
	text[n > 0 ? n : 0] = '\0';
	close(fds[0]);
	close(fds[1]);
	close(err);
	return text;
}

/* Did another protocol than the kernel move bytes of @fd? */
static bool is_offloaded(int fd) { return strstr(dump(fd, 3), "Rx Offload: "); }

static void expect_protocol(int fd)
{
	if (!is_protocol("tcp")) /* osfd takes its time */
		EXPECT_EQ(is_offloaded(fd), !is_protocol("kernel"));
}

static void connections_move_as_the_protocol_says(void)
{
	struct ends e = tcp_ends();

	expect_protocol(e.rx);
}

/* Is there one block, about @fd alone? */
static bool is_about(int fd)
{
	const char *text = dump(fd, 3), *at = strstr(text, "\tFd=[");

	return at && atoi(at + strlen("\tFd=[")) == fd &&
	       !strstr(at + 1, "\tFd=[");
}

static void statistics_are_written_for_sockets(void)
{
	struct ends t = tcp_ends(), u = udp_ends();
	int fds[2];

	EXPECT(is_about(t.tx) && is_about(t.rx) && is_about(u.rx));
	EXPECT_EQ(pipe(fds), 0);
	EXPECT(
	    strstr(dump(t.rx, 3), "- TCP, Blocked\n- Local Address   = [127."));
	EXPECT(strstr(dump(t.rx, 3), "- Foreign Address = [127.0.0.1:"));
	EXPECT(strstr(dump(u.rx, 3), "- UDP, Blocked, MC Loop Enabled \n"));
	EXPECT_EQ(send(t.tx, "dummy", 5, VMA_SND_FLAGS_DUMMY), 5);
	EXPECT(strstr(dump(t.tx, 3), "\nTx Dummy messages : 1\n"));
	EXPECT(strstr(dump(0, 3), "\nTx Dummy messages : 1\n"));
	EXPECT(!*dump(t.rx, -1));
	EXPECT(!*dump(t.rx, 4)); /* the log leaves it out */
	EXPECT_ERR(api->dump_fd_stats(fds[0], 5), EBADF);
	EXPECT_ERR(api->dump_fd_stats(-1, 5), EBADF);
}

static void datagrams_of_rings_are_counted(void)
{
	struct ends u = udp_ends();
	int ring = ring_of(u.rx);

	for (int i = 0; i < 2; i++) {
		say(&u, "one", 3);
		struct vma_completion_t c = next_packet(ring, "one", 3);
		EXPECT_EQ(api->socketxtreme_free_vma_packets(&c.packet, 1), 0);
	}
	EXPECT(strstr(dump(u.rx, 3), "Rx OS info: 0 / 2 / 0 / 0 ["));
}

static void a_rule_is_for_the_sockets_to_come(void)
{
	char rule[] = "use os tcp_client *:*",
	     server[] = "use os tcp_server *:*";
	char bad[] = "use";
	struct ends e = tcp_ends();

	EXPECT_ERR(api->add_conf_rule(bad), EINVAL);
	EXPECT_ERR(api->add_conf_rule(NULL), EINVAL);
	EXPECT_EQ(api->add_conf_rule(rule), 0);
	EXPECT_EQ(api->add_conf_rule(server), 0);
	expect_protocol(e.rx);
	e = tcp_ends();
	EXPECT(!is_offloaded(e.rx));
}

static int udp_at(uint16_t port)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_port = htons(port),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	EXPECT(fd >= 0);
	EXPECT_EQ(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	return fd;
}

/* A UDP port that nobody has, and a rule about it. */
static struct sockaddr_in port_with_rule(const char *format)
{
	struct ends e = udp_ends();
	char rule[128];

	snprintf(rule, sizeof(rule), format, ntohs(e.rx_addr.sin_port));
	EXPECT_EQ(api->add_conf_rule(rule), 0);
	ends_close(&e);
	return e.rx_addr;
}

static vma_recv_callback_retval_t counts(int fd, size_t n, struct iovec iov[],
					 struct vma_info_t *info, void *context)
{
	(void)fd, (void)n, (void)iov, (void)info;
	++*(int *)context;
	return VMA_PACKET_DROP;
}

/* None of this API's sockets, and a plain one of the kernel's. */
static void is_left_to_the_kernel(int fd, const struct sockaddr_in *at)
{
	char buf[64];
	int flags = 0, ring, n = 0;

	EXPECT_ERR(api->register_recv_callback(fd, counts, &n), EINVAL);
	EXPECT_ERR(api->get_socket_rings_fds(fd, &ring, 1), EINVAL);
	EXPECT_ERR(sendto(fd, "x", 1, VMA_SND_FLAGS_DUMMY,
			  (const struct sockaddr *)at, sizeof(*at)),
		   EINVAL);
	EXPECT_EQ(
	    sendto(fd, "plain", 5, 0, (const struct sockaddr *)at, sizeof(*at)),
	    5);
	EXPECT_EQ(api->recvfrom_zcopy(fd, buf, sizeof(buf), &flags, NULL, NULL),
		  5);
	EXPECT_EQ(flags, 0);
	EXPECT(!memcmp(buf, "plain", 5));
}

/* TCP, too: bytes are sent from @peer. */
static void is_left(int fd, int peer)
{
	char buf[64];
	struct vma_packet_t none = { 0 };
	uint64_t data = 1;
	int flags = MSG_VMA_ZCOPY_FORCE, ring, n = 0;

	EXPECT_ERR(api->register_recv_callback(fd, counts, &n), EINVAL);
	EXPECT_ERR(api->get_socket_rings_num(fd), EINVAL);
	EXPECT_ERR(api->get_socket_rings_fds(fd, &ring, 1), EINVAL);
	EXPECT_ERR(api->get_socket_tx_ring_fd(fd, NULL, 0), EINVAL);
	EXPECT_ERR(api->free_packets(fd, &none, 1), EINVAL);
	EXPECT_ERR(send(fd, "x", 1, VMA_SND_FLAGS_DUMMY), EINVAL);
	EXPECT_ERR(
	    setsockopt(fd, SOL_SOCKET, SO_VMA_USER_DATA, &data, sizeof(data)),
	    ENOPROTOOPT);
	EXPECT_EQ(send(peer, "plain", 5, 0), 5);
	EXPECT_EQ(api->recvfrom_zcopy(fd, buf, sizeof(buf), &flags, NULL, NULL),
		  5);
	EXPECT_EQ(flags, 0);
	EXPECT(!memcmp(buf, "plain", 5));
	EXPECT_EQ(n, 0);
}

static void a_rule_leaves_tcp_to_the_kernel(void)
{
	char client[] = "use os tcp_client *:*",
	     server[] = "use os tcp_server *:*";
	struct ends e = tcp_ends();
	int n = 0, fd = socket(AF_INET, SOCK_STREAM, 0), ring;

	EXPECT_EQ(api->add_conf_rule(client), 0);
	EXPECT_EQ(api->register_recv_callback(e.rx, counts, &n), 0);
	EXPECT_EQ(api->register_recv_callback(e.tx, counts, &n), 0);
	EXPECT_EQ(api->register_recv_callback(e.rx, NULL, NULL), 0);
	ends_close(&e);
	e = tcp_ends();
	is_left(e.tx, e.rx);
	EXPECT_EQ(api->register_recv_callback(e.rx, counts, &n), 0);
	ends_close(&e);
	EXPECT_EQ(api->add_conf_rule(server), 0);
	e = tcp_ends();
	is_left(e.tx, e.rx);
	is_left(e.rx, e.tx);
	/* The rule is looked at when the socket listens. */
	EXPECT_EQ(api->register_recv_callback(fd, counts, &n), 0);
	EXPECT_EQ(bind(fd,
		       (struct sockaddr *)&(struct sockaddr_in){ .sin_family =
								     AF_INET },
		       sizeof(struct sockaddr_in)),
		  0);
	EXPECT_EQ(api->get_socket_rings_num(fd), 0);
	EXPECT_EQ(listen(fd, 1), 0);
	EXPECT_ERR(api->get_socket_rings_fds(fd, &ring, 1), EINVAL);
	EXPECT_ERR(api->register_recv_callback(fd, counts, &n), EINVAL);
}

static void a_rule_leaves_udp_to_the_kernel(void)
{
	struct sockaddr_in at = port_with_rule("use os udp_receiver *:%d");
	struct ends e = udp_ends();
	int n = 0, ring, fd = udp_at(ntohs(at.sin_port));
	struct vma_completion_t c;

	is_left_to_the_kernel(fd, &at);
	close(fd);
	/* The rule is looked at when the socket gets its address. */
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	EXPECT_EQ(api->register_recv_callback(fd, counts, &n), 0);
	EXPECT_EQ(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	is_left_to_the_kernel(fd, &at);
	close(fd);
	/* Or has had one by then. */
	fd = udp_ends().rx;
	EXPECT_EQ(api->add_conf_rule((char[]){ "use os udp_receiver *:*" }), 0);
	EXPECT_EQ(api->register_recv_callback(fd, counts, &n), 0);
	EXPECT_EQ(api->add_conf_rule((char[]){ "use osf udp_receiver *:*" }),
		  0);
	close(fd);
	/* What is connected to a peer, on both ends here. */
	at = port_with_rule("use os udp_connect 127.0.0.1:%d");
	fd = udp_at(ntohs(at.sin_port));
	EXPECT_EQ(api->register_recv_callback(fd, counts, &n), 0);
	EXPECT_EQ(api->get_socket_rings_fds(fd, &ring, 1), 1);
	EXPECT_EQ(api->socketxtreme_poll(ring, &c, 1, 0), 0);
	EXPECT_EQ(connect(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	is_left_to_the_kernel(fd, &at);
	EXPECT_EQ(send(fd, "x", 1, 0), 1);
	EXPECT_EQ(api->socketxtreme_poll(ring, &c, 1, 0), 0);
	EXPECT_EQ(recv(fd, &c, 1, 0), 1);
	EXPECT_EQ(n, 0);
	close(fd);
	/* Others are served, and those that had an address before. */
	EXPECT_EQ(api->register_recv_callback(e.rx, counts, &n), 0);
	say(&e, "x", 1);
	EXPECT_ERR(recv(e.rx, &fd, 1, MSG_DONTWAIT), EAGAIN);
	EXPECT_EQ(n, 1);
}

static void a_rule_is_for_what_a_socket_sends(void)
{
	struct sockaddr_in at = port_with_rule("use os udp_sender *:%d");
	struct ends e = udp_ends();
	int fd = udp_at(ntohs(at.sin_port)), n = 0;

	EXPECT_EQ(send(e.tx, "x", 1, VMA_SND_FLAGS_DUMMY), 1);
	EXPECT_ERR(sendto(e.tx, "x", 1, VMA_SND_FLAGS_DUMMY,
			  (struct sockaddr *)&at, sizeof(at)),
		   EINVAL);
	EXPECT_EQ(connect(e.tx, (struct sockaddr *)&at, sizeof(at)), 0);
	EXPECT_ERR(send(e.tx, "x", 1, VMA_SND_FLAGS_DUMMY), EINVAL);
	EXPECT_EQ(api->register_recv_callback(fd, counts, &n), 0);
	EXPECT_EQ(send(e.tx, "x", 1, 0), 1);
	EXPECT_ERR(recv(fd, &fd, 1, MSG_DONTWAIT), EAGAIN);
	EXPECT_EQ(n, 1);
}

static pthread_barrier_t barrier;

static void *makes_sockets(void *arg)
{
	struct ends e;

	(void)arg;
	pthread_barrier_wait(&barrier); /* main has said: leave */
	pthread_barrier_wait(&barrier);
	e = tcp_ends();
	EXPECT(!is_offloaded(e.rx));
	/* What is said last counts, whoever says it. */
	EXPECT_EQ(api->thread_offload(1, pthread_self()), 0);
	e = tcp_ends();
	EXPECT_EQ(is_offloaded(e.rx), !is_protocol("kernel"));
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier); /* main has said: leave, then offload */
	e = tcp_ends();
	EXPECT_EQ(is_offloaded(e.rx), !is_protocol("kernel"));
	return NULL;
}

static void any_thread_is_told_by_any_other(void)
{
	pthread_t t;
	struct ends e;

	EXPECT_EQ(pthread_barrier_init(&barrier, NULL, 2), 0);
	EXPECT_EQ(pthread_create(&t, NULL, makes_sockets, NULL), 0);
	pthread_barrier_wait(&barrier);
	EXPECT_EQ(api->thread_offload(0, t), 0);
	e = tcp_ends();
	EXPECT_EQ(is_offloaded(e.rx), !is_protocol("kernel")); /* not of ours */
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	EXPECT_EQ(api->thread_offload(0, t), 0);
	EXPECT_EQ(api->thread_offload(1, t), 0);
	pthread_barrier_wait(&barrier);
	pthread_join(t, NULL);
	EXPECT_ERR(api->thread_offload(2, pthread_self()), EINVAL);
	EXPECT_EQ(api->thread_offload(0, pthread_self()), 0);
	e = tcp_ends();
	EXPECT(!is_offloaded(e.rx));
	is_left(e.rx, e.tx);
	is_left(e.tx, e.rx);
	e = udp_ends();
	is_left(e.tx,
		connect(e.rx, (struct sockaddr *)&e.tx_addr, sizeof(e.tx_addr))
		    ? -1
		    : e.rx);
}

static void sends_nothing_on(struct ends *e)
{
	char text[] = "dummy";
	struct iovec iov[2] = { { text, 3 }, { text + 3, 2 } };
	struct mmsghdr m[2] = {
		{ .msg_hdr = { .msg_iov = iov, .msg_iovlen = 2 } },
		{ .msg_hdr = { .msg_iov = iov, .msg_iovlen = 1 } }
	};
	char buf[16];
	int flags = VMA_SND_FLAGS_DUMMY;

	EXPECT_EQ(send(e->tx, "dummy", 5, flags), 5);
	EXPECT_EQ(sendto(e->tx, "dummy", 5, flags, NULL, 0), 5);
	EXPECT_EQ(sendmsg(e->tx, &m[0].msg_hdr, flags), 5);
	EXPECT_EQ(sendmmsg(e->tx, m, 2, flags), 2);
	EXPECT_EQ(m[0].msg_len, 5);
	EXPECT_EQ(m[1].msg_len, 3);
	EXPECT_ERR(recv(e->rx, buf, sizeof(buf), MSG_DONTWAIT), EAGAIN);
	say(e, "real", 4);
	EXPECT_EQ(recv(e->rx, buf, sizeof(buf), 0), 4);
	EXPECT(strstr(dump(e->tx, 3), "Tx Dummy messages : 5\n"));
}

static void a_dummy_send_sends_nothing(void)
{
	struct ends u = udp_ends();
	struct sockaddr_in to = u.rx_addr;
	int sv[2], fd = socket(AF_INET, SOCK_DGRAM, 0),
		   flags = VMA_SND_FLAGS_DUMMY;
	char c;

	over_both(sends_nothing_on);
	EXPECT_EQ(sendto(fd, "x", 1, flags, (struct sockaddr *)&to, sizeof(to)),
		  1);
	EXPECT_ERR(recv(u.rx, &c, 1, MSG_DONTWAIT), EAGAIN);
	/* Between two parts of a datagram. */
	EXPECT_EQ(send(u.tx, "one ", 4, MSG_MORE), 4);
	EXPECT_EQ(send(u.tx, "dummy", 5, flags), 5);
	EXPECT_ERR(recv(u.rx, &c, 1, MSG_DONTWAIT), EAGAIN);
	EXPECT_EQ(send(u.tx, "two", 3, 0), 3);
	EXPECT_EQ(recv(u.rx, &c, 1, MSG_TRUNC), 7);
	EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, sv), 0);
	EXPECT_ERR(send(sv[0], "x", 1, flags), EINVAL);
	EXPECT_ERR(send(-1, "x", 1, flags), EINVAL);
}

static void calls_about_a_nic_say_that_there_is_none(void)
{
	struct ends e = tcp_ends();
	uint16_t len = 0;
	uint32_t key;
	int profile;

	EXPECT_ERR(api->vma_add_ring_profile(NULL, &profile), EOPNOTSUPP);
	EXPECT_ERR(api->get_socket_network_header(e.tx, NULL, &len), ENOTCONN);
	EXPECT_ERR(api->get_socket_network_header(-1, NULL, &len), EINVAL);
	EXPECT_ERR(api->get_ring_direct_descriptors(e.tx, NULL), EINVAL);
	EXPECT_ERR(api->register_memory_on_ring(e.tx, &key, 4, &key), EINVAL);
	EXPECT_ERR(api->deregister_memory_on_ring(e.tx, &key, 4), EINVAL);
	EXPECT_ERR(api->vma_modify_ring(NULL), EINVAL);
}

static void the_ring_option_is_taken(void)
{
	struct ends e = tcp_ends();
	struct vma_ring_alloc_logic_attr a = {
		.comp_mask = VMA_RING_ALLOC_MASK_RING_USER_ID,
		.ring_alloc_logic = RING_LOGIC_PER_USER_ID,
		.user_id = 7
	};

	EXPECT_EQ(setsockopt(e.tx, SOL_SOCKET, SO_VMA_RING_ALLOC_LOGIC, &a,
			     sizeof(a)),
		  0);
	EXPECT_ERR(setsockopt(e.tx, SOL_SOCKET, SO_VMA_RING_ALLOC_LOGIC, &a,
			      sizeof(a) - 1),
		   EINVAL);
	a.comp_mask = 1 << 9;
	EXPECT_ERR(setsockopt(e.tx, SOL_SOCKET, SO_VMA_RING_ALLOC_LOGIC, &a,
			      sizeof(a)),
		   EINVAL);
}

const struct test tests_control[] = {
#define T(name)                                                                \
	{                                                                      \
#name, name, false                                             \
	}
	T(connections_move_as_the_protocol_says),
	T(statistics_are_written_for_sockets),
	T(datagrams_of_rings_are_counted),
	T(a_rule_is_for_the_sockets_to_come),
	T(a_rule_leaves_tcp_to_the_kernel),
	T(a_rule_leaves_udp_to_the_kernel),
	T(a_rule_is_for_what_a_socket_sends),
	T(any_thread_is_told_by_any_other),
	T(a_dummy_send_sends_nothing),
	T(calls_about_a_nic_say_that_there_is_none),
	T(the_ring_option_is_taken),
	{ 0 }
};
