/* SPDX-License-Identifier: MIT */
/* tests/vma/test_rings.c - SocketXtreme: many sockets, threads, fork, ends of rings */
#include "xtreme.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>

#define CROWD 200

static struct vma_completion_t last;

static void many_connections_share_a_ring(void)
{
	struct vma_completion_t c[64];
	struct sockaddr_in at;
	int ring, tx[CROWD], n_accepted = 0, n_ended = 0, n;
	unsigned seen[CROWD] = { 0 };
	size_t bytes = 0;

	listener(&at, &ring);
	for (int i = 0; i < CROWD; i++) {
		tx[i] = connecting(&at);
		while (send(tx[i], &i, sizeof(i), 0) < 0)
			EXPECT_EQ(errno, EAGAIN);
	}
	while (bytes < sizeof(int) * CROWD) {
		n = api->socketxtreme_poll(ring, c, 64, 0);
		EXPECT(n >= 0);
		for (int i = 0; i < n; i++) {
			if (c[i].events == NEW_CONNECTION) {
				n_accepted++;
				continue;
			}
			EXPECT_EQ(c[i].events, PACKET);
			EXPECT_EQ(c[i].packet.total_len, sizeof(int));
			seen[*(int *)c[i].packet.buff_lst->payload]++;
			bytes += c[i].packet.total_len;
			EXPECT_EQ(
			    api->socketxtreme_free_vma_packets(&c[i].packet, 1),
			    0);
		}
	}
	EXPECT_EQ(n_accepted, CROWD);
	for (int i = 0; i < CROWD; i++) {
		EXPECT_EQ(seen[i], 1);
		close(tx[i]);
	}
	while (n_ended < CROWD) {
		n = api->socketxtreme_poll(ring, c, 64, 0);
		for (int i = 0; i < n; i++, n_ended++) {
			EXPECT_EQ(c[i].events, EPOLLIN | EPOLLRDHUP);
			close((int)c[i].user_data);
		}
	}
	nothing(ring);
}

static void a_bulk_stream_is_whole(void)
{
	static char out[3000000], in[sizeof(out)];
	struct sockaddr_in at;
	size_t sent = 0, got = 0;
	int ring;

	listener(&at, &ring);
	struct ends e = xtreme_ends(ring, &at);
	for (size_t i = 0; i < sizeof(out); i++)
		out[i] = (char)(i * 7 + i / 251);
	while (got < sizeof(in)) {
		struct vma_completion_t c;
		ssize_t n = send(e.tx, out + sent, sizeof(out) - sent, 0);

		sent += n > 0 ? (size_t)n : 0;
		int is = api->socketxtreme_poll(ring, &c, 1, 0);
		EXPECT(is >= 0);
		if (!is)
			continue;
		EXPECT_EQ(c.events, PACKET);
		EXPECT(got + c.packet.total_len <= sizeof(in));
		memcpy(in + got, c.packet.buff_lst->payload,
		       c.packet.total_len);
		got += c.packet.total_len;
		EXPECT_EQ(api->socketxtreme_free_vma_packets(&c.packet, 1), 0);
	}
	EXPECT(!memcmp(in, out, sizeof(in)));
	nothing(ring);
}

static void *asks(void *arg)
{
	struct ends e = { .tx = connecting(arg) };
	struct pollfd p = { .fd = e.tx, .events = POLLOUT };
	char b;

	/* Asleep, so that who answers has the cores of a busy machine. */
	EXPECT_EQ(poll(&p, 1, -1), 1);
	EXPECT_EQ(fcntl(e.tx, F_SETFL, 0), 0);
	for (int i = 0; i < 200; i++) {
		EXPECT_EQ(send(e.tx, "q", 1, 0), 1);
		EXPECT_EQ(recv(e.tx, &b, 1, 0), 1);
	}
	close(e.tx);
	return NULL;
}

struct answering {
	int ring;
	unsigned n_ended;
};

static void *answers(void *arg)
{
	struct answering *a = arg;
	struct vma_completion_t c;

	while (__atomic_load_n(&a->n_ended, __ATOMIC_SEQ_CST) < 4) {
		int n = api->socketxtreme_poll(a->ring, &c, 1, 0);

		EXPECT(n >= 0);
		if (!n)
			sched_yield();
		if (!n || c.events == NEW_CONNECTION)
			continue;
		if (!(c.events & PACKET)) {
			EXPECT_EQ(c.events, EPOLLIN | EPOLLRDHUP);
			close((int)c.user_data);
			__atomic_add_fetch(&a->n_ended, 1, __ATOMIC_SEQ_CST);
			continue;
		}
		EXPECT_EQ(send((int)c.user_data, c.packet.buff_lst->payload,
			       c.packet.total_len, 0),
			  c.packet.total_len);
		EXPECT_EQ(api->socketxtreme_free_vma_packets(&c.packet, 1), 0);
	}
	return NULL;
}

static void threads_may_poll_one_ring(void)
{
	struct sockaddr_in at;
	struct answering a = { 0 };
	pthread_t t[6];

	listener(&at, &a.ring);
	for (int i = 0; i < 6; i++)
		EXPECT_EQ(pthread_create(&t[i], NULL, i < 4 ? asks : answers,
					 i < 4 ? (void *)&at : (void *)&a),
			  0);
	for (int i = 0; i < 6; i++)
		EXPECT_EQ(pthread_join(t[i], NULL), 0);
	nothing(a.ring);
}

static void a_child_has_the_ring_too(void)
{
	struct sockaddr_in at;
	int ring, status;

	listener(&at, &ring);
	struct ends e = xtreme_ends(ring, &at);
	pid_t pid = fork();
	if (!pid) {
		alarm(30);
		next_packet(ring, "child", 5);
		EXPECT_EQ(send(e.rx, "seen", 4, 0), 4);
		_exit(0);
	}
	say(&e, "child", 5);
	EXPECT_EQ(waitpid(pid, &status, 0), pid);
	EXPECT_EQ(status, 0);
	nothing(ring);
	say(&e, "parent", 6);
	next_packet(ring, "parent", 6);
}

static void a_closed_ring_lets_its_sockets_go(void)
{
	struct sockaddr_in at;
	struct vma_completion_t c;
	int ring;

	listener(&at, &ring);
	struct ends e = xtreme_ends(ring, &at);
	EXPECT_EQ(close(ring), 0);
	EXPECT_ERR(api->socketxtreme_poll(ring, &c, 1, 0), EBADFD);
	char b[8];
	say(&e, "plain", 5);
	EXPECT_EQ(recv(e.rx, b, sizeof(b), 0), 5);
	ring = ring_of(e.rx);
	EXPECT_EQ(next(ring).events, EPOLLOUT);
	say(&e, "again", 5);
	EXPECT_EQ(next_packet(ring, "again", 5).user_data, e.rx);
	close(e.rx);
	nothing(ring);
}

static int ring_of_user(uint32_t id, uint32_t mask)
{
	struct vma_ring_alloc_logic_attr by = { .ring_alloc_logic =
						    RING_LOGIC_PER_USER_ID,
						.comp_mask = mask,
						.user_id = id };
	struct ends e = udp_ends();

	EXPECT_EQ(setsockopt(e.rx, SOL_SOCKET, SO_VMA_RING_ALLOC_LOGIC, &by,
			     sizeof(by)),
		  0);
	return ring_of(e.rx);
}

static void a_program_chooses_who_shares(void)
{
	struct vma_ring_alloc_logic_attr own = { .ring_alloc_logic =
						     RING_LOGIC_PER_SOCKET };
	struct ends a = udp_ends(), b = udp_ends();

	EXPECT_EQ(setsockopt(a.rx, SOL_SOCKET, SO_VMA_RING_ALLOC_LOGIC, &own,
			     sizeof(own)),
		  0);
	int ring = ring_of(a.rx), other = ring_of(b.rx);
	EXPECT(ring != other);
	say(&a, "a", 1);
	say(&b, "b", 1);
	next_packet(other, "b", 1);
	next_packet(ring, "a", 1);
	nothing(ring);
	nothing(other);
	ring = ring_of_user(7, VMA_RING_ALLOC_MASK_RING_USER_ID);
	EXPECT(ring != other);
	EXPECT_EQ(ring_of_user(7, VMA_RING_ALLOC_MASK_RING_USER_ID), ring);
	EXPECT(ring_of_user(8, VMA_RING_ALLOC_MASK_RING_USER_ID) != ring);
	/* The mask does not say that the id counts. */
	EXPECT_EQ(ring_of_user(7, 0), ring_of_user(8, 0));
}

static int ring_in_callback;

static vma_recv_callback_retval_t decides(int fd, size_t n, struct iovec iov[],
					  struct vma_info_t *info,
					  void *context)
{
	char first = *(char *)iov[0].iov_base;

	(void)n, (void)info, (void)context;
	/* The ring is being polled. */
	EXPECT_EQ(api->socketxtreme_poll(ring_in_callback, &last, 1, 0), 0);
	if (first == 'c')
		close(fd);
	return first == 'd'   ? VMA_PACKET_DROP
	       : first == 'h' ? VMA_PACKET_HOLD
			      : VMA_PACKET_RECV;
}

static void callbacks_come_first(void)
{
	struct sockaddr_in at;
	int ring;

	listener(&at, &ring);
	struct ends e = xtreme_ends(ring, &at);
	ring_in_callback = ring;
	EXPECT_EQ(api->register_recv_callback(e.rx, decides, NULL), 0);
	say(&e, "drop", 4);
	nothing(ring);
	say(&e, "hold", 4);
	nothing(ring);
	say(&e, "recv", 4);
	next_packet(ring, "recv", 4);
	say(&e, "close", 5);
	next_packet(ring, "close", 5);
	nothing(ring);
	EXPECT_ERR(send(e.rx, "x", 1, 0), EBADF);
}

static size_t n_allocated;
static char *allocated, *allocated_end; /* the last time */

static void *own_alloc(size_t n)
{
	n_allocated += n;
	allocated = aligned_alloc(64, (n + 63) / 64 * 64);
	allocated_end = allocated + n;
	return allocated;
}

/* Blocks that a protocol would lend, too. */
static void blocks_lie_there(void)
{
	union {
		struct vma_packets_t head;
		char bytes[64];
	} one;
	static char block[8192];
	struct ends e = tcp_ends();

	for (int i = 0; i < 2; i++) {
		int flags = 0;

		say(&e, block, sizeof(block));
		EXPECT(api->recvfrom_zcopy(e.rx, &one, sizeof(one), &flags,
					   NULL, NULL) > 0);
		const char *at = one.head.pkts[0].iov[0].iov_base;
		EXPECT(at >= allocated && at < allocated_end);
		EXPECT_EQ(api->free_packets(e.rx, one.head.pkts, 1), 0);
		while (recv(e.rx, block, sizeof(block), MSG_DONTWAIT) > 0)
			;
	}
	ends_close(&e);
}

static void memory_may_be_the_programs(void)
{
	union {
		struct cmsghdr c;
		char room[CMSG_SPACE(sizeof(vma_cmsg_ioctl_user_alloc_t))];
	} m = { .c = { .cmsg_level = SOL_SOCKET,
		       .cmsg_type = CMSG_VMA_IOCTL_USER_ALLOC,
		       .cmsg_len =
			   CMSG_LEN(sizeof(vma_cmsg_ioctl_user_alloc_t)) } };
	vma_cmsg_ioctl_user_alloc_t a = { VMA_IOCTL_USER_ALLOC_FLAG_RX,
					  own_alloc, free };

	EXPECT_ERR(api->ioctl(NULL, sizeof(m)), EINVAL);
	EXPECT_ERR(api->ioctl(&m, sizeof(m)), EINVAL); /* no functions */
	memcpy(CMSG_DATA(&m.c), &a, sizeof(a));
	EXPECT_EQ(api->ioctl(&m, sizeof(m)), 0);
	/* The first socket takes memory, as libvma does, and ends the choice. */
	close(socket(AF_UNIX, SOCK_DGRAM, 0));
	EXPECT_EQ(n_allocated, 0);
	EXPECT_EQ(api->ioctl(&m, sizeof(m)), 0);
	close(socket(AF_INET, SOCK_DGRAM, 0));
	EXPECT(n_allocated > 1500);
	EXPECT_ERR(api->ioctl(&m, sizeof(m)), EINVAL);
	struct ends e = udp_ends();
	int ring = ring_of(e.rx);
	say(&e, "mine", 4);
	struct vma_completion_t c = next_packet(ring, "mine", 4);
	EXPECT_EQ(api->socketxtreme_free_vma_packets(&c.packet, 1), 0);
	blocks_lie_there();
}

#define OWN_BYTES 600000 /* two chunks */
#define HELD_MOST 64

static char *own_memory;

static int lie_there(int fd)
{
	struct iovec at = { own_memory, OWN_BYTES };

	return setsockopt(fd, SOL_SOCKET, SO_VMA_RING_USER_MEMORY, &at,
			  sizeof(at));
}

static bool is_own(const void *at)
{
	return (const char *)at >= own_memory &&
	       (const char *)at < own_memory + OWN_BYTES;
}

static union {
	struct vma_packets_t head;
	char bytes[64];
} z;

/* Blocks that come by recvfrom_zcopy() and are held, until there is no room for more. */
static size_t hold_all(const struct ends *e,
		       struct vma_packet_t held[HELD_MOST])
{
	static char block[60000];
	size_t n_held = 0;

	for (;; n_held++) {
		int flags = 0;

		EXPECT(n_held < HELD_MOST);
		say(e, block, sizeof(block));
		int n = api->recvfrom_zcopy(e->rx, &z, sizeof(z), &flags, NULL,
					    NULL);
		if (n < 0)
			return n_held;
		EXPECT(is_own(z.head.pkts[0].iov[0].iov_base));
		held[n_held].packet_id = z.head.pkts[0].packet_id;
		held[n_held].sz_iov = 0;
	}
}

static void packets_lie_where_the_program_says(void)
{
	struct ends t = tcp_ends(), u = udp_ends();
	struct vma_packet_t held[HELD_MOST];
	struct iovec small = { &t, sizeof(t) };
	char *none = NULL;
	int flags = 0;

	own_memory = aligned_alloc(64, OWN_BYTES / 64 * 64 + 64);
	EXPECT_ERR(setsockopt(u.rx, SOL_SOCKET, SO_VMA_RING_USER_MEMORY, &small,
			      sizeof(small)),
		   EINVAL);
	EXPECT_ERR(setsockopt(u.rx, SOL_SOCKET, SO_VMA_RING_USER_MEMORY, &none,
			      sizeof(none)),
		   EINVAL);
	EXPECT_EQ(lie_there(u.rx), 0);
	EXPECT_EQ(lie_there(t.rx), 0);
	int ring = ring_of(u.rx);
	say(&u, "here", 4);
	struct vma_completion_t c = next_packet(ring, "here", 4);
	EXPECT(is_own(c.packet.buff_lst->payload));
	EXPECT_ERR(lie_there(u.rx), EBUSY);
	EXPECT_EQ(api->socketxtreme_free_vma_packets(&c.packet, 1), 0);
	size_t n = hold_all(&t, held);
	EXPECT(n >= 4);
	EXPECT_ERR(api->recvfrom_zcopy(t.rx, &z, sizeof(z), &flags, NULL, NULL),
		   ENOBUFS);
	for (size_t i = 0; i < n; i++)
		EXPECT_EQ(api->free_packets(t.rx, &held[i], 1), 0);
	EXPECT(api->recvfrom_zcopy(t.rx, &z, sizeof(z), &flags, NULL, NULL) >
	       0);
	EXPECT(is_own(z.head.pkts[0].iov[0].iov_base));
}

static void a_flow_tag_is_a_number(void)
{
	struct ends e = udp_ends();
	uint32_t tag = 5, none = 0, mask = 0xfffff;

	EXPECT_EQ(setsockopt(e.rx, SOL_SOCKET, SO_VMA_FLOW_TAG, &tag, 4), 0);
	EXPECT_ERR(setsockopt(e.rx, SOL_SOCKET, SO_VMA_FLOW_TAG, &none, 4),
		   EINVAL);
	EXPECT_ERR(setsockopt(e.rx, SOL_SOCKET, SO_VMA_FLOW_TAG, &mask, 4),
		   EINVAL);
	EXPECT_ERR(setsockopt(e.rx, SOL_SOCKET, SO_VMA_FLOW_TAG, &tag, 2),
		   EINVAL);
}

const struct test tests_rings[] = {
#define T(name)                                                                \
	{                                                                      \
#name, name, false                                             \
	}
	T(many_connections_share_a_ring),
	T(a_bulk_stream_is_whole),
	T(threads_may_poll_one_ring),
	T(a_child_has_the_ring_too),
	T(a_closed_ring_lets_its_sockets_go),
	T(a_program_chooses_who_shares),
	T(callbacks_come_first),
	T(memory_may_be_the_programs),
	T(packets_lie_where_the_program_says),
	T(a_flow_tag_is_a_number),
	{ 0 }
};
