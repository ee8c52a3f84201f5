/* SPDX-License-Identifier: MIT */
/* api/verbs/driver/loop_qp.c - queue pairs, and what is posted; see loop.h */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/verbs/driver/loop.h"

struct loop_qp *loop_qps[LOOP_QPS]; /* by number; 0 is none */

static int queue_init(struct loop_queue *q, uint32_t size, struct osf_cq *cq)
{
	q->wr = loop_alloc((size_t)(size ? size : 1) * sizeof(*q->wr));
	q->size = size;
	q->cq = (struct loop_cq *)cq;
	return q->wr ? 0 : -ENOMEM;
}

/* Also of one that is half made. */
static void qp_free(struct loop_qp *qp)
{
	free(qp->sends.wr);
	free(qp->recvs.wr);
	free(qp);
}

static bool number_locked(struct loop_qp *qp)
{
	for (uint32_t i = 1; i < LOOP_QPS; i++) {
		if (loop_qps[i])
			continue;
		loop_qps[i] = qp;
		qp->qp.qp_num = i;
		return true;
	}
	return false;
}

struct osf_qp *loop_create_qp(struct osf_pd *pd,
			      const struct osf_qp_init_attr *attr)
{
	struct loop_qp *qp;

	if (!attr->send_cq || !attr->recv_cq || attr->max_send_wr > LOOP_WRS ||
	    attr->max_recv_wr > LOOP_WRS) {
		errno = EINVAL;
		return NULL;
	}
	qp = loop_alloc(sizeof(*qp));
	if (!qp)
		return NULL;
	LOOP_GUARD();
	if (queue_init(&qp->sends, attr->max_send_wr, attr->send_cq) ||
	    queue_init(&qp->recvs, attr->max_recv_wr, attr->recv_cq) ||
	    !number_locked(qp)) {
		qp_free(qp);
		errno = ENOMEM;
		return NULL;
	}
	qp->pd = pd;
	((struct loop_pd *)pd)->n_users++;
	qp->sends.cq->n_users++;
	qp->recvs.cq->n_users++;
	return &qp->qp;
}

int loop_connect_qp(struct osf_qp *qp, uint32_t dest_qp_num)
{
	struct loop_qp *a = (struct loop_qp *)qp;
	LOOP_GUARD();

	if (a->peer)
		return -EISCONN;
	if (dest_qp_num >= LOOP_QPS || !loop_qps[dest_qp_num])
		return -EHOSTUNREACH;
	a->peer = loop_qps[dest_qp_num];
	loop_progress_locked(a->peer);
	return 0;
}

int loop_destroy_qp(struct osf_qp *qp)
{
	struct loop_qp *a = (struct loop_qp *)qp;
	LOOP_GUARD();

	loop_qps[a->qp.qp_num] = NULL;
	for (uint32_t i = 1; i < LOOP_QPS; i++) {
		struct loop_qp *b = loop_qps[i];

		if (!b || b->peer != a)
			continue;
		loop_fail_locked(b);
		b->peer = NULL;
	}
	((struct loop_pd *)a->pd)->n_users--;
	a->sends.cq->n_users--;
	a->recvs.cq->n_users--;
	qp_free(a);
	return 0;
}

int loop_wr_sges(struct loop_wr *wr, const struct osf_sge *sge, int n)
{
	if (n < 0 || (unsigned)n > LOOP_SGES)
		return -EINVAL;
	wr->n_sges = (uint32_t)n;
	for (int i = 0; i < n; i++)
		wr->sge[i] = sge[i];
	return 0;
}

static int queue_put(struct loop_queue *q, const struct loop_wr *wr)
{
	if (q->n == q->size)
		return -ENOMEM;
	q->wr[(q->head + q->n++) % q->size] = *wr;
	return 0;
}

int loop_send_locked(struct loop_qp *qp, struct loop_wr *wr)
{
	int err;

	if (!qp->peer && !qp->is_error)
		return -ENOTCONN;
	wr->fault = loop_fault_of_send_locked();
	err = wr->fault == LOOP_FULL ? -ENOMEM : queue_put(&qp->sends, wr);
	if (err)
		return err;
	if (qp->is_error)
		loop_fail_locked(qp);
	else
		loop_progress_locked(qp);
	return 0;
}

int loop_post_send(struct osf_qp *qp, struct osf_send_wr *wr,
		   struct osf_send_wr **bad_wr)
{
	LOOP_GUARD();

	for (; wr; wr = wr->next) {
		struct loop_wr one = { .wr_id = wr->wr_id,
				       .flags = wr->send_flags };
		int err = loop_wr_sges(&one, wr->sg_list, wr->num_sge);

		if (!err)
			err = loop_send_locked((struct loop_qp *)qp, &one);
		if (err) {
			*bad_wr = wr;
			return err;
		}
	}
	return 0;
}

int loop_post_recv(struct osf_qp *qp, struct osf_recv_wr *wr,
		   struct osf_recv_wr **bad_wr)
{
	struct loop_qp *b = (struct loop_qp *)qp;
	LOOP_GUARD();

	for (; wr; wr = wr->next) {
		struct loop_wr one = { .wr_id = wr->wr_id };
		int err = loop_wr_sges(&one, wr->sg_list, wr->num_sge);

		if (!err)
			err = queue_put(&b->recvs, &one);
		if (err) {
			*bad_wr = wr;
			return err;
		}
		if (b->is_error)
			loop_fail_locked(b);
		else if (b->peer)
			loop_progress_locked(b->peer);
	}
	return 0;
}
