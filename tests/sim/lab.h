/* SPDX-License-Identifier: MIT */
/*
 * tests/sim/lab.h - flows over one bottleneck, for measurements
 *
 *     sender's stack -> wire with a rate, a queue and losses -> receiver's stack
 *                    <- the same without a rate, for ACKs   <-
 *
 * Unlike world.h it checks nothing on the way, so millions of packets take seconds.
 * The result depends on the configuration alone.
 */
#pragma once

#include "port/sim/port.h"
#include "tcp/calls.h"
#include "tcp/opt.h"
#include "tcp/stack.h"

#define LAB_FLOWS 64

struct lab_config {
	uint64_t seed;
	const struct tcp_cc *cc;
	struct wire_model to, back;
	uint32_t n_flows;
	uint64_t start_every_ns; /* between the flows' opens */
	uint64_t n_bytes;        /* of each flow */
	uint32_t buf_bytes;      /* of each flow, at both ends */
	uint8_t ecn;             /* enum tcp_ecn */
	bool is_paced;
};

struct lab_flow {
	struct tcp_conn *from, *to;
	uint64_t n_sent, n_got, done_ns;
};

struct lab {
	struct lab_config cfg;
	uint64_t now_ns;
	struct tcp_stack *stack[2]; /* of senders, of receivers */
	void *stack_mem[2], *rx_mem[2];
	struct sim_port port[2];
	struct wire wire[2]; /* from senders, from receivers */
	struct tcp_listener *listener;
	struct lab_flow flows[LAB_FLOWS];
	uint32_t n_open, n_done;
};

void lab_init(struct lab *l, const struct lab_config *cfg);
void lab_fini(struct lab *l);

/* Runs until all flows are done, or until @until_ns. */
void lab_run(struct lab *l, uint64_t until_ns);
