/* SPDX-License-Identifier: MIT */
/*
 * base/fds.h - our own descriptors inside of somebody else's process
 *
 * They lie above the program's limit, or at the top of the descriptor table, so the
 * program's own descriptors still get the lowest free numbers.  They are close-on-exec,
 * and stay open when the program closes whole ranges.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"

/* Moves @fd up, out of the program's way, and records it as ours.  Return: the new
 * number, or @fd if there is no room above; a negative @fd as it is */
int fds_hide(int fd);
/* As fds_hide(), for a descriptor that we can do without.  If there is no room it is
 * closed, and the result is -EMFILE. */
int fds_hide_spare(int fd);
/* Return: the smallest number of a descriptor of ours that the program may hit; INT_MAX:
 * none. */
int fds_reach(void);
/* Closes a descriptor that fds_hide() has returned, if it is not negative. */
void fds_close(int fd);
/* The kernel's table doubles when it grows.  Our descriptors lie in this part of it. */
#define FDS_WINDOW 65536
extern uint64_t fds_ours[FDS_WINDOW / 64];
static inline bool fds_is_ours(int fd)
{
	return (unsigned)fd < FDS_WINDOW &&
	       load_rlx(&fds_ours[(unsigned)fd / 64]) >> (fd % 64) & 1;
}
/* Return: a number that identifies the socket behind a descriptor; 0: none. */
uint64_t fds_cookie(int fd);
/* Return: our smallest descriptor that is >= @from, or -1. */
int fds_next(int from);

/* Whether no other process of this user has a descriptor of the socket @fd.  It
 * searches /proc, which takes milliseconds. */
bool fds_is_sole(int fd);
