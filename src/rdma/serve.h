/* SPDX-License-Identifier: MIT */
/*
 * rdma/serve.h - one-sided operations that the receiver executes, because the kernel does
 * not let the initiator reach its memory
 *
 *     initiator: ask.c    receiver: serve.c, in calls of the program or in helper.c
 */
#pragma once

#include "rdma/core.h"

/* serve.c: executes one request, whose bytes lie at @pos of @r's ring.  False: it has to
 * wait, for room or for a lock. */
bool serve(struct qp *qp, const struct remote *r, const struct x_msg *m,
	   uint64_t pos);

/* The header of the reply at @pos, copied and bounded.  False: there is none, or a lie. */
bool reply_header(const struct remote *r, uint64_t pos, struct x_msg *m,
		  bool *is_lie);
/* Copy @n bytes of the ring of replies. */
void reply_read(const struct remote *r, uint64_t pos, void *to, size_t n);

enum serve_how {
	SERVE_READ,
	SERVE_WRITE,
	SERVE_WRITE_END, /* the last bytes of an RDMA write: reach_last() */
};

/* Copies between @bytes and this process's own memory.  False: the program has unmapped
 * that memory. */
bool serve_copy(void *bytes, uint64_t addr, size_t n, enum serve_how how);
/* An atomic operation on that memory, among those of all processes. */
bool serve_own_atomic(uint64_t addr, bool is_swap, uint64_t swap_add,
		      uint64_t compare, uint64_t *was);

/* helper.c: a thread that does nothing but serve, once this process has reason to think
 * that others cannot reach its memory. */
void helper_start_if_due(void);
/* Others have asked already. */
void helper_start(void);
/* Start a detached thread of ours, which gets none of the program's signals.  0 or an errno. */
int helper_thread(void *(*run_it)(void *), void *arg, size_t stack_bytes);
/* A peer's helper shall look.  False: it has none. */
bool helper_ring(struct remote *r);
