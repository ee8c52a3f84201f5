/* SPDX-License-Identifier: MIT */
/*
 * ops/xlio_opt.h - options of libxlio's, on plain descriptors and groups'
 * sockets
 *
 * Pure functions: nothing is stored.
 */
#pragma once

#include <stdbool.h>
#include <sys/socket.h>

/* Is it SO_XLIO_RING_ALLOC_LOGIC or SO_XLIO_EXT_VLAN_TAG, of which only the value is
 * checked?  *@err is 0 then, or -EINVAL, -EFAULT. */
bool xlio_opt_check(int level, int name, const void *val, socklen_t len,
		    int *err);

/* Is it SO_MAX_PACING_RATE with a struct xlio_rate_limit_t? *@rate: bytes per
 * second, as the kernel's option has it. */
bool xlio_opt_pacing(int level, int name, const void *val, socklen_t len,
		     unsigned long *rate);
