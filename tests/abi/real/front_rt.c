/* SPDX-License-Identifier: MIT */
/* tests/abi/real/front_rt.c - the clock, which the older header lacks */
#include "front.h"

static int query_rt_values(struct ibv_context *context,
			   struct ibv_values_ex *values)
{
	values->comp_mask &= IBV_VALUES_MASK_RAW_CLOCK;
	values->raw_clock = (struct timespec){ .tv_sec = 1, .tv_nsec = 2 };
	return 0;
}

void front_rt_values(struct verbs_context *verbs)
{
	verbs->query_rt_values = query_rt_values;
}
