/* SPDX-License-Identifier: MIT */
/*
 * file/relay.h - unread bytes for somebody who reads with plain system calls
 *
 *     peer  <-- anchor -->  relay process  <-- TCP over loopback -->  new descriptor
 *
 * Bytes that were taken out of a ring cannot be put back into the kernel's receive
 * queue in front of what follows.  So a small process of its own, no child of the
 * program, hands them over and then moves bytes both ways until either end closes.
 * FIN and reset pass through.
 */
#pragma once

#include "base/compiler.h"
#include "sock/stash.h"

/* A descriptor, close-on-exec, that continues @anchor's stream after @stash; or
 * -errno.  @anchor stays the caller's to close. */
MUST_CHECK int relay_start(int anchor, const struct stash *stash);
