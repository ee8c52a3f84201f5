/* SPDX-License-Identifier: MIT */
/*
 * proto/shm/trust.h - with which processes this one may share memory
 *
 *     a unix connection  ->  what the kernel says of the process at its other end
 *                        ->  yes, or why not
 *
 * Yes: the same user, in the same user namespace; or a user that OSF_ALLOW_UIDS
 * names.  Root is no exception.  The number for users without a number in our
 * namespace (65534) is nobody's, unless the namespace has a number for each user.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/compiler.h"

/* May this process share memory with the one at the other end of @channel?
 * 0; -EPERM: another user's; -EXDEV: in another user namespace; -ENOSYS: the kernel
 * does not say in which. */
MUST_CHECK int trust_check(int channel);
/* Does OSF_ALLOW_UIDS, or being the same, allow a process of @uid? */
bool trust_allows(uid_t uid);
/* Is a socket of @uid that of such a process, as long as nobody has handed it on? */
bool trust_owns(uid_t uid);
/* Which process is at the other end of a channel?  The kernel says so; 0:
 * unknown. */
pid_t channel_pid(int channel);
