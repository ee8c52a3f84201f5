/* SPDX-License-Identifier: MIT */
/*
 * sock/port_sends.h - sends on this process's connections that a port may take
 *
 * Counts each send() that has sent something, over the kernel or over a port.  Threads count
 * without a lock: what is lost is noise for proto/tcp/judge.h.
 */
#pragma once

#include <stdint.h>

#include "base/atomic.h"

extern uint64_t sock_port_sends;

static inline void port_send_count(void) { count(&sock_port_sends, 1); }
