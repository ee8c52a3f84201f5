/* SPDX-License-Identifier: MIT */
/* tests/unit/env_profile.c - a profile of libvma's stands behind all variables of its own */
#include <stdlib.h>

#include "base/env.h"
#include "unit.h"

static void a_profile_for_latency_polls_without_end(void **state)
{
	assert_null(env_text("OSF_SPIN_US"));
	setenv("VMA_SPEC", "none of these", 1);
	assert_null(env_text("OSF_SPIN_US"));
	setenv("VMA_SPEC", "multi_ring_latency", 1);
	assert_string_equal(env_text("OSF_SPIN_US"), "-1");
	setenv("VMA_SPEC", "Latency", 1);
	assert_string_equal(env_text("OSF_SPIN_US"), "-1");
	assert_null(env_text("OSF_LOG_FILE"));
	setenv("VMA_SELECT_POLL", "7", 1);
	assert_string_equal(env_text("OSF_SPIN_US"), "7");
	setenv("XLIO_RX_POLL", "8", 1);
	assert_string_equal(env_text("OSF_SPIN_US"), "8");
	setenv("OSF_SPIN_US", "9", 1);
	assert_string_equal(env_text("OSF_SPIN_US"), "9");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_profile_for_latency_polls_without_end),
	};
	clearenv();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
