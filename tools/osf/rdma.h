/* SPDX-License-Identifier: MIT */
/*
 * tools/osf/rdma.h - the processes that use the software RDMA device
 */
#pragma once
#include "rdma/export.h"
#include <stddef.h>
#include <sys/types.h>

#define RDMA_ERR 6u /* enum ibv_qp_state; there may be no verbs.h here */

struct rdma_qp {
	struct x_qp x; /* a copy */
};

struct rdma_process {
	pid_t pid;
	char name[32];
	struct x_dir *dir; /* a copy */
	struct rdma_qp *qps;
	size_t n_qps;
};

struct rdma_list {
	struct rdma_process *processes;
	size_t n;
};

/* Of the processes that the caller may look at. */
void rdma_find(struct rdma_list *l);
void rdma_free(struct rdma_list *l);

/* "RC", "RTS"; "?" for what is no such number. */
const char *rdma_type(uint32_t type);
const char *rdma_state(uint32_t state);

/* "local write, remote read" */
struct rdma_text {
	char s[96];
};
struct rdma_text rdma_access(const struct x_mr *m);
