/* SPDX-License-Identifier: MIT */
/*
 * osfd/reconnect.h - the kernel's socket leaves its connection, and gets it again
 *
 *     frozen -> disconnect -> sequence numbers -> bind -> connect, without a handshake
 *
 * A kernel connection survives while its address is removed, its device is down or its
 * route is gone: what it sends is lost until they come back.  A connection that we give
 * back to the kernel meanwhile must survive as well.  bind() and connect() would refuse, so
 * we make the socket IP_TRANSPARENT, and bind it to the device lo for a moment.  This does
 * not work over IPv6: there a connection without a route stays where it is.
 */
#pragma once

#include "osfd/freeze.h"

/* Return: 0, or -ENETUNREACH with a reason: the socket could not be connected now */
MUST_CHECK int reconnect_check(int fd, const struct connection *c,
			       struct refusal *why);

/* Steps 1 and 2 of thaw(): the sequence numbers are those in front of the queues' bytes.
 * Return: 0 or a negative errno: the connection is lost */
MUST_CHECK int reconnect(int fd, const struct connection *c,
			 const struct frozen *f, const struct queues *q);
