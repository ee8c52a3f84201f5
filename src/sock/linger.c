/* SPDX-License-Identifier: MIT */
/* sock/linger.c - see sock/linger.h */
#include <errno.h>
#include <limits.h>
#include <sys/socket.h>

#include "base/libc.h"
#include "sock/linger.h"

int linger_s(int fd)
{
	struct linger l = { 0 };
	socklen_t len = sizeof(l);
	int saved = errno;

	libc.getsockopt(fd, SOL_SOCKET, SO_LINGER, &l, &len);
	errno = saved;
	if (!l.l_onoff)
		return -1;
	/* The kernel reads a negative time as for ever. */
	return l.l_linger < 0 ? INT_MAX : l.l_linger;
}

int linger_at_close(int fd, bool is_unread)
{
	struct linger reset = { .l_onoff = 1, .l_linger = 0 };
	int saved = errno;

	if (!is_unread)
		return linger_s(fd);
	libc.setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	errno = saved;
	return 0;
}
