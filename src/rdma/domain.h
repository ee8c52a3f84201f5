/* SPDX-License-Identifier: MIT */
/*
 * rdma/domain.h - device memory, thread domains and parent domains
 *
 * Device memory is memory of this process that the program reaches by copies and by its
 * keys alone.  A thread domain promises that one thread uses what belongs to it; we take
 * our locks all the same, because a lock that no other thread takes is cheap.  A parent
 * domain is another pd with its parent's keys.
 */
#pragma once

#include "rdma/core.h"

#define MAX_DM (1u << 20)

struct ibv_dm *rdma_alloc_dm(struct ibv_context *c,
			     struct ibv_alloc_dm_attr *a);
int rdma_free_dm(struct ibv_dm *dm);
struct ibv_mr *rdma_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm,
			      uint64_t off, size_t length, unsigned access);
/* A region of it is over. */
void dm_put(struct dm *dm);

struct ibv_td *rdma_alloc_td(struct ibv_context *c, struct ibv_td_init_attr *a);
int rdma_dealloc_td(struct ibv_td *td);
struct ibv_pd *rdma_alloc_parent_domain(struct ibv_context *c,
					struct ibv_parent_domain_init_attr *a);
/* @pd ends: so does its hold on what it was made of. */
void domain_put(struct pd *pd);
