/* SPDX-License-Identifier: MIT */
/*
 * tools/bench/bench_table.c - what is measured, and what must come out
 *
 *     bench_programs.def   programs of sockets, on one host
 *     bench_apis.def       the APIs of XLIO and VMA
 *     bench_wire.def       our own TCP, alone and over a wire
 *     bench_rdma.def       the software RDMA device
 *
 * The bars are those of the design.  A benchmark belongs to a group, which can
 * be named as well; the order is the order in which they run.
 */
#include <assert.h>
#include "bench_runs.h"

const struct bench benches[] = {
#include "bench_programs.def"
#include "bench_apis.def"
#include "bench_wire.def"
#include "bench_rdma.def"
};
static_assert(sizeof(benches) / sizeof(*benches) == N_BENCHES,
	      "bench.h counts them");
