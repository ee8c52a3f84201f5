/* SPDX-License-Identifier: MIT */
/*
 * tests/vm/golden_calls.c - calls that are refused, and with which number: see golden.h
 */
#include "golden.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>

static struct end e;

void calls_busy(void)
{
	struct ibv_srq_init_attr init = { .attr = { 8, 1, 0 } };

	end_open(&e, IBV_QPT_RC);
	said("domain with all, deallocated", ibv_dealloc_pd(e.pd));
	said("completion queue with a queue pair, destroyed",
	     ibv_destroy_cq(e.cq));
	said("channel with a queue, destroyed", ibv_destroy_comp_channel(e.ch));
	struct ibv_srq *srq = ibv_create_srq(e.pd, &init);
	struct ibv_qp_init_attr qp = { .send_cq = e.cq,
				       .recv_cq = e.cq,
				       .srq = srq,
				       .cap = { 8, 0, 2, 0, 0 },
				       .qp_type = IBV_QPT_RC };
	struct ibv_qp *with_srq = ibv_create_qp(e.pd, &qp);
	made("queue pair with a shared queue", with_srq);
	said("shared queue with a queue pair, destroyed", ibv_destroy_srq(srq));
	CHECK(!ibv_destroy_qp(with_srq));
	CHECK(!ibv_destroy_qp(e.qp));
	e.qp = NULL;
	said("domain with a shared queue and a region, deallocated",
	     ibv_dealloc_pd(e.pd));
	CHECK(!ibv_destroy_srq(srq));
	said("domain with a region, deallocated", ibv_dealloc_pd(e.pd));
	CHECK(!ibv_dereg_mr(e.mr));
	struct ibv_ah *ah = ah_of(&e);
	made("address handle", ah);
	said("domain with an address handle, deallocated",
	     ibv_dealloc_pd(e.pd));
	CHECK(!ibv_destroy_ah(ah));
	struct ibv_mw *mw = ibv_alloc_mw(e.pd, IBV_MW_TYPE_1);
	said("domain with a window, deallocated", ibv_dealloc_pd(e.pd));
	CHECK(!ibv_dealloc_mw(mw));
	said("domain with nothing, deallocated", ibv_dealloc_pd(e.pd));
	said("completion queue, destroyed", ibv_destroy_cq(e.cq));
	said("channel, destroyed", ibv_destroy_comp_channel(e.ch));
	said("device, closed", ibv_close_device(e.ctx));
}

static void create(const char *what, struct ibv_qp_init_attr *init)
{
	struct ibv_qp *qp = ibv_create_qp(e.pd, init);
	char text[96];

	snprintf(text, sizeof(text), "queue pair with %s", what);
	made(text, qp);
	if (qp)
		ibv_destroy_qp(qp);
}

#define CREATE(what, assign)                                                   \
	do {                                                                   \
		struct ibv_qp_init_attr init_ = { .send_cq = e.cq,             \
						  .recv_cq = e.cq,             \
						  .cap = { 8, 8, 2, 2, 64 },   \
						  .qp_type = IBV_QPT_RC };     \
		init_.assign;                                                  \
		create(what, &init_);                                          \
	} while (0)

void calls_create(void)
{
	struct ibv_device_attr d;

	end_open(&e, IBV_QPT_RC);
	CHECK(!ibv_query_device(e.ctx, &d));
	CREATE("what is usual", sq_sig_all = 1);
	CREATE("no send requests", cap.max_send_wr = 0);
	CREATE("no receives", cap.max_recv_wr = 0);
	CREATE("no elements", cap.max_send_sge = 0);
	CREATE("too many send requests",
	       cap.max_send_wr = (uint32_t)d.max_qp_wr + 1);
	CREATE("too many receives",
	       cap.max_recv_wr = (uint32_t)d.max_qp_wr + 1);
	CREATE("too many elements to send",
	       cap.max_send_sge = (uint32_t)d.max_sge + 1);
	CREATE("too many elements to receive",
	       cap.max_recv_sge = (uint32_t)d.max_sge + 1);
	CREATE("a gigabyte inline", cap.max_inline_data = 1 << 30);
	CREATE("no type", qp_type = 0);
	CREATE("an unknown type", qp_type = 77);
	CREATE("type raw packet", qp_type = IBV_QPT_RAW_PACKET);
	struct ibv_qp_init_attr init = { .send_cq = e.cq,
					 .recv_cq = e.cq,
					 .cap = { 5, 5, 1, 1, 13 },
					 .qp_type = IBV_QPT_UC };
	struct ibv_qp *qp = ibv_create_qp(e.pd, &init);
	CHECK(qp);
	line("queue pair, at least what was asked for");
	add(" %d", init.cap.max_send_wr >= 5 && init.cap.max_recv_wr >= 5 &&
		       init.cap.max_send_sge >= 1 &&
		       init.cap.max_recv_sge >= 1 &&
		       init.cap.max_inline_data >= 13);
	end_line();
	line("queue pair, number and state");
	add(" %d %s", qp->qp_num > 1, state_name((int)qp->state));
	end_line();
}

static void reg(const char *what, void *p, size_t length, int access)
{
	struct ibv_mr *mr = ibv_reg_mr(e.pd, p, length, access);
	char text[96];

	snprintf(text, sizeof(text), "region %s", what);
	made(text, mr);
	if (mr)
		CHECK(!ibv_dereg_mr(mr));
}

void calls_memory(void)
{
	end_open(&e, IBV_QPT_RC);
	reg("without access", e.buf, 100, 0);
	reg("REMOTE_WRITE without LOCAL_WRITE", e.buf, 100,
	    IBV_ACCESS_REMOTE_WRITE);
	reg("REMOTE_ATOMIC without LOCAL_WRITE", e.buf, 100,
	    IBV_ACCESS_REMOTE_ATOMIC);
	reg("REMOTE_READ alone", e.buf, 100, IBV_ACCESS_REMOTE_READ);
	reg("MW_BIND alone", e.buf, 100, IBV_ACCESS_MW_BIND);
	reg("with an unknown flag", e.buf, 100,
	    IBV_ACCESS_LOCAL_WRITE | 1 << 12);
	reg("with an unknown optional flag", e.buf, 100,
	    IBV_ACCESS_LOCAL_WRITE | 1 << 25);
	reg("RELAXED_ORDERING", e.buf, 100,
	    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING);
	reg("ON_DEMAND", e.buf, 100,
	    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND);
	reg("ZERO_BASED", e.buf, 100,
	    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ZERO_BASED);
	reg("of no bytes", e.buf, 0, IBV_ACCESS_LOCAL_WRITE);
	reg("of the address 0", NULL, 100, IBV_ACCESS_LOCAL_WRITE);
	reg("that wraps", e.buf, SIZE_MAX - 10, IBV_ACCESS_LOCAL_WRITE);
	char *hole = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(hole != MAP_FAILED && !munmap(hole + 4096, 4096));
	reg("with a hole", hole, 3 * 4096, IBV_ACCESS_LOCAL_WRITE);
	reg("of memory that is not there", hole + 4096, 10,
	    IBV_ACCESS_LOCAL_WRITE);
	CHECK(!mprotect(hole, 4096, PROT_READ));
	reg("of memory that may be read, with LOCAL_WRITE", hole, 10,
	    IBV_ACCESS_LOCAL_WRITE);
	reg("of memory that may be read", hole, 10, 0);
	said("region, other access",
	     ibv_rereg_mr(e.mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
			  IBV_ACCESS_LOCAL_WRITE));
	said("region, no change", ibv_rereg_mr(e.mr, 0, NULL, NULL, 0, 0));
	said("region, deregistered", ibv_dereg_mr(e.mr));
	struct ibv_mw *mw = ibv_alloc_mw(e.pd, 0);
	made("window of no type", mw);
	mw = ibv_alloc_mw(e.pd, 3);
	made("window of type 3", mw);
}

void calls_cq(void)
{
	struct ibv_device_attr d;
	struct ibv_cq *cq;
	void *context;
	struct ibv_wc wc[2];

	end_open(&e, IBV_QPT_RC);
	CHECK(!ibv_query_device(e.ctx, &d));
	made("completion queue of 0", ibv_create_cq(e.ctx, 0, NULL, NULL, 0));
	made("completion queue of -1", ibv_create_cq(e.ctx, -1, NULL, NULL, 0));
	made("completion queue, too large",
	     ibv_create_cq(e.ctx, d.max_cqe + 1, NULL, NULL, 0));
	made("completion queue, vector -1",
	     ibv_create_cq(e.ctx, 1, NULL, e.ch, -1));
	made("completion queue, vector too large",
	     ibv_create_cq(e.ctx, 1, NULL, e.ch, e.ctx->num_comp_vectors));
	said("completion queue, larger", ibv_resize_cq(e.cq, 100));
	said("completion queue, resized to 0", ibv_resize_cq(e.cq, 0));
	said("completion queue, resized too large",
	     ibv_resize_cq(e.cq, d.max_cqe + 1));
	line("completion queue, nothing polled");
	add(" %d %d", ibv_poll_cq(e.cq, 2, wc), ibv_poll_cq(e.cq, 0, wc));
	end_line();
	said("completion queue, armed", ibv_req_notify_cq(e.cq, 0));
	go(&e, e.qp->qp_num, REMOTE, IBV_QPS_RTS);
	CHECK(!post_recv(&e, 1, 10));
	struct ibv_sge sge;
	struct ibv_send_wr wr = request(&e, &sge, IBV_WR_SEND, 1, NULL);
	CHECK(!send_one(&e, &wr));
	outcome("RC send to itself", &e, 2, &e, 0);
	CHECK(!ibv_get_cq_event(e.ch, &cq, &context));
	line("completion event");
	add(" %s", cq == e.cq ? "of the queue" : "of another");
	end_line();
	ibv_ack_cq_events(cq, 1);
	CHECK(!ibv_req_notify_cq(e.cq, 1));
	CHECK(!post_recv(&e, 1, 10));
	CHECK(!send_one(&e, &wr));
	outcome("RC send, armed for solicited ones", &e, 2, &e, 0);
	CHECK(!fcntl(e.ch->fd, F_SETFL, O_NONBLOCK));
	said("event of one that is not", ibv_get_cq_event(e.ch, &cq, &context));
	CHECK(!post_recv(&e, 1, 10));
	wr.send_flags = IBV_SEND_SOLICITED;
	CHECK(!send_one(&e, &wr));
	outcome("RC send, solicited", &e, 2, &e, 0);
	said("event of one that is", ibv_get_cq_event(e.ch, &cq, &context));
}

void calls_srq(void)
{
	struct ibv_device_attr d;
	struct ibv_srq *srq;

	end_open(&e, IBV_QPT_RC);
	CHECK(!ibv_query_device(e.ctx, &d));
	struct ibv_srq_init_attr init = { .attr = { 0, 1, 0 } };
	made("shared queue of 0", ibv_create_srq(e.pd, &init));
	init.attr.max_wr = (uint32_t)d.max_srq_wr + 1;
	made("shared queue, too large", ibv_create_srq(e.pd, &init));
	init.attr.max_wr = 8;
	init.attr.max_sge = (uint32_t)d.max_srq_sge + 1;
	made("shared queue, too many elements", ibv_create_srq(e.pd, &init));
	init.attr.max_sge = 1;
	made("shared queue", srq = ibv_create_srq(e.pd, &init));
	struct ibv_srq_attr attr = { .srq_limit = 100000 };
	said("shared queue, limit above its size",
	     ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT));
	attr.srq_limit = 3;
	said("shared queue, limit", ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT));
	said("shared queue, no change", ibv_modify_srq(srq, &attr, 0));
	said("shared queue, unknown change", ibv_modify_srq(srq, &attr, 4));
	CHECK(!ibv_query_srq(srq, &attr));
	line("shared queue, query");
	add(" %d %d %u", attr.max_wr >= 8, attr.max_sge >= 1, attr.srq_limit);
	end_line();
	struct ibv_sge sge[8] = { { (uintptr_t)e.buf, 8, e.mr->lkey } };
	struct ibv_recv_wr wr = { .sg_list = sge, .num_sge = 1 }, *bad = NULL;
	said("shared queue, a receive", ibv_post_srq_recv(srq, &wr, &bad));
	uint32_t n = 1;
	int error;
	while (!(error = ibv_post_srq_recv(srq, &wr, &bad)) && n < 100000)
		n++;
	said("shared queue, one receive too many", error);
	line("shared queue, posted at least what was asked for");
	add(" %d, bad_wr %s", n >= 8, bad == &wr ? "is it" : "is another");
	end_line();
	said("shared queue, destroyed full", ibv_destroy_srq(srq));
}

void calls_ah(void)
{
	int mask;

	end_open(&e, IBV_QPT_RC);
	struct ibv_ah_attr right =
	    right_attributes(&e, IBV_QPT_UD, IBV_QPS_RESET, IBV_QPS_INIT, &mask)
		.ah_attr;
	struct ibv_ah_attr a = right;
	made("address handle of this host", ibv_create_ah(e.pd, &a));
	a.port_num = 0;
	made("address handle, port 0", ibv_create_ah(e.pd, &a));
	a.port_num = 2;
	made("address handle, port 2", ibv_create_ah(e.pd, &a));
	a = right;
	a.is_global = 0;
	made("address handle without GID", ibv_create_ah(e.pd, &a));
	a = right;
	a.grh.sgid_index = 200;
	made("address handle, source 200", ibv_create_ah(e.pd, &a));
	memset(&a.grh.dgid, 0, sizeof(a.grh.dgid));
	a.grh.sgid_index = (uint8_t)gid_index;
	made("address handle to no GID", ibv_create_ah(e.pd, &a));
	renew(&e, IBV_QPT_RC, IBV_QPS_INIT);
	union ibv_gid group = { .raw = { 0xff, 0x0e, [15] = 9 } };
	said("group joined by RC", ibv_attach_mcast(e.qp, &group, 0));
	renew(&e, IBV_QPT_UD, IBV_QPS_INIT);
	said("group joined by UD", ibv_attach_mcast(e.qp, &group, 0));
	said("group joined twice", ibv_attach_mcast(e.qp, &group, 0));
	said("group left", ibv_detach_mcast(e.qp, &group, 0));
	said("group left twice", ibv_detach_mcast(e.qp, &group, 0));
	said("group that is none joined",
	     ibv_attach_mcast(e.qp, &right.grh.dgid, 0));
	CHECK(!ibv_attach_mcast(e.qp, &group, 0));
	said("queue pair of a group, destroyed", ibv_destroy_qp(e.qp));
}

void calls_port(void)
{
	struct ibv_port_attr port;
	union ibv_gid gid;
	__be16 pkey;

	end_open(&e, IBV_QPT_RC);
	said("port 0, query", ibv_query_port(e.ctx, 0, &port));
	said("port 2, query", ibv_query_port(e.ctx, 2, &port));
	said("port 1, query", ibv_query_port(e.ctx, 1, &port));
	line("port 1");
	add(" %s, %s", ibv_port_state_str(port.state),
	    port.link_layer == IBV_LINK_LAYER_ETHERNET ? "Ethernet" : "other");
	end_line();
	said("GID 0, query", ibv_query_gid(e.ctx, 1, 0, &gid));
	said("GID -1, query", ibv_query_gid(e.ctx, 1, -1, &gid));
	said("GID 60000, query", ibv_query_gid(e.ctx, 1, 60000, &gid));
	said("GID of port 2, query", ibv_query_gid(e.ctx, 2, 0, &gid));
	said("key 0, query", ibv_query_pkey(e.ctx, 1, 0, &pkey));
	line("key 0");
	add(" %x", be16toh(pkey));
	end_line();
	said("key 60000, query", ibv_query_pkey(e.ctx, 1, 60000, &pkey));
}

void calls_posts(void)
{
	struct ibv_sge sge[64];
	struct ibv_send_wr *bad = NULL;
	struct ibv_recv_wr recv = { .sg_list = sge, .num_sge = 64 },
			   *bad_recv = NULL;
	struct end b;

	pair_up(&e, &b, IBV_QPT_RC);
	for (int i = 0; i < 64; i++)
		sge[i] = (struct ibv_sge){ (uintptr_t)e.buf, 1, e.mr->lkey };
	struct ibv_send_wr wr = request(&e, sge, IBV_WR_SEND, 1, NULL);
	struct ibv_send_wr good = wr;
	wr.num_sge = 64;
	said("send with too many elements", send_one(&e, &wr));
	said("receive with too many elements",
	     ibv_post_recv(e.qp, &recv, &bad_recv));
	wr.num_sge = 1;
	wr.send_flags = IBV_SEND_INLINE;
	sge[0].length = BUF;
	said("inline send of too much", send_one(&e, &wr));
	wr = request(&e, sge, IBV_WR_ATOMIC_FETCH_AND_ADD, 4, &b);
	said("atomic of 4 bytes", send_one(&e, &wr));
	wr = good;
	wr.num_sge = 64;
	good.next = &wr;
	CHECK(!post_recv(&b, 1, 10));
	sge[0].length = 1;
	said("good and bad send in one list", ibv_post_send(e.qp, &good, &bad));
	line("good and bad send in one list, bad_wr");
	add(" %s", bad == &wr ? "is the second" : "is another");
	end_line();
	outcome("good and bad send in one list, the good one", &e, 1, &b, 1);
	good.next = NULL;
	int n = 0, error;
	for (; !(error = post_recv(&e, 1, 10)) && n < 100000; n++)
		;
	said("one receive too many", error);
	line("receives, at least what was asked for");
	add(" %d", n >= 8);
	end_line();
	renew(&e, IBV_QPT_RC, IBV_QPS_SQD); /* executes nothing */
	for (n = 0; !(error = send_one(&e, &good)) && n < 100000; n++)
		;
	said("one send too many", error);
	line("sends, at least what was asked for");
	add(" %d", n >= 8);
	end_line();
	renew(&e, IBV_QPT_RC, IBV_QPS_RTS);
	good.opcode = 77;
	said("request of no opcode", send_one(&e, &good));
}

/* Every event within a moment. */
static void events(struct end *of, const char *situation, int n)
{
	struct ibv_async_event ev;
	struct pollfd pfd = { of->ctx->async_fd, POLLIN, 0 };

	line("%s", situation);
	for (int i = 0; poll(&pfd, 1, i < n ? credit_ms() : 20) == 1; i++) {
		CHECK(!ibv_get_async_event(of->ctx, &ev));
		add(" %s", ibv_event_type_str(ev.event_type));
		ibv_ack_async_event(&ev);
	}
	end_line();
}

void calls_events(void)
{
	struct end b;
	struct ibv_sge sge;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD,
				    .en_sqd_async_notify = 1 };

	pair_up(&e, &b, IBV_QPT_RC);
	CHECK(!ibv_modify_qp(e.qp, &attr,
			     IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY));
	events(&e, "events, drained", 1);
	pair_up(&e, &b, IBV_QPT_RC);
	struct ibv_send_wr wr = request(&e, &sge, IBV_WR_RDMA_WRITE, 8, &b);
	wr.wr.rdma.rkey = 0xffff13;
	CHECK(!send_one(&e, &wr));
	outcome("a wrong key and its event", &e, 1, &b, 0);
	events(&b, "events, wrong key, at its owner", 1);
	events(&e, "events, wrong key, at the requester", 0);
	/* One that is ready to receive hears from its peer. */
	end_open(&e, IBV_QPT_RC);
	end_open(&b, IBV_QPT_RC);
	go(&b, e.qp->qp_num, REMOTE, IBV_QPS_RTR);
	go(&e, b.qp->qp_num, REMOTE, IBV_QPS_RTS);
	CHECK(!post_recv(&b, 1, 10));
	wr = request(&e, &sge, IBV_WR_SEND, 8, NULL);
	CHECK(!send_one(&e, &wr));
	outcome("RC send to one in RTR", &e, 1, &b, 1);
	events(&b, "events, one in RTR has heard its peer", 1);
}

/* As pair_up(), but @small's completions have room for three.  (Soft-RoCE makes room for a power
 * of two less one.) */
static void pair_up_small(struct end *small, struct end *other)
{
	end_open(small, IBV_QPT_RC);
	end_open(other, IBV_QPT_RC);
	CHECK((small->cq = ibv_create_cq(small->ctx, 3, NULL, NULL, 0)));
	renew(small, IBV_QPT_RC, IBV_QPS_RESET);
	meet(small, other, REMOTE);
}

static void six_sends(struct end *from, struct end *to)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = request(from, &sge, IBV_WR_SEND, 8, NULL);

	for (int i = 0; i < 6; i++)
		CHECK(!post_recv(to, (uint64_t)i, 10));
	for (int i = 0; i < 6; i++)
		CHECK(!send_one(from, &wr));
}

void calls_full(void)
{
	struct end b;

	impatient = true;
	pair_up_small(&e, &b);
	six_sends(&e, &b);
	for (int i = 0; i < 6; i++)
		CHECK(next(&b).status == IBV_WC_SUCCESS);
	events(&e, "events, six sends with room for three", 1);
	outcome("six sends with room for three", &e, 3, &b, 0);
	line("six sends with room for three, state");
	add(" %s", state_name(state_of(&e)));
	end_line();
	pair_up_small(&e, &b);
	six_sends(&b, &e);
	outcome("six messages with room for three", &b, 6, &e, 3);
	events(&e, "events, six messages with room for three", 0);
}
