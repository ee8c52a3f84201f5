/* SPDX-License-Identifier: MIT */
/*
 * api/verbs/front_sockets.c - registrations, and the domain that sockets use too; see
 * sockets_pd.h
 */
#include <errno.h>

#include "api/verbs/front.h"
#include "api/verbs/sockets_pd.h"
#include "rdma/mw.h"

static_assert(SOCKETS_KEY_BITS == KEY_BITS,
	      "libosf.so finds a region by its key");

static struct lock lock;
static struct ibv_pd *sockets_pd;
static const struct sockets_memory *sockets;

/* Caller holds the lock. */
static struct ibv_pd *open_pd(void)
{
	struct ibv_context *c = front_open_device(false);
	struct ibv_pd *pd = c ? rdma_alloc_pd(c) : NULL;

	if (c && !pd)
		front_close_device(c);
	if (pd) /* the program cannot deallocate it */
		container_of(pd, struct pd, pd)->n_refs = 1;
	return pd;
}

OSF_API struct ibv_pd *osf_sockets_pd(const struct sockets_memory *calls)
{
	GUARD(&lock);

	if (!sockets_pd ||
	    ctx_of(sockets_pd->context)->generation != self_generation()) {
		sockets = calls;
		store_rel(&sockets_pd, open_pd());
	}
	return sockets_pd;
}

/* Is @pd the one of this process, and not that of a process that has forked us? */
static bool is_for_sockets(const struct ibv_pd *pd)
{
	return pd == load_acq(&sockets_pd) &&
	       ctx_of(pd->context)->generation == self_generation();
}

static struct ibv_mr *tell(struct ibv_mr *mr)
{
	if (mr && is_for_sockets(mr->pd))
		sockets->reg(mr->lkey, mr->addr, mr->length);
	return mr;
}

struct ibv_mr *front_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length,
				  uint64_t iova, unsigned access)
{
	return tell(rdma_reg_mr(pd, addr, length, iova, access));
}

struct ibv_mr *front_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length,
				 uint64_t iova, int access)
{
	return front_reg_mr_iova2(pd, addr, length, iova, (unsigned)access);
}

struct ibv_mr *front_reg_mr(struct ibv_pd *pd, void *addr, size_t length,
			    int access)
{
	return front_reg_mr_iova2(pd, addr, length, (uintptr_t)addr,
				  (unsigned)access);
}

int front_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr,
		   size_t length, int access)
{
	bool was = is_for_sockets(mr->pd);
	int err = rdma_rereg_mr(mr, flags, pd, addr, length, access);

	if (err)
		return err;
	if (was)
		sockets->dereg(mr->lkey);
	tell(mr);
	return 0;
}

int front_dereg_mr(struct ibv_mr *mr)
{
	bool was = is_for_sockets(mr->pd);
	uint32_t key = mr->lkey;
	int err = rdma_dereg_mr(mr);

	if (!err && was)
		sockets->dereg(key);
	return err;
}
