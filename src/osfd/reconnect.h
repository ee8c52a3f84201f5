/* SPDX-License-Identifier: MIT */
/*
 * osfd/reconnect.h - the kernel's socket leaves its connection, and has it again
 *
 *     frozen -> disconnect -> sequence numbers -> bind -> connect, without a handshake
 *
 * A connection of the kernel's lives on where its address is removed, its device is down or
 * its route has gone: what it sends is lost, until one of them comes back.  So does one that
 * is given back to the kernel meanwhile.  bind() and connect() would refuse; IP_TRANSPARENT
 * and a moment on the device lo make them do it.  IPv6 has no such device, so there a
 * connection without a route stays where it is.
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
