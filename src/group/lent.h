/* SPDX-License-Identifier: MIT */
/*
 * group/lent.h - records of a ring that the application reads where they lie
 *
 *     held_first ... held_last   in the ring's order; rx.hold names the first
 *
 * The ring's space goes back to the peer up to the first record that is still lent.
 * An application that keeps records would so stop the stream once the ring is full.
 * turn_lent() sees that, and moves what is lent out of the ring:
 *
 *     before   rx.base, data -> [ ring, in the segment ]
 *     after    data -> [ the same addresses: private copies of the lent pages ]
 *              rx.base -> [ ring, mapped a second time ]
 *
 * Pointers that the application has stay as they are.  From then on bytes are copied
 * into memory of the group's (buf.h), which has a limit, until the application has
 * returned what was moved and at least copy_left bytes have come; then the second
 * mapping takes the place of the first again.
 *
 * Owner: the socket's group.  The application may return buffers in any thread.
 */
#pragma once

#include "group/gsock.h"
#include "shm/ring.h"

/* Bytes of the ring that cannot go back to the peer, at most; a ring that is not used
 * whole may have fewer. */
static inline uint32_t held_span(const struct gsock *s)
{
	const struct ring_rx *rx = &s->sk->rx;

	if (rx->hold == RING_NO_HOLD)
		return 0;
	return rx->off >= rx->hold ? rx->off - rx->hold
				   : rx->off + rx->size - rx->hold;
}

/* @b: the first that is held; NULL: none. */
static inline void set_hold(struct ring_rx *rx, const struct rxbuf *b)
{
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
