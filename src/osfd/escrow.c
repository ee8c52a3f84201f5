/* SPDX-License-Identifier: MIT */
/* osfd/escrow.c - a slot of a dead program, judged; see escrow.h.  Pure: no descriptor. */
#include "osfd/escrow.h"

#include <errno.h>
#include <string.h>

#define WINDOW_MAX (1u << 30) /* RFC 7323 section 2.3 */
#define FLAGS ((uint32_t)FROZEN_PEER_FIN | FROZEN_PEER_RESET)

/* Whether the numbers fit each other.  thaw() and the kernel rely on it. */
static bool is_sound(const struct escrow_state *s)
{
	uint32_t all = s->snd_end - s->snd_una;

	return all <= ESCROW_RING && s->snd_nxt - s->snd_una <= all &&
	       s->off < ESCROW_RING && s->max_window <= WINDOW_MAX &&
	       s->snd_wnd <= s->max_window && s->rcv_wnd <= WINDOW_MAX &&
	       s->rcv_nxt - s->rcv_wup <= s->rcv_wnd && !(s->flags & ~FLAGS);
}

int escrow_parse(const struct escrow_head *h, struct frozen *f,
		 struct escrow_bytes *out)
{
	struct escrow_state s;

	if (h->which > 2)
		return -EBADMSG;
	*out = (struct escrow_bytes){ 0 };
	if (!h->which)
		return 0;
	memcpy(&s, &h->state[h->which - 1], sizeof(s));
	if (!is_sound(&s))
		return -EBADMSG;
	f->snd_nxt = s.snd_nxt;
	f->rcv_nxt = s.rcv_nxt;
	f->snd_wl1 = s.snd_wl1;
	f->snd_wnd = s.snd_wnd;
	f->max_window = s.max_window;
	f->rcv_wnd = s.rcv_wnd;
	f->rcv_wup = s.rcv_wup;
	f->flags = (uint8_t)(f->flags | s.flags);
	out->off = s.off;
	out->n_unacked = s.snd_nxt - s.snd_una;
	out->n_unsent = s.snd_end - s.snd_nxt;
	out->has_unread = s.n_unread;
	return 0;
}
