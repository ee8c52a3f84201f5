/* SPDX-License-Identifier: MIT */
/*
 * api/vma/wait.c - calls that wait for several descriptors, with callbacks
 *
 *     poll()  ->  below, which waits  ->  filter_look() at what is readable
 *                        ^                       |
 *                        +--- all was dropped ---+
 *
 * As with libvma, poll() and select() also report a descriptor if its callback has held a
 * packet: the program has something to do, and its callback knows what.  Epoll does not.
 *
 * In doubt an event stays: an event too many costs the program a call, and an event too few
 * would make it wait for ever.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/vma/below.h"
#include "api/vma/epset.h"
#include "api/vma/filter.h"
#include "api/vma/vma.h"
#include "base/clock.h"

#define IN (POLLIN | POLLRDNORM)

/* Is there something to read for the program?  Runs the callback.  @or_held: a packet that
 * the callback has held counts, too. */
static bool is_readable(int fd, bool or_held)
{
	VISIT(v, vma_has(fd) ? vsock_get(fd) : NULL);

	if (!v.s || !load_rlx(&v.s->callback) || !visit_lock_rx(&v))
		return true;
	v.s->has_held = false;
	return filter_look(v.s) || (or_held && v.s->has_held);
}

/* How long a call with @ts that began at @start may still wait. */
static const struct timespec *time_left(const struct timespec *ts,
					uint64_t start, struct timespec *left)
{
	if (!ts || (!ts->tv_sec && !ts->tv_nsec))
		return ts;
	uint64_t all = (uint64_t)ts->tv_sec * NS_PER_S + (uint64_t)ts->tv_nsec;
	uint64_t used = now_ns() - start;
	*left = ns_timespec(used < all ? all - used : 0);
	return left;
}

static bool is_over(const struct timespec *left)
{
	return left && !left->tv_sec && !left->tv_nsec;
}

static int screen_poll(struct pollfd *fds, nfds_t n, int n_ready)
{
	for (nfds_t i = 0; i < n; i++) {
		struct pollfd *p = &fds[i];

		if (!(p->revents & IN) || p->revents & (POLLERR | POLLNVAL) ||
		    is_readable(p->fd, true))
			continue;
		p->revents &= (short)~IN;
		n_ready -= !p->revents;
	}
	return n_ready;
}

int vma_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *ts,
	      const sigset_t *mask)
{
	uint64_t start = ts ? now_ns() : 0;
	const struct timespec *wait = ts;
	struct timespec left;

	for (;;) {
		int r = below_ppoll(fds, n, wait, mask);

		if (r > 0)
			r = screen_poll(fds, n, r);
		else
			return r;
		if (r || is_over(wait))
			return r;
		wait = time_left(ts, start, &left);
	}
}

/* The sets of a select() call as the program gave them. */
struct fd_sets {
	fd_set *set[3];
	fd_mask *was[3];
	size_t bytes;
	fd_mask on_stack[3][FD_SETSIZE / NFDBITS];
	void *heap;
};

static bool sets_save(struct fd_sets *s, int n, fd_set *r, fd_set *w, fd_set *e)
{
	s->set[0] = r;
	s->set[1] = w;
	s->set[2] = e;
	s->bytes = ((size_t)n + NFDBITS - 1) / NFDBITS * sizeof(fd_mask);
	s->heap = NULL;
	if (n > FD_SETSIZE && !(s->heap = malloc(3 * s->bytes)))
		return false;
	for (int i = 0; i < 3; i++) {
		s->was[i] = s->heap
				? (fd_mask *)((char *)s->heap + i * s->bytes)
				: s->on_stack[i];
		if (s->set[i])
			memcpy(s->was[i], s->set[i], s->bytes);
	}
	return true;
}

static void sets_restore(const struct fd_sets *s)
{
	for (int i = 0; i < 3; i++)
		if (s->set[i])
			memcpy(s->set[i], s->was[i], s->bytes);
}

static int screen_select(int n, fd_set *r, int n_ready)
{
	for (int fd = 0; r && fd < n; fd++) {
		fd_mask *word = &r->fds_bits[fd / NFDBITS];
		fd_mask bit = (fd_mask)(1UL << (fd % NFDBITS));

		if (!(*word & bit) || is_readable(fd, true))
			continue;
		*word &= ~bit;
		n_ready--;
	}
	return n_ready;
}

int vma_pselect(int n, fd_set *r, fd_set *w, fd_set *e,
		const struct timespec *ts, const sigset_t *mask)
{
	uint64_t start = ts ? now_ns() : 0;
	const struct timespec *wait = ts;
	struct timespec left;
	struct fd_sets s;

	if (n < 0 || (r && is_bad_ptr(r)) || (w && is_bad_ptr(w)) ||
	    (e && is_bad_ptr(e)) || !sets_save(&s, n, r, w, e))
		return below_pselect(n, r, w, e, ts, mask);
	for (;;) {
		int got = below_pselect(n, r, w, e, wait, mask);

		if (got <= 0) {
			free(s.heap);
			return got;
		}
		got = screen_select(n, r, got);
		if (got || is_over(wait)) {
			free(s.heap);
			return got;
		}
		sets_restore(&s);
		wait = time_left(ts, start, &left);
	}
}

/* Do all descriptors that the event may be about have a callback, and nothing to read?  A
 * set disarms a descriptor with EPOLLONESHOT when it reports it.  If the program does not
 * get the event, this arms it again. */
static bool is_empty_event(int epfd, const struct epoll_event *ev)
{
	struct epset_found found[EPSET_SAME_MAX];
	unsigned n = epset_find(epfd, ev->data.u64, found);

	for (unsigned i = 0; i < n; i++)
		if (is_readable(found[i].fd, false))
			return false;
	for (unsigned i = 0; i < n && !(ev->events & ~(uint32_t)IN); i++) {
		struct epoll_event again = { found[i].events, ev->data };

		if (again.events & EPOLLONESHOT)
			below_epoll_ctl(epfd, EPOLL_CTL_MOD, found[i].fd,
					&again);
	}
	return n;
}

static int screen_epoll(int epfd, struct epoll_event *evs, int n)
{
	int kept = 0;

	for (int i = 0; i < n; i++) {
		struct epoll_event ev = evs[i];

		if (ev.events & IN && !(ev.events & EPOLLERR) &&
		    is_empty_event(epfd, &ev))
			ev.events &= ~(uint32_t)IN;
		if (ev.events)
			evs[kept++] = ev;
	}
	return kept;
}

int vma_epoll_pwait2(int epfd, struct epoll_event *evs, int n,
		     const struct timespec *ts, const sigset_t *mask)
{
	uint64_t start = ts ? now_ns() : 0;
	const struct timespec *wait = ts;
	struct timespec left;
	int saved = errno;

	for (;;) {
		int r = below_epoll_pwait2(epfd, evs, n, wait, mask);

		if (r <= 0)
			return r;
		r = screen_epoll(epfd, evs, r);
		errno = saved;
		if (r || is_over(wait))
			return r;
		wait = time_left(ts, start, &left);
	}
}
