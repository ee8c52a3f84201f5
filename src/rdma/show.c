/* SPDX-License-Identifier: MIT */
/*
 * rdma/show.c - which packets two hosts would have exchanged for what was done; see
 * rdma/show.h
 *
 *     a request    first, middle and last packets of the path's MTU, numbered on from sq_psn
 *     its answer   an acknowledgement, the bytes that were read, or a refusal
 *     an arrival   the same packets in the other direction, numbered on from rq_psn
 *
 * A receiver does not see writes and reads of its memory, which take numbers as well.  So a
 * sender that shows its packets puts the number of the next packet into its messages, and
 * the receiver goes on with that number.  The receiver believes a number only if it is
 * ahead of its own.
 *
 * The kernel copies the program's bytes (serve_copy()), because the program may have
 * unmapped them.
 */
#include <endian.h>
#include <string.h>

#include "rdma/mcast.h"
#include "rdma/rx.h"
#include "rdma/serve.h"
#include "rdma/show.h"
#include "rdma/tx.h"

#define DYNAMIC_PORT                                                           \
	0xc000u /* annex A17: a flow's source port is one of these */

static const uint8_t zeros[ROCE_MTU_MAX];

/* From one queue pair to another one. */
struct way {
	bool is_out;
	uint8_t service;
	uint32_t dest_qpn, srqn;
	struct roce_flow flow;
};

static bool is_mapped(const union ibv_gid *gid)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	return !memcmp(gid->raw, mapped, sizeof(mapped));
}

static struct roce_flow flow_of(const union ibv_gid *src,
				const union ibv_gid *dst, uint32_t qpn)
{
	bool is_v4 = is_mapped(src) && is_mapped(dst);
	struct roce_flow f = { .is_v6 = !is_v4,
			       .src_port = (uint16_t)(DYNAMIC_PORT | qpn),
			       .dst_port = ROCE_PORT };

	memcpy(f.src, src->raw + (is_v4 ? 12 : 0), is_v4 ? 4 : 16);
	memcpy(f.dst, dst->raw + (is_v4 ? 12 : 0), is_v4 ? 4 : 16);
	return f;
}

static uint8_t service_of(enum ibv_qp_type type)
{
	return type == IBV_QPT_UC                                     ? ROCE_UC
	       : type == IBV_QPT_XRC_SEND || type == IBV_QPT_XRC_RECV ? ROCE_XRC
								      : ROCE_RC;
}

/* Of a connected queue pair. */
static struct way way_of(const struct qp *qp, bool is_out)
{
	const struct ibv_qp_attr *a = &qp->attr;
	union ibv_gid mine = { 0 };

	device_gid(a->ah_attr.grh.sgid_index, &mine, NULL);
	const union ibv_gid *theirs = &a->ah_attr.grh.dgid;
	return (struct way){
		.is_out = is_out,
		.service = service_of(qp->init.qp_type),
		.dest_qpn = is_out ? a->dest_qp_num : qp->qp.qp_num,
		.flow =
		    flow_of(is_out ? &mine : theirs, is_out ? theirs : &mine,
			    is_out ? qp->qp.qp_num : a->dest_qp_num),
	};
}

static void put(const struct way *w, struct roce_head *h,
		const struct iovec *iov, int n_iov)
{
	uint8_t p[ROCE_MAX];
	uint32_t n_payload = 0;

	for (int i = 0; i < n_iov; i++)
		n_payload += (uint32_t)iov[i].iov_len;
	h->service = w->service;
	h->dest_qpn = w->dest_qpn;
	h->xrc_srqn = w->srqn;
	size_t n = roce_build(h, n_payload, p);
	for (int i = 0; i < n_iov; i++) {
		if (!serve_copy(p + n, (uintptr_t)iov[i].iov_base,
				iov[i].iov_len, SERVE_READ))
			memset(p + n, 0, iov[i].iov_len);
		n += iov[i].iov_len;
	}
	memset(p + n, 0, h->pad);
	n += h->pad;
	uint32_t crc = htole32(icrc(&w->flow, 0, p, n));
	memcpy(p + n, &crc, sizeof(crc));
	show_packet(w->is_out, &w->flow, 0, p, n + sizeof(crc));
}

/*
 * A queue pair's numbers.
 */

static uint32_t mtu_of(const struct qp *qp)
{
	return 128u << qp->attr.path_mtu;
}

static uint32_t n_packets(const struct qp *qp, uint32_t length)
{
	return MAX((length + mtu_of(qp) - 1) / mtu_of(qp), 1u);
}

/* NULL: nobody reads any more.  What was sent before somebody began has no number. */
static struct qp_show *begin(struct qp *qp)
{
	struct qp_show *s = &qp->show;
	uint32_t n_times = show_begin();

	if (n_times && s->n_times != n_times) {
		s->n_times = n_times;
		s->una = s->next;
		s->n_before = qp->sq_sent - qp->sq_done;
	}
	return n_times ? s : NULL;
}

static struct qp_show *begin_sent(struct qp *qp)
{
	struct qp_show *s = begin(qp);

	if (s && !s->has_sent) {
		s->has_sent = true;
		s->next = s->una = qp->attr.sq_psn;
	}
	return s;
}

/* With the sender's opinion of the number, which @m may have. */
static struct qp_show *begin_received(struct qp *qp, const struct x_msg *m)
{
	struct qp_show *s = begin(qp);
	uint32_t theirs = (uint32_t)m->addr & PSN_MASK;

	if (s && !s->has_received) {
		s->has_received = true;
		s->expected = qp->attr.rq_psn;
	}
	if (s && m->addr & SHOW_PSN && psn_diff(theirs, s->expected) > 0)
		s->expected = theirs;
	return s;
}

/*
 * Requests.
 */

enum { IS_IMM = 1, IS_INV = 2 };

static uint8_t op_of(bool is_write, bool is_first, bool is_last, int more)
{
	uint8_t op = is_first && is_last ? OP_SEND_ONLY
		     : is_first          ? OP_SEND_FIRST
		     : is_last           ? OP_SEND_LAST
					 : OP_SEND_MIDDLE;

	if (is_last && more == IS_INV)
		return is_first ? OP_SEND_ONLY_INV : OP_SEND_LAST_INV;
	return (uint8_t)(op + (is_write ? OP_WRITE_FIRST : 0) +
			 (is_last && more == IS_IMM));
}

static bool is_failed_here(const struct swqe *w)
{
	return w->status == IBV_WC_LOC_LEN_ERR ||
	       w->status == IBV_WC_LOC_PROT_ERR ||
	       w->status == IBV_WC_LOC_QP_OP_ERR ||
	       w->status == IBV_WC_MW_BIND_ERR;
}

/* Does it leave this process as a packet that is not real? */
static bool is_shown(const struct qp *qp, const struct swqe *w)
{
	return w->opcode != IBV_WR_LOCAL_INV && w->opcode != IBV_WR_BIND_MW &&
	       !is_failed_here(w) &&
	       !(qp->init.qp_type == IBV_QPT_UD && w->is_far);
}

static bool is_atomic(const struct swqe *w)
{
	return w->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
	       w->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

static uint32_t n_numbers(const struct qp *qp, const struct swqe *w)
{
	return is_atomic(w) || qp->init.qp_type == IBV_QPT_UD
		   ? 1
		   : n_packets(qp, w->length);
}

/* The bytes of @w here. */
static int bytes_of(struct qp *qp, const struct swqe *w, uint32_t off,
		    uint32_t n, struct iovec *iov)
{
	int n_iov = tx_gather(qp, w, off, n, 0, iov);

	if (n_iov >= 0)
		return n_iov;
	iov[0] = (struct iovec){ (void *)zeros, n };
	return 1;
}

static void put_datagram(struct qp *qp, const struct swqe *w, struct qp_show *s)
{
	bool has_imm = w->opcode == IBV_WR_SEND_WITH_IMM;
	union ibv_gid mine = { 0 };
	struct iovec iov[N_SGE];

	device_gid(w->route & 0xff, &mine, NULL);
	const struct way way = {
		.is_out = true,
		.service = ROCE_UD,
		.dest_qpn = w->dest_qpn,
		.flow = flow_of(&mine, &w->dgid, qp->qp.qp_num),
	};
	struct roce_head h = {
		.op = has_imm ? OP_SEND_ONLY_IMM : OP_SEND_ONLY,
		.psn = s->next,
		.is_solicited = w->flags & IBV_SEND_SOLICITED,
		.imm = w->imm,
		.qkey = w->qkey,
		.src_qpn = qp->qp.qp_num,
	};
	put(&way, &h, iov, bytes_of(qp, w, 0, w->length, iov));
}

/* One packet, for a response that has the bytes. */
static void put_question(struct qp *qp, const struct way *way,
			 const struct swqe *w, uint32_t psn)
{
	struct roce_head h = {
		.op = w->opcode == IBV_WR_RDMA_READ            ? OP_READ_REQUEST
		      : w->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ? OP_COMPARE_SWAP
							       : OP_FETCH_ADD,
		.psn = psn,
		.wants_ack = true,
		.addr = w->addr,
		.rkey = w->rkey,
		.length = w->length,
	};

	h.swap_add = h.op == OP_COMPARE_SWAP ? w->swap : w->compare_add;
	h.compare = h.op == OP_COMPARE_SWAP ? w->compare_add : 0;
	put(way, &h, NULL, 0);
}

static void put_message(struct qp *qp, const struct way *way,
			const struct swqe *w, uint32_t psn)
{
	bool is_write = w->opcode == IBV_WR_RDMA_WRITE ||
			w->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	int more = w->opcode == IBV_WR_SEND_WITH_INV ? IS_INV
		   : w->opcode == IBV_WR_SEND_WITH_IMM ||
			   w->opcode == IBV_WR_RDMA_WRITE_WITH_IMM
		       ? IS_IMM
		       : 0;
	struct iovec iov[N_SGE];

	for (uint32_t off = 0, n;; off += n) {
		n = MIN(w->length - off, mtu_of(qp));
		bool is_last = off + n == w->length;
		struct roce_head h = {
			.op = op_of(is_write, !off, is_last, more),
			.psn = psn,
			.wants_ack =
			    is_last && type_is_reliable(qp->init.qp_type),
			.is_solicited =
			    is_last && w->flags & IBV_SEND_SOLICITED,
			.addr = w->addr,
			.rkey = w->rkey,
			.length = w->length,
			.imm = w->imm,
			.inv_rkey = w->imm,
		};

		put(way, &h, iov, bytes_of(qp, w, off, n, iov));
		if (is_last)
			break;
		psn = psn_add(psn, 1);
	}
}

void show_request(struct qp *qp, const struct swqe *w)
{
	struct qp_show *s = begin_sent(qp);

	if (!s || !is_shown(qp, w))
		return;
	if (qp->init.qp_type == IBV_QPT_UD) {
		put_datagram(qp, w, s);
	} else {
		struct way way = way_of(qp, true);

		way.srqn = w->dest_qpn;
		if (w->opcode == IBV_WR_RDMA_READ || is_atomic(w))
			put_question(qp, &way, w, s->next);
		else
			put_message(qp, &way, w, s->next);
	}
	s->next = psn_add(s->next, n_numbers(qp, w));
	s->to_peer = SHOW_PSN | s->next;
}

/*
 * Answers.
 */

/* The syndrome that says so; 0: the peer says nothing. */
static uint8_t syndrome_of(uint32_t status, uint32_t min_rnr)
{
	switch (status) {
	case IBV_WC_SUCCESS:
		return SYN_ACK;
	case IBV_WC_REM_INV_REQ_ERR:
	case IBV_WC_LOC_LEN_ERR: /* of the receive */
		return SYN_NAK_INVALID;
	case IBV_WC_REM_ACCESS_ERR:
		return SYN_NAK_ACCESS;
	case IBV_WC_REM_OP_ERR:
	case IBV_WC_LOC_PROT_ERR: /* of the receive */
		return SYN_NAK_OPERATION;
	case IBV_WC_RNR_RETRY_EXC_ERR:
		return (uint8_t)(SYN_RNR | (min_rnr & 0x1f));
	default:
		return 0;
	}
}

static void put_ack(const struct way *way, uint32_t psn, uint8_t syndrome,
		    uint32_t msn)
{
	struct roce_head h = { .op = OP_ACK,
			       .psn = psn,
			       .syndrome = syndrome,
			       .msn = msn & PSN_MASK };

	put(way, &h, NULL, 0);
}

static void put_responses(struct qp *qp, const struct way *way,
			  const struct swqe *w, uint32_t psn, uint32_t msn)
{
	struct iovec iov[N_SGE];

	for (uint32_t off = 0, n;; off += n) {
		n = MIN(w->length - off, mtu_of(qp));
		bool is_last = off + n == w->length;
		struct roce_head h = { .op = !off && is_last ? OP_READ_ONLY
					     : !off          ? OP_READ_FIRST
					     : is_last       ? OP_READ_LAST
							     : OP_READ_MIDDLE,
				       .psn = psn,
				       .syndrome = SYN_ACK,
				       .msn = msn & PSN_MASK };

		put(way, &h, iov, bytes_of(qp, w, off, n, iov));
		if (is_last)
			break;
		psn = psn_add(psn, 1);
	}
}

static void put_atomic_answer(struct qp *qp, const struct way *way,
			      const struct swqe *w, uint32_t psn, uint32_t msn)
{
	struct iovec iov[N_SGE];
	struct roce_head h = { .op = OP_ATOMIC_ACK,
			       .psn = psn,
			       .syndrome = SYN_ACK,
			       .msn = msn & PSN_MASK };

	bytes_of(qp, w, 0, w->length, iov);
	serve_copy(&h.original, (uintptr_t)iov[0].iov_base, sizeof(h.original),
		   SERVE_READ);
	put(way, &h, NULL, 0);
}

void show_answer(struct qp *qp, const struct swqe *w)
{
	struct qp_show *s = begin_sent(qp);

	if (!s)
		return;
	if (s->n_before) {
		s->n_before--;
		return;
	}
	if (!is_shown(qp, w))
		return;
	uint32_t first = s->una, n = n_numbers(qp, w);
	s->una = psn_add(first, n);
	if (!type_is_reliable(qp->init.qp_type))
		return;
	const struct x_qp *x = qp->remote.x;
	uint8_t syndrome =
	    syndrome_of(w->status, x ? load_rlx(&x->min_rnr) : 0);
	struct way way = way_of(qp, false);
	if (syndrome == SYN_ACK)
		s->n_answered++;
	if (syndrome == SYN_ACK && w->opcode == IBV_WR_RDMA_READ)
		put_responses(qp, &way, w, first, s->n_answered);
	else if (syndrome == SYN_ACK && is_atomic(w))
		put_atomic_answer(qp, &way, w, first, s->n_answered);
	else if (syndrome == SYN_ACK)
		put_ack(&way, psn_add(first, n - 1), syndrome, s->n_answered);
	else if (syndrome)
		put_ack(&way, first, syndrome, s->n_answered);
}

/*
 * Arrivals.
 */

static int received_bytes(struct qp *qp, uint32_t off, uint32_t n,
			  struct iovec *iov)
{
	int n_iov = rx_map(qp, qp->in.wqe, off, n, iov);

	if (n_iov >= 0)
		return n_iov;
	iov[0] = (struct iovec){ (void *)zeros, n };
	return 1;
}

static void put_arrived_datagram(struct qp *qp, const struct x_msg *m,
				 struct qp_show *s)
{
	struct ibv_grh grh;
	struct iovec iov[N_SGE];
	bool is_group = (m->addr >> 8 & 0xff) == MCAST_INDEX;

	rx_grh(qp, m, &grh);
	const struct way way = {
		.service = ROCE_UD,
		.dest_qpn = is_group ? MCAST_QPN : qp->qp.qp_num,
		.flow = flow_of(&grh.sgid, &grh.dgid, m->src_qpn),
	};
	struct roce_head h = {
		.op = m->flags & MSG_IMM ? OP_SEND_ONLY_IMM : OP_SEND_ONLY,
		.psn = s->expected,
		.is_solicited = m->flags & MSG_SOLICITED,
		.imm = m->imm,
		.qkey = m->qkey,
		.src_qpn = m->src_qpn & 0xffffff,
	};
	s->expected = psn_add(s->expected, 1);
	put(&way, &h, iov, received_bytes(qp, GRH_BYTES, m->total, iov));
}

/* The bytes of a write are not known here, only that it is complete. */
static void put_write_end(const struct way *way, const struct x_msg *m,
			  uint32_t psn)
{
	struct roce_head h = { .op = OP_WRITE_LAST_IMM,
			       .psn = psn,
			       .is_solicited = m->flags & MSG_SOLICITED,
			       .imm = m->imm };

	put(way, &h, NULL, 0);
}

static void put_arrived(struct qp *qp, const struct way *way,
			const struct x_msg *m, uint32_t psn)
{
	int more = m->flags & MSG_IMM   ? IS_IMM
		   : m->flags & MSG_INV ? IS_INV
					: 0;
	struct iovec iov[N_SGE];

	for (uint32_t off = 0, n;; off += n) {
		n = MIN(m->total - off, mtu_of(qp));
		bool is_last = off + n == m->total;
		struct roce_head h = {
			.op = op_of(false, !off, is_last, more),
			.psn = psn,
			.wants_ack =
			    is_last && type_is_reliable(qp->init.qp_type),
			.is_solicited = is_last && m->flags & MSG_SOLICITED,
			.imm = m->imm,
			.inv_rkey = m->imm,
		};

		put(way, &h, iov, received_bytes(qp, off, n, iov));
		if (is_last)
			break;
		psn = psn_add(psn, 1);
	}
}

void show_arrival(struct qp *qp, const struct x_msg *m)
{
	if (qp->init.qp_type == IBV_QPT_UD) {
		struct qp_show *s = begin(qp);

		if (s)
			put_arrived_datagram(qp, m, s);
		return;
	}
	struct qp_show *s = begin_received(qp, m);
	if (!s)
		return;
	struct way in = way_of(qp, false), out = way_of(qp, true);
	in.srqn = m->src_qpn;
	uint32_t first = s->expected;
	uint32_t last = psn_add(first, n_packets(qp, m->total) - 1);
	if (m->op == MSG_WRITE_IMM)
		put_write_end(&in, m, last);
	else
		put_arrived(qp, &in, m, first);
	s->expected = psn_add(last, 1);
	if (type_is_reliable(qp->init.qp_type))
		put_ack(&out, last, SYN_ACK, ++s->n_arrived);
}

void show_refusal(struct qp *qp, const struct x_msg *m)
{
	struct qp_show *s = begin_received(qp, m);
	uint8_t syndrome = syndrome_of(m->imm, 0);

	if (!s || !type_is_reliable(qp->init.qp_type) ||
	    syndrome < SYN_NAK_INVALID)
		return;
	struct way out = way_of(qp, true);
	put_ack(&out, s->expected, syndrome, s->n_arrived);
}
