/* SPDX-License-Identifier: MIT */
/*
 * proto/shm/other_end.h - what the kernel says about the other end of a connection
 *
 * Both ends of a loopback connection are sockets of one network namespace.  The
 * kernel describes each to everybody there (NETLINK_SOCK_DIAG), found by its
 * addresses.  A call takes three microseconds and asks no process.
 *
 * For the rate the kernel takes the lock of the other end.  Whoever holds that end can keep
 * the lock for good, by a call that copies from a page that does not come (userfaultfd, FUSE).
 * No signal ends the wait.  So find out first whose socket it is.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/compiler.h"

struct other_end {
	uid_t uid; /* of the process that made the socket, or accepted it */
	uint64_t cookie; /* the kernel's number of the socket */
	uint64_t rate;   /* SO_MAX_PACING_RATE; UINT64_MAX: none is set */
};

/* Who has the other end of @fd's connection?  Waits for nobody, and leaves @e->rate alone.
 * Return: 0; -ENOENT: the other end is not in this network namespace; -EAGAIN: no
 * process has it now, or nobody can say; -EOPNOTSUPP: the kernel does not say. */
MUST_CHECK int other_end_ask(int fd, struct other_end *e);
/* What rate does it have, if it is still the socket that other_end_ask() has found?  Waits for
 * whoever keeps the lock of that socket: not of a user who is not trusted. */
MUST_CHECK int other_end_rate(int fd, struct other_end *e);

/* Has the kernel's socket of the other end no process any more?  False also if nobody can
 * say. */
bool other_end_is_orphan(int fd);

/* Close the descriptor that is kept for this.  True if there was one. */
bool other_end_spare_fd(void);

struct sockaddr_storage;
/* The rate of the socket with these addresses; 0, -ENOENT or -EOPNOTSUPP. */
MUST_CHECK int socket_ask(const struct sockaddr_storage *local,
			  const struct sockaddr_storage *peer, uint64_t *rate);
