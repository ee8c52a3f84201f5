/* SPDX-License-Identifier: MIT */
/*
 * group/ack.h - when a sent operation is complete
 *
 * TCP: when the peer's kernel has acknowledged it (SIOCOUTQ).  A protocol that
 * writes into the peer's memory: when all bytes are written.  By reference
 * (ref.h): when the peer no longer needs the memory.  Completions are called
 * back only in turns.
 */
#pragma once

#include "group/gsock.h"

void await_acks(struct group *g, struct gsock *s); /* some have gone out */
void gsock_acks(struct group *g, struct gsock *s); /* ask, and complete */
/* Those that are acknowledged.  False: a callback has taken the socket away. */
bool gsock_complete(struct group *g, struct gsock *s);
