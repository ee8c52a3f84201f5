/* SPDX-License-Identifier: MIT */
/*
 * tests/fuzz/fuzz_device.h - what the fuzzers of the RDMA device share: its objects, the
 * program's calls, and what has to hold
 *
 *   I1  no byte outside the memory that we have registered changes
 *   I2  each completion is of a request that was posted, and each comes once at most
 *   I3  a pair that is healthy still works, on the same completion queue
 *   I4  a region is free again when the window that may be bound to it is
 *   I5  of a region without remote access only what a window stands for changes, and nothing
 *       once the window is gone
 */
#pragma once

#include <assert.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/libc.h"
#include "fuzz_script.h"
#include "rdma/extended.h"
#include "rdma/mcast.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define BUF 4096u
#define EDGE 256u
#define N_WR 32u
#define HEALTHY UINT64_C(1000000)
#define WALL 64u

static struct ibv_context context;
static struct ctx *ctx;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static struct ibv_mw *mw;
static struct ibv_xrcd *xrcd;
static struct ibv_srq *srq, *basic;
static uint32_t srq_num;
/* A region that only a window opens, between two walls. */
static uint8_t walled[3 * WALL];
static struct ibv_mr *walled_mr;
static struct ibv_mw *door;
static const union ibv_gid group = { .raw = { 0xff, 0x0e, 0x86 } };
static uint8_t memory[EDGE + BUF + EDGE];
static struct ibv_qp *good[2];

static uint8_t posted[2 * N_WR]; /* 1: posted, 2: complete */
static uint32_t n_posted;

static int init_qp(struct ibv_qp *qp, enum ibv_qp_type type)
{
	bool is_ud = type == IBV_QPT_UD;
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT,
				 .port_num = 1,
				 .qkey = 1,
				 .qp_access_flags = IBV_ACCESS_REMOTE_WRITE |
						    IBV_ACCESS_REMOTE_READ |
						    IBV_ACCESS_REMOTE_ATOMIC };

	return rdma_modify_qp(qp, &a,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				  (is_ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
}

/* @dgid: the peer's; NULL: it is on this host. */
static void connect_qp(struct ibv_qp *qp, uint32_t to, enum ibv_qp_type type,
		       const union ibv_gid *dgid)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTR,
				 .path_mtu = IBV_MTU_1024,
				 .dest_qp_num = to,
				 .max_dest_rd_atomic = 1,
				 .min_rnr_timer = 1,
				 .ah_attr = { .is_global = 1, .port_num = 1 } };
	int mask =
	    IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	bool asks = type == IBV_QPT_RC || type == IBV_QPT_XRC_SEND;
	bool answers = type == IBV_QPT_RC || type == IBV_QPT_XRC_RECV;
	int reliable = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	int sends =
	    IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;

	if (dgid)
		a.ah_attr.grh.dgid = *dgid;
	else
		device_gid(0, &a.ah_attr.grh.dgid, NULL);
	int err = init_qp(qp, type);
	err |= rdma_modify_qp(qp, &a,
			      IBV_QP_STATE | (type == IBV_QPT_UD ? 0 : mask) |
				  (answers ? reliable : 0));
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS,
				  .timeout = 1,
				  .max_rd_atomic = 1 };
	err |= rdma_modify_qp(qp, &a,
			      IBV_QP_STATE | IBV_QP_SQ_PSN |
				  (asks || answers ? IBV_QP_TIMEOUT : 0) |
				  (asks ? sends : 0));
	assert(!err);
}

static struct ibv_qp *new_qp(enum ibv_qp_type type, struct ibv_srq *from)
{
	struct ibv_qp_init_attr a = { .send_cq = cq,
				      .recv_cq = cq,
				      .srq = from,
				      .cap = { 16, 16, 2, 2, 64 },
				      .qp_type = type,
				      .sq_sig_all = 1 };
	struct ibv_qp_init_attr_ex ex = { .qp_type = IBV_QPT_XRC_RECV,
					  .comp_mask = IBV_QP_INIT_ATTR_XRCD,
					  .xrcd = xrcd };
	struct ibv_qp *qp = type == IBV_QPT_XRC_RECV
				? xrc_create_qp(&ctx->v.context, &ex)
				: rdma_create_qp(pd, &a);

	assert(qp);
	return qp;
}

/* A queue that messages of XRC may name. */
static void open_domain(void)
{
	struct ibv_xrcd_init_attr domain = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = O_CREAT
	};
	struct ibv_srq_init_attr_ex queue = {
		.attr = { .max_wr = 16, .max_sge = 1 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = pd,
		.cq = cq
	};

	struct ibv_srq_init_attr of_one = { .attr = { .max_wr = 16,
						      .max_sge = 1 } };

	queue.xrcd = xrcd = rdma_open_xrcd(&ctx->v.context, &domain);
	srq = rdma_create_srq_ex(&ctx->v.context, &queue);
	assert(srq && !rdma_get_srq_num(srq, &srq_num));
	basic = rdma_create_srq(pd, &of_one);
	assert(basic);
}

static void register_memory(void)
{
	mr = rdma_reg_mr(pd, memory + EDGE, BUF, (uintptr_t)memory + EDGE,
			 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			     IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
			     IBV_ACCESS_MW_BIND);
	walled_mr = rdma_reg_mr(pd, walled, sizeof(walled), (uintptr_t)walled,
				IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	assert(mr && walled_mr);
}

static void device_begin(void)
{
	static struct ibv_device device;

	setenv("OSF_RDMA_REACH", "0", 1); /* it would write where it is told */
	libc_resolve();
	ctx = calloc(1, sizeof(*ctx));
	ctx->v.context = context;
	ctx->v.context.device = &device;
	ctx->v.context.num_comp_vectors = 1;
	ctx->v.context.async_fd = memfd_create("events", MFD_CLOEXEC);
	ctx->events_end = &ctx->events;
	assert(self_get());
	ctx->generation = self_generation();
	pd = rdma_alloc_pd(&ctx->v.context);
	cq = rdma_create_cq(&ctx->v.context, 256, NULL, NULL, 0);
	register_memory();
	open_domain();
	for (int i = 0; i < 2; i++)
		good[i] = new_qp(IBV_QPT_RC, NULL);
	for (int i = 0; i < 2; i++)
		connect_qp(good[i], good[!i]->qp_num, IBV_QPT_RC, NULL);
	memset(memory, 0xa5, sizeof(memory));
}

static uint64_t new_id(void)
{
	if (n_posted == 2 * N_WR)
		return UINT64_MAX;
	posted[n_posted] = 1;
	return n_posted++;
}

static struct ibv_sge our_sge(void)
{
	uint32_t off = take(2) % BUF;

	return (struct ibv_sge){ (uintptr_t)memory + EDGE + off, BUF - off,
				 mr->lkey };
}

static void post_receive(struct ibv_qp *qp)
{
	struct ibv_sge sge = our_sge();
	struct ibv_recv_wr wr = { .wr_id = new_id(),
				  .sg_list = &sge,
				  .num_sge = 1 };
	struct ibv_recv_wr *bad;

	struct ibv_srq *from = qp->qp_type == IBV_QPT_XRC_RECV ? srq : qp->srq;

	if (wr.wr_id != UINT64_MAX &&
	    (from ? rdma_post_srq_recv(from, &wr, &bad)
		  : rdma_post_recv(qp, &wr, &bad)))
		posted[wr.wr_id] = 0;
}

/* @remote_qpn: of a datagram to @ah */
static void post_request(struct ibv_qp *qp, struct ibv_ah *ah,
			 uint32_t remote_qpn)
{
	struct ibv_sge sge = our_sge();
	struct ibv_send_wr wr = { .wr_id = new_id(),
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = take(1) % 10 };
	struct ibv_send_wr *bad;

	if (wr.wr_id == UINT64_MAX)
		return;
	if (wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
	    wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		sge.length = 8;
	wr.wr.rdma.remote_addr = (uintptr_t)memory + EDGE;
	wr.wr.rdma.rkey = mr->rkey;
	if (wr.opcode == IBV_WR_LOCAL_INV || wr.opcode == IBV_WR_SEND_WITH_INV)
		wr.invalidate_rkey = mw->rkey;
	if (wr.opcode == IBV_WR_BIND_MW) {
		uint32_t at = take(2);

		mw->rkey = ibv_inc_rkey(mw->rkey);
		wr.bind_mw.mw = mw;
		wr.bind_mw.rkey = mw->rkey;
		wr.bind_mw.bind_info = (struct ibv_mw_bind_info){
			mr, (uintptr_t)memory + EDGE + at % (2 * BUF), at,
			IBV_ACCESS_REMOTE_WRITE
		};
	}
	wr.qp_type.xrc.remote_srqn = take(1) & 1 ? srq_num : take(4);
	if (qp->qp_type == IBV_QPT_UD) {
		wr.wr.ud.ah = ah;
		wr.wr.ud.remote_qpn = remote_qpn;
	}
	if (rdma_post_send(qp, &wr, &bad))
		posted[wr.wr_id] = 0;
}

static void poll_some(void)
{
	struct ibv_wc wc[4];

	for (int i = 0; i < 3; i++) {
		int n = rdma_poll_cq(cq, 4, wc);

		for (int k = 0; k < n; k++) {
			assert(wc[k].wr_id < n_posted); /* I2 */
			assert(posted[wc[k].wr_id] == 1);
			posted[wc[k].wr_id] = 2;
		}
	}
}

/* An event at the next receive that is taken, or later. */
static void set_limit(void)
{
	struct ibv_srq_attr a = { .srq_limit = take(1) % 4 };
	int err = rdma_modify_srq(basic, &a, IBV_SRQ_LIMIT);

	assert(!err);
}

static void check_healthy(void)
{
	struct ibv_sge sge = { (uintptr_t)memory + EDGE, 64, mr->lkey };
	struct ibv_recv_wr r = { .wr_id = HEALTHY,
				 .sg_list = &sge,
				 .num_sge = 1 };
	struct ibv_send_wr w = { .wr_id = HEALTHY + 1,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND };
	struct ibv_recv_wr *bad_r;
	struct ibv_send_wr *bad_w;
	struct ibv_wc wc;
	int err = rdma_post_recv(good[0], &r, &bad_r) |
		  rdma_post_send(good[1], &w, &bad_w);

	assert(!err);
	for (int i = 0, got = 0; got < 2; i++) {
		assert(i < 1000); /* I3 */
		if (rdma_poll_cq(cq, 1, &wc) < 1)
			continue;
		assert(wc.wr_id >= HEALTHY && wc.status == IBV_WC_SUCCESS);
		got++;
	}
}

static void check_guards(void)
{
	for (size_t i = 0; i < EDGE; i++)
		assert(memory[i] == 0xa5 &&
		       memory[EDGE + BUF + i] == 0xa5); /* I1 */
	for (size_t i = 0; i < WALL; i++)
		assert(walled[i] == 0x5a &&
		       walled[2 * WALL + i] == 0x5a); /* I5 */
}

/* Receives that nobody took would be found by the next script. */
static void drain_shared(struct ibv_srq *from)
{
	struct rwqe none;

	while (srq_take(container_of(from, struct srq, srq), &none))
		;
}

/* One that is not bound, and the door: a request that is executed at once.  Datagrams have no
 * windows. */
static void open_windows(struct ibv_qp *qp)
{
	struct ibv_send_wr *bad,
	    wr = { .wr_id = new_id(), .opcode = IBV_WR_BIND_MW };

	mw = rdma_alloc_mw(pd, IBV_MW_TYPE_2);
	door = rdma_alloc_mw(pd, IBV_MW_TYPE_2);
	memset(walled, 0x5a, sizeof(walled));
	wr.bind_mw.mw = door;
	wr.bind_mw.rkey = door->rkey = ibv_inc_rkey(door->rkey);
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){
		walled_mr, (uintptr_t)walled + WALL, WALL,
		IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC
	};
	if (qp->qp_type == IBV_QPT_XRC_RECV || rdma_post_send(qp, &wr, &bad))
		posted[wr.wr_id] = 0;
}

static void drop_events(void)
{
	while (ctx->events) {
		struct event *e = ctx->events;

		ctx->events = e->next;
		free(e);
	}
	ctx->events_end = &ctx->events;
	int err = ftruncate(ctx->v.context.async_fd, 0);
	assert(!err);
}

/* Give back what a script has used of @qp, which ends with it. */
static void release(struct ibv_qp *qp)
{
	int err = rdma_dealloc_mw(mw);

	err |= rdma_dereg_mr(mr) | rdma_dereg_mr(walled_mr); /* I4 */
	assert(!err);
	register_memory();
	drop_events();
	(void)!rdma_detach_mcast(qp, &group, 0); /* the script may have, too */
	memset(self_current->dir->mcast, 0, sizeof(self_current->dir->mcast));
	err = rdma_destroy_qp(qp);
	assert(!err);
}

static void check_all(void)
{
	check_healthy();
	check_guards();
	drain_shared(srq);
	drain_shared(basic);
	memset(posted, 0, sizeof(posted));
	n_posted = 0;
}
