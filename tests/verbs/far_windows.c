/* SPDX-License-Identifier: MIT */
/*
 * tests/verbs/far_windows.c - memory windows of another host, and keys that it withdraws
 *
 *     far_windows PORT            has the windows
 *     far_windows PORT ADDRESS    writes through them
 *
 * Both run under `osf run`.  A TCP connection says whose turn it is and which key is
 * meant; expectations are those of test_windows.c.
 */
#include "far.h"

#define AT 4096
#define PART 3000 /* some packets */

static void open_far(struct end *e)
{
	end_open(e, IBV_QPT_RC);
	struct address mine = address_of(e);
	tell(&mine);
	struct address theirs = hear();
	end_connect(e, &theirs);
	tell(&mine); /* both are ready */
	hear();
}

static int post_with(struct end *e, enum ibv_wr_opcode op, uint32_t key)
{
	struct ibv_send_wr wr = { .wr_id = 9,
				  .opcode = op,
				  .invalidate_rkey = key };
	struct ibv_send_wr *bad;

	return ibv_post_send(e->qp, &wr, &bad);
}

/* @e's memory from AT on, for writing; where that is, with its key. */
static struct address bind_it(struct end *e, struct ibv_mw *mw,
			      struct ibv_mr *mr)
{
	struct ibv_mw_bind_info info = { .mr = mr,
					 .addr = (uintptr_t)e->buf + AT,
					 .length = PART,
					 .mw_access_flags =
					     IBV_ACCESS_REMOTE_WRITE };
	struct ibv_mw_bind bind = { .wr_id = 9, .bind_info = info };
	struct ibv_send_wr wr = { .wr_id = 9, .opcode = IBV_WR_BIND_MW }, *bad;

	if (mw->type == IBV_MW_TYPE_1) {
		CHECK(!ibv_bind_mw(e->qp, mw, &bind));
	} else {
		wr.bind_mw.mw = mw;
		wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
		wr.bind_mw.bind_info = info;
		CHECK(!ibv_post_send(e->qp, &wr, &bad));
		mw->rkey = wr.bind_mw.rkey;
	}
	return (struct address){ .rkey = mw->rkey, .addr = info.addr };
}

static void completes(struct end *e, enum ibv_wc_opcode op)
{
	struct ibv_wc wc = next(e);

	CHECK(wc.status == IBV_WC_SUCCESS && wc.opcode == op);
}

static struct ibv_mr *bindable(struct end *e)
{
	struct ibv_mr *mr = ibv_reg_mr(
	    e->pd, e->buf, BUF, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);

	CHECK(mr);
	return mr;
}

/* The message behind a bind tells its key: so whoever has read it may use the key. */
static void has_type_2(struct end *e)
{
	struct ibv_mr *mr = bindable(e);
	struct ibv_mw *mw = ibv_alloc_mw(e->pd, IBV_MW_TYPE_2);

	CHECK(mw);
	for (int i = 0; i < 5; i++) {
		CHECK(!post_recv(e, 1, 8));
		struct address at = bind_it(e, mw, mr);
		memcpy(e->buf, &at, sizeof(at));
		CHECK(!post(e, IBV_WR_SEND, sizeof(at), e->mr->lkey, NULL));
		completes(e, IBV_WC_BIND_MW);
		completes(e, IBV_WC_SEND);
		struct ibv_wc wc = next(e);
		CHECK(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV &&
		      wc.wc_flags == IBV_WC_WITH_INV &&
		      wc.invalidated_rkey == at.rkey);
		CHECK(e->buf[AT] == i + 1 && e->buf[AT + PART - 1] == i + 1 &&
		      !e->buf[AT + PART]);
	}
	/* Ended here: the peer's write is refused. */
	struct address at = bind_it(e, mw, mr);
	completes(e, IBV_WC_BIND_MW);
	CHECK(!post_with(e, IBV_WR_LOCAL_INV, at.rkey));
	completes(e, IBV_WC_LOCAL_INV);
	CHECK(!ibv_dereg_mr(mr));
	tell(&at);
	hear();
	CHECK(e->buf[AT] == 5);
}

static void uses_type_2(struct end *e)
{
	for (int i = 0; i < 5; i++) {
		struct address at;

		CHECK(!post_recv(e, 1, sizeof(at)));
		completes(e, IBV_WC_RECV);
		memcpy(&at, e->buf, sizeof(at));
		memset(e->buf, i + 1, PART);
		CHECK(!post(e, IBV_WR_RDMA_WRITE, PART, e->mr->lkey, &at));
		CHECK(!post_with(e, IBV_WR_SEND_WITH_INV, at.rkey));
		completes(e, IBV_WC_RDMA_WRITE);
		completes(e, IBV_WC_SEND);
	}
	struct address at = hear();
	memset(e->buf, 7, PART);
	CHECK(!post(e, IBV_WR_RDMA_WRITE, PART, e->mr->lkey, &at));
	CHECK(next(e).status == IBV_WC_REM_ACCESS_ERR);
	tell(&at);
}

static void has_type_1(struct end *e)
{
	struct ibv_mr *mr = bindable(e);
	struct ibv_mw *mw = ibv_alloc_mw(e->pd, IBV_MW_TYPE_1);
	struct address old = { 0 };

	CHECK(mw);
	for (int i = 0; i < 2; i++) {
		struct address at = bind_it(e, mw, mr);

		completes(e, IBV_WC_BIND_MW);
		CHECK(at.rkey != old.rkey);
		old = i ? old : at;
		tell(&at);
		hear();
		CHECK(e->buf[AT] == i + 1 && e->buf[AT + PART - 1] == i + 1);
	}
	tell(&old); /* it has another key by now */
	hear();
	CHECK(e->buf[AT] == 2);
}

static void uses_type_1(struct end *e)
{
	struct address at;

	for (int i = 0; i < 2; i++) {
		at = hear();
		memset(e->buf, i + 1, PART);
		CHECK(!post(e, IBV_WR_RDMA_WRITE, PART, e->mr->lkey, &at));
		completes(e, IBV_WC_RDMA_WRITE);
		tell(&at);
	}
	at = hear();
	CHECK(!post(e, IBV_WR_RDMA_WRITE, PART, e->mr->lkey, &at));
	CHECK(next(e).status == IBV_WC_REM_ACCESS_ERR);
	tell(&at);
}

/* A region's key is not to be ended by others. */
static void has_no_window(struct end *e)
{
	CHECK(!post_recv(e, 1, 8));
	struct address at = address_of(e);
	tell(&at);
	CHECK(next(e).status == IBV_WC_REM_INV_REQ_ERR);
	hear();
}

static void ends_a_region(struct end *e)
{
	struct address at = hear();

	CHECK(!post_with(e, IBV_WR_SEND_WITH_INV, at.rkey));
	CHECK(next(e).status == IBV_WC_REM_ACCESS_ERR);
	tell(&at);
}

int main(int argc, char **argv)
{
	static void (*const roles[][2])(struct end *) = {
		{ has_type_2, uses_type_2 },
		{ has_type_1, uses_type_1 },
		{ has_no_window, ends_a_region },
	};
	struct end e;

	setvbuf(stdout, NULL, _IONBF, 0);
	alarm(60);
	meet(atoi(argv[1]), argc > 2 ? argv[2] : NULL);
	for (size_t i = 0; i < sizeof(roles) / sizeof(*roles); i++) {
		open_far(&e);
		roles[i][argc > 2](&e);
	}
	return 0;
}
