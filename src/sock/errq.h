/* SPDX-License-Identifier: MIT */
/*
 * sock/errq.h - the error queue of a connection, whoever carries it
 *
 *     send(MSG_ZEROCOPY)  ->  errq_by_kernel(), errq_copied()
 *                         ->  errq_events(): POLLERR
 *                         ->  recvmsg(MSG_ERRQUEUE): errq_recv()
 */
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include "sock/sock.h"

/* Remove from *@revents, the anchor's, an error that does not end the
 * connection. */
void errq_note(struct sock *sk, short *revents);
/* Return those of @want, and POLLERR, that hold now for the kernel or for us.
 * *@said: all that the kernel reports; it may say that the connection has
 * ended. */
unsigned errq_events(struct sock *sk, int fd, unsigned want, short *said);
/* The kernel has taken @n sends with MSG_ZEROCOPY. */
void errq_by_kernel(struct sock *sk, int fd, unsigned n);
void errq_by_kernel_locked(struct sock *sk, int fd, unsigned n); /* tx */
/* We have taken one, and its bytes are copied. */
void errq_copied(struct sock *sk);
void errq_copied_locked(struct sock *sk); /* tx */
/* We carry the connection, so read SO_ZEROCOPY from the anchor. */
void errq_zerocopy_changed(struct sock *sk, int fd);
/* recvmsg(MSG_ERRQUEUE), in any mode. */
ssize_t errq_recv(struct sock *sk, int fd, struct msghdr *msg, int flags);
