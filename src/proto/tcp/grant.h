/* SPDX-License-Identifier: MIT */
/*
 * proto/tcp/grant.h - the process's grant of a port, and what it asks osfd
 *
 *     grant_open() -> osfd: OPEN, ESCROW -> grant_freeze(), grant_thaw()
 *     osfd has gone -> grant_is_lost() -> grant_open() at the next one, grant_adopt()
 *     it does not pay -> grant_rest(); the next trial -> grant_wake()
 *
 * If osfd ends, the grant goes on: frames of moved connections still arrive, because this
 * process has the link, too.  Only a freeze or a thaw has to wait for the next osfd.  If
 * this process dies before, nobody gives its connections back.
 *
 * The caller of each function holds wire_lock().
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "osfd/msg.h"
#include "proto/tcp/image.h"

struct moved;

/**
 * grant_open() - get a grant from osfd
 * @frames: the packet socket, hidden from the program; it belongs to the caller
 *
 * The link of the former grant, if there was one, stays until grant_end_old().
 *
 * Return: 0, or a negative errno with a reason in @reply
 */
MUST_CHECK int grant_open(uint32_t ifindex, struct msg_grant *out, int *frames,
			  struct reply *reply);
/*
 * The same in two steps, for callers that do something else meanwhile: osfd takes some 30
 * to 60 ms, most of which the kernel waits for its processors.  grant_is_asked(): the
 * answer has not been taken yet.  grant_take() returns -EAGAIN if osfd has not answered and
 * the caller does not want to wait.
 */
MUST_CHECK int grant_ask(uint32_t ifindex, struct reply *reply);
bool grant_is_asked(void);
MUST_CHECK int grant_take(struct msg_grant *out, int *frames,
			  struct reply *reply, bool waits);

/* Any request of these that osfd has not answered. */
bool grant_is_waiting(void);

/* No connection is left, and none comes for some seconds.  Asks osfd to remove the grant's
 * traces from the device, which would cost each of its frames something.  Does not wait for
 * osfd. */
void grant_rest(void);
/* Lets the grant have flows again.  Return: 0; -EAGAIN: not yet, if the caller does not
 * want to wait; or -EIO: osfd has gone */
MUST_CHECK int grant_wake(bool waits);

/* Either the grant before or the new one ends. */
void grant_end_old(void);
void grant_end_new(void);
void grant_close(void);

/* osfd's socket, to wait for its end; -1: it has ended. */
int grant_fd(void);
/* Has osfd gone?  Asks the kernel. */
bool grant_is_lost(void);
/* Has osfd asked for the connections, because the port or osfd is about to end?
 * grant_is_lost(), or an answer to another request, has noted it. */
bool grant_is_ending(void);
/* No connection is left: osfd may end the grant. */
void grant_leave(void);

/*
 * Delayed ACKs.  A program acknowledges nothing while none of its threads is in a call of
 * ours.  So osfd has a timer of the program's, which expires a short time after the first
 * delayed ACK is due.  Then osfd sends the ACKs that the program owes by its escrow.  While
 * the program makes turns, it sets the timer anew before it expires, about 25 times a
 * second.
 */

/* Would osfd acknowledge for it? */
bool grant_acknowledges(const struct moved *m);
/* The escrow says it, and the first delayed ACK is due then; UINT64_MAX: there is none. */
void grant_away(uint64_t due_ns);

/* Requests about m->fd and m->frozen.  Return: as osfd/freeze.h says; -EIO, and
 * grant_is_lost(): osfd has gone, and may have done a part of it */
MUST_CHECK int grant_freeze(struct moved *m);
MUST_CHECK int grant_thaw(struct moved *m, const struct image_queues *q,
			  const void *bytes);
MUST_CHECK int grant_adopt(struct moved *m);
MUST_CHECK int grant_undo(struct moved *m);
