/* SPDX-License-Identifier: MIT */
/*
 * tests/sim/wires.c - checks that worlds do to connections what they say
 *
 * The distributions of delays, queues that drop early, and clients that connect again.
 */
#include "unit.h"
#include "world.h"

#define MS NS_PER_MS
#define SAMPLES 20000

static struct world w;

/* Return: when a packet of @len bytes that is sent now arrives; 0: it is lost */
static uint64_t arrives(struct wire *wire, uint32_t len, uint64_t now_ns)
{
	static const uint8_t bytes[1500];
	uint64_t n_lost = wire->n_lost;

	wire_send(wire, bytes, len, true, now_ns);
	if (wire->n_lost != n_lost)
		return 0;
	struct wire_packet *p = wire_take(wire, UINT64_MAX);
	uint64_t at = p->at_ns;
	free(p);
	return at;
}

struct delays {
	double mean, variance, most; /* of jitter_ns */
	unsigned beyond_1, beyond_9;
};

/* Measures packets that do not queue behind each other. */
static struct delays measure(enum wire_jitter jitter)
{
	const struct wire_model m = { .delay_ns = MS,
				      .jitter_ns = 10 * MS,
				      .jitter = jitter };
	struct delays d = { 0 };
	struct wire wire;
	double squares = 0;

	wire_init(&wire, &m, 1);
	for (uint64_t i = 0; i < SAMPLES; i++) {
		uint64_t now = (1 + i) * NS_PER_S;
		double x = (double)(arrives(&wire, 100, now) - now - MS) /
			   (double)m.jitter_ns;

		assert_true(x >= 0);
		d.mean += x / SAMPLES;
		squares += x * x / SAMPLES;
		d.most = x > d.most ? x : d.most;
		d.beyond_1 += x > 1;
		d.beyond_9 += x > 9;
	}
	wire_fini(&wire);
	d.variance = squares - d.mean * d.mean;
	return d;
}

static void expect_near(double is, double want, double by)
{
	if (is < want - by || is > want + by)
		fail_msg("%g is not %g, by %g at most", is, want, by);
}

static void delays_are_distributed_as_they_say(void **state)
{
	struct delays d = measure(JITTER_EVEN);

	expect_near(d.mean, 0.5, 0.01);
	expect_near(d.variance, 1.0 / 12, 0.005);
	expect_near(d.most, 1, 0.01);
	d = measure(JITTER_NORMAL);
	expect_near(d.mean, 0.5, 0.01);
	expect_near(d.variance, 1.0 / 36, 0.002);
	expect_near(d.most, 1, 0.05);
	/* A share of 1 / (1 + x)^3 is later than x. */
	d = measure(JITTER_PARETO);
	expect_near(d.mean, 0.5, 0.03);
	expect_near(d.beyond_1, SAMPLES / 8.0, SAMPLES / 80.0);
	expect_near(d.beyond_9, SAMPLES / 1000.0, SAMPLES / 2000.0);
	expect_near(d.most, 12, 4);
}

/* Sends a fifth more than the rate of 8 Mbit/s.  Return: the most bytes in the queue */
static uint64_t fill(uint32_t red, uint64_t *n_lost)
{
	const struct wire_model m = { .rate_bps = 8000000,
				      .queue_bytes = 100000,
				      .red = red };
	uint64_t most = 0;
	struct wire wire;

	wire_init(&wire, &m, 1);
	for (uint64_t i = 0; i < 10000; i++) {
		uint64_t now = NS_PER_S + i * MS * 5 / 6;
		uint64_t at = arrives(&wire, 1000, now);

		if (at)
			most = at - now > most ? at - now : most;
	}
	*n_lost = wire.n_lost;
	wire_fini(&wire);
	return most / 1000;
}

/* A sixth of what is sent exceeds the rate, and is lost with either queue. */
static void red_keeps_queues_short(void **state)
{
	uint64_t n_tail, n_early;

	assert_in_range(fill(0, &n_tail), 99000, 100000);
	assert_in_range(fill(250000, &n_early), 40000, 85000);
	assert_in_range(n_tail, 1500, 1700);
	assert_in_range(n_early, 1500, 1750);
}

/* Three connections, one after the other, share one port. */
static uint64_t three_times(enum tcp_reuse reuse)
{
	struct world_config cfg = world_plain(5000, 5000);

	cfg.n_again = 2;
	cfg.stack[CLIENT].ports = (struct tcp_ports){ 5000, 5000 };
	cfg.stack[CLIENT].reuse = (uint8_t)reuse;
	world_init(&w, &cfg);
	assert_true(world_run(&w, 1000 * NS_PER_S));
	for (int i = 0; i < 2; i++) {
		assert_int_equal(w.ends[i][0].round, 2);
		assert_int_equal(w.ends[i][0].err, 0);
		assert_int_equal(w.ends[i][0].n_got, 5000);
	}
	uint64_t at = w.ends[CLIENT][0].done_ns;
	world_fini(&w);
	return at;
}

static void ports_are_used_again(void **state)
{
	assert_true(three_times(TCP_REUSE_ALWAYS) < 5 * NS_PER_S);
	/* The client waits for the end of TIME-WAIT twice, a minute each. */
	uint64_t ns = three_times(TCP_REUSE_NEVER);
	assert_true(ns > 120 * NS_PER_S && ns < 130 * NS_PER_S);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(delays_are_distributed_as_they_say),
		cmocka_unit_test(red_keeps_queues_short),
		cmocka_unit_test(ports_are_used_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
