/* SPDX-License-Identifier: MIT */
/*
 * api/verbs/device.h - the device and context behind our protection domain
 *
 *     pd->context->device->name    "osf0"
 *     pd->context->ops             each refuses
 *     libibverbs' ibv_reg_mr(pd)   calls verbs.c, if we can find the entries of
 *                                  that libibverbs; it refuses otherwise
 *
 * A program that loaded us by dlopen() calls libibverbs' functions, not ours.
 * Those find the function to call through the context, in a table whose order
 * is private to each version of libibverbs.  The table's start is at a fixed
 * distance from the context (verbs_context of infiniband/verbs.h), so we can
 * make all entries refuse.  To find the two entries that register and return
 * memory, we call libibverbs with a context that only notes which entry was
 * used.
 *
 * Layouts: infiniband/verbs.h of rdma-core; tests/xlio/real_verbs.c compares
 * them.
 */
#pragma once

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

struct ibv_device {
	void *obsolete[2];
	int32_t node_type, transport_type;
	char name[64], dev_name[64];
	char dev_path[256], ibdev_path[256];
};
static_assert(sizeof(struct ibv_device) == 664, "as in rdma-core");

#define CONTEXT_OPS 32u

struct ibv_context {
	struct ibv_device *device;
	void *(*ops[CONTEXT_OPS])(void);
	int cmd_fd, async_fd, num_comp_vectors;
	pthread_mutex_t mutex;
	void *abi_compat; /* NULL: nothing that is newer than ops */
};
static_assert(sizeof(struct ibv_context) == 328, "as in rdma-core");
static_assert(offsetof(struct ibv_context, abi_compat) == 320,
	      "as in rdma-core");

struct ibv_pd {
	struct ibv_context *context;
	uint32_t handle;
};

struct ibv_mr {
	struct ibv_context *context;
	struct ibv_pd *pd;
	void *addr;
	size_t length;
	uint32_t handle;
	uint32_t lkey;
	uint32_t rkey;
	/* libibverbs' own, behind what programs know: kind and access. */
	uint32_t beyond[3];
};
static_assert(offsetof(struct ibv_mr, beyond) == 44, "as in rdma-core");

/* The functions that register and return memory of our pd. */
struct device_calls {
	struct ibv_mr *(*reg)(struct ibv_pd *pd, void *addr, size_t length);
	int (*dereg)(struct ibv_mr *mr);
};

/* The static context of our pd.  Finds libibverbs if it has been loaded since.
 * Thread-safe. */
struct ibv_context *device_context(const struct device_calls *calls);
