/* SPDX-License-Identifier: MIT */
/*
 * tests/abi/real/front.h - a device for infiniband/verbs.h, as old as its header
 *
 *     ibv_open_device() -> front_more() -> a struct verbs_context
 *
 * A library that stands in front of libibverbs and has one device of its own.  sz
 * is what struct verbs_context has in the header that compiles it.
 */
#pragma once

#include <errno.h>
#include <stdlib.h>
#include <infiniband/verbs.h>

/* Members that are newer than open_xrcd, of which each header has its part. */
void front_more(struct verbs_context *verbs);
void front_rt_values(struct verbs_context *verbs);
