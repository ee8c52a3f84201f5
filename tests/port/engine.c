/* SPDX-License-Identifier: MIT */
/*
 * tests/port/engine.c - a connection goes to our own TCP and back, while bytes flow
 *
 * HERE's end is the kernel's or our engine's, in turns; the peer THERE is the kernel.
 * Each side sends bursts of the one stream, and compares what arrives byte by byte.  The
 * connection moves to the engine when it is quiet, and back at any moment: with bytes that
 * were not read, not acknowledged, and not sent.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "osfd/freeze.h"
#include "osfd/sockopt.h"
#include "proto/tcp/engine.h"
#include "proto/tcp/image.h"
#include "tcp/calls.h"
#include "unit.h"
#include "world.h"

#define CHUNK 65536u
#define BURST_MAX (600u << 10)
#define STALL_NS (20 * NS_PER_S)

static struct world world;
static struct ports ports;
static uint64_t n_bytes_wanted = 50u << 20;

/* One direction of the stream. */
struct flow {
	uint64_t sent, got, target;
};

struct stage {
	struct grant *g;
	int us, peer;
	struct engine *e;
	struct tcp_conn *c; /* NULL: the kernel has it */
	struct frozen f;
	struct extent unread_ext;
	struct flow to_peer, to_us;
	struct rng rng;
	uint64_t moved_ns;              /* when anything moved last */
	uint32_t lazy_here, lazy_there; /* of 16 steps, so many read nothing */
	unsigned n_moves, n_busy, n_with_unread, n_with_unacked, n_with_unsent;
};

static void stage_open(struct stage *s, bool is_v6, bool is_acceptor)
{
	struct refusal why;
	struct msg_grant granted;
	struct pair p;
	int fds[2];

	*s = (struct stage){ .rng = { 7 + is_v6 * 2u + is_acceptor } };
	world_enter(&world, HERE);
	assert_int_equal(grant_open(&ports, "va", 0, 0, &granted, fds, &why),
			 0);
	s->g = grant_of(&ports, granted.grant, 0);
	assert_non_null(s->g);
	struct engine_device dev = {
		.mtu = granted.mtu,
		.ring = { granted.slot_bytes, granted.n_slots },
	};
	assert_int_equal(engine_open(fds[0], &dev, now_ns(), &s->e), 0);
	pair_open(&world, is_v6, is_acceptor ? THERE : HERE, &p);
	s->us = p.end[HERE];
	s->peer = p.end[THERE];
	world_enter(&world, HERE);
	fcntl(s->us, F_SETFL, O_NONBLOCK);
	fcntl(s->peer, F_SETFL, O_NONBLOCK);
}

static void stage_close(struct stage *s)
{
	assert_int_equal(s->g->n_flows, 0);
	engine_close(s->e);
	grant_close(s->g);
	close(s->us);
	if (s->peer >= 0)
		close(s->peer);
}

static void have_got(struct stage *s, struct flow *f, const uint8_t *buf,
		     size_t n)
{
	assert_int_equal(stream_differs(buf, f->got, n), n);
	f->got += n;
	s->moved_ns = now_ns();
}

static void send_by_kernel(struct flow *f, int fd)
{
	static uint8_t buf[CHUNK];
	size_t n = MIN(f->target - f->sent, sizeof(buf));

	if (!n)
		return;
	stream_fill(buf, f->sent, n);
	ssize_t r = send(fd, buf, n, MSG_DONTWAIT | MSG_NOSIGNAL);
	assert_true(r > 0 || errno == EAGAIN);
	f->sent += r > 0 ? (uint64_t)r : 0;
}

static void recv_by_kernel(struct stage *s, struct flow *f, int fd, size_t most)
{
	static uint8_t buf[CHUNK];
	ssize_t r = recv(fd, buf, MIN(most, sizeof(buf)), MSG_DONTWAIT);

	if (r <= 0) {
		if (r == 0 || errno != EAGAIN)
			print_message("recv: %zd %s\n", r, strerror(errno));
		assert_true(r < 0 && errno == EAGAIN);
		return;
	}
	have_got(s, f, buf, (size_t)r);
}

static void send_by_engine(struct stage *s)
{
	static uint8_t buf[CHUNK];
	struct flow *f = &s->to_peer;
	size_t n = MIN(f->target - f->sent, sizeof(buf));

	if (!n)
		return;
	stream_fill(buf, f->sent, n);
	ssize_t r = tcp_send(s->c, buf, n, now_ns());
	assert_true(r > 0 || r == -EAGAIN);
	f->sent += r > 0 ? (uint64_t)r : 0;
}

static void recv_by_engine(struct stage *s, size_t most)
{
	const uint8_t *data;
	ssize_t r = tcp_peek(s->c, &data);

	assert_true(r > 0 || r == -EAGAIN);
	if (r <= 0)
		return;
	size_t n = MIN((size_t)r, most);
	have_got(s, &s->to_us, data, n);
	tcp_consume(s->c, (uint32_t)n, now_ns());
}

/* Our side sends what it can, and reads now and then. */
static void step_here(struct stage *s)
{
	bool reads = rng_below(&s->rng, 16) >= s->lazy_here;
	size_t most = 1 + rng_below(&s->rng, CHUNK);

	if (!s->c) {
		send_by_kernel(&s->to_peer, s->us);
		if (reads)
			recv_by_kernel(s, &s->to_us, s->us, most);
		return;
	}
	engine_in(s->e, now_ns());
	send_by_engine(s);
	if (reads)
		recv_by_engine(s, most);
	engine_out(s->e, now_ns());
}

static void step(struct stage *s)
{
	step_here(s);
	send_by_kernel(&s->to_us, s->peer);
	if (rng_below(&s->rng, 16) >= s->lazy_there)
		recv_by_kernel(s, &s->to_peer, s->peer,
			       1 + rng_below(&s->rng, CHUNK));
	if (now_ns() - s->moved_ns < STALL_NS)
		return;
	print_message("stalls %s: %llu of %llu there, %llu of %llu here\n",
		      s->c ? "in the engine" : "in the kernel",
		      (unsigned long long)s->to_peer.got,
		      (unsigned long long)s->to_peer.sent,
		      (unsigned long long)s->to_us.got,
		      (unsigned long long)s->to_us.sent);
	fail();
}

static void import(struct stage *s)
{
	struct tcp_image x;

	assert_int_equal(image_of_frozen(&s->f, s->us, &x), 0);
	assert_int_equal(
	    engine_reach(s->e, &x.laddr, &x.raddr, world.mac[THERE]), 0);
	assert_int_equal(
	    tcp_import(engine_stack(s->e), &x, NULL, NULL, now_ns(), &s->c), 0);
	s->n_moves++;
}

/* False: it is not quiet. */
static bool freezes(struct stage *s)
{
	struct refusal why;
	int err = freeze(s->g, s->us, &s->f, &why);

	if (err == -EAGAIN) {
		s->n_busy++;
		return false;
	}
	if (err)
		print_message("%s\n", why.text);
	assert_int_equal(err, 0);
	return true;
}

static bool to_engine(struct stage *s)
{
	if (!freezes(s))
		return false;
	import(s);
	return true;
}

static void to_kernel(struct stage *s)
{
	struct tcp_image x;
	struct image_queues n;
	struct refusal why;
	static uint8_t buf[2u << 20];

	engine_in(s->e, now_ns());
	engine_out(s->e, now_ns());
	assert_int_equal(tcp_export(s->c, &x, now_ns()), 0);
	frozen_of_image(&x, &s->f, &n);
	uint32_t unread = tcp_export_unread(s->c, buf, sizeof(buf));
	assert_int_equal(unread, n.n_unread);
	uint32_t queued =
	    tcp_export_queued(s->c, buf + unread, sizeof(buf) - unread);
	assert_int_equal(queued, n.n_unacked + n.n_unsent);
	struct queues q = { .fd = memfd_create("queues", MFD_CLOEXEC),
			    .n_unread = n.n_unread,
			    .n_unacked = n.n_unacked,
			    .n_unsent = n.n_unsent };
	assert_int_equal(write(q.fd, buf, unread + queued), unread + queued);
	tcp_forget(s->c, now_ns());
	s->c = NULL;
	s->n_with_unread += n.n_unread != 0;
	s->n_with_unacked += n.n_unacked != 0;
	s->n_with_unsent += n.n_unsent != 0;
	int err = thaw(s->g, s->us, &s->f, &q, &why);
	if (err)
		print_message("%s: %u unread, %u unacked, %u unsent\n",
			      why.text, n.n_unread, n.n_unacked, n.n_unsent);
	assert_int_equal(err, 0);
	close(q.fd);
}

static bool is_done(const struct flow *f) { return f->got == f->target; }

/* A burst each way; @is_cut: its end is not waited for. */
static void burst(struct stage *s, bool is_cut)
{
	uint32_t turns = 1 + rng_below(&s->rng, 60);

	s->lazy_here = is_cut ? rng_below(&s->rng, 17) : 4;
	s->lazy_there = is_cut ? rng_below(&s->rng, 17) : 4;
	s->to_peer.target += rng_below(&s->rng, BURST_MAX);
	s->to_us.target += rng_below(&s->rng, BURST_MAX);
	while (!is_done(&s->to_peer) || !is_done(&s->to_us)) {
		if (is_cut && !turns--)
			break;
		step(s);
	}
	s->lazy_here = s->lazy_there = 4;
}

/* A question and its answer: then nothing is on its way for a moment. */
static void become_quiet(struct stage *s, bool (*is_quiet)(struct stage *s))
{
	uint64_t end = now_ns() + STALL_NS;

	while (!is_quiet(s)) {
		s->to_peer.target += 64;
		while (!is_done(&s->to_peer))
			step(s);
		s->to_us.target += 64;
		while (!is_done(&s->to_us))
			step(s);
		assert_true(now_ns() < end);
	}
}

static void move_in(struct stage *s) { become_quiet(s, to_engine); }

static uint32_t segment_bytes(int fd)
{
	struct tcp_info info = { 0 };
	socklen_t len = sizeof(info);

	getsockopt(fd, SOL_TCP, TCP_INFO, &info, &len);
	return info.tcpi_snd_mss;
}

static void streams_arrive_whole(bool is_v6, bool is_acceptor)
{
	struct stage s;

	stage_open(&s, is_v6, is_acceptor);
	s.moved_ns = now_ns();
	burst(&s, false);
	uint32_t mss = segment_bytes(s.us);
	uint64_t start = now_ns();
	while (s.to_us.got + s.to_peer.got < n_bytes_wanted) {
		burst(&s, false);
		move_in(&s);
		for (uint32_t i = rng_below(&s.rng, 4); i; i--)
			burst(&s, false);
		burst(&s, true);
		to_kernel(&s);
	}
	burst(&s, false);
	assert_int_equal(segment_bytes(s.us), mss);
	print_message("%u moves, %u waits for quiet; back with %u unread, %u "
		      "unacknowledged, %u unsent; %.0f Mbit/s\n",
		      s.n_moves, s.n_busy, s.n_with_unread, s.n_with_unacked,
		      s.n_with_unsent,
		      (double)(s.to_us.got + s.to_peer.got) * 8000 /
			  (double)(now_ns() - start));
	stage_close(&s);
}

/* A socket that has room for one large frame at a time.  What it cuts comes again, and is no
 * reason to stay away from the port. */
static void large_frames_without_room_come_again(bool is_v6, bool is_acceptor)
{
	struct stage s;
	bool any = false;

	stage_open(&s, is_v6, is_acceptor);
	s.moved_ns = now_ns();
	burst(&s, false); /* the windows grow */
	move_in(&s);
	assert_false(engine_has_cut(s.e));
	assert_int_equal(opt_set(engine_fd(s.e), SOL_SOCKET, SO_RCVBUF, 1), 0);
	s.lazy_here = s.lazy_there = 4;
	for (int i = 0; i < 200 && !any; i++) {
		s.to_us.target += 4 * CHUNK;
		for (int n = 0; n < 4; n++)
			send_by_kernel(&s.to_us, s.peer);
		while (!is_done(&s.to_us)) {
			step(&s);
			any = any || engine_has_cut(s.e);
		}
	}
	assert_true(any);
	assert_false(engine_has_refused(s.e));
	to_kernel(&s);
	burst(&s, false);
	stage_close(&s);
}

/* It is in the ring when the engine takes the connection, which stops in front of it. */
static void a_reset_before_the_import_is_heard(bool is_v6, bool is_acceptor)
{
	struct stage s;
	struct linger now = { .l_onoff = 1 };
	char c;

	stage_open(&s, is_v6, is_acceptor);
	s.moved_ns = now_ns();
	burst(&s, false);
	become_quiet(&s, freezes);
	assert_int_equal(
	    setsockopt(s.peer, SOL_SOCKET, SO_LINGER, &now, sizeof(now)), 0);
	close(s.peer);
	s.peer = -1;
	import(&s);
	tcp_hold_end(s.c, true, now_ns());
	engine_in(s.e, now_ns());
	assert_int_equal(tcp_held_end(s.c), TCP_END_RESET);
	s.f.flags |= FROZEN_PEER_RESET;
	to_kernel(&s);
	struct pollfd p = { .fd = s.us, .events = POLLIN };
	assert_int_equal(poll(&p, 1, 5000), 1);
	assert_int_equal(recv(s.us, &c, 1, 0), -1);
	assert_int_equal(errno, ECONNRESET);
	stage_close(&s);
}

#define FOUR(test)                                                             \
	static void test##_v4(void **state) { test(false, false); }            \
	static void test##_v4_accepted(void **state) { test(false, true); }    \
	static void test##_v6(void **state) { test(true, false); }             \
	static void test##_v6_accepted(void **state) { test(true, true); }
FOUR(streams_arrive_whole)
FOUR(large_frames_without_room_come_again)
FOUR(a_reset_before_the_import_is_heard)
#define ALL(test)                                                              \
	cmocka_unit_test(test##_v4), cmocka_unit_test(test##_v4_accepted),     \
	    cmocka_unit_test(test##_v6), cmocka_unit_test(test##_v6_accepted)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		ALL(streams_arrive_whole),
		ALL(large_frames_without_room_come_again),
		ALL(a_reset_before_the_import_is_heard),
	};
	struct msg_port p = { .dev = "va" };
	struct refusal why;

	if (argc > 1)
		n_bytes_wanted = (uint64_t)atoi(argv[1]) << 20;
	world_open(&world);
	if (ports_init(&ports, -1) || port_add(&ports, &p, &why))
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
