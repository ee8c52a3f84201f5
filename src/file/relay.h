/* SPDX-License-Identifier: MIT */
/*
 * file/relay.h - unread bytes for somebody who reads with plain system calls
 *
 *     peer  <-- anchor -->  relay process  <-- TCP over loopback -->  new descriptor
 *
 * Nobody can put bytes that were read from a ring back into the kernel's
 * receive queue, ahead of what follows.  So a small process of our own, not a
 * child of the program, delivers them and then moves bytes both ways until
 * either end closes.  It passes FIN and reset on.
 */
#pragma once

#include "base/compiler.h"
#include "sock/sock.h"
#include "sock/stash.h"

/* Returns a close-on-exec descriptor that continues @anchor's stream after
 * @stash, or -errno.  The caller still closes @anchor. */
MUST_CHECK int relay_start(int anchor, const struct stash *stash);
/* The same where another process has stopped inside a call on @sk.  The relay waits until
 * that process goes on or ends, and gives the connection to the kernel then, for @why.  Call
 * it between shared_part_begin() and shared_part_end(). */
MUST_CHECK int relay_start_late(int anchor, struct sock *sk,
				enum osf_reason why);
