/* SPDX-License-Identifier: MIT */
/*
 * group/settle.h - what the switch has decided about a connection takes effect
 *
 *     the kernel's  ->  a protocol that lends (sock/lend.h)  ->  perhaps the kernel's again
 */
#pragma once

#include "group/gsock.h"

/* After each call in which the connection may have moved. */
void gsock_settle(struct gsock *s);
