/* SPDX-License-Identifier: MIT */
/*
 * group/wake.h - waking whoever sleeps on a group's epoll set
 *
 * In: another thread has something for the group.  Out: its set has something to tell.
 */
#pragma once

#include "group/gsock.h"

/* From any thread, if there is still such a group. */
void group_wake(struct group *g);
/* Nobody wakes it from now on: its handle is no more, and its set may be closed. */
void group_wake_end(struct group *g);
void group_wake_after_fork(void);
