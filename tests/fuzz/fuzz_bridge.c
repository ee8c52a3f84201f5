/* SPDX-License-Identifier: MIT */
/*
 * tests/fuzz/fuzz_bridge.c - management datagrams of other hosts, to a connection manager
 * that has connections
 *
 * The input is a script of steps:
 *       a datagram, of any bytes or well-formed          on_mad()
 *       a program connects to the peer                   bridge_connect()
 *       a program's id sends a message, or closes        read_sockets()
 *       the listener's program accepts
 *       time passes                                      on_time()
 *
 * This file is rdma/wire.h: what the bridge sends stays here.
 *
 * Besides not crashing, this holds:
 *   I1  a datagram that is sent is one of ours, and goes to a host that has spoken or that a
 *       program has named
 *   I2  an id gets messages that msg_check() accepts, and no message of a host that is not its peer
 *   I3  an id gets one REP for one REQ
 *   I4  when all programs have closed and time has passed, no descriptor is left
 */
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <rdma/rdma_user_cm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/libc.h"
#include "cm/bridge.h"
#include "cm/mad.h"
#include "fuzz_script.h"
#include "rdma/core.h"
#include "rdma/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define N_IDS 6
#define N_KNOWN 4u
#define HERE "10.77.0.1"
#define PEER "10.77.0.2"
#define OTHER "10.77.0.3"
/* The first byte of a program's private data says which host sent it. */
#define OF_PEER 0x11
#define OF_OTHER 0xee

static struct id {
	int sock; /* -1: none */
	uint32_t n_req, n_rep;
	bool is_peers; /* its other end is PEER */
} ids[N_IDS];
static int listener;
static uint16_t port; /* the listener's */
static uint64_t ahead_ns;
/* Numbers of connections that the bridge has named. */
static uint32_t known[N_KNOWN], n_known;

static union addr address(const char *text, uint16_t at)
{
	union addr a = { .in = { .sin_family = AF_INET,
				 .sin_port = htons(at) } };

	inet_pton(AF_INET, text, &a.in.sin_addr);
	return a;
}

static bool is_at(const uint8_t *raw, const char *text)
{
	union addr a = address(text, 0);

	return !memcmp(raw, &a.in.sin_addr, 4);
}

/*
 * The wire.
 */

static struct self self = { .block = 5 };
struct self *self_current = &self;
static const struct wire_bridge *bridge;

uint32_t self_generation(void) { return 1; }

int wire_open(void) { return 0; }

bool wire_flow(const union ibv_gid *sgid, const union ibv_gid *dgid,
	       struct roce_flow *f)
{
	*f = (struct roce_flow){ .src_port = ROCE_PORT, .dst_port = ROCE_PORT };
	memcpy(f->src, sgid->raw + 12, 4);
	memcpy(f->dst, dgid->raw + 12, 4);
	return true;
}

void wire_gid(const struct roce_flow *f, const uint8_t *addr,
	      union ibv_gid *gid)
{
	memset(gid, 0, sizeof(*gid));
	memcpy(gid->raw + 12, addr, 4);
}

void wire_put(const struct roce_flow *f, struct roce_head *h,
	      const struct iovec *iov, int n)
{
	struct mad d;
	bool is_ours = mad_parse(iov[0].iov_base, iov[0].iov_len, &d);

	assert(n == 1 && is_ours && h->dest_qpn == MAD_QPN); /* I1 */
	assert(is_at(f->src, HERE));
	assert(is_at(f->dst, PEER) || is_at(f->dst, OTHER));
	known[n_known++ % N_KNOWN] = d.local_id;
}

void wire_flush(void) {}

void wire_wake_at(uint64_t ns) { assert(ns); }

void wire_set_bridge(const struct wire_bridge *b, int fd) { bridge = b; }

uint64_t device_guid(void) { return 1; }

bool device_is_alone(void) { return false; }

int device_port(uint8_t num, struct ibv_port_attr *a)
{
	a->active_mtu = IBV_MTU_1024;
	return 0;
}

int device_gid(uint32_t i, union ibv_gid *gid, uint32_t *ifindex)
{
	return ENODATA;
}

int device_find_gid(const union ibv_gid *gid) { return -1; }

/*
 * Other hosts.
 */

static void deliver(const uint8_t *p, size_t n, const char *from)
{
	union addr src = address(from, 0), dst = address(HERE, 0);
	struct roce_flow f = { .src_port = ROCE_PORT, .dst_port = ROCE_PORT };
	uint8_t *bytes = malloc(n ? n : 1); /* a sanitizer sees their end */
	uint32_t block = 0;

	memcpy(f.src, &src.in.sin_addr, 4);
	memcpy(f.dst, &dst.in.sin_addr, 4);
	memcpy(bytes, p, n);
	enum wire_verdict v = bridge->mad(&f, bytes, n, next() & 1, &block);
	assert(v != WIRE_FOR_BLOCK || block != self.block);
	free(bytes);
}

static void any_datagram(void)
{
	uint8_t bytes[MAD_BYTES + 8];
	size_t n = next() & 3 ? MAD_BYTES : next();

	take_bytes(bytes, 64);
	memset(bytes + 64, next(), sizeof(bytes) - 64);
	if (next() & 1)
		memcpy(bytes, (uint8_t[]){ 1, 7, 2, 3 }, 4);
	deliver(bytes, n, OTHER);
}

static void well_formed(void)
{
	static const uint8_t kinds[] = { MAD_REQ,  MAD_MRA,      MAD_REJ,
					 MAD_REP,  MAD_RTU,      MAD_DREQ,
					 MAD_DREP, MAD_SIDR_REQ, MAD_SIDR_REP };
	uint8_t bytes[MAD_BYTES], how = next();
	bool is_other = how & 2;
	struct mad d = { .kind = kinds[next() % sizeof(kinds)],
			 .mtu = IBV_MTU_1024,
			 .tid = next(),
			 .local_id = next() % 4,
			 .remote_id = known[next() % N_KNOWN],
			 .m = { .ps = RDMA_PS_TCP,
				.src = address(is_other ? OTHER : PEER, 9),
				.dst = address(HERE, how & 1 ? 1 : port) } };

	if (d.kind == MAD_SIDR_REP)
		d.local_id = d.remote_id;
	d.m.p.qp_type = IBV_QPT_RC;
	d.m.p.qp_num = next();
	d.m.p.private_len = 1;
	d.m.p.private_data[0] = is_other ? OF_OTHER : OF_PEER;
	mad_build(&d, bytes);
	if (how & 4)
		bytes[next()] = next();
	/* A byte that was changed may be the mark. */
	if (!(how & 4) || !is_other)
		deliver(bytes, sizeof(bytes), is_other ? OTHER : PEER);
}

/*
 * Programs.
 */

static struct id *free_id(void)
{
	for (int i = 0; i < N_IDS; i++)
		if (ids[i].sock < 0)
			return &ids[i];
	return NULL;
}

static void connect_id(void)
{
	union addr src = address(HERE, 7), dst = address(PEER, 8);
	struct id *id = free_id();

	if (!id)
		return;
	*id = (struct id){ .sock = bridge_connect(&src, &dst, dup(listener)),
			   .is_peers = true };
	assert(id->sock >= 0);
}

static void accept_id(void)
{
	struct id *id = free_id();

	if (id)
		*id = (struct id){ .sock =
				       accept4(listener, NULL, NULL,
					       SOCK_NONBLOCK | SOCK_CLOEXEC) };
}

static void say(void)
{
	struct id *id = &ids[next() % N_IDS];
	struct msg m = { .magic = MSG_MAGIC,
			 .version = MSG_VERSION,
			 .kind = MSG_REQ + next() % (MSG_KINDS - 1),
			 .ps = RDMA_PS_TCP,
			 .src = address(HERE, 7),
			 .dst = address(PEER, 8),
			 .p = { .qp_num = 7, .qp_type = IBV_QPT_RC } };

	if (id->sock < 0)
		return;
	m.p.private_len = next() % (private_max(m.kind) + 1);
	id->n_req += m.kind == MSG_REQ;
	(void)!msg_send(id->sock, &m);
	bridge->ready();
}

static void hear(struct id *id)
{
	struct msg m;
	int err;

	while (!(err = msg_recv(id->sock, &m))) {
		bool is_others =
		    m.p.private_len && m.p.private_data[0] == OF_OTHER;

		assert(!id->is_peers || !is_others); /* I2 */
		id->n_rep += m.kind == MSG_REP;
		assert(!id->is_peers || id->n_rep <= id->n_req); /* I3 */
	}
	assert(err != -EPROTO); /* I2 */
}

static void hear_all(void)
{
	for (int i = 0; i < N_IDS; i++)
		if (ids[i].sock >= 0)
			hear(&ids[i]);
}

static void end_id(void)
{
	struct id *id = &ids[next() % N_IDS];

	if (id->sock >= 0)
		close(id->sock);
	id->sock = -1;
	bridge->ready();
}

static void pass_time(void)
{
	ahead_ns += next() * 8 * NS_PER_MS;
	bridge->tick(now_ns() + ahead_ns);
}

/*
 * A run.
 */

static int listen_here(void)
{
	union addr a;
	int s =
	    socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	/* Nobody else has a listener at such an address. */
	port = (uint16_t)(1024 + getpid() % 60000);
	a = address(HERE, port);
	int err = addr_bind(s, RDMA_PS_TCP, &a, false);
	assert(!err && !listen(s, 8));
	return s;
}

static void begin(void)
{
	libc_resolve();
	int err = bridge_open();
	assert(!err && bridge);
	listener = listen_here();
}

static void drain_listener(void)
{
	int s;

	while ((s = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0)
		close(s);
}

static void end_all(void)
{
	for (int i = 0; i < N_IDS; i++)
		if (ids[i].sock >= 0)
			close(ids[i].sock);
	drain_listener();
	/* Each look takes some of the sockets. */
	for (int i = 0; i < 64; i++)
		bridge->ready();
	for (int i = 0; i < 64; i++) {
		ahead_ns += NS_PER_S;
		bridge->tick(now_ns() + ahead_ns);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const steps[])(void) = {
		well_formed, well_formed, any_datagram, connect_id, accept_id,
		say,         say,         end_id,       pass_time,  hear_all
	};

	if (!bridge)
		begin();
	int before = count_fds();
	script_begin(data, size);
	for (int i = 0; i < N_IDS; i++)
		ids[i] = (struct id){ .sock = -1 };
	n_known = 0;
	memset(known, 0, sizeof(known));
	while (script.at < script.end)
		steps[next() % ARRAY_LEN(steps)]();
	hear_all();
	end_all();
	assert(count_fds() == before); /* I4 */
	return 0;
}
