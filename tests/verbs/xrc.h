/* SPDX-License-Identifier: MIT */
/*
 * tests/verbs/xrc.h - extended reliable connections: what a test needs besides ends.h
 */
#pragma once

#include <fcntl.h>

#include "ends.h"

static inline struct ibv_xrcd *open_xrcd(struct ibv_context *c, int fd,
					 int oflags)
{
	struct ibv_xrcd_init_attr init = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = fd,
		.oflags = oflags
	};

	return ibv_open_xrcd(c, &init);
}

static inline struct ibv_srq *new_srq(struct ibv_pd *pd, struct ibv_xrcd *xrcd,
				      struct ibv_cq *cq)
{
	struct ibv_srq_init_attr_ex init = {
		.attr = { .max_wr = 8, .max_sge = 1 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = pd,
		.xrcd = xrcd,
		.cq = cq
	};

	return ibv_create_srq_ex(pd->context, &init);
}

static inline struct ibv_qp *new_recv(struct ibv_context *c,
				      struct ibv_xrcd *xrcd)
{
	struct ibv_qp_init_attr_ex init = { .qp_type = IBV_QPT_XRC_RECV,
					    .comp_mask = IBV_QP_INIT_ATTR_XRCD,
					    .xrcd = xrcd };

	return ibv_create_qp_ex(c, &init);
}

static inline struct ibv_qp *new_send(struct ibv_pd *pd, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr init = { .send_cq = cq,
					 .cap = { 8, 0, 1, 0, 64 },
					 .qp_type = IBV_QPT_XRC_SEND,
					 .sq_sig_all = 1 };

	return ibv_create_qp(pd, &init);
}

/* @gid: the peer's */
static inline void connect_xrc(struct ibv_qp *qp, uint32_t peer,
			       const union ibv_gid *gid)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT,
				 .port_num = 1,
				 .qp_access_flags = REMOTE };
	int is_recv = qp->qp_type == IBV_QPT_XRC_RECV;

	CHECK(!ibv_modify_qp(qp, &a,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				 IBV_QP_ACCESS_FLAGS));
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR,
				  .path_mtu = IBV_MTU_1024,
				  .dest_qp_num = peer,
				  .max_dest_rd_atomic = 1,
				  .min_rnr_timer = 1,
				  .ah_attr = { .is_global = 1,
					       .port_num = 1,
					       .grh.sgid_index = GID_INDEX,
					       .grh.dgid = *gid } };
	CHECK(!ibv_modify_qp(
	    qp, &a,
	    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
		IBV_QP_RQ_PSN |
		(is_recv ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER
			 : 0)));
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS,
				  .timeout = TIMEOUT,
				  .retry_cnt = RETRIES,
				  .rnr_retry = RNR_RETRIES,
				  .max_rd_atomic = 1 };
	CHECK(
	    !ibv_modify_qp(qp, &a,
			   IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_SQ_PSN |
			       (is_recv ? 0
					: IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
					      IBV_QP_MAX_QP_RD_ATOMIC)));
}

/* From @e's memory. */
static inline int ask_xrc(struct end *e, struct ibv_qp *qp,
			  enum ibv_wr_opcode op, uint32_t srqn, uint32_t length,
			  const struct address *to)
{
	struct ibv_sge sge = { (uintptr_t)e->buf, length, e->mr->lkey };
	struct ibv_send_wr *bad,
	    wr = { .wr_id = 7, .sg_list = &sge, .num_sge = 1, .opcode = op };

	wr.qp_type.xrc.remote_srqn = srqn;
	if (op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.rkey = to->rkey;
		wr.wr.atomic.remote_addr = to->addr;
		wr.wr.atomic.compare_add = 5;
	} else if (to) {
		wr.wr.rdma.rkey = to->rkey;
		wr.wr.rdma.remote_addr = to->addr;
	}
	return ibv_post_send(qp, &wr, &bad);
}

/* Into the upper half of @e's memory. */
static inline void receive_xrc(struct end *e, struct ibv_srq *srq, uint64_t id,
			       uint32_t length)
{
	struct ibv_sge sge = { (uintptr_t)e->buf + BUF / 2, length,
			       e->mr->lkey };
	struct ibv_recv_wr *bad,
	    wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 };

	CHECK(!ibv_post_srq_recv(srq, &wr, &bad));
}

static inline struct ibv_wc next_of(struct ibv_cq *cq)
{
	struct end e = { .cq = cq };

	return next(&e);
}
