/* SPDX-License-Identifier: MIT */
/* proto/shm/rx.h - what the files of the receiving half share; rx_kernel.c */
#pragma once

#include <limits.h>

#include "proto/shm/shm.h"

/* Instead of a number of bytes: what comes next is in the ring. */
#define GO_ON_IN_RING (-INT_MAX)

/* Tell the peer how far the program has read, if this process is killed. */
static inline void rx_say_read(struct sock *sk)
{
	store_rlx(&shm_me(sk)->read,
		  SEG_READ_RING | load_rlx(&shm_of(sk)->rx.off));
}

/* The bytes that the peer sent by TCP before it used the ring.  Return: as recv(), or
 * GO_ON_IN_RING, or -ESTALE if the kernel carries the connection. */
COLD ssize_t rx_tcp(struct sock *sk, int fd, struct iov_cursor *c, size_t want,
		    int flags);
/* The bytes that TCP brings behind a BACK mark.  It removes the doorbells first. */
ssize_t rx_back(struct sock *sk, int fd, struct iov_cursor *c, size_t want,
		int flags);
/* How the kernel's connection ended: 0 or -errno. */
ssize_t rx_end(struct sock *sk, int fd);
/* MSG_OOB: the kernel's socket answers.  The caller holds no lock. */
COLD ssize_t rx_urgent(int fd, const struct iovec *iov, size_t n, int flags);
/* The peer did what the protocol forbids (@what).  Return: -ECONNRESET. */
COLD ssize_t rx_impossible(struct sock *sk, int fd, const char *what);
