/* SPDX-License-Identifier: MIT */
/*
 * tests/sim/ranges.c - the cost of many holes
 *
 * The sender gets one SACK for every other segment of its own; the receiver gets many
 * segments behind one hole.  Ten times as many must cost about ten times as much, not a
 * hundred times: the test fails at forty.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tcp/calls.h"
#include "tcp/stack.h"
#include "unit.h"

#define BUF (96u << 20)
#define MSS 1448u
#define FEW 1000
#define MANY 10000
#define FRAME 1536
#define TIMES 3 /* the best of them counts: others want the processor, too */

static struct tcp_stack *stacks[2];
static void *mem[2];
static struct tcp_conn *from;
static struct pool frames;
static void *frames_mem;
static const uint64_t now = 1000000;

static double wall_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void give(struct tcp_stack *s, const uint8_t *data, uint32_t len)
{
	struct extent *e = extent_new(&frames);

	memcpy(e->data, data, len);
	tcp_rx(s, e, 0, len, TCP_RX_SUM_GOOD, now);
	extent_put(e);
}

/* Passes all frames of one side to the other, or drops them.  Return: how many. */
static uint32_t cross(unsigned side, struct tcp_stack *to)
{
	uint8_t bytes[FRAME];
	struct tcp_frame f;
	uint32_t n = 0;

	for (; tcp_tx(stacks[side], &f, now); n++) {
		uint32_t len = frame_whole(&f, bytes);

		tcp_frame_done(&f);
		if (to)
			give(to, bytes, len);
	}
	return n;
}

static void open_one(void)
{
	const struct ip_addr addrs[] = { ip_addr_v4(0x0a000001),
					 ip_addr_v4(0x0a000002) };
	struct tcp_listener *l;

	for (unsigned i = 0; i < 2; i++) {
		struct tcp_config cfg = {
			.addrs = { addrs[i] },
			.n_addrs = 1,
			.mtu = 1500,
			.offers = TCP_OFFER_ALL,
			.snd_buf = BUF,
			.rcv_buf = BUF,
			.cc = &tcp_cubic,
			.n_conns = 4,
			.n_reqsks = 4,
			.n_ranges = 8 * MANY,
			.n_extents = BUF / 65536,
			.extent_bytes = 65536 - sizeof(struct extent),
		};

		mem[i] = aligned_alloc(64, tcp_stack_bytes(&cfg));
		stacks[i] = tcp_stack_init(mem[i], &cfg, now);
	}
	frames_mem = aligned_alloc(64, (size_t)extent_size(FRAME) * 2 * MANY);
	pool_init(&frames, frames_mem, extent_size(FRAME), 2 * MANY);
	assert_int_equal(tcp_listen(stacks[1], NULL, 80, 1, &l), 0);
	assert_int_equal(
	    tcp_connect(stacks[0], &addrs[0], 5000, &addrs[1], 80, now, &from),
	    0);
	while (cross(0, stacks[1]) + cross(1, stacks[0]))
		;
	assert_int_equal(from->state, TCP_ESTABLISHED);
}

static void close_one(void)
{
	for (unsigned i = 0; i < 2; i++) {
		tcp_stack_fini(stacks[i]);
		free(mem[i]);
	}
	free(frames_mem);
}

/* Puts @n segments in flight, whatever the windows say. */
static void send_segments(uint32_t n, struct tcp_stack *to)
{
	static const uint8_t zeros[MSS];

	from->cwnd = 1u << 30;
	from->snd_wnd = 1u << 30;
	for (uint32_t i = 0; i < n; i++) {
		assert_int_equal(tcp_send(from, zeros, MSS, now), MSS);
		cross(0, i ? to : NULL);
		if (to)
			cross(1, NULL);
	}
}

static double sacks_ns(uint32_t n)
{
	struct tcp_seg seg = { .sport = 80,
			       .dport = 5000,
			       .flags = TCP_ACK,
			       .wnd = 65535,
			       .wscale = TCP_NO_WSCALE,
			       .has_ts = true };
	uint8_t head[FRAME];

	open_one();
	send_segments(2 * n, NULL);
	seg.seq = from->rcv_nxt;
	seg.ack = from->snd_una;
	double start = wall_ns();
	for (uint32_t i = 0; i < n; i++) {
		seg.tsval = from->ts_recent;
		seg.n_sacks = (uint8_t)MIN(i + 1, 3u);
		for (uint32_t k = 0; k < seg.n_sacks; k++) {
			seq32 at = seq_add(seg.ack, (2 * (i - k) + 1) * MSS);

			seg.sacks[k] =
			    (struct tcp_sack){ at, seq_add(at, MSS) };
		}
		uint32_t len = tcp_head_build(head + IPV4_HEAD, &seg);
		ip_build(head, &stacks[1]->cfg.addrs[0],
			 &stacks[0]->cfg.addrs[0], IP_PROTO_TCP, 0, len);
		give(stacks[0], head, IPV4_HEAD + len);
	}
	double ns = wall_ns() - start;
	assert_int_equal(from->sacked_bytes, n * MSS);
	close_one();
	return ns / n;
}

static double pieces_ns(uint32_t n)
{
	open_one();
	double start = wall_ns();
	send_segments(n, stacks[1]);
	double ns = wall_ns() - start;
	assert_int_equal(tcp_dropped(stacks[1], DROP_OOO_LIMIT), 0);
	close_one();
	return ns / n;
}

static double best(double (*measure)(uint32_t), uint32_t n)
{
	double least = measure(n);

	for (unsigned i = 1; i < TIMES; i++) {
		double ns = measure(n);

		least = ns < least ? ns : least;
	}
	return least;
}

static void holes_of_what_was_sent(void **state)
{
	double few = best(sacks_ns, FEW), many = best(sacks_ns, MANY);

	printf("a SACK costs %.0f ns among %d ranges, %.0f ns among %d\n", few,
	       2 * FEW, many, 2 * MANY);
	assert_true(many < 4 * few);
}

static void pieces_behind_a_hole(void **state)
{
	double few = best(pieces_ns, FEW), many = best(pieces_ns, MANY);

	printf("a segment behind a hole costs %.0f ns with %d there, %.0f ns "
	       "with %d, sending and ACK included\n",
	       few, FEW, many, MANY);
	assert_true(many < 4 * few);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(holes_of_what_was_sent),
		cmocka_unit_test(pieces_behind_a_hole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
