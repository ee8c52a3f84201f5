/* SPDX-License-Identifier: MIT */
/*
 * tests/abi/real/symbol.c - the counter-example: a call that is an exported symbol
 *
 * libibverbs has added some since.  Under an older library the program does not
 * even start.
 */
#include "app.h"

int ibv_query_port_speed(struct ibv_context *context, uint32_t port_num,
			 uint64_t *port_speed);

int main(void)
{
	struct ibv_context *context = app_open();
	uint64_t speed;

	printf("query_port_speed: %s\n",
	       app_result(ibv_query_port_speed(context, 1, &speed)));
	return ibv_close_device(context);
}
