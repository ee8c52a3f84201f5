/* SPDX-License-Identifier: MIT */
/*
 * tests/vm/golden_data.c - what completes with which status: see golden.h
 */
#include "golden.h"

#define BAD_KEY 0x00ffff13

static struct end a, b;

/* Anew, because an error is a queue pair's end. */
static void begin(enum ibv_qp_type type) { pair_up(&a, &b, type); }

static int post_wr(enum ibv_wr_opcode op, uint32_t length)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = request(&a, &sge, op, length, &b);

	wr.imm_data = htobe32(77);
	wr.wr.rdma.rkey = b.mr->rkey;
	return send_one(&a, &wr);
}

static int atomic(enum ibv_wr_opcode op, uint64_t offset, uint32_t rkey,
		  uint64_t compare_add, uint64_t swap)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = request(&a, &sge, op, 8, &b);

	wr.wr.atomic.remote_addr += offset;
	wr.wr.atomic.rkey = rkey;
	wr.wr.atomic.compare_add = compare_add;
	wr.wr.atomic.swap = swap;
	return send_one(&a, &wr);
}

static int remote(enum ibv_wr_opcode op, uint64_t offset, uint32_t rkey,
		  uint32_t length)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = request(&a, &sge, op, length, &b);

	wr.wr.rdma.remote_addr += offset;
	wr.wr.rdma.rkey = rkey;
	return send_one(&a, &wr);
}

static void say_u64(const char *what, uint64_t v)
{
	line("%s", what);
	add(" %llu", (unsigned long long)v);
	end_line();
}

static uint64_t u64_at(struct end *e, size_t offset)
{
	uint64_t v;

	memcpy(&v, e->buf + offset, sizeof(v));
	return v;
}

void data_good(void)
{
	begin(IBV_QPT_RC);
	for (int i = 0; i < 5; i++)
		CHECK(!post_recv(&b, 1 + (uint64_t)i, 8192));
	CHECK(!post_wr(IBV_WR_SEND, 0));
	outcome("RC send of nothing", &a, 1, &b, 1);
	CHECK(!post_wr(IBV_WR_SEND, 8192));
	outcome("RC send", &a, 1, &b, 1);
	CHECK(!post_wr(IBV_WR_SEND_WITH_IMM, 1));
	outcome("RC send with immediate", &a, 1, &b, 1);
	CHECK(!post_wr(IBV_WR_RDMA_WRITE_WITH_IMM, 5000));
	outcome("RC write with immediate", &a, 1, &b, 1);
	CHECK(!post_wr(IBV_WR_RDMA_WRITE_WITH_IMM, 0));
	outcome("RC write of nothing with immediate", &a, 1, &b, 1);
	CHECK(!post_wr(IBV_WR_RDMA_WRITE, 5000));
	outcome("RC write", &a, 1, &b, 0);
	CHECK(!post_wr(IBV_WR_RDMA_WRITE, 0));
	outcome("RC write of nothing", &a, 1, &b, 0);
	CHECK(!post_wr(IBV_WR_RDMA_READ, 5000));
	outcome("RC read", &a, 1, &b, 0);
	CHECK(!post_wr(IBV_WR_RDMA_READ, 0));
	outcome("RC read of nothing", &a, 1, &b, 0);
	memset(b.buf, 0, 8);
	b.buf[0] = 5;
	CHECK(!atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, 0, b.mr->rkey, 3, 0));
	outcome("RC fetch and add", &a, 1, &b, 0);
	say_u64("RC fetch and add, before", u64_at(&a, 0));
	say_u64("RC fetch and add, after", u64_at(&b, 0));
	CHECK(!atomic(IBV_WR_ATOMIC_CMP_AND_SWP, 0, b.mr->rkey, 8, 11));
	outcome("RC compare and swap", &a, 1, &b, 0);
	say_u64("RC compare and swap, after", u64_at(&b, 0));
	CHECK(!atomic(IBV_WR_ATOMIC_CMP_AND_SWP, 0, b.mr->rkey, 8, 12));
	outcome("RC compare and swap of another value", &a, 1, &b, 0);
	say_u64("RC compare and swap of another value, after", u64_at(&b, 0));
}

void data_other_types(void)
{
	static const struct {
		enum ibv_wr_opcode op;
		const char *name;
	} ops[] = {
		{ IBV_WR_RDMA_WRITE, "write" },
		{ IBV_WR_RDMA_READ, "read" },
		{ IBV_WR_ATOMIC_CMP_AND_SWP, "compare and swap" },
		{ IBV_WR_SEND_WITH_INV, "send with invalidate" },
		{ IBV_WR_RDMA_WRITE_WITH_IMM, "write with immediate" },
		{ IBV_WR_LOCAL_INV, "local invalidate" },
		{ IBV_WR_BIND_MW, "bind" },
	};

	for (size_t i = 0; i < sizeof(ops) / sizeof(*ops); i++)
		for (int ud = 0; ud < 2; ud++) {
			struct ibv_sge sge;

			begin(ud ? IBV_QPT_UD : IBV_QPT_UC);
			if (!ud && (ops[i].op == IBV_WR_RDMA_WRITE ||
				    ops[i].op == IBV_WR_RDMA_WRITE_WITH_IMM))
				continue;
			struct ibv_send_wr wr =
			    request(&a, &sge, ops[i].op, 8, &b);
			if (ud) {
				wr.wr.ud.ah = ah_of(&a);
				wr.wr.ud.remote_qpn = b.qp->qp_num;
			}
			line("%s %s, posted", ud ? "UD" : "UC", ops[i].name);
			add(" %s", error_name(send_one(&a, &wr)));
			end_line();
		}
}

void data_lengths(void)
{
	begin(IBV_QPT_RC);
	CHECK(!post_recv(&b, 1, 10));
	CHECK(!post_recv(&b, 2, 10));
	CHECK(!post_wr(IBV_WR_SEND, 11));
	outcome("RC send, the receive is a byte too short", &a, 1, &b, 2);
	begin(IBV_QPT_RC);
	CHECK(!post_recv(&b, 1, 10));
	CHECK(!post_wr(IBV_WR_SEND, 5000));
	outcome("RC send of several packets, the receive is too short", &a, 1,
		&b, 1);
	begin(IBV_QPT_RC);
	CHECK(!post_recv(&b, 1, 0));
	CHECK(!post_wr(IBV_WR_RDMA_WRITE_WITH_IMM, 100));
	outcome("RC write with immediate, the receive has no room", &a, 1, &b,
		1);
	begin(IBV_QPT_RC);
	CHECK(!post_recv(&b, 1, 10));
	CHECK(!post_wr(IBV_WR_SEND, 11));
	CHECK(!post_wr(IBV_WR_SEND, 1));
	outcome("RC two sends, the first is too long", &a, 2, &b, 1);
}

static void keys(const char *name, enum ibv_wr_opcode op)
{
	char text[128];

	begin(IBV_QPT_RC);
	CHECK(!remote(op, 0, BAD_KEY, 8));
	snprintf(text, sizeof(text), "RC %s, a key that is none", name);
	outcome(text, &a, 1, &b, 0);
	begin(IBV_QPT_RC);
	CHECK(!remote(op, BUF - 4, b.mr->rkey, 8));
	snprintf(text, sizeof(text), "RC %s, beyond the region", name);
	outcome(text, &a, 1, &b, 0);
	begin(IBV_QPT_RC);
	CHECK(!remote(op, (uint64_t)-8, b.mr->rkey, 16));
	snprintf(text, sizeof(text), "RC %s, before the region", name);
	outcome(text, &a, 1, &b, 0);
	begin(IBV_QPT_RC);
	CHECK(!remote(op, 0, a.mr->rkey, 8));
	snprintf(text, sizeof(text), "RC %s, a key of another domain", name);
	outcome(text, &a, 1, &b, 0);
	begin(IBV_QPT_RC);
	struct ibv_mr *mr =
	    ibv_reg_mr(b.pd, b.buf, BUF, IBV_ACCESS_LOCAL_WRITE);
	CHECK(!remote(op, 0, mr->rkey, 8));
	snprintf(text, sizeof(text), "RC %s, the region permits none", name);
	outcome(text, &a, 1, &b, 0);
	end_open(&a, IBV_QPT_RC);
	end_open(&b, IBV_QPT_RC);
	meet(&a, &b, 0);
	CHECK(!remote(op, 0, b.mr->rkey, 8));
	snprintf(text, sizeof(text), "RC %s, the queue pair permits none",
		 name);
	outcome(text, &a, 1, &b, 0);
	begin(IBV_QPT_RC);
	struct ibv_mr gone = *b.mr;
	CHECK(!ibv_dereg_mr(b.mr));
	b.mr = &gone;
	CHECK(!remote(op, 0, gone.rkey, 8));
	snprintf(text, sizeof(text), "RC %s, the region is gone", name);
	outcome(text, &a, 1, &b, 0);
	begin(IBV_QPT_RC);
	CHECK(!remote(op, 0, BAD_KEY, 0));
	snprintf(text, sizeof(text), "RC %s of nothing, a key that is none",
		 name);
	outcome(text, &a, 1, &b, 0);
}

void data_keys(void)
{
	keys("write", IBV_WR_RDMA_WRITE);
	keys("read", IBV_WR_RDMA_READ);
}

void data_one_sided(void)
{
	begin(IBV_QPT_RC);
	said("RC atomic, not aligned, posted",
	     atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, 4, b.mr->rkey, 1, 0));
	begin(IBV_QPT_RC);
	CHECK(!atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, 0, BAD_KEY, 1, 0));
	outcome("RC atomic, a key that is none", &a, 1, &b, 0);
	begin(IBV_QPT_RC);
	CHECK(!atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, BUF, b.mr->rkey, 1, 0));
	outcome("RC atomic, beyond the region", &a, 1, &b, 0);
	begin(IBV_QPT_RC);
	struct ibv_mr *mr =
	    ibv_reg_mr(b.pd, b.buf, BUF,
		       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			   IBV_ACCESS_REMOTE_READ);
	CHECK(!atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, 0, mr->rkey, 1, 0));
	outcome("RC atomic, the region permits none", &a, 1, &b, 0);
	begin(IBV_QPT_RC);
	CHECK(!post_recv(&b, 1, 10));
	CHECK(!remote(IBV_WR_RDMA_WRITE_WITH_IMM, 0, BAD_KEY, 8));
	outcome("RC write with immediate, a key that is none", &a, 1, &b, 1);
	end_open(&a, IBV_QPT_RC);
	end_open(&b, IBV_QPT_RC);
	meet(&a, &b, IBV_ACCESS_REMOTE_READ);
	CHECK(!post_wr(IBV_WR_RDMA_READ, 8));
	outcome("RC read, the queue pair permits reads only", &a, 1, &b, 0);
	CHECK(!post_wr(IBV_WR_RDMA_WRITE, 8));
	outcome("RC write, the queue pair permits reads only", &a, 1, &b, 0);
}

/* Nothing is left to send for a peer to see. */
void data_local(void)
{
	struct ibv_sge sge;

	begin(IBV_QPT_RC);
	CHECK(!post_recv(&b, 1, 100));
	struct ibv_send_wr wr = request(&a, &sge, IBV_WR_SEND, 8, NULL);
	sge.lkey = BAD_KEY;
	CHECK(!send_one(&a, &wr));
	outcome("RC send, a local key that is none", &a, 1, &b, 0);
	begin(IBV_QPT_RC);
	CHECK(!post_recv(&b, 1, 100));
	wr = request(&a, &sge, IBV_WR_SEND, 8, NULL);
	sge.addr += BUF - 4;
	CHECK(!send_one(&a, &wr));
	outcome("RC send, beyond the local region", &a, 1, &b, 0);
	begin(IBV_QPT_RC);
	struct ibv_mr *mr = ibv_reg_mr(a.pd, a.buf, BUF, 0);
	wr = request(&a, &sge, IBV_WR_RDMA_READ, 8, &b);
	sge.lkey = mr->lkey;
	CHECK(!send_one(&a, &wr));
	outcome("RC read into memory that may not be written", &a, 1, &b, 0);
	begin(IBV_QPT_RC);
	mr = ibv_reg_mr(b.pd, b.buf, BUF, 0);
	struct ibv_sge to = { (uintptr_t)b.buf, 100, mr->lkey };
	struct ibv_recv_wr recv = { .wr_id = 1, .sg_list = &to, .num_sge = 1 };
	struct ibv_recv_wr *bad;
	CHECK(!ibv_post_recv(b.qp, &recv, &bad));
	CHECK(!post_wr(IBV_WR_SEND, 8));
	outcome("RC send, the receive may not be written", &a, 1, &b, 1);
	begin(IBV_QPT_RC);
	to.lkey = BAD_KEY;
	CHECK(!ibv_post_recv(b.qp, &recv, &bad));
	CHECK(!post_wr(IBV_WR_SEND, 8));
	outcome("RC send, the receive's key is none", &a, 1, &b, 1);
	for (int n = 0; n < 2; n++) {
		begin(IBV_QPT_UC);
		if (n)
			CHECK(!post_recv(&b, 1, 100));
		wr = request(&a, &sge, IBV_WR_SEND, 8, NULL);
		sge.lkey = BAD_KEY;
		CHECK(!send_one(&a, &wr));
		outcome(
		    n ? "UC send, a local key that is none"
		      : "UC send without a receive, a local key that is none",
		    &a, 1, &b, 0);
	}
	begin(IBV_QPT_UD);
	wr = request(&a, &sge, IBV_WR_SEND, 8, NULL);
	sge.lkey = BAD_KEY;
	wr.wr.ud.ah = ah_of(&a);
	wr.wr.ud.remote_qpn = b.qp->qp_num;
	CHECK(!send_one(&a, &wr));
	outcome("UD send, a local key that is none", &a, 1, &b, 0);
	begin(IBV_QPT_UD);
	wr = request(&a, &sge, IBV_WR_SEND, 8, NULL);
	wr.wr.ud.ah = ah_of(&b);
	wr.wr.ud.remote_qpn = b.qp->qp_num;
	said("UD send, an address handle of another domain, posted",
	     send_one(&a, &wr));
	outcome("UD send, an address handle of another domain", &a, 1, &b, 0);
}

void data_rnr(void)
{
	begin(IBV_QPT_RC);
	CHECK(!post_wr(IBV_WR_SEND, 1));
	outcome("RC send, no receive is posted", &a, 1, &b, 0);
	begin(IBV_QPT_RC);
	CHECK(!post_wr(IBV_WR_RDMA_WRITE_WITH_IMM, 1));
	outcome("RC write with immediate, no receive is posted", &a, 1, &b, 0);
	begin(IBV_QPT_RC);
	CHECK(!post_wr(IBV_WR_SEND, 1));
	CHECK(!post_wr(IBV_WR_RDMA_WRITE, 1));
	outcome("RC send and write, no receive is posted", &a, 2, &b, 0);
}

/* A peer that is not there, or is not ready. */
void data_nobody(void)
{
	static const enum ibv_qp_state states[] = { IBV_QPS_RESET, IBV_QPS_INIT,
						    IBV_QPS_ERR };
	impatient = true;
	for (int i = 0; i < 4; i++) {
		char text[64] = "RC send to one that is not there";
		uint32_t to = 0xfffff0;

		end_open(&a, IBV_QPT_RC);
		end_open(&b, IBV_QPT_RC);
		if (i < 3) {
			renew(&b, IBV_QPT_RC, states[i]);
			snprintf(text, sizeof(text), "RC send to one in %s",
				 state_name(states[i]));
			to = b.qp->qp_num;
		}
		go(&a, to, REMOTE, IBV_QPS_RTS);
		CHECK(!post_wr(IBV_WR_SEND, 1));
		outcome(text, &a, 1, &b, 0);
	}
}

static void to_state(struct end *e, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };

	CHECK(!ibv_modify_qp(e->qp, &attr, IBV_QP_STATE));
}

void data_flush(void)
{
	begin(IBV_QPT_RC);
	CHECK(!post_recv(&b, 1, 10));
	CHECK(!post_recv(&b, 2, 10));
	to_state(&b, IBV_QPS_ERR);
	outcome("RC to ERR with two receives", &a, 0, &b, 2);
	CHECK(!post_recv(&b, 3, 10));
	outcome("RC receive posted in ERR", &a, 0, &b, 1);
	to_state(&a, IBV_QPS_ERR);
	CHECK(!post_wr(IBV_WR_SEND, 1));
	CHECK(!post_wr(IBV_WR_RDMA_WRITE, 1));
	outcome("RC two posted in ERR", &a, 2, &b, 0);
	struct ibv_sge sge;
	struct ibv_send_wr wr = request(&a, &sge, IBV_WR_SEND, 1, NULL);
	CHECK(!send_one(&a, &wr));
	outcome("RC unsignalled posted in ERR", &a, 1, &b, 0);
	begin(IBV_QPT_RC);
	CHECK(!post_recv(&b, 1, 10));
	to_state(&b, IBV_QPS_RESET);
	outcome("RC to RESET with a receive", &a, 0, &b, 0);
	begin(IBV_QPT_RC);
	CHECK(!post_recv(&b, 1, 10));
	to_state(&a, IBV_QPS_SQD);
	CHECK(!post_wr(IBV_WR_SEND, 1));
	outcome("RC send posted in SQD", &a, 0, &b, 0);
	to_state(&a, IBV_QPS_RTS);
	outcome("RC the same after RTS", &a, 1, &b, 1);
	begin(IBV_QPT_RC);
	CHECK(!post_recv(&b, 1, 10));
	CHECK(!post_recv(&a, 2, 10));
	CHECK(!post_wr(IBV_WR_SEND, 11));
	outcome("RC an error flushes the receives of both", &a, 2, &b, 1);
}

/* The one that follows shows that the first is over. */
static void uc_follows(const char *situation)
{
	CHECK(!post_recv(&b, 9, 100));
	CHECK(!post_wr(IBV_WR_SEND, 2));
	outcome(situation, &a, 2, &b, 1);
}

void data_unreliable(void)
{
	begin(IBV_QPT_UC);
	CHECK(!post_wr(IBV_WR_SEND, 1));
	uc_follows("UC send without a receive, then one with");
	begin(IBV_QPT_UC);
	CHECK(!post_recv(&b, 1, 3));
	CHECK(!post_wr(IBV_WR_SEND, 4));
	outcome("UC send, the receive is too short", &a, 1, &b, 1);
	begin(IBV_QPT_UC);
	CHECK(!remote(IBV_WR_RDMA_WRITE, 0, BAD_KEY, 8));
	outcome("UC write, a key that is none", &a, 1, &b, 0);
	begin(IBV_QPT_UC);
	CHECK(!post_recv(&b, 1, 8192));
	CHECK(!post_recv(&b, 2, 8192));
	CHECK(!post_wr(IBV_WR_SEND_WITH_IMM, 5000));
	outcome("UC send with immediate", &a, 1, &b, 1);
	CHECK(!post_wr(IBV_WR_RDMA_WRITE_WITH_IMM, 5000));
	outcome("UC write with immediate", &a, 1, &b, 1);
	CHECK(!post_wr(IBV_WR_RDMA_WRITE, 5000));
	outcome("UC write", &a, 1, &b, 0);
}

static int datagram(uint32_t length, uint32_t qkey, uint32_t qpn, bool imm)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = request(
	    &a, &sge, imm ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND, length, NULL);

	wr.imm_data = htobe32(78);
	wr.wr.ud.ah = ah_of(&a);
	CHECK(wr.wr.ud.ah);
	wr.wr.ud.remote_qpn = qpn;
	wr.wr.ud.remote_qkey = qkey;
	return send_one(&a, &wr);
}

void data_datagrams(void)
{
	const uint32_t key = 0x11111111;

	begin(IBV_QPT_UD);
	for (uint64_t i = 1; i < 6; i++)
		CHECK(!post_recv(&b, i, 1064));
	CHECK(!datagram(0, key, b.qp->qp_num, false));
	outcome("UD send of nothing", &a, 1, &b, 1);
	CHECK(!datagram(1024, key, b.qp->qp_num, false));
	outcome("UD send", &a, 1, &b, 1);
	CHECK(!datagram(5, key, b.qp->qp_num, true));
	outcome("UD send with immediate", &a, 1, &b, 1);
	CHECK(!datagram(5, key + 1, b.qp->qp_num, false));
	CHECK(!datagram(6, key, b.qp->qp_num, false));
	outcome("UD send with a wrong key, then a right one", &a, 2, &b, 1);
	CHECK(!datagram(5, 0x80000000, b.qp->qp_num, false));
	CHECK(!datagram(6, key, b.qp->qp_num, false));
	outcome("UD send with the controlled key, then a right one", &a, 2, &b,
		1);
	CHECK(!datagram(5, key, 0xfffff0, false));
	outcome("UD send to nobody", &a, 1, &b, 0);
	CHECK(!datagram(6, key, b.qp->qp_num, false));
	outcome("UD send without a receive", &a, 1, &b, 0);
	CHECK(!post_recv(&b, 8, 45));
	CHECK(!datagram(6, key, b.qp->qp_num, false));
	outcome("UD send, the receive is too short", &a, 1, &b, 1);
	begin(IBV_QPT_UD);
	CHECK(!post_recv(&b, 1, BUF));
	line("UD send of more than the MTU, posted");
	add(" %s", error_name(datagram(5000, key, b.qp->qp_num, false)));
	end_line();
	outcome("UD send of more than the MTU", &a, 1, &b, 0);
}

static struct ibv_srq *srq_of(struct end *e, uint32_t limit)
{
	struct ibv_srq_init_attr init = { .attr = { 8, 2, limit } };
	struct ibv_qp_init_attr qp = { .send_cq = e->cq,
				       .recv_cq = e->cq,
				       .srq = ibv_create_srq(e->pd, &init),
				       .cap = { 8, 8, 2, 2, 64 },
				       .qp_type = IBV_QPT_RC,
				       .sq_sig_all = 1 };

	CHECK(qp.srq && !ibv_destroy_qp(e->qp));
	CHECK((e->qp = ibv_create_qp(e->pd, &qp)));
	return qp.srq;
}

static int post_srq(struct ibv_srq *srq, struct end *e, uint64_t id,
		    uint32_t length)
{
	struct ibv_sge sge = { (uintptr_t)e->buf, length, e->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 };
	struct ibv_recv_wr *bad;

	return ibv_post_srq_recv(srq, &wr, &bad);
}

void data_srq(void)
{
	struct ibv_async_event event;

	end_open(&a, IBV_QPT_RC);
	end_open(&b, IBV_QPT_RC);
	struct ibv_srq *srq = srq_of(&b, 0);
	meet(&a, &b, REMOTE);
	said("receive posted to one with a shared queue", post_recv(&b, 1, 10));
	CHECK(!post_srq(srq, &b, 1, 100));
	CHECK(!post_srq(srq, &b, 2, 100));
	CHECK(!post_srq(srq, &b, 3, 4));
	struct ibv_srq_attr limit = { .srq_limit = 2 };
	said("shared queue, limit 2",
	     ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT));
	CHECK(!post_wr(IBV_WR_SEND, 8));
	outcome("RC send to a shared queue", &a, 1, &b, 1);
	CHECK(!post_wr(IBV_WR_SEND, 8));
	outcome("RC send below the limit", &a, 1, &b, 1);
	CHECK(!ibv_get_async_event(b.ctx, &event));
	line("shared queue, event at its limit");
	add(" %s", ibv_event_type_str(event.event_type));
	end_line();
	ibv_ack_async_event(&event);
	CHECK(!ibv_query_srq(srq, &limit));
	line("shared queue, limit afterwards");
	add(" %u", limit.srq_limit);
	end_line();
	CHECK(!post_wr(IBV_WR_SEND, 8));
	outcome("RC send to a shared queue, too long", &a, 1, &b, 1);
	end_open(&a, IBV_QPT_RC);
	end_open(&b, IBV_QPT_RC);
	srq = srq_of(&b, 0);
	meet(&a, &b, REMOTE);
	CHECK(!post_wr(IBV_WR_SEND, 8));
	outcome("RC send to an empty shared queue", &a, 1, &b, 0);
	CHECK(!post_srq(srq, &b, 1, 100));
	to_state(&b, IBV_QPS_ERR);
	outcome("RC to ERR with a shared queue", &a, 0, &b, 0);
}

void data_fence(void)
{
	struct ibv_sge sge;
	struct ibv_qp_init_attr init = { .cap = { 8, 8, 2, 2, 64 },
					 .qp_type = IBV_QPT_RC };

	end_open(&a, IBV_QPT_RC);
	end_open(&b, IBV_QPT_RC);
	init.send_cq = init.recv_cq = a.cq;
	CHECK(!ibv_destroy_qp(a.qp));
	CHECK((a.qp = ibv_create_qp(a.pd, &init)));
	meet(&a, &b, REMOTE);
	for (uint64_t i = 1; i < 4; i++)
		CHECK(!post_recv(&b, i, 100));
	struct ibv_send_wr wr = request(&a, &sge, IBV_WR_SEND, 8, NULL);
	CHECK(!send_one(&a, &wr));
	outcome("RC unsignalled send", &a, 0, &b, 1);
	wr.wr_id = 8;
	wr.send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE | IBV_SEND_FENCE |
			IBV_SEND_SOLICITED;
	sge.lkey = BAD_KEY; /* means nothing */
	CHECK(!send_one(&a, &wr));
	outcome("RC inline send with all flags", &a, 1, &b, 1);
	wr = request(&a, &sge, IBV_WR_RDMA_WRITE, 8, &b);
	wr.wr.rdma.rkey = BAD_KEY;
	CHECK(!send_one(&a, &wr));
	outcome("RC unsignalled write, a key that is none", &a, 1, &b, 0);
}

static int invalidate(struct end *e, uint32_t rkey)
{
	struct ibv_send_wr wr = { .wr_id = 5,
				  .opcode = IBV_WR_LOCAL_INV,
				  .invalidate_rkey = rkey };

	return send_one(e, &wr);
}

/* Of type 2, bound by a request of its owner. */
static int bind_2(struct end *e, struct ibv_mw *mw, uint32_t rkey, int access)
{
	struct ibv_send_wr wr = { .wr_id = 6, .opcode = IBV_WR_BIND_MW };

	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = rkey;
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){
		.mr = e->mr,
		.addr = (uintptr_t)e->buf,
		.length = 64,
		.mw_access_flags = (unsigned)access,
	};
	return send_one(e, &wr);
}

static void rebind_mr(int access)
{
	begin(IBV_QPT_RC);
	CHECK(!ibv_dereg_mr(b.mr));
	CHECK((b.mr = ibv_reg_mr(b.pd, b.buf, BUF, access)));
}

void data_windows(void)
{
	const int all = IBV_ACCESS_LOCAL_WRITE | REMOTE;

	rebind_mr(all | IBV_ACCESS_MW_BIND);
	struct ibv_mw *mw = ibv_alloc_mw(b.pd, IBV_MW_TYPE_2);
	made("window of type 2", mw);
	uint32_t rkey = ibv_inc_rkey(mw->rkey);
	CHECK(!bind_2(&b, mw, rkey, REMOTE));
	outcome("window of type 2, bind", &a, 0, &b, 1);
	CHECK(!remote(IBV_WR_RDMA_WRITE, 0, rkey, 64));
	outcome("write through a window", &a, 1, &b, 0);
	CHECK(!invalidate(&b, rkey));
	outcome("window of type 2, invalidate", &a, 0, &b, 1);
	CHECK(!remote(IBV_WR_RDMA_WRITE, 0, rkey, 64));
	outcome("write through a window that is invalid", &a, 1, &b, 0);
	rebind_mr(all | IBV_ACCESS_MW_BIND);
	mw = ibv_alloc_mw(b.pd, IBV_MW_TYPE_2);
	rkey = ibv_inc_rkey(mw->rkey);
	CHECK(!bind_2(&b, mw, rkey, REMOTE));
	outcome("another window of type 2, bind", &a, 0, &b, 1);
	said("region with a window, deregistered", ibv_dereg_mr(b.mr));
	CHECK(!remote(IBV_WR_RDMA_WRITE, 1, rkey, 64));
	outcome("write beyond a window", &a, 1, &b, 0);
	rebind_mr(all);
	mw = ibv_alloc_mw(b.pd, IBV_MW_TYPE_2);
	line("bind to a region that permits none, posted");
	add(" %s", error_name(bind_2(&b, mw, ibv_inc_rkey(mw->rkey), REMOTE)));
	end_line();
	outcome("bind to a region that permits none", &a, 0, &b, 1);
	rebind_mr(all | IBV_ACCESS_MW_BIND);
	mw = ibv_alloc_mw(b.pd, IBV_MW_TYPE_2);
	rkey = ibv_inc_rkey(mw->rkey);
	CHECK(!bind_2(&b, mw, rkey, IBV_ACCESS_REMOTE_READ));
	outcome("bind for reads", &a, 0, &b, 1);
	CHECK(!remote(IBV_WR_RDMA_WRITE, 0, rkey, 8));
	outcome("write through a window for reads", &a, 1, &b, 0);
	rebind_mr(all | IBV_ACCESS_MW_BIND);
	mw = ibv_alloc_mw(b.pd, IBV_MW_TYPE_1);
	made("window of type 1", mw);
	struct ibv_mw_bind bind = { .wr_id = 4,
				    .send_flags = IBV_SEND_SIGNALED,
				    .bind_info = { .mr = b.mr,
						   .addr = (uintptr_t)b.buf,
						   .length = 64,
						   .mw_access_flags =
						       REMOTE } };
	CHECK(!ibv_bind_mw(b.qp, mw, &bind));
	outcome("window of type 1, bind", &a, 0, &b, 1);
	CHECK(!remote(IBV_WR_RDMA_READ, 0, mw->rkey, 64));
	outcome("read through a window of type 1", &a, 1, &b, 0);
	bind.bind_info.length = 0;
	CHECK(!ibv_bind_mw(b.qp, mw, &bind));
	outcome("window of type 1, bind to nothing", &a, 0, &b, 1);
	CHECK(!remote(IBV_WR_RDMA_READ, 0, mw->rkey, 64));
	outcome("read through a window of type 1 that is unbound", &a, 1, &b,
		0);
}
