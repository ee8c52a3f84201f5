/* SPDX-License-Identifier: MIT */
/*
 * base/sockopt.h - what the kernel's socket has for an option
 *
 * Any thread; leaves errno as the kernel's call does.
 */
#pragma once

#include <sys/socket.h>

#include "base/libc.h"

/* An option of four bytes, or 0 if the socket has none of this name. */
static inline int sockopt_int(int fd, int level, int name)
{
	int v = 0;
	socklen_t len = sizeof(v);

	return libc.getsockopt(fd, level, name, &v, &len) ? 0 : v;
}
