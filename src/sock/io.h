/* SPDX-License-Identifier: MIT */
/*
 * sock/io.h - the calls that move bytes, whoever moves them
 *
 *     io_recv(), io_send(), ...  ->  sock_ops(sk)  ->  kernel, rings, ...
 *              |
 *              +-> -EAGAIN: wait_for(), and again
 *
 * Calls wait only here, and continue here after a part.  This file implements
 * MSG_WAITALL, SO_RCVLOWAT, timeouts and the effect of signals; a protocol
 * moves what it can and returns.  If a socket's table changes during a call,
 * the new table serves the rest.  The kernel's own tables do all of this
 * themselves.
 *
 * Vectors are valid, and hold at most SSIZE_MAX bytes.  Functions return bytes
 * or -errno; the caller raises SIGPIPE.
 */
#pragma once

#include <errno.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/lock.h"
#include "sock/sock_ops.h"

/* A call that needs more than its first attempt. */
struct io_call {
	struct sock *sk;
	int fd, flags;
	const struct iovec *iov;
	size_t n;
	const struct sock_ops *ops; /* asked last */
	struct handlers_seen seen;
};

ssize_t io_recv_on(const struct io_call *io, ssize_t r);
ssize_t io_send_on(const struct io_call *io, ssize_t r);

/* @ops: the table that the socket has. */
static inline ssize_t io_recv(struct sock *sk, const struct sock_ops *ops,
			      int fd, const struct iovec *iov, size_t n,
			      int flags)
{
	struct handlers_seen seen = handlers_seen();
	ssize_t r = ops->recv(sk, fd, iov, n, flags);

	if (likely(r > 0 && r >= load_rlx(&sk->w->rcvlowat) &&
		   !(flags & (MSG_WAITALL | MSG_PEEK))))
		return r;
	if (!ops->is_ours && likely(r != -ESTALE))
		return r; /* the kernel knows */
	return io_recv_on(&(struct io_call){ sk, fd, flags, iov, n, ops, seen },
			  r);
}

/* @len: bytes of the vectors. */
static inline ssize_t io_send(struct sock *sk, const struct sock_ops *ops,
			      int fd, const struct iovec *iov, size_t n,
			      size_t len, int flags)
{
	struct handlers_seen seen = handlers_seen();
	ssize_t r = ops->send(sk, fd, iov, n, flags);

	if (likely(r >= 0 && (size_t)r == len))
		return r;
	if (!ops->is_ours && likely(r != -ESTALE))
		return r;
	return io_send_on(&(struct io_call){ sk, fd, flags, iov, n, ops, seen },
			  r);
}

/* For calls that consist of several.  One has received something: does another one receive
 * more, instead of an error or the end, which is left to the program's next call?  Waits for
 * that as the other one would. */
bool io_has_more(struct sock *sk, int fd, int flags);

/* sendfile(). */
ssize_t io_send_file(struct sock *sk, int fd, int in, off_t *off, size_t n);

/* A table's send_file for protocols that have no shorter way than read() and send(). */
ssize_t io_file_by_send(struct sock *sk, int fd, int in, off_t *off, size_t n);

/* With an address and control messages; see io_control(). */
ssize_t io_recvmsg(struct sock *sk, int fd, struct msghdr *msg, int flags);
ssize_t io_sendmsg(struct sock *sk, int fd, const struct msghdr *msg,
		   size_t len, int flags);

/* What does a stream do with the control messages of a sendmsg()?  It only
 * looks at those in SOL_SOCKET, and not at credentials and descriptors.  It
 * refuses a wrong one before it sends anything. */
enum io_control { IO_CONTROL_NONE, IO_CONTROL_KERNEL, IO_CONTROL_BAD };
enum io_control io_control(const struct msghdr *msg);
