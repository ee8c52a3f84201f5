/* SPDX-License-Identifier: MIT */
/* osfd/sockopt.h - socket options that are one int */
#pragma once

#include <errno.h>
#include <sys/socket.h>

/* As <netinet/tcp.h> has it, which does not go together with <linux/tcp.h>. */
#ifndef SOL_TCP
#define SOL_TCP 6
#endif

/* Return: the value as the kernel has it, or -1 if there is none.  A caller casts values
 * that use all 32 bits. */
static inline int opt_get(int fd, int level, int opt)
{
	int value;
	socklen_t len = sizeof(value);

	return getsockopt(fd, level, opt, &value, &len) < 0 ? -1 : value;
}

static inline int opt_set(int fd, int level, int opt, int value)
{
	return setsockopt(fd, level, opt, &value, sizeof(value)) < 0 ? -errno
								     : 0;
}
