/* SPDX-License-Identifier: MIT */
/*
 * cm/attr.c - what the program asks of an id: its route, and the attributes with which it
 * moves its queue pair to the next state
 */
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "cm/id.h"
#include "rdma/core.h"

#define PKEY 0xffff
#define HOPS 64
#define RATE_100_GBPS 16
#define LIFE_TIME 18 /* of a packet: 4 us * 2^18, as the kernel says of RoCE */
#define TIMEOUT 18
#define MIN_RNR_TIMER 12 /* 0.64 ms */

/* On this host all lengths go; between hosts what the interface's packets hold. */
static uint8_t mtu_of(const struct cm_id *id)
{
	struct ibv_port_attr port;

	if (!addr_check_local(&id->dst) || device_port(1, &port))
		return IBV_MTU_4096;
	return (uint8_t)port.active_mtu;
}

static void put_route(struct rdma_ucm_query_route_resp *out,
		      const struct cm_id *id)
{
	struct ib_user_path_rec *r = &out->ib_route[0];
	union ibv_gid gid;

	addr_gid(&id->dst, &gid);
	memcpy(r->dgid, gid.raw, sizeof(gid.raw));
	addr_gid(&id->src, &gid);
	memcpy(r->sgid, gid.raw, sizeof(gid.raw));
	r->pkey = htobe16(PKEY);
	if (!id->has_route)
		return;
	out->num_paths = 1;
	r->reversible = 1;
	r->mtu = mtu_of(id);
	r->mtu_selector = r->rate_selector = r->packet_life_time_selector = 2;
	r->rate = RATE_100_GBPS;
	r->packet_life_time = LIFE_TIME;
	r->hop_limit = HOPS;
	r->numb_path = 1;
}

int cmd_query_route(struct cm_call *c)
{
	const struct rdma_ucm_query *in = c->in;
	struct cm_id *id = id_get(c->file, in->id);
	struct rdma_ucm_query_route_resp out = { 0 };

	if (!id)
		return -ENOENT;
	memcpy(&out.src_addr, &id->src, sizeof(out.src_addr));
	memcpy(&out.dst_addr, &id->dst, sizeof(out.dst_addr));
	out.ibdev_index = UINT32_MAX; /* the kernel has no number for it */
	if (id->has_device) {
		out.node_guid = device_guid();
		out.port_num = 1;
		put_route(&out, id);
	}
	c->response = in->response;
	return call_reply(
	    c, &out, sizeof(out),
	    offsetof(struct rdma_ucm_query_route_resp, ibdev_index));
}

/*
 * The attributes of each state, as the IBTA's table requires them for the type of the queue
 * pair.
 */

static bool is_connected_kind(const struct cm_id *id)
{
	return id->qp_type != IBV_QPT_UD;
}

static void put_init(struct ib_uverbs_qp_attr *a, const struct cm_id *id)
{
	a->qp_attr_mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT;
	a->port_num = 1;
	if (!is_connected_kind(id)) {
		a->qp_attr_mask |= IBV_QP_QKEY;
		a->qkey = 0x01234567u; /* of all datagram services */
		return;
	}
	a->qp_attr_mask |= IBV_QP_ACCESS_FLAGS;
	a->qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	if (id->qp_type != IBV_QPT_UC)
		a->qp_access_flags |=
		    IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
}

static void put_rtr(struct ib_uverbs_qp_attr *a, const struct cm_id *id)
{
	union ibv_gid gid;

	a->qp_attr_mask |=
	    IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	addr_gid(&id->dst, &gid);
	memcpy(a->ah_attr.grh.dgid, gid.raw, sizeof(gid.raw));
	a->ah_attr.grh.sgid_index = addr_gid(&id->src, &gid);
	a->ah_attr.grh.hop_limit = HOPS;
	a->ah_attr.is_global = 1;
	a->ah_attr.port_num = 1;
	a->path_mtu = mtu_of(id);
	a->dest_qp_num = id->peer.qp_num;
	/* An end says where the other one is to begin. */
	a->rq_psn = id->own.psn;
	if (id->qp_type == IBV_QPT_RC || id->qp_type == IBV_QPT_XRC_RECV) {
		a->qp_attr_mask |=
		    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
		a->max_dest_rd_atomic =
		    (uint8_t)MIN(id->own.responder_resources, MAX_RD_ATOMIC);
		a->min_rnr_timer = MIN_RNR_TIMER;
	}
}

static void put_rts(struct ib_uverbs_qp_attr *a, const struct cm_id *id)
{
	bool is_active = id->peer.qp_num && id->state == ID_REP_RCVD;

	a->qp_attr_mask |= IBV_QP_SQ_PSN;
	a->sq_psn = id->peer.psn;
	if (id->qp_type == IBV_QPT_RC || id->qp_type == IBV_QPT_XRC_SEND) {
		a->qp_attr_mask |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				   IBV_QP_MAX_QP_RD_ATOMIC;
		a->retry_cnt =
		    is_active ? id->own.retry_count : id->peer.retry_count;
		a->rnr_retry = id->peer.rnr_retry_count;
		a->max_rd_atomic =
		    (uint8_t)MIN(id->own.initiator_depth, MAX_RD_ATOMIC);
	}
	if (is_connected_kind(id) && id->qp_type != IBV_QPT_UC) {
		a->qp_attr_mask |= IBV_QP_TIMEOUT;
		a->timeout = id->ack_timeout ? id->ack_timeout : TIMEOUT;
	}
}

int cmd_init_qp_attr(struct cm_call *c)
{
	const struct rdma_ucm_init_qp_attr *in = c->in;
	struct cm_id *id = id_get(c->file, in->id);
	struct ib_uverbs_qp_attr out = { .qp_attr_mask = IBV_QP_STATE,
					 .qp_state = in->qp_state };

	if (in->qp_state > IBV_QPS_ERR)
		return -EINVAL;
	if (!id)
		return -ENOENT;
	if (!id->has_device)
		return -EINVAL;
	/* What depends on the other end is known once it has spoken. */
	if (in->qp_state != IBV_QPS_INIT && is_connected_kind(id) &&
	    !id->peer.qp_type)
		return -EINVAL;
	switch (in->qp_state) {
	case IBV_QPS_INIT:
		put_init(&out, id);
		break;
	case IBV_QPS_RTR:
		if (is_connected_kind(id))
			put_rtr(&out, id);
		break;
	case IBV_QPS_RTS:
		put_rts(&out, id);
		break;
	default:
		return -EINVAL;
	}
	c->response = in->response;
	return call_reply(c, &out, sizeof(out), sizeof(out));
}
