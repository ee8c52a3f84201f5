/* SPDX-License-Identifier: MIT */
/*
 * base/fds.h - descriptors of our own inside somebody else's process
 *
 * They stand above the program's limit, or at the top of the descriptor table, so that
 * the program's own descriptors get the lowest free numbers as ever, are close-on-exec,
 * and are spared when the program closes whole ranges.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"

/* Move @fd up, out of the way, and remember it as ours.  Returns the new number
 * (@fd itself when there is no room above).  @fd < 0 passes through. */
int fds_hide(int fd);
/* The same for one that can be done without: closed, and -EMFILE, if there is no room. */
int fds_hide_spare(int fd);
/* From which number on the program may meet ours; INT_MAX: nowhere. */
int fds_reach(void);
/* Close one that fds_hide() returned; negative is fine. */
void fds_close(int fd);
/* The kernel's table grows by doubling: ours stand in this much of it. */
#define FDS_WINDOW 65536
extern uint64_t fds_ours[FDS_WINDOW / 64];
static inline bool fds_is_ours(int fd)
{
	return (unsigned)fd < FDS_WINDOW &&
	       load_rlx(&fds_ours[(unsigned)fd / 64]) >> (fd % 64) & 1;
}
/* Which socket a descriptor names, to know later whether it still does; 0: none. */
uint64_t fds_cookie(int fd);
/* The smallest of ours that is >= @from, or -1. */
int fds_next(int from);

/* Has no other process of this user a descriptor of the socket @fd?  Looks through
 * /proc, which takes milliseconds. */
bool fds_is_sole(int fd);
