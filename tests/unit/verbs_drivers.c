/* SPDX-License-Identifier: MIT */
/*
 * tests/unit/verbs_drivers.c - registration of drivers, and what the library does for
 *                              a driver that has only the oldest calls
 *
 * The calls themselves are those of the loop driver.
 */
#include <errno.h>
#include <string.h>

#include "api/verbs/driver/loop.h"
#include "api/verbs/scheme/scheme.h"
#include "unit.h"

#define PRIV 5000

static int init_result, n_uninits;
static bool leaves_out_a_call;

static int on_init(struct osf_device *device, struct osf_context *context)
{
	context->ops = loop_ops;
	if (leaves_out_a_call)
		context->ops.poll_cq = NULL;
	return init_result;
}

static void on_uninit(struct osf_context *context) { n_uninits++; }

static const struct osf_driver_init_ex init = { on_init, on_uninit };

static struct osf_context *open_named(const char *name)
{
	struct osf_device **list = osf_get_device_list(NULL);
	struct osf_device *found = NULL;

	for (int i = 0; list[i]; i++)
		if (!strcmp(osf_get_device_name(list[i]), name))
			found = list[i];
	osf_free_device_list(list);
	assert_non_null(found);
	return osf_open_device(found);
}

static struct osf_context *open_new(const char *name)
{
	assert_int_equal(
	    osf_register_driver_ex(name, &init, sizeof(init), PRIV), 0);
	return open_named(name);
}

static void a_name_is_taken_once(void **state)
{
	char longest[65];

	memset(longest, 'x', sizeof(longest));
	longest[64] = 0;
	assert_int_equal(
	    osf_register_driver_ex(longest, &init, sizeof(init), 0), -EINVAL);
	longest[63] = 0;
	assert_int_equal(
	    osf_register_driver_ex(longest, &init, sizeof(init), 0), 0);
	assert_int_equal(
	    osf_register_driver_ex(longest, &init, sizeof(init), 0), -EEXIST);
	assert_int_equal(osf_register_driver_ex("", &init, sizeof(init), 0),
			 -EINVAL);
	assert_int_equal(osf_register_driver_ex(NULL, &init, sizeof(init), 0),
			 -EINVAL);
}

/* A newer driver may pass more than this library knows, if it is zero. */
static void the_registration_is_sized(void **state)
{
	struct {
		struct osf_driver_init_ex known;
		void *newer;
	} later = { .known = init };
	struct osf_driver_init_ex none = { 0 };

	assert_int_equal(
	    osf_register_driver_ex("sized", &later.known, sizeof(later), 0), 0);
	later.newer = &later;
	assert_int_equal(
	    osf_register_driver_ex("larger", &later.known, sizeof(later), 0),
	    -E2BIG);
	assert_int_equal(osf_register_driver_ex("smaller", &init, 4, 0),
			 -EINVAL);
	assert_int_equal(osf_register_driver_ex("none", &none, sizeof(none), 0),
			 -EINVAL);
	assert_int_equal(osf_register_driver_ex("priv", &init, sizeof(init),
						(size_t)1 << 40),
			 -EINVAL);
	/* Without driver_uninit, which is the last that generation 1 has. */
	assert_int_equal(osf_register_driver_ex(
			     "shorter", &init,
			     offsetof(struct osf_driver_init_ex, driver_uninit),
			     0),
			 0);
}

static void a_driver_has_zeroed_bytes_behind_the_context(void **state)
{
	static const uint8_t zero[PRIV];
	struct osf_context *context = open_new("priv0");

	assert_int_equal((uintptr_t)context % 16, 0);
	assert_memory_equal(context + 1, zero, PRIV);
	memset(context + 1, 1, PRIV);
	assert_ptr_equal(context->abi_compat, OSF_ABI_EXTENDED);
	assert_int_equal(osf_get_ctx_ex(context)->sz,
			 sizeof(struct osf_context_ex));
	assert_int_equal(osf_has_ex(context), 0);
	n_uninits = 0;
	assert_int_equal(osf_close_device(context), 0);
	assert_int_equal(n_uninits, 1);
}

static void what_a_driver_answers_is_what_open_says(void **state)
{
	struct osf_context *context = open_new("fails");

	assert_non_null(context);
	assert_int_equal(osf_close_device(context), 0);
	n_uninits = 0;
	init_result = -EMFILE;
	assert_null(open_named("fails"));
	assert_int_equal(errno, EMFILE);
	assert_int_equal(n_uninits, 0);
	init_result = 0;
	leaves_out_a_call = true;
	assert_null(open_named("fails"));
	assert_int_equal(errno, EINVAL);
	assert_int_equal(n_uninits, 1);
	leaves_out_a_call = false;
}

static void new_calls_of_an_old_driver_are_its_old_ones(void **state)
{
	struct osf_context *context = open_new("oldest");
	struct osf_device_attr_ex device;
	struct osf_cq_init_attr_ex attr = { .cqe = 4, .cq_context = &attr };
	struct osf_values values;

	memset(&device, 0xff, sizeof(device));
	assert_int_equal(osf_query_device_ex(context, &device, sizeof(device)),
			 0);
	assert_int_equal(device.orig.max_sge, LOOP_SGES);
	assert_int_equal(device.comp_mask, 0);
	assert_int_equal(device.hwclock_khz, 0);
	assert_int_equal(osf_query_values(context, OSF_VALUES_HWCLOCK, &values,
					  sizeof(values)),
			 -ENOSYS);
	struct osf_cq *cq = osf_create_cq_ex(context, &attr);

	assert_non_null(cq);
	assert_ptr_equal(cq->cq_context, &attr);
	assert_ptr_equal(cq->context, context);
	assert_int_equal(osf_destroy_cq(cq), 0);
	attr.comp_mask = OSF_CQ_ATTR_FLAGS;
	assert_null(osf_create_cq_ex(context, &attr));
	assert_int_equal(errno, ENOSYS);
	assert_int_equal(osf_close_device(context), 0);
}

/* Two QPs of @context; then four sends as one array, one of which asks for more than
 * the driver can do. */
static void arrays_go_to_an_old_driver_one_by_one(void **state)
{
	struct osf_context *context = open_new("one by one");
	struct osf_pd *pd = osf_alloc_pd(context);
	struct osf_cq *cq = osf_create_cq(context, 16, NULL);
	struct osf_qp_init_attr attr = { cq, cq, 8, 8 };
	struct osf_qp *a = osf_create_qp(pd, &attr);
	struct osf_qp *b = osf_create_qp(pd, &attr);
	struct {
		struct osf_wc_ex wc;
		uint64_t newer[3];
	} wc[8];
	struct osf_send_wr_ex wr[4] = { { .wr_id = 0 } };

	assert_int_equal(osf_connect_qp(a, b->qp_num), 0);
	assert_int_equal(osf_connect_qp(b, a->qp_num), 0);
	for (unsigned i = 0; i < 4; i++) {
		struct osf_recv_wr recv = { .wr_id = 100 + i };
		struct osf_recv_wr *bad;

		assert_int_equal(osf_post_recv(b, &recv, &bad), 0);
		wr[i].wr_id = i;
		wr[i].send_flags = OSF_SEND_SIGNALED;
	}
	wr[3].comp_mask = OSF_SEND_WR_IMM;
	assert_int_equal(osf_post_send_ex(a, wr, 4, sizeof(wr[0])), 3);
	assert_int_equal(osf_post_send_ex(a, &wr[3], 1, sizeof(wr[0])),
			 -ENOSYS);
	assert_int_equal(osf_post_send_ex(a, wr, 0, sizeof(wr[0])), 0);
	assert_int_equal(osf_post_send_ex(a, wr, -1, sizeof(wr[0])), -EINVAL);
	assert_int_equal(osf_post_send_ex(a, wr, 1, 8), -EINVAL);
	memset(wc, 0xff, sizeof(wc));
	assert_int_equal(osf_poll_cq_ex(cq, 8, &wc[0].wc, sizeof(wc[0])), 6);
	for (int i = 0; i < 6; i++) {
		assert_int_equal(wc[i].wc.comp_mask, 0);
		assert_int_equal(wc[i].wc.orig.wr_id,
				 i % 2 ? i / 2 : 100 + i / 2);
		assert_int_equal(wc[i].newer[0], UINT64_MAX);
	}
	assert_int_equal(osf_poll_cq_ex(cq, 8, &wc[0].wc, 8), -EINVAL);
	assert_int_equal(osf_destroy_qp(a), 0);
	assert_int_equal(osf_destroy_qp(b), 0);
	assert_int_equal(osf_destroy_cq(cq), 0);
	assert_int_equal(osf_dealloc_pd(pd), 0);
	assert_int_equal(osf_close_device(context), 0);
}

static struct osf_device *no_device(void) { return NULL; }

static struct osf_device *incomplete(void)
{
	static struct osf_device device;

	return &device;
}

static void a_driver_from_before_the_scheme_has_a_plain_context(void **state)
{
	struct osf_values values;

	assert_int_equal(osf_register_driver("legacy", NULL), -EINVAL);
	assert_int_equal(osf_register_driver("legacy", no_device), -ENODEV);
	assert_int_equal(osf_register_driver("legacy", incomplete), -EINVAL);
	assert_int_equal(osf_register_driver("legacy", loop_legacy_device), 0);
	struct osf_context *context = open_named("legacy");

	assert_non_null(context);
	assert_null(osf_get_ctx_ex(context));
	assert_int_equal(osf_has_ex(context), 0);
	assert_int_equal(osf_query_values(context, 0, &values, sizeof(values)),
			 -ENOSYS);
	assert_int_equal(osf_close_device(context), 0);
}

/* The last one: the table stays full. */
static void the_table_has_an_end(void **state)
{
	int err = 0, n;
	char name[16];

	for (int i = 0; i < 100 && !err; i++) {
		snprintf(name, sizeof(name), "many%d", i);
		err = osf_register_driver_ex(name, &init, sizeof(init), 0);
	}
	assert_int_equal(err, -ENOSPC);
	osf_free_device_list(osf_get_device_list(&n));
	assert_true(n > 10);
}

static void a_stranger_is_no_device(void **state)
{
	struct osf_device stranger = { .name = "loop0" };

	assert_null(osf_open_device(&stranger));
	assert_int_equal(errno, ENODEV);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_name_is_taken_once),
		cmocka_unit_test(the_registration_is_sized),
		cmocka_unit_test(a_driver_has_zeroed_bytes_behind_the_context),
		cmocka_unit_test(what_a_driver_answers_is_what_open_says),
		cmocka_unit_test(new_calls_of_an_old_driver_are_its_old_ones),
		cmocka_unit_test(arrays_go_to_an_old_driver_one_by_one),
		cmocka_unit_test(
		    a_driver_from_before_the_scheme_has_a_plain_context),
		cmocka_unit_test(a_stranger_is_no_device),
		cmocka_unit_test(the_table_has_an_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
