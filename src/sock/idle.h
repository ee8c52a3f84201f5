/* SPDX-License-Identifier: MIT */
/*
 * sock/idle.h - blocking calls on the kernel's sockets, while something else must be waited
 * for
 *
 *     recv      idle_recv(): waits, and takes the rest of MSG_WAITALL in parts
 *     send      idle_send(): parts for which there is room, and waits between them
 *     sendfile  idle_send_file(): the same
 *     splice    preload/splice.c: the same
 *     connect   idle_connect(): begins, waits, and asks how it ended
 *     accept    wait_idle()  ->  libc's call
 *
 * base/idle.h may have a descriptor, by which frames and events of rtnetlink arrive. libc's
 * call would sleep on the socket alone, and nobody would see to that descriptor.  So the
 * calls below sleep on both (sock/wait.h), and call libc only for what does not sleep.
 * They end as the kernel's calls would: at the timeout, at a handler, after a part.  They
 * go on when another thread closes the descriptor.
 *
 * Some calls cannot be cut into parts, and still sleep in the kernel: MSG_WAITALL with
 * MSG_PEEK, control messages or SO_RCVLOWAT; splice() while it waits for its pipe; and
 * connect() of a socket that several processes hold.
 */
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include "base/idle.h"
#include "sock/sock.h"
#include "sock/wait.h"

/* Sleep as long as a call of direction @dir would for its first byte.  *@fd: a descriptor of
 * the socket, in and out: another one if the program has closed it.  0: make the call;
 * -errno: it ends with that. */
int wait_idle(struct sock *sk, int *fd, int dir, int flags);

/* As libc's calls, or -errno. */
ssize_t idle_recv(struct sock *sk, int fd, struct msghdr *msg, int flags);
ssize_t idle_send(struct sock *sk, int fd, const struct msghdr *msg, int flags);
ssize_t idle_send_file(struct sock *sk, int fd, int in, off_t *off, size_t n);
int idle_connect(struct sock *sk, int fd, const struct sockaddr *to,
		 socklen_t len);
/* How many bytes may be sent now without a sleep? */
size_t idle_room(int fd);

/*
 * idle.c, for idle_send.c.
 */
struct call_wait idle_wait_of(int fd, int dir);
bool idle_may_wait(const struct sock *sk, int flags);
/* POLL* bits with which a wait ends, whatever it is for. */
unsigned idle_ends_of(const struct sock *sk);
/* Sleeps until the socket has one of the events @want; *@events are all that it has.  *@fd: a
 * descriptor of the socket, in and out. */
int idle_wait_until(struct sock *sk, int *fd, struct call_wait *w,
		    unsigned want, unsigned *events);
