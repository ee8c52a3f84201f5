/* SPDX-License-Identifier: MIT */
/*
 * osfd/freeze.h - takes a TCP connection away from the kernel, and gives it back
 *
 *     established, quiet -> freeze() -> struct frozen; the kernel's socket stands still
 *     struct frozen, bytes -> thaw() -> established, the same descriptor
 *
 * Between the two the kernel's socket neither sends nor receives: TCP_REPAIR is on, a
 * filter drops what arrives, and the port has the connection's frames.  These are the steps
 * that need CAP_NET_ADMIN, and the right to bind to any port.
 *
 * The connection is the one whose descriptor the caller has.  Its addresses come from the
 * kernel, so that nobody can name a connection of somebody else.
 */
#pragma once

#include "osfd/port.h"

struct connection {
	struct sockaddr_storage local, peer;
	socklen_t len;
	struct steer_key key;
};

/* The addresses of an established connection.  Return: 0, -ENOTCONN or another errno */
MUST_CHECK int connection_of(int fd, struct connection *out,
			     struct refusal *why);

/**
 * freeze() - stop the kernel's part of a connection and read its state
 *
 * Return: 0, or with a reason, and then nothing has changed
 *   -EAGAIN      not quiet: bytes are in its queues; try again later
 *   -EOPNOTSUPP  a connection that cannot move: not TCP, not established, with a filter
 *                or a protocol above it, of another network namespace
 *   -MSG_E_...   the kernel does more to its segments: osfd/beyond.h
 *   -ENOSPC      the port has no more flows
 *   or what the kernel said
 */
MUST_CHECK int freeze(struct grant *g, int fd, struct frozen *out,
		      struct refusal *why);

/**
 * adopt() - steer a connection that was frozen through another grant
 * @snd_nxt: as freeze() has said
 *
 * Return: 0, or with a reason -ENOTCONN where the socket is not frozen, -EOPNOTSUPP where
 * it is of another network namespace, or -ENOSPC
 */
MUST_CHECK int adopt(struct grant *g, int fd, uint32_t snd_nxt,
		     struct refusal *why);

/* Undoes a freeze whose numbers nobody knows, or the steps of a freeze that were done.
 * Nothing has been sent or received since the freeze.  The caller restores SO_REUSEADDR and
 * SO_KEEPALIVE.  Return: 0, or with a reason -EOPNOTSUPP */
MUST_CHECK int freeze_undo(struct grant *g, int fd, struct refusal *why);

/* Has the kernel send a window probe to the peer of an established connection.  A reset is
 * not retransmitted.  But a peer that reset the connection while nobody listened answers
 * the probe with another reset.  SO_REUSEADDR is off after this call. */
void probe_peer(int fd);

/* Bytes that the program's engine gives back with a connection.  They lie in a file, from
 * its start, in this order. */
struct queues {
	int fd; /* -1: there are none */
	uint32_t n_unread, n_unacked, n_unsent;
	/* Not 0: they are in a ring that begins at @at, the first one @ring_off behind it. */
	uint32_t ring_bytes, ring_off;
	uint64_t at;
};

/**
 * thaw() - make the kernel's socket go on where the program's engine has stopped
 *
 * Return: 0, or with a reason
 *   -ENOTCONN  the socket is not frozen, or not through this grant; nothing has changed
 *   -EBADF     its bytes are not in a memfd; nothing has changed
 *   -ENETUNREACH  there is no route, over IPv6; nothing has changed
 *   another    the connection could not be restored; the peer has got a reset
 */
MUST_CHECK int thaw(struct grant *g, int fd, const struct frozen *f,
		    const struct queues *q, struct refusal *why);
