/* SPDX-License-Identifier: MIT */
/* tests/unit/rest_turns.c - when a connection that went back moves again: proto/tcp/rest.h */
#include "proto/tcp/rest.h"
#include "unit.h"

static void each_return_doubles_it(void **state)
{
	struct sock sk = { 0 };

	assert_int_equal(rest_turns(&sk, OSF_REASON_OPTION), 16);
	assert_int_equal(rest_turns(&sk, OSF_REASON_ROUTE), 32);
	assert_int_equal(rest_turns(&sk, OSF_REASON_SLOWER), 16);
	assert_int_equal(rest_turns(&sk, OSF_REASON_BULK), 64);
	for (unsigned i = 0; i < 300; i++)
		rest_turns(&sk, OSF_REASON_BULK);
	assert_int_equal(rest_turns(&sk, OSF_REASON_BULK), 16 << 16);
}

static void a_rule_waits_longer_after_bulk_only(void **state)
{
	struct sock sk = { .flags = SOCK_F_EAGER };

	assert_int_equal(rest_turns(&sk, OSF_REASON_BULK), 2);
	assert_int_equal(rest_turns(&sk, OSF_REASON_BULK), 4);
	assert_int_equal(rest_turns(&sk, OSF_REASON_OPTION), 2);
	for (unsigned i = 0; i < 300; i++)
		rest_turns(&sk, OSF_REASON_BULK);
	assert_int_equal(rest_turns(&sk, OSF_REASON_BULK), 2 << 6);
}

/* Looks at a connection that was busy are not returns. */
static void looks_do_not_count(void **state)
{
	struct sock by_rule = { .flags = SOCK_F_EAGER, .n_attempts = 6 };
	struct sock by_default = { .n_attempts = 6 };

	assert_int_equal(rest_turns(&by_rule, OSF_REASON_BULK), 2);
	assert_int_equal(rest_turns(&by_default, OSF_REASON_BULK), 16);
	assert_int_equal(by_rule.n_attempts, 6);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_return_doubles_it),
		cmocka_unit_test(a_rule_waits_longer_after_bulk_only),
		cmocka_unit_test(looks_do_not_count),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
