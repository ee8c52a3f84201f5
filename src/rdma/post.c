/* SPDX-License-Identifier: MIT */
/*
 * rdma/post.c - what a program posts, checked and copied
 *
 * This file finds the errors that ibv_post_send(3) returns at once.  Wrong keys and the
 * like become completions with an error.
 */
#include <errno.h>
#include <string.h>

#include "rdma/mcast.h"
#include "rdma/mw.h"

#define FLAGS_KNOWN                                                            \
	(IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED |             \
	 IBV_SEND_INLINE)

/* InfiniBand Architecture volume 1, table 86: which operation for which service. */
static bool is_supported(enum ibv_qp_type type, uint32_t opcode)
{
	if (type == IBV_QPT_XRC_RECV)
		return false;
	switch (opcode) {
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_IMM:
		return true;
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
	case IBV_WR_SEND_WITH_INV:
	case IBV_WR_LOCAL_INV:
	case IBV_WR_BIND_MW:
		return type != IBV_QPT_UD;
	case IBV_WR_RDMA_READ:
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return type_is_reliable(type);
	default:
		return false;
	}
}

static int check(const struct qp *qp, const struct ibv_send_wr *wr)
{
	if (!is_supported(qp->init.qp_type, wr->opcode) || wr->num_sge < 0 ||
	    (uint32_t)wr->num_sge > qp->init.cap.max_send_sge ||
	    wr->send_flags & ~(unsigned)FLAGS_KNOWN)
		return EINVAL;
	return 0;
}

/* What takes effect in this process alone.  Windows of type 1 have a call of their own. */
static bool is_local(uint32_t opcode)
{
	return opcode == IBV_WR_LOCAL_INV || opcode == IBV_WR_BIND_MW;
}

static int take_local(struct swqe *w, const struct ibv_send_wr *wr)
{
	const struct ibv_mw *mw = wr->bind_mw.mw;

	if (w->flags & IBV_SEND_INLINE)
		return EINVAL;
	w->length = w->n_sge = 0;
	if (wr->opcode == IBV_WR_LOCAL_INV) {
		w->rkey = wr->invalidate_rkey;
		return 0;
	}
	return !mw || mw->type != IBV_MW_TYPE_2
		   ? EINVAL
		   : mw_take_bind(w, mw, wr->bind_mw.rkey,
				  &wr->bind_mw.bind_info);
}

static void take_remote(struct qp *qp, struct swqe *w,
			const struct ibv_send_wr *wr)
{
	if (qp->init.qp_type == IBV_QPT_UD) {
		w->dest_qpn = wr->wr.ud.remote_qpn;
		/* The high bit: the queue pair's own key. */
		w->qkey = wr->wr.ud.remote_qkey & 0x80000000u
			      ? qp->attr.qkey
			      : wr->wr.ud.remote_qkey;
		return;
	}
	w->dest_qpn = wr->qp_type.xrc.remote_srqn;
	if (wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
	    wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		w->addr = wr->wr.atomic.remote_addr;
		w->rkey = wr->wr.atomic.rkey;
		w->compare_add = wr->wr.atomic.compare_add;
		w->swap = wr->wr.atomic.swap;
		return;
	}
	w->addr = wr->wr.rdma.remote_addr;
	w->rkey = wr->wr.rdma.rkey;
}

static int take_bytes(struct qp *qp, struct swqe *w,
		      const struct ibv_send_wr *wr)
{
	uint64_t length = 0;

	w->n_sge = (uint32_t)wr->num_sge;
	for (uint32_t i = 0; i < w->n_sge; i++)
		length += wr->sg_list[i].length;
	if (length > MAX_MSG)
		return EINVAL;
	w->length = (uint32_t)length;
	if (!(w->flags & IBV_SEND_INLINE)) {
		for (uint32_t i = 0; i < w->n_sge; i++)
			w->sge[i] = wr->sg_list[i];
		return 0;
	}
	if (length > qp->init.cap.max_inline_data)
		return EINVAL;
	uint8_t *to = w->inlined;
	for (uint32_t i = 0; i < w->n_sge; i++) {
		const struct ibv_sge *sge = &wr->sg_list[i];

		memcpy(to, (void *)(uintptr_t)sge->addr, sge->length);
		to += sge->length;
	}
	return 0;
}

static bool is_atomic(uint32_t opcode)
{
	return opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
	       opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

struct swqe *tx_begin(struct qp *qp, const struct ibv_send_wr *wr)
{
	if (qp->sq_head - qp->sq_done >= qp->init.cap.max_send_wr)
		return NULL;
	struct swqe *w = qp_sqe(qp, qp->sq_head);
	w->wr_id = wr->wr_id;
	w->opcode = wr->opcode;
	w->flags = wr->send_flags;
	w->imm = wr->imm_data;
	w->off = w->ack = 0;
	w->got = 0;
	w->needs_ack = w->needs_reply = w->is_lost = false;
	w->status = IBV_WC_SUCCESS;
	return w;
}

static int take_route(struct qp *qp, struct swqe *w,
		      const struct ibv_send_wr *wr)
{
	const struct ah *ah =
	    wr->wr.ud.ah ? container_of(wr->wr.ud.ah, struct ah, ah) : NULL;

	if (!ah)
		return EINVAL;
	if ((ah->dgid_index == (int)MCAST_INDEX) != (w->dest_qpn == MCAST_QPN))
		w->dest_qpn = 0; /* nobody's: it gets lost */
	if (ah->ah.pd->handle != qp->qp.pd->handle)
		w->status = IBV_WC_LOC_QP_OP_ERR;
	w->is_far = ah->dgid_index < 0;
	w->dgid = ah->attr.grh.dgid;
	w->route = ah->attr.grh.sgid_index | (uint32_t)ah->dgid_index << 8;
	return 0;
}

/* Caller holds the lock. */
int tx_post(struct qp *qp, const struct ibv_send_wr *wr)
{
	int err = check(qp, wr);
	struct swqe *w = err ? NULL : tx_begin(qp, wr);

	if (!w)
		return err ? err : ENOMEM;
	if (is_local(wr->opcode)) {
		err = take_local(w, wr);
		qp->sq_head += !err;
		return err;
	}
	/* RoCEv2 has no packet for this operation on UC. */
	if (qp->roce && wr->opcode == IBV_WR_SEND_WITH_INV &&
	    qp->init.qp_type == IBV_QPT_UC)
		return EOPNOTSUPP;
	if (wr->opcode == IBV_WR_RDMA_READ || is_atomic(wr->opcode))
		w->flags &= ~(uint32_t)IBV_SEND_INLINE;
	take_remote(qp, w, wr);
	err = take_bytes(qp, w, wr);
	if (err)
		return err;
	if (is_atomic(wr->opcode) &&
	    (w->length != 8 || w->n_sge != 1 || w->addr % 8))
		return EINVAL;
	if (qp->init.qp_type == IBV_QPT_UD)
		err = take_route(qp, w, wr);
	qp->sq_head += !err;
	return err;
}

HOT int rdma_post_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr,
		       struct ibv_send_wr **bad)
{
	struct qp *qp = container_of(ibqp, struct qp, qp);
	int err = 0;
	GUARD(&qp->lock);
	enum ibv_qp_state state = qp->attr.qp_state;

	if (unlikely(qp->generation != self_generation() ||
		     state == IBV_QPS_RESET || state == IBV_QPS_INIT ||
		     state == IBV_QPS_RTR)) {
		*bad = wr;
		return EINVAL;
	}
	for (; wr; wr = wr->next) {
		err = tx_post(qp, wr);
		if (unlikely(err)) {
			*bad = wr;
			break;
		}
		if (likely(state == IBV_QPS_RTS))
			tx_run(qp);
	}
	state = qp->attr.qp_state;
	if (unlikely(state == IBV_QPS_ERR || state == IBV_QPS_SQE))
		tx_flush(qp);
	return err;
}

int rwqe_fill(struct rwqe *w, const struct ibv_recv_wr *wr, uint32_t max_sge)
{
	uint64_t length = 0;

	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > max_sge)
		return EINVAL;
	w->wr_id = wr->wr_id;
	w->n_sge = (uint32_t)wr->num_sge;
	for (uint32_t i = 0; i < w->n_sge; i++) {
		w->sge[i] = wr->sg_list[i];
		length += wr->sg_list[i].length;
	}
	w->length = (uint32_t)MIN(length, (uint64_t)UINT32_MAX);
	return 0;
}

/* A store to what others read takes the line from their caches, even one of the same value. */
#define SHOW(p, v)                                                             \
	do {                                                                   \
		if (*(p) != (v))                                               \
			*(p) = (v);                                            \
	} while (0)

/* Show a receive to the peer, which checks its keys when it uses them.  Programs post the
 * same receives again and again, so this stores only what differs. */
static void publish(struct qp *qp, const struct rwqe *w)
{
	uint32_t at = qp->rq_head & (qp->rq_size - 1);
	struct x_recv *r =
	    (void *)((uint8_t *)(qp->x + 1) +
		     at * export_recv_bytes(qp->init.cap.max_recv_sge));

	for (uint32_t i = 0; i < w->n_sge; i++) {
		SHOW(&r->sge[i].addr, w->sge[i].addr);
		SHOW(&r->sge[i].length, w->sge[i].length);
		SHOW(&r->sge[i].lkey, w->sge[i].lkey);
	}
	SHOW(&r->n_sge, w->n_sge);
	SHOW(&r->length, w->length);
}

/* Caller holds the lock. */
static inline int post_recv(struct qp *qp, struct ibv_recv_wr *wr,
			    struct ibv_recv_wr **bad)
{
	int err = 0;

	if (qp->generation != self_generation() || !qp->rq ||
	    qp->attr.qp_state == IBV_QPS_RESET) {
		*bad = wr;
		return EINVAL;
	}
	for (; wr && !err; wr = err ? wr : wr->next) {
		struct rwqe *w = qp_rqe(qp, qp->rq_head);

		if (qp->rq_head - qp->rq_tail >= qp->init.cap.max_recv_wr)
			err = ENOMEM;
		else
			err = rwqe_fill(w, wr, qp->init.cap.max_recv_sge);
		if (err)
			break;
		publish(qp, w);
		qp->rq_head++;
		store_rel(&qp->x->n_posted, qp->rq_head); /* E3 */
	}
	if (err)
		*bad = wr;
	if (unlikely(qp->attr.qp_state == IBV_QPS_ERR))
		rx_flush(qp);
	if (likely(!qp->remote.x || !remote_may_sleep(&qp->remote, BELL_SEND)))
		return err;
	fence_full(); /* against the peer's is_blocked */
	if (load_rlx(&qp->remote.x->is_blocked))
		remote_ring(&qp->remote, BELL_SEND, true);
	return err;
}

/* A thread that has called ibv_wr_start() has the lock, and may post receives. */
HOT int rdma_post_recv(struct ibv_qp *ibqp, struct ibv_recv_wr *wr,
		       struct ibv_recv_wr **bad)
{
	struct qp *qp = container_of(ibqp, struct qp, qp);

	bool has_lock = unlikely(qp->building) && lock_is_mine(&qp->lock);

	if (likely(!has_lock))
		lock_get(&qp->lock);
	int err = post_recv(qp, wr, bad);
	if (likely(!has_lock))
		lock_put(&qp->lock);
	return err;
}
