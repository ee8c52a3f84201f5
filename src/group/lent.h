/* SPDX-License-Identifier: MIT */
/*
 * group/lent.h - bytes that the application reads in place
 *
 *     held_first ... held_last   in the stream's order
 *
 * The peer gets room back up to the first piece that the application still
 * holds.  So an application that keeps its pieces would stop the stream in the
 * end. turn_lent() sees that and has the protocol move on (sock/lend.h): pieces
 * already lent stay valid and unchanged as long as the application likes.  From
 * then on we copy bytes into the group's memory (buf.h), which has a limit,
 * until the application has returned all pieces and copy_left bytes have been
 * copied.
 *
 * Owner: the socket's group.  The application may return buffers in any thread.
 */
#pragma once

#include "group/gsock.h"

void held_add(struct gsock *s, struct rxbuf *b); /* @b is lent now */
void held_release(struct gsock *s); /* pop what was returned from the front */
void held_part(struct rxbuf *b); /* it keeps where it is lent, not the socket */
void held_orphan(struct gsock *s); /* all of them do */
void gsock_rest(struct gsock *s);  /* what came back goes to the peer now */

void lend_begin(struct gsock *s);            /* @lend has the stream now */
void lend_copied(struct gsock *s, size_t n); /* so many bytes were not lent */
void turn_lent(struct group *g);

/* Call this after a callback that may have kept its buffer. */
static inline void lend_note(struct group *g, struct gsock *s)
{
	if (unlikely(s->held_first) && list_is_empty(&s->lent))
		list_add_tail(&g->lent, &s->lent);
}
