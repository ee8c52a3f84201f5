/* SPDX-License-Identifier: MIT */
/*
 * cm/bridge.h - connections to other hosts
 *
 *     an id's unix socket <-> bridge.c <-> datagrams to queue pair 1 of the other host
 *
 * To link.c a connection to another host looks like one of this host: messages (msg.h) on a
 * unix socket.  The thread of rdma/wire.h translates these messages into datagrams and
 * back, and sends again what is not answered.  It never takes cm_lock.
 */
#pragma once

#include "cm/addr.h"

/* Return: a socket on which the caller sends a REQ or a SIDR_REQ to @dst, of another host;
 * or -errno.  @held: a socket that keeps a port; the bridge closes it when the connection
 * is over. */
MUST_CHECK int bridge_connect(const union addr *src, const union addr *dst,
			      int held);
/* Others may ask for listeners of this process. */
void bridge_listen(void);
/* Is the way to other hosts open?  0 or -errno. */
MUST_CHECK int bridge_open(void);
