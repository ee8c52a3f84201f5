/* SPDX-License-Identifier: MIT */
/* rdma/users.c - see rdma/users.h */
#include <sched.h>

#include "base/clock.h"
#include "base/libc.h"
#include "rdma/users.h"

#define WAIT_NS NS_PER_S

uint32_t users_n_local, users_n_xrc;
static struct lock lock;
static struct qp *all[N_QPS];

/* A table by the number's low bits.  Two living queue pairs never share them;
 * in a child, the entries of the parent's queue pairs may be replaced. */
void users_add(struct qp *qp)
{
	GUARD(&lock);
	all[qp->qp.qp_num % N_QPS] = qp;
	if (qp->init.qp_type == IBV_QPT_XRC_SEND)
		store_rlx(&users_n_xrc, users_n_xrc + 1);
}

void users_remove(struct qp *qp)
{
	GUARD(&lock);
	if (all[qp->qp.qp_num % N_QPS] != qp)
		return;
	all[qp->qp.qp_num % N_QPS] = NULL;
	if (qp->init.qp_type == IBV_QPT_XRC_SEND)
		store_rlx(&users_n_xrc, users_n_xrc - 1);
}

/* Their descriptors are copies, which keep the parent's memory. */
void users_after_fork(void)
{
	lock = (struct lock){ 0 };
	for (uint32_t i = 0; i < N_QPS; i++) {
		if (all[i])
			libc.close(all[i]->fd);
		if (all[i])
			all[i]->fd = -1;
		all[i] = NULL;
	}
	users_n_local = users_n_xrc = 0;
}

static bool is_inside(const struct qp *qp)
{
	const struct x_qp *x = qp->remote.x;

	return qp->generation == self_generation() && x &&
	       load_acq(&x->n_inside) && !qp->remote.peer->stays_inside &&
	       !peer_has_ended(qp->remote.peer);
}

/* Who stays for so long was stopped, or lies: it is waited for once. */
static bool is_inside_since(const struct qp *qp, uint64_t since)
{
	if (!is_inside(qp))
		return false;
	if (now_ns() - since > WAIT_NS) {
		qp->remote.peer->stays_inside = true;
		return false;
	}
	return true;
}

/* While we hold a queue pair's lock, its mapping stays.  No thread holds that lock while it
 * waits for a peer, so we do not wait long for the lock. */
void users_wait_inside(void)
{
	GUARD(&lock);

	for (uint32_t i = 0; i < N_QPS; i++) {
		struct qp *qp = all[i];
		bool waits = qp != NULL;

		for (uint64_t since = waits ? now_ns() : 0; waits;) {
			lock_get(&qp->lock);
			waits = is_inside_since(qp, since);
			lock_put(&qp->lock);
			if (waits)
				sched_yield();
		}
	}
}

void users_wait_outside(const struct qp *qp)
{
	uint64_t since = now_ns();

	fence_full();
	while (is_inside_since(qp, since))
		sched_yield();
}

bool users_none_inside(const struct qp *held)
{
	uint64_t since = held->blocked_ns ? held->blocked_ns : now_ns();
	bool is_none = true;

	if (!lock_try(&lock))
		return false;
	for (uint32_t i = 0; i < N_QPS && is_none; i++) {
		struct qp *qp = all[i];

		if (!qp || qp == held)
			continue;
		is_none = lock_try(&qp->lock);
		if (is_none) {
			is_none = !is_inside_since(qp, since);
			lock_put(&qp->lock);
		}
	}
	is_none = is_none && !is_inside_since(held, since);
	lock_put(&lock);
	return is_none;
}

/* It may have something from a peer that it has not found. */
static bool is_alone(const struct qp *qp)
{
	return !qp->remote.x && !qp->roce && qp->init.qp_type != IBV_QPT_UD &&
	       qp->attr.qp_state >= IBV_QPS_RTR &&
	       qp->attr.qp_state <= IBV_QPS_SQE;
}

bool users_progress(void)
{
	bool has_more = false;
	GUARD(&lock);

	for (uint32_t i = 0; i < N_QPS; i++) {
		struct qp *qp = all[i];

		if (!qp || qp->generation != self_generation())
			continue;
		if (!lock_try(&qp->lock)) {
			has_more = true;
			continue;
		}
		rx_run(qp, container_of(qp->init.recv_cq, struct cq, cq));
		if (qp->sq_done != qp->sq_head)
			tx_run(qp);
		has_more |= qp->is_serving || is_alone(qp);
		lock_put(&qp->lock);
	}
	return has_more;
}

bool users_progress_blocked(void)
{
	bool waits = false;
	GUARD(&lock);

	for (uint32_t i = 0; i < N_QPS; i++) {
		struct qp *qp = all[i];

		if (!qp || qp->generation != self_generation() ||
		    load_rlx(&qp->sq_done) == load_rlx(&qp->sq_head))
			continue;
		if (lock_try(&qp->lock)) {
			tx_run(qp);
			lock_put(&qp->lock);
		}
		waits |= load_rlx(&qp->sq_done) != load_rlx(&qp->sq_head);
	}
	return waits;
}

static bool has_unread(const struct qp *qp)
{
	const struct x_qp *x = qp->remote.x;

	return x && qp->attr.qp_state >= IBV_QPS_RTR &&
	       qp->attr.qp_state <= IBV_QPS_SQE &&
	       load_rlx(&x->dest_qpn) == qp->qp.qp_num &&
	       remote_has_message(&qp->remote, qp->pos);
}

bool users_have_unpolled(uint32_t qpn)
{
	GUARD(&lock);
	struct qp *qp = all[qpn % N_QPS];

	if (!qp || qp->qp.qp_num != qpn || qp->generation != self_generation())
		return false;
	struct cq *cq = container_of(qp->init.recv_cq, struct cq, cq);
	if (!lock_try(&qp->lock))
		return true; /* another thread is at it */
	rx_run(qp, cq);
	bool is_unread = has_unread(qp);
	lock_put(&qp->lock);
	return is_unread || cq_holds(cq, qpn);
}
