/* SPDX-License-Identifier: MIT */
/* group/lent.c - see group/lent.h */
#include "base/clock.h"
#include "group/lent.h"

/* Move on after so long without progress, if the peer waits for room. */
#define STILL_NS (2 * NS_PER_MS)
/* A program that once kept its buffers is likely to do so again.  So copy this
 * many bytes before lending again, and twice as many each further time. */
#define COPY_MIN (16u << 20)
#define COPY_MAX (UINT64_C(1) << 30)

/* Tell the protocol the oldest piece that is still held. */
static void tell_oldest(struct gsock *s)
{
	s->lend->back(s->sk, s->fd, s->held_first ? &s->held_first->at : NULL);
}

void held_add(struct gsock *s, struct rxbuf *b)
{
	b->chunk = NULL;
	b->memory = s->memory;
	b->sock = s;
	b->next = NULL;
	store_rlx(&b->state, (uint32_t)RXBUF_HELD);
	if (s->held_last)
		s->held_last->next = b;
	else
		s->held_first = b;
	s->held_last = b;
}

/* Pop what was returned from the front. */
void held_release(struct gsock *s)
{
	struct rxbuf *first = s->held_first, *b = first;

	while (b && load_acq(&b->state) == RXBUF_BACK) {
		struct rxbuf *next = b->next;

		rxbuf_free(s->group ? &s->group->pool : NULL, b);
		b = next;
	}
	s->held_first = b;
	if (!b)
		s->held_last = NULL;
	if (b != first)
		tell_oldest(s);
}

/* Take it out of the stream's order; the application keeps it. */
void held_part(struct rxbuf *b)
{
	struct lend_memory *memory = b->memory;
	struct lent at = b->at;

	lend_memory_get(memory);
	if (!rxbuf_move(b, RXBUF_HELD, RXBUF_ORPHAN)) {
		rxbuf_free(NULL, b); /* returned just now */
		lend_memory_put(memory, &at);
	}
}

/* The socket is freed: pieces still held stay valid. */
void held_orphan(struct gsock *s)
{
	for (struct rxbuf *b = s->held_first, *next; b; b = next) {
		next = b->next;
		held_part(b);
	}
	s->held_first = s->held_last = NULL;
}

void gsock_rest(struct gsock *s)
{
	if (s->held_first)
		held_release(s);
	s->lend->rest(s->sk, s->fd);
}

void lend_begin(struct gsock *s)
{
	s->may_lend = s->memory && !buf_is_external() && !s->is_copying;
	if (!s->copy_next)
		s->copy_next = COPY_MIN;
}

/* The pieces are no longer part of the stream's order: each stays until it is
 * returned.  Pieces marked in_order stay in the list, because the peer expects
 * them back in order. */
static void let_go(struct gsock *s)
{
	struct rxbuf *b = s->held_first, *next;

	s->held_first = s->held_last = NULL;
	for (; b; b = next) {
		next = b->next;
		b->next = NULL;
		if (b->at.in_order) {
			if (s->held_last)
				s->held_last->next = b;
			else
				s->held_first = b;
			s->held_last = b;
			continue;
		}
		held_part(b);
	}
}

static void move_on(struct gsock *s)
{
	let_go(s);
	s->may_lend = 0;
	s->is_copying = 1;
	s->copy_left = s->copy_next;
	s->copy_next = MIN(2 * s->copy_next, COPY_MAX);
	s->lend->move_on(s->sk, s->fd);
	tell_oldest(s);
}

void lend_copied(struct gsock *s, size_t n)
{
	s->received += n;
	if (!s->is_copying)
		return;
	s->copy_left -= MIN(s->copy_left, n);
	if (s->copy_left || s->held_first || load_acq(&s->memory->n_refs) != 1)
		return;
	s->is_copying = 0;
	lend_begin(s);
}

/* Deciding when to move on. */

static bool stands_still(const struct gsock *s, uint64_t now)
{
	return now - s->lent_ns >= STILL_NS && !s->is_copying &&
	       s->lend->is_waited_for(s->sk, false);
}

static void note(struct gsock *s, uint64_t now)
{
	s->lent_first = s->held_first;
	s->lent_at = s->received;
	s->lent_ns = now;
	s->lend->is_waited_for(s->sk, true);
}

static void look(struct gsock *s, uint64_t now)
{
	if (!s->held_first || s->state != GSOCK_CONNECTED) {
		list_del(&s->lent);
		s->lent_first = NULL;
	} else if (s->held_first != s->lent_first ||
		   s->received != s->lent_at) {
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
