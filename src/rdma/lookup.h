/* SPDX-License-Identifier: MIT */
/* rdma/lookup.h - whose is a name to which nobody can connect? */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

/* The process with which we may share memory and which has @block's name; -ENOENT. */
MUST_CHECK int lookup_owner(uint32_t block);
/* The blocks of all names that somebody listens at, @max of them at most; whoever that is. */
uint32_t lookup_blocks(uint32_t *blocks, uint32_t max);
/* Has process @pid that name? */
MUST_CHECK bool lookup_holds(int pid, uint32_t block);
