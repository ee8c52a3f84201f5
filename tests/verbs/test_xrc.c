/* SPDX-License-Identifier: MIT */
/*
 * tests/verbs/test_xrc.c - extended reliable connections: messages that name their queue
 *
 *     test_xrc NAME ...     libosf-verbs.so comes first (LD_PRELOAD)
 *
 * One sender, one receiving queue pair, and two shared receive queues of its domain, each
 * with a completion queue of its own.
 */
#include "xrc.h"

struct two {
	struct end a; /* the sender; its queue pair is RC's, unused */
	struct ibv_xrcd *xrcd;
	struct ibv_qp *send, *recv;
	struct ibv_srq *srq[2];
	struct ibv_cq *cq[2];
	uint32_t num[2];
};

/* Both are here. */
static void meet(struct ibv_context *c, struct ibv_qp *recv,
		 struct ibv_qp *send)
{
	union ibv_gid gid;

	CHECK(!ibv_query_gid(c, 1, GID_INDEX, &gid));
	connect_xrc(recv, send->qp_num, &gid);
	connect_xrc(send, recv->qp_num, &gid);
}

static void two_open(struct two *t)
{
	end_open(&t->a, IBV_QPT_RC);
	struct ibv_context *c = t->a.ctx;
	CHECK((t->xrcd = open_xrcd(c, -1, O_CREAT)));
	CHECK((t->recv = new_recv(c, t->xrcd)));
	CHECK((t->send = new_send(t->a.pd, t->a.cq)));
	for (int i = 0; i < 2; i++) {
		CHECK((t->cq[i] = ibv_create_cq(c, 8, NULL, NULL, 0)));
		CHECK((t->srq[i] = new_srq(t->a.pd, t->xrcd, t->cq[i])));
		CHECK(!ibv_get_srq_num(t->srq[i], &t->num[i]));
	}
	meet(c, t->recv, t->send);
}

static int request(struct two *t, enum ibv_wr_opcode op, uint32_t srqn,
		   uint32_t length, const struct address *to)
{
	return ask_xrc(&t->a, t->send, op, srqn, length, to);
}

static void receive(struct two *t, int i, uint64_t id, uint32_t length)
{
	receive_xrc(&t->a, t->srq[i], id, length);
}

/* Each message is complete where the queue that it names says. */
static void test_send(void)
{
	struct two t;

	two_open(&t);
	for (uint32_t size = 1; size <= BUF / 2; size *= 8)
		for (int i = 0; i < 2; i++) {
			memset(t.a.buf, 0, BUF);
			memset(t.a.buf, 'a' + i, size);
			receive(&t, i, 40 + i, BUF / 2);
			CHECK(!request(&t, IBV_WR_SEND, t.num[i], size, NULL));
			struct ibv_wc wc = next_of(t.cq[i]);
			CHECK(wc.status == IBV_WC_SUCCESS &&
			      wc.wr_id == 40u + i && wc.byte_len == size &&
			      wc.qp_num == t.recv->qp_num);
			CHECK(next(&t.a).status == IBV_WC_SUCCESS);
			CHECK(!memcmp(t.a.buf, t.a.buf + BUF / 2, size));
			CHECK(ibv_poll_cq(t.cq[!i], 1, &wc) == 0);
		}
}

/* A long message, to a program that looks at its receives only. */
static void test_unpolled(void)
{
	struct two t;

	two_open(&t);
	for (int i = 0; i < 8; i++)
		receive(&t, 0, 1, BUF / 2);
	for (int i = 0; i < 8; i++)
		CHECK(!request(&t, IBV_WR_SEND, t.num[0], BUF / 2, NULL));
	for (int i = 0; i < 8; i++)
		CHECK(next_of(t.cq[0]).byte_len == BUF / 2);
}

/* Both ends are in this process, and it polls one of them, by ibv_start_poll(). */
static void test_one_end(void)
{
	struct two t;
	time_t end = time(NULL) + LIMIT_S;

	two_open(&t);
	struct ibv_cq_init_attr_ex init = { .cqe = 8 };
	struct ibv_cq_ex *ex = ibv_create_cq_ex(t.a.ctx, &init);
	CHECK(ex && !ibv_destroy_qp(t.send));
	CHECK((t.send = new_send(t.a.pd, ibv_cq_ex_to_cq(ex))));
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	CHECK(!ibv_modify_qp(t.recv, &reset, IBV_QP_STATE));
	meet(t.a.ctx, t.recv, t.send);
	receive(&t, 0, 1, 8);
	CHECK(!request(&t, IBV_WR_SEND, t.num[0], 8, NULL));
	struct ibv_poll_cq_attr none = { 0 };
	while (ibv_start_poll(ex, &none) == ENOENT)
		CHECK(time(NULL) < end);
	CHECK(ex->status == IBV_WC_SUCCESS && ex->wr_id == 7);
	ibv_end_poll(ex);
}

static void test_one_sided(void)
{
	struct two t;
	uint64_t *word;

	two_open(&t);
	struct address to = { .rkey = t.a.mr->rkey,
			      .addr = (uintptr_t)t.a.buf + BUF / 2 };
	word = (uint64_t *)to.addr;
	memset(t.a.buf, 3, 64);
	CHECK(!request(&t, IBV_WR_RDMA_WRITE, t.num[1], 64, &to));
	CHECK(next(&t.a).status == IBV_WC_SUCCESS && *word % 256 == 3);
	*word = 70;
	CHECK(!request(&t, IBV_WR_ATOMIC_FETCH_AND_ADD, t.num[1], 8, &to));
	CHECK(next(&t.a).status == IBV_WC_SUCCESS && *word == 75);
	CHECK(*(uint64_t *)t.a.buf == 70);
	CHECK(!request(&t, IBV_WR_RDMA_READ, t.num[0], 8, &to));
	CHECK(next(&t.a).status == IBV_WC_SUCCESS);
	CHECK(*(uint64_t *)t.a.buf == 75);
	receive(&t, 1, 6, 0);
	CHECK(!request(&t, IBV_WR_RDMA_WRITE_WITH_IMM, t.num[1], 64, &to));
	struct ibv_wc wc = next_of(t.cq[1]);
	CHECK(wc.wr_id == 6 && wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM);
	CHECK(next(&t.a).status == IBV_WC_SUCCESS);
	/* Keys are those of the queue's protection domain. */
	struct ibv_pd *pd = ibv_alloc_pd(t.a.ctx);
	struct ibv_srq *srq = new_srq(pd, t.xrcd, t.cq[0]);
	uint32_t num;
	CHECK(srq && !ibv_get_srq_num(srq, &num));
	CHECK(!request(&t, IBV_WR_RDMA_WRITE, num, 64, &to));
	CHECK(next(&t.a).status == IBV_WC_REM_ACCESS_ERR);
}

/* No such queue, one of another domain, and one without a receive. */
static void test_wrong(void)
{
	struct two t;
	uint32_t num;

	two_open(&t);
	CHECK(!request(&t, IBV_WR_SEND, t.num[0] + 7, 8, NULL));
	CHECK(next(&t.a).status == IBV_WC_REM_INV_REQ_ERR);

	two_open(&t);
	struct ibv_xrcd *other = open_xrcd(t.a.ctx, -1, O_CREAT);
	struct ibv_srq *srq = new_srq(t.a.pd, other, t.cq[0]);
	CHECK(!ibv_get_srq_num(srq, &num));
	CHECK(!request(&t, IBV_WR_SEND, num, 8, NULL));
	CHECK(next(&t.a).status == IBV_WC_REM_INV_REQ_ERR);

	two_open(&t);
	receive(&t, 1, 1, 8);
	CHECK(!request(&t, IBV_WR_SEND, t.num[0], 8, NULL));
	struct ibv_wc wc;
	while (!ibv_poll_cq(t.a.cq, 1, &wc)) {
		struct ibv_wc none;

		CHECK(!ibv_poll_cq(t.cq[0], 1, &none));
	}
	CHECK(wc.status == IBV_WC_RNR_RETRY_EXC_ERR);

	two_open(&t); /* too short */
	receive(&t, 1, 1, 7);
	CHECK(!request(&t, IBV_WR_SEND, t.num[1], 8, NULL));
	CHECK(next_of(t.cq[1]).status == IBV_WC_LOC_LEN_ERR);
}

static void test_order(void)
{
	struct two t;

	two_open(&t);
	CHECK(ibv_close_xrcd(t.xrcd) == EBUSY);
	CHECK(ibv_destroy_cq(t.cq[0]) == EBUSY);
	CHECK(ibv_dealloc_pd(t.a.pd) == EBUSY);
	CHECK(!ibv_destroy_srq(t.srq[0]));
	CHECK(!ibv_destroy_cq(t.cq[0]));
	CHECK(!request(&t, IBV_WR_SEND, t.num[0], 8, NULL));
	CHECK(next(&t.a).status == IBV_WC_REM_INV_REQ_ERR);
	CHECK(!ibv_destroy_srq(t.srq[1]) && !ibv_destroy_qp(t.recv));
	CHECK(!ibv_destroy_cq(t.cq[1]));
	CHECK(!ibv_close_xrcd(t.xrcd));
}

/* Another handle of the receiving queue pair, which outlives the first one. */
static void test_open_qp(void)
{
	struct two t;
	struct ibv_qp_attr a;
	struct ibv_qp_init_attr init;

	two_open(&t);
	struct ibv_qp_open_attr attr = { .comp_mask = IBV_QP_OPEN_ATTR_NUM |
						      IBV_QP_OPEN_ATTR_XRCD |
						      IBV_QP_OPEN_ATTR_CONTEXT |
						      IBV_QP_OPEN_ATTR_TYPE,
					 .qp_num = t.recv->qp_num,
					 .xrcd = t.xrcd,
					 .qp_context = &t,
					 .qp_type = IBV_QPT_XRC_RECV };
	struct ibv_qp *qp = ibv_open_qp(t.a.ctx, &attr);
	CHECK(qp && qp->qp_num == t.recv->qp_num && qp->qp_context == &t);
	CHECK(!ibv_query_qp(qp, &a, IBV_QP_STATE, &init));
	CHECK(a.qp_state == IBV_QPS_RTS && !init.recv_cq && !init.send_cq);
	CHECK(!ibv_destroy_qp(t.recv));
	receive(&t, 1, 4, 8);
	CHECK(!request(&t, IBV_WR_SEND, t.num[1], 8, NULL));
	CHECK(next_of(t.cq[1]).wr_id == 4);
	attr.qp_num++;
	CHECK(!ibv_open_qp(t.a.ctx, &attr) && errno == EINVAL);
	CHECK(!ibv_destroy_qp(qp));
	CHECK(!ibv_destroy_srq(t.srq[0]) && !ibv_destroy_srq(t.srq[1]));
	CHECK(!ibv_close_xrcd(t.xrcd));
}

static void test_domains(void)
{
	struct two t;
	char path[] = "/tmp/osf-xrc-XXXXXX";
	int fd = mkstemp(path);

	CHECK(fd >= 0 && !unlink(path));
	two_open(&t);
	struct ibv_context *c = t.a.ctx;
	CHECK(!open_xrcd(c, fd, 0) && errno == EAGAIN);
	CHECK(!open_xrcd(c, 999, O_CREAT) && errno == EBADF);
	struct ibv_xrcd *one = open_xrcd(c, fd, O_CREAT);
	struct ibv_xrcd *two = open_xrcd(c, fd, 0);
	CHECK(one && two);
	CHECK(!open_xrcd(c, fd, O_CREAT | O_EXCL) && errno == EINVAL);
	/* One domain, by two handles. */
	struct ibv_srq *srq = new_srq(t.a.pd, one, t.cq[0]);
	struct ibv_qp *qp = new_recv(c, two);
	uint32_t num;
	CHECK(srq && qp && !ibv_get_srq_num(srq, &num));
	CHECK(!ibv_destroy_qp(t.recv));
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	CHECK(!ibv_modify_qp(t.send, &reset, IBV_QP_STATE));
	meet(c, qp, t.send);
	struct ibv_srq *old = t.srq[0];
	t.srq[0] = srq;
	receive(&t, 0, 12, 8);
	CHECK(!request(&t, IBV_WR_SEND, num, 8, NULL));
	CHECK(next_of(t.cq[0]).wr_id == 12);
	CHECK(ibv_close_xrcd(one) == EBUSY && ibv_close_xrcd(two) == EBUSY);
	CHECK(!ibv_destroy_srq(srq) && !ibv_close_xrcd(one));
	CHECK(!ibv_destroy_qp(qp) && !ibv_close_xrcd(two));
	CHECK(!open_xrcd(c, fd, 0) && errno == EAGAIN);
	/* Calls that XRC does not have. */
	struct ibv_recv_wr none = { .wr_id = 1 }, *bad;
	CHECK(ibv_post_recv(t.send, &none, &bad) == EINVAL);
	CHECK(ibv_get_srq_num(old, &num) == 0);
	struct ibv_srq_init_attr basic = { .attr = { .max_wr = 1 } };
	CHECK(ibv_get_srq_num(ibv_create_srq(t.a.pd, &basic), &num));
	close(fd);
}

static const struct test tests[] = {
	{ "send", test_send },           { "unpolled", test_unpolled },
	{ "one_sided", test_one_sided }, { "wrong", test_wrong },
	{ "order", test_order },         { "one_end", test_one_end },
	{ "open_qp", test_open_qp },     { "domains", test_domains },
};

int main(int argc, char **argv)
{
	return tests_main(argc, argv, tests, sizeof(tests) / sizeof(*tests),
			  120);
}
