/* SPDX-License-Identifier: MIT */
/*
 * rdma/tx.c - the send queue
 *
 *     rdma_post_send() -> sq[sq_head++]          checked, copied
 *     tx_run()            sq[sq_sent++]          executed, in order
 *     complete()          sq[sq_done++] -> CQ    in order
 *
 * tx_run() executes a message when the receiver cannot miss it: the receiver has posted a
 * receive for it, and reads the message's place in the ring before anything later.  So the
 * message completes at once, whether the receiver polls or not.  With a shared receive
 * queue only its owner knows which receive a message gets, so the message completes when
 * the receiver says so.
 *
 * RDMA writes, reads and atomic operations are over when tx_run() has executed them.  If
 * the receiver has to execute them, they are over when the receiver says so.
 */
#include <string.h>

#include "base/clock.h"
#include "rdma/mw.h"
#include "rdma/show.h"
#include "rdma/tx.h"
#include "rdma/wire.h"

static const uint8_t wc_opcodes[] = {
	[IBV_WR_RDMA_WRITE] = IBV_WC_RDMA_WRITE,
	[IBV_WR_RDMA_WRITE_WITH_IMM] = IBV_WC_RDMA_WRITE,
	[IBV_WR_SEND] = IBV_WC_SEND,
	[IBV_WR_SEND_WITH_IMM] = IBV_WC_SEND,
	[IBV_WR_RDMA_READ] = IBV_WC_RDMA_READ,
	[IBV_WR_ATOMIC_CMP_AND_SWP] = IBV_WC_COMP_SWAP,
	[IBV_WR_ATOMIC_FETCH_AND_ADD] = IBV_WC_FETCH_ADD,
	[IBV_WR_SEND_WITH_INV] = IBV_WC_SEND,
	[IBV_WR_LOCAL_INV] = IBV_WC_LOCAL_INV,
	[IBV_WR_BIND_MW] = IBV_WC_BIND_MW,
};

static void push_completion(struct qp *qp, const struct swqe *w,
			    enum ibv_wc_status status)
{
	struct ibv_wc wc = { .wr_id = w->wr_id,
			     .status = status,
			     .opcode = wc_opcodes[w->opcode],
			     .byte_len = w->length,
			     .qp_num = qp->qp.qp_num };

	if (status != IBV_WC_SUCCESS || qp->init.sq_sig_all ||
	    w->flags & IBV_SEND_SIGNALED)
		cq_push(container_of(qp->init.send_cq, struct cq, cq), &wc,
			false);
}

/* The queue pair is about to fail.  What lies in the peer's ring has arrived before: its sender was
 * told so.  It completes, and is not flushed. */
static void take_arrived(struct qp *qp)
{
	uint64_t end = qp->pos + qp->remote.ring_size, pos;

	do {
		pos = qp->pos;
		rx_run(qp, container_of(qp->init.recv_cq, struct cq, cq));
	} while (qp->pos != pos && qp->pos < end);
}

void tx_over(struct qp *qp, const struct swqe *w, enum ibv_wc_status status)
{
	if (unlikely(status != IBV_WC_SUCCESS &&
		     type_is_reliable(qp->init.qp_type))) {
		take_arrived(qp);
		if (qp->attr.qp_state == IBV_QPS_ERR)
			return; /* @w is flushed */
	}
	push_completion(qp, w, status);
	qp->sq_done++;
	if (status == IBV_WC_SUCCESS) {
		if (unlikely(qp->tells_drained))
			qp_see_drained(qp);
		return;
	}
	if (type_is_reliable(qp->init.qp_type)) {
		qp_fail(qp);
	} else {
		tx_flush(qp);
		qp_set_state(qp, IBV_QPS_SQE);
	}
}

static bool is_acked(struct qp *qp, const struct swqe *w)
{
	const struct x_qp *t = qp->remote.x;

	return !w->needs_ack ||
	       (t && load_rlx(&t->src_gen) == qp->x->gen &&
		(int32_t)(load_acq(&t->n_acked) - w->ack) >= 0);
}

/* Has the message that is next to be acknowledged ended its receiver?  It says why. */
static bool is_refused(const struct qp *qp, const struct swqe *w,
		       enum ibv_wc_status *here)
{
	const struct x_qp *t = qp->remote.x;
	uint32_t there =
	    t && w->needs_ack && load_rlx(&t->src_gen) == qp->x->gen
		? load_acq(&t->refused)
		: 0;

	if (!there || load_rlx(&t->n_acked) + 1 != w->ack)
		return false;
	*here = there == IBV_WC_LOC_LEN_ERR || there == IBV_WC_REM_INV_REQ_ERR
		    ? IBV_WC_REM_INV_REQ_ERR
		    : IBV_WC_REM_OP_ERR;
	return true;
}

/* The receiver is gone: is @w among the last that it did?  Nothing comes after this look. */
static bool was_last(struct qp *qp, const struct swqe *w)
{
	if (w->needs_reply)
		tx_take_replies(qp);
	return !w->needs_reply && is_acked(qp, w);
}

/* The first look has found no acknowledgement of @w and no reply to it.  Return: whether @w
 * is over anyway: it has failed, or the receiver has done it and has ended since. */
static bool is_over(struct qp *qp, struct swqe *w)
{
	const struct x_qp *t = tx_receiver(qp);
	enum ibv_wc_status why;

	if (t && !peer_has_ended(qp->remote.peer)) {
		if (!w->needs_ack || !load_rlx(&t->is_rnr)) {
			qp->blocked_ns = 0;
			return false;
		}
		if (!tx_waits_too_long(qp, tx_rnr_ns(qp, t)))
			return false;
		tx_done(w, IBV_WC_RNR_RETRY_EXC_ERR);
	} else if (was_last(qp, w)) {
		return true;
	} else if (is_refused(qp, w, &why)) {
		tx_done(w, why);
	} else if (tx_no_answer(qp, w) == TX_BLOCKED) {
		return false;
	}
	w->needs_ack = w->needs_reply = false;
	qp->has_failed = true;
	return true;
}

/* Completes what is over, in order.  A failure ends the queue pair. */
static void complete(struct qp *qp)
{
	if (unlikely(qp->n_asked))
		tx_take_replies(qp);
	while (qp->sq_done != qp->sq_sent) {
		struct swqe *w = qp_sqe(qp, qp->sq_done);

		if ((w->needs_reply || !is_acked(qp, w)) && !is_over(qp, w))
			return;
		if (show_is_wanted())
			show_answer(qp, w);
		tx_over(qp, w, (enum ibv_wc_status)w->status);
		if (w->status != IBV_WC_SUCCESS)
			return;
	}
}

static enum tx execute(struct qp *qp, struct swqe *w)
{
	if (unlikely(w->opcode == IBV_WR_LOCAL_INV))
		return tx_local_inv(qp, w);
	if (unlikely(w->opcode == IBV_WR_BIND_MW))
		return tx_bind(qp, w);
	if (qp->init.qp_type == IBV_QPT_UD) {
		int status = w->status ? (int)w->status : ud_send(qp, w);

		return status < 0 ? TX_BLOCKED
				  : tx_done(w, (enum ibv_wc_status)status);
	}
	switch (w->opcode) {
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_IMM:
	case IBV_WR_SEND_WITH_INV:
		return tx_message(qp, w);
	default:
		return tx_one_sided(qp, w);
	}
}

HOT void tx_run(struct qp *qp)
{
	if (unlikely(qp->attr.qp_state != IBV_QPS_RTS &&
		     qp->attr.qp_state != IBV_QPS_SQD))
		return;
	if (unlikely(qp->roce)) {
		roce_qp_send(qp);
		return;
	}
	while (qp->sq_sent != qp->sq_head && !qp->has_failed &&
	       (qp->attr.qp_state == IBV_QPS_RTS ||
		qp_sqe(qp, qp->sq_sent)->off)) {
		struct swqe *w = qp_sqe(qp, qp->sq_sent);

		/* What it sends may be what a request before it reads. */
		if (unlikely(qp->n_asked && w->flags & IBV_SEND_FENCE))
			break;
		if (execute(qp, w) == TX_BLOCKED)
			break;
		if (show_is_wanted())
			show_request(qp, w);
		if (unlikely(qp->blocked_ns)) {
			qp->blocked_ns = 0;
			store_rlx(&qp->x->is_blocked, 0);
		}
		if (w->status != IBV_WC_SUCCESS) {
			qp->has_failed = true;
		} else if (wc_opcodes[w->opcode] == IBV_WC_SEND) {
			count(&rdma_counters->sends, 1);
			count(&rdma_counters->send_bytes, w->length);
		}
		if (w->needs_ack)
			w->ack = ++qp->n_sent;
		qp->sq_sent++;
	}
	complete(qp);
	if (unlikely(qp->peer_lies))
		qp_fail(qp);
}

/* In the error state: each request that is left completes with "flushed". */
void tx_flush(struct qp *qp)
{
	for (; qp->sq_done != qp->sq_head; qp->sq_done++)
		push_completion(qp, qp_sqe(qp, qp->sq_done),
				IBV_WC_WR_FLUSH_ERR);
	qp->sq_sent = qp->sq_done;
	qp->n_asked = 0;
	qp->has_failed = false;
}
