/* SPDX-License-Identifier: MIT */
/*
 * sock/turns.h - turns of this process's connections that a port may take
 *
 * A turn is a send() that has sent something, over the kernel or over a port.  Threads count
 * without a lock: what is lost is noise for proto/tcp/judge.h.
 */
#pragma once

#include <stdint.h>

#include "base/atomic.h"

extern uint64_t sock_turns;

static inline void turn_count(void) { count(&sock_turns, 1); }
