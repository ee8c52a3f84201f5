/* SPDX-License-Identifier: MIT */
/*
 * ops/port.h - whether our own TCP may have a connection, and when it moves
 *
 *     connected, accepted -> port_may_take() -> young, SOCK_F_PORT
 *     a call, when due    -> port_look()     -> proto/tcp, or a reason
 *
 * A rule that says tcp moves a connection as soon as it can move.  With OSF_TCP=1 others
 * move, too, when they have changed direction often enough, with few bytes each time: bulk is what the
 * kernel does as well.
 */
#pragma once

#include <stdbool.h>

#include "ops/candidates.h"
#include "sock/sock.h"

void port_configure(void); /* reads OSF_TCP */

/* True: the socket stays young until a port takes it; @q is its destination.  @why: written
 * where a port could, and our TCP does not pay for this program */
bool port_may_take(struct sock *sk, struct question *q, enum osf_reason *why);

/* Moves it if that is worth while now.  The mode is SOCK_UPGRADING, and afterwards the
 * result. */
void port_look(struct sock *sk, int fd);

/* Has this process a port? */
bool port_is_open(void);
/* For who has sockets that no file has: @leave gives those back that are on a port. */
void port_on_leave(void (*leave)(enum osf_reason why));
void port_leave(enum osf_reason why);
/* The process gives up authority: see wire_drop(). */
void port_drop(void);
