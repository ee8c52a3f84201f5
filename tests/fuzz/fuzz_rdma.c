/* SPDX-License-Identifier: MIT */
/*
 * tests/fuzz/fuzz_rdma.c - a queue pair whose peer lies: any bytes in the memory that the
 * core of the RDMA device reads of others
 *
 *     first bytes -> what the peer's memory says of itself      remote_open()
 *     then a script of steps:
 *       a header or a word, written into the peer's ring or state
 *       our receives, sends, writes, reads and atomic operations, binds of a window
 *       polls                                                    rx_run(), tx_run()
 *       a greeting of a sender of datagrams, on our socket       ud_accept()
 *       what a directory says of shared queues and groups        xrc_aim(), mcast_send()
 *
 * The peer has a number of this process's own, so all of it is read as another process's
 * would be.  Its memory is a mapping of its own size, beyond which nothing may be read.
 *
 * Besides not crashing, this holds:
 *   I1  no byte outside the memory that we have registered changes
 *   I2  each completion is of a request that was posted, and each comes once at most
 *   I3  a pair that is healthy still works, on the same completion queue
 *   I4  a region is free again when the window that may be bound to it is
 *   I5  of a region without remote access only what a window stands for changes, and nothing once
 *       the window is gone
 */
#include <assert.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/libc.h"
#include "rdma/extended.h"
#include "rdma/mcast.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define BUF 4096u
#define EDGE 256u
#define FAKE_RING (FRAGMENT * 2)
#define FAKE_RECV 4u
#define FAKE_SGE 2u
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
static struct ibv_ah *to_group;
static const union ibv_gid group = { .raw = { 0xff, 0x0e, 0x86 } };
static uint8_t memory[EDGE + BUF + EDGE];
static struct ibv_qp *good[2];

static struct {
	const uint8_t *at, *end;
} script;

/* The peer: number, memory, and what is posted to us. */
static struct {
	int index, fd;
	size_t bytes;
	struct x_qp *x;
	uint64_t head; /* of its ring */
} fake;
static uint8_t posted[2 * N_WR]; /* 1: posted, 2: complete */
static uint32_t n_posted;

static uint32_t take(size_t n)
{
	uint32_t value = 0;

	for (size_t i = 0; i < n && script.at < script.end; i++)
		value |= (uint32_t)*script.at++ << (8 * i);
	return value;
}

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

static void connect_qp(struct ibv_qp *qp, uint32_t to, enum ibv_qp_type type)
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
	walled_mr =
	    rdma_reg_mr(pd, walled, sizeof(walled), (uintptr_t)walled,
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	assert(mr && walled_mr);
}

static void begin(void)
{
	static struct ibv_device device;
	struct ibv_ah_attr many = { .is_global = 1,
				    .port_num = 1,
				    .grh.dgid = group };

	setenv("OSF_RDMA_REACH", "0", 1); /* it would write where it is told */
	setenv("OSF_RDMA_WIRE", "0", 1);
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
	to_group = rdma_create_ah(pd, &many);
	assert(to_group);
	for (int i = 0; i < 2; i++)
		good[i] = new_qp(IBV_QPT_RC, NULL);
	for (int i = 0; i < 2; i++)
		connect_qp(good[i], good[!i]->qp_num, IBV_QPT_RC);
	memset(memory, 0xa5, sizeof(memory));
}

static const struct x_shape fake_shape = { FAKE_RECV, FAKE_SGE, FAKE_RING,
					   true };

/* The peer's memory as it should be, except for what the script says. */
static void fake_open(enum ibv_qp_type type)
{
	uint32_t wrong = take(1);

	fake.index = (int)N_QPS - 1;
	fake.head = 0;
	fake.bytes = export_qp_bytes(&fake_shape);
	fake.fd = memfd_create("osf-rdma-qp", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int err = ftruncate(fake.fd, (off_t)fake.bytes);
	assert(!err);
	fake.x = mmap(NULL, fake.bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
		      fake.fd, 0);
	assert(fake.x != MAP_FAILED);
	fcntl(fake.fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
	*fake.x = (struct x_qp){ .magic = EXPORT_MAGIC,
				 .version = EXPORT_VERSION,
				 .qpn = self_current->block << QPN_BITS |
					(uint32_t)fake.index,
				 .type = type,
				 .ring_size = FAKE_RING,
				 .n_recv = FAKE_RECV,
				 .recv_sge = FAKE_SGE,
				 .has_reply = true,
				 .domain = 1,
				 .has_srq = type == IBV_QPT_XRC_RECV ||
					    wrong & 2,
				 .state = IBV_QPS_RTS,
				 .gen = 1,
				 .pd = pd->handle };
	if (wrong & 1)
		((uint32_t *)fake.x)[take(1) % 16] = take(4);
	self_current->dir->qp_fd[fake.index] = fake.fd + 1;
}

static void fake_close(void)
{
	self_current->dir->qp_fd[fake.index] = 0;
	munmap(fake.x, fake.bytes);
	close(fake.fd);
}

/* A header at the head of the peer's ring, most often with the stamp that makes it a message, and
 * the head past it. */
static void write_message(struct ibv_qp *qp)
{
	struct x_msg m = { .op = (uint8_t)(take(1) % (MSG_REPLY + 2)),
			   .flags = (uint8_t)take(1),
			   .length = take(2),
			   .src_qpn = fake.x->type == IBV_QPT_XRC_SEND
					  ? srq_num
					  : fake.x->qpn,
			   .qkey = 1 };
	uint32_t kind = take(1), more = take(1);

	m.total = kind & 1 ? take(4) : m.length;
	m.imm = kind & 64 ? mw->rkey : kind & 2 ? take(4) : 0;
	m.qkey = kind & 4 ? mr->rkey : kind & 8 ? take(4) : 1;
	m.addr = kind & 16 ? (uintptr_t)memory + EDGE + take(2) - 64 : take(4);
	if (more & 1) { /* through the window, or beside it */
		m.qkey = door->rkey;
		m.addr = (uintptr_t)walled + more / 2;
	}
	if (more & 2 && kind & 64)
		m.imm = door->rkey;
	if (more & 4 && fake.x->type == IBV_QPT_UD)
		m.addr = (uint64_t)mcast_hash(group.raw) << 32 | MCAST_INDEX << 8;
	uint8_t *ring = (uint8_t *)fake.x + export_ring_offset(&fake_shape);
	m.stamp =
	    kind & 128 ? (uint16_t)take(2) : msg_stamp(fake.head, FAKE_RING);
	memcpy(ring + fake.head % FAKE_RING / RING_LINE * RING_LINE, &m,
	       sizeof(m));
	fake.x->has_begun = 1;
	fake.head += kind & 32 ? take(3)
			       : (sizeof(m) + m.length + RING_LINE - 1) /
				     RING_LINE * RING_LINE;
	fake.x->dest_qpn = qp->qp_num;
}

/* The same of a reply to what we have asked. */
static void write_reply(void)
{
	uint8_t *ring =
	    (uint8_t *)fake.x + export_ring_offset(&fake_shape) + FAKE_RING;
	struct x_msg m = { .op = MSG_REPLY,
			   .flags = (uint8_t)take(1),
			   .length = take(2),
			   .imm = take(1) % 4 };

	memcpy(ring + fake.x->reply_head % REPLY_SIZE, &m, sizeof(m));
	fake.x->reply_head += m.imm == 3
				  ? take(3)
				  : (sizeof(m) + m.length + RING_LINE - 1) /
					RING_LINE * RING_LINE;
}

/* A word of the state; never that it is inside our memory, for which we wait. */
static void write_word(void)
{
	size_t at =
	    offsetof(struct x_qp, state) / 4 +
	    take(1) %
		((sizeof(struct x_qp) - offsetof(struct x_qp, state)) / 4);

	((uint32_t *)fake.x)[at] = take(4);
	fake.x->n_inside = 0;
}

static void write_receive(void)
{
	uint32_t at = fake.x->n_posted % FAKE_RECV;
	struct x_recv *r = (void *)((uint8_t *)(fake.x + 1) +
				    at * export_recv_bytes(FAKE_SGE));

	r->n_sge = take(1);
	r->length = take(2);
	r->sge[0].addr = (uintptr_t)memory + EDGE + take(2);
	r->sge[0].length = take(4);
	r->sge[0].lkey = take(1) & 1 ? mr->lkey : take(4);
	fake.x->n_posted += take(1) % 3;
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

static void post_request(struct ibv_qp *qp, struct ibv_ah *ah)
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
		wr.wr.ud.remote_qpn = ah == to_group ? MCAST_QPN : fake.x->qpn;
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

static void greet(struct ibv_qp *qp)
{
	struct {
		uint64_t magic;
		uint32_t src, dst;
		int32_t fd;
	} h = { EXPORT_MAGIC, fake.x->qpn, qp->qp_num, fake.fd };
	struct sockaddr_un un;
	socklen_t len = self_socket_name(&un, self_current->block);
	int s =
	    socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (take(1) & 1)
		((uint32_t *)&h)[take(1) % 5] = take(4);
	if (!connect(s, (struct sockaddr *)&un, len))
		(void)!write(s, &h,
			     take(1) & 1 ? take(1) % sizeof(h) : sizeof(h));
	ud_accept();
	close(s);
}

/* What our directory, which is the peer's here, says of queues and groups. */
static void write_directory(void)
{
	struct x_srq *q = &self_current->dir->srq[srq_num % N_SRQS];
	struct x_mcast *m = &self_current->dir->mcast[take(1) % N_MCASTS];

	((uint32_t *)q)[take(1) % (sizeof(*q) / 4)] = take(4);
	memcpy(m->gid, group.raw, sizeof(m->gid));
	m->qpn = take(1) & 1 ? fake.x->qpn : take(4);
}

/* An event at the next receive that is taken, or later. */
static void set_limit(void)
{
	struct ibv_srq_attr a = { .srq_limit = take(1) % 4 };
	int err = rdma_modify_srq(basic, &a, IBV_SRQ_LIMIT);

	assert(!err);
}

static void mend_directory(void)
{
	struct x_srq *q = &self_current->dir->srq[srq_num % N_SRQS];

	q->cq = container_of(cq, struct cq, cq)->idx;
	q->pd = pd->handle;
	q->domain = 1;
	q->num = srq_num;
}

static void run_script(struct ibv_qp *qp, struct ibv_ah *ah)
{
	while (script.at < script.end) {
		switch (take(1) % 11) {
		case 0:
		case 1:
			write_message(qp);
			break;
		case 2:
			write_word();
			break;
		case 3:
			write_receive();
			break;
		case 4:
			post_receive(qp);
			break;
		case 5:
			post_request(qp, take(1) & 1 ? to_group : ah);
			break;
		case 6:
			greet(qp);
			break;
		case 7:
			write_reply();
			break;
		case 8:
			write_directory();
			break;
		case 9:
			set_limit();
			break;
		default:
			poll_some();
		}
	}
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
}

/* Receives that nobody took would be found by the next script. */
static void drain_shared(struct ibv_srq *from)
{
	struct rwqe none;

	while (srq_take(container_of(from, struct srq, srq), &none))
		;
}

/* The door, as a request that is executed at once.  Datagrams have no windows. */
static void open_door(struct ibv_qp *qp)
{
	struct ibv_send_wr *bad, wr = { .wr_id = new_id(),
					.opcode = IBV_WR_BIND_MW };

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

/* As write_message(): all of the walled region, by the door's key. */
static void push_the_door(uint32_t rkey)
{
	uint8_t *ring = (uint8_t *)fake.x + export_ring_offset(&fake_shape);
	struct x_msg m = { .op = MSG_WRITE,
			   .flags = MSG_FIRST | MSG_LAST,
			   .length = WALL,
			   .total = WALL,
			   .qkey = rkey,
			   .addr = (uintptr_t)walled + WALL,
			   .stamp = msg_stamp(fake.head, FAKE_RING) };

	memcpy(ring + fake.head % FAKE_RING / RING_LINE * RING_LINE, &m,
	       sizeof(m));
	fake.head += sizeof(m) + WALL;
}

static void shut_door(void)
{
	uint8_t was[sizeof(walled)];
	uint32_t rkey = door->rkey;
	int err = rdma_dealloc_mw(door);

	assert(!err);
	memcpy(was, walled, sizeof(was));
	push_the_door(rkey);
	poll_some();
	assert(!memcmp(was, walled, sizeof(was))); /* I5 */
	for (size_t i = 0; i < WALL; i++)
		assert(walled[i] == 0x5a && walled[2 * WALL + i] == 0x5a);
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static const enum ibv_qp_type types[] = {
		IBV_QPT_RC, IBV_QPT_RC,       IBV_QPT_UC,
		IBV_QPT_UD, IBV_QPT_XRC_SEND, IBV_QPT_XRC_RECV
	};
	struct ibv_ah_attr to = { .is_global = 1, .port_num = 1 };

	if (!ctx)
		begin();
	script.at = data;
	script.end = data + n;
	uint32_t kind = take(1);
	enum ibv_qp_type type = types[kind % 6];
	bool shares = kind & 128 && type != IBV_QPT_XRC_SEND;
	struct ibv_qp *qp = new_qp(type, shares ? basic : NULL);
	fake_open(type == IBV_QPT_XRC_SEND   ? IBV_QPT_XRC_RECV
		  : type == IBV_QPT_XRC_RECV ? IBV_QPT_XRC_SEND
					     : type);
	fake.x->dest_qpn = qp->qp_num;
	fake.x->n_inside = 0;
	connect_qp(qp, self_current->block << QPN_BITS | (N_QPS - 1), type);
	device_gid(0, &to.grh.dgid, NULL);
	struct ibv_ah *ah = rdma_create_ah(pd, &to);
	mw = rdma_alloc_mw(pd, IBV_MW_TYPE_2);
	open_door(qp);
	if (type == IBV_QPT_UD && kind & 64)
		(void)!rdma_attach_mcast(qp, &group, 0);
	run_script(qp, ah);
	poll_some();
	shut_door();
	rdma_destroy_ah(ah);
	int err = rdma_dealloc_mw(mw);
	err |= rdma_dereg_mr(mr) | rdma_dereg_mr(walled_mr); /* I4 */
	assert(!err);
	register_memory();
	drop_events();
	(void)!rdma_detach_mcast(qp, &group, 0); /* the script may have, too */
	memset(self_current->dir->mcast, 0, sizeof(self_current->dir->mcast));
	err = rdma_destroy_qp(qp);
	assert(!err);
	fake_close();
	check_healthy();
	check_guards();
	drain_shared(srq);
	drain_shared(basic);
	mend_directory();
	memset(posted, 0, sizeof(posted));
	n_posted = 0;
	return 0;
}
