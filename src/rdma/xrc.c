/* SPDX-License-Identifier: MIT */
/* rdma/xrc.c - see rdma/xrc.h */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/libc.h"
#include "rdma/xrc.h"

struct xrc_domain {
	struct xrc_domain *next;
	dev_t dev;
	ino_t ino;
	bool is_anonymous;
	uint32_t id, n_refs;
	/* Who changes the lists has both. */
	struct lock lock, inner;
	struct qp *qps;
	struct srq *srqs;
};

struct xrcd {
	struct ibv_xrcd xrcd;
	struct xrc_domain *domain;
	struct ibv_cq *cq; /* of receiving queue pairs; stays empty */
	uint32_t n_users;
};

static struct lock lock; /* the list, and numbers of queues */
static struct xrc_domain *domains;

/*
 * Domains.
 */

static struct xrc_domain *find_domain(const struct stat *st)
{
	struct xrc_domain *d = domains;

	while (d && (d->is_anonymous || d->dev != st->st_dev ||
		     d->ino != st->st_ino))
		d = d->next;
	return d;
}

static struct xrc_domain *new_domain(const struct stat *st)
{
	static uint32_t last_id;
	struct xrc_domain *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->is_anonymous = !st;
	d->dev = st ? st->st_dev : 0;
	d->ino = st ? st->st_ino : 0;
	d->id = ++last_id;
	d->next = domains;
	return domains = d;
}

static int get_domain(int fd, int oflags, struct xrc_domain **out)
{
	struct xrc_domain *d = NULL;
	struct stat st;

	if (fd >= 0 && libc.fstat(fd, &st))
		return EBADF;
	GUARD(&lock);
	if (fd >= 0)
		d = find_domain(&st);
	if (d && oflags & O_EXCL)
		return EINVAL; /* as the kernel says it */
	if (!d && fd >= 0 && !(oflags & O_CREAT))
		return EAGAIN;
	d = d ? d : new_domain(fd >= 0 ? &st : NULL);
	if (!d)
		return ENOMEM;
	d->n_refs++;
	*out = d;
	return 0;
}

static void put_domain(struct xrc_domain *d)
{
	GUARD(&lock);
	if (--d->n_refs)
		return;
	for (struct xrc_domain **pd = &domains; *pd; pd = &(*pd)->next)
		if (*pd == d) {
			*pd = d->next;
			break;
		}
	free(d);
}

struct ibv_xrcd *rdma_open_xrcd(struct ibv_context *c,
				struct ibv_xrcd_init_attr *a)
{
	const uint32_t needed =
	    IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
	struct xrcd *x;

	if (a->comp_mask != needed || a->fd < -1 ||
	    a->oflags & ~(O_CREAT | O_EXCL)) {
		errno = a->comp_mask & ~needed ? EOPNOTSUPP : EINVAL;
		return NULL;
	}
	x = calloc(1, sizeof(*x));
	if (!x)
		return NULL;
	int err = get_domain(a->fd, a->oflags, &x->domain);
	if (!err) {
		x->cq = rdma_create_cq(c, 1, NULL, NULL, 0);
		err = x->cq ? 0 : errno;
		if (err)
			put_domain(x->domain);
	}
	if (err) {
		free(x);
		errno = err;
		return NULL;
	}
	x->xrcd.context = c;
	return &x->xrcd;
}

int rdma_close_xrcd(struct ibv_xrcd *ibx)
{
	struct xrcd *x = container_of(ibx, struct xrcd, xrcd);

	if (load_acq(&x->n_users))
		return EBUSY;
	rdma_destroy_cq(x->cq);
	put_domain(x->domain);
	free(x);
	return 0;
}

uint32_t xrc_domain_id(const struct qp *qp)
{
	return qp->xrc->xrcd->domain->id;
}

/*
 * Shared receive queues.
 */

/* A free place in the directory, filled in; the number last. */
static uint32_t export_srq(const struct srq *srq, const struct xrc_srq *xrc)
{
	struct self *s = self_get();

	if (!s)
		return 0;
	GUARD(&s->lock);
	for (uint32_t i = 0; i < N_SRQS; i++) {
		struct x_srq *x = &s->dir->srq[i];

		if (x->num)
			continue;
		x->domain = xrc->xrcd->domain->id;
		x->pd = srq->srq.pd->handle;
		x->cq = xrc->cq->idx;
		store_rel(&x->num, s->block << QPN_BITS | i);
		return x->num;
	}
	return 0;
}

/* Every queue pair of the domain moves on when the queue's completion queue is polled. */
static int add_srq(struct xrc_domain *d, struct srq *srq)
{
	struct qp *done = d->qps;
	GUARD(&d->lock);

	for (; done; done = done->xrc->next)
		if (cq_add_user(srq->xrc->cq, done))
			break;
	for (struct qp *qp = d->qps; done && qp != done; qp = qp->xrc->next)
		cq_remove_user(srq->xrc->cq, qp);
	if (done)
		return -ENOMEM;
	GUARD(&d->inner);
	srq->xrc->next = d->srqs;
	d->srqs = srq;
	return 0;
}

static bool make_xrc(struct srq *srq, struct ibv_srq_init_attr_ex *a)
{
	struct xrc_srq *xrc = calloc(1, sizeof(*xrc));

	if (!xrc)
		return false;
	xrc->xrcd = container_of(a->xrcd, struct xrcd, xrcd);
	xrc->cq = container_of(a->cq, struct cq, cq);
	srq->xrc = xrc;
	xrc->num = export_srq(srq, xrc);
	if (xrc->num && !add_srq(xrc->xrcd->domain, srq)) {
		fetch_add(&xrc->xrcd->n_users, 1);
		fetch_add(&xrc->cq->n_srqs, 1);
		return true;
	}
	if (xrc->num)
		store_rel(&self_current->dir->srq[xrc->num % N_SRQS].num, 0);
	srq->xrc = NULL;
	free(xrc);
	return false;
}

struct ibv_srq *rdma_create_srq_ex(struct ibv_context *c,
				   struct ibv_srq_init_attr_ex *a)
{
	const uint32_t xrc = IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
	enum ibv_srq_type type = a->comp_mask & IBV_SRQ_INIT_ATTR_TYPE
				     ? a->srq_type
				     : IBV_SRQT_BASIC;

	if (type != IBV_SRQT_BASIC && type != IBV_SRQT_XRC) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	if (!(a->comp_mask & IBV_SRQ_INIT_ATTR_PD) || !a->pd ||
	    (type == IBV_SRQT_XRC &&
	     ((a->comp_mask & xrc) != xrc || !a->xrcd || !a->cq))) {
		errno = EINVAL;
		return NULL;
	}
	struct ibv_srq_init_attr old = { a->srq_context, a->attr };
	struct ibv_srq *ibsrq = rdma_create_srq(a->pd, &old);
	if (!ibsrq)
		return NULL;
	a->attr = old.attr;
	if (type == IBV_SRQT_BASIC ||
	    make_xrc(container_of(ibsrq, struct srq, srq), a))
		return ibsrq;
	rdma_destroy_srq(ibsrq);
	errno = ENOMEM;
	return NULL;
}

int rdma_get_srq_num(struct ibv_srq *ibsrq, uint32_t *num)
{
	struct srq *srq = container_of(ibsrq, struct srq, srq);

	if (!srq->xrc)
		return EOPNOTSUPP;
	*num = srq->xrc->num;
	return 0;
}

static void unlink_srq(struct xrc_domain *d, struct srq *srq)
{
	GUARD(&d->inner);
	struct srq **ps = &d->srqs;

	while (*ps != srq)
		ps = &(*ps)->xrc->next;
	*ps = srq->xrc->next;
}

/* A message that is half there ends its queue pair. */
void xrc_remove_srq(struct srq *srq)
{
	struct xrc_srq *xrc = srq->xrc;
	struct xrc_domain *d = xrc->xrcd->domain;

	if (ctx_of(srq->srq.context)->generation == self_generation())
		store_rel(&self_current->dir->srq[xrc->num % N_SRQS].num, 0);
	lock_get(&d->lock);
	unlink_srq(d, srq);
	for (struct qp *qp = d->qps; qp; qp = qp->xrc->next) {
		cq_remove_user(xrc->cq, qp);
		GUARD(&qp->lock);
		if (qp->in.wqe && qp->in.srq == srq) {
			qp->in.wqe = NULL;
			qp_fail(qp);
		}
	}
	lock_put(&d->lock);
	fetch_sub(&xrc->cq->n_srqs, 1);
	fetch_sub(&xrc->xrcd->n_users, 1);
	free(xrc);
}

/*
 * Receiving queue pairs.
 */

struct ibv_qp *xrc_create_qp(struct ibv_context *c,
			     struct ibv_qp_init_attr_ex *a)
{
	struct ibv_qp_init_attr old = { .qp_context = a->qp_context,
					.qp_type = IBV_QPT_XRC_RECV };
	struct qp_xrc *xrc;

	if (!(a->comp_mask & IBV_QP_INIT_ATTR_XRCD) || !a->xrcd) {
		errno = EINVAL;
		return NULL;
	}
	xrc = calloc(1, sizeof(*xrc));
	if (!xrc)
		return NULL;
	xrc->xrcd = container_of(a->xrcd, struct xrcd, xrcd);
	old.send_cq = old.recv_cq = xrc->xrcd->cq;
	struct ibv_qp *qp = qp_new(c, NULL, &old, xrc);
	if (qp)
		memset(&a->cap, 0, sizeof(a->cap));
	return qp;
}

int xrc_join(struct qp *qp)
{
	struct xrc_domain *d = qp->xrc->xrcd->domain;
	GUARD(&d->lock);
	struct srq *done = d->srqs;

	for (; done; done = done->xrc->next)
		if (cq_add_user(done->xrc->cq, qp))
			break;
	for (struct srq *s = d->srqs; done && s != done; s = s->xrc->next)
		cq_remove_user(s->xrc->cq, qp);
	if (done)
		return -ENOMEM;
	GUARD(&d->inner);
	qp->xrc->next = d->qps;
	d->qps = qp;
	fetch_add(&qp->xrc->xrcd->n_users, 1);
	return 0;
}

static void unlink_qp(struct xrc_domain *d, struct qp *qp)
{
	GUARD(&d->inner);
	struct qp **pq = &d->qps;

	while (*pq != qp)
		pq = &(*pq)->xrc->next;
	*pq = qp->xrc->next;
}

void xrc_leave(struct qp *qp)
{
	struct xrc_domain *d = qp->xrc->xrcd->domain;
	GUARD(&d->lock);

	unlink_qp(d, qp);
	for (struct srq *s = d->srqs; s; s = s->xrc->next)
		cq_remove_user(s->xrc->cq, qp);
	fetch_sub(&qp->xrc->xrcd->n_users, 1);
}

void xrc_watch(struct qp *qp, struct peer *p)
{
	struct xrc_domain *d = qp->xrc->xrcd->domain;
	GUARD(&d->inner);

	for (struct srq *s = d->srqs; s; s = s->xrc->next)
		channel_watch(s->xrc->cq->cq.channel, p);
}

static struct qp *find_qp(struct xrc_domain *d, uint32_t qpn)
{
	struct qp *qp = d->qps;

	while (qp && qp->qp.qp_num != qpn)
		qp = qp->xrc->next;
	return qp;
}

struct ibv_qp *rdma_open_qp(struct ibv_context *c, struct ibv_qp_open_attr *a)
{
	const uint32_t needed = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD |
				IBV_QP_OPEN_ATTR_TYPE;

	if ((a->comp_mask & needed) != needed || !a->xrcd ||
	    a->comp_mask >= IBV_QP_OPEN_ATTR_RESERVED ||
	    a->qp_type != IBV_QPT_XRC_RECV) {
		errno = EINVAL;
		return NULL;
	}
	struct xrcd *x = container_of(a->xrcd, struct xrcd, xrcd);
	struct qp *handle = calloc(1, sizeof(*handle));
	struct qp_xrc *xrc = calloc(1, sizeof(*xrc));
	lock_get(&x->domain->lock);
	struct qp *qp = find_qp(x->domain, a->qp_num);
	if (!handle || !xrc || !qp || qp->generation != self_generation()) {
		lock_put(&x->domain->lock);
		errno = handle && xrc ? EINVAL : ENOMEM;
		free(handle);
		free(xrc);
		return NULL;
	}
	qp->xrc->n_handles++;
	lock_put(&x->domain->lock);
	*xrc = (struct qp_xrc){ .xrcd = x, .real = qp };
	handle->fd = -1;
	handle->generation = qp->generation;
	handle->xrc = xrc;
	handle->init.qp_type = IBV_QPT_XRC_RECV;
	handle->qp = (struct ibv_qp){ .context = c,
				      .qp_num = qp->qp.qp_num,
				      .handle = qp->qp.handle,
				      .state = qp->qp.state,
				      .qp_type = IBV_QPT_XRC_RECV };
	if (a->comp_mask & IBV_QP_OPEN_ATTR_CONTEXT)
		handle->qp.qp_context = a->qp_context;
	fetch_add(&x->n_users, 1);
	return &handle->qp;
}

bool xrc_close_handle(struct qp **qp)
{
	struct qp *handle = *qp, *real = qp_real(handle);
	GUARD(&real->xrc->xrcd->domain->lock);

	if (handle == real) {
		real->xrc->is_closed = real->xrc->n_handles > 0;
		if (real->xrc->is_closed)
			event_forget(ctx_of(real->qp.context), real);
		return !real->xrc->is_closed;
	}
	fetch_sub(&handle->xrc->xrcd->n_users, 1);
	free(handle->xrc);
	free(handle);
	*qp = real;
	return !--real->xrc->n_handles && real->xrc->is_closed;
}

/*
 * Messages.
 */

bool xrc_aim(struct qp *qp, const struct swqe *w, const struct x_qp *t,
	     uint32_t *pd)
{
	struct remote *r = &qp->remote;
	const struct x_srq *x = &r->peer->dir->srq[w->dest_qpn % N_SRQS];
	uint32_t cq = load_rlx(&x->cq);

	if (!w->dest_qpn || load_acq(&x->num) != w->dest_qpn ||
	    load_rlx(&x->domain) != load_rlx(&t->domain) || cq >= N_CQS)
		return false;
	if (r->recv_cq != cq) { /* its bell has numbers of its own */
		r->recv_cq = cq;
		r->bell[BELL_RECV].arm = 0;
	}
	*pd = load_rlx(&x->pd);
	return true;
}

/* The caller holds the inner lock. */
static struct srq *find_srq(const struct xrc_domain *d, uint32_t num)
{
	struct srq *s = d->srqs;

	while (s && s->xrc->num != num)
		s = s->xrc->next;
	return s;
}

bool xrc_take(struct qp *qp, uint32_t num)
{
	struct xrc_domain *d = qp->xrc->xrcd->domain;
	GUARD(&d->inner);
	struct srq *srq = find_srq(d, num);

	if (!srq || cq_is_full(srq->xrc->cq) || !srq_take(srq, &qp->in.own))
		return false;
	qp->in.srq = srq;
	qp->in.wqe = &qp->in.own;
	return true;
}

enum xrc_take xrc_look(struct qp *qp, uint32_t num)
{
	struct xrc_domain *d = qp->xrc->xrcd->domain;
	GUARD(&d->inner);
	const struct srq *srq = find_srq(d, num);

	return !srq                       ? XRC_WRONG
	       : cq_is_full(srq->xrc->cq) ? XRC_FULL
					  : XRC_EMPTY;
}

uint32_t xrc_pd(struct qp *qp, uint32_t num)
{
	struct xrc_domain *d = qp->xrc->xrcd->domain;
	GUARD(&d->inner);
	const struct srq *srq = find_srq(d, num);

	return srq ? srq->srq.pd->handle : 0;
}
