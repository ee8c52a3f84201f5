/* SPDX-License-Identifier: MIT */
/* rdma/mw.c - see rdma/mw.h */
#include <errno.h>
#include <stdlib.h>

#include "rdma/mw.h"
#include "rdma/users.h"

#define ACCESS_REMOTE                                                          \
	(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |                    \
	 IBV_ACCESS_REMOTE_ATOMIC)
#define ACCESS_KNOWN                                                           \
	(ACCESS_REMOTE | IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ZERO_BASED)

struct ibv_mw *rdma_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	struct self *s = self_get();
	struct ibv_mw *mw;
	uint32_t key;

	if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2) {
		errno = EINVAL;
		return NULL;
	}
	mw = s ? calloc(1, sizeof(*mw)) : NULL;
	if (!mw)
		return NULL;
	lock_get(&s->lock);
	bool is_taken = entry_take(s, X_WINDOW, &key);
	lock_put(&s->lock);
	if (!is_taken) {
		free(mw);
		errno = ENOMEM;
		return NULL;
	}
	*mw = (struct ibv_mw){ .context = pd->context,
			       .pd = pd,
			       .rkey = key,
			       .handle = key >> KEY_BITS,
			       .type = type };
	fetch_add(&container_of(pd, struct pd, pd)->n_refs, 1);
	return mw;
}

/* No longer bound.  The caller holds self.lock, and nobody is inside. */
static void unbind(struct x_dir *dir, struct x_mr *window)
{
	store_rel(&window->key, 0);
	if (window->length)
		dir->mr[window->region].n_windows--;
	window->length = 0;
}

int rdma_dealloc_mw(struct ibv_mw *mw)
{
	struct self *s = self_current;

	if (ctx_of(mw->context)->generation == self_generation()) {
		struct x_mr *window = &s->dir->mr[mw->handle];

		entry_end(window);
		GUARD(&s->lock);
		unbind(s->dir, window);
		store_rel(&window->kind, X_FREE);
	}
	fetch_sub(&container_of(mw->pd, struct pd, pd)->n_refs, 1);
	free(mw);
	return 0;
}

int mw_take_bind(struct swqe *w, const struct ibv_mw *mw, uint32_t rkey,
		 const struct ibv_mw_bind_info *info)
{
	bool is_empty = !info->mr || !info->length;

	if (info->mw_access_flags & ~(unsigned)ACCESS_KNOWN ||
	    rkey >> KEY_BITS != mw->handle)
		return EINVAL;
	if (mw->type == IBV_MW_TYPE_2 && is_empty)
		return EINVAL;
	if (mw->type == IBV_MW_TYPE_1 &&
	    (info->mw_access_flags & IBV_ACCESS_ZERO_BASED ||
	     (!info->mr && (info->addr || info->length))))
		return EINVAL;
	if (info->mr && info->mr->pd->handle != mw->pd->handle)
		return EPERM;
	w->rkey = rkey;
	w->length = w->n_sge = 0;
	w->bind = (struct bind){ .window = mw->handle,
				 .region = info->mr ? info->mr->handle : 0,
				 .addr = info->addr,
				 .length = is_empty ? 0 : info->length,
				 .access = info->mw_access_flags,
				 .type = mw->type };
	return 0;
}

int rdma_bind_mw(struct ibv_qp *ibqp, struct ibv_mw *mw,
		 struct ibv_mw_bind *bind)
{
	struct qp *qp = container_of(ibqp, struct qp, qp);
	struct ibv_send_wr wr = { .wr_id = bind->wr_id,
				  .opcode = IBV_WR_BIND_MW,
				  .send_flags = bind->send_flags };
	GUARD(&qp->lock);
	struct swqe *w;

	if (mw->type != IBV_MW_TYPE_1 || qp->generation != self_generation() ||
	    qp->init.qp_type == IBV_QPT_UD || qp->attr.qp_state < IBV_QPS_RTS ||
	    bind->send_flags & ~(unsigned)(IBV_SEND_FENCE | IBV_SEND_SIGNALED))
		return EINVAL;
	w = tx_begin(qp, &wr);
	if (!w)
		return ENOMEM;
	uint32_t key = entry_next_key(mw->handle);
	int err = mw_take_bind(w, mw, key, &bind->bind_info);
	if (err)
		return err;
	mw->rkey = key;
	qp->sq_head++;
	if (qp->attr.qp_state == IBV_QPS_RTS)
		tx_run(qp);
	else if (qp->attr.qp_state != IBV_QPS_SQD)
		tx_flush(qp);
	return 0;
}

/* InfiniBand Architecture volume 1, section 10.6.7.2: C10-72 to C10-75. */
static bool may_bind(const struct qp *qp, const struct x_dir *dir,
		     const struct bind *b)
{
	const struct x_mr *window = &dir->mr[b->window];
	const struct x_mr *region = &dir->mr[b->region];
	uint64_t off = b->addr - region->iova;

	if (window->kind != X_WINDOW)
		return false;
	if (b->type == IBV_MW_TYPE_2 && window->key)
		return false; /* it has to be invalidated first */
	if (!b->length)
		return true;
	if (region->kind != X_REGION || !region->key ||
	    region->pd != qp->qp.pd->handle ||
	    !(region->access & IBV_ACCESS_MW_BIND) ||
	    region->access & IBV_ACCESS_ZERO_BASED)
		return false;
	if (b->access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC) &&
	    !(region->access & IBV_ACCESS_LOCAL_WRITE))
		return false;
	return b->addr >= region->iova && off <= region->length &&
	       b->length <= region->length - off;
}

/* What others may address; the key last. */
static void write_window(const struct qp *qp, struct x_dir *dir,
			 const struct swqe *w)
{
	const struct bind *b = &w->bind;
	struct x_mr *window = &dir->mr[b->window];
	struct x_mr *region = &dir->mr[b->region];

	window->access = b->access & ACCESS_REMOTE;
	window->iova = b->access & IBV_ACCESS_ZERO_BASED ? 0 : b->addr;
	window->length = b->length;
	window->addr = region->addr + (b->addr - region->iova);
	window->pd = qp->qp.pd->handle;
	window->qpn = b->type == IBV_MW_TYPE_2 ? qp->qp.qp_num : 0;
	window->region = b->region;
	region->n_windows++;
	store_rel(&window->key, w->rkey + 1); /* mr_find() */
}

/* The key is withdrawn.  Has everybody left who came in by it? */
static bool is_left(struct qp *qp, bool is_of_one)
{
	fence_full();
	if (is_of_one) {
		users_wait_outside(qp);
		return true;
	}
	if (users_none_inside(qp))
		return true;
	tx_waits_too_long(qp, 0);
	return false;
}

enum tx tx_bind(struct qp *qp, struct swqe *w)
{
	struct self *s = self_current;
	struct x_mr *window = &s->dir->mr[w->bind.window];

	if (w->bind.is_withdrawn) {
		if (!is_left(qp, false))
			return TX_BLOCKED;
	}
	GUARD(&s->lock);
	if (!may_bind(qp, s->dir, &w->bind))
		return tx_done(w, IBV_WC_MW_BIND_ERR);
	if (window->key) { /* somebody may be inside */
		store_rel(&window->key, 0);
		w->bind.is_withdrawn = true;
		if (!is_left(qp, false))
			return TX_BLOCKED;
	}
	unbind(s->dir, window);
	if (w->bind.length)
		write_window(qp, s->dir, w);
	return tx_done(w, IBV_WC_SUCCESS);
}

/* The window of type 2 that queue pair has bound with this key; NULL. */
static struct x_mr *find(const struct qp *qp, struct x_dir *dir, uint32_t rkey)
{
	uint32_t i = rkey >> KEY_BITS;
	struct x_mr *window = i < N_MRS ? &dir->mr[i] : NULL;

	return window && window->kind == X_WINDOW && window->key == rkey + 1 &&
		       window->qpn == qp->qp.qp_num
		   ? window
		   : NULL;
}

bool mw_invalidate(struct qp *qp, uint32_t rkey)
{
	struct self *s = self_current;
	GUARD(&s->lock);
	struct x_mr *window = find(qp, s->dir, rkey);

	if (!window)
		return false;
	unbind(s->dir, window);
	return true;
}

enum tx tx_local_inv(struct qp *qp, struct swqe *w)
{
	if (!mw_invalidate(qp, w->rkey))
		return tx_done(w, IBV_WC_LOC_QP_OP_ERR);
	is_left(qp, true);
	return tx_done(w, IBV_WC_SUCCESS);
}

/* Forget what the peer has read. */
static void see_read(struct qp *qp)
{
	uint32_t n = 0;

	if (qp->n_invalidated)
		tx_see_tail(qp);
	for (uint32_t i = 0; i < qp->n_invalidated; i++)
		if (qp->invalidated[i].end > qp->out.tail)
			qp->invalidated[n++] = qp->invalidated[i];
	qp->n_invalidated = n;
}

bool mw_has_room(struct qp *qp)
{
	see_read(qp);
	return qp->n_invalidated < N_INVALIDATED;
}

void mw_sent_inv(struct qp *qp, uint32_t rkey)
{
	qp->invalidated[qp->n_invalidated].rkey = rkey;
	qp->invalidated[qp->n_invalidated++].end = qp->out.head;
}

bool mw_is_invalidated(struct qp *qp, uint32_t rkey)
{
	see_read(qp);
	for (uint32_t i = 0; i < qp->n_invalidated; i++)
		if (qp->invalidated[i].rkey == rkey)
			return true;
	return false;
}
