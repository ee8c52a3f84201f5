/* SPDX-License-Identifier: MIT */
/*
 * rdma/lookup.h - which process has a block of QP numbers?
 *
 * Strangers may have taken the block's name, or listen at names of the same block that have
 * a suffix.  A connection to each says whose it is.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

/* A connection to the process that has @block, if we may share memory with it.  Return: its
 * descriptor; -ENOENT: nobody has it; -EPERM, -EXDEV, -ENOSYS: see trust_check();
 * -EAGAIN: too many have connected; or another -errno */
MUST_CHECK int lookup_connect(uint32_t block);
/* Has another process with which we may share memory a name of @block, besides ours? */
MUST_CHECK bool lookup_has_other(uint32_t block, uint64_t suffix);
/* The process with which we may share memory and which has @block's name; -ENOENT. */
MUST_CHECK int lookup_owner(uint32_t block);
/* The blocks of all names that somebody listens at, @max of them at most; whoever that is. */
uint32_t lookup_blocks(uint32_t *blocks, uint32_t max);
/* Has process @pid that name? */
MUST_CHECK bool lookup_holds(int pid, uint32_t block);
