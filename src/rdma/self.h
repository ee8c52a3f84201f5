/* SPDX-License-Identifier: MIT */
/*
 * rdma/self.h - what this process shows to others, and its numbers
 *
 *     self_get() -> a directory of our own, under a name that stands for a block of
 *                   QP numbers
 *
 * The name is that of a listening unix socket in the abstract name space: "osf-rdma/" and
 * the block.  The process that binds it has the block's QP numbers, until it ends.  A
 * stranger who binds such names gets nothing, because whoever connects asks the kernel which
 * process has the name (rdma/lookup.h).  If all names that we try are taken, a random number
 * follows the block, and whoever looks for us finds it in the kernel's list.
 *
 * After a fork the child has none of this: its parent's objects refuse all calls there, and
 * the child's own device is a new one.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/lock.h"
#include "rdma/export.h"

struct self {
	struct x_dir *dir;
	int dir_fd, listen_fd, flock_fd;
	int helper[2]; /* the pipe that wakes it */
	bool has_helper;
	uint32_t block;
	uint64_t suffix;     /* of the name; 0: none */
	uint32_t generation; /* of forks */
	struct lock lock;    /* the tables of the directory */
};

/* This process's; made at the first call.  NULL: errno says why. */
struct self *self_get(void);
/* The same where it has been made. */
extern struct self *self_current;
/* How many forks this process has behind it: objects of an older number are not ours. */
uint32_t self_generation(void);

/* A free place in the directory, or -1.  The caller holds self.lock. */
int self_find_qp(struct self *s);
int self_find_cq(struct self *s);
/* Free places are taken by the caller's writing; these are marked at once. */
void self_put_cq(struct self *s, uint32_t i);

/* The name of @block's directory and socket.  @suffix: 0, or the number that follows. */
void self_dir_name(char *name, size_t size, uint32_t block);
socklen_t self_socket_name(struct sockaddr_un *un, uint32_t block,
			   uint64_t suffix);
