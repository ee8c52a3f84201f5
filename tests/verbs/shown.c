/* SPDX-License-Identifier: MIT */
/*
 * tests/verbs/shown.c - operations whose packets test_shown.py looks for
 *
 *     shown     libosf-verbs.so comes first (LD_PRELOAD)
 *
 * Says "ready" when its device is open, and waits for a line on standard input.  Both queue
 * pairs of each pair are in this process: each packet is shown twice, by who sends it and by
 * who receives it, except those of writes, reads and atomic operations.
 */
#include <arpa/inet.h>

#include "ends.h"

#define SQ_PSN 0xfffffe /* the numbers wrap */

static void state(struct end *e, struct ibv_qp_attr a, int mask)
{
	CHECK(!ibv_modify_qp(e->qp, &a, mask | IBV_QP_STATE));
}

/* Numbers of a sender's own, which its peer expects. */
static void connect_from(struct end *e, const struct address *to, uint32_t sq,
			 uint32_t rq)
{
	int rc = e->qp->qp_type == IBV_QPT_RC;

	state(e,
	      (struct ibv_qp_attr){ .qp_state = IBV_QPS_INIT,
				    .port_num = 1,
				    .qp_access_flags = REMOTE },
	      IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	state(e,
	      (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR,
				    .path_mtu = IBV_MTU_1024,
				    .dest_qp_num = to->qpn,
				    .rq_psn = rq,
				    .max_dest_rd_atomic = 1,
				    .min_rnr_timer = 1,
				    .ah_attr = { .is_global = 1,
						 .port_num = 1,
						 .grh.dgid = to->gid } },
	      IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		  (rc ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0));
	state(e,
	      (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS,
				    .sq_psn = sq,
				    .timeout = 10,
				    .retry_cnt = 2,
				    .rnr_retry = 1,
				    .max_rd_atomic = 1 },
	      IBV_QP_SQ_PSN |
		  (rc ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			    IBV_QP_MAX_QP_RD_ATOMIC
		      : 0));
}

static void pair_from(struct end *a, struct end *b, enum ibv_qp_type type)
{
	end_open(a, type);
	end_open(b, type);
	struct address at_a = address_of(a), at_b = address_of(b);
	connect_from(a, &at_b, SQ_PSN, 7);
	connect_from(b, &at_a, 7, SQ_PSN);
	for (int i = 0; i < BUF; i++)
		a->buf[i] = (uint8_t)i;
	printf("%d %u %u\n", type, a->qp->qp_num, b->qp->qp_num);
}

static void message(struct end *a, struct end *b, struct ibv_send_wr *wr,
		    uint32_t length)
{
	struct ibv_sge sge = { (uintptr_t)a->buf, length, a->mr->lkey };
	struct ibv_send_wr *bad = NULL;

	CHECK(!post_recv(b, 1, BUF));
	wr->sg_list = &sge;
	wr->num_sge = 1;
	CHECK(!ibv_post_send(a->qp, wr, &bad));
	CHECK(next(a).status == IBV_WC_SUCCESS);
	struct ibv_wc wc = next(b);
	CHECK(wc.status == IBV_WC_SUCCESS);
}

static void reliable(void)
{
	struct end a, b;

	pair_from(&a, &b, IBV_QPT_RC);
	struct address at_b = address_of(&b);
	struct ibv_send_wr imm = { .opcode = IBV_WR_SEND_WITH_IMM,
				   .send_flags = IBV_SEND_SOLICITED,
				   .imm_data = htonl(0x01020304) };
	struct ibv_send_wr write_imm = { .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
					 .imm_data = htonl(5),
					 .wr.rdma = { at_b.addr, at_b.rkey } };

	message(&a, &b, &(struct ibv_send_wr){ .opcode = IBV_WR_SEND }, 1);
	message(&a, &b, &imm, 3000);
	CHECK(!post(&a, IBV_WR_RDMA_WRITE, 1025, a.mr->lkey, &at_b));
	CHECK(next(&a).status == IBV_WC_SUCCESS);
	CHECK(!post(&a, IBV_WR_RDMA_READ, 2050, a.mr->lkey, &at_b));
	CHECK(next(&a).status == IBV_WC_SUCCESS);
	message(&a, &b, &write_imm, 16);
	struct ibv_sge sge = { (uintptr_t)a.buf, 8, a.mr->lkey };
	struct ibv_send_wr add = { .sg_list = &sge,
				   .num_sge = 1,
				   .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
				   .wr.atomic = { .remote_addr = at_b.addr,
						  .compare_add = 3,
						  .rkey = at_b.rkey } };
	struct ibv_send_wr *bad;
	CHECK(!ibv_post_send(a.qp, &add, &bad));
	CHECK(next(&a).status == IBV_WC_SUCCESS);
	message(&b, &a, &(struct ibv_send_wr){ .opcode = IBV_WR_SEND }, 9000);
	/* Not registered there. */
	at_b.addr += BUF;
	CHECK(!post(&a, IBV_WR_RDMA_WRITE, 4, a.mr->lkey, &at_b));
	CHECK(next(&a).status == IBV_WC_REM_ACCESS_ERR);
	struct ibv_wc wc;
	CHECK(!ibv_poll_cq(b.cq, 1, &wc)); /* and hears of it */
}

static void unreliable(void)
{
	struct end a, b;

	pair_from(&a, &b, IBV_QPT_UC);
	message(&a, &b, &(struct ibv_send_wr){ .opcode = IBV_WR_SEND }, 1500);
}

static void ready(struct end *e)
{
	state(e,
	      (struct ibv_qp_attr){
		  .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 0x11111111 },
	      IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
	state(e, (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR }, 0);
	state(e,
	      (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .sq_psn = SQ_PSN },
	      IBV_QP_SQ_PSN);
}

static void datagram(void)
{
	struct end a, b;

	end_open(&a, IBV_QPT_UD);
	end_open(&b, IBV_QPT_UD);
	ready(&a);
	ready(&b);
	struct address at_b = address_of(&b);
	struct ibv_ah_attr attr = { .is_global = 1,
				    .port_num = 1,
				    .grh.dgid = at_b.gid };
	struct ibv_ah *ah = ibv_create_ah(a.pd, &attr);
	CHECK(ah);
	printf("%d %u %u\n", IBV_QPT_UD, a.qp->qp_num, b.qp->qp_num);
	message(
	    &a, &b,
	    &(struct ibv_send_wr){ .opcode = IBV_WR_SEND,
				   .wr.ud = { ah, b.qp->qp_num, 0x11111111 } },
	    100);
}

int main(void)
{
	struct end e;

	setvbuf(stdout, NULL, _IONBF, 0);
	alarm(LIMIT_S * 3);
	end_open(&e, IBV_QPT_RC);
	puts("ready");
	CHECK(getchar() == '\n');
	reliable();
	unreliable();
	datagram();
	return 0;
}
