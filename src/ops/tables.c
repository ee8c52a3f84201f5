/* SPDX-License-Identifier: MIT */
/*
 * ops/tables.c - which table of operations each state of a socket has
 *
 * This is the one place where all protocols are named; see sock/sock_ops.h.
 */
#include "proto/inet/inet.h"
#include "proto/shm/shm.h"
#include "sock/sock_ops.h"

/* A number that is none comes from a process that shares the socket, and lies. */
const struct sock_ops *const sock_tables[SOCK_TABLES] = {
	[SOCK_YOUNG] = &inet_young_ops,
	[SOCK_UPGRADING] = &inet_moving_ops,
	[SOCK_CANDIDATE] = &shm_candidate_ops,
	[SOCK_SHM] = &shm_ops,
	[SOCK_KERNEL] = &inet_kernel_ops,
	[5] = &inet_kernel_ops,
	[6] = &inet_kernel_ops,
	[7] = &inet_kernel_ops,
};
