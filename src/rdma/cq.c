/* SPDX-License-Identifier: MIT */
/*
 * rdma/cq.c - completion queues
 *
 *     tx.c, rx.c -> cq_push() -> ring -> rdma_poll_cq() -> the program
 *
 * A queue is memory of this process alone.  Completions of arrivals appear when the program
 * polls: a poll that finds the queue empty runs its queue pairs and looks again.  While the
 * queue is armed, its number in the directory tells peers to ring the channel's pipe.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/list.h"
#include "rdma/core.h"
#include "rdma/users.h"
#include "rdma/wire.h"

#define IDLE_POLLS 256u /* between looks at who has ended */
/* A program that polls keeps its core, which the peer may be waiting for. */
#define YIELD_POLLS 64u

struct ibv_cq *rdma_create_cq(struct ibv_context *c, int cqe, void *context,
			      struct ibv_comp_channel *ch, int vector)
{
	struct self *s = self_get();

	if (!s)
		return NULL;
	if (cqe < 1 || (unsigned)cqe > MAX_CQE || vector < 0 ||
	    vector >= c->num_comp_vectors) {
		errno = EINVAL;
		return NULL;
	}
	struct cq *cq = calloc(1, sizeof(*cq));
	if (!cq)
		return NULL;
	cq->limit = (uint32_t)cqe;
	cq->size = pow2_above((uint32_t)cqe);
	cq->ring = calloc(cq->size, sizeof(*cq->ring));
	lock_get(&s->lock);
	int idx = cq->ring ? self_find_cq(s) : -1;
	lock_put(&s->lock);
	if (idx < 0) {
		free(cq->ring);
		free(cq);
		errno = ENOMEM;
		return NULL;
	}
	cq->idx = (uint32_t)idx;
	s->dir->cq[idx].bell = -1;
	store_rlx(&s->dir->cq[idx].size, cq->limit);
	cq->cq = (struct ibv_cq){ .context = c,
				  .channel = ch,
				  .cq_context = context,
				  .handle = cq->idx,
				  .cqe = cqe };
	pthread_mutex_init(&cq->cq.mutex, NULL);
	pthread_cond_init(&cq->cq.cond, NULL);
	if (ch)
		channel_add(container_of(ch, struct channel, ch), cq);
	fetch_add(&ctx_of(c)->n_objects, 1);
	return &cq->cq;
}

int rdma_resize_cq(struct ibv_cq *ibcq, int cqe)
{
	struct cq *cq = container_of(ibcq, struct cq, cq);

	if (cqe < 1 || (unsigned)cqe > MAX_CQE)
		return EINVAL;
	uint32_t size = pow2_above((uint32_t)cqe);
	struct cqe *ring = calloc(size, sizeof(*ring));
	if (!ring)
		return ENOMEM;
	GUARD(&cq->lock);
	if (cq->head - cq->tail > (uint32_t)cqe) {
		free(ring);
		return EINVAL;
	}
	for (uint32_t i = cq->tail; i != cq->head; i++)
		ring[i & (size - 1)] = cq->ring[i & (cq->size - 1)];
	free(cq->ring);
	cq->ring = ring;
	cq->size = size;
	cq->limit = (uint32_t)cqe;
	if (ctx_of(ibcq->context)->generation == self_generation())
		store_rlx(&self_current->dir->cq[cq->idx].size, cq->limit);
	ibcq->cqe = cqe;
	return 0;
}

/* As the manual says: blocks until every event that was taken is acknowledged. */
static void wait_for_acks(struct cq *cq)
{
	pthread_mutex_lock(&cq->cq.mutex);
	while (cq->cq.comp_events_completed != cq->n_events ||
	       cq->cq.async_events_completed != cq->n_async)
		pthread_cond_wait(&cq->cq.cond, &cq->cq.mutex);
	pthread_mutex_unlock(&cq->cq.mutex);
}

int rdma_destroy_cq(struct ibv_cq *ibcq)
{
	struct cq *cq = container_of(ibcq, struct cq, cq);
	struct ctx *ctx = ctx_of(ibcq->context);

	if (cq->n_users || cq->n_srqs)
		return EBUSY;
	if (ibcq->channel)
		channel_remove(container_of(ibcq->channel, struct channel, ch),
			       cq);
	event_forget(ctx, cq);
	wait_for_acks(cq);
	struct self *s = self_current;
	if (s && ctx->generation == self_generation()) {
		GUARD(&s->lock);
		self_put_cq(s, cq->idx);
	}
	fetch_sub(&ctx->n_objects, 1);
	pthread_cond_destroy(&ibcq->cond);
	pthread_mutex_destroy(&ibcq->mutex);
	free(cq->users);
	free(cq->ring);
	free(cq);
	return 0;
}

int cq_add_user(struct cq *cq, struct qp *qp)
{
	GUARD(&cq->users_lock);
	struct qp **users =
	    realloc(cq->users, (cq->n_users + 1) * sizeof(struct qp *));
	if (!users)
		return -ENOMEM;
	cq->users = users;
	users[cq->n_users++] = qp;
	return 0;
}

void cq_remove_user(struct cq *cq, struct qp *qp)
{
	GUARD(&cq->users_lock);
	for (uint32_t i = 0; i < cq->n_users; i++)
		if (cq->users[i] == qp) {
			cq->users[i] = cq->users[--cq->n_users];
			return;
		}
}

bool cq_is_full(struct cq *cq)
{
	return load_rlx(&cq->head) - load_rlx(&cq->tail) >= cq->limit;
}

/* Caller holds the lock.  Who sleeps on the channel learns of it, once. */
static bool wants_event(struct cq *cq, bool is_solicited)
{
	if (!(cq->arm & CQ_ARMED) || (cq->arm & CQ_SOLICITED && !is_solicited))
		return false;
	cq->arm = 0;
	store_rlx(&self_current->dir->cq[cq->idx].arm, 0);
	cq->n_pending++;
	return true;
}

bool cq_push(struct cq *cq, const struct ibv_wc *wc, bool is_solicited)
{
	bool notifies, is_first_overrun = false, fits;

	lock_get(&cq->lock);
	fits = cq->head - cq->tail < cq->limit;
	if (likely(fits)) {
		struct cqe *e = &cq->ring[cq->head & (cq->size - 1)];

		e->wc = *wc;
		e->at_ns = cq->wants_time ? clock_ns(CLOCK_REALTIME) : 0;
		store_rel(&cq->head, cq->head + 1);
	} else {
		is_first_overrun = !cq->has_overrun;
		cq->has_overrun = true;
	}
	notifies =
	    wants_event(cq, is_solicited || wc->status != IBV_WC_SUCCESS);
	lock_put(&cq->lock);
	if (notifies && cq->cq.channel)
		channel_notify(
		    container_of(cq->cq.channel, struct channel, ch));
	if (is_first_overrun)
		event_add(ctx_of(cq->cq.context), IBV_EVENT_CQ_ERR, cq);
	return fits;
}

/* Drop the completions of a queue pair that is reset or destroyed. */
void cq_forget(struct cq *cq, uint32_t qpn)
{
	GUARD(&cq->lock);
	uint32_t to = cq->tail;
	for (uint32_t i = cq->tail; i != cq->head; i++) {
		struct cqe *e = &cq->ring[i & (cq->size - 1)];

		if (e->wc.qp_num != qpn)
			cq->ring[to++ & (cq->size - 1)] = *e;
	}
	store_rlx(&cq->head, to);
}

bool cq_holds(struct cq *cq, uint32_t qpn)
{
	GUARD(&cq->lock);
	for (uint32_t i = cq->tail; i != cq->head; i++)
		if (cq->ring[i & (cq->size - 1)].wc.qp_num == qpn)
			return true;
	return false;
}

int cq_take(struct cq *cq, int n, struct cqe *out)
{
	int got = 0;

	if (load_acq(&cq->head) == load_rlx(&cq->tail))
		return 0;
	GUARD(&cq->lock);
	for (; got < n && cq->tail != cq->head; got++) {
		out[got] = cq->ring[cq->tail & (cq->size - 1)];
		store_rlx(&cq->tail, cq->tail + 1);
	}
	return got;
}

/* Most polls find nothing. */
static inline bool is_empty(struct cq *cq)
{
	return load_acq(&cq->head) == load_rlx(&cq->tail);
}

static __attribute__((noinline)) int take_some(struct cq *cq, int n,
					       struct ibv_wc *wc)
{
	int got = 0;
	GUARD(&cq->lock);

	for (; got < n && cq->tail != cq->head; got++) {
		wc[got] = cq->ring[cq->tail & (cq->size - 1)].wc;
		store_rlx(&cq->tail, cq->tail + 1);
	}
	return got;
}

static inline int take_wcs(struct cq *cq, int n, struct ibv_wc *wc)
{
	return is_empty(cq) ? 0 : take_some(cq, n, wc);
}

/* The peer has ended: what it has sent has been received by now. */
static void mind_the_end(struct qp *qp)
{
	if (!qp->remote.peer || !peer_has_ended(qp->remote.peer) ||
	    (qp->attr.qp_state != IBV_QPS_RTS &&
	     qp->attr.qp_state != IBV_QPS_RTR))
		return;
	/* A queue pair that was destroyed says so. */
	if (!load_rlx(&qp->remote.x->qpn) && qp->sq_done == qp->sq_head)
		return;
	if (remote_has_message(&qp->remote, qp->pos))
		return;
	qp_fail(qp);
	event_add(ctx_of(qp->qp.context), IBV_EVENT_QP_FATAL, qp);
}

/* Fails what had to wait for a look that found nothing.  Caller holds users_lock. */
static void tell_ends(struct cq *cq, bool looks)
{
	for (uint32_t i = 0; i < cq->n_users; i++) {
		struct qp *qp = cq->users[i];

		if (!lock_try(&qp->lock))
			continue;
		if (qp->has_put_off) {
			store_rlx(&qp->has_put_off, false);
			qp->may_tell_end = true;
			tx_run(qp);
			qp->may_tell_end = false;
		}
		if (looks)
			mind_the_end(qp);
		lock_put(&qp->lock);
	}
}

/*
 * We know at once that a peer's process has ended.  Over a wire a request fails only after
 * its time-outs, and by then all requests that the peer has answered have completed, those
 * of other queue pairs as well.  The program has taken these completions, and has done what
 * follows from them.  Programs rely on this: ibv_srq_pingpong gives up at the first error,
 * and needs no more completions once it has enough.  So a request fails only when a look at
 * all queue pairs has found nothing to complete; never in a call that posts it, and never
 * beside other completions.
 */
void cq_progress(struct cq *cq)
{
	uint32_t n_idle = load_rlx(&cq->n_idle) + 1, head = load_rlx(&cq->head);
	bool looks = n_idle % IDLE_POLLS == 0, has_ends = looks;

	store_rlx(&cq->n_idle, n_idle);

	wire_poll();
	if (unlikely(looks))
		ud_accept();
	GUARD(&cq->users_lock);

	for (uint32_t i = 0; i < cq->n_users; i++) {
		struct qp *qp = cq->users[i];

		if (!lock_try(&qp->lock))
			continue;
		if (qp_receives_on(qp, cq))
			rx_run(qp, cq);
		if (qp->sq_done != qp->sq_head) {
			tx_run(qp);
			has_ends |= qp->has_put_off;
		}
		lock_put(&qp->lock);
	}
	if (unlikely(has_ends && load_rlx(&cq->head) == head))
		tell_ends(cq, looks);
}

bool cq_progress_others(void)
{
	bool is_local = load_rlx(&users_n_local);

	if (is_local)
		users_progress();
	if (load_rlx(&users_n_xrc))
		users_progress_blocked();
	return is_local;
}

HOT int rdma_poll_cq(struct ibv_cq *ibcq, int n, struct ibv_wc *wc)
{
	struct cq *cq = container_of(ibcq, struct cq, cq);

	if (n <= 0)
		return n < 0 ? -EINVAL : 0;
	int got = take_wcs(cq, n, wc);
	if (got)
		return got;
	if (unlikely(ctx_of(ibcq->context)->generation != self_generation()))
		return -EINVAL;
	cq_progress(cq);
	got = take_wcs(cq, n, wc);
	if (unlikely(!got &&
		     (load_rlx(&users_n_local) | load_rlx(&users_n_xrc)) &&
		     cq_progress_others()))
		got = take_wcs(cq, n, wc);
	uint32_t n_empty = got ? 0 : load_rlx(&cq->n_empty) + 1;
	if (unlikely(n_empty >= YIELD_POLLS)) {
		n_empty = 0;
		sched_yield();
	}
	store_rlx(&cq->n_empty, n_empty);
	return got;
}

/* Is there anything that would become a completion if the program polled? */
static bool has_news(struct cq *cq)
{
	GUARD(&cq->users_lock);
	for (uint32_t i = 0; i < cq->n_users; i++) {
		struct qp *qp = cq->users[i];

		if (qp->remote.x && qp_receives_on(qp, cq) &&
		    remote_has_message(&qp->remote, load_rlx(&qp->pos)))
			return true;
		if (load_rlx(&qp->has_put_off))
			return true;
		for (struct path *p = qp->from; p; p = p->next)
			if (remote_has_message(&p->remote, load_rlx(&p->pos)))
				return true;
	}
	return false;
}

/* Caller holds the lock. */
void cq_show_arm(struct cq *cq, uint32_t kind)
{
	cq->n_arms += CQ_ARM_STEP;
	cq->arm = cq->n_arms | kind;
	store_rlx(&self_current->dir->cq[cq->idx].arm, cq->arm);
}

/* A peer may look at the number before this call stores it, and then it does not ring.  But
 * it wrote its message before it looked, so has_news() finds the message. */
int rdma_req_notify_cq(struct ibv_cq *ibcq, int solicited_only)
{
	struct cq *cq = container_of(ibcq, struct cq, cq);
	uint32_t kind = CQ_ARMED | (solicited_only ? CQ_SOLICITED : 0u);

	if (ctx_of(ibcq->context)->generation != self_generation())
		return EINVAL;
	lock_get(&cq->lock);
	/* Any completion is more than a solicited one. */
	if (cq->arm & CQ_ARMED && !(cq->arm & CQ_SOLICITED))
		kind &= ~(uint32_t)CQ_SOLICITED;
	cq_show_arm(cq, kind);
	lock_put(&cq->lock);
	fence_full();
	if (ibcq->channel && has_news(cq))
		channel_notify(container_of(ibcq->channel, struct channel, ch));
	return 0;
}
