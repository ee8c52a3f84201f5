/* SPDX-License-Identifier: MIT */
/*
 * group/wait.c - a thread sleeps until its group has something to do
 *
 *     group_arm() -> 0: sleep on group_fd()  -> group_turn()
 *                 -> 1: turn again first
 *
 * The descriptor is the group's epoll set, with all its descriptors.  A peer in
 * shared memory wakes it through the anchor descriptor, once the protocol has
 * told the peer that we sleep.  For what only a clock shows (a due
 * acknowledgement, a deadline) there is a timer.  Another thread that has work
 * for the group rings a bell in its set.
 */
#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>

#include "base/clock.h"
#include "base/fds.h"
#include "base/libc.h"
#include "group/lent.h"
#include "group/ref.h"

#define TICK_NS (1 * NS_PER_MS)
#define LENT_TICK_NS (5 * NS_PER_MS) /* for lent.c, which looks twice */

int group_fd(const struct group *g) { return g->epfd; }

static int timer_open(struct group *g)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET };
	int fd = fds_hide(
	    timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));

	if (fd < 0)
		return -errno;
	if (libc.epoll_ctl(g->epfd, EPOLL_CTL_ADD, fd, &ev) < 0) {
		int err = -errno;

		fds_close(fd);
		return err;
	}
	g->timer_fd = fd;
	return 0;
}

/* A look in a moment.  False: no timer, so no sleep. */
static bool timer_set(struct group *g, uint64_t ns)
{
	struct itimerspec ts = { .it_value = ns_timespec(ns) };

	return (g->timer_fd >= 0 || !timer_open(g)) &&
	       !timerfd_settime(g->timer_fd, 0, &ts, NULL);
}

/* Does this socket wait for nothing but room, and will it be notified of that? */
static bool waits_for_room(struct gsock *s)
{
	return s->is_direct && s->is_blocked && s->sent != s->limit &&
	       !s->error && s->first == s->out &&
	       s->lend->arm_room(s->sk, s->fd, !s->watch.is_notified);
}

/* May there be something to receive, now or soon, of which nobody notifies us? */
static bool has_more(const struct gsock *s)
{
	return s->lend->ready(s->sk) ||
	       sock_ops(s->sk)->next_ns(s->sk) != UINT64_MAX;
}

int group_arm(struct group *g)
{
	bool ticks = !list_is_empty(&g->acks) || g->n_connecting;

	store_rlx(&g->is_armed, true);
	for (struct list *l = g->work.next; l != &g->work; l = l->next) {
		struct gsock *s = container_of(l, struct gsock, work);

		if (refs_are_waited_for(s))
			ticks = true;
		else if (!waits_for_room(s))
			return 1;
	}
	for (uint32_t i = 0; i < g->n_hot; i++) {
		struct gsock *s = g->hot[i].s;

		gsock_rest(s);
		s->lend->hot(s->sk, false);
	}
	if (!g->is_asleep)
		ready_sleep(&g->rs); /* it is asked once more, below */
	g->is_asleep = true;
	/* Dekker with peers that write to a hot socket, and with the callers of
	 * group_wake(). */
	fence_full();
	if (load_rlx(&g->has_returns))
		return 1;
	for (uint32_t i = 0; i < g->n_hot; i++)
		if (has_more(g->hot[i].s))
			return 1;
	if (ready_has_come(&g->rs))
		return 1;
	if (ticks && !timer_set(g, TICK_NS))
		return 1;
	if (!ticks && !list_is_empty(&g->lent) && !timer_set(g, LENT_TICK_NS))
		return 1;
	return 0;
}
