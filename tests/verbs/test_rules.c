/* SPDX-License-Identifier: MIT */
/*
 * tests/verbs/test_rules.c - rules of the manual pages that few programs come upon
 *
 *     test_rules NAME ...     libosf-verbs.so comes first (LD_PRELOAD)
 */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>

#include "ends.h"

static bool is_readable(int fd)
{
	struct pollfd p = { fd, POLLIN, 0 };

	return poll(&p, 1, 0) == 1;
}

/* The next event, which is there already. */
static void expect(struct ibv_context *c, enum ibv_event_type type, void *of)
{
	struct ibv_async_event e;

	CHECK(is_readable(c->async_fd) && !ibv_get_async_event(c, &e));
	CHECK(e.event_type == type && (void *)e.element.qp == of);
	ibv_ack_async_event(&e);
}

static struct ibv_srq *new_srq(struct end *e)
{
	struct ibv_srq_init_attr init = { .attr = { 8, 1, 0 } };
	struct ibv_srq *srq = ibv_create_srq(e->pd, &init);

	CHECK(srq);
	return srq;
}

static struct ibv_qp *new_qp(struct end *e, struct ibv_cq *cq,
			     struct ibv_srq *srq)
{
	struct ibv_qp_init_attr init = { .send_cq = cq,
					 .recv_cq = cq,
					 .srq = srq,
					 .cap = { 8, 8, 1, 1, 0 },
					 .qp_type = IBV_QPT_RC,
					 .sq_sig_all = 1 };
	struct ibv_qp *qp = ibv_create_qp(e->pd, &init);

	CHECK(qp);
	return qp;
}

static void set(struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr a = { .qp_state = state };

	CHECK(!ibv_modify_qp(qp, &a, IBV_QP_STATE));
}

static void fail(struct ibv_qp *qp)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1 };

	CHECK(!ibv_modify_qp(qp, &a,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				 IBV_QP_ACCESS_FLAGS));
	set(qp, IBV_QPS_ERR);
}

/* The events of an object end with it: a program that finds the descriptor readable gets one. */
static void test_events_of_the_destroyed(void)
{
	struct ibv_srq_attr limit = { .srq_limit = 2 };
	struct end e;

	end_open(&e, IBV_QPT_RC);
	struct ibv_srq *srq = new_srq(&e);
	struct ibv_qp *first = new_qp(&e, e.cq, srq);
	struct ibv_qp *second = new_qp(&e, e.cq, srq);
	fail(first);
	fail(second);
	CHECK(!ibv_destroy_qp(first));
	expect(e.ctx, IBV_EVENT_QP_LAST_WQE_REACHED, second);
	CHECK(!is_readable(e.ctx->async_fd));
	CHECK(!ibv_destroy_qp(second));
	CHECK(!ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT));
	CHECK(is_readable(e.ctx->async_fd));
	CHECK(!ibv_destroy_srq(srq) && !is_readable(e.ctx->async_fd));
}

/* @of is armed, and gets a completion. */
static void notify(struct end *of, const struct address *to)
{
	CHECK(!ibv_req_notify_cq(of->cq, 0));
	CHECK(!post(of, IBV_WR_RDMA_WRITE, 1, of->mr->lkey, to));
	CHECK(is_readable(of->ch->fd));
}

/* The same on a channel, which two queues have. */
static void test_completions_of_the_destroyed(void)
{
	struct ibv_cq *cq;
	struct end a, b, c, d;
	void *context;

	pair(&a, &b, IBV_QPT_RC);
	end_open(&d, IBV_QPT_RC);
	c = a;
	CHECK((c.cq = ibv_create_cq(a.ctx, 8, NULL, a.ch, 0)));
	c.qp = new_qp(&a, c.cq, NULL);
	struct address at_b = address_of(&b), at_c = address_of(&c);
	struct address at_d = address_of(&d);
	end_connect(&c, &at_d);
	end_connect(&d, &at_c);
	notify(&a, &at_b);
	notify(&c, &at_d);
	CHECK(!ibv_destroy_qp(c.qp) && !ibv_destroy_cq(c.cq));
	CHECK(is_readable(a.ch->fd));
	CHECK(!ibv_get_cq_event(a.ch, &cq, &context) && cq == a.cq);
	ibv_ack_cq_events(cq, 1);
	CHECK(!is_readable(a.ch->fd));
	notify(&a, &at_b);
	CHECK(!ibv_destroy_qp(a.qp) && !ibv_destroy_cq(a.cq));
	CHECK(!is_readable(a.ch->fd) && !ibv_destroy_comp_channel(a.ch));
}

static void drain(struct ibv_qp *qp, bool tells)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_SQD,
				 .en_sqd_async_notify = tells };

	CHECK(!ibv_modify_qp(
	    qp, &a, IBV_QP_STATE | (tells ? IBV_QP_EN_SQD_ASYNC_NOTIFY : 0)));
}

static bool is_draining(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	CHECK(!ibv_query_qp(qp, &a, IBV_QP_STATE, &init));
	CHECK(a.qp_state == IBV_QPS_SQD);
	return a.sq_draining;
}

/* SQD: what has begun goes on, and its end is told, once, to who asks for that.  What has not
 * begun waits for RTS. */
static void test_drained(void)
{
	struct end a, b;
	struct ibv_recv_wr *bad;

	end_open(&a, IBV_QPT_RC);
	end_open(&b, IBV_QPT_RC);
	struct ibv_srq *srq = new_srq(&b);
	b.qp = new_qp(&b, b.cq, srq);
	struct address at_a = address_of(&a), at_b = address_of(&b);
	end_connect(&a, &at_b);
	end_connect(&b, &at_a);

	/* It waits for a receive of the shared queue. */
	CHECK(!post(&a, IBV_WR_SEND, 5, a.mr->lkey, NULL));
	drain(a.qp, true);
	CHECK(is_draining(a.qp) && !is_readable(a.ctx->async_fd));
	struct ibv_sge sge = { (uintptr_t)b.buf, BUF, b.mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = 1, .sg_list = &sge, .num_sge = 1 };
	CHECK(!ibv_post_srq_recv(srq, &wr, &bad));
	CHECK(next(&b).byte_len == 5 && next(&a).status == IBV_WC_SUCCESS);
	CHECK(!is_draining(a.qp));
	expect(a.ctx, IBV_EVENT_SQ_DRAINED, a.qp);

	CHECK(!post(&a, IBV_WR_RDMA_WRITE, 5, a.mr->lkey, &at_b));
	struct ibv_wc wc;
	CHECK(!ibv_poll_cq(a.cq, 1, &wc) && !is_draining(a.qp));
	set(a.qp, IBV_QPS_RTS);
	CHECK(next(&a).status == IBV_WC_SUCCESS);
	drain(a.qp, false);
	CHECK(!is_readable(a.ctx->async_fd));
}

/* A datagram is one packet, and may be as long as the port says. */
static void test_longest_datagram(void)
{
	struct ibv_send_wr *bad, wr = { .num_sge = 1, .opcode = IBV_WR_SEND };
	struct ibv_port_attr port;
	struct end a, b;

	end_open(&a, IBV_QPT_UD);
	end_open(&b, IBV_QPT_UD);
	end_ready(&a, 1);
	end_ready(&b, 2);
	struct address to = address_of(&b);
	struct ibv_ah_attr ah = { .is_global = 1,
				  .port_num = 1,
				  .grh.dgid = to.gid };
	CHECK(!ibv_query_port(a.ctx, 1, &port));
	uint32_t mtu = 128u << port.active_mtu;
	struct ibv_sge sge = { (uintptr_t)a.buf, mtu, a.mr->lkey };
	wr.sg_list = &sge;
	wr.wr.ud.ah = ibv_create_ah(a.pd, &ah);
	wr.wr.ud.remote_qpn = to.qpn;
	wr.wr.ud.remote_qkey = 2;
	CHECK(wr.wr.ud.ah && !post_recv(&b, 1, BUF));
	CHECK(!ibv_post_send(a.qp, &wr, &bad));
	CHECK(next(&a).status == IBV_WC_SUCCESS);
	CHECK(next(&b).byte_len == 40 + mtu);
	sge.length++;
	CHECK(!ibv_post_send(a.qp, &wr, &bad));
	CHECK(next(&a).status == IBV_WC_LOC_LEN_ERR);
	set(a.qp, IBV_QPS_RTS); /* from SQE */
}

/*
 * Extended calls.
 */

static bool has_begun;

static void *poll_beside(void *ex)
{
	struct ibv_poll_cq_attr attr = { 0 };
	struct ibv_cq_ex *cq = ex;

	__atomic_store_n(&has_begun, true, __ATOMIC_SEQ_CST);
	CHECK(!ibv_start_poll(cq, &attr));
	CHECK(cq->wr_id == 7 && ibv_wc_read_byte_len(cq) == 2);
	ibv_end_poll(cq);
	return NULL;
}

/* A thread reads its completion from the queue, where no other thread puts another one. */
static void test_two_threads_poll(void)
{
	struct ibv_cq_init_attr_ex init = { .cqe = 8,
					    .wc_flags =
						IBV_WC_EX_WITH_BYTE_LEN };
	struct ibv_poll_cq_attr attr = { 0 };
	struct end a, b;
	pthread_t t;

	end_open(&a, IBV_QPT_RC);
	end_open(&b, IBV_QPT_RC);
	struct ibv_cq_ex *cq = ibv_create_cq_ex(a.ctx, &init);
	CHECK(cq);
	a.qp = new_qp(&a, ibv_cq_ex_to_cq(cq), NULL);
	struct address at_a = address_of(&a), at_b = address_of(&b);
	end_connect(&a, &at_b);
	end_connect(&b, &at_a);
	for (uint32_t size = 1; size <= 2; size++)
		CHECK(!post(&a, IBV_WR_RDMA_WRITE, size, a.mr->lkey, &at_b));
	CHECK(!ibv_start_poll(cq, &attr));
	CHECK(!pthread_create(&t, NULL, poll_beside, cq));
	while (!__atomic_load_n(&has_begun, __ATOMIC_SEQ_CST))
		sched_yield();
	for (int i = 0; i < 1000; i++) {
		sched_yield();
		CHECK(ibv_wc_read_byte_len(cq) == 1);
	}
	ibv_end_poll(cq);
	CHECK(!pthread_join(t, NULL));
	CHECK(ibv_start_poll(cq, &attr) == ENOENT);
	CHECK(ibv_start_poll(cq, &attr) == ENOENT);
}

/* Between ibv_wr_start() and ibv_wr_complete() the thread may post receives, and poll. */
static void test_receive_amid_requests(void)
{
	struct end a, b;
	struct ibv_wc wc;

	end_open(&a, IBV_QPT_RC);
	end_open(&b, IBV_QPT_RC);
	struct ibv_qp_init_attr_ex init = {
		.send_cq = a.cq,
		.recv_cq = a.cq,
		.cap = { 4, 4, 1, 1, 0 },
		.qp_type = IBV_QPT_RC,
		.comp_mask =
		    IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = a.pd,
		.send_ops_flags = IBV_QP_EX_WITH_SEND
	};
	CHECK((a.qp = ibv_create_qp_ex(a.ctx, &init)));
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(a.qp);
	struct address at_a = address_of(&a), at_b = address_of(&b);
	end_connect(&a, &at_b);
	end_connect(&b, &at_a);
	CHECK(!post_recv(&b, 1, 10));
	ibv_wr_start(ex);
	ex->wr_id = 2;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send(ex);
	CHECK(!post_recv(&a, 3, 10));
	CHECK(!ibv_poll_cq(a.cq, 1, &wc));
	ibv_wr_set_sge(ex, a.mr->lkey, (uintptr_t)a.buf, 10);
	CHECK(!ibv_wr_complete(ex));
	CHECK(next(&a).wr_id == 2 && next(&b).wr_id == 1);
	CHECK(!post(&b, IBV_WR_SEND, 10, b.mr->lkey, NULL));
	CHECK(next(&a).wr_id == 3);
}

/*
 * What is refused.
 */

static void refuse_qp(struct end *e, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr init = { .send_cq = e->cq,
					 .recv_cq = e->cq,
					 .srq = srq,
					 .cap = { 1, 0, 1, 0, 0 },
					 .qp_type = IBV_QPT_RC };

	errno = 0;
	CHECK(!ibv_create_qp(e->pd, &init) && errno == EINVAL);
}

static void test_objects_of_others(void)
{
	struct ibv_xrcd_init_attr anonymous = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = O_CREAT
	};
	struct end e, other;

	end_open(&e, IBV_QPT_RC);
	end_open(&other, IBV_QPT_RC);
	refuse_qp(&e, new_srq(&other));
	CHECK(ibv_rereg_mr(e.mr, IBV_REREG_MR_CHANGE_PD, other.pd, NULL, 0,
			   0) == IBV_REREG_MR_ERR_INPUT &&
	      errno == EINVAL);
	struct ibv_srq_init_attr_ex init = {
		.attr = { 4, 1, 0 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_XRCD |
			     IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_PD,
		.srq_type = IBV_SRQT_XRC,
		.pd = e.pd,
		.xrcd = ibv_open_xrcd(e.ctx, &anonymous),
		.cq = e.cq
	};
	struct ibv_srq *srq = ibv_create_srq_ex(e.ctx, &init);
	CHECK(srq);
	refuse_qp(&e, srq);
}

/* Numbers that have 24 bits are what is left of them.  In SQD a connection cannot get another peer. */
static void test_values(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr q;
	struct end a, b;

	end_open(&a, IBV_QPT_RC);
	end_open(&b, IBV_QPT_RC);
	struct address at_a = address_of(&a), at_b = address_of(&b);
	at_b.qpn |= 0xff000000;
	end_connect(&a, &at_b);
	end_connect(&b, &at_a);
	CHECK(!ibv_query_qp(a.qp, &q, IBV_QP_DEST_QPN, &init));
	CHECK(q.dest_qp_num == b.qp->qp_num);
	CHECK(!post_recv(&b, 1, 10));
	CHECK(!post(&a, IBV_WR_SEND, 10, a.mr->lkey, NULL));
	CHECK(next(&a).status == IBV_WC_SUCCESS);
	set(a.qp, IBV_QPS_SQD);
	CHECK(!ibv_modify_qp(a.qp, &q, IBV_QP_AV));
	q.ah_attr.grh.dgid.raw[15] ^= 1;
	CHECK(ibv_modify_qp(a.qp, &q, IBV_QP_AV) == EOPNOTSUPP);
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {
		{ "events_of_the_destroyed", test_events_of_the_destroyed },
		{ "completions_of_the_destroyed",
		  test_completions_of_the_destroyed },
		{ "drained", test_drained },
		{ "longest_datagram", test_longest_datagram },
		{ "two_threads_poll", test_two_threads_poll },
		{ "receive_amid_requests", test_receive_amid_requests },
		{ "objects_of_others", test_objects_of_others },
		{ "values", test_values },
	};

	return tests_main(argc, argv, tests, sizeof(tests) / sizeof(*tests),
			  60);
}
