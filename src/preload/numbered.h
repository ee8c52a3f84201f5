/* SPDX-License-Identifier: MIT */
/*
 * preload/numbered.h - sends with MSG_ZEROCOPY that libc's calls have made
 *
 * The kernel numbers them, and we go on counting when the connection is moved; see
 * proto/shm/errq.c.
 */
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include "proto/shm/shm.h"

/* @r is the kernel's answer; the vectors are there to be ignored. */
static inline ssize_t numbered(struct sock *sk, int fd, ssize_t r,
			       const struct iovec *iov, size_t n, int flags)
{
	if (unlikely(flags & MSG_ZEROCOPY) && r > 0)
		errq_by_kernel(sk, fd, 1);
	return r;
}

static inline ssize_t numbered_all(struct sock *sk, int fd,
				   const struct mmsghdr *msgs, ssize_t n_sent,
				   int flags)
{
	unsigned n = 0;

	if (likely(!(flags & MSG_ZEROCOPY)))
		return n_sent;
	for (ssize_t i = 0; i < n_sent; i++)
		n += msgs[i].msg_len > 0;
	if (n)
		errq_by_kernel(sk, fd, n);
	return n_sent;
}
