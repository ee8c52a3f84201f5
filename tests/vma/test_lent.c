/* SPDX-License-Identifier: MIT */
/* tests/vma/test_lent.c - recvfrom_zcopy(): bytes in the ring, kept as long as one likes */
#include "xtreme.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/wait.h>

#define BLOCK 60000
#define MUCH (6 << 20) /* several times around the ring */

static union {
	struct vma_packets_t head;
	char bytes[64];
} z;

static uint8_t mark(size_t i) { return (uint8_t)(i * 7 + i / 251); }

static size_t n_out, n_in; /* bytes of the stream, sent and taken */

static void put(const struct ends *e, size_t n)
{
	static uint8_t block[BLOCK];

	for (size_t i = 0; i < n; i++)
		block[i] = mark(n_out + i);
	EXPECT_EQ(send(e->tx, block, n, 0), n);
	n_out += n;
}

static bool is_right(const uint8_t *data, size_t n, size_t from)
{
	for (size_t i = 0; i < n; i++)
		if (data[i] != mark(from + i))
			return false;
	return true;
}

/* Takes what there is; the packet is z's. */
static size_t take(int fd)
{
	int flags = 0;
	int n = api->recvfrom_zcopy(fd, &z, sizeof(z), &flags, NULL, NULL);

	EXPECT(n > 0);
	EXPECT(is_right(z.head.pkts[0].iov[0].iov_base, (size_t)n, n_in));
	n_in += (size_t)n;
	return (size_t)n;
}

static void take_all(int fd)
{
	while (n_in < n_out) {
		take(fd);
		EXPECT_EQ(api->free_packets(fd, z.head.pkts, 1), 0);
	}
}

static void read_all(int fd)
{
	static uint8_t buf[BLOCK];

	while (n_in < n_out) {
		ssize_t n = recv(fd, buf, sizeof(buf), 0);

		EXPECT(n > 0);
		EXPECT(is_right(buf, (size_t)n, n_in));
		n_in += (size_t)n;
	}
}

/* In memory that the peer writes to, as /proc/self/maps says it. */
static bool is_shared(const void *at)
{
	char line[512], rights[8];
	unsigned long from, to, where = (unsigned long)at;
	bool is = false;
	FILE *f = fopen("/proc/self/maps", "r");

	while (!is && fgets(line, sizeof(line), f))
		is = sscanf(line, "%lx-%lx %7s", &from, &to, rights) == 3 &&
		     where >= from && where < to && rights[3] == 's';
	fclose(f);
	return is;
}

struct kept {
	const uint8_t *data;
	size_t n, from;
	struct vma_packet_t packet;
};

/* The next block, in place if there is a ring. */
static struct kept keep(const struct ends *e)
{
	put(e, BLOCK);
	struct kept k = { .from = n_in };
	k.n = take(e->rx);
	k.data = z.head.pkts[0].iov[0].iov_base;
	k.packet.packet_id = z.head.pkts[0].packet_id;
	EXPECT_EQ(is_shared(k.data), is_protocol("shm"));
	return k;
}

static void give_back(int fd, struct kept *k)
{
	EXPECT(is_right(k->data, k->n, k->from));
	EXPECT_EQ(api->free_packets(fd, &k->packet, 1), 0);
}

static void a_kept_piece_stops_nobody(void)
{
	struct ends e = tcp_ends();

	/* Once more when the stream has moved, and back. */
	for (int round = 0; round < 4; round++) {
		struct kept k = keep(&e);

		for (size_t end = n_out + MUCH; n_out < end;) {
			put(&e, BLOCK);
			if (round % 2)
				read_all(e.rx);
			else
				take_all(e.rx);
		}
		give_back(e.rx, &k);
		take_all(e.rx);
	}
}

/* The peer fills the ring before anybody reads. */
static void a_full_ring_moves_on(void)
{
	struct ends e = tcp_ends();
	uint8_t block[BLOCK];
	struct kept k = keep(&e);

	EXPECT_EQ(fcntl(e.tx, F_SETFL, O_NONBLOCK), 0);
	for (int round = 0; round < 8; round++) {
		ssize_t n;

		do {
			for (size_t i = 0; i < BLOCK; i++)
				block[i] = mark(n_out + i);
			n = send(e.tx, block, BLOCK, 0);
			n_out += n > 0 ? (size_t)n : 0;
		} while (n > 0);
		EXPECT_EQ(errno, EAGAIN);
		read_all(e.rx);
	}
	give_back(e.rx, &k);
}

static void a_kept_piece_outlives_its_socket(void)
{
	struct ends e = tcp_ends();
	struct kept k = keep(&e);

	ends_close(&e);
	give_back(e.rx, &k);
	EXPECT(api->free_packets(e.rx, &k.packet, 1) < 0);
}

/* A ring for each would be more memory than there is. */
static void pieces_of_closed_sockets_are_bounded(void)
{
	enum { MOST = 256, ALL = MOST + 4 };
	static struct kept k[ALL];
	int fd = 0;

	for (int i = 0; i < ALL; i++) {
		struct ends e = tcp_ends();

		n_in = n_out;
		put(&e, BLOCK);
		k[i].from = n_in;
		k[i].n = take(e.rx);
		k[i].data = z.head.pkts[0].iov[0].iov_base;
		k[i].packet.packet_id = z.head.pkts[0].packet_id;
		EXPECT(!fd || e.rx == fd);
		fd = e.rx;
		if (i == 0 || i == MOST - 1 || i == MOST)
			EXPECT_EQ(is_shared(k[i].data),
				  is_protocol("shm") && i < MOST);
		ends_close(&e);
	}
	for (int i = 0; i < ALL; i++)
		give_back(fd, &k[i]);
	struct ends e = tcp_ends();
	n_in = n_out;
	struct kept last = keep(&e); /* in place again */
	give_back(e.rx, &last);
}

static void a_child_reads_on(void)
{
	struct ends e = tcp_ends();
	struct kept k = keep(&e);
	int status;

	pid_t pid = fork();
	if (!pid) {
		alarm(20);
		close(e.tx);
		n_out += MUCH / BLOCK * BLOCK;
		read_all(e.rx);
		give_back(e.rx, &k);
		_exit(0);
	}
	for (size_t end = n_out + MUCH / BLOCK * BLOCK; n_out < end;)
		put(&e, BLOCK);
	EXPECT_EQ(waitpid(pid, &status, 0), pid);
	EXPECT_EQ(status, 0);
	n_in = n_out;
	put(&e, BLOCK);
	take_all(e.rx);
	give_back(e.rx, &k);
	for (int i = 0; i < 100; i++) {
		put(&e, BLOCK);
		take_all(e.rx);
	}
}

/* The connection goes back to the kernel: a program that knows nothing of osf reads. */
static void another_program_reads_on(void)
{
	struct ends e = tcp_ends();
	struct kept k = keep(&e);
	char in[16];
	int status;

	put(&e, 1000);
	snprintf(in, sizeof(in), "%d", e.rx);
	pid_t pid = fork();
	if (!pid) {
		alarm(20);
		unsetenv("LD_PRELOAD");
		dup2(e.rx, 0);
		execlp("sh", "sh", "-c",
		       "test $(head -c 1000 | wc -c) -eq 1000", NULL);
		_exit(1);
	}
	EXPECT_EQ(waitpid(pid, &status, 0), pid);
	EXPECT_EQ(status, 0);
	give_back(e.rx, &k);
}

/* A stream of numbers, which threads take in pieces and keep for a while. */

#define PERIOD 251 /* which no place in a ring shares */
#define PIECE 65536
#define SENDS 400
#define KEPT 7

static size_t n_taken; /* bytes; atomic */

static bool counts_up(const uint8_t *at, size_t n)
{
	for (size_t i = 1; i < n; i++)
		if (at[i] != (at[i - 1] + 1) % PERIOD)
			return false;
	return true;
}

static void *takes_numbers(void *arg)
{
	struct kept k[KEPT] = { 0 };
	union {
		struct vma_packets_t head;
		char bytes[64];
	} got;
	int fd = *(int *)arg, flags = 0, n;

	for (unsigned i = 0; (n = api->recvfrom_zcopy(fd, &got, sizeof(got),
						      &flags, NULL, NULL)) > 0;
	     i++) {
		struct kept *old = &k[i % KEPT];

		EXPECT(counts_up(old->data, old->n));
		EXPECT(!old->n || !api->free_packets(fd, &old->packet, 1));
		old->data = got.head.pkts[0].iov[0].iov_base;
		old->n = got.head.pkts[0].iov[0].iov_len;
		old->packet.packet_id = got.head.pkts[0].packet_id;
		EXPECT(counts_up(old->data, old->n));
		__atomic_add_fetch(&n_taken, (size_t)n, __ATOMIC_SEQ_CST);
	}
	EXPECT_EQ(n, 0);
	for (int i = 0; i < KEPT; i++) {
		EXPECT(counts_up(k[i].data, k[i].n));
		EXPECT(!k[i].n || !api->free_packets(fd, &k[i].packet, 1));
	}
	return NULL;
}

static void threads_take_from_one_stream(void)
{
	static uint8_t piece[PIECE];
	struct ends e = tcp_ends();
	pthread_t t[3];

	for (int i = 0; i < 3; i++)
		EXPECT_EQ(pthread_create(&t[i], NULL, takes_numbers, &e.rx), 0);
	for (size_t i = 0; i < SENDS; i++) {
		for (size_t j = 0; j < PIECE; j++)
			piece[j] = (uint8_t)((i * PIECE + j) % PERIOD);
		EXPECT_EQ(send(e.tx, piece, PIECE, 0), PIECE);
	}
	shutdown(e.tx, SHUT_WR);
	for (int i = 0; i < 3; i++)
		EXPECT_EQ(pthread_join(t[i], NULL), 0);
	EXPECT_EQ(n_taken, SENDS * PIECE);
}

/* Programs of libvma's call once per edge: there, a call takes all fragments that it has
 * room for. */
static void what_a_call_leaves_is_another_edge(void)
{
	struct ends e = tcp_ends();
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET };
	int ep = epoll_create1(0);

	EXPECT_EQ(fcntl(e.tx, F_SETFL, O_NONBLOCK), 0);
	EXPECT_EQ(epoll_ctl(ep, EPOLL_CTL_ADD, e.rx, &ev), 0);
	for (int round = 0; round < 3; round++) {
		static uint8_t block[BLOCK];
		ssize_t n;

		do { /* as much as there is room for */
			for (size_t i = 0; i < BLOCK; i++)
				block[i] = mark(n_out + i);
			n = send(e.tx, block, round ? BLOCK : 5000, 0);
			n_out += n > 0 ? (size_t)n : 0;
		} while (n > 0 && n_out - n_in < 200000);
		while (n_in < n_out) {
			EXPECT_EQ(epoll_wait(ep, &ev, 1, 10000), 1);
			take(e.rx);
			EXPECT_EQ(api->free_packets(e.rx, z.head.pkts, 1), 0);
		}
	}
	close(ep);
	ends_close(&e);
}

/* What one send takes, larger than a completion may be. */
static void put_much(const struct ends *e)
{
	static uint8_t block[200000];

	for (size_t i = 0; i < sizeof(block); i++)
		block[i] = mark(n_out + i);
	ssize_t n = send(e->tx, block, sizeof(block), 0);
	EXPECT(n > 0 || errno == EAGAIN);
	n_out += n > 0 ? (size_t)n : 0;
}

static void completions_are_in_place(void)
{
	struct sockaddr_in at;
	int ring, l = listener(&at, &ring);
	struct ends e = xtreme_ends(ring, &at);
	struct vma_buff_t *kept = NULL;
	size_t kept_from = 0;
	unsigned n_in_place = 0, n_looks = 0;

	while (n_in < MUCH) {
		put_much(&e);
		if (n_in == n_out)
			continue;
		struct vma_completion_t c = next(ring);
		struct vma_buff_t *b = c.packet.buff_lst;
		if (!(c.events & PACKET))
			continue;
		EXPECT(is_right(b->payload, b->len, n_in));
		EXPECT_EQ(c.packet.total_len, b->len);
		if (!kept && n_in && n_looks++ < 20 && is_shared(b->payload))
			n_in_place++;
		/* Once enough of them lay in the ring, one stays there. */
		if (n_in_place == 4 && !kept) {
			EXPECT_EQ(api->socketxtreme_ref_vma_buff(b), 2);
			kept = b;
			kept_from = n_in;
		}
		n_in += b->len;
		EXPECT_EQ(api->socketxtreme_free_vma_packets(&c.packet, 1), 0);
	}
	EXPECT_EQ(kept != NULL, is_protocol("shm"));
	ends_close(&e);
	close(l);
	if (kept) {
		EXPECT(is_right(kept->payload, kept->len, kept_from));
		EXPECT_EQ(api->socketxtreme_free_vma_buff(kept), 0);
		EXPECT_ERR(api->socketxtreme_free_vma_buff(kept), EINVAL);
	}
}

const struct test tests_lent[] = {
#define T(name)                                                                \
	{                                                                      \
#name, name, false                                             \
	}
	T(a_kept_piece_stops_nobody),
	T(a_full_ring_moves_on),
	T(a_kept_piece_outlives_its_socket),
	T(pieces_of_closed_sockets_are_bounded),
	T(threads_take_from_one_stream),
	T(a_child_reads_on),
	T(another_program_reads_on),
	T(what_a_call_leaves_is_another_edge),
	T(completions_are_in_place),
	{ 0 }
};
