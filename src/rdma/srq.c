/* SPDX-License-Identifier: MIT */
/*
 * rdma/srq.c - shared receive queues
 *
 * A shared receive queue is memory of this process alone: the process decides which queue
 * pair gets a receive when it reads the message from the ring.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rdma/xrc.h"

struct ibv_srq *rdma_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *a)
{
	if (!a->attr.max_wr || a->attr.max_wr > MAX_WR ||
	    a->attr.max_sge > N_SGE) {
		errno = EINVAL;
		return NULL;
	}
	struct srq *srq = calloc(1, sizeof(*srq));
	if (!srq)
		return NULL;
	a->attr.max_sge = MAX(a->attr.max_sge, 1u);
	srq->max_wr = a->attr.max_wr;
	srq->max_sge = a->attr.max_sge;
	srq->size = pow2_above(srq->max_wr);
	srq->rq_bytes = rwqe_bytes(srq->max_sge);
	srq->rq = calloc(srq->size, srq->rq_bytes);
	if (!srq->rq) {
		free(srq);
		errno = ENOMEM;
		return NULL;
	}
	srq->srq = (struct ibv_srq){ .context = pd->context,
				     .srq_context = a->srq_context,
				     .pd = pd };
	pthread_mutex_init(&srq->srq.mutex, NULL);
	pthread_cond_init(&srq->srq.cond, NULL);
	fetch_add(&container_of(pd, struct pd, pd)->n_refs, 1);
	fetch_add(&ctx_of(pd->context)->n_objects, 1);
	return &srq->srq;
}

int rdma_modify_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *a, int mask)
{
	struct srq *srq = container_of(ibsrq, struct srq, srq);
	GUARD(&srq->lock);

	if (mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT))
		return EINVAL;
	if (mask & IBV_SRQ_MAX_WR)
		return EOPNOTSUPP; /* the device cannot resize it */
	if (mask & IBV_SRQ_LIMIT) {
		if (a->srq_limit > srq->max_wr)
			return EINVAL;
		srq->limit = a->srq_limit;
		if (srq->head - srq->tail < srq->limit) {
			srq->limit = 0;
			event_add(ctx_of(ibsrq->context),
				  IBV_EVENT_SRQ_LIMIT_REACHED, srq);
		}
	}
	return 0;
}

int rdma_query_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *a)
{
	struct srq *srq = container_of(ibsrq, struct srq, srq);
	GUARD(&srq->lock);

	*a = (struct ibv_srq_attr){ .max_wr = srq->max_wr,
				    .max_sge = srq->max_sge,
				    .srq_limit = srq->limit };
	return 0;
}

int rdma_destroy_srq(struct ibv_srq *ibsrq)
{
	struct srq *srq = container_of(ibsrq, struct srq, srq);

	if (load_acq(&srq->n_refs))
		return EBUSY;
	if (srq->xrc)
		xrc_remove_srq(srq);
	event_forget(ctx_of(ibsrq->context), srq);
	pthread_mutex_lock(&ibsrq->mutex);
	while (ibsrq->events_completed != srq->n_async)
		pthread_cond_wait(&ibsrq->cond, &ibsrq->mutex);
	pthread_mutex_unlock(&ibsrq->mutex);
	pthread_cond_destroy(&ibsrq->cond);
	pthread_mutex_destroy(&ibsrq->mutex);
	fetch_sub(&container_of(ibsrq->pd, struct pd, pd)->n_refs, 1);
	fetch_sub(&ctx_of(ibsrq->context)->n_objects, 1);
	free(srq->rq);
	free(srq);
	return 0;
}

static struct rwqe *rqe(const struct srq *srq, uint32_t i)
{
	return (void *)(srq->rq + (i & (srq->size - 1)) * srq->rq_bytes);
}

int rdma_post_srq_recv(struct ibv_srq *ibsrq, struct ibv_recv_wr *wr,
		       struct ibv_recv_wr **bad)
{
	struct srq *srq = container_of(ibsrq, struct srq, srq);
	int err = 0;
	GUARD(&srq->lock);

	if (ctx_of(ibsrq->context)->generation != self_generation())
		err = EINVAL;
	for (; wr && !err; wr = wr->next) {
		if (srq->head - srq->tail >= srq->max_wr)
			err = ENOMEM;
		else
			err = rwqe_fill(rqe(srq, srq->head), wr, srq->max_sge);
		if (err)
			break;
		srq->head++;
	}
	if (err)
		*bad = wr;
	return err;
}

bool srq_take(struct srq *srq, struct rwqe *out)
{
	bool is_low;

	lock_get(&srq->lock);
	if (srq->head == srq->tail) {
		lock_put(&srq->lock);
		return false;
	}
	const struct rwqe *w = rqe(srq, srq->tail++);
	memcpy(out, w, rwqe_bytes(w->n_sge));
	is_low = srq->limit && srq->head - srq->tail < srq->limit;
	if (is_low)
		srq->limit = 0; /* one event for each time it is set */
	lock_put(&srq->lock);
	if (is_low)
		event_add(ctx_of(srq->srq.context), IBV_EVENT_SRQ_LIMIT_REACHED,
			  srq);
	return true;
}
