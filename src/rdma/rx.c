/* SPDX-License-Identifier: MIT */
/*
 * rdma/rx.c - reads what peers of this host have sent
 *
 *     the peer's ring -> rx_header()   one header, copied and bounded
 *                     -> rx_fragment() bytes into a posted receive
 *                     -> the queue pair's completion queue
 *
 * The peer may write anything at any time.  So rx_header() copies a header once and bounds
 * its length, and the copy of the message's bytes starts over at the ring's end: it never
 * leaves the mapping.  If the peer changes bytes during the copy, or has not written them,
 * the program gets wrong bytes from that peer, and nothing worse happens.  A header with
 * impossible values ends this queue pair.
 *
 * Runs in a thread that polls; the caller holds the queue pair's lock.
 */
#include <endian.h>
#include <string.h>
#include <sys/uio.h>

#include "rdma/mcast.h"
#include "rdma/mw.h"
#include "rdma/rx.h"
#include "rdma/serve.h"
#include "rdma/show.h"
#include "rdma/xrc.h"

#define BATCH 64u /* messages of one look */

bool rx_header(const struct remote *r, uint64_t pos, struct x_msg *m,
	       bool *is_lie)
{
	*is_lie = false;
	if (!remote_has_message(r, pos)) /* E1 */
		return false;
	memcpy(m, r->ring + (pos & (r->ring_size - 1)), sizeof(*m));
	*is_lie = m->length > FRAGMENT || m->total > MAX_MSG;
	return !*is_lie;
}

static void ring_read(const struct remote *r, uint64_t pos, uint8_t *to,
		      size_t n)
{
	size_t at = pos & (r->ring_size - 1), first = MIN(n, r->ring_size - at);

	memcpy(to, r->ring + at, first);
	if (unlikely(first < n))
		memcpy(to + first, r->ring, n - first);
}

int rx_map(struct qp *qp, const struct rwqe *w, uint32_t off, uint32_t n,
	   struct iovec *iov)
{
	const struct ibv_pd *pd = qp->in.srq ? qp->in.srq->srq.pd : qp->qp.pd;
	int n_iov = 0;

	for (uint32_t i = 0; i < w->n_sge && n; i++) {
		const struct ibv_sge *sge = &w->sge[i];

		if (off >= sge->length) {
			off -= sge->length;
			continue;
		}
		uint8_t *at = mr_local(pd->handle, sge, IBV_ACCESS_LOCAL_WRITE);
		if (!at)
			return -IBV_WC_LOC_PROT_ERR;
		uint32_t part = MIN(sge->length - off, n);
		iov[n_iov++] = (struct iovec){ at + off, part };
		n -= part;
		off = 0;
	}
	return n ? -IBV_WC_LOC_LEN_ERR : n_iov;
}

static enum ibv_wc_status scatter_ring(struct qp *qp, uint32_t off,
				       const struct remote *r, uint64_t pos,
				       uint32_t n)
{
	struct iovec iov[N_SGE];
	int n_iov = rx_map(qp, qp->in.wqe, off, n, iov);

	for (int i = 0; i < n_iov; i++) {
		ring_read(r, pos, iov[i].iov_base, iov[i].iov_len);
		pos += iov[i].iov_len;
	}
	return n_iov < 0 ? (enum ibv_wc_status) - n_iov : IBV_WC_SUCCESS;
}

/* InfiniBand Architecture volume 1, section 8.3. */
void rx_grh(const struct qp *qp, const struct x_msg *m, struct ibv_grh *grh)
{
	*grh = (struct ibv_grh){ .version_tclass_flow = htobe32(6u << 28),
				 .paylen = htobe16((uint16_t)m->length),
				 .next_hdr = 0x1b,
				 .hop_limit = 0xff };
	device_gid(m->addr & 0xff, &grh->sgid, NULL);
	if ((m->addr >> 8 & 0xff) == MCAST_INDEX)
		memcpy(grh->dgid.raw,
		       mcast_group(qp, (uint32_t)(m->addr >> 32)),
		       sizeof(grh->dgid.raw));
	else
		device_gid(m->addr >> 8 & 0xff, &grh->dgid, NULL);
}

static enum ibv_wc_status scatter_grh(struct qp *qp, const struct x_msg *m)
{
	struct ibv_grh grh;
	const uint8_t *from = (const uint8_t *)&grh;
	struct iovec iov[N_SGE];

	rx_grh(qp, m, &grh);
	int n = rx_map(qp, qp->in.wqe, 0, sizeof(grh), iov);
	for (int i = 0; i < n; i++) {
		memcpy(iov[i].iov_base, from, iov[i].iov_len);
		from += iov[i].iov_len;
	}
	return n < 0 ? (enum ibv_wc_status) - n : IBV_WC_SUCCESS;
}

/* The receive that the message gets; false: there is none. */
static bool take_receive(struct qp *qp, const struct x_msg *m)
{
	if (qp->xrc)
		return xrc_take(qp, m->src_qpn);
	if (qp->init.srq) {
		struct srq *srq = container_of(qp->init.srq, struct srq, srq);

		if (!srq_take(srq, &qp->in.own))
			return false;
		qp->in.srq = srq;
		qp->in.wqe = &qp->in.own;
		return true;
	}
	if (qp->rq_tail == qp->rq_head)
		return false;
	qp->in.wqe = qp_rqe(qp, qp->rq_tail);
	return true;
}

static void end_receive(struct qp *qp)
{
	qp->in.wqe = NULL;
	qp->in.off = 0;
	qp->in.status = IBV_WC_SUCCESS;
	if (!qp_shares(qp))
		qp->rq_tail++;
}

static bool has_inv(const struct qp *qp, const struct x_msg *m)
{
	return m->flags & MSG_INV && qp->init.qp_type != IBV_QPT_UD;
}

static void push_receive(struct qp *qp, const struct x_msg *m, uint32_t length,
			 enum ibv_wc_status status)
{
	bool is_ud = qp->init.qp_type == IBV_QPT_UD;
	struct ibv_wc wc = {
		.wr_id = qp->in.wqe->wr_id,
		.status = status,
		.opcode = m->op == MSG_WRITE_IMM ? IBV_WC_RECV_RDMA_WITH_IMM
						 : IBV_WC_RECV,
		.byte_len = length,
		.qp_num = qp->qp.qp_num,
		.src_qp = is_ud ? m->src_qpn & 0xffffff : qp->attr.dest_qp_num,
		.imm_data = m->imm,
		.wc_flags = (m->flags & MSG_IMM ? IBV_WC_WITH_IMM : 0u) |
			    (has_inv(qp, m) ? IBV_WC_WITH_INV : 0u) |
			    (is_ud ? IBV_WC_GRH : 0u),
	};

	cq_push(qp->xrc ? qp->in.srq->xrc->cq
			: container_of(qp->init.recv_cq, struct cq, cq),
		&wc, m->flags & MSG_SOLICITED);
	end_receive(qp);
	count(&rdma_counters->recvs, 1);
	count(&rdma_counters->recv_bytes, length);
}

/* A message that ends this queue pair: its receive says why, the others are flushed. */
static void fail(struct qp *qp, const struct x_msg *m,
		 enum ibv_wc_status status)
{
	if (qp->in.wqe || take_receive(qp, m))
		push_receive(qp, m, 0, status);
	if (qp_shares(qp))
		store_rel(&qp->x->refused, status);
	qp_fail(qp);
}

/* The sender has failed, and says which of our rules it has met. */
static void on_error(struct qp *qp, const struct x_msg *m)
{
	bool is_uc = qp->init.qp_type == IBV_QPT_UC;

	if (m->imm == IBV_WC_LOC_LEN_ERR || m->imm == IBV_WC_LOC_PROT_ERR) {
		fail(qp, m, (enum ibv_wc_status)m->imm);
	} else if ((m->imm == IBV_WC_REM_ACCESS_ERR ||
		    m->imm == IBV_WC_REM_INV_REQ_ERR) &&
		   !is_uc) {
		event_add(ctx_of(qp->qp.context),
			  m->imm == IBV_WC_REM_ACCESS_ERR
			      ? IBV_EVENT_QP_ACCESS_ERR
			      : IBV_EVENT_QP_REQ_ERR,
			  qp);
		qp_fail(qp);
	} else {
		qp_fail(qp);
	}
}

/* A datagram begins with a global route header. */
static enum ibv_wc_status put_bytes(struct qp *qp, const struct remote *r,
				    const struct x_msg *m, uint64_t pos)
{
	uint32_t grh = qp->init.qp_type == IBV_QPT_UD ? GRH_BYTES : 0;

	if (m->op == MSG_PLACED)
		return m->total <= qp->in.wqe->length ? IBV_WC_SUCCESS
						      : IBV_WC_LOC_LEN_ERR;
	if (m->op == MSG_WRITE_IMM)
		return IBV_WC_SUCCESS;
	if (m->total + grh > qp->in.wqe->length)
		return IBV_WC_LOC_LEN_ERR;
	if (grh) {
		enum ibv_wc_status status = scatter_grh(qp, m);

		if (status != IBV_WC_SUCCESS)
			return status;
	}
	return scatter_ring(qp, qp->in.off + grh, r, pos + sizeof(*m),
			    m->length);
}

/* One that completes nothing here. */
static bool is_request(const struct x_msg *m)
{
	return m->op >= MSG_WRITE && m->op <= MSG_ATOMIC;
}

/* The sender has waited for a receive of the shared queue, and has failed its request: its
 * program believes that nothing arrived.  So drop the message. */
static bool is_given_up(const struct qp *qp, const struct remote *r)
{
	return qp_shares(qp) && type_is_reliable(qp->init.qp_type) &&
	       !qp->in.wqe && load_acq(&r->x->state) == IBV_QPS_ERR;
}

/* There is no receive for it: wait, or end the queue pair. */
static bool is_refused(struct qp *qp, const struct x_msg *m)
{
	enum xrc_take why = qp->xrc ? xrc_look(qp, m->src_qpn) : XRC_EMPTY;

	if (why == XRC_WRONG)
		qp_fail(qp);
	if (why == XRC_EMPTY)
		store_rlx(&qp->x->is_rnr, 1);
	return why == XRC_WRONG;
}

bool rx_fragment(struct qp *qp, const struct remote *r, const struct x_msg *m,
		 uint64_t pos)
{
	bool is_first = m->flags & MSG_FIRST, is_last = m->flags & MSG_LAST;
	uint32_t grh = qp->init.qp_type == IBV_QPT_UD ? GRH_BYTES : 0;

	if (m->op == MSG_ERROR) {
		if (show_is_wanted())
			show_refusal(qp, m);
		on_error(qp, m);
		return true;
	}
	if (is_request(m) && !qp->in.wqe && qp->init.qp_type != IBV_QPT_UD)
		return serve(qp, r, m, pos);
	if (m->op < MSG_SEND || m->op > MSG_WRITE_IMM ||
	    (is_first != !qp->in.wqe && !is_given_up(qp, r))) {
		qp_fail(qp);
		return true;
	}
	if (!qp->in.wqe && is_given_up(qp, r))
		return true;
	if (is_first && !take_receive(qp, m))
		return is_refused(qp, m);
	if (unlikely(qp->x->is_rnr))
		store_rlx(&qp->x->is_rnr, 0);
	enum ibv_wc_status status = put_bytes(qp, r, m, pos);
	if (status != IBV_WC_SUCCESS) {
		fail(qp, m, status);
		return true;
	}
	qp->in.off += m->length;
	/* More bytes than the first fragment said, or fewer. */
	if (m->op == MSG_SEND &&
	    (qp->in.off > m->total || (is_last && qp->in.off != m->total))) {
		qp_fail(qp);
		return true;
	}
	if (!is_last)
		return true;
	if (unlikely(has_inv(qp, m)) && !mw_invalidate(qp, m->imm)) {
		fail(qp, m, IBV_WC_REM_INV_REQ_ERR);
		return true;
	}
	if (show_is_wanted())
		show_arrival(qp, m);
	push_receive(qp, m, m->total + (m->op == MSG_WRITE_IMM ? 0 : grh),
		     IBV_WC_SUCCESS);
	if (qp->x->n_acked++ == 0 && qp->attr.qp_state == IBV_QPS_RTR &&
	    !qp->is_established) {
		qp->is_established = true;
		event_add(ctx_of(qp->qp.context), IBV_EVENT_COMM_EST, qp);
	}
	return true;
}

/* Is the peer's ring meant for us, in this life of both? */
static bool is_for_us(struct qp *qp)
{
	const struct x_qp *x = qp->remote.x;

	return load_rlx(&x->dest_qpn) == qp->qp.qp_num &&
	       (likely(load_rlx(&x->gen) == qp->remote.gen) ||
		qp_meet_again(qp));
}

HOT void rx_run(struct qp *qp, struct cq *cq)
{
	enum ibv_qp_state state = qp->attr.qp_state;
	struct x_msg m;
	bool is_lie;

	if (state < IBV_QPS_RTR || state > IBV_QPS_SQE ||
	    qp->init.qp_type == IBV_QPT_XRC_SEND)
		return;
	if (qp->init.qp_type == IBV_QPT_UD) {
		ud_rx(qp, cq);
		return;
	}
	if (unlikely(qp->roce))
		return; /* wire.c does it */
	if (unlikely(!qp->remote.x) && !qp_connect(qp))
		return;
	if (!remote_has_message(&qp->remote, qp->pos) || !is_for_us(qp))
		return;
	for (uint32_t i = 0; i < BATCH; i++) {
		if (!rx_header(&qp->remote, qp->pos, &m, &is_lie)) {
			if (is_lie)
				qp_fail(qp);
			break;
		}
		if ((!is_request(&m) && !qp->xrc && cq_is_full(cq)) ||
		    !rx_fragment(qp, &qp->remote, &m, qp->pos))
			break;
		if (qp->attr.qp_state == IBV_QPS_ERR)
			return;
		store_rlx(&qp->pos, msg_end(&m, qp->pos));
		store_rel(&qp->x->tail, qp->pos); /* E2 */
	}
	if (likely(!remote_may_sleep(&qp->remote, BELL_SEND)))
		return;
	fence_full(); /* against the peer's is_blocked */
	if (load_rlx(&qp->remote.x->is_blocked) || qp_shares(qp))
		remote_ring(&qp->remote, BELL_SEND, false);
}

/* In the error state: every receive of our own completes with "flushed". */
void rx_flush(struct qp *qp)
{
	const struct x_msg none = { .op = MSG_SEND };

	/* One that a shared queue has given is ours by now. */
	if (qp_shares(qp)) {
		if (qp->in.wqe)
			push_receive(qp, &none, 0, IBV_WC_WR_FLUSH_ERR);
		return;
	}
	while (qp->rq_tail != qp->rq_head) {
		qp->in.wqe = qp_rqe(qp, qp->rq_tail);
		push_receive(qp, &none, 0, IBV_WC_WR_FLUSH_ERR);
	}
	qp->in.wqe = NULL;
}

/*
 * Without a ring.
 */

bool rx_take(struct qp *qp)
{
	const struct x_msg none = { 0 }; /* it matters to XRC alone */

	return qp->in.wqe || take_receive(qp, &none);
}

enum ibv_wc_status rx_put(struct qp *qp, uint32_t off, const void *from,
			  uint32_t n)
{
	const struct rwqe *w = qp->in.wqe;
	struct iovec iov[N_SGE];
	const uint8_t *at = from;

	if (off > w->length || n > w->length - off)
		return IBV_WC_LOC_LEN_ERR;
	int n_iov = rx_map(qp, w, off, n, iov);
	for (int i = 0; i < n_iov; i++) {
		memcpy(iov[i].iov_base, at, iov[i].iov_len);
		at += iov[i].iov_len;
	}
	return n_iov < 0 ? (enum ibv_wc_status) - n_iov : IBV_WC_SUCCESS;
}

void rx_complete(struct qp *qp, const struct x_msg *m, uint32_t length,
		 enum ibv_wc_status status)
{
	push_receive(qp, m, length, status);
}

void rx_fail(struct qp *qp, enum ibv_wc_status status)
{
	const struct x_msg none = { .op = MSG_SEND, .flags = MSG_SOLICITED };

	if (rx_take(qp))
		push_receive(qp, &none, 0, status);
}
