/* SPDX-License-Identifier: MIT */
/*
 * api/vma/ring_members.c - who is in a ring's sets, and who polls it
 *
 *     ring_tell(socket)  ->  the list of changes  ->  ring_enter(): in, or out
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "api/vma/below.h"
#include "api/vma/ring.h"
#include "api/vma/vma.h"
#include "api/vma/xbuf.h"
#include "base/libc.h"

/* Sets. */

static int set_add(int epfd, int fd, uint32_t events, uint64_t data)
{
	struct epoll_event ev = { .events = events, .data.u64 = data };

	if (!below_epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &ev))
		return 0;
	/* What was there under that number was closed meanwhile. */
	return errno != EEXIST || below_epoll_ctl(epfd, EPOLL_CTL_MOD, fd, &ev)
		   ? -errno
		   : 0;
}

int ring_sets(int *fd, int *room_fd)
{
	*fd = epoll_create1(EPOLL_CLOEXEC);
	*room_fd = *fd < 0 ? -1 : epoll_create1(EPOLL_CLOEXEC);
	if (*room_fd >= 0 && !set_add(*fd, *room_fd, EPOLLIN, 0))
		return 0;
	int err = -errno;
	if (*room_fd >= 0)
		close(*room_fd);
	if (*fd >= 0)
		close(*fd);
	return err;
}

static uint64_t data_of(const struct vsock *s)
{
	return (uint64_t)s->number << 32 | (uint32_t)s->fd;
}

static int sets_add(struct ring *r, const struct vsock *s)
{
	int err = set_add(load_rlx(&r->fd), s->fd,
			  EPOLLIN | EPOLLRDHUP | EPOLLET, data_of(s));

	/* An unconnected socket's edges say nothing of what it could not send. */
	return err || s->is_udp ? err
				: set_add(load_rlx(&r->room_fd), s->fd,
					  EPOLLOUT | EPOLLET, data_of(s));
}
/* Members. */

void ring_tell(struct ring *r, struct vsock *s)
{
	struct vsock *old;

	if (xchg(&s->on_ring.is_told, 1u))
		return;
	vsock_hold(s);
	do {
		old = load_rlx(&r->told);
		s->on_ring.next_told = old;
	} while (!cas(&r->told, old, s));
}

static void member_drop(struct ring *r, struct vsock *s)
{
	struct vsock *last = r->members[--r->n_members];

	r->members[s->on_ring.place - 1] = last;
	last->on_ring.place = s->on_ring.place;
	s->on_ring.place = 0;
	ring_unlist(r, s);
	vsock_put(s);
}

/* False: no memory; it has no ring then. */
static bool member_add(struct ring *r, struct vsock *s)
{
	if (sets_add(r, s))
		return false;
	if (r->n_members == r->n_places) {
		uint32_t n = r->n_places ? 2 * r->n_places : 64;
		void *more = realloc(r->members, n * sizeof(*r->members));

		if (!more)
			return false;
		r->members = more;
		r->n_places = n;
	}
	vsock_hold(s);
	r->members[r->n_members++] = s;
	s->on_ring.place = r->n_members;
	if (s->on_ring.skips_room) {
		ring_look_at_room(r);
		s->on_ring.skips_room = 0;
	}
	/* The sets tell of news only; this is what was there before. */
	ring_ready(r, s);
	return true;
}

/* Since a send found too little room the edge may have gone by. */
static void look_for_room(struct ring *r, struct vsock *s)
{
	struct pollfd p = { .fd = s->fd, .events = POLLOUT };
	static const struct timespec now;
	int saved = errno;

	if (load_rlx(&s->on_ring.is_short) == SHORT_SENT &&
	    below_ppoll(&p, 1, &now, NULL) > 0 && p.revents & POLLOUT) {
		store_rlx(&s->on_ring.is_short, 0u);
		s->on_ring.events |= EPOLLOUT;
		ring_ready(r, s);
	}
	errno = saved;
}

static void settle(struct ring *r)
{
	for (struct vsock *s = xchg(&r->told, (struct vsock *)NULL), *next; s;
	     s = next) {
		next = s->on_ring.next_told;
		xchg(&s->on_ring.is_told, 0u);
		bool is_over =
		    load_rlx(&s->is_closed) || load_rlx(&s->on_ring.ring) != r;
		if (is_over && s->on_ring.place)
			member_drop(r, s);
		else if (!is_over && !s->on_ring.place && !member_add(r, s))
			store_rlx(&s->on_ring.ring, (struct ring *)NULL);
		if (s->on_ring.place)
			look_for_room(r, s);
		vsock_put(s);
	}
}

static bool
    has_doubts; /* a send on a copy of a descriptor found too little room */

void vma_sent_part(int fd, bool has_copies)
{
	VISIT(v, vsock_get(fd));
	struct ring *r = v.s ? load_rlx(&v.s->on_ring.ring) : NULL;

	if (has_copies)
		store_rlx(&has_doubts, true);
	if (!r)
		return;
	store_rlx(&v.s->on_ring.is_short, SHORT_SENT);
	ring_tell(r, v.s);
}

/* After a fork the kernel moves the bytes again, and then a set may report room that it has
 * reported before.  Room is new only if the peer has acknowledged bytes since. */
static bool has_new_room(struct vsock *s)
{
	struct tcp_info info;
	socklen_t len = sizeof(info);
	int saved = errno;
	bool knows =
	    !libc.getsockopt(s->fd, IPPROTO_TCP, TCP_INFO, &info, &len) &&
	    len >= offsetof(struct tcp_info, tcpi_bytes_received);

	errno = saved;
	if (!knows)
		return true;
	bool is =
	    !s->on_ring.acked || s->on_ring.acked - 1 != info.tcpi_bytes_acked;
	s->on_ring.acked = info.tcpi_bytes_acked + 1;
	return is;
}

bool ring_has_room(struct vsock *s)
{
	if (load_rlx(&has_doubts) || s->on_ring.state != ON_RING_CONNECTED)
		return true;
	return below_serves(s->fd) ? xchg(&s->on_ring.is_short, 0u)
				   : has_new_room(s);
}

void ring_clear(struct ring *r)
{
	settle(r);
	while (r->n_members) {
		struct vsock *s = r->members[r->n_members - 1];

		store_rlx(&s->on_ring.ring, (struct ring *)NULL);
		member_drop(r, s);
	}
	xbuf_cancel(r->spare);
	r->spare = NULL;
}

/* In a child: sets of its own, under the same number. */
static void renew(struct ring *r)
{
	int fd, room_fd;

	if (ring_sets(&fd, &room_fd))
		return; /* tried again */
	store_rlx(&r->is_moving, 1u);
	int is = dup3(fd, r->fd, O_CLOEXEC);
	store_rlx(&r->is_moving, 0u);
	close(fd);
	if (is < 0) {
		close(room_fd);
		return;
	}
	close(load_rlx(&r->room_fd));
	store_rlx(&r->room_fd, room_fd);
	for (uint32_t i = 0; i < r->n_members; i++) {
		struct vsock *s = r->members[i];

		s->on_ring.skips_room = s->on_ring.state == ON_RING_CONNECTED;
		if (!load_rlx(&s->is_closed))
			sets_add(r, s);
	}
	ring_look_at_room(r);
	for (uint32_t i = 0; i < r->n_members; i++) {
		r->members[i]->on_ring.skips_room = 0;
		ring_ready(r, r->members[i]);
	}
	r->is_stale = 0;
}

bool ring_enter(struct ring *r)
{
	uintptr_t me = (uintptr_t)pthread_self();

	if (is_single_threaded()) {
		if (r->owner)
			return false;
		r->owner = me;
	} else if (!cas(&r->owner, (uintptr_t)0, me)) {
		return false;
	}
	if (unlikely(load_rlx(&r->told) != NULL))
		settle(r);
	if (unlikely(r->is_stale) && load_rlx(&r->fd) >= 0)
		renew(r);
	return true;
}

void ring_exit(struct ring *r)
{
	if (likely(is_single_threaded() && load_rlx(&r->fd) >= 0)) {
		store_rlx(&r->owner, (uintptr_t)0);
		return;
	}
	do {
		if (unlikely(load_rlx(&r->fd) < 0))
			ring_clear(r);
		store_rel(&r->owner, (uintptr_t)0);
		/* Closed, or a member of a closed one is, meanwhile? */
		fence_full();
	} while (unlikely(load_rlx(&r->fd) < 0) && load_rlx(&r->told) &&
		 cas(&r->owner, (uintptr_t)0, (uintptr_t)pthread_self()));
}
