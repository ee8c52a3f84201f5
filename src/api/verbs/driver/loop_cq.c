/* SPDX-License-Identifier: MIT */
/* api/verbs/driver/loop_cq.c - completion queues; see loop.h */
#include <errno.h>
#include <stdlib.h>

#include "api/verbs/driver/loop.h"

struct loop_cq *loop_cq_new(int cqe)
{
	struct loop_cq *cq;

	if (cqe < 1 || (unsigned)cqe > LOOP_CQES) {
		errno = EINVAL;
		return NULL;
	}
	cq = loop_alloc(sizeof(*cq));
	if (!cq)
		return NULL;
	cq->size = (uint32_t)cqe;
	cq->ring = loop_alloc(cq->size * sizeof(*cq->ring));
	if (cq->ring)
		return cq;
	free(cq);
	return NULL;
}

struct osf_cq *loop_create_cq(struct osf_context *context, int cqe)
{
	struct loop_cq *cq = loop_cq_new(cqe);

	return cq ? &cq->cq : NULL;
}

int loop_destroy_cq(struct osf_cq *cq)
{
	struct loop_cq *c = (struct loop_cq *)cq;
	LOOP_GUARD();

	if (c->n_users)
		return -EBUSY;
	free(c->ring);
	free(c);
	return 0;
}

void loop_complete_locked(struct loop_cq *cq, struct loop_cqe e)
{
	if (cq->n == cq->size && !cq->ignores_overrun) {
		cq->is_overrun = true;
		return;
	}
	if (cq->n == cq->size) {
		cq->head = (cq->head + 1) % cq->size;
		cq->n--;
	}
	e.ts = loop_stamp(cq);
	cq->ring[(cq->head + cq->n++) % cq->size] = e;
}

bool loop_take_locked(struct loop_cq *cq, struct loop_cqe *e)
{
	if (!cq->n)
		loop_release_locked(cq);
	if (!cq->n)
		return false;
	*e = cq->ring[cq->head];
	cq->head = (cq->head + 1) % cq->size;
	cq->n--;
	return true;
}

int loop_cq_state_locked(const struct loop_cq *cq)
{
	return cq->is_overrun ? -EOVERFLOW : 0;
}

int loop_poll_cq(struct osf_cq *cq, int n, struct osf_wc *wc)
{
	struct loop_cq *c = (struct loop_cq *)cq;
	struct loop_cqe e;
	int i = 0;
	LOOP_GUARD();

	for (; i < n && loop_take_locked(c, &e); i++)
		wc[i] = e.wc;
	return i ? i : loop_cq_state_locked(c);
}
