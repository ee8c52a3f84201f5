/* SPDX-License-Identifier: MIT */
/*
 * proto/tcp/wire.h - the process's own TCP: its engine, its grant, and who drives it
 *
 *     first connection to move -> wire_open(): osfd's grant -> an engine
 *     a call, a sleeper that wakes -> wire_lock() -> turn -> news -> wire_unlock()
 *
 * osf has no thread of its own.  A turn is made by each call on a connection that has
 * moved, and by each thread that sleeps in poll(), epoll_wait() or a blocking call: all of
 * these also sleep on one descriptor (base/idle.h), which is readable when a frame has
 * arrived, a timer has expired, or the kernel's addresses, links or routes have changed.
 *
 * A process has one engine, for the device of its first connection, until it forks: the
 * child has no engine.
 *
 * Locks: wire_lock() comes after those of a socket.  A freeze or a thaw holds it while osfd
 * works, so that no frame reaches the engine meanwhile.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "osfd/frozen.h"
#include "proto/tcp/engine.h"
#include "proto/tcp/image.h"

struct moved;

/* What is looked at without the lock. */
extern struct engine *wire_engine; /* NULL: none */

void wire_lock(void);
/* Sends what is to be sent, sets the timer, and tells who waits. */
void wire_unlock(void);
/* Takes what has arrived, and runs timers.  The caller has the lock. */
void wire_turn(void);
/* A turn, if one is due.  The caller does not have the lock. */
void wire_look(void);
/* Is a turn due: has a frame come, or has a timer expired?  This call notices a timer some
 * milliseconds late; a thread that sleeps wakes at once. */
bool wire_is_due(void);
/* The time, read once since the lock was taken.  The caller has the lock. */
uint64_t wire_now(void);

/* Is there a frame?  One load. */
static inline bool wire_has_come(void)
{
	const struct engine *e = wire_engine;

	return e && engine_has_come(e);
}

/* Does an osfd run in this network namespace?  Asks now and then.  @chooses: the caller
 * will ask the judge about the connection, so this also gets the program's past. */
bool wire_is_there(bool chooses);

/* All of these need the lock. */

/**
 * wire_open() - have an engine for a device
 *
 * Return: 0, or
 *   -ENODEV  osfd has no port there for this user, or there is no osfd
 *   -EBUSY   the engine is for another device
 *   -EAGAIN  osfd or its port has gone, and may come again
 *   or another negative errno
 */
MUST_CHECK int wire_open(uint32_t ifindex);

/* The same for callers that can go on without an engine: asks osfd for it, and does not
 * wait.  The caller does not have the lock.  Return: as wire_open(); -EAGAIN: not yet */
MUST_CHECK int wire_prepare(uint32_t ifindex);
/* No connection will move for long: with none left, nothing of the port need be on the device.
 * The caller does not have the lock. */
void wire_rest(void);
/* osfd is asked, and has not answered.  The caller does not have the lock. */
bool wire_is_waiting(void);

/* osfd's steps for m->fd and m->frozen.  @may_stay: return rather than wait for the next
 * osfd.  Return: as osfd/freeze.h says; -EIO: osfd has gone; -EAGAIN: it is still frozen */
MUST_CHECK int wire_freeze(struct moved *m);
MUST_CHECK int wire_thaw(struct moved *m, const struct image_queues *q,
			 const void *bytes, bool may_stay);

/* For callers that cannot go on without osfd: waits until a new osfd has the connections,
 * up to five seconds from the end of the last one.  Return: 0, or a negative errno */
MUST_CHECK int wire_wait_for_osfd(void);

/* Who can go on without does, as long as this is false. */
bool wire_has_osfd(void);

/* Writes into the statistics which frames our TCP has dropped.  Owner: who has the lock. */
void wire_tell_drops(void);

/* From now on somebody notices when the anchor gets an error. */
void wire_add(struct moved *m);
void wire_remove(struct moved *m);

/* The process gives up rights, and the grant is one.  Its connections have gone back.  The
 * memory stays, because threads look at it without the lock. */
void wire_drop(void);

/* In the child of a fork: forget all, which is the parent's. */
void wire_after_fork(void);
