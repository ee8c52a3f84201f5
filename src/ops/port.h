/* SPDX-License-Identifier: MIT */
/*
 * ops/port.h - whether our own TCP may have a connection, and when it moves
 *
 *     connected, accepted -> port_may_take() -> young, SOCK_F_PORT
 *     a call, when due    -> port_look()     -> proto/tcp, or a reason
 *
 * A connection whose rule says tcp moves as soon as it can.  With OSF_TCP=1 other
 * connections move, too, once they have changed direction often enough with few bytes each
 * time.  A connection that carries many bytes in one direction stays: the kernel is as fast
 * there.
 */
#pragma once

#include <stdbool.h>

#include "ops/candidates.h"
#include "sock/sock.h"

void port_configure(void); /* reads OSF_TCP */

/* May a port take the connection?  Then the socket stays young until it does.  @q: its
 * destination.  @why is written only if a port could take it, and our TCP has been found to
 * be no faster for this program. */
bool port_may_take(struct sock *sk, struct question *q, enum osf_reason *why);

/* Moves the connection to a port if that is worth while now.  The caller has set mode
 * UPGRADING; the mode says the result. */
void port_look(struct sock *sk, int fd);

/* Has this process a port? */
bool port_is_open(void);
/* Poll groups have sockets that no file has: they register @leave, which gives back those
 * that are on a port. */
void port_on_leave(void (*leave)(enum osf_reason why));
void port_leave(enum osf_reason why);
/* The process gives up authority: see wire_drop(). */
void port_drop(void);
