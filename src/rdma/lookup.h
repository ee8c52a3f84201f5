/* SPDX-License-Identifier: MIT */
/* rdma/lookup.h - whose is a name to which nobody can connect? */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

/* The process with which we may share memory and which has @block's name; -ENOENT. */
MUST_CHECK int lookup_owner(uint32_t block);
/* Has process @pid that name? */
MUST_CHECK bool lookup_holds(int pid, uint32_t block);
