/* SPDX-License-Identifier: MIT */
/*
 * tests/verbs/test_mcast.c - datagrams to groups: who gets them, and who does not
 *
 *     test_mcast NAME ...     libosf-verbs.so comes first (LD_PRELOAD)
 */
#include <arpa/inet.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "ends.h"

#define QKEY 0x1234u
#define GRH 40

static union ibv_gid group(const char *address)
{
	union ibv_gid gid = { 0 };

	gid.raw[10] = gid.raw[11] = 0xff;
	CHECK(inet_pton(AF_INET, address, gid.raw + 12) == 1);
	return gid;
}

static void ready(struct end *e)
{
	end_open(e, IBV_QPT_UD);
	end_ready(e, QKEY);
	CHECK(!post_recv(e, 1, BUF));
}

static void send_to(struct end *e, const union ibv_gid *gid, char what)
{
	struct ibv_ah_attr attr = { .is_global = 1,
				    .port_num = 1,
				    .grh.dgid = *gid };
	struct ibv_ah_attr by_lid = { .port_num = 1 };
	CHECK(!ibv_create_ah(e->pd, &by_lid) && errno == EINVAL);
	struct ibv_ah *ah = ibv_create_ah(e->pd, &attr);
	struct ibv_sge sge = { (uintptr_t)e->buf + BUF / 2, 10, e->mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.wr_id = 2, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND
	};

	CHECK(ah);
	memset(e->buf + BUF / 2, what, 10);
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = 0xffffff;
	wr.wr.ud.remote_qkey = QKEY;
	CHECK(!ibv_post_send(e->qp, &wr, &bad));
	CHECK(!ibv_destroy_ah(ah));
}

/* The next completion is @what, of that group. */
static void gets(struct end *e, const union ibv_gid *gid, char what)
{
	struct ibv_wc wc = next(e);
	const struct ibv_grh *grh = (const void *)e->buf;

	CHECK(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV &&
	      wc.byte_len == GRH + 10 && wc.wc_flags & IBV_WC_GRH);
	CHECK(e->buf[GRH] == what && e->buf[GRH + 9] == what);
	CHECK(!memcmp(&grh->dgid, gid, sizeof(*gid)));
	CHECK(!post_recv(e, 1, BUF));
}

static void sent(struct end *e)
{
	struct ibv_wc wc = next(e);

	CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == 2);
}

static void nothing(struct end *e)
{
	struct ibv_wc wc;

	CHECK(ibv_poll_cq(e->cq, 1, &wc) == 0);
}

/* Members get each datagram once, others do not; who has left does not either. */
static void test_members(void)
{
	union ibv_gid one = group("239.1.1.1"), two = group("239.1.1.2");
	struct end a, b, c;

	ready(&a);
	ready(&b);
	ready(&c);
	CHECK(!ibv_attach_mcast(b.qp, &one, 0));
	CHECK(!ibv_attach_mcast(b.qp, &one, 0)); /* as before */
	CHECK(!ibv_attach_mcast(c.qp, &one, 0));
	CHECK(!ibv_attach_mcast(c.qp, &two, 0));
	send_to(&a, &one, '1');
	sent(&a);
	gets(&b, &one, '1');
	gets(&c, &one, '1');
	send_to(&a, &two, '2');
	sent(&a);
	gets(&c, &two, '2');
	CHECK(!ibv_detach_mcast(c.qp, &one, 0));
	send_to(&a, &one, '3');
	sent(&a);
	gets(&b, &one, '3');
	nothing(&b);
	nothing(&c);
	nothing(&a);
	CHECK(ibv_destroy_qp(b.qp) == EBUSY);
	CHECK(!ibv_detach_mcast(b.qp, &one, 0));
	CHECK(!ibv_destroy_qp(b.qp));
	send_to(&a, &one, '4'); /* to nobody */
	sent(&a);
}

/* A sender that is a member hears itself, unless it was made so as not to. */
static void test_self(void)
{
	union ibv_gid gid = group("239.1.1.3");
	struct end a, b;

	ready(&a);
	CHECK(!ibv_attach_mcast(a.qp, &gid, 0));
	send_to(&a, &gid, 's');
	struct ibv_wc wc[2] = { next(&a), next(&a) };
	CHECK(wc[0].wr_id + wc[1].wr_id == 3 && a.buf[GRH] == 's');
	end_open(&b, IBV_QPT_UD);
	CHECK(!ibv_destroy_qp(b.qp));
	struct ibv_qp_init_attr_ex init = {
		.send_cq = b.cq,
		.recv_cq = b.cq,
		.cap = { 8, 8, 2, 2, 64 },
		.qp_type = IBV_QPT_UD,
		.sq_sig_all = 1,
		.comp_mask =
		    IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS,
		.pd = b.pd,
		.create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB
	};
	CHECK((b.qp = ibv_create_qp_ex(b.ctx, &init)));
	end_ready(&b, QKEY);
	CHECK(!post_recv(&b, 1, BUF) && !post_recv(&a, 1, BUF));
	CHECK(!ibv_attach_mcast(b.qp, &gid, 0));
	send_to(&b, &gid, 't');
	sent(&b);
	gets(&a, &gid, 't');
	nothing(&b);
}

/* A member in a process that did not exist when the sender looked for processes. */
static void test_late(void)
{
	union ibv_gid gid = group("239.1.1.4");
	struct end a;
	int sv[2], status;
	char byte;

	ready(&a);
	send_to(&a, &gid, '0');
	sent(&a);
	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, sv));
	pid_t pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		struct end b;

		ready(&b);
		CHECK(!ibv_attach_mcast(b.qp, &gid, 0));
		CHECK(write(sv[1], "", 1) == 1);
		gets(&b, &gid, 'l');
		_exit(0);
	}
	CHECK(read(sv[0], &byte, 1) == 1);
	send_to(&a, &gid, 'l');
	sent(&a);
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	send_to(&a, &gid, 'm'); /* its member has ended */
	sent(&a);
}

static void test_calls(void)
{
	union ibv_gid gid = group("239.1.1.5"), none = group("10.1.1.1");
	struct ibv_device_attr attr;
	struct end a, b;

	ready(&a);
	end_open(&b, IBV_QPT_RC);
	CHECK(!ibv_query_device(a.ctx, &attr) && attr.max_mcast_grp > 0 &&
	      attr.max_mcast_qp_attach > 0);
	CHECK(ibv_attach_mcast(b.qp, &gid, 0) == EINVAL);
	CHECK(ibv_attach_mcast(a.qp, &none, 0) == EINVAL);
	CHECK(ibv_detach_mcast(a.qp, &gid, 0) == EINVAL);
	int n = 0, err = 0;
	for (; !err && n <= attr.max_mcast_grp; n++) {
		gid.raw[14] = (uint8_t)n;
		err = ibv_attach_mcast(a.qp, &gid, 0);
	}
	CHECK(err == ENOMEM && n > 1);
}

static struct {
	struct end member;
	union ibv_gid gid;
	atomic_bool is_over;
} leaver;

static void *come_and_go(void *unused)
{
	while (!leaver.is_over) {
		CHECK(!ibv_attach_mcast(leaver.member.qp, &leaver.gid, 0));
		CHECK(!ibv_detach_mcast(leaver.member.qp, &leaver.gid, 0));
	}
	return NULL;
}

/* A member leaves in one thread while another one receives. */
static void test_leaver(void)
{
	struct end a, *b = &leaver.member;
	pthread_t thread;
	struct ibv_wc wc;

	ready(&a);
	ready(b);
	leaver.gid = group("239.1.1.6");
	CHECK(!pthread_create(&thread, NULL, come_and_go, NULL));
	for (int i = 0; i < 20000; i++) {
		send_to(&a, &leaver.gid, 'g');
		sent(&a);
		while (ibv_poll_cq(b->cq, 1, &wc)) {
			CHECK(wc.status == IBV_WC_SUCCESS);
			CHECK(!memcmp(((struct ibv_grh *)b->buf)->dgid.raw,
				      leaver.gid.raw, sizeof(leaver.gid)));
			CHECK(!post_recv(b, 1, BUF));
		}
	}
	leaver.is_over = true;
	CHECK(!pthread_join(thread, NULL));
}

static const struct test tests[] = {
	{ "members", test_members }, { "self", test_self },
	{ "late", test_late },       { "leaver", test_leaver },
	{ "calls", test_calls }, /* leaves no room for groups */
};

int main(int argc, char **argv)
{
	return tests_main(argc, argv, tests, sizeof(tests) / sizeof(*tests),
			  120);
}
