/* SPDX-License-Identifier: MIT */
/*
 * tests/verbs/test_limits.c - each limit that the device names is one that can be reached, and not passed
 *
 *     test_limits NAME ...     libosf-verbs.so comes first (LD_PRELOAD)
 *
 * test_devinfo.py says which lines of `ibv_devinfo -v' these tests stand for.
 */
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "ends.h"

#define MANY 65536
#define PART (64u << 20) /* a sixteenth of the longest message */

static struct end e;
static struct ibv_device_attr_ex most;
static const struct ibv_device_attr *limit = &most.orig_attr;
static void *made[MANY + 1];

typedef void *maker(int i);
typedef int ender(void *made);

/* @n can be there at one time.  With @is_end one more cannot. */
static void reach(int n, maker *make, ender *end, bool is_end)
{
	CHECK(n > 0 && n <= MANY);
	for (int i = 0; i < n; i++)
		CHECK((made[i] = make(i)));
	errno = 0;
	CHECK(!is_end || (!make(n) && errno == ENOMEM));
	for (int i = 0; i < n; i++)
		CHECK(!end(made[i]));
}

/* Each queue pair has a descriptor. */
static void allow_descriptors(void)
{
	struct rlimit r;

	CHECK(!getrlimit(RLIMIT_NOFILE, &r));
	r.rlim_cur = r.rlim_max;
	CHECK(!setrlimit(RLIMIT_NOFILE, &r));
}

static void begin(void)
{
	struct ibv_device_attr plain;

	allow_descriptors();
	end_open(&e, IBV_QPT_RC);
	CHECK(!ibv_query_device_ex(e.ctx, NULL, &most));
	CHECK(!ibv_query_device(e.ctx, &plain));
	CHECK(!memcmp(&plain, limit, sizeof(plain)));
	CHECK((uint32_t)most.device_cap_flags_ex == plain.device_cap_flags);
}

/*
 * How many.
 */

static void *make_qp(int i)
{
	struct ibv_qp_init_attr init = { .send_cq = e.cq,
					 .recv_cq = e.cq,
					 .cap = { 1, 1, 1, 1, 0 },
					 .qp_type = IBV_QPT_RC };

	return ibv_create_qp(e.pd, &init);
}

static int end_qp(void *qp) { return ibv_destroy_qp(qp); }

static void *make_cq(int i) { return ibv_create_cq(e.ctx, 1, NULL, NULL, 0); }

static int end_cq(void *cq) { return ibv_destroy_cq(cq); }

static void *make_mr(int i) { return ibv_reg_mr(e.pd, e.buf, 64, 0); }

static int end_mr(void *mr) { return ibv_dereg_mr(mr); }

static void *make_mw(int i) { return ibv_alloc_mw(e.pd, IBV_MW_TYPE_1); }

static int end_mw(void *mw) { return ibv_dealloc_mw(mw); }

static void *make_pd(int i) { return ibv_alloc_pd(e.ctx); }

static int end_pd(void *pd) { return ibv_dealloc_pd(pd); }

static void *make_ah(int i)
{
	struct ibv_ah_attr to = { .is_global = 1, .port_num = 1 };

	CHECK(!ibv_query_gid(e.ctx, 1, GID_INDEX, &to.grh.dgid));
	return ibv_create_ah(e.pd, &to);
}

static int end_ah(void *ah) { return ibv_destroy_ah(ah); }

static void *make_srq(int i)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 1,
						    .max_sge = 1 } };

	return ibv_create_srq(e.pd, &init);
}

static int end_srq(void *srq) { return ibv_destroy_srq(srq); }

/* A queue pair and a completion queue are there already, and a region; regions and windows
 * share a table. */
static void test_objects(void)
{
	reach(limit->max_qp - 1, make_qp, end_qp, true);
	reach(limit->max_cq - 1, make_cq, end_cq, true);
	reach(limit->max_mr - 1, make_mr, end_mr, true);
	reach(limit->max_mw - 1, make_mw, end_mw, true);
	reach(limit->max_pd, make_pd, end_pd, false);
	reach(limit->max_ah, make_ah, end_ah, false);
	reach(limit->max_srq, make_srq, end_srq, false);
}

static void test_groups(void)
{
	union ibv_gid group = { .raw = { 0xff, 0x0e, 0x86 } };
	struct end u;

	end_open(&u, IBV_QPT_UD);
	end_ready(&u, 1);
	CHECK(limit->max_mcast_grp == limit->max_mcast_qp_attach &&
	      limit->max_mcast_grp == limit->max_total_mcast_qp_attach);
	for (int i = 0; i <= limit->max_mcast_grp; i++) {
		group.raw[15] = (uint8_t)i;
		CHECK(ibv_attach_mcast(u.qp, &group, 0) ==
		      (i < limit->max_mcast_grp ? 0 : ENOMEM));
	}
	for (int i = 0; i < limit->max_mcast_grp; i++) {
		group.raw[15] = (uint8_t)i;
		CHECK(!ibv_detach_mcast(u.qp, &group, 0));
	}
}

static void test_device_memory(void)
{
	struct ibv_alloc_dm_attr a = { .length = most.max_dm_size };
	struct ibv_dm *dm = ibv_alloc_dm(e.ctx, &a);

	CHECK(dm && !ibv_free_dm(dm));
	a.length++;
	CHECK(!ibv_alloc_dm(e.ctx, &a));
}

/*
 * How large.
 */

static bool has_qp(struct ibv_qp_cap cap)
{
	struct ibv_qp_init_attr init = { .send_cq = e.cq,
					 .recv_cq = e.cq,
					 .cap = cap,
					 .qp_type = IBV_QPT_RC };
	struct ibv_qp *qp = ibv_create_qp(e.pd, &init);

	CHECK(qp || errno == EINVAL);
	return qp && !ibv_destroy_qp(qp);
}

static bool has_srq(uint32_t wr, uint32_t sge)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = wr,
						    .max_sge = sge } };
	struct ibv_srq *srq = ibv_create_srq(e.pd, &init);

	CHECK(srq || errno == EINVAL);
	return srq && !ibv_destroy_srq(srq);
}

static bool has_cq(int cqe)
{
	struct ibv_cq *cq = ibv_create_cq(e.ctx, cqe, NULL, NULL, 0);

	CHECK(cq || errno == EINVAL);
	return cq && !ibv_destroy_cq(cq);
}

static void test_sizes(void)
{
	uint32_t wr = (uint32_t)limit->max_qp_wr;
	uint32_t sge = (uint32_t)limit->max_sge;
	uint32_t srq_wr = (uint32_t)limit->max_srq_wr;
	uint32_t srq_sge = (uint32_t)limit->max_srq_sge;

	CHECK(has_qp((struct ibv_qp_cap){ wr, wr, sge, sge, 0 }));
	CHECK(!has_qp((struct ibv_qp_cap){ wr + 1, 1, 1, 1, 0 }));
	CHECK(!has_qp((struct ibv_qp_cap){ 1, wr + 1, 1, 1, 0 }));
	CHECK(!has_qp((struct ibv_qp_cap){ 1, 1, sge + 1, 1, 0 }));
	CHECK(!has_qp((struct ibv_qp_cap){ 1, 1, 1, sge + 1, 0 }));
	CHECK(has_srq(srq_wr, srq_sge));
	CHECK(!has_srq(srq_wr + 1, 1) && !has_srq(1, srq_sge + 1));
	CHECK(has_cq(limit->max_cqe) && !has_cq(limit->max_cqe + 1));
	CHECK(!ibv_create_cq(e.ctx, 1, NULL, NULL, e.ctx->num_comp_vectors));
}

/* How many reads and atomic operations a queue pair of its own asks for, and answers. */
static void test_reads(void)
{
	struct end a;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	int most_asked = limit->max_qp_init_rd_atom;
	int most_answered = limit->max_qp_rd_atom;

	CHECK(limit->max_res_rd_atom == most_answered * limit->max_qp);
	end_open(&a, IBV_QPT_RC);
	struct address self = address_of(&a);
	CHECK(!ibv_modify_qp(a.qp, &attr,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				 IBV_QP_ACCESS_FLAGS));
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR,
				     .path_mtu = IBV_MTU_1024,
				     .dest_qp_num = self.qpn,
				     .min_rnr_timer = 1,
				     .ah_attr = { .is_global = 1,
						  .port_num = 1,
						  .grh.dgid = self.gid } };
	for (int over = 1; over >= 0; over--) {
		attr.max_dest_rd_atomic = (uint8_t)(most_answered + over);
		CHECK(ibv_modify_qp(a.qp, &attr,
				    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
					IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					IBV_QP_MAX_DEST_RD_ATOMIC |
					IBV_QP_MIN_RNR_TIMER) ==
		      (over ? EINVAL : 0));
	}
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = 10 };
	for (int over = 1; over >= 0; over--) {
		attr.max_rd_atomic = (uint8_t)(most_asked + over);
		CHECK(ibv_modify_qp(
			  a.qp, &attr,
			  IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			      IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
			      IBV_QP_MAX_QP_RD_ATOMIC) == (over ? EINVAL : 0));
	}
}

/* The longest message is read into one part of memory, again and again: what is read is
 * zero pages, and takes no memory.  One byte more is refused. */
static void test_longest_message(void)
{
	struct end a, b;
	struct ibv_port_attr port;
	struct ibv_sge sge[17];
	struct ibv_send_wr *bad, wr = { .wr_id = 7,
					.sg_list = sge,
					.num_sge = 16,
					.opcode = IBV_WR_RDMA_READ };

	end_open(&a, IBV_QPT_RC);
	end_open(&b, IBV_QPT_RC);
	struct ibv_qp_init_attr init = { .send_cq = a.cq,
					 .recv_cq = a.cq,
					 .cap = { 1, 1, 16, 1, 0 },
					 .qp_type = IBV_QPT_RC,
					 .sq_sig_all = 1 };
	CHECK((a.qp = ibv_create_qp(a.pd, &init)));
	struct address at_a = address_of(&a), at_b = address_of(&b);
	end_connect(&a, &at_b);
	end_connect(&b, &at_a);
	CHECK(!ibv_query_port(a.ctx, 1, &port));
	CHECK(port.max_msg_sz == 16 * PART && limit->max_sge_rd == 16);
	void *to = mmap(NULL, PART, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void *from = mmap(NULL, port.max_msg_sz + 1, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	CHECK(to != MAP_FAILED && from != MAP_FAILED);
	struct ibv_mr *here =
	    ibv_reg_mr(a.pd, to, PART, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_mr *there =
	    ibv_reg_mr(b.pd, from, port.max_msg_sz + 1, IBV_ACCESS_REMOTE_READ);
	CHECK(here && there);
	for (int i = 0; i < 16; i++)
		sge[i] = (struct ibv_sge){ (uintptr_t)to, PART, here->lkey };
	wr.wr.rdma.rkey = there->rkey;
	wr.wr.rdma.remote_addr = (uintptr_t)from;
	((uint8_t *)from)[port.max_msg_sz - 1] = 1;
	CHECK(!ibv_post_send(a.qp, &wr, &bad));
	struct ibv_wc wc = next(&a);
	CHECK(wc.status == IBV_WC_SUCCESS && wc.byte_len == port.max_msg_sz);
	CHECK(((uint8_t *)to)[PART - 1] == 1);
	wr.num_sge = 1;
	sge[0] =
	    (struct ibv_sge){ (uintptr_t)to, port.max_msg_sz + 1, here->lkey };
	CHECK(ibv_post_send(a.qp, &wr, &bad) == EINVAL);
	CHECK(!ibv_dereg_mr(here) && !ibv_dereg_mr(there));
}

/* Time stamps are nanoseconds of the wall clock. */
static void test_clock(void)
{
	struct ibv_values_ex v = { .comp_mask = IBV_VALUES_MASK_RAW_CLOCK };
	struct timespec before, after;

	CHECK(most.hca_core_clock == 1000000); /* kHz: of nanoseconds */
	CHECK(!clock_gettime(CLOCK_REALTIME, &before));
	CHECK(!ibv_query_rt_values_ex(e.ctx, &v));
	CHECK(!clock_gettime(CLOCK_REALTIME, &after));
	CHECK(v.comp_mask == IBV_VALUES_MASK_RAW_CLOCK);
	int64_t t =
	    v.raw_clock.tv_sec * INT64_C(1000000000) + v.raw_clock.tv_nsec;
	CHECK(t >= before.tv_sec * INT64_C(1000000000) + before.tv_nsec);
	CHECK(t <= after.tv_sec * INT64_C(1000000000) + after.tv_nsec);
}

/* What is nowhere is refused. */
static void test_absent(void)
{
	struct ibv_qp_init_attr init = { .send_cq = e.cq,
					 .recv_cq = e.cq,
					 .cap = { 1, 1, 1, 1, 0 },
					 .qp_type = IBV_QPT_RAW_PACKET };

	CHECK(!ibv_create_qp(e.pd, &init) && errno == EOPNOTSUPP);
	CHECK(!ibv_reg_mr(e.pd, e.buf, 64, IBV_ACCESS_ON_DEMAND) &&
	      errno == EOPNOTSUPP);
	CHECK(!limit->max_raw_ethy_qp && !most.odp_caps.general_caps &&
	      !most.tso_caps.max_tso && !most.max_wq_type_rq &&
	      !most.rss_caps.supported_qpts);
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {
		{ "objects", test_objects },
		{ "groups", test_groups },
		{ "device_memory", test_device_memory },
		{ "sizes", test_sizes },
		{ "reads", test_reads },
		{ "longest_message", test_longest_message },
		{ "clock", test_clock },
		{ "absent", test_absent },
	};

	begin();
	return tests_main(argc, argv, tests, sizeof(tests) / sizeof(*tests),
			  120);
}
