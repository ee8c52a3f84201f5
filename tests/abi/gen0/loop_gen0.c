/* SPDX-License-Identifier: MIT */
/*
 * tests/abi/gen0/loop_gen0.c - the driver of generation 0: what it lacks of
 *                              loop_ex.c and loop_time.c
 */
#include "api/verbs/driver/loop.h"

uint64_t loop_stamp(const struct loop_cq *cq) { return 0; }

int osf_driver_entry(void)
{
	return osf_register_driver(loop_name, loop_legacy_device);
}
