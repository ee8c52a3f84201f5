/* SPDX-License-Identifier: MIT */
/*
 * tools/bench/bench_runs.h - the function of each benchmark that runs it once
 *
 *     bench_table.c names them -> bench_run.c calls them, once a round and side
 *
 * Return: 0 with r->value, or a negative errno with r->why.
 */
#pragma once
#include "bench.h"

int bench_pingpong(struct bench_run *r);
int bench_sockperf(struct bench_run *r);
int bench_stream(struct bench_run *r);
int bench_messages(struct bench_run *r);
int bench_redis_1(struct bench_run *r);
int bench_redis_50(struct bench_run *r);
int bench_redis_pipelined(struct bench_run *r);
int bench_redis_crowd(struct bench_run *r);
int bench_redis_crowds(struct bench_run *r);
int bench_memcached(struct bench_run *r);
int bench_nginx(struct bench_run *r);
int bench_nginx_crowd(struct bench_run *r);
int bench_pgbench_1(struct bench_run *r);
int bench_pgbench_8(struct bench_run *r);
int bench_oneshot(struct bench_run *r);
int bench_proof(struct bench_run *r);
int bench_proof_user(struct bench_run *r);
int bench_passthrough(struct bench_run *r);
int bench_read_zero(struct bench_run *r);
int bench_vma_dummy(struct bench_run *r);
int bench_idle_latency(struct bench_run *r);
int bench_idle_memory(struct bench_run *r);
int bench_asleep(struct bench_run *r);
int bench_xlio_pingpong(struct bench_run *r);
int bench_xlio_pingpong_ratio(struct bench_run *r);
int bench_xlio_stream(struct bench_run *r);
int bench_xlio_serve(struct bench_run *r);
int bench_xlio_idle(struct bench_run *r);
int bench_xlio_memory(struct bench_run *r);
int bench_vma_pingpong(struct bench_run *r);
int bench_vma_pingpong_xlio(struct bench_run *r);
int bench_vma_zcopy(struct bench_run *r);
int bench_vma_udp(struct bench_run *r);
int bench_vma_udp_joined(struct bench_run *r);
int bench_vma_callback(struct bench_run *r);
int bench_vma_receive(struct bench_run *r);
int bench_engine_rx_1(struct bench_run *r);
int bench_engine_tx_1(struct bench_run *r);
int bench_engine_rx_many(struct bench_run *r);
int bench_engine_tx_many(struct bench_run *r);
int bench_engine_lent_1(struct bench_run *r);
int bench_engine_lent_many(struct bench_run *r);
int bench_wire_floor(struct bench_run *r);
int bench_wire_beside(struct bench_run *r);
int bench_wire_freeze(struct bench_run *r);
int bench_wire_thaw(struct bench_run *r);
int bench_rdma_send_lat(struct bench_run *r);
int bench_rdma_write_lat(struct bench_run *r);
int bench_rdma_write_lat_cma(struct bench_run *r);
int bench_rdma_read_lat_cma(struct bench_run *r);
int bench_rdma_atomic_lat(struct bench_run *r);
int bench_rdma_send_rate(struct bench_run *r);
int bench_rdma_write_bw(struct bench_run *r);
int bench_rdma_read_bw_cma(struct bench_run *r);
int bench_rdma_idle_memory(struct bench_run *r);
int bench_roce_send_lat(struct bench_run *r);
int bench_roce_send_bw(struct bench_run *r);
