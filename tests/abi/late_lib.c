/* SPDX-License-Identifier: MIT */
/* tests/abi/late_lib.c - a libibverbs.so.1 of which late.c uses three functions */
#include <stddef.h>
#include <stdint.h>

void *ibv_reg_mr(void *pd, void *addr, size_t length, int access);
void *ibv_reg_mr_iova2(void *pd, void *addr, size_t length, uint64_t iova,
		       unsigned access);
int ibv_dereg_mr(void *mr);

void *ibv_reg_mr(void *pd, void *addr, size_t length, int access) { return pd; }

void *ibv_reg_mr_iova2(void *pd, void *addr, size_t length, uint64_t iova,
		       unsigned access)
{
	return pd;
}

int ibv_dereg_mr(void *mr) { return 0; }
