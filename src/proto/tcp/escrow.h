/* SPDX-License-Identifier: MIT */
/*
 * proto/tcp/escrow.h - what this program leaves to osfd in case it dies
 *
 *     a connection moves -> escrow_take(): a slot of the file that osfd has, too
 *     send() -> escrow_put(): the bytes    a frame leaves -> escrow_say(): the numbers
 *     it goes back -> escrow_give()
 *
 * osfd/escrow.h has the layout, and says what is left if the program dies in the middle.
 *
 * The caller of each function holds wire_lock().  If there is no memory for an escrow, or
 * osfd does not know of escrows, connections run without one.
 */
#pragma once

#include <stdbool.h>

#include "osfd/escrow.h"
#include "tcp/export.h"

/* Of one connection. */
struct escrow {
	struct escrow_head *head; /* NULL: it has none */
	uint32_t slot;            /* as osfd counts them, from 1 on; 0: none */
	/* The bytes that are in the ring: those that the peer has not acknowledged. */
	seq32 una, end;
	seq32 said; /* behind the last byte that the state names */
	uint32_t off;
	uint32_t high; /* of the ring, so much was touched */
};

/* Makes the file for osfd.  Return: its descriptor, which belongs to the escrow, or a
 * negative errno: there is no escrow */
MUST_CHECK int escrow_open(void);
/* The descriptor.  -1: there is none */
int escrow_fd(void);
/* No connection has a slot. */
void escrow_close(void);
/* The child of a fork has none of it. */
void escrow_after_fork(void);

/* @e->slot is 0 where none can be had. */
void escrow_take(struct escrow *e);
void escrow_give(struct escrow *e);

/* The first numbers of a connection that the engine has: none of its bytes are taken. */
void escrow_begin(struct escrow *e, const struct tcp_numbers *n);
/* How many bytes the escrow can take.  Acknowledged bytes make room only after escrow_say()
 * has left them out: osfd must not find a state whose bytes we have overwritten. */
uint32_t escrow_room(struct escrow *e);
/* Takes bytes that tcp_send() has taken; no more than there is room. */
void escrow_put(struct escrow *e, const void *data, uint32_t len);
/* The state that counts from now on.  @flags: FROZEN_PEER_FIN, FROZEN_PEER_RESET */
void escrow_say(struct escrow *e, const struct tcp_numbers *n, uint32_t flags);
