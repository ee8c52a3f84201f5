/* SPDX-License-Identifier: MIT */
/* api/verbs/driver/verbs.c - devices, contexts and objects of osf-verbs; see verbs.h */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/verbs/driver/verbs.h"

#define PORT 1
#define SGES 4u
#define RETRIES 7 /* of RNR: for ever */
#define TIMEOUT 14

/* Allocates an object for @verbs, which is the result of a call of libibverbs. */
static void *object_for(const void *verbs, size_t size)
{
	void *object = verbs ? calloc(1, size) : NULL;

	if (verbs && !object)
		errno = ENOMEM;
	return object;
}

static int query_device(struct osf_context *context,
			struct osf_device_attr *attr)
{
	struct ibv_device_attr of;
	int err = ibv_query_device(verbs_of(context), &of);

	if (err)
		return -err;
	*attr = (struct osf_device_attr){ .max_qp = (uint32_t)of.max_qp,
					  .max_cq = (uint32_t)of.max_cq,
					  .max_mr = (uint32_t)of.max_mr,
					  .max_sge = SGES,
					  .max_qp_wr = (uint32_t)of.max_qp_wr,
					  .max_cqe = (uint32_t)of.max_cqe };
	return 0;
}

static struct osf_pd *alloc_pd(struct osf_context *context)
{
	struct ibv_pd *of = ibv_alloc_pd(verbs_of(context));
	struct verbs_pd *pd = object_for(of, sizeof(*pd));

	if (!pd) {
		if (of)
			ibv_dealloc_pd(of);
		return NULL;
	}
	pd->verbs = of;
	return &pd->pd;
}

static int dealloc_pd(struct osf_pd *pd)
{
	int err = ibv_dealloc_pd(((struct verbs_pd *)pd)->verbs);

	if (!err)
		free(pd);
	return -err;
}

static struct osf_mr *reg_mr(struct osf_pd *pd, void *addr, size_t length)
{
	struct ibv_mr *of = ibv_reg_mr(((struct verbs_pd *)pd)->verbs, addr,
				       length, IBV_ACCESS_LOCAL_WRITE);
	struct verbs_mr *mr = object_for(of, sizeof(*mr));

	if (!mr) {
		if (of)
			ibv_dereg_mr(of);
		return NULL;
	}
	mr->verbs = of;
	mr->mr.lkey = of->lkey;
	mr->mr.rkey = of->rkey;
	return &mr->mr;
}

static int dereg_mr(struct osf_mr *mr)
{
	int err = ibv_dereg_mr(((struct verbs_mr *)mr)->verbs);

	if (!err)
		free(mr);
	return -err;
}

static struct osf_cq *create_cq(struct osf_context *context, int cqe)
{
	struct ibv_cq *of =
	    ibv_create_cq(verbs_of(context), cqe, NULL, NULL, 0);
	struct verbs_cq *cq = object_for(of, sizeof(*cq));

	if (!cq) {
		if (of)
			ibv_destroy_cq(of);
		return NULL;
	}
	cq->verbs = of;
	return &cq->cq;
}

static int destroy_cq(struct osf_cq *cq)
{
	int err = ibv_destroy_cq(((struct verbs_cq *)cq)->verbs);

	if (!err)
		free(cq);
	return -err;
}

static int to_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
				    .port_num = PORT };

	return ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				 IBV_QP_ACCESS_FLAGS);
}

static int destroy_qp(struct osf_qp *qp)
{
	int err = ibv_destroy_qp(((struct verbs_qp *)qp)->verbs);

	if (!err)
		free(qp);
	return -err;
}

static struct osf_qp *create_qp(struct osf_pd *pd,
				const struct osf_qp_init_attr *attr)
{
	struct ibv_qp_init_attr init = {
		.send_cq = ((struct verbs_cq *)attr->send_cq)->verbs,
		.recv_cq = ((struct verbs_cq *)attr->recv_cq)->verbs,
		.cap = { .max_send_wr = attr->max_send_wr,
			 .max_recv_wr = attr->max_recv_wr,
			 .max_send_sge = SGES,
			 .max_recv_sge = SGES },
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *of =
	    ibv_create_qp(((struct verbs_pd *)pd)->verbs, &init);
	struct verbs_qp *qp = object_for(of, sizeof(*qp));
	int err = qp ? to_init(of) : 0;

	if (!qp || err) {
		free(qp);
		if (of)
			ibv_destroy_qp(of);
		errno = err ? err : errno;
		return NULL;
	}
	qp->verbs = of;
	qp->qp.qp_num = of->qp_num;
	qp->open = (const struct verbs_open *)pd->context;
	return &qp->qp;
}

static int connect_qp(struct osf_qp *qp, uint32_t dest_qp_num)
{
	struct verbs_qp *q = (struct verbs_qp *)qp;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR,
				    .path_mtu = q->open->mtu,
				    .dest_qp_num = dest_qp_num,
				    .min_rnr_timer = 1,
				    .ah_attr = q->open->self };
	int err =
	    ibv_modify_qp(q->verbs, &attr,
			  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
			      IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);

	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS,
				     .timeout = TIMEOUT,
				     .retry_cnt = RETRIES,
				     .rnr_retry = RETRIES };
	if (!err)
		err =
		    ibv_modify_qp(q->verbs, &attr,
				  IBV_QP_STATE | IBV_QP_TIMEOUT |
				      IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				      IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
	return -err;
}

/*
 * Devices and contexts.
 */

static const struct osf_context_ops ops = {
	query_device,    alloc_pd,        dealloc_pd,    reg_mr,     dereg_mr,
	create_cq,       destroy_cq,      create_qp,     connect_qp, destroy_qp,
	verbs_post_send, verbs_post_recv, verbs_poll_cq,
};

/* Finds the address by which a QP of this device reaches another: the first GID that is not
 * zero, or the local identifier on links that have one. */
static int find_self(struct verbs_open *c)
{
	static const union ibv_gid none;
	struct ibv_port_attr port;
	int err = ibv_query_port(c->verbs, PORT, &port);

	if (err)
		return -err;
	c->mtu = port.active_mtu;
	c->self = (struct ibv_ah_attr){ .port_num = PORT, .dlid = port.lid };
	if (port.link_layer != IBV_LINK_LAYER_ETHERNET)
		return 0;
	c->self.is_global = 1;
	c->self.grh.hop_limit = 1;
	for (int i = 0; i < port.gid_tbl_len; i++) {
		if (ibv_query_gid(c->verbs, PORT, i, &c->self.grh.dgid) ||
		    !memcmp(&c->self.grh.dgid, &none, sizeof(none)))
			continue;
		c->self.grh.sgid_index = (uint8_t)i;
		return 0;
	}
	return -EADDRNOTAVAIL;
}

static struct ibv_context *open_named(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *verbs = NULL;

	for (int i = 0; list && list[i] && !verbs; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			verbs = ibv_open_device(list[i]);
	if (list)
		ibv_free_device_list(list);
	return verbs;
}

static void driver_uninit(struct osf_context *context)
{
	ibv_close_device(verbs_of(context));
}

static int driver_init(struct osf_device *device, struct osf_context *context)
{
	struct verbs_open *c = (struct verbs_open *)context;
	int err;

	c->verbs = open_named(device->name);
	err = c->verbs ? find_self(c) : -ENODEV;
	if (err) {
		if (c->verbs)
			driver_uninit(context);
		return err;
	}
	context->ops = ops;
	verbs_fill_ex(osf_get_ctx_ex(context));
	return 0;
}

/* A library from before the scheme cannot hold what we keep with a context. */
int osf_driver_entry(void)
{
	static const struct osf_driver_init_ex init = { driver_init,
							driver_uninit };
	struct ibv_device **list =
	    osf_register_driver_ex ? ibv_get_device_list(NULL) : NULL;
	int err = -ENODEV;

	for (int i = 0; list && list[i]; i++)
		err = osf_register_driver_ex(
		    ibv_get_device_name(list[i]), &init, sizeof(init),
		    sizeof(struct verbs_open) - sizeof(struct osf_context));
	if (list)
		ibv_free_device_list(list);
	return err;
}
