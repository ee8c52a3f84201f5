/* SPDX-License-Identifier: MIT */
/* group/lent.c - see group/lent.h */
#include <errno.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/vm.h"
#include "group/lent.h"
#include "group/memory.h"
#include "shm/shm.h"

/* So long nothing is returned and nothing arrives, while the peer waits for room. */
#define STILL_NS (2 * NS_PER_MS)
/* A program that has once kept its buffers is likely to do so again: so many bytes are
 * copied before its ring is lent again, and each time twice as many. */
#define COPY_MIN (16u << 20)
#define COPY_MAX (UINT64_C(1) << 30)

void lend_begin(struct gsock *s)
{
	s->lend_max = MIN(s->sk->rx.size, RING_WINDOW) / 2;
	/* Who has to know where data may lie may have told a device: those
	 * pages must not be exchanged for others. */
	s->may_lend = s->map && !buf_is_external() && !buf_is_told();
	if (!s->copy_next)
		s->copy_next = COPY_MIN;
	if (s->map && s->map->ring)
		s->may_lend = 0;
}

/*
 * Out of the ring.
 */

struct pages {
	uint32_t from, to; /* offsets in the ring */
};

static bool copy_pages(const struct ring_rx *rx, const struct pages *p)
{
	return p->from == p->to ||
	       map_private_copy(rx->base + p->from, p->to - p->from);
}

/* The pages of what is lent become copies, at their addresses. */
static bool copy_lent(const struct gsock *s)
{
	const struct ring_rx *rx = &s->sk->rx;
	struct pages run = { 0 };

	for (const struct rxbuf *b = s->held_first; b; b = b->next) {
		struct pages p = { b->ring_off & ~(MEMORY_PAGE - 1),
				   (b->ring_end + MEMORY_PAGE - 1) &
				       ~(MEMORY_PAGE - 1) };

		if (b->ring_off == b->ring_end)
			continue;
		if (p.from >= run.from && p.from <= run.to &&
		    run.from != run.to) {
			run.to = p.to > run.to ? p.to : run.to;
			continue;
		}
		if (!copy_pages(rx, &run))
			return false;
		run = p;
	}
	return copy_pages(rx, &run);
}

/* What is lent is the ring's no more.  References stay in the list, for the peer is
 * told of them in their order; they take no space of the ring. */
static void let_go(struct gsock *s)
{
	struct rxbuf *b = s->held_first, *next;

	s->held_first = s->held_last = NULL;
	for (; b; b = next) {
		next = b->next;
		b->next = NULL;
		if (b->ring_off == b->ring_end) {
			b->ring_off = b->ring_end = RING_NO_HOLD;
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
	set_hold(&s->sk->rx, s->held_first);
}

static bool move_out(struct gsock *s)
{
	struct ring_rx *rx = &s->sk->rx;
	void *own = rx->base;
	void *again = map_again(own, rx->size);

	if (again == MAP_FAILED)
		return false;
	if (!copy_lent(s)) {
		/* What was copied is still in the ring, too. */
		if (!map_move(again, rx->size, own))
			munmap(again, rx->size);
		return false;
	}
	ring_rx_move(rx, again);
	s->map->ring = again;
	s->may_lend = 0;
	s->copy_left = s->copy_next;
	s->copy_next = MIN(2 * s->copy_next, COPY_MAX);
	let_go(s);
	gsock_publish(s);
	return true;
}

/* All that was moved has come back: the ring is looked at in its own place again. */
static bool move_back(struct gsock *s)
{
	struct ring_rx *rx = &s->sk->rx;
	uint8_t *own = seg_ring(s->map->seg, !s->sk->side, rx->size);

	if (s->held_first || load_acq(&s->map->n_refs) != 1 ||
	    !map_move(s->map->ring, rx->size, own))
		return false;
	ring_rx_move(rx, own);
	s->map->ring = NULL;
	return true;
}

void lend_copied(struct gsock *s, size_t n)
{
	if (!s->map || !s->map->ring)
		return;
	s->copy_left -= MIN(s->copy_left, n);
	if (!s->copy_left && move_back(s))
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

static void note(struct gsock *s, uint64_t now)
{
	s->lent_first = s->held_first;
	s->lent_off = s->sk->rx.off;
	s->lent_ns = now;
	store_rlx(&shm_peer(s->sk)->tx_waits,
		  0u); /* says so again if it does */
}

static bool stands_still(const struct gsock *s, uint64_t now)
{
	return now - s->lent_ns >= STILL_NS && s->sk->rx.hold != RING_NO_HOLD &&
	       peer_wants_room(s);
}

/* False: it has called back. */
static bool look(struct group *g, struct gsock *s, uint64_t now)
{
	if (!s->held_first || s->state != GSOCK_CONNECTED || !s->sk->seg) {
		list_del(&s->lent);
		s->lent_first = NULL;
	} else if (s->held_first != s->lent_first ||
		   s->sk->rx.off != s->lent_off) {
		note(s, now);
	} else if (stands_still(s, now) && !move_out(s)) {
		log_err("no memory for received data that is kept: %m");
		gsock_fail(g, s, ENOBUFS);
		return false;
	}
	return true;
}

COLD void turn_lent(struct group *g)
{
	uint64_t now = now_ns();

	for (struct list *l = g->lent.next, *next; l != &g->lent; l = next) {
		next = l->next;
		if (!look(g, container_of(l, struct gsock, lent), now))
			return; /* the list may be another one */
	}
}
