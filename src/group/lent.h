/* SPDX-License-Identifier: MIT */
/*
 * group/lent.h - records of a ring that the application reads where they lie
 *
 *     held_first ... held_last   in the ring's order; rx.hold names the first
 *
 * The ring's space goes back to the peer up to the first record that is still lent.
 * An application that keeps records would so stop the stream once the ring is full.
 * turn_lent() sees that, and asks the peer to go on in the other half of the ring's
 * memory (proto/shm/ring.h): what is lent stays where it is, untouched, as long as the
 * application likes.  From then on bytes are copied into memory of the group's (buf.h),
 * which has a limit, until the application has returned what it had of the ring and
 * at least copy_left bytes have come.  So nothing is lent in one half while something
 * is in the other, and two are enough.
 *
 * Owner: the socket's group.  The application may return buffers in any thread.
 */
#pragma once

#include "group/gsock.h"
#include "proto/shm/conn.h"

/* Bytes of the ring that cannot go back to the peer, at most; a ring that is not used
 * whole may have fewer. */
static inline uint32_t held_span(const struct gsock *s)
{
	const struct ring_rx *rx = &shm_of(s->sk)->rx;

	if (rx->hold == RING_NO_HOLD)
		return 0;
	return rx->off >= rx->hold ? rx->off - rx->hold
				   : rx->off + rx->size - rx->hold;
}

/* @b: the first that is held; NULL: none. */
static inline void set_hold(struct ring_rx *rx, const struct rxbuf *b)
{
	if (likely(!rx->moves))
		rx->hold = b ? b->ring_off : RING_NO_HOLD;
	if (!rx->refs)
		return;
	rx->refs->is_held = b;
	if (b)
		rx->refs->held = b->n_refs;
}

/* After a callback that may have kept what it was given. */
static inline void lend_note(struct group *g, struct gsock *s)
{
	if (unlikely(s->held_first) && list_is_empty(&s->lent))
		list_add_tail(&g->lent, &s->lent);
}
