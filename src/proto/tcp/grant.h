/* SPDX-License-Identifier: MIT */
/*
 * proto/tcp/grant.h - the process's grant of a port, and what it asks osfd
 *
 *     grant_open() -> osfd: OPEN, ESCROW -> grant_freeze(), grant_thaw()
 *     osfd has gone -> grant_is_lost() -> grant_open() at the next one, grant_adopt()
 *     it does not pay -> grant_rest(); the next trial -> grant_wake()
 *
 * An osfd that has gone takes nothing with it: the frames of moved connections go on
 * arriving, because this process has the link, too.  Only freeze and thaw have to wait for
 * the next osfd, and nobody gives the connections back if this process dies meanwhile.
 *
 * All of it with wire_lock().
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "osfd/msg.h"
#include "proto/tcp/image.h"

struct moved;

/**
 * grant_open() - a grant of osfd's
 * @frames: the packet socket, hidden; the caller's
 *
 * The link of the grant before, if there was one, stays until grant_end_old().
 *
 * Return: 0, or a negative errno with a reason in @reply
 */
MUST_CHECK int grant_open(uint32_t ifindex, struct msg_grant *out, int *frames,
			  struct reply *reply);
/*
 * The same in two steps, for who has something else to do meanwhile: osfd takes some 30 to 60 ms,
 * most of which the kernel waits for its processors.  grant_is_asked(): nobody has taken it
 * yet.  grant_take() returns -EAGAIN where the caller does not want to wait and osfd has not
 * answered.
 */
MUST_CHECK int grant_ask(uint32_t ifindex, struct reply *reply);
bool grant_is_asked(void);
MUST_CHECK int grant_take(struct msg_grant *out, int *frames,
			  struct reply *reply, bool waits);

/* Any request of these that osfd has not answered. */
bool grant_is_waiting(void);

/* No connection is left, and none comes for some seconds: the device shall have no trace of the
 * grant, which would cost each of its frames something.  Does not wait for osfd. */
void grant_rest(void);
/* The grant can have flows again.  Return: 0; -EAGAIN: not yet, if the caller does not want to
 * wait; or -EIO: osfd has gone */
MUST_CHECK int grant_wake(bool waits);

/* Either the grant before or the new one ends. */
void grant_end_old(void);
void grant_end_new(void);
void grant_close(void);

/* osfd's socket, to wait for its end; -1: it has ended. */
int grant_fd(void);
/* Has osfd gone?  Asks the kernel. */
bool grant_is_lost(void);
/* Has osfd asked for the connections, because the port or osfd is about to end?  As
 * grant_is_lost() or an answer has heard. */
bool grant_is_ending(void);
/* No connection is left: osfd may end the grant. */
void grant_leave(void);

/*
 * Delayed ACKs.  A program that has none of its threads in a call of ours acknowledges
 * nothing.  So osfd has a timer of the program's, which is to expire somewhat after the
 * first of them is due.  Then osfd sends the ACKs that are owed by the escrow.  While the
 * program makes turns, the timer is set anew before it expires, about 25 times a second.
 */

/* Would osfd acknowledge for it? */
bool grant_acknowledges(const struct moved *m);
/* The escrow says it, and the first delayed ACK is due then; UINT64_MAX: there is none. */
void grant_away(uint64_t due_ns);

/* Of m->fd, m->frozen.  Return: as osfd/freeze.h says; -EIO, and grant_is_lost(): osfd has
 * gone, and may have done a part of it */
MUST_CHECK int grant_freeze(struct moved *m);
MUST_CHECK int grant_thaw(struct moved *m, const struct image_queues *q,
			  const void *bytes);
MUST_CHECK int grant_adopt(struct moved *m);
MUST_CHECK int grant_undo(struct moved *m);
