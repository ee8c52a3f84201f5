/* SPDX-License-Identifier: MIT */
/* group/rx.h - delivers bytes to the application; see group/rx.c */
#pragma once

#include "group/gsock.h"

/* False: do not touch the socket any more. */
bool gsock_rx(struct group *g, struct gsock *s);
void gsock_rx_discard(struct gsock *s);   /* nobody wants them */
void group_take_returns(struct group *g); /* that came in other threads */
