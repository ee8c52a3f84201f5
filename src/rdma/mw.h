/* SPDX-License-Identifier: MIT */
/*
 * rdma/mw.h - memory windows: a part of a memory region with a remote key of its own
 *
 *     rdma_alloc_mw()             makes an entry of the directory without a key
 *     rdma_bind_mw(),
 *     IBV_WR_BIND_MW              the send queue writes the entry, and its key last
 *     IBV_WR_LOCAL_INV, a send
 *     with invalidate             withdraws the key
 *
 * A window of type 1 is open to every queue pair of its protection domain, and binding it
 * anew gives it another key.  A window of type 2 is open to the queue pair that has bound
 * it (2B of the specification), and the program has to invalidate it before it binds it
 * again.
 */
#pragma once

#include "rdma/tx.h"

#define KEY_BITS 8u

/* mr.c: entries of the directory */
/* A free one, which is taken from now on.  The caller holds self.lock. */
bool entry_take(struct self *s, enum x_kind kind, uint32_t *key);
uint32_t entry_next_key(uint32_t i);
/* From here on no peer finds it, and none is inside. */
void entry_end(struct x_mr *m);

struct ibv_mw *rdma_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int rdma_dealloc_mw(struct ibv_mw *mw);
int rdma_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw,
		 struct ibv_mw_bind *bind);

/* What a program has posted, checked as far as posting does; an errno. */
int mw_take_bind(struct swqe *w, const struct ibv_mw *mw, uint32_t rkey,
		 const struct ibv_mw_bind_info *info);
/* A request that takes effect here alone. */
enum tx tx_bind(struct qp *qp, struct swqe *w);
enum tx tx_local_inv(struct qp *qp, struct swqe *w);
/* What a peer's message asks for.  False: there is no such window of this queue pair. */
bool mw_invalidate(struct qp *qp, uint32_t rkey);

/*
 * A send with invalidate withdraws a key of the peer only when the peer reads the message.
 * Later requests of the same send queue do not wait for that.  So the sender remembers the
 * key until then, and refuses requests that use it.
 */
bool mw_has_room(struct qp *qp);
void mw_sent_inv(struct qp *qp, uint32_t rkey);
bool mw_is_invalidated(struct qp *qp, uint32_t rkey);
