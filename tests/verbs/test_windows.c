/* SPDX-License-Identifier: MIT */
/*
 * tests/verbs/test_windows.c - memory windows: who may write through them, and until when
 *
 *     test_windows NAME ...     libosf-verbs.so comes first (LD_PRELOAD)
 *
 * b has the windows; a writes.  Expectations are those of the manual pages and of the
 * InfiniBand Architecture, volume 1, sections 10.6.7 and 9.4.1.1.
 */
#include "ends.h"

#define AT 4096
#define PART 1000

static struct ibv_mr *bindable(struct end *e, int access)
{
	struct ibv_mr *mr =
	    ibv_reg_mr(e->pd, e->buf, BUF, access | IBV_ACCESS_MW_BIND);

	CHECK(mr);
	return mr;
}

static struct ibv_mw_bind_info info_of(struct ibv_mr *mr, uint8_t *at,
				       uint64_t length, unsigned access)
{
	return (struct ibv_mw_bind_info){ .mr = mr,
					  .addr = (uintptr_t)at,
					  .length = length,
					  .mw_access_flags = access };
}

static int bind_1(struct end *e, struct ibv_mw *mw,
		  struct ibv_mw_bind_info info)
{
	struct ibv_mw_bind bind = { .wr_id = 9,
				    .send_flags = IBV_SEND_SIGNALED,
				    .bind_info = info };

	return ibv_bind_mw(e->qp, mw, &bind);
}

static int bind_2(struct end *e, struct ibv_mw *mw, uint32_t rkey,
		  struct ibv_mw_bind_info info)
{
	struct ibv_send_wr wr = { .wr_id = 9, .opcode = IBV_WR_BIND_MW }, *bad;

	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = rkey;
	wr.bind_mw.bind_info = info;
	int err = ibv_post_send(e->qp, &wr, &bad);
	if (!err)
		mw->rkey = rkey;
	return err;
}

static enum ibv_wc_status binds(struct end *e)
{
	struct ibv_wc wc = next(e);

	CHECK(wc.wr_id == 9);
	CHECK(wc.status != IBV_WC_SUCCESS || wc.opcode == IBV_WC_BIND_MW);
	return wc.status;
}

static enum ibv_wc_status writes(struct end *a, uint32_t rkey, uint64_t addr,
				 uint32_t length)
{
	struct address to = { .rkey = rkey, .addr = addr };

	CHECK(!post(a, IBV_WR_RDMA_WRITE, length, a->mr->lkey, &to));
	return next(a).status;
}

static int invalidate(struct end *e, enum ibv_wr_opcode op, uint32_t rkey)
{
	struct ibv_send_wr wr = { .wr_id = 9,
				  .opcode = op,
				  .invalidate_rkey = rkey };
	struct ibv_send_wr *bad;

	return ibv_post_send(e->qp, &wr, &bad);
}

static uint64_t at(struct end *e) { return (uintptr_t)e->buf + AT; }

/* Of b, over PART bytes of its memory, for writing. */
static struct ibv_mw *window(struct end *b, enum ibv_mw_type type,
			     struct ibv_mr **mr)
{
	struct ibv_mw *mw = ibv_alloc_mw(b->pd, type);

	*mr = bindable(b, IBV_ACCESS_LOCAL_WRITE);
	CHECK(mw);
	struct ibv_mw_bind_info info =
	    info_of(*mr, b->buf + AT, PART, IBV_ACCESS_REMOTE_WRITE);
	CHECK(!(type == IBV_MW_TYPE_1
		    ? bind_1(b, mw, info)
		    : bind_2(b, mw, ibv_inc_rkey(mw->rkey), info)));
	CHECK(binds(b) == IBV_WC_SUCCESS);
	return mw;
}

static void test_type_1(void)
{
	struct end a, b;
	struct ibv_mr *mr;

	pair(&a, &b, IBV_QPT_RC);
	struct ibv_mw *mw = window(&b, IBV_MW_TYPE_1, &mr);
	uint32_t old = mw->rkey;
	memset(a.buf, 7, BUF);
	CHECK(writes(&a, old, at(&b), PART) == IBV_WC_SUCCESS);
	CHECK(b.buf[AT - 1] == 0 && b.buf[AT] == 7 &&
	      b.buf[AT + PART - 1] == 7 && b.buf[AT + PART] == 0);
	CHECK(ibv_dereg_mr(mr) == EBUSY);
	CHECK(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0));
	/* Elsewhere, by another key. */
	CHECK(
	    !bind_1(&b, mw, info_of(mr, b.buf, PART, IBV_ACCESS_REMOTE_WRITE)));
	CHECK(binds(&b) == IBV_WC_SUCCESS && mw->rkey != old);
	CHECK(writes(&a, mw->rkey, (uintptr_t)b.buf, PART) == IBV_WC_SUCCESS);
	CHECK(writes(&a, old, at(&b), PART) == IBV_WC_REM_ACCESS_ERR);
	CHECK(!ibv_dealloc_mw(mw) && !ibv_dereg_mr(mr));
}

/* A bind of no bytes is the end of the key, and of its hold on the region. */
static void test_unbind(void)
{
	struct end a, b;
	struct ibv_mr *mr;

	pair(&a, &b, IBV_QPT_RC);
	struct ibv_mw *mw = window(&b, IBV_MW_TYPE_1, &mr);
	CHECK(!bind_1(&b, mw, info_of(mr, b.buf, 0, 0)));
	CHECK(binds(&b) == IBV_WC_SUCCESS);
	CHECK(!ibv_dereg_mr(mr));
	CHECK(writes(&a, mw->rkey, at(&b), 8) == IBV_WC_REM_ACCESS_ERR);
	CHECK(!ibv_dealloc_mw(mw));
}

/* What the key does not allow. */
static void test_bounds(void)
{
	struct end a, b;
	struct ibv_mr *mr;

	for (int i = 0; i < 3; i++) {
		pair(&a, &b, IBV_QPT_RC);
		struct ibv_mw *mw = window(&b, IBV_MW_TYPE_2, &mr);
		struct address to = { .rkey = mw->rkey, .addr = at(&b) };

		if (i == 2) { /* no right to read */
			CHECK(!post(&a, IBV_WR_RDMA_READ, 8, a.mr->lkey, &to));
			CHECK(next(&a).status == IBV_WC_REM_ACCESS_ERR);
		} else {
			CHECK(writes(&a, mw->rkey, at(&b) + i - 1 + 2 * i,
				     PART) == IBV_WC_REM_ACCESS_ERR);
		}
	}
	/* A window is no local key. */
	pair(&a, &b, IBV_QPT_RC);
	struct ibv_mw *mw = window(&b, IBV_MW_TYPE_2, &mr);
	CHECK(!post_recv(&a, 1, 8));
	CHECK(!post(&b, IBV_WR_SEND, 8, mw->rkey, NULL));
	CHECK(next(&b).status == IBV_WC_LOC_PROT_ERR);
}

static void test_zero_based(void)
{
	struct end a, b;

	pair(&a, &b, IBV_QPT_RC);
	struct ibv_mw *mw = ibv_alloc_mw(b.pd, IBV_MW_TYPE_2);
	struct ibv_mr *mr = bindable(&b, IBV_ACCESS_LOCAL_WRITE);
	memset(a.buf, 7, BUF);
	CHECK(
	    !bind_2(&b, mw, ibv_inc_rkey(mw->rkey),
		    info_of(mr, b.buf + AT, PART,
			    IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_ZERO_BASED)));
	CHECK(binds(&b) == IBV_WC_SUCCESS);
	CHECK(writes(&a, mw->rkey, 10, 5) == IBV_WC_SUCCESS);
	CHECK(b.buf[AT + 9] == 0 && b.buf[AT + 10] == 7 && b.buf[AT + 15] == 0);
	CHECK(writes(&a, mw->rkey, at(&b), 5) == IBV_WC_REM_ACCESS_ERR);
}

/* Only the queue pair that has bound it. */
static void test_other_qp(void)
{
	struct end a, b, c, d;
	struct ibv_mr *mr;

	pair(&a, &b, IBV_QPT_RC);
	pair(&c, &d, IBV_QPT_RC);
	CHECK(!ibv_destroy_qp(d.qp));
	struct ibv_qp_init_attr init = { .send_cq = b.cq,
					 .recv_cq = b.cq,
					 .cap = { 8, 8, 2, 2, 64 },
					 .qp_type = IBV_QPT_RC };
	d = b; /* a second one of b's protection domain */
	CHECK((d.qp = ibv_create_qp(b.pd, &init)));
	struct address at_c = address_of(&c), at_d = address_of(&d);
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	CHECK(!ibv_modify_qp(c.qp, &reset, IBV_QP_STATE));
	end_connect(&c, &at_d);
	end_connect(&d, &at_c);
	struct ibv_mw *one = window(&b, IBV_MW_TYPE_1, &mr);
	struct ibv_mw *two = window(&b, IBV_MW_TYPE_2, &mr);
	CHECK(writes(&c, one->rkey, at(&b), 8) == IBV_WC_SUCCESS);
	CHECK(writes(&a, two->rkey, at(&b), 8) == IBV_WC_SUCCESS);
	CHECK(writes(&c, two->rkey, at(&b), 8) == IBV_WC_REM_ACCESS_ERR);
}

static void test_local_inv(void)
{
	struct end a, b;
	struct ibv_mr *mr;

	pair(&a, &b, IBV_QPT_RC);
	struct ibv_mw *mw = window(&b, IBV_MW_TYPE_2, &mr);
	uint32_t old = mw->rkey;
	CHECK(!invalidate(&b, IBV_WR_LOCAL_INV, old));
	struct ibv_wc wc = next(&b);
	CHECK(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_LOCAL_INV);
	CHECK(!bind_2(&b, mw, ibv_inc_rkey(old),
		      info_of(mr, b.buf, 8, IBV_ACCESS_REMOTE_WRITE)));
	CHECK(binds(&b) == IBV_WC_SUCCESS);
	CHECK(writes(&a, mw->rkey, (uintptr_t)b.buf, 8) == IBV_WC_SUCCESS);
	CHECK(writes(&a, old, (uintptr_t)b.buf, 8) == IBV_WC_REM_ACCESS_ERR);

	pair(&a, &b, IBV_QPT_RC); /* a region's key is no window's */
	CHECK(!invalidate(&b, IBV_WR_LOCAL_INV, b.mr->rkey));
	CHECK(next(&b).status == IBV_WC_LOC_QP_OP_ERR);
}

static void test_remote_inv(void)
{
	struct end a, b;
	struct ibv_mr *mr;

	pair(&a, &b, IBV_QPT_RC);
	struct ibv_mw *mw = window(&b, IBV_MW_TYPE_2, &mr);
	CHECK(!post_recv(&b, 1, 8));
	CHECK(!invalidate(&a, IBV_WR_SEND_WITH_INV, mw->rkey));
	CHECK(next(&a).status == IBV_WC_SUCCESS);
	/* The receiver has not looked yet, and the key has ended all the same. */
	CHECK(writes(&a, mw->rkey, at(&b), 8) == IBV_WC_REM_ACCESS_ERR);
	CHECK(b.buf[AT] == 0);
	struct ibv_wc wc = next(&b);
	CHECK(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV &&
	      wc.wc_flags == IBV_WC_WITH_INV &&
	      wc.invalidated_rkey == mw->rkey);
	CHECK(!ibv_dereg_mr(mr)); /* it is not bound any more */

	pair(&a, &b, IBV_QPT_RC); /* a region is not to be ended by others */
	CHECK(!post_recv(&b, 1, 8));
	CHECK(!invalidate(&a, IBV_WR_SEND_WITH_INV, b.mr->rkey));
	CHECK(next(&b).status == IBV_WC_REM_INV_REQ_ERR);
	CHECK(b.qp->state == IBV_QPS_ERR);
	/* More of them than a sender remembers, each read in between or not. */
	pair(&a, &b, IBV_QPT_RC);
	mw = window(&b, IBV_MW_TYPE_2, &mr);
	for (int i = 0; i < 20; i++) {
		CHECK(!post_recv(&b, 1, 8));
		CHECK(!invalidate(&a, IBV_WR_SEND_WITH_INV, mw->rkey));
		CHECK(next(&a).status == IBV_WC_SUCCESS);
		CHECK(next(&b).wc_flags == IBV_WC_WITH_INV);
		CHECK(!bind_2(
		    &b, mw, ibv_inc_rkey(mw->rkey),
		    info_of(mr, b.buf + AT, PART, IBV_ACCESS_REMOTE_WRITE)));
		CHECK(binds(&b) == IBV_WC_SUCCESS);
		CHECK(writes(&a, mw->rkey, at(&b), 8) == IBV_WC_SUCCESS);
	}
}

/* Binds that complete with an error, which ends the queue pair. */
static void test_bind_errors(void)
{
	struct end a, b;
	const unsigned write = IBV_ACCESS_REMOTE_WRITE;

	for (int i = 0; i < 5; i++) {
		struct ibv_mr *mr;

		pair(&a, &b, IBV_QPT_RC);
		struct ibv_mw *mw = ibv_alloc_mw(b.pd, IBV_MW_TYPE_2);
		uint32_t key = ibv_inc_rkey(mw->rkey);
		if (i == 0) { /* not for windows */
			CHECK(!bind_2(&b, mw, key,
				      info_of(b.mr, b.buf, 8, write)));
		} else if (i == 1) { /* the region is to be read only */
			mr = bindable(&b, 0);
			CHECK(
			    !bind_2(&b, mw, key, info_of(mr, b.buf, 8, write)));
		} else if (i == 2) { /* one byte too far */
			mr = bindable(&b, IBV_ACCESS_LOCAL_WRITE);
			CHECK(!bind_2(&b, mw, key,
				      info_of(mr, b.buf + 1, BUF, write)));
		} else if (i == 3) { /* bound already */
			mw = window(&b, IBV_MW_TYPE_2, &mr);
			CHECK(!bind_2(&b, mw, ibv_inc_rkey(mw->rkey),
				      info_of(mr, b.buf, 8, write)));
		} else { /* offsets of a region that begins at zero */
			mr = bindable(&b, IBV_ACCESS_LOCAL_WRITE |
					      IBV_ACCESS_ZERO_BASED);
			CHECK(
			    !bind_2(&b, mw, key, info_of(mr, NULL, 8, write)));
		}
		CHECK(binds(&b) == IBV_WC_MW_BIND_ERR);
		CHECK(b.qp->state == IBV_QPS_ERR);
	}
}

static void test_calls(void)
{
	struct end a, b;
	struct ibv_mr *mr;
	struct ibv_device_attr attr;

	pair(&a, &b, IBV_QPT_RC);
	CHECK(!ibv_query_device(b.ctx, &attr) && attr.max_mw > 0 &&
	      attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW &&
	      attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B);
	CHECK(!ibv_alloc_mw(b.pd, 3) && errno == EINVAL);
	struct ibv_mw *one = window(&b, IBV_MW_TYPE_1, &mr);
	struct ibv_mw *two = ibv_alloc_mw(b.pd, IBV_MW_TYPE_2);
	struct ibv_mw_bind_info info = info_of(mr, b.buf, 8, 0);
	CHECK(bind_1(&b, two, info) == EINVAL);
	CHECK(bind_2(&b, one, ibv_inc_rkey(one->rkey), info) == EINVAL);
	CHECK(bind_2(&b, two, two->rkey + 256, info) == EINVAL);
	CHECK(bind_2(&b, two, two->rkey, info_of(mr, b.buf, 0, 0)) == EINVAL);
	CHECK(bind_1(&b, one, info_of(mr, b.buf, 8, IBV_ACCESS_ZERO_BASED)) ==
	      EINVAL);
	CHECK(bind_1(&b, one, info_of(NULL, b.buf, 8, 0)) == EINVAL);
	CHECK(bind_1(&b, one, info_of(a.mr, a.buf, 8, 0)) == EPERM);
	CHECK(ibv_dealloc_pd(b.pd) == EBUSY);
	CHECK(!ibv_dealloc_mw(two) && !ibv_dealloc_mw(one));
	CHECK(!ibv_dereg_mr(mr));
	struct end u;
	end_open(&u, IBV_QPT_UD);
	one = ibv_alloc_mw(u.pd, IBV_MW_TYPE_1);
	CHECK(bind_1(&u, one, info_of(NULL, NULL, 0, 0)) == EINVAL);
}

static const struct test tests[] = {
	{ "type_1", test_type_1 },         { "unbind", test_unbind },
	{ "bounds", test_bounds },         { "zero_based", test_zero_based },
	{ "other_qp", test_other_qp },     { "local_inv", test_local_inv },
	{ "remote_inv", test_remote_inv }, { "bind_errors", test_bind_errors },
	{ "calls", test_calls },
};

int main(int argc, char **argv)
{
	return tests_main(argc, argv, tests, sizeof(tests) / sizeof(*tests),
			  120);
}
