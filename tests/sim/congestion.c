/* SPDX-License-Identifier: MIT */
/*
 * tests/sim/congestion.c - what flows do to a bottleneck, and to each other
 *
 * Prints the figures, and fails if one of them is not good enough.
 */
#include <stdio.h>

#include "lab.h"
#include "unit.h"

#define MS NS_PER_MS
#define MBIT 1000000ull
#define JAIN_LEAST 0.9

static const struct tcp_cc *const schemes[] = { &tcp_newreno, &tcp_cubic };

/* @n endless flows, a round trip of @rtt_ms, and a queue of one bandwidth-delay
 * product. */
static struct lab_config bottleneck(const struct tcp_cc *cc, uint32_t n,
				    uint64_t rate_bps, uint32_t rtt_ms)
{
	return (struct lab_config){
		.seed = 1,
		.cc = cc,
		.to = { .rate_bps = rate_bps,
			.delay_ns = rtt_ms * MS / 2,
			.queue_bytes = (uint32_t)(rate_bps / 8000 * rtt_ms) },
		.back = { .delay_ns = rtt_ms * MS / 2 },
		.n_flows = n,
		.n_bytes = UINT64_MAX,
		.buf_bytes = 1 << 20,
	};
}

static struct lab lab;

/* RFC 9406: the first slow start notices that the queue begins to fill.  It goes on for
 * five rounds at a quarter of the speed.  Nine times what the path holds is enough for
 * that. */
static void slow_start_ends_before_the_queue_overflows(void **state)
{
	for (unsigned i = 0; i < ARRAY_LEN(schemes); i++) {
		struct lab_config cfg =
		    bottleneck(schemes[i], 1, 100 * MBIT, 60);
		uint64_t at = 0;

		cfg.to.queue_bytes *= 8;
		cfg.buf_bytes = 16 << 20;
		lab_init(&lab, &cfg);
		do
			lab_run(&lab, at += 10 * MS);
		while (lab.flows[0].from->state != TCP_ESTABLISHED ||
		       lab.flows[0].from->ssthresh == SSTHRESH_MAX);
		printf("%s: slow start ends at %.2f s with %u kB, %llu lost\n",
		       schemes[i]->name, (double)at / 1e9,
		       lab.flows[0].from->cwnd / 1000,
		       (unsigned long long)lab.wire[0].n_lost);
		assert_int_equal(lab.wire[0].n_lost, 0);
		/* But it does not end before the pipe is full, at 750 kB. */
		assert_true(lab.flows[0].from->cwnd > 700000);
		lab_fini(&lab);
	}
}

/* Jain's index of what each flow received between @from_ns and @to_ns. */
static double jain(struct lab *l, uint64_t from_ns, uint64_t to_ns)
{
	uint64_t before[LAB_FLOWS];
	double sum = 0, squares = 0;

	lab_run(l, from_ns);
	for (uint32_t i = 0; i < l->cfg.n_flows; i++)
		before[i] = l->flows[i].n_got;
	lab_run(l, to_ns);
	for (uint32_t i = 0; i < l->cfg.n_flows; i++) {
		double got = (double)(l->flows[i].n_got - before[i]);

		sum += got;
		squares += got * got;
	}
	return sum * sum / (squares * l->cfg.n_flows);
}

static void flows_share_a_bottleneck(void **state)
{
	static const uint32_t counts[] = { 2, 8, 64 };

	for (unsigned i = 0; i < ARRAY_LEN(schemes); i++)
		for (unsigned k = 0; k < ARRAY_LEN(counts); k++) {
			struct lab_config cfg = bottleneck(
			    schemes[i], counts[k], counts[k] * 4 * MBIT, 40);

			cfg.start_every_ns = 50 * MS;
			/* Without jitter all queues would fill at the same instants. */
			cfg.to.jitter_ns = MS / 10;
			lab_init(&lab, &cfg);
			double index = jain(&lab, 10 * NS_PER_S, 40 * NS_PER_S);
			printf("%s: %u flows of 40 ms on %u Mbit/s, Jain's "
			       "index of 30 s %.3f\n",
			       schemes[i]->name, counts[k], counts[k] * 4,
			       index);
			assert_true(index >= JAIN_LEAST);
			lab_fini(&lab);
		}
}

/* RFC 3168: the router marks a packet that finds 130 kB in the queue, so none need be
 * lost. */
static void marks_take_the_place_of_losses(void **state)
{
	for (unsigned i = 0; i < ARRAY_LEN(schemes); i++)
		for (uint8_t ecn = TCP_ECN_ACCEPT; ecn <= TCP_ECN_ASK; ecn++) {
			struct lab_config cfg =
			    bottleneck(schemes[i], 1, 50 * MBIT, 20);

			cfg.ecn = ecn;
			cfg.to.queue_bytes = 400000;
			cfg.to.mark_queue_bytes = 130000;
			lab_init(&lab, &cfg);
			lab_run(&lab, 10 * NS_PER_S);
			double mbit = (double)lab.flows[0].n_got * 8 / 10e6;
			uint64_t n_lost = lab.wire[0].n_lost;
			printf("%s, %s: %.1f of 50 Mbit/s, %llu lost\n",
			       schemes[i]->name, ecn ? "ECN" : "no ECN", mbit,
			       (unsigned long long)n_lost);
			assert_int_equal(n_lost == 0, ecn == TCP_ECN_ASK);
			assert_true(mbit > 45);
			lab_fini(&lab);
		}
}

/* A queue of five packets: bursts overflow it long before the path is full. */
static void pacing_asks_for_a_short_queue_only(void **state)
{
	double mbit[2];

	for (unsigned i = 0; i < 2; i++) {
		struct lab_config cfg =
		    bottleneck(&tcp_cubic, 1, 20 * MBIT, 40);

		cfg.is_paced = i;
		cfg.to.queue_bytes = 7500;
		lab_init(&lab, &cfg);
		lab_run(&lab, 20 * NS_PER_S);
		mbit[i] = (double)lab.flows[0].n_got * 8 / 20e6;
		printf("a queue of five packets, %s: %.1f of 20 Mbit/s, %llu "
		       "lost\n",
		       i ? "paced" : "not paced", mbit[i],
		       (unsigned long long)lab.wire[0].n_lost);
		lab_fini(&lab);
	}
	assert_true(mbit[1] > 15);
	assert_true(mbit[1] > mbit[0] * 1.05);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slow_start_ends_before_the_queue_overflows),
		cmocka_unit_test(flows_share_a_bottleneck),
		cmocka_unit_test(marks_take_the_place_of_losses),
		cmocka_unit_test(pacing_asks_for_a_short_queue_only),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
