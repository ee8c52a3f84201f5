/* SPDX-License-Identifier: MIT */
/*
 * rdma/event.c - asynchronous events
 *
 * context.async_fd is an eventfd that counts them; ibv_get_async_event() takes one.  From
 * then on, until the program acknowledges the event, the call that destroys the event's
 * object waits.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/libc.h"
#include "rdma/core.h"

static bool is_of_cq(enum ibv_event_type t) { return t == IBV_EVENT_CQ_ERR; }

static bool is_of_srq(enum ibv_event_type t)
{
	return t == IBV_EVENT_SRQ_ERR || t == IBV_EVENT_SRQ_LIMIT_REACHED;
}

static bool is_of_qp(enum ibv_event_type t)
{
	return t == IBV_EVENT_QP_FATAL || t == IBV_EVENT_QP_REQ_ERR ||
	       t == IBV_EVENT_QP_ACCESS_ERR || t == IBV_EVENT_COMM_EST ||
	       t == IBV_EVENT_SQ_DRAINED || t == IBV_EVENT_QP_LAST_WQE_REACHED;
}

void event_add(struct ctx *c, enum ibv_event_type type, void *object)
{
	struct event *e = calloc(1, sizeof(*e));
	uint64_t one = 1;
	int saved = errno;

	if (!e)
		return;
	e->ev.event_type = type;
	e->ev.element.qp = object; /* each begins with libibverbs' struct */
	GUARD(&c->lock);
	*c->events_end = e;
	c->events_end = &e->next;
	if (libc.write(c->v.context.async_fd, &one, sizeof(one)) < 0)
		errno = saved;
}

/* Nobody takes one of the events any more, so the eventfd counts one less.  It counts none if a
 * thread has read it, and waits for the lock to take the event; that thread reads again. */
static void count_down(struct ctx *c)
{
	uint64_t n;
	struct iovec iov = { &n, sizeof(n) };
	int saved = errno;

	if (preadv2(c->v.context.async_fd, &iov, 1, -1, RWF_NOWAIT) < 0)
		errno = saved;
}

void event_forget(struct ctx *c, void *object)
{
	GUARD(&c->lock);
	for (struct event **pe = &c->events; *pe;) {
		struct event *e = *pe;

		if ((void *)e->ev.element.qp != object) {
			pe = &e->next;
			continue;
		}
		*pe = e->next;
		free(e);
		count_down(c);
	}
	c->events_end = &c->events;
	while (*c->events_end)
		c->events_end = &(*c->events_end)->next;
}

static struct event *take(struct ctx *c)
{
	GUARD(&c->lock);
	struct event *e = c->events;
	if (!e)
		return NULL;
	c->events = e->next;
	if (!c->events)
		c->events_end = &c->events;
	if (is_of_cq(e->ev.event_type))
		container_of(e->ev.element.cq, struct cq, cq)->n_async++;
	else if (is_of_srq(e->ev.event_type))
		container_of(e->ev.element.srq, struct srq, srq)->n_async++;
	else if (is_of_qp(e->ev.event_type))
		container_of(e->ev.element.qp, struct qp, qp)->n_async++;
	return e;
}

/* It reads one at a time, and blocks unless the program has set O_NONBLOCK. */
int rdma_get_async_event(struct ibv_context *c, struct ibv_async_event *ev)
{
	struct event *e = NULL;

	while (!e) {
		uint64_t n;

		if (libc.read(c->async_fd, &n, sizeof(n)) < 0)
			return -1;
		e = take(ctx_of(c));
	}
	*ev = e->ev;
	free(e);
	return 0;
}

static void acknowledge(pthread_mutex_t *m, pthread_cond_t *cond, uint32_t *n)
{
	pthread_mutex_lock(m);
	++*n;
	pthread_cond_signal(cond);
	pthread_mutex_unlock(m);
}

void rdma_ack_async_event(struct ibv_async_event *ev)
{
	struct ibv_cq *cq = ev->element.cq;
	struct ibv_qp *qp = ev->element.qp;
	struct ibv_srq *srq = ev->element.srq;

	if (is_of_cq(ev->event_type))
		acknowledge(&cq->mutex, &cq->cond, &cq->async_events_completed);
	else if (is_of_srq(ev->event_type))
		acknowledge(&srq->mutex, &srq->cond, &srq->events_completed);
	else if (is_of_qp(ev->event_type))
		acknowledge(&qp->mutex, &qp->cond, &qp->events_completed);
}
