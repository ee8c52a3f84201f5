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
#include "sock/stash.h"

/* Returns a close-on-exec descriptor that continues @anchor's stream after
 * @stash, or -errno.  The caller still closes @anchor. */
MUST_CHECK int relay_start(int anchor, const struct stash *stash);
