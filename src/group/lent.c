/* SPDX-License-Identifier: MIT */
/* group/lent.c - see group/lent.h */
#include "base/clock.h"
#include "group/lent.h"
#include "proto/shm/shm.h"

/* So long nothing is returned and nothing arrives, while the peer waits for room. */
#define STILL_NS (2 * NS_PER_MS)
/* A program that has once kept its buffers is likely to do so again: so many bytes are
 * copied before its ring is lent again, and each time twice as many. */
#define COPY_MIN (16u << 20)
#define COPY_MAX (UINT64_C(1) << 30)

void lend_begin(struct gsock *s)
{
	s->lend_max = MIN(shm_ring_bytes(s->sk) / 2, RING_WINDOW) / 2;
	s->may_lend = s->map && !buf_is_external() && !s->is_copying;
	if (!s->copy_next)
		s->copy_next = COPY_MIN;
}

/* What is lent is not in the ring's order any more: it stays until it is returned.
 * References stay in the list, for the peer is told of them in their order; they take
 * no space of the ring. */
static void let_go(struct gsock *s)
{
	struct rxbuf *b = s->held_first, *next;

	s->held_first = s->held_last = NULL;
	for (; b; b = next) {
		next = b->next;
		b->next = NULL;
		if (b->is_ref) {
			b->ring_off = RING_NO_HOLD;
			if (s->held_last)
				s->held_last->next = b;
			else
				s->held_first = b;
			s->held_last = b;
			continue;
		}
		fetch_add(&b->map->n_refs, 1);
		if (!rxbuf_move(b, RXBUF_HELD, RXBUF_ORPHAN)) {
			rxmap_put(b->map); /* returned meanwhile */
			rxbuf_free(NULL, b);
		}
	}
	set_hold(&shm_of(s->sk)->rx, s->held_first);
}

static void move_on(struct gsock *s)
{
	let_go(s);
	s->may_lend = 0;
	s->is_copying = 1;
	s->copy_left = s->copy_next;
	s->copy_next = MIN(2 * s->copy_next, COPY_MAX);
	shm_ask_to_move(s->sk, s->fd);
}

void lend_copied(struct gsock *s, size_t n)
{
	if (!s->is_copying)
		return;
	s->copy_left -= MIN(s->copy_left, n);
	if (s->copy_left || shm_of(s->sk)->rx.moves || s->held_first ||
	    load_acq(&s->map->n_refs) != 1)
		return;
	s->is_copying = 0;
	lend_begin(s);
}

/*
 * When.
 */

static bool peer_wants_room(const struct gsock *s)
{
	const struct seg_side *p = shm_peer(s->sk);

	return held_span(s) >= s->lend_max || load_rlx(&p->tx_waits) ||
	       load_rlx(&p->tx_inbox) || load_rlx(&p->tx_anchor);
}

static bool stands_still(const struct gsock *s, uint64_t now)
{
	return now - s->lent_ns >= STILL_NS && !s->is_copying &&
	       sock_mode(s->sk) == SOCK_SHM && peer_wants_room(s);
}

static void note(struct gsock *s, uint64_t now)
{
	uint32_t *waits = &shm_peer(s->sk)->tx_waits;

	s->lent_first = s->held_first;
	s->lent_off = shm_of(s->sk)->rx.off;
	s->lent_ns = now;
	if (load_rlx(waits)) /* it says so again if it does */
		store_rlx(waits, 0u);
}

static void look(struct gsock *s, uint64_t now)
{
	if (!s->held_first || s->state != GSOCK_CONNECTED ||
	    !shm_of(s->sk)->seg) {
		list_del(&s->lent);
		s->lent_first = NULL;
	} else if (s->held_first != s->lent_first ||
		   shm_of(s->sk)->rx.off != s->lent_off) {
		note(s, now);
	} else if (stands_still(s, now)) {
		move_on(s);
	}
}

COLD void turn_lent(struct group *g)
{
	uint64_t now = now_ns();

	for (struct list *l = g->lent.next, *next; l != &g->lent; l = next) {
		next = l->next;
		look(container_of(l, struct gsock, lent), now);
	}
}
