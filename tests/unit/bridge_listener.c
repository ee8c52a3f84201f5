/* SPDX-License-Identifier: MIT */
/*
 * tests/unit/bridge_listener.c - a connection to a port of another host where nobody listens yet
 *
 * perftest -R connects twice to one port, and its server closes the first listener before it
 * has the second one.  This file is rdma/wire.h: it counts what the bridge sends.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <rdma/rdma_user_cm.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/libc.h"
#include "cm/bridge.h"
#include "cm/mad.h"
#include "rdma/core.h"
#include "rdma/wire.h"
#include "unit.h"

static struct self self = { .block = 5 };
struct self *self_current = &self;
static const struct wire_bridge *bridge;
static struct mad sent; /* last */
static uint32_t n_requests;
static uint64_t wake_ns;

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
	assert_true(mad_parse(iov[0].iov_base, iov[0].iov_len, &sent));
	n_requests += sent.kind == MAD_REQ || sent.kind == MAD_SIDR_REQ;
}

void wire_flush(void) {}

void wire_wake_at(uint64_t ns) { wake_ns = ns; }

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

static union addr address(const char *text)
{
	union addr a = { .in = { .sin_family = AF_INET,
				 .sin_port = htons(9) } };

	inet_pton(AF_INET, text, &a.in.sin_addr);
	return a;
}

/* The other host says that it has no such listener. */
static void refuse(uint8_t kind, uint8_t reason)
{
	union addr here = address("10.77.0.1"), peer = address("10.77.0.2");
	struct roce_flow f = { .src_port = ROCE_PORT, .dst_port = ROCE_PORT };
	const struct mad d = {
		.kind = kind,
		.tid = sent.tid,
		.remote_id = sent.local_id,
		.m = { .reason = reason, .ps = sent.m.ps, .dst = sent.m.dst }
	};
	uint8_t bytes[MAD_BYTES];
	uint32_t block;

	memcpy(f.src, &peer.in.sin_addr, 4);
	memcpy(f.dst, &here.in.sin_addr, 4);
	mad_build(&d, bytes);
	bridge->mad(&f, bytes, sizeof(bytes), true, &block);
}

/* It is asked again and again, for a tenth of a second; then the program hears it. */
static void try_it(enum msg_kind kind, uint8_t type, uint8_t answer,
		   uint8_t reason)
{
	union addr src = address("10.77.0.1"), dst = address("10.77.0.2");
	const struct msg ask = { .magic = MSG_MAGIC,
				 .version = MSG_VERSION,
				 .kind = (uint8_t)kind,
				 .ps = type == IBV_QPT_UD ? RDMA_PS_UDP
							  : RDMA_PS_TCP,
				 .src = src,
				 .dst = dst,
				 .p = { .qp_num = 7, .qp_type = type } };
	struct msg m;
	int err;

	assert_false(bridge_open());
	int s = bridge_connect(&src, &dst, -1);
	assert_true(s >= 0);
	n_requests = 0;
	uint64_t begin = now_ns();
	assert_false(msg_send(s, &ask));
	bridge->ready();
	assert_int_equal(n_requests, 1);
	for (;;) {
		uint32_t n = n_requests;

		refuse(answer, reason);
		err = msg_recv(s, &m);
		if (!err)
			break;
		assert_int_equal(err, -EAGAIN);
		while (now_ns() < wake_ns)
			sched_yield();
		bridge->tick(now_ns());
		assert_int_equal(n_requests, n + 1);
	}
	assert_int_equal(m.reason, reason);
	assert_true(now_ns() - begin >= 100 * NS_PER_MS);
	close(s);
}

static void a_connection_waits_for_a_listener(void **state)
{
	try_it(MSG_REQ, IBV_QPT_RC, MAD_REJ, REJ_INVALID_SERVICE_ID);
}

static void datagrams_wait_for_a_listener(void **state)
{
	try_it(MSG_SIDR_REQ, IBV_QPT_UD, MAD_SIDR_REP, SIDR_UNSUPPORTED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_connection_waits_for_a_listener),
		cmocka_unit_test(datagrams_wait_for_a_listener),
	};

	libc_resolve();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
