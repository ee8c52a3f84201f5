/* SPDX-License-Identifier: MIT */
/* rdma/users.h - all queue pairs of this process */
#pragma once

#include "rdma/core.h"

void users_add(struct qp *qp);
void users_remove(struct qp *qp);
/* Wait until no peer is inside an operation on our memory that it began before; for a
 * second at most, after which a peer was stopped, or lies. */
void users_wait_inside(void);
/* The same for the peer of one queue pair, whose lock the caller holds. */
void users_wait_outside(const struct qp *qp);
/* Move on all queue pairs whose peer is in this process too: one thread may poll one
 * end and never the other. */
void users_progress_local(void);
/* Move on those that have something to send that did not fit, for a thread that sleeps for
 * something else.  True: some still have. */
bool users_progress_blocked(void);
/* How many of them there are. */
extern uint32_t users_n_local;
