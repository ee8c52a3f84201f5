/* SPDX-License-Identifier: MIT */
/*
 * cm/cmd_conn.c - commands that connect: connect, accept, reject, disconnect
 *
 * librdmacm's accept sends a REP at the passive end.  At the active end it sends an RTU:
 * librdmacm calls it by itself when it has moved the queue pair to its last state.
 */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "cm/id.h"

#define UDP_QKEY 0x01234567u
#define ANSWER_NS (60 * NS_PER_S)

static int take_param(struct cm_id *id, const struct rdma_ucm_conn_param *p,
		      enum msg_kind kind)
{
	if (p->private_data_len > private_max(kind))
		return -EINVAL;
	/* The passive end has moved its queue pair on by now, with this number. */
	uint32_t psn = id->own.psn;

	memset(&id->own, 0, sizeof(id->own));
	id->own.qp_num = p->qp_num & 0xffffff;
	id->own.qkey = p->qkey ? p->qkey : UDP_QKEY;
	id->own.psn = psn ? psn : param_psn();
	id->own.responder_resources = p->responder_resources;
	id->own.initiator_depth = p->initiator_depth;
	id->own.flow_control = p->flow_control;
	id->own.retry_count = MIN(p->retry_count, 7);
	id->own.rnr_retry_count = MIN(p->rnr_retry_count, 7);
	id->own.srq = p->srq;
	id->own.private_len = p->private_data_len;
	memcpy(id->own.private_data, p->private_data, p->private_data_len);
	return 0;
}

int cmd_connect(struct cm_call *c)
{
	const struct rdma_ucm_connect *in = c->in;
	struct cm_id *id = id_get(c->file, in->id);
	bool is_ud = id && id->qp_type == IBV_QPT_UD;

	if (!in->conn_param.valid)
		return -EINVAL;
	if (!id)
		return -ENOENT;
	if (id->state != ID_ROUTE || addr_is_multicast(&id->dst))
		return -EINVAL;
	int err =
	    take_param(id, &in->conn_param, is_ud ? MSG_SIDR_REQ : MSG_REQ);
	return err ? err : link_connect(id);
}

static int accept_sidr(struct cm_id *id)
{
	link_send(id, MSG_SIDR_REP, SIDR_SUCCESS);
	link_close(id);
	id->state = ID_OVER;
	return 0;
}

static int accept_request(struct cm_id *id, const struct rdma_ucm_accept *in)
{
	bool is_ud = id->qp_type == IBV_QPT_UD;
	int err =
	    take_param(id, &in->conn_param, is_ud ? MSG_SIDR_REP : MSG_REP);

	if (err)
		return err;
	id->uid = in->uid;
	if (is_ud)
		return accept_sidr(id);
	id->own.responder_resources =
	    MIN(id->own.responder_resources, id->peer.initiator_depth);
	id->own.initiator_depth =
	    MIN(id->own.initiator_depth, id->peer.responder_resources);
	if (id->has_hung_up) {
		id->state = ID_OVER;
		event_add_plain(id, EVENT_UNREACHABLE, -ETIMEDOUT);
		return 0;
	}
	link_send(id, MSG_REP, 0);
	id->state = ID_REP_SENT;
	file_set_deadline(id, now_ns() + ANSWER_NS);
	return 0;
}

int cmd_accept(struct cm_call *c)
{
	const struct rdma_ucm_accept *in = c->in;
	struct cm_id *id = id_get(c->file, in->id);

	if (!id)
		return -ENOENT;
	if (id->state == ID_REQ_RCVD)
		return in->conn_param.valid ? accept_request(id, in) : -EINVAL;
	if (id->state != ID_REP_RCVD)
		return -EINVAL;
	link_send(id, MSG_RTU, 0);
	id->state = ID_ESTABLISHED;
	return 0;
}

int cmd_reject(struct cm_call *c)
{
	const struct rdma_ucm_reject *in = c->in;
	struct cm_id *id = id_get(c->file, in->id);

	if (!id)
		return -ENOENT;
	if (in->private_data_len > private_max(MSG_REJ))
		return -EINVAL;
	if (id->state != ID_REQ_RCVD && id->state != ID_REP_RCVD)
		return -EINVAL;
	memset(&id->own, 0, sizeof(id->own));
	id->own.private_len = in->private_data_len;
	memcpy(id->own.private_data, in->private_data, in->private_data_len);
	if (id->qp_type == IBV_QPT_UD)
		link_send(id, MSG_SIDR_REP, SIDR_REJECT);
	else
		link_send(id, MSG_REJ, in->reason ? in->reason : REJ_CONSUMER);
	link_close(id);
	id->state = ID_OVER;
	return 0;
}

int cmd_disconnect(struct cm_call *c)
{
	const struct rdma_ucm_disconnect *in = c->in;
	struct cm_id *id = id_get(c->file, in->id);

	if (!id)
		return -ENOENT;
	switch (id->state) {
	case ID_ESTABLISHED:
	case ID_ENDING:
	case ID_REP_SENT:
	case ID_REP_RCVD:
		link_disconnect(id);
		return 0;
	case ID_REQ_SENT:
	case ID_REQ_RCVD:
	case ID_TIMEWAIT:
	case ID_OVER:
		return 0; /* there is nothing left to end */
	default:
		return -EINVAL;
	}
}

/* The program has seen by the queue pair what the RTU would say. */
int cmd_notify(struct cm_call *c)
{
	const struct rdma_ucm_notify *in = c->in;
	struct cm_id *id = id_get(c->file, in->id);

	if (!id)
		return -ENOENT;
	if (in->event == IBV_EVENT_PATH_MIG)
		return 0;
	if (in->event != IBV_EVENT_COMM_EST)
		return -EINVAL;
	link_establish(id);
	return 0;
}
