/* SPDX-License-Identifier: MIT */
/*
 * rdma/xrc.h - extended reliable connections: a message names the shared receive queue
 *
 *     XRC_SEND queue pair -> XRC_RECV queue pair -> a queue of the same domain
 *                                                -> that queue's completion queue
 *
 * A domain consists of all that one process has opened with one inode.  A receiving queue
 * pair has no completion queue: it runs when the program polls any queue of its domain.
 * For the rest of the core it has a completion queue that the program never sees (xrcd.cq).
 *
 * The kernel lets processes share a domain.  Here each process has its own, because the
 * process that has the receiving queue pair reads the message.
 */
#pragma once

#include "rdma/tx.h"

struct xrc_domain;

/* Of a receiving queue pair. */
struct qp_xrc {
	struct xrcd *xrcd;
	struct qp *next; /* of the domain */
	/* Handles besides the first one; a handle's own qp_xrc leads to the queue pair. */
	struct qp *real;
	uint32_t n_handles;
	bool is_closed; /* the first one */
};

struct xrc_srq {
	struct xrcd *xrcd;
	struct cq *cq;
	struct srq *next; /* of the domain */
	uint32_t num;
};

struct ibv_xrcd *rdma_open_xrcd(struct ibv_context *c,
				struct ibv_xrcd_init_attr *a);
int rdma_close_xrcd(struct ibv_xrcd *xrcd);
struct ibv_srq *rdma_create_srq_ex(struct ibv_context *c,
				   struct ibv_srq_init_attr_ex *a);
int rdma_get_srq_num(struct ibv_srq *srq, uint32_t *num);
struct ibv_qp *rdma_open_qp(struct ibv_context *c, struct ibv_qp_open_attr *a);
struct ibv_qp *xrc_create_qp(struct ibv_context *c,
			     struct ibv_qp_init_attr_ex *a);

/* The queue pair that a handle stands for, which may be itself. */
static inline struct qp *qp_real(struct qp *qp)
{
	return qp->xrc && qp->xrc->real ? qp->xrc->real : qp;
}

/* A handle ends.  True: so does the queue pair behind it, which replaces *@qp. */
bool xrc_close_handle(struct qp **qp);

/* Membership in the domain. */
MUST_CHECK int xrc_join(struct qp *qp);
void xrc_leave(struct qp *qp);
void xrc_remove_srq(struct srq *srq);
uint32_t xrc_domain_id(const struct qp *qp);
/* Wake who sleeps for one of the domain's queues when @p ends. */
void xrc_watch(struct qp *qp, struct peer *p);

/* The sender finds the receiving queue that @w names, and its protection domain.  False:
 * the receiver has no such queue. */
bool xrc_aim(struct qp *qp, const struct swqe *w, const struct x_qp *t,
	     uint32_t *pd);
/* The receiver: a receive of queue @num, in qp.in. */
bool xrc_take(struct qp *qp, uint32_t num);
/* Why there is none: no receive is posted, no room for its completion, no such queue. */
enum xrc_take { XRC_EMPTY, XRC_FULL, XRC_WRONG };
enum xrc_take xrc_look(struct qp *qp, uint32_t num);
/* The protection domain of queue @num; 0: there is none. */
uint32_t xrc_pd(struct qp *qp, uint32_t num);
