/* SPDX-License-Identifier: MIT */
/*
 * ops/tables.c - which table of operations each state of a socket has
 *
 * Only this file names all protocols; see sock/sock_ops.h.
 */
#include "proto/inet/inet.h"
#include "proto/module/stream.h"
#include "proto/shm/inbox.h"
#include "proto/shm/shm.h"
#include "sock/sock_ops.h"
#include "sock/switch.h"

const struct sock_ops *const sock_tables[SOCK_TABLES] = {
	[SOCK_YOUNG] = &inet_young_ops,
	[SOCK_UPGRADING] = &inet_moving_ops,
	[SOCK_PENDING] = &shm_pending_ops,
	[SOCK_SHM] = &shm_ops,
	[SOCK_KERNEL] = &inet_kernel_ops,
	[SOCK_MODULE] = &stream_ops,
	[SOCK_MODULE + 1 ... SOCK_TABLES - 1] = &inet_kernel_ops,
};

static_assert(sizeof(struct shm_conn) <= STREAM_AT,
	      "stream_of() has its own place");

HOT void sock_went_past(void) { inbox_went_past(); }
