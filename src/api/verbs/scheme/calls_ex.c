/* SPDX-License-Identifier: MIT */
/*
 * api/verbs/scheme/calls_ex.c - the calls of generation 1
 *
 * Each call refuses what the library does not know, clears the outputs as far
 * as the program's structure reaches, and calls the driver.  For a driver that
 * lacks the call, the library makes the older call, if that can do what the
 * program asked for.
 */
#include <errno.h>
#include <string.h>

#include "api/verbs/scheme/scheme_ex.h"

int lib_query_device_ex(struct osf_context *context,
			struct osf_device_attr_ex *attr, size_t attr_size)
{
	struct osf_context_ex *ex = osf_get_ctx_ex(context);

	if (!OSF_SIZE_HAS(attr_size, struct osf_device_attr_ex, comp_mask))
		return -EINVAL;
	memset(attr, 0, attr_size);
	if (!ex->drv_query_device_ex)
		return context->ops.query_device(context, &attr->orig);
	return ex->drv_query_device_ex(context, attr,
				       MIN(attr_size, sizeof(*attr)));
}

struct osf_cq *lib_create_cq_ex(struct osf_context *context,
				const struct osf_cq_init_attr_ex *attr)
{
	struct osf_context_ex *ex = osf_get_ctx_ex(context);
	struct osf_cq *cq = NULL;

	if (!cq_attr_is_known(attr))
		errno = EINVAL;
	else if (ex->drv_create_cq_ex)
		cq = ex->drv_create_cq_ex(context, attr);
	else if (!attr->comp_mask)
		cq = context->ops.create_cq(context, attr->cqe);
	else
		errno = ENOSYS;
	return cq_fill(cq, context, attr->cqe, attr->cq_context);
}

int lib_poll_cq_ex(struct osf_cq *cq, int n, struct osf_wc_ex *wc,
		   size_t wc_size)
{
	struct osf_context_ex *ex = osf_get_ctx_ex(cq->context);

	if (!OSF_SIZE_HAS(wc_size, struct osf_wc_ex, comp_mask))
		return -EINVAL;
	if (ex->drv_poll_cq_ex)
		return ex->drv_poll_cq_ex(cq, n, wc, wc_size);
	for (int i = 0; i < n; i++) {
		struct osf_wc_ex *to =
		    OSF_ELEMENT(struct osf_wc_ex, wc, i, wc_size);
		int got = cq->context->ops.poll_cq(cq, 1, &to->orig);

		if (got <= 0)
			return i ? i : got;
		to->comp_mask = 0;
	}
	return n;
}

/* Through the call from before.  Return: as osf_post_send_ex(). */
static int post_each(struct osf_qp *qp, const struct osf_send_wr_ex *wr, int n,
		     size_t wr_size)
{
	for (int i = 0; i < n; i++) {
		const struct osf_send_wr_ex *from =
		    OSF_ELEMENT(const struct osf_send_wr_ex, wr, i, wr_size);
		struct osf_send_wr one = { .wr_id = from->wr_id,
					   .sg_list = from->sg_list,
					   .num_sge = from->num_sge,
					   .send_flags = from->send_flags };
		struct osf_send_wr *bad;
		int err =
		    from->comp_mask ? -ENOSYS : osf_post_send(qp, &one, &bad);

		if (err)
			return i ? i : err;
	}
	return n;
}

int lib_post_send_ex(struct osf_qp *qp, const struct osf_send_wr_ex *wr, int n,
		     size_t wr_size)
{
	struct osf_context_ex *ex = osf_get_ctx_ex(qp->context);
	int n_known = 0;

	if (n < 0 || !OSF_SIZE_HAS(wr_size, struct osf_send_wr_ex, comp_mask))
		return -EINVAL;
	while (n_known < n &&
	       !(OSF_ELEMENT(const struct osf_send_wr_ex, wr, n_known, wr_size)
		     ->comp_mask &
		 ~OSF_SEND_WR_KNOWN))
		n_known++;
	if (!n_known)
		return n ? -EINVAL : 0;
	return ex->drv_post_send_ex
		   ? ex->drv_post_send_ex(qp, wr, n_known, wr_size)
		   : post_each(qp, wr, n_known, wr_size);
}
