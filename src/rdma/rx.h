/* SPDX-License-Identifier: MIT */
/*
 * rdma/rx.h - a message that did not come through a ring: where it goes, and its completion
 *
 * The caller holds the queue pair's lock.
 */
#pragma once

#include "rdma/core.h"

/* Finds where @n bytes of the receive lie, from @off on.  Return: the number of pieces, or
 * a negative enum ibv_wc_status */
int rx_map(struct qp *qp, const struct rwqe *w, uint32_t off, uint32_t n,
	   struct iovec *iov);
/* Writes the global route header with which a datagram of this host begins. */
void rx_grh(const struct qp *qp, const struct x_msg *m, struct ibv_grh *grh);

/* A receive for a message, unless one is taken already.  False: there is none. */
bool rx_take(struct qp *qp);
/* Bytes into it, from its offset @off on. */
enum ibv_wc_status rx_put(struct qp *qp, uint32_t off, const void *from,
			  uint32_t n);
/* It is complete: op, flags, imm and src_qpn of @m count. */
void rx_complete(struct qp *qp, const struct x_msg *m, uint32_t length,
		 enum ibv_wc_status status);
/* The receive that is taken, or the next one, completes with an error. */
void rx_fail(struct qp *qp, enum ibv_wc_status status);
