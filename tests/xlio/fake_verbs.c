/* SPDX-License-Identifier: MIT */
/* tests/xlio/fake_verbs.c - in the place of libibverbs: whose calls are passed on */
#include <stddef.h>
#include <stdint.h>

struct ibv_mr {
	void *context, *pd, *addr;
	size_t length;
	uint32_t handle, lkey, rkey;
};

struct ibv_mr *ibv_reg_mr(void *pd, void *addr, size_t length, int access);
struct ibv_mr *ibv_reg_mr_iova2(void *pd, void *addr, size_t length,
				uint64_t iova, unsigned access);
int ibv_dereg_mr(struct ibv_mr *mr);

static struct ibv_mr one = { .lkey = 0x5eed };

struct ibv_mr *ibv_reg_mr(void *pd, void *addr, size_t length, int access)
{
	return &one;
}

struct ibv_mr *ibv_reg_mr_iova2(void *pd, void *addr, size_t length,
				uint64_t iova, unsigned access)
{
	return &one;
}

int ibv_dereg_mr(struct ibv_mr *mr) { return 77; }
