/* SPDX-License-Identifier: MIT */
/*
 * tests/verbs/test_shared.c - shared receive queues, and memory windows
 *
 *     test_shared NAME ...     libosf-verbs.so comes first (LD_PRELOAD)
 *
 * Both queue pairs are in this process.
 */
#include <unistd.h>

#include "ends.h"

/* As pair(), but @b's queue pair takes its receives from a shared queue. */
static struct ibv_srq *pair_shared(struct end *a, struct end *b)
{
	struct ibv_srq_init_attr sa = { .attr = { .max_wr = 8, .max_sge = 1 } };

	end_open(a, IBV_QPT_RC);
	end_open(b, IBV_QPT_RC);
	CHECK(!ibv_destroy_qp(b->qp));
	struct ibv_srq *srq = ibv_create_srq(b->pd, &sa);
	struct ibv_qp_init_attr init = { .send_cq = b->cq,
					 .recv_cq = b->cq,
					 .srq = srq,
					 .cap = { 8, 0, 2, 0, 64 },
					 .qp_type = IBV_QPT_RC };
	CHECK(srq && (b->qp = ibv_create_qp(b->pd, &init)));
	struct address at_a = address_of(a), at_b = address_of(b);
	end_connect(a, &at_b);
	end_connect(b, &at_a);
	return srq;
}

static void post_shared(struct end *e, struct ibv_srq *srq, uint64_t id)
{
	struct ibv_sge sge = { (uintptr_t)e->buf, BUF, e->mr->lkey };
	struct ibv_recv_wr *bad,
	    wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 };

	CHECK(!ibv_post_srq_recv(srq, &wr, &bad));
}

static void expect_event(struct ibv_context *ctx, enum ibv_event_type type)
{
	struct ibv_async_event ev;

	CHECK(!ibv_get_async_event(ctx, &ev));
	CHECK(ev.event_type == type);
	ibv_ack_async_event(&ev);
}

/* A sender waits for a receive no longer than it said, and what it gave up does not
 * arrive afterwards. */
static void test_rnr(void)
{
	struct end a, b;
	struct ibv_srq *srq = pair_shared(&a, &b);
	struct ibv_wc wc;

	post_shared(&b, srq, 1);
	CHECK(!post(&a, IBV_WR_SEND, 10, a.mr->lkey, NULL));
	CHECK(next(&a).status == IBV_WC_SUCCESS);
	CHECK(next(&b).wr_id == 1);
	CHECK(!post(&a, IBV_WR_SEND, 40000, a.mr->lkey, NULL));
	CHECK(!post(&a, IBV_WR_SEND, 10, a.mr->lkey, NULL));
	CHECK(next(&a).status == IBV_WC_RNR_RETRY_EXC_ERR);
	CHECK(next(&a).status == IBV_WC_WR_FLUSH_ERR);
	post_shared(&b, srq, 2);
	for (int i = 0; i < 1000; i++)
		CHECK(!ibv_poll_cq(b.cq, 1, &wc));
}

static void test_limit(void)
{
	struct end a, b;
	struct ibv_srq *srq = pair_shared(&a, &b);
	struct ibv_srq_attr attr = { .srq_limit = 2 };

	post_shared(&b, srq, 1);
	post_shared(&b, srq, 2);
	CHECK(!ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT));
	CHECK(!post(&a, IBV_WR_SEND, 10, a.mr->lkey, NULL));
	CHECK(next(&b).wr_id == 1);
	expect_event(b.ctx, IBV_EVENT_SRQ_LIMIT_REACHED);
	CHECK(!ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT)); /* it is low */
	expect_event(b.ctx, IBV_EVENT_SRQ_LIMIT_REACHED);
	struct ibv_qp_attr err = { .qp_state = IBV_QPS_ERR };
	CHECK(!ibv_modify_qp(b.qp, &err, IBV_QP_STATE));
	expect_event(b.ctx, IBV_EVENT_QP_LAST_WQE_REACHED);
}

static const struct test tests[] = {
	{ "rnr", test_rnr },
	{ "limit", test_limit },
};

int main(int argc, char **argv)
{
	return tests_main(argc, argv, tests, sizeof(tests) / sizeof(*tests),
			  100);
}
