/* SPDX-License-Identifier: MIT */
/*
 * api/verbs/driver/verbs.h - osf-verbs: the devices of libibverbs as devices of osf
 *
 *     osf_f()  ->  this driver  ->  ibv_f()  ->  whoever has the device
 *
 * Calls of libibverbs are public ABI, so the device may be hardware, soft-RoCE, or a
 * software device that defines libibverbs' functions in front of it.  QPs are reliable
 * connections (RC), and reach QPs of the same device of this host, in any process.
 *
 * The driver has some of the newer calls: sends as an array, completions with immediate
 * data, the clock.  It has no create_cq_ex.  So the library makes the older call for a
 * program that asks for no bits, and refuses any bit.
 */
#pragma once

#include <infiniband/verbs.h>
#include <stdbool.h>

#include "osf/verbs_driver.h"

/* A context, and what stands behind it. */
struct verbs_open {
	struct osf_context context;
	struct ibv_context *verbs;
	struct ibv_ah_attr self; /* how a QP of this device is reached */
	enum ibv_mtu mtu;
};

struct verbs_pd {
	struct osf_pd pd;
	struct ibv_pd *verbs;
};

struct verbs_mr {
	struct osf_mr mr;
	struct ibv_mr *verbs;
};

struct verbs_cq {
	struct osf_cq cq;
	struct ibv_cq *verbs;
};

struct verbs_qp {
	struct osf_qp qp;
	struct ibv_qp *verbs;
	const struct verbs_open *open;
};

static inline struct ibv_context *verbs_of(struct osf_context *context)
{
	return ((struct verbs_open *)context)->verbs;
}

/* verbs_post.c */
int verbs_post_send(struct osf_qp *qp, struct osf_send_wr *wr,
		    struct osf_send_wr **bad_wr);
int verbs_post_recv(struct osf_qp *qp, struct osf_recv_wr *wr,
		    struct osf_recv_wr **bad_wr);
int verbs_poll_cq(struct osf_cq *cq, int n, struct osf_wc *wc);
void verbs_fill_ex(struct osf_context_ex *ex); /* the newer calls */
