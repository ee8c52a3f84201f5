/* SPDX-License-Identifier: MIT */
/*
 * base/connect.h - begin to connect a socket that blocks, and do not wait
 *
 * The kernel has no flag for that in the call, only O_NONBLOCK of the open file.  Other
 * threads may see it there meanwhile.  Handlers do not run, and no call is libc's, so
 * that a cancellation cannot leave it behind.
 */
#pragma once

#include <fcntl.h>
#include <sys/socket.h>

#include "base/lock.h"
#include "base/rawcall.h"

/* 0; -EINPROGRESS; or why it failed. */
static inline int connect_begin(int fd, const struct sockaddr *to,
				socklen_t len)
{
	lock_enter();
	long flags = rawcall(SYS_fcntl, fd, F_GETFL);
	if (flags >= 0)
		rawcall(SYS_fcntl, fd, F_SETFL, flags | O_NONBLOCK);
	long err = rawcall(SYS_connect, fd, to, len);
	if (flags >= 0)
		rawcall(SYS_fcntl, fd, F_SETFL, flags);
	lock_leave();
	return (int)err;
}
