/* SPDX-License-Identifier: MIT */
/*
 * api/verbs/driver/loop_send.c - a send meets a receive; see loop.h
 *
 * An error completes the send or the receive that caused it, moves its QP to
 * the error state, and flushes all that is posted there, then and later.
 */
#include <string.h>

#include "api/verbs/driver/loop.h"

static struct loop_wr *queue_first(struct loop_queue *q)
{
	return q->n ? &q->wr[q->head] : NULL;
}

/* Completes the first of @q. */
static void finish(struct loop_qp *qp, struct loop_queue *q, struct loop_cqe e)
{
	struct loop_wr *wr = queue_first(q);
	bool is_silent =
	    q == &qp->sends && !e.wc.status && !(wr->flags & OSF_SEND_SIGNALED);

	e.wc.wr_id = wr->wr_id;
	e.wc.opcode = q == &qp->sends ? OSF_WC_SEND : OSF_WC_RECV;
	e.wc.qp_num = qp->qp.qp_num;
	q->head = (q->head + 1) % q->size;
	q->n--;
	if (!is_silent)
		loop_complete_locked(q->cq, e);
}

static struct loop_cqe with_status(uint32_t status)
{
	return (struct loop_cqe){ .wc = { .status = status } };
}

void loop_fail_locked(struct loop_qp *qp)
{
	qp->is_error = true;
	while (qp->sends.n)
		finish(qp, &qp->sends, with_status(OSF_WC_WR_FLUSH_ERR));
	while (qp->recvs.n)
		finish(qp, &qp->recvs, with_status(OSF_WC_WR_FLUSH_ERR));
}

static void fail_send(struct loop_qp *qp, uint32_t status)
{
	finish(qp, &qp->sends, with_status(status));
	loop_fail_locked(qp);
}

static void fail_recv(struct loop_qp *qp, uint32_t status)
{
	finish(qp, &qp->recvs, with_status(status));
	loop_fail_locked(qp);
}

/* Bytes of all elements; UINT64_MAX: not all are registered. */
static uint64_t total(const struct loop_qp *qp, const struct loop_wr *wr)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < wr->n_sges; i++) {
		if (!loop_bytes_locked(qp->pd, &wr->sge[i]))
			return UINT64_MAX;
		bytes += wr->sge[i].length;
	}
	return bytes;
}

static void copy(struct loop_wr *from, struct loop_wr *to)
{
	for (uint32_t i = 0, j = 0; i < from->n_sges && j < to->n_sges;) {
		struct osf_sge *a = &from->sge[i], *b = &to->sge[j];
		uint32_t n = a->length < b->length ? a->length : b->length;

		memmove((void *)(uintptr_t)b->addr, (void *)(uintptr_t)a->addr,
			n);
		a->addr += n;
		b->addr += n;
		a->length -= n;
		b->length -= n;
		if (!a->length)
			i++;
		else
			j++;
	}
}

/* The first send of @a and the first receive of @b. */
static void deliver(struct loop_qp *a, struct loop_qp *b)
{
	struct loop_wr *from = queue_first(&a->sends);
	struct loop_wr *to = queue_first(&b->recvs);
	uint64_t bytes = total(a, from), room = total(b, to);
	struct loop_cqe sent = { .wc = { .byte_len = (uint32_t)bytes } };
	struct loop_cqe got = { .wc = { .byte_len = (uint32_t)bytes },
				.src_qp = a->qp.qp_num,
				.imm_data = from->imm_data,
				.has_imm = from->has_imm };

	if (bytes == UINT64_MAX || bytes > UINT32_MAX) {
		fail_send(a, OSF_WC_LOC_PROT_ERR);
	} else if (room == UINT64_MAX) {
		fail_recv(b, OSF_WC_LOC_PROT_ERR);
		if (a != b)
			fail_send(a, OSF_WC_REM_OP_ERR);
	} else if (bytes > room) {
		fail_recv(b, OSF_WC_LOC_LEN_ERR);
		if (a != b)
			fail_send(a, OSF_WC_REM_INV_REQ_ERR);
	} else {
		copy(from, to);
		finish(b, &b->recvs, got);
		finish(a, &a->sends, sent);
	}
}

void loop_progress_locked(struct loop_qp *a)
{
	struct loop_qp *b = a->peer;

	while (!a->is_error && b && b->peer == a && a->sends.n) {
		enum loop_fault fault = queue_first(&a->sends)->fault;

		if (fault == LOOP_HELD)
			return;
		if (fault == LOOP_LOST || b->is_error)
			fail_send(a, OSF_WC_RETRY_EXC_ERR);
		else if (b->recvs.n)
			deliver(a, b);
		else
			return;
	}
}

static void release(struct loop_qp *a)
{
	if (!a || !a->sends.n || queue_first(&a->sends)->fault != LOOP_HELD)
		return;
	queue_first(&a->sends)->fault = LOOP_FINE;
	loop_progress_locked(a);
}

/* Who polls an empty queue has waited: what was held goes on. */
void loop_release_locked(const struct loop_cq *cq)
{
	for (uint32_t i = 1; i < LOOP_QPS; i++) {
		struct loop_qp *qp = loop_qps[i];

		if (qp && qp->sends.cq == cq)
			release(qp);
		if (qp && qp->recvs.cq == cq)
			release(qp->peer);
	}
}
