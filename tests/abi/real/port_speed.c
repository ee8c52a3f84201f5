/* SPDX-License-Identifier: MIT */
/* tests/abi/real/port_speed.c - what a library exports that is newer than any header here */
#include "front.h"

int ibv_query_port_speed(struct ibv_context *context, uint32_t port_num,
			 uint64_t *port_speed);

int ibv_query_port_speed(struct ibv_context *context, uint32_t port_num,
			 uint64_t *port_speed)
{
	*port_speed = 1000;
	return 0;
}
