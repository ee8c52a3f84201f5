/* SPDX-License-Identifier: MIT */
/*
 * rdma/message.c - sends of connected queue pairs
 *
 *     short: header and bytes into our ring, which the receiver reads
 *     long:  bytes straight into the receive that the message gets (reach.c), then a
 *            header; where the kernel refuses that, through the ring in fragments
 *
 * The n-th message goes into the n-th receive that the peer has posted.  Without a posted
 * receive a reliable sender waits and then fails; an unreliable one loses the message.
 */
#include "base/clock.h"
#include "rdma/mw.h"
#include "rdma/xrc.h"

#define RNR_STEP_NS (10 * NS_PER_US)
#define PATIENCE_NS (10 * NS_PER_MS)

/* InfiniBand Architecture volume 1, table 45, in units of 10 us. */
static uint64_t rnr_ns(uint32_t code)
{
	static const uint16_t steps[32] = {
		65535, 1,    2,    3,     4,     6,     8,     12,
		16,    24,   32,   48,    64,    96,    128,   192,
		256,   384,  512,  768,   1024,  1536,  2048,  3072,
		4096,  6144, 8192, 12288, 16384, 24576, 32768, 49152
	};

	return steps[code % 32] * RNR_STEP_NS;
}

/* As a wire loses the message: its sender hears that it was sent. */
static enum tx lose(struct swqe *w)
{
	count(&rdma_counters->dropped, 1);
	return tx_done(w, IBV_WC_SUCCESS);
}

/* An unreliable sender does not wait long for a receiver that does not read. */
enum tx tx_no_room(struct qp *qp, struct swqe *w)
{
	bool may_lose = qp->init.qp_type == IBV_QPT_UC && !w->off;

	remote_ring(&qp->remote, BELL_RECV, true);
	if (!tx_waits_too_long(qp, may_lose ? PATIENCE_NS : 0))
		return TX_BLOCKED;
	w->is_lost = true;
	return lose(w);
}

static bool is_sent(const struct swqe *w)
{
	return w->status == IBV_WC_SUCCESS && !w->is_lost;
}

/* As much of the message as fits.  TX_DONE: all of it, or a failure. */
static enum tx put_fragments(struct qp *qp, struct swqe *w)
{
	struct iovec iov[N_SGE];
	bool is_inv = w->opcode == IBV_WR_SEND_WITH_INV;
	bool is_whole = false;

	if (unlikely(is_inv && !w->off && !mw_has_room(qp)))
		return tx_no_room(qp, w);
	while (!is_whole) {
		struct x_msg m = tx_header(qp, w);

		m.length = MIN(w->length - w->off, FRAGMENT);
		is_whole = w->off + m.length == w->length;
		m.flags |= (uint8_t)((w->off ? 0 : MSG_FIRST) |
				     (is_whole ? MSG_LAST : 0));
		int n = tx_gather(qp, w, w->off, m.length, 0, iov);
		if (n < 0)
			return w->off ? tx_fail_both(qp, w, IBV_WC_REM_OP_ERR,
						     IBV_WC_LOC_PROT_ERR)
				      : tx_done(w, IBV_WC_LOC_PROT_ERR);
		if (!tx_fits(qp, m.length))
			return tx_no_room(qp, w);
		out_put(&qp->out, &m, iov, (uint32_t)n);
		w->off += m.length;
	}
	if (unlikely(is_inv))
		mw_sent_inv(qp, w->imm);
	remote_ring(&qp->remote, BELL_RECV, w->flags & IBV_SEND_SOLICITED);
	return tx_done(w, IBV_WC_SUCCESS);
}

/* Where the receive's memory lies there, as far as @length.  Its parts, or -1. */
static int aim(const struct qp *qp, const struct x_qp *t,
	       const struct x_recv *r, uint32_t length, struct iovec *iov)
{
	uint32_t n_sge = MIN(load_rlx(&r->n_sge), qp->remote.recv_sge);
	uint32_t pd = load_rlx(&t->pd);
	int n = 0;

	for (uint32_t i = 0; i < n_sge && length; i++) {
		uint32_t part = MIN(load_rlx(&r->sge[i].length), length);
		uint64_t at = mr_remote(qp->remote.peer->dir, pd, 0,
					load_rlx(&r->sge[i].lkey),
					load_rlx(&r->sge[i].addr), part,
					IBV_ACCESS_LOCAL_WRITE | X_LOCAL);

		if (!at)
			return -1;
		iov[n++] = (struct iovec){ (void *)(uintptr_t)at, part };
		length -= part;
	}
	return length ? -1 : n;
}

/* Copies the bytes straight into the receive that the message gets.  False: that is not
 * possible; the way through the ring finds out what is wrong, if anything. */
static bool place(struct qp *qp, struct swqe *w, const struct x_recv *r)
{
	struct iovec here[N_SGE], there[N_SGE];
	const struct x_qp *t;
	ssize_t got = -1;
	int n = tx_gather(qp, w, 0, w->length, 0, here);

	if (n < 0)
		return false;
	tx_enter(qp);
	t = tx_receiver(qp);
	int m = t ? aim(qp, t, r, w->length, there) : -1;
	if (m > 0)
		got = reach(qp->remote.peer, here, (unsigned)n, there,
			    (unsigned)m, true);
	tx_leave(qp);
	return got >= 0;
}

uint64_t tx_rnr_ns(const struct qp *qp, const struct x_qp *t)
{
	return qp->attr.rnr_retry == 7
		   ? 0
		   : rnr_ns(load_rlx(&t->min_rnr)) * (qp->attr.rnr_retry + 1u);
}

/* How many receives are left.  The receiver writes the line of n_posted again and again, so
 * we read that line only when we know of no receive. */
static uint32_t n_receives(struct qp *qp, const struct x_qp *t)
{
	uint32_t n = qp->n_known - qp->n_used;

	if (likely(n && n <= qp->remote.n_recv))
		return n;
	qp->n_known = load_acq(&t->n_posted); /* E3 */
	return qp->n_known - qp->n_used;
}

const struct x_recv *tx_find_recv(struct qp *qp, struct swqe *w,
				  const struct x_qp *t, enum tx *verdict)
{
	uint32_t n = n_receives(qp, t);
	bool is_uc = qp->init.qp_type == IBV_QPT_UC;

	if (likely(n && n <= qp->remote.n_recv))
		return (const void *)(qp->remote.recv +
				      (qp->n_used & (qp->remote.n_recv - 1)) *
					  qp->remote.recv_bytes);
	if (is_uc)
		*verdict = lose(w);
	else if (tx_waits_too_long(qp, tx_rnr_ns(qp, t)))
		*verdict = tx_done(w, IBV_WC_RNR_RETRY_EXC_ERR);
	else if (tx_may_tell_end(qp))
		*verdict = tx_done(w, IBV_WC_RETRY_EXC_ERR);
	else
		*verdict = TX_BLOCKED;
	return NULL;
}

static enum tx send_to_recv(struct qp *qp, struct swqe *w, const struct x_qp *t)
{
	enum tx verdict;
	const struct x_recv *r = tx_find_recv(qp, w, t, &verdict);

	if (!r) {
		struct iovec here[N_SGE];

		/* What gets lost had to be read first. */
		return verdict == TX_DONE && w->status == IBV_WC_SUCCESS &&
			       tx_gather(qp, w, 0, w->length, 0, here) < 0
			   ? tx_done(w, IBV_WC_LOC_PROT_ERR)
			   : verdict;
	}
	if (w->length > load_rlx(&r->length)) {
		qp->n_used++;
		if (qp->init.qp_type == IBV_QPT_UC)
			return tx_fail_both(qp, w, IBV_WC_LOC_LEN_ERR,
					    IBV_WC_SUCCESS);
		return tx_fail_both(qp, w, IBV_WC_LOC_LEN_ERR,
				    IBV_WC_REM_INV_REQ_ERR);
	}
	struct iovec there[N_SGE];
	if (unlikely(aim(qp, t, r, w->length, there) < 0)) {
		qp->n_used++;
		return tx_fail_both(qp, w, IBV_WC_LOC_PROT_ERR,
				    qp->init.qp_type == IBV_QPT_UC
					? IBV_WC_SUCCESS
					: IBV_WC_REM_OP_ERR);
	}
	if (!tx_fits(qp, 0))
		return tx_no_room(qp, w);
	if (w->length > EAGER && w->opcode != IBV_WR_SEND_WITH_INV &&
	    place(qp, w, r)) {
		tx_put_short(qp, tx_header(qp, w), MSG_PLACED);
		count(&rdma_counters->placed, 1);
		qp->n_used++;
		return tx_done(w, IBV_WC_SUCCESS);
	}
	enum tx tx = put_fragments(qp, w);
	if (tx == TX_DONE && is_sent(w))
		qp->n_used++;
	return tx;
}

enum tx tx_message(struct qp *qp, struct swqe *w)
{
	const struct x_qp *t = tx_receiver(qp);
	uint32_t pd;
	enum tx tx;

	if (unlikely(!t))
		return tx_no_answer(qp, w);
	if (qp->init.qp_type == IBV_QPT_XRC_SEND && !xrc_aim(qp, w, t, &pd))
		return tx_fail_both(qp, w, IBV_WC_REM_INV_REQ_ERR,
				    IBV_WC_REM_INV_REQ_ERR);
	if (w->off) /* it has begun: its receive is there */
		tx = put_fragments(qp, w);
	else if (!qp->remote.has_srq)
		return send_to_recv(qp, w, t);
	else
		tx = put_fragments(qp, w);
	if (tx == TX_DONE && is_sent(w)) {
		if (!qp->remote.has_srq)
			qp->n_used++;
		else if (type_is_reliable(qp->init.qp_type))
			w->needs_ack = true;
	}
	return tx;
}
