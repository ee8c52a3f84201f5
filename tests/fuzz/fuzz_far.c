/* SPDX-License-Identifier: MIT */
/*
 * tests/fuzz/fuzz_far.c - a queue pair whose peer is on another host: datagrams of any bytes, and
 * the mail by which processes hand packets on
 *
 *     first bytes -> kind of the queue pair; receives of its own, or shared ones; a group
 *     then a script of steps:
 *       a datagram: of any bytes, or some packets; where it comes from and went to, and how the
 *             kernel has put packets together, in any order or not at all   wire_recv()
 *       mail: of any bytes, with descriptors, or with some packets   wire_read_mail()
 *             a packet is as roce_build() makes it, most often with the right ICRC
 *       our receives, requests, binds of a window
 *       polls, and what the thread does                              wire_progress()
 *
 * The sockets of port 4791 are unix sockets here, and what they receive is this file's: nothing
 * leaves, and nobody else finds the mail's name.  There is no thread.
 *
 * What holds besides: fuzz_device.h, and
 *   I6  descriptors that came with mail are closed
 */
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <sys/un.h>

#include "fuzz_device.h"
#include "rdma/wire_in.h"

#define MAIL_MAGIC 0x66636f72u
#define PEER_QPN 0x12345u
#define LARGEST 96u
#define PACKETS_BYTES (3 * (ROCE_HEAD_MAX + LARGEST + 8))
#define N_WAITING 8u

/* As wire_mail.c has it. */
struct mail {
	uint32_t magic, kind;
	uint64_t number;
	uint32_t block, part;
	struct roce_flow flow;
};

static struct libc real;
static int mail; /* ours, connected to the process's */
static struct ibv_ah *to_peer, *to_group;
static union ibv_gid here, peer;
static struct ibv_qp *qp;
static uint32_t psn, n_asked;
/* Datagrams that have arrived. */
static struct datagram {
	uint8_t bytes[PACKETS_BYTES];
	size_t n;
	struct sockaddr_storage from;
	struct in6_pktinfo to;
	int part, flags;
	bool says_where, says_part, is_part_first;
} waiting[N_WAITING];
static uint32_t n_waiting;

/*
 * Sockets that lead nowhere.
 */

static int fake_socket(int family, int type, int protocol)
{
	return real.socket(family == AF_UNIX ? family : AF_UNIX, type, 0);
}

static int fake_setsockopt(int fd, int level, int name, const void *value,
			   socklen_t len)
{
	return level == SOL_SOCKET && name == SO_PASSCRED
		   ? real.setsockopt(fd, level, name, value, len)
		   : 0;
}

static int fake_getsockopt(int fd, int level, int name, void *value,
			   socklen_t *len)
{
	int err = real.getsockopt(fd, level, name, value, len);

	if (level == SOL_SOCKET && name == SO_DOMAIN)
		*(int *)value = AF_INET6;
	return err;
}

/* The names of the port's mail are those that the kernel chooses. */
static int fake_bind(int fd, const struct sockaddr *a, socklen_t len)
{
	static const char prefix[] = "osf-roce/";
	const struct sockaddr_un *un = (const void *)a;
	const struct sockaddr none = { .sa_family = AF_UNIX };

	if (a->sa_family != AF_UNIX)
		return 0;
	return strncmp(un->sun_path + 1, prefix, sizeof(prefix) - 1)
		   ? real.bind(fd, a, len)
		   : real.bind(fd, &none, sizeof(none.sa_family));
}

/* To other processes. */
static ssize_t fake_sendmsg(int fd, const struct msghdr *msg, int flags)
{
	return 0;
}

/* What the kernel tells of a datagram. */
static void tell(struct msghdr *msg, const struct datagram *d)
{
	struct cmsghdr *c = CMSG_FIRSTHDR(msg);
	size_t n = 0;

	memset(msg->msg_control, 0, msg->msg_controllen);
	for (int turn = 0; turn < 2; turn++) {
		bool is_part = d->is_part_first == !turn;
		size_t length = is_part ? sizeof(d->part) : sizeof(d->to);

		if (is_part ? !d->says_part : !d->says_where)
			continue;
		*c = (struct cmsghdr){ .cmsg_len = CMSG_LEN(length),
				       .cmsg_level =
					   is_part ? IPPROTO_UDP : IPPROTO_IPV6,
				       .cmsg_type =
					   is_part ? UDP_GRO : IPV6_PKTINFO };
		memcpy(CMSG_DATA(c), is_part ? (const void *)&d->part : &d->to,
		       length);
		n += CMSG_SPACE(length);
		c = (void *)((uint8_t *)c + CMSG_SPACE(length));
	}
	assert(n <= msg->msg_controllen);
	msg->msg_controllen = n;
}

/* Of the process's own socket. */
int __wrap_wire_recv(int fd, struct mmsghdr *to, int at_most)
{
	int n = fd == wire.fd ? (int)MIN((uint32_t)at_most, n_waiting) : 0;

	for (int i = 0; i < n; i++) {
		const struct datagram *d = &waiting[i];
		struct msghdr *msg = &to[i].msg_hdr;

		memcpy(msg->msg_iov->iov_base, d->bytes, d->n);
		memcpy(msg->msg_name, &d->from, sizeof(d->from));
		tell(msg, d);
		msg->msg_flags = d->flags;
		to[i].msg_len = (unsigned)d->n;
	}
	n_waiting -= (uint32_t)n;
	memmove(waiting, waiting + n, n_waiting * sizeof(waiting[0]));
	errno = EAGAIN;
	return n ? n : -1;
}

static void open_port(void)
{
	struct sockaddr_un un;
	socklen_t len = sizeof(un);

	real = libc;
	libc.socket = fake_socket;
	libc.setsockopt = fake_setsockopt;
	libc.getsockopt = fake_getsockopt;
	libc.bind = fake_bind;
	libc.sendmsg = fake_sendmsg;
	wire.has_helper = true;
	int err = wire_open();
	assert(!err && wire.is_v6);
	mail = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	err = getsockname(wire.mail, (struct sockaddr *)&un, &len) ||
	      connect(mail, (struct sockaddr *)&un, len);
	assert(!err);
}

/* One that is no address of ours, of the family of our first GID. */
static void choose_peer(void)
{
	struct ibv_ah_attr to = { .is_global = 1, .port_num = 1 };
	struct ibv_ah_attr many = { .is_global = 1,
				    .port_num = 1,
				    .grh.dgid = group };

	device_gid(0, &here, NULL);
	peer = here;
	memcpy(peer.raw + 13, "\x4d\x4d\x4d", 3);
	to.grh.dgid = peer;
	to_peer = rdma_create_ah(pd, &to);
	to_group = rdma_create_ah(pd, &many);
	assert(to_peer && to_group);
}

static void begin(void)
{
	setenv("OSF_RDMA_WIRE", "0", 1); /* until the sockets are ours */
	device_begin();
	setenv("OSF_RDMA_WIRE", "1", 1);
	open_port();
	choose_peer();
}

/*
 * Mail.
 */

static void post_mail(const struct mail *m, const void *bytes, size_t n,
		      int n_fds)
{
	struct iovec iov[2] = { { (void *)m, sizeof(*m) },
				{ (void *)bytes, n } };
	union {
		char bytes[CMSG_SPACE(9 * sizeof(int))];
		struct cmsghdr aligned;
	} control = { 0 };
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2 };

	if (n_fds) {
		struct cmsghdr *c = &control.aligned;

		msg.msg_control = &control;
		msg.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
		*c = (struct cmsghdr){ .cmsg_level = SOL_SOCKET,
				       .cmsg_type = SCM_RIGHTS,
				       .cmsg_len =
					   CMSG_LEN(n_fds * sizeof(int)) };
		for (int i = 0; i < n_fds; i++)
			memcpy(CMSG_DATA(c) + i * sizeof(int), &mail,
			       sizeof(int));
	}
	(void)!sendmsg(mail, &msg, MSG_DONTWAIT);
}

static struct roce_flow flow_here(void)
{
	struct roce_flow f;
	bool is_way = wire_flow(&peer, &here, &f);

	assert(is_way);
	return f;
}

static int lowest_free(void)
{
	int fd = dup(mail);

	close(fd);
	return fd;
}

static void thread_turn(void)
{
	bool is_done = wire_progress(true);

	assert(is_done);
}

static void any_mail(void)
{
	uint32_t how = take(1);
	struct mail m = { .magic = how & 1 ? MAIL_MAGIC : take(4),
			  .kind = take(1) % 7,
			  .flow = flow_here(),
			  .part = how & 2 ? take(1) : take(4) };
	uint8_t bytes[64];
	size_t n = take(1) % sizeof(bytes);

	for (size_t i = 0; i < n; i++)
		bytes[i] = (uint8_t)take(1);
	if (how & 4)
		((uint8_t *)&m.flow)[take(1) % sizeof(m.flow)] =
		    (uint8_t)take(1);
	m.flow.is_v6 = *(uint8_t *)&m.flow.is_v6 & 1;
	int before = lowest_free();
	post_mail(&m, bytes, n, how & 8 ? (int)(take(1) % 10) : 0);
	thread_turn();
	assert(lowest_free() == before); /* I6 */
}

static uint8_t service_of(enum ibv_qp_type type)
{
	switch (type) {
	case IBV_QPT_UC:
		return ROCE_UC;
	case IBV_QPT_UD:
		return ROCE_UD;
	case IBV_QPT_XRC_SEND:
	case IBV_QPT_XRC_RECV:
		return ROCE_XRC;
	default:
		return ROCE_RC;
	}
}

static struct roce_head make_head(void)
{
	uint32_t how = take(1), key = take(1) % 4, at = take(1);
	struct roce_head h = { .service = service_of(qp->qp_type),
			       .op = (uint8_t)(take(1) % OP_END),
			       .is_solicited = how & 1,
			       .wants_ack = how & 2,
			       .pkey = ROCE_PKEY,
			       .dest_qpn = qp->qp_num,
			       .psn = psn,
			       .rkey = mr->rkey,
			       .addr = (uintptr_t)memory + EDGE + at,
			       .length = take(2) % BUF,
			       .syndrome = how & 4 ? (uint8_t)take(1) : SYN_ACK,
			       .msn = take(1),
			       .qkey = 1,
			       .src_qpn = PEER_QPN,
			       .xrc_srqn = srq_num };

	if (key == 1) {
		h.rkey = h.inv_rkey = door->rkey;
		h.addr = (uintptr_t)walled + at % sizeof(walled);
	} else if (key == 2) {
		h.rkey = h.inv_rkey = mw->rkey;
	} else if (key == 3) {
		h.rkey = h.inv_rkey = h.xrc_srqn = take(4);
	}
	if (how & 8) /* an answer to a request of ours */
		h.psn = take(1) % (n_asked + 1);
	else if (how & 16)
		h.psn = psn_add(psn, take(1));
	else
		psn = psn_add(psn, 1);
	if (how & 32)
		h.dest_qpn = take(1) & 1 ? MCAST_QPN : take(3);
	return h;
}

/* A packet at @to.  Return: its bytes. */
static size_t make_packet(const struct roce_flow *f, uint16_t id, uint8_t *to)
{
	struct roce_head h = make_head();
	uint32_t n = take(1) % LARGEST, how = take(1);
	if (how & 8) /* all in this packet */
		h.length = n;
	size_t n_head = roce_build(&h, n, to);
	uint8_t *p = to + n_head;

	memset(p, (int)how, n + h.pad);
	p += n + h.pad;
	if (how & 1)
		to[take(1) % n_head] = (uint8_t)take(1);
	uint32_t crc = icrc(f, id, to, (size_t)(p - to));
	if ((how & 6) == 6)
		crc ^= take(2);
	memcpy(p, &crc, sizeof(crc));
	return (size_t)(p - to) + sizeof(crc);
}

/* Up to three packets at @to, which are cut apart where the first one ends, or elsewhere. */
static size_t make_packets(uint32_t how, const struct roce_flow *f, uint8_t *to,
			   uint32_t *part)
{
	size_t n = 0;

	for (uint16_t i = 0; i <= how % 3; i++) {
		n += make_packet(f, i, to + n);
		if (!i)
			*part = (uint32_t)n;
	}
	if (how & 8)
		*part = take(1);
	return n;
}

/* From the peer, to us or to the group. */
static struct roce_flow flow_to(bool is_for_group)
{
	struct roce_flow f = flow_here();

	if (is_for_group && f.is_v6)
		memcpy(f.dst, group.raw, sizeof(group.raw));
	return f;
}

static void mail_packets(void)
{
	uint32_t how = take(1);
	struct mail m = { .magic = MAIL_MAGIC,
			  .kind = 3,
			  .flow = flow_to(how & 4) };
	uint8_t bytes[PACKETS_BYTES];
	size_t n = make_packets(how, &m.flow, bytes, &m.part);

	post_mail(&m, bytes, n, 0);
}

/*
 * Datagrams.
 */

static void any_bytes(struct datagram *d)
{
	d->n = take(1);
	take_bytes(d->bytes, d->n);
}

static void datagram(void)
{
	uint32_t how = take(1), told = take(1);
	struct datagram *d = &waiting[n_waiting];
	struct roce_flow f = flow_to(how & 4);
	struct sockaddr_storage to;
	uint32_t part = 0;

	if (n_waiting == N_WAITING)
		return;
	n_waiting++;
	*d = (struct datagram){ .says_where = !(told & 1),
				.says_part = !(told & 2),
				.is_part_first = told & 4,
				.flags = told & 8 ? (int)take(1) : 0 };
	(void)wire_sockaddr(f.src, f.is_v6, &d->from);
	(void)wire_sockaddr(f.dst, f.is_v6, &to);
	d->to.ipi6_addr = ((struct sockaddr_in6 *)&to)->sin6_addr;
	if (how & 16)
		any_bytes(d);
	else
		d->n = make_packets(how, &f, d->bytes, &part);
	d->part = told & 16 ? (int)take(4) : (int)part;
	if (told & 32)
		((uint8_t *)&d->from)[take(1) % sizeof(struct sockaddr_in6)] =
		    (uint8_t)take(1);
	if (told & 64)
		((uint8_t *)&d->to)[take(1) % sizeof(d->to)] = (uint8_t)take(1);
}

/*
 * A run.
 */

static void request(void)
{
	uint32_t was = n_posted;

	if (take(1) & 1)
		post_request(qp, to_group, MCAST_QPN);
	else
		post_request(qp, to_peer, PEER_QPN);
	n_asked += n_posted > was;
}

static void receive(void) { post_receive(qp); }

/* Wait for a time-out to pass. */
static void wait_some(void)
{
	usleep(take(1) % 64);
	thread_turn();
}

static void run_script(void)
{
	static void (*const steps[])(
	    void) = { datagram,  datagram,    datagram,  mail_packets,
		      any_mail,  request,     receive,   receive,
		      poll_some, thread_turn, wait_some, set_limit };

	while (script.at < script.end)
		steps[take(1) % ARRAY_LEN(steps)]();
	thread_turn();
	poll_some();
}

/* All of the walled region, by a key that opens nothing any more. */
static void push_the_door(uint32_t rkey)
{
	struct mail m = { .magic = MAIL_MAGIC, .kind = 3, .flow = flow_here() };
	struct roce_head h = { .service = service_of(qp->qp_type),
			       .op = OP_WRITE_ONLY,
			       .pkey = ROCE_PKEY,
			       .dest_qpn = qp->qp_num,
			       .psn = psn,
			       .rkey = rkey,
			       .addr = (uintptr_t)walled + WALL,
			       .length = WALL };
	uint8_t bytes[ROCE_HEAD_MAX + WALL + 8];
	size_t n = roce_build(&h, WALL, bytes);

	memset(bytes + n, 0, WALL);
	n += WALL;
	uint32_t crc = icrc(&m.flow, 0, bytes, n);
	memcpy(bytes + n, &crc, sizeof(crc));
	n += sizeof(crc);
	m.part = (uint32_t)n;
	post_mail(&m, bytes, n, 0);
}

static void shut_door(void)
{
	uint8_t was[sizeof(walled)];
	uint32_t rkey = door->rkey;
	int err = rdma_dealloc_mw(door);

	assert(!err);
	memcpy(was, walled, sizeof(was));
	push_the_door(rkey);
	thread_turn();
	assert(!memcmp(was, walled, sizeof(was))); /* I5 */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_UC,
						  IBV_QPT_UD, IBV_QPT_XRC_SEND,
						  IBV_QPT_XRC_RECV };

	if (!ctx)
		begin();
	script_begin(data, n);
	psn = n_asked = n_waiting = 0;
	uint32_t kind = take(1);
	enum ibv_qp_type type = types[kind % ARRAY_LEN(types)];
	bool shares = kind & 128 && type != IBV_QPT_XRC_SEND;
	qp = new_qp(type, shares ? basic : NULL);
	connect_qp(qp, PEER_QPN, type, &peer);
	assert(type == IBV_QPT_UD ||
	       container_of(qp, struct qp, qp)->roce); /* it is far */
	open_windows(qp);
	if (type == IBV_QPT_UD && kind & 64)
		(void)!rdma_attach_mcast(qp, &group, 0);
	run_script();
	shut_door();
	release(qp);
	check_all();
	return 0;
}
