/* SPDX-License-Identifier: MIT */
/*
 * osfd/received.h - a request, and the descriptors that came with it
 *
 *     has_descriptors() -> receive() -> it is served -> received_close()
 *
 * The sender may have sent any descriptors, and has copies of them.  A worker closes
 * memory, timers and TCP sockets.  It leaves all others open: close() may wait for a file
 * system or for a socket that lingers, and the program's connections would wait for it.
 */
#pragma once

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "base/compiler.h"

/* All descriptors that a message can have.  The kernel would close those that find no room,
 * inside our call, and would wait there for a socket that lingers.  An even number, because
 * the kernel also fills the padding behind an odd one. */
#define RECEIVED_MAX 254

struct received {
	unsigned n;
	int fd[RECEIVED_MAX];
	int flags; /* of the message, as recvmsg() has them */
};

/* Does the next message carry descriptors?  None is received. */
bool has_descriptors(int fd);

/* As recvmsg(). */
ssize_t receive(int fd, struct iovec *iov, struct received *out, int flags);

/* Return: how many stay open */
unsigned received_close(struct received *r);

/* Is it a timer?  The question fails at once on anything else. */
bool is_timer(int fd);

/* Closes a TCP socket without lingering.  A close of the last descriptor of a socket that
 * lingers would keep us as long as its program has chosen. */
void socket_close(int fd);
