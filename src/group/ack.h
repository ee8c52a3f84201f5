/* SPDX-License-Identifier: MIT */
/*
 * group/ack.h - operations that are out: when they are complete
 *
 * Acknowledged is what the peer's kernel has acknowledged (SIOCOUTQ); of a protocol that
 * puts bytes into the peer's own memory, all that it took; by reference (ref.h): what
 * the peer needs no longer.  Completions are called back in turns only.
 */
#pragma once

#include "group/gsock.h"

void await_acks(struct group *g, struct gsock *s); /* some have gone out */
void gsock_acks(struct group *g, struct gsock *s); /* ask, and complete */
/* Those that are acknowledged.  False: a callback has taken the socket away. */
bool gsock_complete(struct group *g, struct gsock *s);
