/* SPDX-License-Identifier: MIT */
/*
 * group/push.h - bytes go out, by whatever carries the connection
 */
#pragma once

#include <sys/uio.h>

#include "group/gsock.h"

#define VECTORS_MAX 64 /* of one call */

/* What has been flushed, as far as there is room; 0 or -errno. */
int gsock_push(struct group *g, struct gsock *s);
/* These @len bytes, past what is queued: bytes taken, -EAGAIN, or the connection's
 * error. */
ssize_t push_now(struct gsock *s, const struct iovec *iov, size_t n,
		 size_t len);
