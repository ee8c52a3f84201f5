/* SPDX-License-Identifier: MIT */
/*
 * tests/abi/late.c - libibverbs that only a plugin has loaded
 *
 *     late LIBIBVERBS: "holds"
 *
 * Linked with libosf.so, which has three of libibverbs' names and passes on what is not
 * its own.  libibverbs comes later, with RTLD_LOCAL, as a driver of OSF_DRIVERS brings it.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

void *ibv_reg_mr(void *pd, void *addr, size_t length, int access);
void *ibv_reg_mr_iova2(void *pd, void *addr, size_t length, uint64_t iova,
		       unsigned access);
int ibv_dereg_mr(void *mr);

int main(int argc, char **argv)
{
	static char pd[256];

	errno = 0;
	if (ibv_reg_mr(pd, pd, 1, 0) || errno != ENOSYS) {
		printf("without libibverbs: errno %d\n", errno);
		return 1;
	}
	if (argc < 2 || !dlopen(argv[1], RTLD_NOW | RTLD_LOCAL)) {
		printf("dlopen: %s\n", dlerror());
		return 1;
	}
	if (ibv_reg_mr(pd, pd, 1, 0) != pd ||
	    ibv_reg_mr_iova2(pd, pd, 1, 0, 0) != pd || ibv_dereg_mr(pd)) {
		printf("libibverbs is not found: %s\n", strerror(errno));
		return 1;
	}
	printf("holds\n");
	return 0;
}
