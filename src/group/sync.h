/* SPDX-License-Identifier: MIT */
/*
 * group/sync.h - a group follows an upgrade or a fallback of its connection
 *
 *     TCP  ->  a protocol that lends (sock/lend.h)  ->  perhaps TCP again
 *          <-> our own TCP, which copies
 */
#pragma once

#include "group/gsock.h"

/* After each call in which the connection may have moved. */
void gsock_sync(struct gsock *s);
