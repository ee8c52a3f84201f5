/* SPDX-License-Identifier: MIT */
/*
 * ops/local.h - is an address one of this host's?
 *
 *     rtnetlink  ->  ops_inet_notification()  ->  local_changed()
 */
#pragma once

#include <stdbool.h>
#include <sys/socket.h>

/* v4-mapped addresses count as IPv4.  The answer is at most one rtnetlink
 * message old. */
bool local_is_local(const struct sockaddr *sa);
/* The list of addresses is to be read again. */
void local_changed(void);
void local_after_fork(void);
