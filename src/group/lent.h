/* SPDX-License-Identifier: MIT */
/*
 * group/lent.h - bytes that the application reads where they lie
 *
 *     held_first ... held_last   in the stream's order
 *
 * Room goes back to the peer up to the first piece that is still lent.  An application
 * that keeps what it gets would so stop the stream in the end.  turn_lent() sees that, and
 * has the protocol move on (sock/lend.h): what is lent stays where it is, untouched, as
 * long as the application likes.  From then on bytes are copied into memory of the group's
 * (buf.h), which has a limit, until the application has returned what it had and at
 * least copy_left bytes have come.
 *
 * Owner: the socket's group.  The application may return buffers in any thread.
 */
#pragma once

#include "group/gsock.h"

/* After a callback that may have kept what it was given. */
static inline void lend_note(struct group *g, struct gsock *s)
{
	if (unlikely(s->held_first) && list_is_empty(&s->lent))
		list_add_tail(&g->lent, &s->lent);
}

/* The first that is held has changed. */
static inline void lend_told(struct gsock *s)
{
	s->lend->back(s->sk, s->fd, s->held_first ? &s->held_first->at : NULL);
}
