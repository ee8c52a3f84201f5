/* SPDX-License-Identifier: MIT */
/*
 * tests/verbs/ends.h - a queue pair and what it needs, and two of them connected
 *
 * Each test is a program of its own.  What is wrong ends it.
 */
#pragma once

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifndef DEVICE
#define DEVICE "osf0"
#endif
#define LIMIT_S 20
/* A program between hosts has its own before it includes this. */
#ifndef GID_INDEX
#define GID_INDEX 0
#define TIMEOUT 10
#define RETRIES 2
#define RNR_RETRIES 1
#endif
#define BUF 65536
#define REMOTE                                                                 \
	(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |                    \
	 IBV_ACCESS_REMOTE_ATOMIC)

#define CHECK(x)                                                               \
	do {                                                                   \
		if (!(x)) {                                                    \
			printf("%s:%d: %s (errno %d)\n", __FILE__, __LINE__,   \
			       #x, errno);                                     \
			exit(1);                                               \
		}                                                              \
	} while (0)

struct end {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_comp_channel *ch;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint8_t *buf;
};

struct address {
	uint32_t qpn, rkey;
	uint64_t addr;
	union ibv_gid gid;
};

static inline struct ibv_context *open_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	CHECK(list);
	for (int i = 0; list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), DEVICE)) {
			struct ibv_context *c = ibv_open_device(list[i]);

			ibv_free_device_list(list);
			return c;
		}
	return NULL;
}

static inline void end_open(struct end *e, enum ibv_qp_type type)
{
	e->ctx = open_device();
	CHECK(e->ctx);
	CHECK((e->pd = ibv_alloc_pd(e->ctx)));
	CHECK((e->ch = ibv_create_comp_channel(e->ctx)));
	CHECK((e->cq = ibv_create_cq(e->ctx, 64, NULL, e->ch, 0)));
	struct ibv_qp_init_attr init = { .send_cq = e->cq,
					 .recv_cq = e->cq,
					 .cap = { 8, 8, 2, 2, 64 },
					 .qp_type = type,
					 .sq_sig_all = 1 };
	CHECK((e->qp = ibv_create_qp(e->pd, &init)));
	CHECK((e->buf = calloc(1, BUF)));
	CHECK((e->mr = ibv_reg_mr(e->pd, e->buf, BUF,
				  IBV_ACCESS_LOCAL_WRITE | REMOTE)));
}

static inline struct address address_of(struct end *e)
{
	struct address a = { .qpn = e->qp->qp_num,
			     .rkey = e->mr->rkey,
			     .addr = (uintptr_t)e->buf };

	CHECK(!ibv_query_gid(e->ctx, 1, GID_INDEX, &a.gid));
	return a;
}

static inline void end_connect(struct end *e, const struct address *to)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT,
				 .port_num = 1,
				 .qp_access_flags = REMOTE };

	CHECK(!ibv_modify_qp(e->qp, &a,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				 IBV_QP_ACCESS_FLAGS));
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR,
				  .path_mtu = IBV_MTU_1024,
				  .dest_qp_num = to->qpn,
				  .max_dest_rd_atomic = 1,
				  .min_rnr_timer = 1,
				  .ah_attr = { .is_global = 1,
					       .port_num = 1,
					       .grh.sgid_index = GID_INDEX,
					       .grh.dgid = to->gid } };
	CHECK(!ibv_modify_qp(e->qp, &a,
			     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
				 IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				 IBV_QP_MAX_DEST_RD_ATOMIC |
				 IBV_QP_MIN_RNR_TIMER));
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS,
				  .timeout = TIMEOUT,
				  .retry_cnt = RETRIES,
				  .rnr_retry = RNR_RETRIES,
				  .max_rd_atomic = 1 };
	CHECK(!ibv_modify_qp(e->qp, &a,
			     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				 IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				 IBV_QP_MAX_QP_RD_ATOMIC));
}

/* A queue pair of datagrams. */
static inline void end_ready(struct end *e, uint32_t qkey)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT,
				 .port_num = 1,
				 .qkey = qkey };

	CHECK(!ibv_modify_qp(e->qp, &a,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				 IBV_QP_QKEY));
	a.qp_state = IBV_QPS_RTR;
	CHECK(!ibv_modify_qp(e->qp, &a, IBV_QP_STATE));
	a.qp_state = IBV_QPS_RTS;
	CHECK(!ibv_modify_qp(e->qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN));
}

static inline int post_recv(struct end *e, uint64_t id, uint32_t length)
{
	struct ibv_sge sge = { (uintptr_t)e->buf, length, e->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 };
	struct ibv_recv_wr *bad = NULL;

	return ibv_post_recv(e->qp, &wr, &bad);
}

static inline int post(struct end *e, enum ibv_wr_opcode op, uint32_t length,
		       uint32_t lkey, const struct address *to)
{
	struct ibv_sge sge = { (uintptr_t)e->buf, length, lkey };
	struct ibv_send_wr wr = {
		.wr_id = 7, .sg_list = &sge, .num_sge = 1, .opcode = op
	};
	struct ibv_send_wr *bad = NULL;

	if (to) {
		wr.wr.rdma.rkey = to->rkey;
		wr.wr.rdma.remote_addr = to->addr;
	}
	return ibv_post_send(e->qp, &wr, &bad);
}

/* The next completion, which has to come. */
static inline struct ibv_wc next(struct end *e)
{
	time_t end = time(NULL) + LIMIT_S;
	struct ibv_wc wc;
	int n;

	while (!(n = ibv_poll_cq(e->cq, 1, &wc)))
		CHECK(time(NULL) < end);
	CHECK(n == 1);
	return wc;
}

static inline void pair(struct end *a, struct end *b, enum ibv_qp_type type)
{
	end_open(a, type);
	end_open(b, type);
	struct address at_a = address_of(a), at_b = address_of(b);
	end_connect(a, &at_b);
	end_connect(b, &at_a);
}

struct test {
	const char *name;
	void (*run)(void);
};

/* Run all of @tests, or the one that the command line names. */
static inline int tests_main(int argc, char **argv, const struct test *tests,
			     size_t n, unsigned limit_s)
{
	setvbuf(stdout, NULL, _IONBF, 0);
	alarm(limit_s);
	for (size_t i = 0; i < n; i++) {
		if (argc > 1 && strcmp(argv[1], tests[i].name))
			continue;
		tests[i].run();
		printf("ok %s\n", tests[i].name);
	}
	return 0;
}
