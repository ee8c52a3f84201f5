/* SPDX-License-Identifier: MIT */
/* tests/abi/real/app_2.c - uses what the newer header adds, and the clock */
#include "app.h"

int main(void)
{
	struct ibv_values_ex values = { .comp_mask =
					    IBV_VALUES_MASK_RAW_CLOCK };
	struct ibv_dmah_init_attr attr = { .comp_mask = 0 };
	struct ibv_context *context = app_open();
	int err = ibv_query_rt_values_ex(context, &values);
	struct ibv_dmah *dmah = ibv_alloc_dmah(context, &attr);

	printf("query_rt_values: %s\n", app_result(err));
	printf("alloc_dmah: %s\n", app_result(dmah ? 0 : errno));
	return ibv_close_device(context);
}
