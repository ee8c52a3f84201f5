/* SPDX-License-Identifier: MIT */
/*
 * rdma/roce_ud.c - datagrams to and from other hosts
 *
 * A datagram is one packet.  As with datagrams of the same host (rx.c), the receive begins
 * with a global route header of 40 bytes, which has the addresses as GIDs.
 */
#include <endian.h>
#include <string.h>

#include "rdma/rx.h"
#include "rdma/tx.h"
#include "rdma/wire.h"

void roce_ud_open(struct qp *qp)
{
	if (!device_is_alone() && !wire_open())
		wire_attach(qp);
}

int roce_ud_send(struct qp *qp, struct swqe *w)
{
	struct roce_head h = {
		.service = ROCE_UD,
		.op = w->opcode == IBV_WR_SEND_WITH_IMM ? OP_SEND_ONLY_IMM
							: OP_SEND_ONLY,
		.is_solicited = w->flags & IBV_SEND_SOLICITED,
		.dest_qpn = w->dest_qpn,
		.psn = psn_add(qp->attr.sq_psn, qp->n_sent++),
		.imm = w->imm,
		.qkey = w->qkey,
		.src_qpn = qp->qp.qp_num,
	};
	struct iovec iov[N_SGE];
	struct roce_flow f;
	union ibv_gid sgid;

	if (w->length > device_mtu())
		return IBV_WC_LOC_LEN_ERR;
	int n = tx_gather(qp, w, 0, w->length, 0, iov);
	if (n < 0)
		return IBV_WC_LOC_PROT_ERR;
	if (!device_gid(w->route & 0xff, &sgid, NULL) && !wire_open() &&
	    wire_flow(&sgid, &w->dgid, &f)) {
		wire_put(&f, &h, iov, n);
		wire_flush();
	}
	return IBV_WC_SUCCESS;
}

static enum ibv_wc_status put(struct qp *qp, const struct roce_flow *f,
			      const struct roce_head *h)
{
	struct ibv_grh grh = { .version_tclass_flow = htobe32(6u << 28),
			       .paylen = htobe16((uint16_t)h->n_payload),
			       .next_hdr = 0x1b,
			       .hop_limit = 0xff };

	wire_gid(f, f->src, &grh.sgid);
	wire_gid(f, f->dst, &grh.dgid);
	enum ibv_wc_status status = rx_put(qp, 0, &grh, sizeof(grh));
	return status == IBV_WC_SUCCESS
		   ? rx_put(qp, GRH_BYTES, h->payload, h->n_payload)
		   : status;
}

void roce_ud_packet(struct qp *qp, const struct roce_flow *f,
		    const struct roce_head *h)
{
	struct cq *cq = container_of(qp->init.recv_cq, struct cq, cq);
	struct x_msg m = {
		.op = MSG_SEND,
		.flags = (uint8_t)((h->op == OP_SEND_ONLY_IMM ? MSG_IMM : 0) |
				   (h->is_solicited ? MSG_SOLICITED : 0)),
		.imm = h->imm,
		.src_qpn = h->src_qpn,
	};

	if (h->service != ROCE_UD || h->qkey != qp->attr.qkey ||
	    cq_is_full(cq) || !rx_take(qp)) {
		count(&rdma_counters->dropped, 1);
		return;
	}
	enum ibv_wc_status status = put(qp, f, h);
	if (status == IBV_WC_SUCCESS) {
		rx_complete(qp, &m, h->n_payload + GRH_BYTES, status);
		return;
	}
	rx_fail(qp, status);
	qp_fail(qp);
}
