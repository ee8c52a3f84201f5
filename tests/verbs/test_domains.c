/* SPDX-License-Identifier: MIT */
/*
 * tests/verbs/test_domains.c - device memory, thread domains and parent domains
 *
 *     test_domains NAME ...     libosf-verbs.so comes first (LD_PRELOAD)
 */
#include "ends.h"

#define SIZE 8192
#define ZERO (IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE)

static struct ibv_dm *new_dm(struct end *e, size_t size)
{
	struct ibv_alloc_dm_attr a = { .length = size };

	return ibv_alloc_dm(e->ctx, &a);
}

/* A peer writes into it by its key, and the program reads it by copies alone. */
static void test_memory(void)
{
	struct end a, b;
	char got[8] = "";

	pair(&a, &b, IBV_QPT_RC);
	struct ibv_dm *dm = new_dm(&b, SIZE);
	CHECK(dm);
	struct ibv_mr *mr = ibv_reg_dm_mr(b.pd, dm, 4096, 100, ZERO | REMOTE);
	CHECK(mr && ibv_free_dm(dm) == EBUSY);
	struct address to = { .rkey = mr->rkey, .addr = 4 };
	memcpy(a.buf, "written", 8);
	CHECK(!post(&a, IBV_WR_RDMA_WRITE, 8, a.mr->lkey, &to));
	CHECK(next(&a).status == IBV_WC_SUCCESS);
	CHECK(!ibv_memcpy_from_dm(got, dm, 4100, 8) && !strcmp(got, "written"));
	CHECK(!ibv_memcpy_to_dm(dm, 4104, "TEN", 4));
	CHECK(!post(&a, IBV_WR_RDMA_READ, 8, a.mr->lkey, &to));
	CHECK(next(&a).status == IBV_WC_SUCCESS);
	CHECK(!memcmp(a.buf, "writTEN", 8));
	CHECK(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0));
	to.addr = 96;
	CHECK(!post(&a, IBV_WR_RDMA_WRITE, 8, a.mr->lkey, &to));
	CHECK(next(&a).status == IBV_WC_REM_ACCESS_ERR);
	CHECK(!ibv_dereg_mr(mr) && !ibv_free_dm(dm));
}

static void test_memory_calls(void)
{
	struct ibv_device_attr_ex attr;
	struct end e;
	char bytes[8];

	end_open(&e, IBV_QPT_RC);
	CHECK(!ibv_query_device_ex(e.ctx, NULL, &attr) && attr.max_dm_size);
	CHECK(!new_dm(&e, attr.max_dm_size + 1) && errno == ENOMEM);
	CHECK(!new_dm(&e, 0) && errno == EINVAL);
	struct ibv_dm *dm = new_dm(&e, SIZE);
	CHECK(ibv_memcpy_to_dm(dm, 2, bytes, 4) == EINVAL);
	CHECK(ibv_memcpy_to_dm(dm, 0, bytes, 2) == EINVAL);
	CHECK(ibv_memcpy_to_dm(dm, SIZE - 4, bytes, 8) == EINVAL);
	CHECK(ibv_memcpy_from_dm(bytes, dm, SIZE + 4, 4) == EINVAL);
	CHECK(!ibv_reg_dm_mr(e.pd, dm, 4, SIZE, ZERO) && errno == EINVAL);
	CHECK(!ibv_reg_dm_mr(e.pd, dm, 0, SIZE, IBV_ACCESS_LOCAL_WRITE) &&
	      errno == EINVAL);
	CHECK(!ibv_free_dm(dm));
}

/* What is made of a parent domain has the keys of the domain under it. */
static void test_parent(void)
{
	struct ibv_td_init_attr none = { 0 };
	struct end e;

	end_open(&e, IBV_QPT_RC);
	struct ibv_td *td = ibv_alloc_td(e.ctx, &none);
	struct ibv_pd *pd = ibv_alloc_pd(e.ctx);
	struct ibv_parent_domain_init_attr attr = { .pd = pd, .td = td };
	struct ibv_pd *parent = ibv_alloc_parent_domain(e.ctx, &attr);
	CHECK(td && pd && parent && parent != pd);
	CHECK(ibv_dealloc_pd(pd) == EBUSY && ibv_dealloc_td(td) == EBUSY);
	struct end a = e, b = e;
	a.pd = pd;
	b.pd = parent;
	struct ibv_qp_init_attr init = { .send_cq = e.cq,
					 .recv_cq = e.cq,
					 .cap = { 8, 8, 2, 2, 64 },
					 .qp_type = IBV_QPT_RC,
					 .sq_sig_all = 1 };
	CHECK((a.qp = ibv_create_qp(pd, &init)));
	CHECK((b.qp = ibv_create_qp(parent, &init)));
	CHECK((a.mr = b.mr = ibv_reg_mr(pd, e.buf, BUF,
					IBV_ACCESS_LOCAL_WRITE | REMOTE)));
	struct address at_a = address_of(&a), at_b = address_of(&b);
	end_connect(&a, &at_b);
	end_connect(&b, &at_a);
	at_a.addr += 8;
	memcpy(e.buf, "parents", 8);
	CHECK(!post(&b, IBV_WR_RDMA_WRITE, 8, b.mr->lkey, &at_a));
	CHECK(next(&b).status == IBV_WC_SUCCESS);
	CHECK(!memcmp(e.buf + 8, "parents", 8));
	CHECK(ibv_dealloc_pd(parent) == EBUSY);
	CHECK(!ibv_destroy_qp(b.qp) && !ibv_destroy_qp(a.qp));
	CHECK(!ibv_dealloc_pd(parent) && !ibv_dealloc_td(td));
	CHECK(!ibv_dereg_mr(a.mr) && !ibv_dealloc_pd(pd));
	attr.pd = NULL;
	CHECK(!ibv_alloc_parent_domain(e.ctx, &attr) && errno == EINVAL);
	attr = (struct ibv_parent_domain_init_attr){
		.pd = e.pd, .comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS
	};
	CHECK(!ibv_alloc_parent_domain(e.ctx, &attr) && errno == EOPNOTSUPP);
}

static const struct test tests[] = {
	{ "memory", test_memory },
	{ "memory_calls", test_memory_calls },
	{ "parent", test_parent },
};

int main(int argc, char **argv)
{
	return tests_main(argc, argv, tests, sizeof(tests) / sizeof(*tests),
			  60);
}
