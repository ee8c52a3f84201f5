/* SPDX-License-Identifier: MIT */
/* tests/unit/env_profile.c - other names of a variable, and a profile of libvma's behind them */
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

static void an_older_name_means_the_same(void **state)
{
	assert_null(env_text("OSF_UPGRADE_PINGPONGS"));
	assert_string_equal(env_name("OSF_UPGRADE_PINGPONGS"),
			    "OSF_UPGRADE_PINGPONGS");
	setenv("OSF_UPGRADE_TURNS", "7", 1);
	assert_string_equal(env_text("OSF_UPGRADE_PINGPONGS"), "7");
	assert_string_equal(env_name("OSF_UPGRADE_PINGPONGS"),
			    "OSF_UPGRADE_TURNS");
	setenv("OSF_UPGRADE_PINGPONGS", "8", 1);
	assert_string_equal(env_text("OSF_UPGRADE_PINGPONGS"), "8");
	assert_string_equal(env_name("OSF_UPGRADE_PINGPONGS"),
			    "OSF_UPGRADE_PINGPONGS");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_profile_for_latency_polls_without_end),
		cmocka_unit_test(an_older_name_means_the_same),
	};
	clearenv();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
