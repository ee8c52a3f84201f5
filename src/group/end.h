/* SPDX-License-Identifier: MIT */
/*
 * group/end.h - how sockets end; see group/end.c
 */
#pragma once

#include "group/gsock.h"

bool gsock_close_step(struct group *g, struct gsock *s); /* true: it is gone */
/* It ends now: completions and TERMINATED are called back.  @g may be NULL. */
void gsock_terminate(struct group *g, struct gsock *s);
void gsock_discard(struct gsock *s); /* the application does not know it yet */
