/* SPDX-License-Identifier: MIT */
/*
 * cm/cm.h - the connection manager's character device, inside the process
 *
 *     open("/dev/infiniband/rdma_cm") -> cm_open()     librdmacm is the system's own;
 *     write(fd, command)              -> cm_write()    api/verbs/cm_calls.c catches
 *     dup, close                      -> cm_dup(), cm_close()      its calls
 *
 * The commands are those of <rdma/rdma_user_cm.h>.  Connections are between processes of
 * one user on one host and in one network namespace (addr.h, msg.h, link.c), or between
 * hosts (bridge.h).
 *
 * The descriptor is an epoll set (file.c).  It is readable while an event waits, or while
 * something is readable that may bring one.  So the program may poll it or put it into a
 * set of its own.  There is no thread: commands and the wait for an event do all the work.
 *
 * One lock guards all state.  A child of a fork has none of its parent's ids: commands on a
 * descriptor from before the fork fail with EINVAL there.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/atomic.h"
#include "base/compiler.h"

#define CM_FDS 65536 /* descriptors above cannot be ours */

/* A new descriptor, of number @least or above if the process may have as many; -errno. */
MUST_CHECK int cm_open(int flags, int least);
/* The command's size, or -errno; -ENODEV: the descriptor is none of ours any more. */
MUST_CHECK ssize_t cm_write(int fd, const void *buf, size_t n);
/* @fd refers to what @old does: the program has made a copy. */
void cm_dup(int old, int fd);
/* The program is about to close @fd. */
void cm_close(int fd);

extern void *cm_files[CM_FDS]; /* struct cm_file *, by descriptor */

static inline bool cm_has(int fd)
{
	return (unsigned)fd < CM_FDS && unlikely(load_rlx(&cm_files[fd]) != 0);
}
