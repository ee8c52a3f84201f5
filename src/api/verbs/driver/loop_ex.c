/* SPDX-License-Identifier: MIT */
/*
 * api/verbs/driver/loop_ex.c - registration, and the calls of generation 1
 *
 *     osf_driver_entry() -> osf_register_driver_ex() -> driver_init()
 *
 * A member of the context is written only if OSF_CTX_HAS() says that this
 * library has it.
 */
#include <errno.h>

#include "api/verbs/driver/loop_ex.h"

static int query_device_ex(struct osf_context *context,
			   struct osf_device_attr_ex *attr, size_t attr_size)
{
	int err = loop_ops.query_device(context, &attr->orig);

	if (err)
		return err;
	attr->comp_mask = 0;
	if (OSF_SIZE_HAS(attr_size, struct osf_device_attr_ex, max_inline)) {
		attr->max_inline = LOOP_INLINE;
		attr->comp_mask |= OSF_DEVICE_ATTR_INLINE;
	}
	loop_device_attr_more(attr, attr_size);
	return 0;
}

static struct osf_cq *create_cq_ex(struct osf_context *context,
				   const struct osf_cq_init_attr_ex *attr)
{
	struct loop_cq *cq = loop_cq_new(attr->cqe);
	int err = cq ? loop_cq_attr_more(cq, attr) : 0;

	if (err) {
		loop_destroy_cq(&cq->cq);
		errno = -err;
		return NULL;
	}
	if (cq && attr->comp_mask & OSF_CQ_ATTR_FLAGS)
		cq->ignores_overrun = attr->flags & OSF_CQ_IGNORE_OVERRUN;
	return cq ? &cq->cq : NULL;
}

static int poll_cq_ex(struct osf_cq *cq, int n, struct osf_wc_ex *wc,
		      size_t wc_size)
{
	struct loop_cq *c = (struct loop_cq *)cq;
	struct loop_cqe e;
	int i = 0;
	LOOP_GUARD();

	for (; i < n && loop_take_locked(c, &e); i++) {
		struct osf_wc_ex *to =
		    OSF_ELEMENT(struct osf_wc_ex, wc, i, wc_size);

		to->orig = e.wc;
		to->comp_mask = 0;
		if (e.src_qp &&
		    OSF_SIZE_HAS(wc_size, struct osf_wc_ex, src_qp)) {
			to->src_qp = e.src_qp;
			to->comp_mask |= OSF_WC_EX_SRC_QP;
		}
		loop_wc_more(to, wc_size, c, &e);
	}
	return i ? i : loop_cq_state_locked(c);
}

static int post_send_ex(struct osf_qp *qp, const struct osf_send_wr_ex *wr,
			int n, size_t wr_size)
{
	LOOP_GUARD();

	for (int i = 0; i < n; i++) {
		const struct osf_send_wr_ex *from =
		    OSF_ELEMENT(const struct osf_send_wr_ex, wr, i, wr_size);
		struct loop_wr one = { .wr_id = from->wr_id,
				       .flags = from->send_flags };
		int err = loop_wr_sges(&one, from->sg_list, from->num_sge);

		if (!err)
			err = loop_send_wr_more(&one, from);
		if (!err)
			err = loop_send_locked((struct loop_qp *)qp, &one);
		if (err)
			return i ? i : err;
	}
	return n;
}

static int driver_init(struct osf_device *device, struct osf_context *context)
{
	struct osf_context_ex *ex = osf_get_ctx_ex(context);

	context->ops = loop_ops;
	if (OSF_CTX_HAS(ex, drv_query_device_ex)) {
		ex->drv_query_device_ex = query_device_ex;
		ex->has_ex |= OSF_HAS_QUERY_DEVICE_EX;
	}
	if (OSF_CTX_HAS(ex, drv_create_cq_ex)) {
		ex->drv_create_cq_ex = create_cq_ex;
		ex->has_ex |= OSF_HAS_CREATE_CQ_EX;
	}
	if (OSF_CTX_HAS(ex, drv_poll_cq_ex)) {
		ex->drv_poll_cq_ex = poll_cq_ex;
		ex->has_ex |= OSF_HAS_POLL_CQ_EX;
	}
	if (OSF_CTX_HAS(ex, drv_post_send_ex)) {
		ex->drv_post_send_ex = post_send_ex;
		ex->has_ex |= OSF_HAS_POST_SEND_EX;
	}
	loop_context_more(ex);
	return 0;
}

int osf_driver_entry(void)
{
	static const struct osf_driver_init_ex init = { .driver_init =
							    driver_init };
	int err = loop_faults_init();

	if (err)
		return err;
	if (osf_register_driver_ex)
		return osf_register_driver_ex(loop_name, &init, sizeof(init),
					      0);
	return osf_register_driver(loop_name, loop_legacy_device);
}
