/* SPDX-License-Identifier: MIT */
/* rdma/domain.c - see rdma/domain.h */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rdma/domain.h"

#define ALIGNMENT 4u /* of copies, as other devices have it */
#define LOG_PAGE 12u

struct dm {
	struct ibv_dm dm;
	uint8_t *bytes;
	size_t length;
	uint32_t n_refs;
};

struct td {
	struct ibv_td td;
	uint32_t n_refs;
};

/*
 * Device memory.
 */

static uint8_t *part(struct ibv_dm *ibdm, uint64_t off, size_t length)
{
	struct dm *dm = container_of(ibdm, struct dm, dm);

	return off > dm->length || length > dm->length - off ||
		       off % ALIGNMENT || length % ALIGNMENT
		   ? NULL
		   : dm->bytes + off;
}

static int copy_to(struct ibv_dm *dm, uint64_t off, const void *from,
		   size_t length)
{
	uint8_t *to = part(dm, off, length);

	if (!to)
		return EINVAL;
	memcpy(to, from, length);
	return 0;
}

static int copy_from(void *to, struct ibv_dm *dm, uint64_t off, size_t length)
{
	const uint8_t *from = part(dm, off, length);

	if (!from)
		return EINVAL;
	memcpy(to, from, length);
	return 0;
}

struct ibv_dm *rdma_alloc_dm(struct ibv_context *c, struct ibv_alloc_dm_attr *a)
{
	struct dm *dm;

	if (a->comp_mask || !a->length || a->length > MAX_DM ||
	    a->log_align_req > LOG_PAGE) {
		errno = a->comp_mask         ? EOPNOTSUPP
			: a->length > MAX_DM ? ENOMEM
					     : EINVAL;
		return NULL;
	}
	dm = calloc(1, sizeof(*dm));
	if (!dm)
		return NULL;
	/* Whole pages: nothing else of the program's is beside it. */
	size_t size = (a->length + (1u << LOG_PAGE) - 1) >> LOG_PAGE
								<< LOG_PAGE;
	dm->bytes = aligned_alloc(1u << LOG_PAGE, size);
	if (!dm->bytes) {
		free(dm);
		return NULL;
	}
	memset(dm->bytes, 0, size);
	dm->length = a->length;
	dm->dm = (struct ibv_dm){ .context = c,
				  .memcpy_to_dm = copy_to,
				  .memcpy_from_dm = copy_from };
	fetch_add(&ctx_of(c)->n_objects, 1);
	return &dm->dm;
}

int rdma_free_dm(struct ibv_dm *ibdm)
{
	struct dm *dm = container_of(ibdm, struct dm, dm);

	if (load_acq(&dm->n_refs))
		return EBUSY;
	fetch_sub(&ctx_of(ibdm->context)->n_objects, 1);
	free(dm->bytes);
	free(dm);
	return 0;
}

struct ibv_mr *rdma_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *ibdm,
			      uint64_t off, size_t length, unsigned access)
{
	struct dm *dm = container_of(ibdm, struct dm, dm);

	if (!(access & IBV_ACCESS_ZERO_BASED) || off > dm->length ||
	    length > dm->length - off) {
		errno = EINVAL;
		return NULL;
	}
	struct ibv_mr *mr = mr_new(pd, dm->bytes + off, length, 0, access);
	if (!mr)
		return NULL;
	fetch_add(&dm->n_refs, 1);
	container_of(mr, struct mr, mr)->dm = dm;
	mr->addr = NULL; /* none of the program's */
	return mr;
}

void dm_put(struct dm *dm) { fetch_sub(&dm->n_refs, 1); }

/*
 * Thread domains and parent domains.
 */

struct ibv_td *rdma_alloc_td(struct ibv_context *c, struct ibv_td_init_attr *a)
{
	struct td *td;

	if (a->comp_mask) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	td = calloc(1, sizeof(*td));
	if (!td)
		return NULL;
	td->td.context = c;
	fetch_add(&ctx_of(c)->n_objects, 1);
	return &td->td;
}

int rdma_dealloc_td(struct ibv_td *ibtd)
{
	struct td *td = container_of(ibtd, struct td, td);

	if (load_acq(&td->n_refs))
		return EBUSY;
	fetch_sub(&ctx_of(ibtd->context)->n_objects, 1);
	free(td);
	return 0;
}

/* The device allocates nothing by the program's functions, so it takes none. */
struct ibv_pd *rdma_alloc_parent_domain(struct ibv_context *c,
					struct ibv_parent_domain_init_attr *a)
{
	struct pd *pd;

	if (!a->pd || (a->td && a->td->context != c) || a->pd->context != c) {
		errno = EINVAL;
		return NULL;
	}
	if (a->comp_mask & ~(uint32_t)IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	pd = calloc(1, sizeof(*pd));
	if (!pd)
		return NULL;
	pd->pd = *a->pd; /* with its number, so with its keys */
	pd->parent = container_of(a->pd, struct pd, pd);
	pd->td = a->td ? container_of(a->td, struct td, td) : NULL;
	fetch_add(&pd->parent->n_refs, 1);
	if (pd->td)
		fetch_add(&pd->td->n_refs, 1);
	fetch_add(&ctx_of(c)->n_objects, 1);
	return &pd->pd;
}

void domain_put(struct pd *pd)
{
	if (pd->parent)
		fetch_sub(&pd->parent->n_refs, 1);
	if (pd->td)
		fetch_sub(&pd->td->n_refs, 1);
}
