/* SPDX-License-Identifier: MIT */
/*
 * proto/tcp/rest.h - how long a connection that has gone back stays with the kernel
 *
 * Owner: a thread that has both locks of the socket.
 */
#pragma once

#include <stdint.h>

#include "osf/stats.h"
#include "sock/sock.h"

/* It goes back for @why.  Return: so many changes of direction later it may move again. */
uint32_t rest_turns(struct sock *sk, enum osf_reason why);
