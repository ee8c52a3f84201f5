/* SPDX-License-Identifier: MIT */
/* tests/abi/real/app_1.c - uses the clock, as the installed header has it */
#include "app.h"

int main(void)
{
	struct ibv_values_ex values = { .comp_mask =
					    IBV_VALUES_MASK_RAW_CLOCK };
	struct ibv_context *context = app_open();
	int err = ibv_query_rt_values_ex(context, &values);

	if (!err && values.raw_clock.tv_sec < 1)
		err = EIO;
	printf("query_rt_values: %s\n", app_result(err));
	return ibv_close_device(context);
}
