/* SPDX-License-Identifier: MIT */
/* rdma/users.c - see rdma/users.h */
#include <sched.h>

#include "base/clock.h"
#include "rdma/users.h"

#define WAIT_NS NS_PER_S

uint32_t users_n_local;
static struct lock lock;
static struct qp *all[N_QPS];

/* By the number's low bits, which no two have at a time; a child's parent's queue pairs
 * give way. */
void users_add(struct qp *qp)
{
	GUARD(&lock);
	all[qp->qp.qp_num % N_QPS] = qp;
}

void users_remove(struct qp *qp)
{
	GUARD(&lock);
	if (all[qp->qp.qp_num % N_QPS] == qp)
		all[qp->qp.qp_num % N_QPS] = NULL;
}

static bool is_inside(const struct qp *qp)
{
	const struct x_qp *x = qp->remote.x;

	return qp->generation == self_generation() && x &&
	       load_acq(&x->n_inside) && !qp->remote.peer->is_dead;
}

/* A queue pair's mapping stays while its lock is held, which no thread holds while it
 * waits for a peer. */
void users_wait_inside(void)
{
	uint64_t since = now_ns();
	GUARD(&lock);

	for (uint32_t i = 0; i < N_QPS; i++) {
		struct qp *qp = all[i];
		bool waits = qp != NULL;

		while (waits && now_ns() - since < WAIT_NS) {
			lock_get(&qp->lock);
			waits = is_inside(qp);
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
	while (is_inside(qp) && now_ns() - since < WAIT_NS)
		sched_yield();
}

void users_progress_local(void)
{
	GUARD(&lock);
	for (uint32_t i = 0; i < N_QPS; i++) {
		struct qp *qp = all[i];

		if (!qp || qp->generation != self_generation() ||
		    !lock_try(&qp->lock))
			continue;
		rx_run(qp, container_of(qp->init.recv_cq, struct cq, cq));
		if (qp->sq_done != qp->sq_head)
			tx_run(qp);
		lock_put(&qp->lock);
	}
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
