/* SPDX-License-Identifier: MIT */
/* tools/bench/bench_engine.c - benchmarks of our own TCP, by peer_engine.c */
#include "bench_pair.h"
#include "bench_runs.h"

#define MANY "100000"

static int cost(struct bench_run *r, const char *n_conns, const char *how)
{
	return run_alone(r, "engine", n_conns, how, NULL, "segment_ns ");
}

int bench_engine_rx_1(struct bench_run *r) { return cost(r, "1", "recv"); }

int bench_engine_rx_many(struct bench_run *r) { return cost(r, MANY, "recv"); }

int bench_engine_tx_1(struct bench_run *r) { return cost(r, "1", "copied"); }

int bench_engine_tx_many(struct bench_run *r)
{
	return cost(r, MANY, "copied");
}

int bench_engine_lent_1(struct bench_run *r) { return cost(r, "1", "lent"); }

int bench_engine_lent_many(struct bench_run *r)
{
	return cost(r, MANY, "lent");
}
