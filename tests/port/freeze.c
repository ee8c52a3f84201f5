/* SPDX-License-Identifier: MIT */
/*
 * tests/port/freeze.c - a connection of the kernel stands still, and goes on
 *
 * The peer is the kernel THERE.  Each test runs over IPv4 and IPv6, with the end that
 * has connected and with the end that has accepted.  Where an engine would have worked
 * while the kernel's socket stood still, the test changes the numbers as it would.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "osfd/freeze.h"
#include "osfd/sockopt.h"
#include "unit.h"
#include "world.h"

#define CYCLES 200
#define PART 3000

static struct world world;
static struct ports ports;
static const struct queues nothing = { .fd = -1 };

/* A connection, of which HERE's end will be frozen. */
struct stage {
	struct grant *g;
	int us, peer;
};

static void stage_open(struct stage *s, bool is_v6, bool is_acceptor)
{
	struct refusal why;
	struct msg_grant granted;
	struct pair p;
	int fds[2];

	world_enter(&world, HERE);
	assert_int_equal(grant_open(&ports, "va", 0, 0, &granted, fds, &why),
			 0);
	close(fds[0]);
	s->g = grant_of(&ports, granted.grant, 0);
	assert_non_null(s->g);
	pair_open(&world, is_v6, is_acceptor ? THERE : HERE, &p);
	s->us = p.end[HERE];
	s->peer = p.end[THERE];
	world_enter(&world, HERE);
}

static void stage_close(struct stage *s)
{
	assert_int_equal(s->g->n_flows, 0);
	grant_close(s->g);
	close(s->us);
	if (s->peer >= 0)
		close(s->peer);
}

static uint64_t total;

static void must_flow(int from, int to, size_t n)
{
	uint8_t buf[PART] = { 0 }, got[PART];

	stream_fill(buf, total, n);
	assert_int_equal(send(from, buf, n, 0), n);
	assert_int_equal(recv(to, got, n, MSG_WAITALL), n);
	assert_int_equal(stream_differs(got, total, n), n);
	total += n;
}

/* Waits until the other end has acknowledged all, 5 s at most. */
static void wait_acked(int fd)
{
	struct tcp_info info = { .tcpi_unacked = 1 };
	socklen_t len = sizeof(info);

	for (int i = 0; i < 5000 && info.tcpi_unacked; i++) {
		assert_int_equal(getsockopt(fd, SOL_TCP, TCP_INFO, &info, &len),
				 0);
		if (info.tcpi_unacked)
			usleep(1000);
	}
	assert_int_equal(info.tcpi_unacked, 0);
}

/* A question and its answer, after which nothing is on its way: the answer carries the
 * acknowledgement of the question, and its own is waited for. */
static void become_quiet(struct stage *s)
{
	must_flow(s->us, s->peer, 64);
	must_flow(s->peer, s->us, 64);
	wait_acked(s->us);
}

static void must_freeze(struct stage *s, struct frozen *f)
{
	struct refusal why;
	int err = freeze(s->g, s->us, f, &why);

	if (err)
		print_message("%s\n", why.text);
	assert_int_equal(err, 0);
}

static void must_thaw(struct stage *s, const struct frozen *f,
		      const struct queues *q)
{
	struct refusal why;
	int err = thaw(s->g, s->us, f, q, &why);

	if (err)
		print_message("%s\n", why.text);
	assert_int_equal(err, 0);
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void bytes_flow_after_each_of_many_thaws(bool is_v6, bool is_acceptor)
{
	struct stage s;
	struct frozen f;
	uint64_t froze[CYCLES], thawed[CYCLES];

	stage_open(&s, is_v6, is_acceptor);
	for (int i = 0; i < CYCLES; i++) {
		become_quiet(&s);
		uint64_t t0 = now_ns();
		must_freeze(&s, &f);
		uint64_t t1 = now_ns();
		must_thaw(&s, &f, &nothing);
		froze[i] = t1 - t0;
		thawed[i] = now_ns() - t1;
		must_flow(s.peer, s.us, 1 + (size_t)i);
	}
	qsort(froze, CYCLES, sizeof(*froze), compare);
	qsort(thawed, CYCLES, sizeof(*thawed), compare);
	print_message("freeze %.1f us (best %.1f), thaw %.1f us (best %.1f)\n",
		      (double)froze[CYCLES / 2] / 1000, (double)froze[0] / 1000,
		      (double)thawed[CYCLES / 2] / 1000,
		      (double)thawed[0] / 1000);
	must_flow(s.us, s.peer, PART);
	must_flow(s.peer, s.us, PART);
	stage_close(&s);
}

static void what_is_not_quiet_is_refused(bool is_v6, bool is_acceptor)
{
	struct stage s;
	struct frozen f;
	struct refusal why;
	char c;

	stage_open(&s, is_v6, is_acceptor);
	become_quiet(&s);
	assert_int_equal(send(s.peer, "a", 1, 0), 1);
	assert_int_equal(recv(s.us, &c, 1, MSG_PEEK), 1);
	assert_int_equal(freeze(s.g, s.us, &f, &why), -EAGAIN);
	print_message("%s\n", why.text);
	assert_int_equal(recv(s.us, &c, 1, 0), 1);
	become_quiet(&s);
	/* Not sent at all: more than the window that the peer grants. */
	int small = 4096;
	setsockopt(s.peer, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
	size_t sent = 0;
	uint8_t buf[PART];
	for (ssize_t n = 1; n > 0;) {
		stream_fill(buf, total + sent, sizeof(buf));
		n = send(s.us, buf, sizeof(buf), MSG_DONTWAIT);
		sent += n > 0 ? (size_t)n : 0;
	}
	assert_int_equal(freeze(s.g, s.us, &f, &why), -EAGAIN);
	print_message("%s\n", why.text);
	while (sent) {
		ssize_t n = recv(s.peer, buf, MIN(sent, sizeof(buf)), 0);
		assert_true(n > 0);
		assert_int_equal(stream_differs(buf, total, (size_t)n), n);
		total += (size_t)n;
		sent -= (size_t)n;
	}
	must_flow(s.peer, s.us, PART);
	stage_close(&s);
}

static void what_cannot_move_is_refused(bool is_v6, bool is_acceptor)
{
	struct sock_filter all = BPF_STMT(BPF_RET | BPF_K, 0xffffffff);
	struct sock_fprog prog = { 1, &all };
	struct stage s;
	struct frozen f;
	struct refusal why;

	stage_open(&s, is_v6, is_acceptor);
	become_quiet(&s);
	assert_int_equal(freeze(s.g, s.peer, &f, &why), -EOPNOTSUPP);
	assert_string_equal(why.text, "of another network namespace");
	assert_int_equal(
	    setsockopt(s.us, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog)),
	    0);
	assert_int_equal(freeze(s.g, s.us, &f, &why), -EOPNOTSUPP);
	assert_string_equal(why.text, "has a socket filter");
	assert_int_equal(opt_set(s.us, SOL_SOCKET, SO_DETACH_FILTER, 0), 0);
	int raw = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(freeze(s.g, raw, &f, &why), -ENOTCONN);
	close(raw);
	assert_int_equal(freeze(s.g, ports.query_fd, &f, &why), -EOPNOTSUPP);
	assert_int_equal(thaw(s.g, s.us, &f, &nothing, &why), -ENOTCONN);
	must_flow(s.us, s.peer, PART);
	shutdown(s.us, SHUT_WR);
	assert_int_equal(freeze(s.g, s.us, &f, &why), -ENOTCONN);
	stage_close(&s);
}

static void the_kernel_hears_nothing_while_it_stands(bool is_v6,
						     bool is_acceptor)
{
	struct stage s;
	struct frozen f;
	char buf[16];
	struct tcp_info info;
	socklen_t len = sizeof(info);

	stage_open(&s, is_v6, is_acceptor);
	become_quiet(&s);
	must_freeze(&s, &f);
	assert_int_equal(send(s.peer, "hello", 5, 0), 5);
	shutdown(s.peer, SHUT_WR);
	struct pollfd pfd = { .fd = s.us, .events = POLLIN };
	assert_int_equal(poll(&pfd, 1, 0), 0);
	assert_int_equal(getsockopt(s.us, SOL_TCP, TCP_INFO, &info, &len), 0);
	assert_int_equal(info.tcpi_state, 1);
	assert_int_equal(getsockopt(s.peer, SOL_TCP, TCP_INFO, &info, &len), 0);
	assert_true(info.tcpi_unacked > 0);
	must_thaw(&s, &f, &nothing);
	/* The peer sends it again. */
	assert_int_equal(recv(s.us, buf, 16, MSG_WAITALL), 5);
	assert_memory_equal(buf, "hello", 5);
	assert_int_equal(send(s.us, "bye", 3, 0), 3);
	assert_int_equal(recv(s.peer, buf, 3, MSG_WAITALL), 3);
	stage_close(&s);
}

/* The engine has received @n bytes, sent as many, and has as many to send. */
static void the_engines_bytes_come_back(bool is_v6, bool is_acceptor)
{
	struct stage s;
	struct frozen f;
	uint8_t buf[3 * PART], got[2 * PART];
	struct queues q = { .fd = memfd_create("queues", MFD_CLOEXEC),
			    .n_unread = PART,
			    .n_unacked = PART,
			    .n_unsent = PART };

	stage_open(&s, is_v6, is_acceptor);
	become_quiet(&s);
	must_freeze(&s, &f);
	stream_fill(buf, 0, sizeof(buf));
	assert_int_equal(write(q.fd, buf, sizeof(buf)), sizeof(buf));
	/* What it has received: the peer did send this, and nobody told it so. */
	assert_int_equal(send(s.peer, buf, PART, 0), PART);
	f.rcv_nxt += PART;
	f.rcv_wup += PART;
	f.snd_nxt += PART;
	must_thaw(&s, &f, &q);
	assert_int_equal(recv(s.us, got, PART, MSG_WAITALL), PART);
	assert_int_equal(stream_differs(got, 0, PART), PART);
	assert_int_equal(recv(s.peer, got, 2 * PART, MSG_WAITALL), 2 * PART);
	assert_int_equal(stream_differs(got, PART, 2 * PART), 2 * PART);
	/* The peer's bytes come again, and no byte twice. */
	must_flow(s.peer, s.us, PART);
	must_flow(s.us, s.peer, PART);
	close(q.fd);
	stage_close(&s);
}

#define OWED 20

/* The program has read bytes that the engine has not acknowledged.  Without an ACK each
 * time the peer retransmits; now and then it may do so because this process did not run. */
static void an_ack_that_the_engine_owes_is_sent(bool is_v6, bool is_acceptor)
{
	struct stage s;
	struct frozen f;
	struct tcp_info info = { 0 };
	socklen_t len = sizeof(info);
	uint8_t buf[PART] = { 0 };

	stage_open(&s, is_v6, is_acceptor);
	for (int i = 0; i < OWED; i++) {
		become_quiet(&s);
		must_freeze(&s, &f);
		assert_int_equal(send(s.peer, buf, PART, 0), PART);
		f.rcv_nxt += PART;
		must_thaw(&s, &f, &nothing);
		wait_acked(s.peer);
	}
	assert_int_equal(getsockopt(s.peer, SOL_TCP, TCP_INFO, &info, &len), 0);
	assert_true(info.tcpi_total_retrans < OWED / 2);
	stage_close(&s);
}

/* The peer has acknowledged the last bytes, and nobody has heard it.  The kernel would send
 * them again, a second later.  The peer has answered a probe just before, and does not answer
 * the next. */
static void an_ack_that_nobody_heard_comes_again(bool is_v6, bool is_acceptor)
{
	struct stage s;
	struct frozen f;
	struct tcp_info info = { 0 };
	socklen_t len = sizeof(info);
	uint8_t buf[64];
	struct queues q = { .fd = memfd_create("queues", MFD_CLOEXEC),
			    .n_unacked = sizeof(buf) };

	stage_open(&s, is_v6, is_acceptor);
	become_quiet(&s);
	/* The peer has sent as many bytes since. */
	stream_fill(buf, total - 2 * sizeof(buf), sizeof(buf));
	assert_int_equal(write(q.fd, buf, sizeof(buf)), sizeof(buf));
	probe_peer(s.us);
	must_freeze(&s, &f);
	must_thaw(&s, &f, &q);
	wait_acked(s.us);
	assert_int_equal(getsockopt(s.us, SOL_TCP, TCP_INFO, &info, &len), 0);
	assert_int_equal(info.tcpi_total_retrans, 0);
	must_flow(s.us, s.peer, PART);
	must_flow(s.peer, s.us, PART);
	close(q.fd);
	stage_close(&s);
}

static struct tcp_info info_of(int fd)
{
	struct tcp_info info = { 0 };
	socklen_t len = sizeof(info);

	assert_int_equal(getsockopt(fd, SOL_TCP, TCP_INFO, &info, &len), 0);
	return info;
}

/* Sends what the peer has a window for, and no byte more.  Return: the bytes of the last
 * part, with which the window closes */
static uint32_t close_window(struct stage *s)
{
	static uint8_t buf[65536];
	uint32_t last = 0, window;

	while ((window = info_of(s->us).tcpi_snd_wnd)) {
		last = MIN(window, (uint32_t)sizeof(buf));
		assert_int_equal(send(s->us, buf, last, 0), last);
		wait_acked(s->us);
	}
	return last;
}

/* The last bytes have closed the peer's window, and nobody has heard the ACK that says so. */
static void a_window_that_has_closed_is_closed(bool is_v6, bool is_acceptor)
{
	struct stage s;
	struct frozen f;
	struct queues q = { .fd = memfd_create("queues", MFD_CLOEXEC) };

	stage_open(&s, is_v6, is_acceptor);
	become_quiet(&s);
	q.n_unacked = close_window(&s);
	assert_int_equal(ftruncate(q.fd, q.n_unacked), 0);
	must_freeze(&s, &f);
	assert_int_equal(f.snd_wnd, 0);
	f.snd_wnd = q.n_unacked;
	must_thaw(&s, &f, &q);
	wait_acked(s.us);
	assert_int_equal(info_of(s.us).tcpi_snd_wnd, 0);
	close(q.fd);
	stage_close(&s);
}

/* Nobody serves the port here, so a frame that comes to it is heard by nobody. */
static void reset_by_peer(struct stage *s)
{
	struct linger now = { .l_onoff = 1 };

	assert_int_equal(
	    setsockopt(s->peer, SOL_SOCKET, SO_LINGER, &now, sizeof(now)), 0);
	close(s->peer);
	s->peer = -1;
}

static void must_be_reset(const struct stage *s)
{
	struct pollfd p = { .fd = s->us, .events = POLLIN };
	char c;

	assert_int_equal(poll(&p, 1, 5000), 1);
	assert_int_equal(recv(s->us, &c, 1, 0), -1);
	assert_int_equal(errno, ECONNRESET);
	assert_int_equal(recv(s->us, &c, 1, 0), 0);
}

/* A reset is not retransmitted: this one has come before the end of a thaw. */
static void a_reset_that_nobody_heard_comes_again(bool is_v6, bool is_acceptor)
{
	struct stage s;
	struct frozen f;

	stage_open(&s, is_v6, is_acceptor);
	assert_int_equal(opt_set(s.us, SOL_SOCKET, SO_REUSEADDR, 1), 0);
	become_quiet(&s);
	must_freeze(&s, &f);
	reset_by_peer(&s);
	must_thaw(&s, &f, &nothing);
	assert_int_equal(opt_get(s.us, SOL_SOCKET, SO_REUSEADDR), 1);
	must_be_reset(&s);
	stage_close(&s);
}

/* And this one while a freeze was not yet known to succeed. */
static void a_reset_before_a_freeze_is_undone_comes_again(bool is_v6,
							  bool is_acceptor)
{
	struct stage s;
	struct frozen f;
	struct refusal why;

	stage_open(&s, is_v6, is_acceptor);
	become_quiet(&s);
	must_freeze(&s, &f);
	reset_by_peer(&s);
	assert_int_equal(freeze_undo(s.g, s.us, &why), 0);
	must_be_reset(&s);
	stage_close(&s);
}

#define MANY 100000u /* bytes, for which thaw() calls send() several times */

/* The peer answers the first of them by a reset.  That is the program's to hear, and bytes
 * that it has not read come before. */
static void a_reset_before_bytes_leave_is_the_programs(bool is_v6,
						       bool is_acceptor)
{
	struct stage s;
	struct frozen f;
	char c;
	struct queues q = { .fd = memfd_create("queues", MFD_CLOEXEC),
			    .n_unread = 1,
			    .n_unsent = MANY };

	stage_open(&s, is_v6, is_acceptor);
	become_quiet(&s);
	must_freeze(&s, &f);
	assert_int_equal(ftruncate(q.fd, q.n_unread + MANY), 0);
	assert_int_equal(send(s.peer, "", 1, 0), 1);
	f.rcv_nxt++;
	f.rcv_wup++;
	reset_by_peer(&s);
	must_thaw(&s, &f, &q);
	assert_int_equal(recv(s.us, &c, 1, 0), 1);
	must_be_reset(&s);
	close(q.fd);
	stage_close(&s);
}

/* The engine has held the peer's FIN, and nobody has heard the reset behind it.  The FIN is
 * still an end and no error. */
static void a_reset_behind_the_end_comes_again(bool is_v6, bool is_acceptor)
{
	struct stage s;
	struct frozen f;
	char c;

	stage_open(&s, is_v6, is_acceptor);
	become_quiet(&s);
	must_freeze(&s, &f);
	shutdown(s.peer, SHUT_WR);
	reset_by_peer(&s);
	f.flags |= FROZEN_PEER_FIN;
	must_thaw(&s, &f, &nothing);
	struct pollfd p = { .fd = s.us, .events = POLLIN };
	assert_int_equal(poll(&p, 1, 5000), 1);
	assert_int_equal(recv(s.us, &c, 1, 0), 0);
	p.events = 0; /* POLLHUP, POLLERR */
	assert_int_equal(poll(&p, 1, 5000), 1);
	assert_int_equal(send(s.us, "x", 1, MSG_NOSIGNAL), -1);
	assert_int_equal(errno, EPIPE);
	stage_close(&s);
}

/* Whether a packet from THERE's address to HERE's has come to THERE. */
static bool comes_back(int packets)
{
	uint8_t b[128];
	ssize_t n;

	while ((n = recv(packets, b, sizeof(b), MSG_DONTWAIT)) > 0)
		if (n >= 34 && !memcmp(b + 26, "\x0a\x09\x00\x02", 4) &&
		    !memcmp(b + 30, "\x0a\x09\x00\x01", 4))
			return true;
	return false;
}

/* What the peer has said is told again to this host alone.  Without its address the kernel
 * would send that to the neighbour who has it. */
static void nothing_of_the_peers_leaves(void **state)
{
	struct stage s;
	struct frozen f;
	const uint8_t *m = world.mac[THERE];

	stage_open(&s, false, false);
	become_quiet(&s);
	must_freeze(&s, &f);
	f.flags |= FROZEN_PEER_RESET;
	world_enter(&world, THERE);
	int packets =
	    socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_IP));
	assert_true(packets >= 0);
	world_enter(&world, HERE);
	must_run("ip addr del 10.9.0.1/24 dev va && "
		 "ip addr add 10.9.0.3/24 dev va && ip neigh replace 10.9.0.1 "
		 "dev va lladdr %02x:%02x:%02x:%02x:%02x:%02x",
		 m[0], m[1], m[2], m[3], m[4], m[5]);
	must_thaw(&s, &f, &nothing);
	bool any = comes_back(packets);
	must_run("ip neigh del 10.9.0.1 dev va; ip addr del 10.9.0.3/24 dev va;"
		 "ip addr add 10.9.0.1/24 dev va && ip neigh replace 10.9.0.2 "
		 "dev va lladdr %02x:%02x:%02x:%02x:%02x:%02x",
		 m[0], m[1], m[2], m[3], m[4], m[5]);
	assert_false(any);
	close(packets);
	stage_close(&s);
}

/* A read of another file could take for ever (FUSE), and osfd has one thread. */
static void only_bytes_in_memory_are_read(bool is_v6, bool is_acceptor)
{
	struct stage s;
	struct frozen f;
	struct refusal why;
	struct queues q = { .fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC),
			    .n_unread = 1 };

	stage_open(&s, is_v6, is_acceptor);
	become_quiet(&s);
	must_freeze(&s, &f);
	f.rcv_nxt++;
	assert_int_equal(thaw(s.g, s.us, &f, &q, &why), -EBADF);
	close(q.fd);
	q.fd = memfd_create("queues", MFD_CLOEXEC); /* too short */
	assert_int_equal(thaw(s.g, s.us, &f, &q, &why), -EBADF);
	f.rcv_nxt--;
	must_thaw(&s, &f, &nothing);
	must_flow(s.us, s.peer, PART);
	must_flow(s.peer, s.us, PART);
	close(q.fd);
	stage_close(&s);
}

static void options_are_what_they_were(bool is_v6, bool is_acceptor)
{
	struct stage s;
	struct frozen f;
	char ca[16] = "";
	socklen_t len = sizeof(ca);

	stage_open(&s, is_v6, is_acceptor);
	assert_int_equal(opt_set(s.us, SOL_SOCKET, SO_KEEPALIVE, 1), 0);
	assert_int_equal(opt_set(s.us, SOL_SOCKET, SO_REUSEADDR, 1), 0);
	assert_int_equal(opt_set(s.us, SOL_TCP, TCP_NODELAY, 1), 0);
	assert_int_equal(opt_set(s.us, SOL_TCP, TCP_KEEPIDLE, 77), 0);
	assert_int_equal(setsockopt(s.us, SOL_TCP, TCP_CONGESTION, "reno", 4),
			 0);
	become_quiet(&s);
	must_freeze(&s, &f);
	assert_int_equal(opt_get(s.us, SOL_SOCKET, SO_KEEPALIVE), 0);
	must_thaw(&s, &f, &nothing);
	assert_int_equal(opt_get(s.us, SOL_SOCKET, SO_KEEPALIVE), 1);
	assert_int_equal(opt_get(s.us, SOL_SOCKET, SO_REUSEADDR), 1);
	assert_int_equal(opt_get(s.us, SOL_SOCKET, SO_REUSEPORT), 0);
	assert_int_equal(opt_get(s.us, SOL_SOCKET, SO_ERROR), 0);
	assert_int_equal(opt_get(s.us, SOL_TCP, TCP_NODELAY), 1);
	assert_int_equal(opt_get(s.us, SOL_TCP, TCP_KEEPIDLE), 77);
	assert_int_equal(getsockopt(s.us, SOL_TCP, TCP_CONGESTION, ca, &len),
			 0);
	assert_string_equal(ca, "reno");
	must_flow(s.us, s.peer, PART);
	stage_close(&s);
}

/* Windows that do not fit: the socket is closed already then, so the peer is told. */
static void what_cannot_be_thawed_is_reset(bool is_v6, bool is_acceptor)
{
	struct stage s;
	struct frozen f;
	struct refusal why;
	char c;

	stage_open(&s, is_v6, is_acceptor);
	become_quiet(&s);
	must_freeze(&s, &f);
	f.max_window = f.snd_wnd - 1;
	assert_int_equal(thaw(s.g, s.us, &f, &nothing, &why), -EINVAL);
	print_message("%s\n", why.text);
	assert_int_equal(recv(s.peer, &c, 1, 0), -1);
	assert_int_equal(errno, ECONNRESET);
	stage_close(&s);
}

#define FOUR(test)                                                             \
	static void test##_v4(void **state) { test(false, false); }            \
	static void test##_v4_accepted(void **state) { test(false, true); }    \
	static void test##_v6(void **state) { test(true, false); }             \
	static void test##_v6_accepted(void **state) { test(true, true); }
FOUR(bytes_flow_after_each_of_many_thaws)
FOUR(what_is_not_quiet_is_refused)
FOUR(what_cannot_move_is_refused)
FOUR(the_kernel_hears_nothing_while_it_stands)
FOUR(the_engines_bytes_come_back)
FOUR(an_ack_that_the_engine_owes_is_sent)
FOUR(an_ack_that_nobody_heard_comes_again)
FOUR(a_window_that_has_closed_is_closed)
FOUR(a_reset_that_nobody_heard_comes_again)
FOUR(a_reset_before_a_freeze_is_undone_comes_again)
FOUR(a_reset_before_bytes_leave_is_the_programs)
FOUR(a_reset_behind_the_end_comes_again)
FOUR(only_bytes_in_memory_are_read)
FOUR(options_are_what_they_were)
FOUR(what_cannot_be_thawed_is_reset)
#define ALL(test)                                                              \
	cmocka_unit_test(test##_v4), cmocka_unit_test(test##_v4_accepted),     \
	    cmocka_unit_test(test##_v6), cmocka_unit_test(test##_v6_accepted)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ALL(bytes_flow_after_each_of_many_thaws),
		ALL(what_is_not_quiet_is_refused),
		ALL(what_cannot_move_is_refused),
		ALL(the_kernel_hears_nothing_while_it_stands),
		ALL(the_engines_bytes_come_back),
		ALL(an_ack_that_the_engine_owes_is_sent),
		ALL(an_ack_that_nobody_heard_comes_again),
		ALL(a_window_that_has_closed_is_closed),
		ALL(a_reset_that_nobody_heard_comes_again),
		ALL(a_reset_before_a_freeze_is_undone_comes_again),
		ALL(a_reset_before_bytes_leave_is_the_programs),
		ALL(a_reset_behind_the_end_comes_again),
		cmocka_unit_test(nothing_of_the_peers_leaves),
		ALL(only_bytes_in_memory_are_read),
		ALL(options_are_what_they_were),
		ALL(what_cannot_be_thawed_is_reset),
	};
	struct msg_port p = { .dev = "va" };
	struct refusal why;

	world_open(&world);
	if (ports_init(&ports, -1) || port_add(&ports, &p, &why))
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
