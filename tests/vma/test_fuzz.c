/* SPDX-License-Identifier: MIT */
/*
 * tests/vma/test_fuzz.c - random calls of the whole API, and what must hold
 *
 *     streams     byte i of a stream is mark(i): each way to take bytes takes the next
 *     datagrams   each carries its number, and they come in order
 *     held        what is held is what it was, until it is freed, once
 *
 * OSF_VMA_FUZZ=SEED,STEPS runs another sequence than the usual ones; of threads, other
 * sequences.  A failure prints the seed.
 */
#include "xtreme.h"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/wait.h>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

#define PAIRS 5 /* of each kind */
#define HELD 64
#define MOST 12000 /* bytes of a send */
#define DATAGRAM 500
#define AHEAD                                                                  \
	30000 /* bytes of a stream, or datagrams times 300, not received yet */

struct pair {
	struct ends e;
	bool is_udp, is_open, is_on_ring, has_callback;
	uint64_t sent, pos; /* bytes or datagrams */
	struct fuzz *f;
};

struct held {
	const uint8_t *data;
	size_t n;
	uint64_t pos;
	bool is_udp;
	int fd;                     /* whose packet it is, or */
	struct vma_buff_t *buff;    /* its buffer */
	struct vma_packet_t packet; /* without vectors, which nobody reads */
	struct iovec none;
};

struct fuzz {
	uint64_t random;
	unsigned seed, step;
	int ring;
	struct pair pairs[2 * PAIRS];
	struct held held[HELD];
	unsigned n_held;
	struct sockaddr_in at; /* where the ring's listener is */
};

static __thread struct fuzz *now_running;

static void must(bool ok, const char *what, int line)
{
	if (ok)
		return;
	fprintf(stderr,
		"test_fuzz.c:%d: seed %u step %u: not so: %s; errno %d\n", line,
		now_running->seed, now_running->step, what, errno);
	fflush(NULL);
	_exit(1);
}
#define MUST(x) must((x), #x, __LINE__)

static unsigned pick(struct fuzz *f, unsigned n)
{
	f->random = f->random * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(f->random >> 33) % n;
}

static uint8_t mark(uint64_t i) { return (uint8_t)(i * 7 + i / 251); }

static bool is_right(bool is_udp, const uint8_t *data, size_t n, uint64_t pos)
{
	if (is_udp) {
		uint64_t number = pos;

		return n >= sizeof(number) &&
		       !memcmp(data, &number, sizeof(number));
	}
	for (size_t i = 0; i < n; i++)
		if (data[i] != mark(pos + i))
			return false;
	return true;
}

/* The next @n bytes, or the next datagram, were taken. */
static void taken(struct pair *p, const void *data, size_t n)
{
	MUST(is_right(p->is_udp, data, n, p->pos));
	p->pos += p->is_udp ? 1 : n;
}

static struct held *hold(struct pair *p, const void *data, size_t n)
{
	struct fuzz *f = p->f;

	if (f->n_held == HELD)
		return NULL;
	struct held *h = &f->held[f->n_held++];
	*h = (struct held){ .data = data,
			    .n = n,
			    .pos = p->pos,
			    .is_udp = p->is_udp,
			    .fd = p->e.rx };
	return h;
}

static void let_go(struct fuzz *f, unsigned i)
{
	struct held h = f->held[i];

	MUST(is_right(h.is_udp, h.data, h.n, h.pos));
	f->held[i] = f->held[--f->n_held];
	if (h.buff) {
		MUST(api->socketxtreme_free_vma_buff(h.buff) == 0);
		return;
	}
	/* Its number may be another socket's by now: then it is not found. */
	int r = api->free_packets(h.fd, &h.packet, 1);
	MUST(!r || errno == ENOENT || errno == EINVAL);
	if (!r)
		MUST(api->free_packets(h.fd, &h.packet, 1) < 0);
}

static vma_recv_callback_retval_t on_packet(int fd, size_t n_iov,
					    struct iovec iov[],
					    struct vma_info_t *info,
					    void *context)
{
	struct pair *p = context;
	struct fuzz *f = p->f;
	unsigned what = pick(f, 16);
	struct held *h;
	char b;

	MUST(n_iov == 1 && info->payload_sz == iov[0].iov_len);
	MUST(fd == p->e.rx);
	MUST(is_right(p->is_udp, iov[0].iov_base, iov[0].iov_len, p->pos));
	if (what == 15)
		MUST(recv(fd, &b, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN);
	if (what == 14)
		send(fd, "y", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (what == 13) {
		api->register_recv_callback(fd, NULL, NULL);
		p->has_callback = false;
	}
	if (what < 3 && (h = hold(p, iov[0].iov_base, iov[0].iov_len))) {
		h->packet.packet_id = info->packet_id;
		p->pos += p->is_udp ? 1 : iov[0].iov_len;
		return VMA_PACKET_HOLD;
	}
	if (what < 6) {
		p->pos += p->is_udp ? 1 : iov[0].iov_len;
		return VMA_PACKET_DROP;
	}
	return VMA_PACKET_RECV;
}

static struct pair *pair_of(struct fuzz *f, uint64_t fd)
{
	for (int i = 0; i < 2 * PAIRS; i++)
		if (f->pairs[i].is_open && f->pairs[i].e.rx == (int)fd)
			return &f->pairs[i];
	return NULL;
}

static void poll_ring(struct fuzz *f)
{
	struct vma_completion_t c[4];
	unsigned most = 1 + pick(f, 4);

	/* A callback sees what is behind a completion before we do. */
	for (int i = 0; i < 2 * PAIRS; i++)
		if (f->pairs[i].has_callback)
			most = 1;
	int n = api->socketxtreme_poll(f->ring, c, most, 0);
	MUST(n >= 0);
	for (int i = 0; i < n; i++) {
		if (!(c[i].events & PACKET))
			continue;
		struct pair *p = pair_of(f, c[i].user_data);
		struct vma_buff_t *b = c[i].packet.buff_lst;
		MUST(p && c[i].packet.num_bufs == 1);
		struct held *h =
		    pick(f, 4) ? NULL : hold(p, b->payload, b->len);
		taken(p, b->payload, b->len);
		if (h) {
			h->buff = b;
			MUST(api->socketxtreme_ref_vma_buff(b) == 2);
		}
		MUST(!api->socketxtreme_free_vma_packets(&c[i].packet, 1));
	}
}

/* Opening and closing. */

/* Room for all that is held at once. */
#define OWN_BYTES (128u << 20)

/* The packets of some sockets lie in memory of the program's. */
static void lie_in_own(struct fuzz *f, int fd)
{
	static char *own; /* one for all threads */
	struct iovec at = { __atomic_load_n(&own, __ATOMIC_ACQUIRE),
			    OWN_BYTES };

	if (pick(f, 3))
		return;
	if (!at.iov_base) {
		char *mine = malloc(OWN_BYTES), *none = NULL;

		if (__atomic_compare_exchange_n(&own, &none, mine, false,
						__ATOMIC_ACQ_REL,
						__ATOMIC_ACQUIRE))
			none = mine;
		else
			free(mine);
		at.iov_base = none;
	}
	EXPECT_EQ(setsockopt(fd, SOL_SOCKET, SO_VMA_RING_USER_MEMORY, &at,
			     sizeof(at)),
		  0);
}

static void make(struct fuzz *f, struct pair *p)
{
	bool is_udp = p->is_udp;

	*p = (struct pair){ .f = f, .is_udp = is_udp, .is_open = true };
	p->e = is_udp ? udp_ends() : tcp_ends();
	lie_in_own(f, p->e.rx);
	fcntl(p->e.tx, F_SETFL, O_NONBLOCK);
}

static void unmake(struct pair *p)
{
	ends_close(&p->e);
	p->is_open = false;
}

/* Steps. */

/* Datagrams of one size, joined; the last one may be shorter. */
static void put_joined(struct fuzz *f, struct pair *p)
{
	int size = 8 + (int)pick(f, 56), none = 0;
	uint64_t n = 1 + pick(f, 20);
	uint8_t buf[64 * 21];

	for (uint64_t i = 0; i < n; i++) {
		uint64_t number = p->sent + i;

		memcpy(buf + i * (unsigned)size, &number, sizeof(number));
	}
	size_t bytes = n * (unsigned)size - pick(f, (unsigned)size - 7);
	setsockopt(p->e.tx, IPPROTO_UDP, UDP_SEGMENT, &size, sizeof(size));
	if (send(p->e.tx, buf, bytes, 0) > 0)
		p->sent += n;
	setsockopt(p->e.tx, IPPROTO_UDP, UDP_SEGMENT, &none, sizeof(none));
}

static void put(struct fuzz *f, struct pair *p)
{
	uint8_t buf[MOST];
	size_t n = 1 + pick(f, p->is_udp ? DATAGRAM : pick(f, 3) ? 100 : MOST);

	if ((p->sent - p->pos) * (p->is_udp ? 300 : 1) > AHEAD)
		return;
	if (p->is_udp && pick(f, 2)) {
		put_joined(f, p);
		return;
	}
	for (size_t i = 0; i < n; i++)
		buf[i] = mark(p->sent + i);
	if (p->is_udp) {
		memcpy(buf, &p->sent, sizeof(p->sent));
		n = n < 8 ? 8 : n;
	}
	ssize_t r =
	    send(p->e.tx, buf, n, p->is_udp || pick(f, 8) ? 0 : MSG_MORE);
	if (p->is_udp && r < 0)
		return;
	MUST(r > 0 || errno == EAGAIN);
	if (r > 0)
		p->sent += p->is_udp ? 1 : (size_t)r;
}

static void take(struct fuzz *f, struct pair *p)
{
	uint8_t buf[2 * MOST];
	size_t n = p->is_udp ? sizeof(buf) : 1 + pick(f, sizeof(buf) - 1);
	struct iovec iov[2] = { { buf, n / 2 }, { buf + n / 2, n - n / 2 } };
	struct msghdr m = { .msg_iov = iov, .msg_iovlen = 2 };
	bool peeks = !pick(f, 6);
	int flags = MSG_DONTWAIT | (peeks ? MSG_PEEK : 0);
	ssize_t r = pick(f, 2) ? recv(p->e.rx, buf, n, flags)
			       : recvmsg(p->e.rx, &m, flags);

	if (r < 0) {
		MUST(errno == EAGAIN || errno == ENOBUFS);
		return;
	}
	if (peeks)
		MUST(is_right(p->is_udp, buf, (size_t)r, p->pos));
	else
		taken(p, buf, (size_t)r);
}

static void take_in_place(struct fuzz *f, struct pair *p)
{
	union {
		struct vma_packets_t head;
		char room[128];
	} z;
	bool peeks = !pick(f, 8);
	int flags = MSG_DONTWAIT | (peeks ? MSG_PEEK : 0);
	int r = api->recvfrom_zcopy(p->e.rx, &z, sizeof(z), &flags, NULL, NULL);

	if (r < 0) {
		MUST(errno == EAGAIN || errno == ENOBUFS);
		return;
	}
	MUST(z.head.n_packet_num == 1 && flags & MSG_VMA_ZCOPY);
	const uint8_t *data = z.head.pkts[0].iov[0].iov_base;
	struct held *h = pick(f, 3) ? NULL : hold(p, data, (size_t)r);
	if (h)
		h->packet.packet_id = z.head.pkts[0].packet_id;
	if (peeks)
		MUST(is_right(p->is_udp, data, (size_t)r, p->pos));
	else
		taken(p, data, (size_t)r);
	if (!h)
		MUST(!api->free_packets(p->e.rx, z.head.pkts, 1));
}

static void wait_for(struct fuzz *f, struct pair *p)
{
	struct pollfd pf = { .fd = p->e.rx, .events = POLLIN };
	struct timeval tv = { 0 };
	fd_set r;

	if (pick(f, 2)) {
		MUST(poll(&pf, 1, 0) >= 0);
		return;
	}
	FD_ZERO(&r);
	FD_SET(p->e.rx, &r);
	MUST(select(p->e.rx + 1, &r, NULL, NULL, &tv) >= 0);
}

static void join(struct fuzz *f, struct pair *p)
{
	struct vma_ring_alloc_logic_attr own = { .ring_alloc_logic =
						     RING_LOGIC_PER_THREAD };
	int ring;

	MUST(!setsockopt(p->e.rx, SOL_SOCKET, SO_VMA_RING_ALLOC_LOGIC, &own,
			 sizeof(own)));
	MUST(api->get_socket_rings_fds(p->e.rx, &ring, 1) == 1);
	f->ring = ring;
	p->is_on_ring = true;
}

static void have_a_child(struct fuzz *f)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		alarm(20);
		for (unsigned i = 0; i < f->n_held; i++)
			MUST(is_right(f->held[i].is_udp, f->held[i].data,
				      f->held[i].n, f->held[i].pos));
		_exit(0);
	}
	MUST(pid > 0 && waitpid(pid, &status, 0) == pid && !status);
}

static void step(struct fuzz *f, bool forks)
{
	struct pair *p = &f->pairs[pick(f, 2 * PAIRS)];
	unsigned what = pick(f, 100);

	if (!p->is_open)
		make(f, p);
	if (what < 35)
		put(f, p);
	else if (what < 50)
		take(f, p);
	else if (what < 60)
		take_in_place(f, p);
	else if (what < 68)
		wait_for(f, p);
	else if (what < 82 && f->ring >= 0)
		poll_ring(f);
	else if (what < 88 && f->n_held)
		let_go(f, pick(f, f->n_held));
	else if (what < 92 && !p->is_on_ring)
		join(f, p);
	else if (what < 95)
		MUST(!api->register_recv_callback(
		    p->e.rx, (p->has_callback = pick(f, 2)) ? on_packet : NULL,
		    p));
	else if (what == 95 && forks && !pick(f, 10))
		have_a_child(f);
	else if (what == 96)
		unmake(p);
	else if (what == 97 && f->ring >= 0 && !pick(f, 4)) {
		close(f->ring);
		f->ring = -1;
		for (int i = 0; i < 2 * PAIRS; i++)
			f->pairs[i].is_on_ring = false;
	}
}

/* All that was sent comes. */
static void finish(struct fuzz *f)
{
	for (int i = 0; i < 2 * PAIRS; i++) {
		struct pair *p = &f->pairs[i];

		if (!p->is_open)
			continue;
		api->register_recv_callback(p->e.rx, NULL, NULL);
		if (!p->is_udp)
			shutdown(p->e.tx, SHUT_WR);
		while (p->pos < p->sent) {
			uint8_t buf[2 * MOST];
			ssize_t r = recv(p->e.rx, buf, sizeof(buf), 0);

			MUST(r > 0);
			taken(p, buf, (size_t)r);
		}
		unmake(p);
	}
	while (f->n_held)
		let_go(f, 0);
}

static void run(unsigned seed, unsigned steps, bool forks)
{
	struct fuzz *f = calloc(1, sizeof(*f));

	f->seed = seed;
	f->random = seed * 2654435761u + 1;
	f->ring = -1;
	now_running = f;
	for (int i = 0; i < 2 * PAIRS; i++)
		f->pairs[i].is_udp = i >= PAIRS;
	for (f->step = 0; f->step < steps; f->step++)
		step(f, forks);
	finish(f);
	free(f);
}

static unsigned thread_steps = 3000;

static void *run_thread(void *seed)
{
	run(*(unsigned *)seed, thread_steps, false);
	return NULL;
}

static void random_calls_of_threads(void)
{
	const char *own = getenv("OSF_VMA_FUZZ");
	unsigned first = 101, steps = 0, seeds[4];
	pthread_t t[4];

	if (own && sscanf(own, "%u,%u", &first, &steps) == 2) {
		alarm(0);
		thread_steps = steps;
	}
	for (unsigned i = 0; i < 4; i++)
		seeds[i] = first + i;
	for (int i = 0; i < 4; i++)
		EXPECT_EQ(pthread_create(&t[i], NULL, run_thread, &seeds[i]),
			  0);
	for (int i = 0; i < 4; i++)
		EXPECT_EQ(pthread_join(t[i], NULL), 0);
}

static void random_calls_keep_their_promises(void)
{
	const char *own = getenv("OSF_VMA_FUZZ");
	unsigned seed = 0, steps = 0;

	if (own && sscanf(own, "%u,%u", &seed, &steps) == 2) {
		alarm(0);
		run(seed, steps, true);
		return;
	}
	for (seed = 1; seed <= 20; seed++)
		run(seed, 3000, true);
}

const struct test tests_fuzz[] = { { "random_calls_keep_their_promises",
				     random_calls_keep_their_promises, false },
				   { "random_calls_of_threads",
				     random_calls_of_threads, false },
				   { 0 } };
