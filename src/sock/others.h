/* SPDX-License-Identifier: MIT */
/*
 * sock/others.h - what other processes' statistics say of a connection
 *
 * In: a process and a socket.  Out: yes or no.  Holds nothing.  Read-only and
 * slow: for rare calls.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* Does process @pid move the bytes of @fd's connection outside of TCP?  False
 * also if we may not read its segment. */
bool others_carry(pid_t pid, int fd);
