/* SPDX-License-Identifier: MIT */
/*
 * tests/verbs/far_xrc.c - extended reliable connections to another host
 *
 *     far_xrc PORT            has a receiving queue pair and two shared receive queues
 *     far_xrc PORT ADDRESS    sends, writes, reads
 *
 * Both run under `osf run`.  Expectations are those of test_xrc.c.
 */
#include "far.h"
#include "xrc.h"

#define PART 3000 /* some packets */

struct queues {
	struct end e; /* its own queue pair is not used */
	struct ibv_xrcd *xrcd;
	struct ibv_qp *qp;
	struct ibv_srq *srq[2];
	struct ibv_cq *cq[2];
};

/* What the sender knows of them: each queue's number is a "qpn". */
struct peer {
	struct end e;
	struct ibv_qp *qp;
	struct address to[2];
};

static void open_queues(struct queues *q)
{
	end_open(&q->e, IBV_QPT_RC);
	struct ibv_context *c = q->e.ctx;
	struct address at[2], mine = address_of(&q->e);

	CHECK((q->xrcd = open_xrcd(c, -1, O_CREAT)));
	CHECK((q->qp = new_recv(c, q->xrcd)));
	for (int i = 0; i < 2; i++) {
		CHECK((q->cq[i] = ibv_create_cq(c, 8, NULL, NULL, 0)));
		CHECK((q->srq[i] = new_srq(q->e.pd, q->xrcd, q->cq[i])));
		at[i] = mine;
		CHECK(!ibv_get_srq_num(q->srq[i], &at[i].qpn));
	}
	mine.qpn = q->qp->qp_num;
	tell(&mine);
	struct address theirs = hear();
	connect_xrc(q->qp, theirs.qpn, &theirs.gid);
	tell(&at[0]);
	tell(&at[1]);
}

static void open_peer(struct peer *p)
{
	end_open(&p->e, IBV_QPT_RC);
	struct address mine = address_of(&p->e), theirs = hear();

	CHECK((p->qp = new_send(p->e.pd, p->e.cq)));
	mine.qpn = p->qp->qp_num;
	tell(&mine);
	p->to[0] = hear();
	p->to[1] = hear();
	connect_xrc(p->qp, theirs.qpn, &theirs.gid);
}

static void turn_over(void) { tell(&(struct address){ 0 }); }

static enum ibv_wc_status asks(struct peer *p, enum ibv_wr_opcode op, int i,
			       uint32_t length, const struct address *to)
{
	CHECK(!ask_xrc(&p->e, p->qp, op, p->to[i].qpn, length, to));
	return next(&p->e).status;
}

/* Each message is complete where the queue that it names says, with its bytes. */
static void has_receives(struct queues *q)
{
	for (uint32_t size = 1; size <= BUF / 2; size *= 8)
		for (int i = 0; i < 2; i++) {
			memset(q->e.buf, 0, BUF);
			receive_xrc(&q->e, q->srq[i], 40 + i, BUF / 2);
			turn_over();
			struct ibv_wc wc = next_of(q->cq[i]);
			CHECK(wc.status == IBV_WC_SUCCESS &&
			      wc.wr_id == 40u + i && wc.byte_len == size &&
			      wc.qp_num == q->qp->qp_num);
			for (uint32_t at = 0; at < size; at++)
				CHECK(q->e.buf[BUF / 2 + at] ==
				      (uint8_t)(at * 7 + i));
			CHECK(ibv_poll_cq(q->cq[!i], 1, &wc) == 0);
		}
}

static void sends(struct peer *p)
{
	for (uint32_t size = 1; size <= BUF / 2; size *= 8)
		for (int i = 0; i < 2; i++) {
			for (uint32_t at = 0; at < size; at++)
				p->e.buf[at] = (uint8_t)(at * 7 + i);
			hear();
			CHECK(asks(p, IBV_WR_SEND, i, size, NULL) ==
			      IBV_WC_SUCCESS);
		}
}

/* A message waits until there is a receive. */
static void has_late_receive(struct queues *q)
{
	hear();
	receive_xrc(&q->e, q->srq[0], 5, 8);
	CHECK(next_of(q->cq[0]).wr_id == 5);
}

static void sends_early(struct peer *p)
{
	CHECK(!ask_xrc(&p->e, p->qp, IBV_WR_SEND, p->to[0].qpn, 8, NULL));
	turn_over();
	CHECK(next(&p->e).status == IBV_WC_SUCCESS);
}

static void has_memory(struct queues *q)
{
	uint64_t *word = (uint64_t *)q->e.buf;

	hear();
	CHECK(q->e.buf[0] == 3 && q->e.buf[PART - 1] == 3 && !q->e.buf[PART]);
	*word = 70;
	turn_over();
	hear();
	CHECK(*word == 75);
	receive_xrc(&q->e, q->srq[1], 6, 0);
	turn_over();
	struct ibv_wc wc = next_of(q->cq[1]);
	CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == 6 &&
	      wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM);
}

static void uses_memory(struct peer *p)
{
	uint64_t *word = (uint64_t *)p->e.buf;

	memset(p->e.buf, 3, PART);
	CHECK(asks(p, IBV_WR_RDMA_WRITE, 1, PART, &p->to[1]) == IBV_WC_SUCCESS);
	turn_over();
	hear();
	CHECK(asks(p, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 8, &p->to[1]) ==
	      IBV_WC_SUCCESS);
	CHECK(*word == 70);
	CHECK(asks(p, IBV_WR_RDMA_READ, 0, 8, &p->to[0]) == IBV_WC_SUCCESS);
	CHECK(*word == 75);
	turn_over();
	hear();
	CHECK(asks(p, IBV_WR_RDMA_WRITE_WITH_IMM, 1, PART, &p->to[1]) ==
	      IBV_WC_SUCCESS);
}

static void has_no_such_queue(struct queues *q) { hear(); }

static void names_no_queue(struct peer *p)
{
	p->to[0].qpn += 7;
	CHECK(asks(p, IBV_WR_SEND, 0, 8, NULL) == IBV_WC_REM_INV_REQ_ERR);
	turn_over();
}

static void has_other_domain(struct queues *q)
{
	struct ibv_xrcd *other = open_xrcd(q->e.ctx, -1, O_CREAT);
	struct ibv_srq *srq = new_srq(q->e.pd, other, q->cq[0]);
	struct address at = { 0 };

	CHECK(srq && !ibv_get_srq_num(srq, &at.qpn));
	tell(&at);
	hear();
}

static void names_other_domain(struct peer *p)
{
	p->to[0] = hear();
	CHECK(asks(p, IBV_WR_SEND, 0, 8, NULL) == IBV_WC_REM_INV_REQ_ERR);
	turn_over();
}

/* Keys are those of the queue's protection domain. */
static void has_queue_of_other_pd(struct queues *q)
{
	struct address at = address_of(&q->e);
	struct ibv_srq *srq =
	    new_srq(ibv_alloc_pd(q->e.ctx), q->xrcd, q->cq[0]);

	CHECK(srq && !ibv_get_srq_num(srq, &at.qpn));
	tell(&at);
	hear();
	CHECK(!q->e.buf[0]);
}

static void writes_by_other_pd(struct peer *p)
{
	p->to[0] = hear();
	memset(p->e.buf, 9, 8);
	CHECK(asks(p, IBV_WR_RDMA_WRITE, 0, 8, &p->to[0]) ==
	      IBV_WC_REM_ACCESS_ERR);
	turn_over();
}

static void has_short_receive(struct queues *q)
{
	receive_xrc(&q->e, q->srq[1], 1, 7);
	turn_over();
	CHECK(next_of(q->cq[1]).status == IBV_WC_LOC_LEN_ERR);
}

static void sends_too_much(struct peer *p)
{
	hear();
	CHECK(asks(p, IBV_WR_SEND, 1, 8, NULL) == IBV_WC_REM_INV_REQ_ERR);
}

int main(int argc, char **argv)
{
	static const struct {
		void (*has)(struct queues *q);
		void (*uses)(struct peer *p);
	} roles[] = {
		{ has_receives, sends },
		{ has_late_receive, sends_early },
		{ has_memory, uses_memory },
		{ has_no_such_queue, names_no_queue },
		{ has_other_domain, names_other_domain },
		{ has_queue_of_other_pd, writes_by_other_pd },
		{ has_short_receive, sends_too_much },
	};

	setvbuf(stdout, NULL, _IONBF, 0);
	alarm(60);
	meet(atoi(argv[1]), argc > 2 ? argv[2] : NULL);
	for (size_t i = 0; i < sizeof(roles) / sizeof(*roles); i++) {
		struct queues q;
		struct peer p;

		if (argc > 2) {
			open_peer(&p);
			roles[i].uses(&p);
		} else {
			open_queues(&q);
			roles[i].has(&q);
		}
	}
	turn_over();
	hear();
	return 0;
}
