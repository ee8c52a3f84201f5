/* SPDX-License-Identifier: MIT */
/*
 * sock/idle.h - kernel calls that would sleep without waiting for base/idle.h
 *
 *     recv, accept      wait_before()  ->  libc's call
 *     send, sendfile    idle_send(): parts for which there is room, and waits between them
 *     connect           idle_connect(): begins, waits, and asks how it ended
 *
 * While base/idle.h has a descriptor, a thread that waits for a socket of the kernel's
 * sleeps on both (sock/wait.h).  The calls below end as the kernel's would: at the
 * timeout, at a handler, after a part.
 *
 * What still sleeps in the kernel, because the call cannot be cut: a message with control
 * data or urgent bytes whose size exceeds the room, splice(), and connect() of a socket
 * that several processes hold.
 */
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include "base/idle.h"
#include "sock/sock.h"

/* Sleep as long as a call of direction @dir would for its first byte.  0: make the call;
 * -errno: it ends with that. */
int wait_idle(struct sock *sk, int fd, int dir, int flags);

static inline int wait_before(struct sock *sk, int fd, int dir, int flags)
{
	return likely(!idle_is_on()) ? 0 : wait_idle(sk, fd, dir, flags);
}

/* As libc's calls, or -errno. */
ssize_t idle_send(struct sock *sk, int fd, const struct msghdr *msg, int flags);
ssize_t idle_send_file(struct sock *sk, int fd, int in, off_t *off, size_t n);
int idle_connect(struct sock *sk, int fd, const struct sockaddr *to,
		 socklen_t len);
