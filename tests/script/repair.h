/* SPDX-License-Identifier: MIT */
/*
 * tests/script/repair.h - takes a connection out of Linux, and puts one into it
 *
 *     a socket -> repair_take() -> struct tcp_image, bytes -> repair_give() -> the socket
 *
 * It is the proof that struct tcp_image has what TCP_REPAIR gives and takes.  The socket
 * keeps its descriptor.  Whoever calls it needs CAP_NET_ADMIN in the network namespace.
 */
#pragma once

#include "tcp/export.h"

#define REPAIR_BYTES (1u << 20) /* the largest queue */

struct repaired {
	struct tcp_image x;
	int reuses_addr; /* SO_REUSEADDR, which TCP_REPAIR clears */
	uint8_t queued[REPAIR_BYTES], unread[REPAIR_BYTES];
};

/* Freezes the connection: from here on it neither sends nor takes anything.
 * Return: 0, or a negative errno; -EINVAL: it is not established */
int repair_take(int fd, struct repaired *out);

/* Lets a frozen connection go on as it is. */
int repair_undo(int fd);

/* Makes the connection go on with other numbers.  Return: 0, or a negative errno */
int repair_give(int fd, const struct repaired *in);
