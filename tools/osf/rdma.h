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
	uint64_t
	    bytes; /* that its file has in memory: state, receives, rings */
};

struct rdma_process {
	pid_t pid;
	char name[32];
	struct x_dir *dir; /* a copy */
	struct rdma_qp *qps;
	size_t n_qps;
	bool is_wanted; /* is to be shown */
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
/* A GID: an address of IPv4 or IPv6. */
struct rdma_text rdma_host(const uint8_t *gid);

/* Receives that are posted and that no message has taken. */
uint32_t rdma_receives(const struct x_qp *x);
/* How many queue pairs complete on queue @cq. */
uint32_t rdma_cq_users(const struct rdma_process *p, uint32_t cq);

/* Prints the processes that are wanted.  rdma_print_json(): as an array of JSON;
 * rdma_print_queues(): their completion queues, receive queues of XRC and groups as tables. */
void rdma_print_json(const struct rdma_list *l);
struct screen;
void rdma_print_queues(const struct rdma_list *l, const struct screen *s);
