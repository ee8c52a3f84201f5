/* SPDX-License-Identifier: MIT */
/*
 * api/vma/ring_turn.c - which members of a ring have news
 *
 *     hot members  ->  a look without the kernel, each turn (complete.c)
 *     the sets     ->  a look at the kernel, each turn or now and then
 *
 * Members with news wait in a list, and each turn serves some of them.
 */
#include <errno.h>
#include <sys/epoll.h>

#include "api/vma/below.h"
#include "api/vma/ring.h"
#include "base/clock.h"

#define LOOK_EVENTS 64
#define EMPTY_LOOKS 8u /* in a row, before the kernel is asked less often */
#define LOOK_NS (2 * NS_PER_US)
/* While a hot member has news the kernel has less to say. */
#define BUSY_TURNS 4096u
#define BUSY_CLOCK 64u
#define BUSY_NS (50 * NS_PER_US)

void ring_ready(struct ring *r, struct vsock *s)
{
	if (s->on_ring.is_ready)
		return;
	s->on_ring.is_ready = 1;
	s->on_ring.next_ready = NULL;
	if (r->first_ready)
		r->last_ready->on_ring.next_ready = s;
	else
		r->first_ready = s;
	r->last_ready = s;
}

struct vsock *ring_next_ready(struct ring *r)
{
	struct vsock *s = r->first_ready;

	if (s) {
		r->first_ready = s->on_ring.next_ready;
		s->on_ring.is_ready = 0;
	}
	return s;
}

static void cool(struct ring *r, uint32_t i) { r->hot[i] = r->hot[--r->n_hot]; }

void ring_unlist(struct ring *r, struct vsock *s)
{
	struct vsock **at = &r->first_ready, *last = NULL;

	for (uint32_t i = 0; i < r->n_hot; i++)
		if (r->hot[i] == s)
			cool(r, i--);
	if (!s->on_ring.is_ready)
		return;
	while (*at != s) {
		last = *at;
		at = &last->on_ring.next_ready;
	}
	*at = s->on_ring.next_ready;
	if (r->last_ready == s)
		r->last_ready = last;
	s->on_ring.is_ready = 0;
}

void ring_hot(struct ring *r, struct vsock *s)
{
	r->hot_turn = r->turn;
	for (uint32_t i = 0; i < r->n_hot; i++)
		if (r->hot[i] == s)
			return;
	/* All places are taken, so @s takes that of another member.  The sets report that
	 * member's packets from now on, except those that it already has: serve it once. */
	if (r->n_hot < RING_HOT) {
		r->hot[r->n_hot++] = s;
		return;
	}
	struct vsock **place = &r->hot[r->hot_next++ % RING_HOT];

	ring_ready(r, *place);
	*place = s;
}

/* NULL: closed since. */
static struct vsock *member_of(struct ring *r, uint64_t data)
{
	struct vsock *s = vsock_get((int)(uint32_t)data);

	if (!s)
		return NULL;
	bool is = s->number == data >> 32 && load_rlx(&s->on_ring.ring) == r &&
		  s->on_ring.place;
	vsock_put(s); /* the ring has one */
	return is ? s : NULL;
}

/* Events of a set; 0: none. */
static int look_at_set(struct ring *r, int epfd, uint32_t wanted)
{
	static const struct timespec now;
	struct epoll_event evs[LOOK_EVENTS];
	int n = below_epoll_pwait2(epfd, evs, LOOK_EVENTS, &now, NULL);

	for (int i = 0; i < n; i++) {
		struct vsock *s =
		    evs[i].data.u64 ? member_of(r, evs[i].data.u64) : NULL;
		uint32_t events = evs[i].events & wanted;

		if (!evs[i].data.u64)
			look_at_set(r, load_rlx(&r->room_fd), EPOLLOUT);
		if (!s || !events)
			continue;
		if (events & EPOLLOUT &&
		    (s->on_ring.skips_room || !ring_has_room(s)))
			continue;
		s->on_ring.events |= events;
		ring_ready(r, s);
	}
	return n;
}

void ring_look_at_room(struct ring *r)
{
	int saved = errno;

	while (look_at_set(r, load_rlx(&r->room_fd), EPOLLOUT) == LOOK_EVENTS)
		;
	errno = saved;
}

static bool is_time_to_look(struct ring *r)
{
	bool is_busy = r->n_hot && r->turn - r->hot_turn < BUSY_TURNS;

	if (!is_busy && r->n_empty < EMPTY_LOOKS)
		return true;
	if (is_busy && r->turn % BUSY_CLOCK)
		return false;
	uint64_t now = now_ns();
	if (now - r->looked_ns < (is_busy ? BUSY_NS : LOOK_NS))
		return false;
	r->looked_ns = now;
	return true;
}

void ring_look(struct ring *r)
{
	if (likely(!is_time_to_look(r)))
		return;
	int saved = errno;
	if (look_at_set(r, load_rlx(&r->fd),
			EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR) > 0)
		r->n_empty = 0;
	else
		r->n_empty += r->n_empty < EMPTY_LOOKS;
	errno = saved;
}
