/* SPDX-License-Identifier: MIT */
/*
 * rdma/roce_qp.c - a queue pair whose peer is on another host
 *
 *     swqe of the send queue -> struct roce_wr -> roce/conn.h -> wire.c
 *     wire.c -> roce/conn.h -> posted receives, registered memory, completions
 *
 * The caller holds the queue pair's lock.  The kernel copies the bytes that a peer reads or
 * writes; serve.c says why.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/clock.h"
#include "rdma/mw.h"
#include "rdma/roce/conn.h"
#include "rdma/rx.h"
#include "rdma/serve.h"
#include "rdma/tx.h"
#include "rdma/wire.h"
#include "rdma/xrc.h"

/* The program has stopped polling: then the thread sends the acknowledgement. */
#define PATIENCE_NS NS_PER_MS

struct roce_qp {
	struct roce_conn conn;
	struct roce_flow flow;
	bool has_more;
	struct roce_wr wr[];
};

static struct qp *qp_of(struct roce_conn *c) { return c->owner; }

static void op_send(struct roce_conn *c, struct roce_head *h,
		    const struct iovec *iov, int n)
{
	wire_put(&qp_of(c)->roce->flow, h, iov, n);
}

static int op_gather(struct roce_conn *c, uint32_t i, uint32_t off, uint32_t n,
		     struct iovec *iov)
{
	return tx_gather(qp_of(c), qp_sqe(qp_of(c), i), off, n, 0, iov);
}

static bool op_scatter(struct roce_conn *c, uint32_t i, uint32_t off,
		       const void *from, uint32_t n)
{
	struct iovec iov[N_SGE];
	const uint8_t *at = from;
	int n_iov = tx_gather(qp_of(c), qp_sqe(qp_of(c), i), off, n,
			      IBV_ACCESS_LOCAL_WRITE, iov);

	for (int k = 0; k < n_iov; k++) {
		memcpy(iov[k].iov_base, at, iov[k].iov_len);
		at += iov[k].iov_len;
	}
	return n_iov >= 0;
}

static void count_done(const struct roce_wr *w, const struct swqe *s)
{
	if (w->kind == REQ_LOCAL)
		return;
	if (w->kind != REQ_SEND) {
		tx_count_one_sided(s);
		return;
	}
	count(&rdma_counters->sends, 1);
	count(&rdma_counters->send_bytes, s->length);
}

static void op_done(struct roce_conn *c, uint32_t i, enum ibv_wc_status status)
{
	struct qp *qp = qp_of(c);

	if (status == IBV_WC_SUCCESS)
		count_done(roce_wr_at(c, i), qp_sqe(qp, i));
	tx_over(qp, qp_sqe(qp, i), status);
}

static bool op_has_queue(struct roce_conn *c)
{
	struct qp *qp = qp_of(c);

	return qp->xrc && xrc_pd(qp, c->rsp.srqn);
}

static bool op_take(struct roce_conn *c)
{
	struct qp *qp = qp_of(c);

	if (qp->xrc)
		return qp->in.wqe || xrc_take(qp, c->rsp.srqn);
	return !cq_is_full(container_of(qp->init.recv_cq, struct cq, cq)) &&
	       rx_take(qp);
}

static enum ibv_wc_status op_put(struct roce_conn *c, uint32_t off,
				 const void *from, uint32_t n)
{
	return rx_put(qp_of(c), off, from, n);
}

static void op_arrived(struct roce_conn *c, const struct roce_arrival *a)
{
	struct x_msg m = {
		.op = a->is_write ? MSG_WRITE_IMM : MSG_SEND,
		.flags =
		    (uint8_t)((a->flags & REQ_IMM ? MSG_IMM : 0) |
			      (a->flags & REQ_INV ? MSG_INV : 0) |
			      (a->flags & REQ_SOLICITED ? MSG_SOLICITED : 0)),
		.imm = a->imm,
	};

	rx_complete(qp_of(c), &m, a->length, IBV_WC_SUCCESS);
}

static uint64_t find(struct roce_conn *c, uint32_t rkey, uint64_t addr,
		     uint32_t n, uint32_t access)
{
	struct qp *qp = qp_of(c);
	uint32_t pd = qp->xrc ? xrc_pd(qp, c->rsp.srqn) : qp->qp.pd->handle;

	if (!pd || !(qp->attr.qp_access_flags & access))
		return 0;
	return mr_remote(self_current->dir, pd, qp->qp.qp_num, rkey, addr, n,
			 access);
}

static bool op_permits(struct roce_conn *c, uint32_t access)
{
	return qp_of(c)->attr.qp_access_flags & access;
}

static bool op_may(struct roce_conn *c, uint32_t rkey, uint64_t addr,
		   uint32_t n, uint32_t access)
{
	return find(c, rkey, addr, n, access) != 0;
}

static bool op_write(struct roce_conn *c, uint32_t rkey, uint64_t addr,
		     const void *from, uint32_t n)
{
	uint64_t at = find(c, rkey, addr, n, IBV_ACCESS_REMOTE_WRITE);

	return at &&
	       serve_copy((void *)from, at, n,
			  c->rsp.left == n ? SERVE_WRITE_END : SERVE_WRITE);
}

static bool op_read(struct roce_conn *c, uint32_t rkey, uint64_t addr, void *to,
		    uint32_t n)
{
	uint64_t at = find(c, rkey, addr, n, IBV_ACCESS_REMOTE_READ);

	return at && serve_copy(to, at, n, SERVE_READ);
}

static bool op_atomic(struct roce_conn *c, uint32_t rkey, uint64_t addr,
		      bool is_swap, uint64_t swap_add, uint64_t compare,
		      uint64_t *was)
{
	uint64_t at = find(c, rkey, addr, 8, IBV_ACCESS_REMOTE_ATOMIC);

	return at && at % 8 == 0 &&
	       serve_own_atomic(at, is_swap, swap_add, compare, was);
}

static int op_local(struct roce_conn *c, uint32_t i)
{
	struct qp *qp = qp_of(c);
	struct swqe *w = qp_sqe(qp, i);
	enum tx how =
	    w->opcode == IBV_WR_BIND_MW ? tx_bind(qp, w) : tx_local_inv(qp, w);

	if (how == TX_BLOCKED)
		return -1;
	qp->blocked_ns = 0;
	return w->status;
}

static bool op_invalidate(struct roce_conn *c, uint32_t rkey)
{
	return mw_invalidate(qp_of(c), rkey);
}

static void op_fail(struct roce_conn *c, enum ibv_wc_status status,
		    enum ibv_event_type event)
{
	struct qp *qp = qp_of(c);

	if (status != IBV_WC_SUCCESS)
		rx_fail(qp, status);
	else
		event_add(ctx_of(qp->qp.context), event, qp);
	qp_fail(qp);
}

static const struct roce_ops ops = {
	.send = op_send,
	.gather = op_gather,
	.scatter = op_scatter,
	.done = op_done,
	.has_queue = op_has_queue,
	.take = op_take,
	.put = op_put,
	.arrived = op_arrived,
	.permits = op_permits,
	.may = op_may,
	.write = op_write,
	.read = op_read,
	.atomic = op_atomic,
	.local = op_local,
	.invalidate = op_invalidate,
	.fail = op_fail,
};

void roce_qp_open(struct qp *qp)
{
	const struct ibv_ah_attr *ah = &qp->attr.ah_attr;
	struct roce_config cf = {
		.is_uc = qp->init.qp_type == IBV_QPT_UC,
		.is_xrc = qp->init.qp_type == IBV_QPT_XRC_SEND ||
			  qp->init.qp_type == IBV_QPT_XRC_RECV,
		.mtu = 128u << qp->attr.path_mtu,
		.dest_qpn = qp->attr.dest_qp_num,
	};
	union ibv_gid sgid;

	roce_qp_free(qp);
	if (device_gid(ah->grh.sgid_index, &sgid, NULL) || wire_open())
		return;
	struct roce_qp *r =
	    calloc(1, sizeof(*r) + qp->sq_size * sizeof(struct roce_wr));
	if (!r || !wire_flow(&sgid, &ah->grh.dgid, &r->flow)) {
		free(r);
		return;
	}
	roce_init(&r->conn, &ops, &cf, r->wr, qp->sq_size - 1);
	r->conn.owner = qp;
	roce_expect_psn(&r->conn, qp->attr.rq_psn);
	qp->roce = r;
	wire_attach(qp);
}

void roce_qp_set_psn(struct qp *qp)
{
	roce_set_psn(&qp->roce->conn, qp->attr.sq_psn);
}

/* The program may change them at any time.  The requests that wait are tried anew. */
void roce_qp_set_times(struct qp *qp)
{
	if (!qp->roce)
		return;
	struct roce_conn *c = &qp->roce->conn;

	c->cf.timeout = qp->attr.timeout;
	c->cf.retry_cnt = c->req.retries = qp->attr.retry_cnt;
	c->cf.rnr_retry = c->req.rnr_retries = qp->attr.rnr_retry;
	c->cf.max_rd_atomic = qp->attr.max_rd_atomic;
	c->cf.min_rnr_timer = qp->attr.min_rnr_timer;
}

static uint8_t kind_of(uint32_t opcode)
{
	switch (opcode) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return REQ_WRITE;
	case IBV_WR_RDMA_READ:
		return REQ_READ;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		return REQ_SWAP;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return REQ_ADD;
	case IBV_WR_BIND_MW:
	case IBV_WR_LOCAL_INV:
		return REQ_LOCAL;
	default:
		return REQ_SEND;
	}
}

static void prepare(struct roce_wr *w, const struct swqe *s)
{
	bool has_imm = s->opcode == IBV_WR_SEND_WITH_IMM ||
		       s->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;

	*w = (struct roce_wr){
		.kind = kind_of(s->opcode),
		.flags =
		    (uint8_t)((has_imm ? REQ_IMM : 0) |
			      (s->opcode == IBV_WR_SEND_WITH_INV ? REQ_INV
								 : 0) |
			      (s->flags & IBV_SEND_SOLICITED ? REQ_SOLICITED
							     : 0) |
			      (s->flags & IBV_SEND_FENCE ? REQ_FENCE : 0)),
		.length = s->length,
		.rkey = s->rkey,
		.imm = s->imm,
		.addr = s->addr,
		.swap_add = s->opcode == IBV_WR_ATOMIC_CMP_AND_SWP
				? s->swap
				: s->compare_add,
		.compare = s->compare_add,
		.srqn = s->dest_qpn,
	};
}

static void watch_time(struct qp *qp)
{
	uint64_t at = roce_qp_deadline(qp);

	if (at)
		wire_wake_at(at);
}

void roce_qp_send(struct qp *qp)
{
	struct roce_qp *r = qp->roce;

	/* Return early: each poll comes here while a request is not acknowledged. */
	if (qp->sq_sent == qp->sq_head && r->conn.req.next == qp->sq_sent)
		return;
	for (; qp->sq_sent != qp->sq_head && qp->attr.qp_state == IBV_QPS_RTS;
	     qp->sq_sent++)
		prepare(roce_wr_at(&r->conn, qp->sq_sent),
			qp_sqe(qp, qp->sq_sent));
	roce_send(&r->conn, qp->sq_sent, now_ns());
	wire_flush();
	watch_time(qp);
}

void roce_qp_stop(struct qp *qp)
{
	if (!qp->roce)
		return;
	/* The program has received messages that the peer has no acknowledgement of yet. */
	roce_send_late_answer(&qp->roce->conn);
	wire_flush();
	qp->roce->conn.has_failed = true;
}

void roce_qp_free(struct qp *qp)
{
	roce_qp_stop(qp);
	free(qp->roce);
	qp->roce = NULL;
}

static bool is_ready(const struct qp *qp)
{
	return qp->attr.qp_state >= IBV_QPS_RTR &&
	       qp->attr.qp_state <= IBV_QPS_SQE;
}

void roce_qp_packet(struct qp *qp, const struct roce_flow *f,
		    const struct roce_head *h, uint64_t now)
{
	struct roce_qp *r = qp->roce;

	if (!is_ready(qp))
		return;
	if (qp->init.qp_type == IBV_QPT_UD) {
		roce_ud_packet(qp, f, h);
		return;
	}
	if (!r || memcmp(f->src, r->flow.dst, sizeof(f->src)) ||
	    memcmp(f->dst, r->flow.src, sizeof(f->dst)))
		return;
	roce_receive(&r->conn, h, now);
	if (qp->attr.qp_state == IBV_QPS_RTR && !qp->is_established) {
		qp->is_established = true;
		event_add(ctx_of(qp->qp.context), IBV_EVENT_COMM_EST, qp);
	}
}

void roce_qp_end(struct qp *qp, bool may_wait, uint64_t now)
{
	struct roce_qp *r = qp->roce;

	if (!r || !is_ready(qp))
		return;
	r->conn.patience_ns = may_wait ? PATIENCE_NS : 0;
	r->has_more = roce_flush(&r->conn, now);
	watch_time(qp);
}

bool roce_qp_waits(const struct qp *qp)
{
	return qp->roce && qp->roce->conn.rsp.answer_ns;
}

void roce_qp_late(struct qp *qp)
{
	if (qp->roce && is_ready(qp))
		roce_send_late_answer(&qp->roce->conn);
}

void roce_qp_tick(struct qp *qp, uint64_t now)
{
	struct roce_qp *r = qp->roce;

	if (!r || !is_ready(qp))
		return;
	roce_tick(&r->conn, now);
	if (r->has_more)
		r->has_more = roce_flush(&r->conn, now);
}

uint64_t roce_qp_deadline(const struct qp *qp)
{
	const struct roce_qp *r = qp->roce;

	if (!r || !is_ready(qp))
		return 0;
	return r->has_more ? 1 : roce_deadline(&r->conn);
}
