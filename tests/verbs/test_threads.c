/* SPDX-License-Identifier: MIT */
/*
 * tests/verbs/test_threads.c - several threads with one queue pair and one completion queue
 *
 *     test_threads     libosf-verbs.so comes first (LD_PRELOAD)
 *
 *     2 threads send, 2 poll and post receives again,
 *     1 registers memory, 1 makes and destroys other queue pairs
 *
 * Every message arrives once, with its bytes.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

#include "ends.h"

#define N 4000u
#define SLOTS 8u

static struct end a, b;
static atomic_uint n_sent, n_received;
static atomic_uchar seen[N];
static atomic_bool is_over;

static void post_slot(uint64_t i)
{
	struct ibv_sge sge = { (uintptr_t)b.buf + i * 64, 64, b.mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = i, .sg_list = &sge, .num_sge = 1 };
	struct ibv_recv_wr *bad;

	CHECK(!ibv_post_recv(b.qp, &wr, &bad));
}

/* The number of a message is in its immediate data, and inline in its bytes. */
static void *send_some(void *unused)
{
	for (uint32_t i; (i = n_sent++) < N;) {
		struct ibv_sge sge = { (uintptr_t)&i, sizeof(i), 0 };
		struct ibv_send_wr *bad, wr = { .sg_list = &sge,
						.num_sge = 1,
						.opcode = IBV_WR_SEND_WITH_IMM,
						.send_flags = IBV_SEND_INLINE,
						.imm_data = i };

		while (ibv_post_send(a.qp, &wr, &bad) == ENOMEM)
			sched_yield();
	}
	return NULL;
}

static void *poll_send(void *unused)
{
	struct ibv_wc wc;

	while (!is_over)
		if (ibv_poll_cq(a.cq, 1, &wc) == 1)
			CHECK(wc.status == IBV_WC_SUCCESS);
	return NULL;
}

static void *receive_some(void *unused)
{
	while (n_received < N) {
		struct ibv_wc wc;
		uint32_t i;

		if (ibv_poll_cq(b.cq, 1, &wc) != 1) {
			sched_yield();
			continue;
		}
		CHECK(wc.status == IBV_WC_SUCCESS && wc.imm_data < N);
		memcpy(&i, b.buf + wc.wr_id * 64, sizeof(i));
		CHECK(i == wc.imm_data && !seen[i]++);
		post_slot(wc.wr_id);
		n_received++;
	}
	is_over = true;
	return NULL;
}

static void *register_memory(void *unused)
{
	while (!is_over) {
		struct ibv_mr *mr = ibv_reg_mr(a.pd, a.buf, 100, 0);

		CHECK(mr && !ibv_dereg_mr(mr));
	}
	return NULL;
}

static void *make_pairs(void *unused)
{
	struct ibv_qp_init_attr init = { .send_cq = b.cq,
					 .recv_cq = b.cq,
					 .cap = { 8, 8, 2, 2, 64 },
					 .qp_type = IBV_QPT_RC };

	while (!is_over) {
		struct ibv_qp *qp = ibv_create_qp(b.pd, &init);

		CHECK(qp && !ibv_destroy_qp(qp));
	}
	return NULL;
}

int main(void)
{
	void *(*const mains[])(
	    void *) = { send_some, send_some,       receive_some, receive_some,
			poll_send, register_memory, make_pairs };
	enum { N_THREADS = sizeof(mains) / sizeof(*mains) };
	pthread_t threads[N_THREADS];

	setvbuf(stdout, NULL, _IONBF, 0);
	alarm(100);
	pair(&a, &b, IBV_QPT_RC);
	for (uint64_t i = 0; i < SLOTS; i++)
		post_slot(i);
	/* A sender that finds no receive waits as long as it takes. */
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS,
				    .min_rnr_timer = 0 };
	CHECK(!ibv_modify_qp(b.qp, &attr, IBV_QP_STATE | IBV_QP_MIN_RNR_TIMER));
	for (int i = 0; i < N_THREADS; i++)
		CHECK(!pthread_create(&threads[i], NULL, mains[i], NULL));
	for (int i = 0; i < N_THREADS; i++)
		pthread_join(threads[i], NULL);
	for (uint32_t i = 0; i < N; i++)
		CHECK(seen[i] == 1);
	printf("ok\n");
	return 0;
}
