/* SPDX-License-Identifier: MIT */
/* rdma/users.h - all queue pairs of this process */
#pragma once

#include "rdma/core.h"

void users_add(struct qp *qp);
void users_remove(struct qp *qp);
/* A child has none. */
void users_after_fork(void);
/* Waits until each operation on our memory that a peer has begun is over.  It waits for at
 * most a second for each peer, and only once: a peer that takes longer was stopped, or
 * lies. */
void users_wait_inside(void);
/* The same for the peer of one queue pair, whose lock the caller holds. */
void users_wait_outside(const struct qp *qp);
/* Is no peer inside?  Does not wait, and also returns false if another thread has a lock
 * that it takes to know.  The caller holds the lock of @held. */
bool users_none_inside(const struct qp *held);
/* Runs all queue pairs.  If both ends are in this process, one thread may poll one of them
 * and never the other.  True: other threads had the locks of some. */
bool users_progress(void);
/* Runs the queue pairs that have something to send that did not fit, for a thread that
 * sleeps for something else.  True: some still have. */
bool users_progress_blocked(void);
/* Does queue pair @qpn of this process have receive completions that the program has not
 * polled, or messages that could become some?  Reads them first. */
bool users_have_unpolled(uint32_t qpn);
/* How many queue pairs send for XRC.  No completion queue that the program waits for
 * belongs to both their ends, so every thread that waits runs them. */
extern uint32_t users_n_xrc;
/* How many have their peer in this process. */
extern uint32_t users_n_local;
