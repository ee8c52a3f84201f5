/* SPDX-License-Identifier: MIT */
/*
 * sock/others.h - what other processes' statistics segments say of a connection
 *
 * In: a process and a socket.  Out: yes or no.  Holds nothing.  Read-only, and not
 * quick: for calls that are made once in a while.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* Does process @pid move the bytes of the connection that @fd names past TCP?  False
 * also when its segment may not be read. */
bool others_carry(pid_t pid, int fd);
