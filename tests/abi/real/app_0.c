/* SPDX-License-Identifier: MIT */
/* tests/abi/real/app_0.c - uses what the older header has */
#include "app.h"

int main(void)
{
	struct ibv_context *context = app_open();

	return ibv_close_device(context);
}
