/* SPDX-License-Identifier: MIT */
/*
 * tests/unit/verbs_loop.c - the loop driver: where bytes go, and how sends end
 *
 * A driver that a program would load from OSF_DRIVERS, linked in.
 */
#include <errno.h>
#include <string.h>

#include "api/verbs/driver/loop.h"
#include "unit.h"

static struct {
	struct osf_context *context;
	struct osf_pd *pd;
	struct osf_cq *cq;
	struct osf_qp *a, *b;
	struct osf_mr *mr;
	uint8_t memory[4096];
} t;

static struct osf_sge at(unsigned off, unsigned length)
{
	return (struct osf_sge){ (uintptr_t)t.memory + off, length,
				 t.mr->lkey };
}

static int set_up(void **state)
{
	struct osf_device **list = osf_get_device_list(NULL);

	if (!list[0]) {
		assert_int_equal(osf_driver_entry(), 0);
		osf_free_device_list(list);
		list = osf_get_device_list(NULL);
	}
	t.context = osf_open_device(list[0]);
	osf_free_device_list(list);
	t.pd = osf_alloc_pd(t.context);
	t.cq = osf_create_cq(t.context, 8, NULL);
	t.mr = osf_reg_mr(t.pd, t.memory, sizeof(t.memory));
	struct osf_qp_init_attr attr = { t.cq, t.cq, 4, 4 };

	t.a = osf_create_qp(t.pd, &attr);
	t.b = osf_create_qp(t.pd, &attr);
	assert_int_equal(osf_connect_qp(t.a, t.b->qp_num), 0);
	assert_int_equal(osf_connect_qp(t.b, t.a->qp_num), 0);
	for (size_t i = 0; i < sizeof(t.memory); i++)
		t.memory[i] = i < 2048 ? (uint8_t)(i * 7 + 1) : 0;
	return 0;
}

static int tear_down(void **state)
{
	if (t.a)
		assert_int_equal(osf_destroy_qp(t.a), 0);
	if (t.b)
		assert_int_equal(osf_destroy_qp(t.b), 0);
	assert_int_equal(osf_destroy_cq(t.cq), 0);
	assert_int_equal(osf_dereg_mr(t.mr), 0);
	assert_int_equal(osf_dealloc_pd(t.pd), 0);
	assert_int_equal(osf_close_device(t.context), 0);
	return 0;
}

static int send_sges(struct osf_qp *qp, uint64_t id, struct osf_sge *sge, int n)
{
	struct osf_send_wr wr = { .wr_id = id,
				  .sg_list = sge,
				  .num_sge = n,
				  .send_flags = OSF_SEND_SIGNALED };
	struct osf_send_wr *bad;

	return osf_post_send(qp, &wr, &bad);
}

static int recv_sges(struct osf_qp *qp, uint64_t id, struct osf_sge *sge, int n)
{
	struct osf_recv_wr wr = { .wr_id = id, .sg_list = sge, .num_sge = n };
	struct osf_recv_wr *bad;

	return osf_post_recv(qp, &wr, &bad);
}

static void expect_wc(uint64_t id, uint32_t status)
{
	struct osf_wc wc;

	assert_int_equal(osf_poll_cq(t.cq, 1, &wc), 1);
	assert_int_equal(wc.wr_id, id);
	assert_int_equal(wc.status, status);
}

static void expect_no_wc(void)
{
	struct osf_wc wc;

	assert_int_equal(osf_poll_cq(t.cq, 1, &wc), 0);
}

/* Pieces of random sizes, some of them empty, on either side. */
static void pieces_are_joined_and_divided(void **state)
{
	struct rng rng = { 1 };

	for (int round = 0; round < 500; round++) {
		struct osf_sge from[LOOP_SGES], to[LOOP_SGES];
		unsigned total = rng_below(&rng, 2048), off = 0;

		for (int i = 0; i < 2; i++, off = 0)
			for (unsigned j = 0; j < LOOP_SGES; j++) {
				unsigned n =
				    j == LOOP_SGES - 1
					? total - off
					: rng_below(&rng, total - off + 1);

				(i ? to : from)[j] = at(i * 2048 + off, n);
				off += n;
			}
		memset(t.memory + 2048, 0, 2048);
		assert_int_equal(recv_sges(t.b, 2, to, LOOP_SGES), 0);
		assert_int_equal(send_sges(t.a, 1, from, LOOP_SGES), 0);
		expect_wc(2, OSF_WC_SUCCESS);
		expect_wc(1, OSF_WC_SUCCESS);
		assert_memory_equal(t.memory + 2048, t.memory, total);
		for (unsigned i = total; i < 2048; i++)
			assert_int_equal(t.memory[2048 + i], 0);
	}
}

static void a_send_waits_for_a_receive(void **state)
{
	struct osf_sge from = at(0, 100), to = at(2048, 100);

	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(send_sges(t.a, i, &from, 1), 0);
	assert_int_equal(send_sges(t.a, 9, &from, 1), -ENOMEM);
	expect_no_wc();
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(recv_sges(t.b, 100 + i, &to, 1), 0);
		expect_wc(100 + i, OSF_WC_SUCCESS);
		expect_wc(i, OSF_WC_SUCCESS);
	}
	expect_no_wc();
}

static void a_message_that_is_too_long_ends_both(void **state)
{
	struct osf_sge from = at(0, 101), to = at(2048, 100);

	assert_int_equal(recv_sges(t.b, 3, &to, 1), 0);
	assert_int_equal(recv_sges(t.b, 4, &to, 1), 0);
	assert_int_equal(send_sges(t.a, 1, &from, 1), 0);
	expect_wc(3, OSF_WC_LOC_LEN_ERR);
	expect_wc(4, OSF_WC_WR_FLUSH_ERR);
	expect_wc(1, OSF_WC_REM_INV_REQ_ERR);
	assert_int_equal(t.memory[2048], 0);
	assert_int_equal(send_sges(t.a, 2, &from, 1), 0);
	expect_wc(2, OSF_WC_WR_FLUSH_ERR);
	assert_int_equal(recv_sges(t.b, 5, &to, 1), 0);
	expect_wc(5, OSF_WC_WR_FLUSH_ERR);
}

static void keys_and_bounds_are_checked(void **state)
{
	const struct osf_sge wrong[] = {
		{ (uintptr_t)t.memory, 8, 0 },
		{ (uintptr_t)t.memory, 8, t.mr->lkey + 1 },
		{ (uintptr_t)t.memory, 8, UINT32_MAX },
		{ (uintptr_t)t.memory - 1, 8, t.mr->lkey },
		{ (uintptr_t)t.memory, 4097, t.mr->lkey },
		{ (uintptr_t)t.memory + 4090, 7, t.mr->lkey },
		{ UINT64_MAX, 2, t.mr->lkey },
	};
	struct osf_sge right = at(2048, 100);

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct osf_sge sge = wrong[i];

		assert_int_equal(recv_sges(t.b, 2, &right, 1), 0);
		assert_int_equal(send_sges(t.a, 1, &sge, 1), 0);
		expect_wc(1, OSF_WC_LOC_PROT_ERR);
		tear_down(state);
		set_up(state);
		assert_int_equal(recv_sges(t.b, 2, &sge, 1), 0);
		assert_int_equal(send_sges(t.a, 1, &right, 1), 0);
		expect_wc(2, OSF_WC_LOC_PROT_ERR);
		expect_wc(1, OSF_WC_REM_OP_ERR);
		tear_down(state);
		set_up(state);
	}
}

static void memory_of_another_pd_is_not_sent(void **state)
{
	struct osf_pd *pd = osf_alloc_pd(t.context);
	struct osf_mr *mr = osf_reg_mr(pd, t.memory, 100);
	struct osf_sge sge = { (uintptr_t)t.memory, 8, mr->lkey };
	struct osf_sge to = at(2048, 100);

	assert_int_equal(recv_sges(t.b, 2, &to, 1), 0);
	assert_int_equal(send_sges(t.a, 1, &sge, 1), 0);
	expect_wc(1, OSF_WC_LOC_PROT_ERR);
	assert_int_equal(osf_dealloc_pd(pd), -EBUSY);
	assert_int_equal(osf_dereg_mr(mr), 0);
	assert_int_equal(osf_dealloc_pd(pd), 0);
}

static void who_loses_its_peer_is_flushed(void **state)
{
	struct osf_sge sge = at(0, 8);

	assert_int_equal(send_sges(t.a, 1, &sge, 1), 0);
	assert_int_equal(recv_sges(t.a, 2, &sge, 1), 0);
	assert_int_equal(osf_destroy_cq(t.cq), -EBUSY);
	assert_int_equal(osf_destroy_qp(t.b), 0);
	t.b = NULL;
	expect_wc(1, OSF_WC_WR_FLUSH_ERR);
	expect_wc(2, OSF_WC_WR_FLUSH_ERR);
	expect_no_wc();
}

static void a_full_completion_queue_is_reported(void **state)
{
	struct osf_sge sge = at(0, 8);
	struct osf_wc wc[16];

	for (unsigned i = 0; i < 5; i++) {
		assert_int_equal(recv_sges(t.b, 100 + i, &sge, 1), 0);
		assert_int_equal(send_sges(t.a, i, &sge, 1), 0);
	}
	assert_int_equal(osf_poll_cq(t.cq, 16, wc), 8);
	assert_int_equal(osf_poll_cq(t.cq, 16, wc), -EOVERFLOW);
}

static void the_newest_completions_are_kept_if_asked(void **state)
{
	struct osf_cq_init_attr_ex attr = { .cqe = 3,
					    .comp_mask = OSF_CQ_ATTR_FLAGS,
					    .flags = OSF_CQ_IGNORE_OVERRUN };
	struct osf_cq *cq = osf_create_cq_ex(t.context, &attr);
	struct osf_qp_init_attr init = { cq, cq, 4, 4 };
	struct osf_qp *qp = osf_create_qp(t.pd, &init);
	struct osf_sge sge = at(0, 8);
	struct osf_wc wc[16];

	/* A QP may be its own peer. */
	assert_int_equal(osf_connect_qp(qp, qp->qp_num), 0);
	for (unsigned i = 0; i < 5; i++) {
		assert_int_equal(recv_sges(qp, 100 + i, &sge, 1), 0);
		assert_int_equal(send_sges(qp, i, &sge, 1), 0);
	}
	assert_int_equal(osf_poll_cq(cq, 16, wc), 3);
	assert_int_equal(wc[0].wr_id, 3);
	assert_int_equal(wc[1].wr_id, 104);
	assert_int_equal(wc[2].wr_id, 4);
	assert_int_equal(osf_destroy_qp(qp), 0);
	assert_int_equal(osf_destroy_cq(cq), 0);
}

static void what_cannot_be_made_is_refused(void **state)
{
	struct osf_qp_init_attr attr = { t.cq, t.cq, LOOP_WRS + 1, 1 };
	struct osf_sge sge[LOOP_SGES + 1];

	assert_null(osf_create_qp(t.pd, &attr));
	assert_int_equal(errno, EINVAL);
	assert_null(osf_create_cq(t.context, 0, NULL));
	assert_int_equal(errno, EINVAL);
	assert_int_equal(osf_connect_qp(t.a, 1), -EISCONN);
	attr.max_send_wr = 0;
	struct osf_qp *qp = osf_create_qp(t.pd, &attr);

	assert_int_equal(send_sges(qp, 1, NULL, 0), -ENOTCONN);
	assert_int_equal(osf_connect_qp(qp, 255), -EHOSTUNREACH);
	assert_int_equal(osf_connect_qp(qp, UINT32_MAX), -EHOSTUNREACH);
	assert_int_equal(osf_connect_qp(qp, t.a->qp_num), 0);
	assert_int_equal(send_sges(qp, 1, NULL, 0), -ENOMEM);
	assert_int_equal(osf_destroy_qp(qp), 0);
	memset(sge, 0, sizeof(sge));
	assert_int_equal(send_sges(t.a, 1, sge, LOOP_SGES + 1), -EINVAL);
	assert_int_equal(recv_sges(t.a, 1, sge, LOOP_SGES + 1), -EINVAL);
	assert_int_equal(recv_sges(t.a, 1, sge, -1), -EINVAL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(pieces_are_joined_and_divided),
		TEST(a_send_waits_for_a_receive),
		TEST(a_message_that_is_too_long_ends_both),
		TEST(keys_and_bounds_are_checked),
		TEST(memory_of_another_pd_is_not_sent),
		TEST(who_loses_its_peer_is_flushed),
		TEST(a_full_completion_queue_is_reported),
		TEST(the_newest_completions_are_kept_if_asked),
		TEST(what_cannot_be_made_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
