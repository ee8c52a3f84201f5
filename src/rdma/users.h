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
/* Is none inside?  Does not wait: false, too, if that cannot be said just now.  The caller
 * holds the lock of @held. */
bool users_none_inside(const struct qp *held);
/* Move on all queue pairs: where both ends are in this process, one thread may poll one of
 * them and never the other.  True: some could not be, just now. */
bool users_progress(void);
/* Move on those that have something to send that did not fit, for a thread that sleeps for
 * something else.  True: some still have. */
bool users_progress_blocked(void);
/* Does queue pair @qpn of this process have receive completions that the program has not
 * polled, or messages that could become some?  Reads them first. */
bool users_have_unpolled(uint32_t qpn);
/* How many send for XRC.  They have no completion queue in common with what the program waits
 * for, so whoever waits for anything moves them on. */
extern uint32_t users_n_xrc;
/* How many have their peer in this process. */
extern uint32_t users_n_local;
