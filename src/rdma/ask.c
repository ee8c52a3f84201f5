/* SPDX-License-Identifier: MIT */
/*
 * rdma/ask.c - one-sided operations where the kernel refuses the receiver's memory
 *
 *     request -> our ring, in order with sends -> the receiver executes it (serve.c)
 *             <- its ring of replies           <- how it went, and what was read
 *
 * A request completes when its reply is here; replies come in the order of requests.  An
 * unreliable write has none.  A reply is input: this file bounds it by the ring, and copies
 * its bytes to where the request said, as long as the request's key still allows that.
 */
#include <string.h>

#include "rdma/serve.h"
#include "rdma/tx.h"

static bool is_write(const struct swqe *w)
{
	return w->opcode == IBV_WR_RDMA_WRITE ||
	       w->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

/* In the ring.  The receiver may sleep, or never call us. */
static void announce(struct qp *qp)
{
	if (!helper_ring(&qp->remote))
		remote_ring(&qp->remote, BELL_RECV, true);
}

static struct x_msg request(const struct qp *qp, const struct swqe *w,
			    enum msg_op op)
{
	return (struct x_msg){ .op = (uint8_t)op,
			       .flags = MSG_FIRST | MSG_LAST,
			       .total = w->length,
			       .src_qpn = tx_source(qp, w),
			       .qkey = w->rkey,
			       .addr = w->addr };
}

/* As much of a write as fits.  TX_DONE: all of it, or a failure. */
static enum tx ask_write(struct qp *qp, struct swqe *w)
{
	struct iovec iov[N_SGE];

	while (w->off < w->length) {
		struct x_msg m = request(qp, w, MSG_WRITE);

		m.length = MIN(w->length - w->off, FRAGMENT);
		m.addr += w->off;
		if (w->off + m.length < w->length)
			m.flags &= (uint8_t)~MSG_LAST;
		int n = tx_gather(qp, w, w->off, m.length, 0, iov);
		if (n < 0)
			return tx_fail_both(qp, w, IBV_WC_REM_OP_ERR,
					    IBV_WC_LOC_PROT_ERR);
		/* And for what tells of immediate data. */
		if (!tx_fits(qp, m.length + RING_LINE)) {
			announce(qp);
			return tx_no_room(qp, w);
		}
		out_put(&qp->out, &m, iov, (uint32_t)n);
		w->off += m.length;
	}
	return tx_done(w, IBV_WC_SUCCESS);
}

/* A read has no bytes; an atomic operation has its operands. */
static enum tx ask_short(struct qp *qp, struct swqe *w)
{
	uint64_t operands[2] = { w->compare_add, w->swap };
	struct iovec iov = { operands, sizeof(operands) };
	bool is_read = w->opcode == IBV_WR_RDMA_READ;
	struct x_msg m = request(qp, w, is_read ? MSG_READ : MSG_ATOMIC);

	m.length = is_read ? 0 : sizeof(operands);
	m.imm = w->opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
	if (!tx_fits(qp, m.length)) {
		announce(qp);
		return tx_no_room(qp, w);
	}
	out_put(&qp->out, &m, &iov, is_read ? 0 : 1);
	return tx_done(w, IBV_WC_SUCCESS);
}

enum tx tx_ask(struct qp *qp, struct swqe *w)
{
	enum tx tx = is_write(w) ? ask_write(qp, w) : ask_short(qp, w);

	if (tx == TX_BLOCKED || w->status != IBV_WC_SUCCESS || w->is_lost)
		return tx;
	if (qp->init.qp_type != IBV_QPT_UC) {
		w->needs_reply = true;
		qp->n_asked++;
	}
	announce(qp);
	return TX_DONE;
}

static struct swqe *first_asked(struct qp *qp)
{
	for (uint32_t i = qp->sq_done; i != qp->sq_sent; i++) {
		struct swqe *w = qp_sqe(qp, i);

		if (w->needs_reply)
			return w;
	}
	return NULL;
}

/* Bytes that were read, from @pos of the ring on, to where the request wants them. */
static enum ibv_wc_status put_read(struct qp *qp, struct swqe *w,
				   const struct x_msg *m, uint64_t pos)
{
	struct iovec iov[N_SGE];
	bool is_rest = m->length == w->length - w->got;

	if (m->length > w->length - w->got || !(m->flags & MSG_LAST) == is_rest)
		return IBV_WC_BAD_RESP_ERR;
	int n =
	    tx_gather(qp, w, w->got, m->length, IBV_ACCESS_LOCAL_WRITE, iov);
	for (int i = 0; i < n; i++) {
		reply_read(&qp->remote, pos, iov[i].iov_base, iov[i].iov_len);
		pos += iov[i].iov_len;
	}
	w->got += m->length;
	return n < 0 ? IBV_WC_LOC_PROT_ERR : IBV_WC_SUCCESS;
}

static void take_reply(struct qp *qp, struct swqe *w, const struct x_msg *m,
		       uint64_t pos)
{
	enum ibv_wc_status status = m->imm > IBV_WC_GENERAL_ERR
					? IBV_WC_BAD_RESP_ERR
					: (enum ibv_wc_status)m->imm;

	if (status == IBV_WC_SUCCESS && !is_write(w))
		status = put_read(qp, w, m, pos + sizeof(*m));
	if (status == IBV_WC_SUCCESS && !(m->flags & MSG_LAST))
		return;
	w->status = (uint8_t)status;
	w->needs_reply = false;
	qp->n_asked--;
}

void tx_take_replies(struct qp *qp)
{
	const struct remote *r = &qp->remote;
	struct swqe *w;
	struct x_msg m;
	bool took = false;

	if (!r->x || !r->has_reply || load_rlx(&r->x->gen) != r->gen ||
	    load_rlx(&r->x->dest_qpn) != qp->qp.qp_num)
		return;
	while (qp->n_asked && !qp->peer_lies && (w = first_asked(qp)) &&
	       reply_header(r, qp->reply_pos, &m, &qp->peer_lies)) {
		take_reply(qp, w, &m, qp->reply_pos);
		qp->reply_pos = msg_end(&m, qp->reply_pos);
		store_rel(&qp->x->reply_tail, qp->reply_pos); /* E2 */
		took = true;
	}
	if (took && qp->n_asked) /* it may have waited for room */
		announce(qp);
}
