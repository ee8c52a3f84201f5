/* SPDX-License-Identifier: MIT */
/* rdma/users.h - all queue pairs of this process */
#pragma once

#include "rdma/core.h"

void users_add(struct qp *qp);
void users_remove(struct qp *qp);
/* A child has none. */
void users_after_fork(void);
/* Wait until no peer is inside an operation on our memory that it began before; for a
 * second at most, once for each peer, which was stopped then, or lies. */
void users_wait_inside(void);
/* The same for the peer of one queue pair, whose lock the caller holds. */
void users_wait_outside(const struct qp *qp);
/* Move on all queue pairs: where both ends are in this process, one thread may poll one of
 * them and never the other.  True: some could not be, just now. */
bool users_progress(void);
/* Move on those that have something to send that did not fit, for a thread that sleeps for
 * something else.  True: some still have. */
bool users_progress_blocked(void);
/* How many have their peer in this process. */
extern uint32_t users_n_local;
