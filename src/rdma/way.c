/* SPDX-License-Identifier: MIT */
/*
 * rdma/way.c - the way to the receiver; see rdma/tx.h
 *
 * Is the receiver there, does its ring have room, and how long does a request wait?
 */
#include <string.h>

#include "base/clock.h"
#include "rdma/tx.h"

#define ROUND_UP(n) (((n) + RING_LINE - 1) / RING_LINE * RING_LINE)

static uint64_t timeout_ns(const struct qp *qp)
{
	/* 4.096 us times a power of two, for each try; 0 is for ever. */
	return (UINT64_C(4096) << qp->attr.timeout) * (qp->attr.retry_cnt + 1u);
}

bool tx_waits_too_long(struct qp *qp, uint64_t limit)
{
	uint64_t now = now_ns();

	if (!qp->blocked_ns)
		qp->blocked_ns = now;
	store_rlx(&qp->x->is_blocked, 1);
	return limit && now - qp->blocked_ns > limit;
}

/* Whoever sleeps for the completion has to poll.  A thread that arms the queue just now sees
 * has_put_off. */
static void put_off_end(struct qp *qp)
{
	struct cq *cq = container_of(qp->init.send_cq, struct cq, cq);

	if (qp->has_put_off)
		return;
	store_rlx(&qp->has_put_off, true);
	fence_full();
	if (cq->cq.channel && load_rlx(&cq->arm) & CQ_ARMED)
		channel_notify(
		    container_of(cq->cq.channel, struct channel, ch));
}

bool tx_may_tell_end(struct qp *qp)
{
	if (!qp->remote.peer || !peer_has_ended(qp->remote.peer))
		return false;
	if (!qp->may_tell_end)
		put_off_end(qp);
	return qp->may_tell_end;
}

enum tx tx_no_answer(struct qp *qp, struct swqe *w)
{
	uint64_t limit = qp->attr.timeout ? timeout_ns(qp) : 0;

	if (qp->init.qp_type == IBV_QPT_UC)
		return tx_done(w, IBV_WC_SUCCESS); /* lost on the way */
	if (tx_waits_too_long(qp, limit) || tx_may_tell_end(qp))
		return tx_done(w, IBV_WC_RETRY_EXC_ERR);
	return TX_BLOCKED;
}

const struct x_qp *tx_receiver(struct qp *qp)
{
	if (unlikely(!qp->remote.x) && !qp_connect(qp))
		return NULL;
	const struct x_qp *t = qp->remote.x;
	if (unlikely(load_rlx(&t->gen) != qp->remote.gen) && !qp_meet_again(qp))
		return NULL;
	uint32_t state = load_acq(&t->state); /* E4 */
	if (unlikely((state != IBV_QPS_RTR && state != IBV_QPS_RTS &&
		      state != IBV_QPS_SQD && state != IBV_QPS_SQE) ||
		     load_rlx(&t->dest_qpn) != qp->qp.qp_num))
		return NULL;
	return t;
}

/* E2 */
void tx_see_tail(struct qp *qp)
{
	const struct x_qp *t = qp->remote.x;
	uint64_t tail = load_acq(&t->tail);

	if (load_rlx(&t->src_gen) != qp->x->gen)
		return; /* it has not begun */
	if (tail < qp->out.tail || tail > qp->out.head || tail % RING_LINE)
		qp->peer_lies = true;
	else
		qp->out.tail = tail;
}

bool tx_fits(struct qp *qp, uint32_t length)
{
	if (likely(out_fits(&qp->out, length)))
		return true;
	tx_see_tail(qp);
	return out_fits(&qp->out, length);
}

int tx_gather(struct qp *qp, const struct swqe *w, uint32_t off,
	      uint32_t length, uint32_t access, struct iovec *iov)
{
	int n = 0;

	if (w->flags & IBV_SEND_INLINE) {
		iov[0] = (struct iovec){ (uint8_t *)w->inlined + off, length };
		return length ? 1 : 0;
	}
	for (uint32_t i = 0; i < w->n_sge && length; i++) {
		const struct ibv_sge *sge = &w->sge[i];

		if (off >= sge->length) {
			off -= sge->length;
			continue;
		}
		uint8_t *at = mr_local(qp->qp.pd->handle, sge, access);
		if (!at)
			return -1;
		uint32_t part = MIN(sge->length - off, length);
		iov[n++] = (struct iovec){ at + off, part };
		length -= part;
		off = 0;
	}
	return n;
}

struct x_msg tx_header(const struct qp *qp, const struct swqe *w)
{
	bool has_imm = w->opcode == IBV_WR_SEND_WITH_IMM ||
		       w->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	bool is_inv = w->opcode == IBV_WR_SEND_WITH_INV;

	return (struct x_msg){
		.op = MSG_SEND,
		.flags =
		    (uint8_t)((w->flags & IBV_SEND_SOLICITED ? MSG_SOLICITED
							     : 0) |
			      (has_imm ? MSG_IMM : 0) | (is_inv ? MSG_INV : 0)),
		.imm = w->imm,
		.total = w->length,
		.src_qpn = tx_source(qp, w),
		.qkey = w->qkey,
		.addr = qp->show.to_peer,
	};
}

bool tx_put_short(struct qp *qp, struct x_msg m, enum msg_op op)
{
	m.op = (uint8_t)op;
	m.flags |= MSG_FIRST | MSG_LAST;
	m.length = 0;
	if (!tx_fits(qp, 0))
		return false;
	out_put(&qp->out, &m, NULL, 0);
	remote_ring(&qp->remote, BELL_RECV, m.flags & MSG_SOLICITED);
	return true;
}

enum tx tx_fail_both(struct qp *qp, struct swqe *w, enum ibv_wc_status there,
		     enum ibv_wc_status here)
{
	struct x_msg m = { .imm = there,
			   .src_qpn = qp->qp.qp_num,
			   .addr = qp->show.to_peer,
			   .flags = MSG_SOLICITED };

	tx_put_short(qp, m, MSG_ERROR);
	return tx_done(w, here);
}

bool out_fits(const struct out *out, uint32_t length)
{
	uint64_t used = out->head - out->tail, size = (uint64_t)out->mask + 1;

	return sizeof(struct x_msg) + ROUND_UP(length) <= size - used;
}

static void ring_copy(const struct out *out, uint64_t pos, const void *from,
		      size_t n)
{
	size_t at = pos & out->mask, first = MIN(n, out->mask + 1 - at);

	memcpy(out->ring + at, from, first);
	if (unlikely(first < n))
		memcpy(out->ring, (const uint8_t *)from + first, n - first);
}

static struct x_msg *msg_at(const struct out *out, uint64_t pos)
{
	return (void *)(out->ring + (pos & out->mask));
}

/* The bytes where the next message will be must not look like one before it is there. */
static void clear_next(const struct out *out, uint64_t pos)
{
	struct x_msg *next = msg_at(out, pos);

	if (unlikely(next->stamp == msg_stamp(pos, out->mask + 1)))
		store_rlx(&next->stamp, 0);
}

void out_put(struct out *out, const struct x_msg *m, const struct iovec *iov,
	     uint32_t n_iov)
{
	uint64_t pos = out->head + sizeof(*m);
	struct x_msg *at = msg_at(out, out->head);

	*at = *m;
	for (uint32_t i = 0; i < n_iov; i++) {
		ring_copy(out, pos, iov[i].iov_base, iov[i].iov_len);
		pos += iov[i].iov_len;
	}
	pos = ROUND_UP(pos);
	clear_next(out, pos);
	store_rel(&at->stamp, msg_stamp(out->head, out->mask + 1)); /* E1 */
	if (unlikely(!out->head))
		store_rel(&out->x->has_begun, 1); /* E1 */
	out->head = pos;
}
