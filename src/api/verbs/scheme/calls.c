/* SPDX-License-Identifier: MIT */
/*
 * api/verbs/scheme/calls.c - the exported calls: each calls the driver, and fills in
 *                            the members of its objects that the library owns
 */
#include "api/verbs/scheme/scheme.h"

OSF_API int osf_query_device(struct osf_context *context,
			     struct osf_device_attr *attr)
{
	return context->ops.query_device(context, attr);
}

OSF_API struct osf_pd *osf_alloc_pd(struct osf_context *context)
{
	struct osf_pd *pd = context->ops.alloc_pd(context);

	if (pd)
		pd->context = context;
	return pd;
}

OSF_API int osf_dealloc_pd(struct osf_pd *pd)
{
	return pd->context->ops.dealloc_pd(pd);
}

OSF_API struct osf_mr *osf_reg_mr(struct osf_pd *pd, void *addr, size_t length)
{
	struct osf_mr *mr = pd->context->ops.reg_mr(pd, addr, length);

	if (!mr)
		return NULL;
	mr->context = pd->context;
	mr->pd = pd;
	mr->addr = addr;
	mr->length = length;
	return mr;
}

OSF_API int osf_dereg_mr(struct osf_mr *mr)
{
	return mr->context->ops.dereg_mr(mr);
}

struct osf_cq *cq_fill(struct osf_cq *cq, struct osf_context *context, int cqe,
		       void *cq_context)
{
	if (!cq)
		return NULL;
	cq->context = context;
	cq->cqe = cqe;
	cq->cq_context = cq_context;
	return cq;
}

OSF_API struct osf_cq *osf_create_cq(struct osf_context *context, int cqe,
				     void *cq_context)
{
	return cq_fill(context->ops.create_cq(context, cqe), context, cqe,
		       cq_context);
}

OSF_API int osf_destroy_cq(struct osf_cq *cq)
{
	return cq->context->ops.destroy_cq(cq);
}

OSF_API struct osf_qp *osf_create_qp(struct osf_pd *pd,
				     const struct osf_qp_init_attr *attr)
{
	struct osf_qp *qp = pd->context->ops.create_qp(pd, attr);

	if (!qp)
		return NULL;
	qp->context = pd->context;
	qp->pd = pd;
	qp->send_cq = attr->send_cq;
	qp->recv_cq = attr->recv_cq;
	return qp;
}

OSF_API int osf_connect_qp(struct osf_qp *qp, uint32_t dest_qp_num)
{
	return qp->context->ops.connect_qp(qp, dest_qp_num);
}

OSF_API int osf_destroy_qp(struct osf_qp *qp)
{
	return qp->context->ops.destroy_qp(qp);
}
