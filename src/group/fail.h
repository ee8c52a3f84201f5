/* SPDX-License-Identifier: MIT */
/*
 * group/fail.h - a connection fails: call back ERROR and wait to be destroyed
 */
#pragma once

#include "group/gsock.h"

/* False: a callback has taken the socket away. */
bool gsock_fail(struct group *g, struct gsock *s, int err);
/* The application may reuse all memory that was queued to be sent. */
void ops_are_over(struct gsock *s);
