/* SPDX-License-Identifier: MIT */
/*
 * rdma/qp_ex.c - ibv_wr_start() and the calls that go with it
 *
 *     ibv_wr_start()      takes the queue pair's lock
 *     ibv_wr_send() ...   begins a request; the one before it goes to the send queue
 *     ibv_wr_set_sge()    says which bytes the request is about
 *     ibv_wr_complete()   executes what the send queue has, and releases the lock
 *
 * A request becomes an ibv_send_wr, so all requests are posted by the same code.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rdma/extended.h"

#define OPS_KNOWN                                                              \
	(IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |      \
	 IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |                  \
	 IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |        \
	 IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_LOCAL_INV |      \
	 IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_SEND_WITH_INV)

struct building {
	bool is_open;
	struct ibv_send_wr wr;
	struct ibv_sge sge[N_SGE];
	uint8_t data[MAX_INLINE];
	uint32_t first; /* the send queue's head when it began */
	int err;
};

static struct qp *qp_of(struct ibv_qp_ex *ex)
{
	return container_of(ex, struct qp, ex);
}

/* The request that is complete now goes to the queue. */
static void finish(struct qp *qp)
{
	struct building *b = qp->building;

	if (b->is_open && !b->err)
		b->err = tx_post(qp, &b->wr);
	b->is_open = false;
}

static struct ibv_send_wr *begin(struct ibv_qp_ex *ex, enum ibv_wr_opcode op)
{
	struct qp *qp = qp_of(ex);
	struct building *b = qp->building;

	finish(qp);
	b->is_open = true;
	b->wr = (struct ibv_send_wr){ .wr_id = ex->wr_id,
				      .opcode = op,
				      .sg_list = b->sge,
				      .send_flags = ex->wr_flags };
	return &b->wr;
}

static void wr_start(struct ibv_qp_ex *ex)
{
	struct qp *qp = qp_of(ex);
	struct building *b = qp->building;

	lock_get(&qp->lock);
	b->first = qp->sq_head;
	b->is_open = false;
	b->err = qp->attr.qp_state < IBV_QPS_RTS ||
			 qp->generation != self_generation()
		     ? EINVAL
		     : 0;
}

static int wr_complete(struct ibv_qp_ex *ex)
{
	struct qp *qp = qp_of(ex);
	struct building *b = qp->building;

	finish(qp);
	int err = b->err;
	if (err)
		qp->sq_head = b->first; /* all or none */
	else if (qp->attr.qp_state == IBV_QPS_ERR ||
		 qp->attr.qp_state == IBV_QPS_SQE)
		tx_flush(qp);
	else
		tx_run(qp);
	lock_put(&qp->lock);
	return err;
}

static void wr_abort(struct ibv_qp_ex *ex)
{
	struct qp *qp = qp_of(ex);

	qp->sq_head = qp->building->first;
	qp->building->is_open = false;
	lock_put(&qp->lock);
}

static void wr_send(struct ibv_qp_ex *ex) { begin(ex, IBV_WR_SEND); }

static void wr_send_imm(struct ibv_qp_ex *ex, __be32 imm)
{
	begin(ex, IBV_WR_SEND_WITH_IMM)->imm_data = imm;
}

static struct ibv_send_wr *to_remote(struct ibv_qp_ex *ex,
				     enum ibv_wr_opcode op, uint32_t rkey,
				     uint64_t addr)
{
	struct ibv_send_wr *wr = begin(ex, op);

	wr->wr.rdma.rkey = rkey;
	wr->wr.rdma.remote_addr = addr;
	return wr;
}

static void wr_rdma_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr)
{
	to_remote(ex, IBV_WR_RDMA_WRITE, rkey, addr);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *ex, uint32_t rkey,
			      uint64_t addr, __be32 imm)
{
	to_remote(ex, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, addr)->imm_data = imm;
}

static void wr_rdma_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr)
{
	to_remote(ex, IBV_WR_RDMA_READ, rkey, addr);
}

static void wr_cmp_swp(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr,
		       uint64_t compare, uint64_t swap)
{
	struct ibv_send_wr *wr = begin(ex, IBV_WR_ATOMIC_CMP_AND_SWP);

	wr->wr.atomic.rkey = rkey;
	wr->wr.atomic.remote_addr = addr;
	wr->wr.atomic.compare_add = compare;
	wr->wr.atomic.swap = swap;
}

static void wr_fetch_add(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr,
			 uint64_t add)
{
	struct ibv_send_wr *wr = begin(ex, IBV_WR_ATOMIC_FETCH_AND_ADD);

	wr->wr.atomic.rkey = rkey;
	wr->wr.atomic.remote_addr = addr;
	wr->wr.atomic.compare_add = add;
}

static void wr_send_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
	begin(ex, IBV_WR_SEND_WITH_INV)->invalidate_rkey = rkey;
}

static void wr_local_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
	begin(ex, IBV_WR_LOCAL_INV)->invalidate_rkey = rkey;
}

static void wr_bind_mw(struct ibv_qp_ex *ex, struct ibv_mw *mw, uint32_t rkey,
		       const struct ibv_mw_bind_info *info)
{
	struct ibv_send_wr *wr = begin(ex, IBV_WR_BIND_MW);

	wr->bind_mw.mw = mw;
	wr->bind_mw.rkey = rkey;
	wr->bind_mw.bind_info = *info;
}

static void set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr,
		    uint32_t length)
{
	struct building *b = qp_of(ex)->building;

	b->sge[0] = (struct ibv_sge){ addr, length, lkey };
	b->wr.num_sge = 1;
}

static void set_sge_list(struct ibv_qp_ex *ex, size_t n,
			 const struct ibv_sge *list)
{
	struct building *b = qp_of(ex)->building;

	if (n > N_SGE) {
		b->err = EINVAL;
		return;
	}
	memcpy(b->sge, list, n * sizeof(*list));
	b->wr.num_sge = (int)n;
}

static void set_inline_list(struct ibv_qp_ex *ex, size_t n,
			    const struct ibv_data_buf *list)
{
	struct building *b = qp_of(ex)->building;
	size_t at = 0;

	for (size_t i = 0; i < n; i++) {
		if (list[i].length > sizeof(b->data) - at) {
			b->err = ENOMEM;
			return;
		}
		memcpy(b->data + at, list[i].addr, list[i].length);
		at += list[i].length;
	}
	b->sge[0] = (struct ibv_sge){ (uintptr_t)b->data, (uint32_t)at, 0 };
	b->wr.num_sge = 1;
	b->wr.send_flags |= IBV_SEND_INLINE;
}

static void set_inline(struct ibv_qp_ex *ex, void *addr, size_t length)
{
	struct ibv_data_buf buf = { addr, length };

	set_inline_list(ex, 1, &buf);
}

static void set_ud_addr(struct ibv_qp_ex *ex, struct ibv_ah *ah, uint32_t qpn,
			uint32_t qkey)
{
	struct ibv_send_wr *wr = &qp_of(ex)->building->wr;

	wr->wr.ud.ah = ah;
	wr->wr.ud.remote_qpn = qpn;
	wr->wr.ud.remote_qkey = qkey;
}

static void set_xrc_srqn(struct ibv_qp_ex *ex, uint32_t num)
{
	qp_of(ex)->building->wr.qp_type.xrc.remote_srqn = num;
}

static void set_functions(struct ibv_qp_ex *ex)
{
	ex->wr_start = wr_start;
	ex->wr_complete = wr_complete;
	ex->wr_abort = wr_abort;
	ex->wr_send = wr_send;
	ex->wr_send_imm = wr_send_imm;
	ex->wr_send_inv = wr_send_inv;
	ex->wr_local_inv = wr_local_inv;
	ex->wr_bind_mw = wr_bind_mw;
	ex->wr_rdma_write = wr_rdma_write;
	ex->wr_rdma_write_imm = wr_rdma_write_imm;
	ex->wr_rdma_read = wr_rdma_read;
	ex->wr_atomic_cmp_swp = wr_cmp_swp;
	ex->wr_atomic_fetch_add = wr_fetch_add;
	ex->wr_set_sge = set_sge;
	ex->wr_set_sge_list = set_sge_list;
	ex->wr_set_inline_data = set_inline;
	ex->wr_set_inline_data_list = set_inline_list;
	ex->wr_set_ud_addr = set_ud_addr;
	ex->wr_set_xrc_srqn = set_xrc_srqn;
}

struct ibv_qp *rdma_create_qp_ex(struct ibv_context *c,
				 struct ibv_qp_init_attr_ex *a)
{
	uint32_t known = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS |
			 IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_XRCD;
	struct ibv_qp_init_attr old;

	if (a->comp_mask & ~known ||
	    (a->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS &&
	     a->create_flags & ~(uint32_t)IBV_QP_CREATE_BLOCK_SELF_MCAST_LB) ||
	    (a->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS &&
	     a->send_ops_flags & ~(uint64_t)OPS_KNOWN)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	if (a->qp_type == IBV_QPT_XRC_RECV)
		return xrc_create_qp(c, a);
	if (!(a->comp_mask & IBV_QP_INIT_ATTR_PD) || !a->pd) {
		errno = EINVAL;
		return NULL;
	}
	memcpy(&old, a, sizeof(old)); /* the new one begins with it */
	struct building *b = NULL;
	if (a->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) {
		b = calloc(1, sizeof(*b));
		if (!b)
			return NULL;
	}
	struct ibv_qp *ibqp = rdma_create_qp(a->pd, &old);
	if (!ibqp) {
		free(b);
		return NULL;
	}
	a->cap = old.cap;
	struct qp *qp = container_of(ibqp, struct qp, qp);
	qp->building = b;
	qp->hears_no_self =
	    a->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS && a->create_flags;
	if (b)
		set_functions(&qp->ex);
	return ibqp;
}

struct ibv_qp_ex *rdma_qp_to_qp_ex(struct ibv_qp *ibqp)
{
	struct qp *qp = container_of(ibqp, struct qp, qp);

	return qp->building ? &qp->ex : NULL;
}
