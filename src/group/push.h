/* SPDX-License-Identifier: MIT */
/*
 * group/push.h - sends bytes over TCP, or over the connection's protocol
 */
#pragma once

#include <sys/uio.h>

#include "group/gsock.h"

#define VECTORS_MAX 64 /* of one call */

/* Send what was flushed, as far as there is room; 0 or -errno. */
int gsock_push(struct group *g, struct gsock *s);
/* Send @len bytes now, bypassing the queue: bytes sent, -EAGAIN, or the
 * connection's error. */
ssize_t push_now(struct gsock *s, const struct iovec *iov, size_t n,
		 size_t len);
