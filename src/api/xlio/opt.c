/* SPDX-License-Identifier: MIT */
/*
 * api/xlio/opt.c - socket options that only libxlio has, or has in a form of its own
 *
 *     xlio_socket_setsockopt()  ->  libxlio's own: here  ->  group/, the kernel
 */
#include <limits.h>
#include <string.h>

#include "api/xlio/edge.h"
#include "group/group.h"
#include "ops/xlio_opt.h"

/* As libxlio takes it: 4 bytes or its struct. */
static int set_pacing(struct gsock *s, const void *val, socklen_t len)
{
	unsigned long rate;
	uint32_t bytes;

	if (is_bad_ptr(val))
		return -EFAULT;
	if (!xlio_opt_pacing(SOL_SOCKET, SO_MAX_PACING_RATE, val, len, &rate)) {
		if (len != sizeof(bytes))
			return -EINVAL;
		memcpy(&bytes, val, sizeof(bytes));
		rate = bytes ? bytes : ULONG_MAX;
	}
	return gsock_setsockopt(s, SOL_SOCKET, SO_MAX_PACING_RATE, &rate,
				sizeof(rate));
}

int xlio_opt_set(struct gsock *s, int level, int name, const void *val,
		 socklen_t len)
{
	int err;

	if (xlio_opt_check(level, name, val, len, &err))
		return err;
	if (level == SOL_SOCKET && name == SO_XLIO_SHUTDOWN_RX)
		return 0; /* without effect */
	if (level == SOL_SOCKET && name == SO_MAX_PACING_RATE)
		return set_pacing(s, val, len);
	return gsock_setsockopt(s, level, name, val, len);
}
