/* SPDX-License-Identifier: MIT */
/*
 * rdma/mr.c - protection domains and memory regions
 *
 * A region is an entry of the directory, which other processes read: a local check
 * and a remote one look at the same words.  A key is the entry's number and a byte
 * that changes with each use of the entry.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "rdma/domain.h"
#include "rdma/mw.h"
#include "rdma/users.h"

#define ACCESS_KNOWN                                                           \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |                    \
	 IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |                   \
	 IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_HUGETLB |     \
	 IBV_ACCESS_OPTIONAL_RANGE)

static uint8_t key_uses[N_MRS];

struct ibv_pd *rdma_alloc_pd(struct ibv_context *c)
{
	static uint32_t n_pds;
	struct pd *pd = calloc(1, sizeof(*pd));

	if (!pd)
		return NULL;
	pd->pd.context = c;
	pd->pd.handle = fetch_add(&n_pds, 1) + 1;
	fetch_add(&ctx_of(c)->n_objects, 1);
	return &pd->pd;
}

int rdma_dealloc_pd(struct ibv_pd *ibpd)
{
	struct pd *pd = container_of(ibpd, struct pd, pd);

	if (load_acq(&pd->n_refs))
		return EBUSY;
	domain_put(pd);
	fetch_sub(&ctx_of(ibpd->context)->n_objects, 1);
	free(pd);
	return 0;
}

static int check_access(unsigned access)
{
	if (access & IBV_ACCESS_ON_DEMAND)
		return EOPNOTSUPP;
	if (access & ~(unsigned)ACCESS_KNOWN)
		return EINVAL;
	if (access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC) &&
	    !(access & IBV_ACCESS_LOCAL_WRITE))
		return EINVAL;
	return 0;
}

/* Write what others may address; the key last, so that who sees it sees the rest. */
static void entry_write(struct x_dir *dir, struct mr *mr, uint64_t iova)
{
	struct x_mr *m = &dir->mr[mr->mr.handle];

	m->access = mr->access | X_LOCAL;
	m->iova = iova;
	m->length = mr->mr.length;
	m->addr = (uintptr_t)mr->mr.addr;
	m->pd = mr->mr.pd->handle;
	store_rel(&m->key, mr->mr.lkey + 1); /* mr_find() */
}

bool entry_take(struct self *s, enum x_kind kind, uint32_t *key)
{
	static uint32_t next;

	for (uint32_t n = 0; n < N_MRS; n++) {
		uint32_t i = (next + n) % N_MRS;
		struct x_mr *m = &s->dir->mr[i];

		if (m->kind != X_FREE)
			continue;
		next = i + 1;
		m->kind = kind;
		m->qpn = m->n_windows = 0;
		m->length = 0;
		*key = entry_next_key(i);
		return true;
	}
	return false;
}

uint32_t entry_next_key(uint32_t i) { return i << KEY_BITS | ++key_uses[i]; }

static int entry_new(struct mr *mr, uint64_t iova)
{
	struct self *s = self_get();
	uint32_t key;

	if (!s)
		return errno;
	GUARD(&s->lock);
	if (!entry_take(s, X_REGION, &key))
		return ENOMEM;
	mr->mr.handle = key >> KEY_BITS;
	mr->mr.lkey = mr->mr.rkey = key;
	entry_write(s->dir, mr, iova);
	return 0;
}

/*
 * From here on no peer finds the region.  A peer that found it earlier may still be inside
 * an operation, which n_inside of its queue pair shows, and this waits for its end.
 */
void entry_end(struct x_mr *m)
{
	store_rel(&m->key, 0);
	fence_full();
	users_wait_inside();
}

/* May the page be read, or written?  Older kernels do not say. */
static bool page_may(uintptr_t page, size_t size, bool is_write)
{
	static uint8_t ours;
	int advice = is_write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ;

	if (!madvise((void *)page, size, advice))
		return true;
	if (errno != EINVAL && errno != EFAULT && errno != ENOMEM)
		return true;
	page = (uintptr_t)&ours & ~(size - 1);
	return madvise((void *)page, size, advice) != 0;
}

/* Whether all of the memory is mapped (MS_ASYNC only looks), and whether its first and its
 * last page allow the access.  A copy to memory that does not allow it would end the
 * program later. */
static bool is_usable(uintptr_t at, size_t length, bool is_write)
{
	size_t size = (size_t)sysconf(_SC_PAGESIZE);
	uintptr_t first = at & ~(size - 1),
		  last = (at + length - 1) & ~(size - 1);

	if (!length)
		return true;
	if (msync((void *)first, last - first + size, MS_ASYNC) &&
	    errno == ENOMEM)
		return false;
	return page_may(first, size, is_write) &&
	       (first == last || page_may(last, size, is_write));
}

struct ibv_mr *rdma_reg_mr(struct ibv_pd *pd, void *addr, size_t length,
			   uint64_t iova, unsigned access)
{
	uintptr_t at = (uintptr_t)addr;

	if (at + length < at) {
		errno = EINVAL;
		return NULL;
	}
	if (!is_usable(at, length, access & IBV_ACCESS_LOCAL_WRITE)) {
		errno = EFAULT;
		return NULL;
	}
	return mr_new(pd, addr, length, iova, access);
}

struct ibv_mr *mr_new(struct ibv_pd *pd, void *addr, size_t length,
		      uint64_t iova, unsigned access)
{
	int err = check_access(access);

	struct mr *mr = err ? NULL : calloc(1, sizeof(*mr));
	if (!mr) {
		errno = err ? err : ENOMEM;
		return NULL;
	}
	mr->mr = (struct ibv_mr){
		.context = pd->context, .pd = pd, .addr = addr, .length = length
	};
	mr->access = access;
	err = entry_new(mr, access & IBV_ACCESS_ZERO_BASED ? 0 : iova);
	if (err) {
		free(mr);
		errno = err;
		return NULL;
	}
	fetch_add(&container_of(pd, struct pd, pd)->n_refs, 1);
	return &mr->mr;
}

/* is_usable(), for the region as the changes would leave it. */
static bool may_become(const struct mr *mr, int flags, const void *addr,
		       size_t length, int access)
{
	if (!(flags & IBV_REREG_MR_CHANGE_TRANSLATION)) {
		addr = mr->mr.addr;
		length = mr->mr.length;
	}
	if (!(flags & IBV_REREG_MR_CHANGE_ACCESS))
		access = (int)mr->access;
	return is_usable((uintptr_t)addr, length,
			 access & IBV_ACCESS_LOCAL_WRITE);
}

int rdma_rereg_mr(struct ibv_mr *ibmr, int flags, struct ibv_pd *pd, void *addr,
		  size_t length, int access)
{
	struct mr *mr = container_of(ibmr, struct mr, mr);
	struct self *s = self_get();

	if (!flags || flags & ~IBV_REREG_MR_FLAGS_SUPPORTED || mr->dm ||
	    (flags & IBV_REREG_MR_CHANGE_TRANSLATION && (!addr || !length)) ||
	    (flags & IBV_REREG_MR_CHANGE_PD &&
	     (!pd || pd->context != ibmr->context)) ||
	    (flags & IBV_REREG_MR_CHANGE_ACCESS &&
	     check_access((unsigned)access)) ||
	    !s) {
		errno = EINVAL;
		return IBV_REREG_MR_ERR_INPUT;
	}
	if (!may_become(mr, flags, addr, length, access)) {
		errno = EFAULT;
		return IBV_REREG_MR_ERR_INPUT;
	}
	struct x_mr *m = &s->dir->mr[ibmr->handle];
	uint64_t iova = m->iova;
	if (load_rlx(&m->n_windows)) {
		errno = EBUSY;
		return IBV_REREG_MR_ERR_INPUT;
	}
	entry_end(m);
	if (flags & IBV_REREG_MR_CHANGE_PD) {
		fetch_sub(&container_of(ibmr->pd, struct pd, pd)->n_refs, 1);
		fetch_add(&container_of(pd, struct pd, pd)->n_refs, 1);
		ibmr->pd = pd;
	}
	if (flags & IBV_REREG_MR_CHANGE_ACCESS)
		mr->access = (uint32_t)access;
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		ibmr->addr = addr;
		ibmr->length = length;
		iova = mr->access & IBV_ACCESS_ZERO_BASED ? 0 : (uintptr_t)addr;
	}
	GUARD(&s->lock);
	entry_write(s->dir, mr, iova); /* with the same keys */
	return 0;
}

int rdma_dereg_mr(struct ibv_mr *ibmr)
{
	struct mr *mr = container_of(ibmr, struct mr, mr);

	if (ctx_of(ibmr->context)->generation == self_generation()) {
		struct x_mr *m = &self_current->dir->mr[ibmr->handle];

		if (load_rlx(&m->n_windows))
			return EBUSY;
		entry_end(m);
		store_rel(&m->kind, X_FREE);
	}
	fetch_sub(&container_of(ibmr->pd, struct pd, pd)->n_refs, 1);
	if (mr->dm)
		dm_put(mr->dm);
	free(mr);
	return 0;
}

/* Copied before it is judged, because its owner may change it at any time. */
static uint64_t mr_find(const struct x_dir *dir, uint32_t pd, uint32_t qpn,
			uint32_t key, uint64_t addr, uint64_t length,
			uint32_t access)
{
	uint32_t i = key >> KEY_BITS;

	if (unlikely(i >= N_MRS))
		return 0;
	const struct x_mr *p = &dir->mr[i];
	if (unlikely(load_acq(&p->key) != key + 1))
		return 0;
	struct x_mr m = { .access = load_rlx(&p->access),
			  .iova = load_rlx(&p->iova),
			  .length = load_rlx(&p->length),
			  .addr = load_rlx(&p->addr),
			  .pd = load_rlx(&p->pd),
			  .qpn = load_rlx(&p->qpn) };
	uint64_t off = addr - m.iova;
	if (unlikely(m.pd != pd || (access & ~m.access) || addr < m.iova ||
		     off > m.length || length > m.length - off ||
		     (m.qpn && m.qpn != qpn)))
		return 0;
	return m.addr + off;
}

void *mr_local(uint32_t pd, const struct ibv_sge *sge, uint32_t access)
{
	struct self *s = self_current;

	return s ? (void *)(uintptr_t)mr_find(s->dir, pd, 0, sge->lkey,
					      sge->addr, sge->length,
					      access | X_LOCAL)
		 : NULL;
}

uint64_t mr_remote(const struct x_dir *dir, uint32_t pd, uint32_t qpn,
		   uint32_t rkey, uint64_t addr, uint64_t length,
		   uint32_t access)
{
	return mr_find(dir, pd, qpn, rkey, addr, length, access);
}
