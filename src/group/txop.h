/* SPDX-License-Identifier: MIT */
/*
 * group/txop.h - send operations, and their memory
 *
 *     [first ... out) sent, waiting for the ACK; [out ... last] to be sent
 */
#pragma once

#include "group/gsock.h"

/* A send operation, or one of its places. */
struct txop {
	struct txop *next;
	const uint8_t *data;
	size_t len;
	uint64_t end;       /* of the stream, with it */
	uintptr_t userdata; /* 0: no completion */
	struct chunk
	    *copy;       /* that holds the data; NULL: the application does */
	uint32_t key;    /* of registered memory; 0: none */
	uint32_t n_refs; /* the socket's, with the last of this one */
	uint8_t may_ref; /* it lies where a peer may read it */
	uint8_t has_refs;
};

bool txops_refill(struct group *g);             /* false: out of memory */
void op_free(struct group *g, struct txop *op); /* @g may be NULL */
void txq_drop(struct gsock *s); /* forget all, without completions */
void txops_fini(struct group *g);
void txops_after_fork(void);

/* @n operations can be had. */
static inline bool ops_reserve(struct group *g, size_t n)
{
	while (unlikely(g->n_free_ops < n))
		if (!txops_refill(g))
			return false;
	return true;
}

static inline struct txop *op_take(struct group *g)
{
	struct txop *op = g->free_ops;

	dassert(op);
	g->free_ops = op->next;
	g->n_free_ops--;
	op->next = NULL;
	op->copy = NULL;
	op->userdata = 0;
	op->may_ref = op->has_refs = 0;
	return op;
}
