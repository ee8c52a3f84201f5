/* SPDX-License-Identifier: MIT */
/*
 * group/wake.h - wakes whoever sleeps on a group's epoll set
 *
 * In: another thread has work for the group.  Out: its set becomes readable.
 */
#pragma once

#include "group/gsock.h"

/* From any thread, if there is still such a group. */
void group_wake(struct group *g);
/* Nobody wakes it from now on: its handle is no more, and its set may be closed. */
void group_wake_end(struct group *g);
void group_wake_after_fork(void);
