/* SPDX-License-Identifier: MIT */
/* tools/osf/bench_engine.c - benchmarks of our own TCP, by peer_engine.c */
#include "bench.h"

#define MANY "100000"

int bench_engine_rx_1(struct bench_run *r)
{
	return run_alone(r, "engine", "1", NULL, NULL, "rx_ns ");
}

int bench_engine_tx_1(struct bench_run *r)
{
	return run_alone(r, "engine", "1", NULL, NULL, "tx_ns ");
}

int bench_engine_rx_many(struct bench_run *r)
{
	return run_alone(r, "engine", MANY, NULL, NULL, "rx_ns ");
}

int bench_engine_tx_many(struct bench_run *r)
{
	return run_alone(r, "engine", MANY, NULL, NULL, "tx_ns ");
}
