/* SPDX-License-Identifier: MIT */
/* api/verbs/driver/loop.c - the device, its pds and its memory; see loop.h */
#include <errno.h>
#include <stdlib.h>

#include "api/verbs/driver/loop.h"

pthread_mutex_t loop_lock = PTHREAD_MUTEX_INITIALIZER;
static struct loop_mr *mrs[LOOP_MRS];

void *loop_alloc(size_t size)
{
	void *p = loop_fault_of_memory() ? NULL : calloc(1, size);

	if (!p)
		errno = ENOMEM;
	return p;
}

static int query_device(struct osf_context *context,
			struct osf_device_attr *attr)
{
	*attr = (struct osf_device_attr){ .max_qp = LOOP_QPS,
					  .max_cq = 65536,
					  .max_mr = LOOP_MRS,
					  .max_sge = LOOP_SGES,
					  .max_qp_wr = LOOP_WRS,
					  .max_cqe = LOOP_CQES };
	return 0;
}

static struct osf_pd *alloc_pd(struct osf_context *context)
{
	struct loop_pd *pd = loop_alloc(sizeof(*pd));

	return pd ? &pd->pd : NULL;
}

static int dealloc_pd(struct osf_pd *pd)
{
	struct loop_pd *p = (struct loop_pd *)pd;
	LOOP_GUARD();

	if (p->n_users)
		return -EBUSY;
	free(p);
	return 0;
}

static struct osf_mr *reg_mr(struct osf_pd *pd, void *addr, size_t length)
{
	struct loop_mr *mr = loop_alloc(sizeof(*mr));

	if (!mr)
		return NULL;
	LOOP_GUARD();
	for (uint32_t i = 0; i < LOOP_MRS; i++) {
		if (mrs[i])
			continue;
		mrs[i] = mr;
		mr->mr.lkey = mr->mr.rkey = i + 1;
		mr->pd = pd;
		mr->addr = (uintptr_t)addr;
		mr->length = length;
		((struct loop_pd *)pd)->n_users++;
		return &mr->mr;
	}
	free(mr);
	errno = ENOMEM;
	return NULL;
}

static int dereg_mr(struct osf_mr *mr)
{
	struct loop_mr *m = (struct loop_mr *)mr;
	LOOP_GUARD();

	((struct loop_pd *)m->pd)->n_users--;
	mrs[m->mr.lkey - 1] = NULL;
	free(m);
	return 0;
}

void *loop_bytes_locked(const struct osf_pd *pd, const struct osf_sge *sge)
{
	struct loop_mr *mr =
	    sge->lkey - 1 < LOOP_MRS ? mrs[sge->lkey - 1] : NULL;

	if (!mr || mr->pd != pd || sge->addr < mr->addr ||
	    sge->length > mr->length ||
	    sge->addr - mr->addr > mr->length - sge->length)
		return NULL;
	return (void *)(uintptr_t)sge->addr;
}

const struct osf_context_ops loop_ops = {
	.query_device = query_device,
	.alloc_pd = alloc_pd,
	.dealloc_pd = dealloc_pd,
	.reg_mr = reg_mr,
	.dereg_mr = dereg_mr,
	.create_cq = loop_create_cq,
	.destroy_cq = loop_destroy_cq,
	.create_qp = loop_create_qp,
	.connect_qp = loop_connect_qp,
	.destroy_qp = loop_destroy_qp,
	.post_send = loop_post_send,
	.post_recv = loop_post_recv,
	.poll_cq = loop_poll_cq,
};

/* For a library from before the scheme: the context is ours. */

static struct osf_context *legacy_alloc(struct osf_device *device)
{
	struct osf_context *context = loop_alloc(sizeof(*context));

	if (context)
		context->ops = loop_ops;
	return context;
}

static void legacy_free(struct osf_context *context) { free(context); }

struct osf_device *loop_legacy_device(void)
{
	static const struct osf_device_ops ops = { legacy_alloc, legacy_free };
	static struct osf_device device = { .ops = &ops };

	return &device;
}
