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
 * What holds besides: fuzz_device.h.
 */
#include "fuzz_device.h"

#define FAKE_RING (FRAGMENT * 2)
#define FAKE_RECV 4u
#define FAKE_SGE 2u

/* The peer: number, memory, and what is posted to us. */
static struct {
	int index, fd;
	size_t bytes;
	struct x_qp *x;
	uint64_t head; /* of its ring */
} fake;
static struct ibv_ah *to_group;

static void begin(void)
{
	struct ibv_ah_attr many = { .is_global = 1,
				    .port_num = 1,
				    .grh.dgid = group };

	setenv("OSF_RDMA_WIRE", "0", 1);
	device_begin();
	to_group = rdma_create_ah(pd, &many);
	assert(to_group);
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
	*fake.x =
	    (struct x_qp){ .magic = EXPORT_MAGIC,
			   .version = EXPORT_VERSION,
			   .qpn = self_current->block << QPN_BITS |
				  (uint32_t)fake.index,
			   .type = type,
			   .ring_size = FAKE_RING,
			   .n_recv = FAKE_RECV,
			   .recv_sge = FAKE_SGE,
			   .has_reply = true,
			   .domain = 1,
			   .has_srq = type == IBV_QPT_XRC_RECV || wrong & 2,
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
		m.addr = (uint64_t)mcast_hash(group.raw) << 32 | MCAST_INDEX
								     << 8;
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

static void greet(struct ibv_qp *qp)
{
	struct {
		uint64_t magic;
		uint32_t src, dst;
		int32_t fd;
	} h = { EXPORT_MAGIC, fake.x->qpn, qp->qp_num, fake.fd };
	struct sockaddr_un un;
	socklen_t len =
	    self_socket_name(&un, self_current->block, self_current->suffix);
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
			if (take(1) & 1)
				post_request(qp, to_group, MCAST_QPN);
			else
				post_request(qp, ah, fake.x->qpn);
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
	script_begin(data, n);
	uint32_t kind = take(1);
	enum ibv_qp_type type = types[kind % 6];
	bool shares = kind & 128 && type != IBV_QPT_XRC_SEND;
	struct ibv_qp *qp = new_qp(type, shares ? basic : NULL);
	fake_open(type == IBV_QPT_XRC_SEND   ? IBV_QPT_XRC_RECV
		  : type == IBV_QPT_XRC_RECV ? IBV_QPT_XRC_SEND
					     : type);
	fake.x->dest_qpn = qp->qp_num;
	fake.x->n_inside = 0;
	connect_qp(qp, self_current->block << QPN_BITS | (N_QPS - 1), type,
		   NULL);
	device_gid(0, &to.grh.dgid, NULL);
	struct ibv_ah *ah = rdma_create_ah(pd, &to);
	open_windows(qp);
	if (type == IBV_QPT_UD && kind & 64)
		(void)!rdma_attach_mcast(qp, &group, 0);
	run_script(qp, ah);
	poll_some();
	shut_door();
	rdma_destroy_ah(ah);
	release(qp);
	fake_close();
	mend_directory();
	check_all();
	return 0;
}
