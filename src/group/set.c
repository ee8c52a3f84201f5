/* SPDX-License-Identifier: MIT */
/* group/set.c - see group/set.h */
#include <errno.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "base/idle.h"
#include "base/libc.h"
#include "group/set.h"
#include "ops/ops.h"

/* A hot one without news for so many turns gives its place to one with news. */
#define HOT_IDLE_TURNS 1024u

int set_add(struct gsock *s)
{
	struct epoll_event ev = { .events =
				      EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
				  .data.u64 = s->handle };

	if (s->is_in_set)
		return 0;
	if (libc.epoll_ctl(s->group->epfd, EPOLL_CTL_ADD, s->fd, &ev) < 0)
		return -errno;
	s->is_in_set = 1;
	s->group->n_empty = 0;
	return 0;
}

void set_idle(struct group *g)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET,
				  .data.u64 = SET_IDLE };
	uint32_t number = 0;
	int fd = idle_fd(&number);

	if (fd < 0 || (fd == g->idle_fd && number == g->idle_number))
		return;
	g->idle_fd = fd;
	g->idle_number = number;
	libc.epoll_ctl(g->epfd, EPOLL_CTL_ADD, fd, &ev);
}

/*
 * A group need not guess when to look: its epoll set reports when the peer
 * accepts the proposal and when the segment arrives.
 */
void set_watch(struct gsock *s)
{
	int32_t fds[OPS_UPGRADE_FDS];

	ops_upgrade_fds(s->sk, fds);
	for (int i = 0; i < OPS_UPGRADE_FDS; i++) {
		struct epoll_event ev = { .events = EPOLLIN | EPOLLET,
					  .data.u64 = s->handle | SET_UPGRADE };

		if (fds[i] == s->watched[i])
			continue;
		s->watched[i] = fds[i];
		if (fds[i] > 0)
			libc.epoll_ctl(s->group->epfd, EPOLL_CTL_ADD, fds[i],
				       &ev);
	}
}

void set_drop(struct gsock *s)
{
	int32_t fds[OPS_UPGRADE_FDS] = { 0 };

	if (s->sk)
		ops_upgrade_fds(s->sk, fds);
	for (int i = 0; i < OPS_UPGRADE_FDS; i++) {
		/* One that was closed is in no set, and its number another's. */
		if (s->watched[i] > 0 && s->watched[i] == fds[i])
			libc.epoll_ctl(s->group->epfd, EPOLL_CTL_DEL,
				       s->watched[i], NULL);
		s->watched[i] = -1;
	}
	if (s->is_in_set)
		libc.epoll_ctl(s->group->epfd, EPOLL_CTL_DEL, s->fd, NULL);
	s->is_in_set = 0;
}

/* It is not asked in each turn any more, so somebody has to tell. */
void hot_arm(struct gsock *s)
{
	s->lend->hot(s->sk, false);
	fence_full();
	if (s->lend->ready(s->sk))
		work_add(s);
}

void hot_drop(struct gsock *s)
{
	struct group *g = s->group;
	int i = s->hot;

	if (i < 0)
		return;
	s->hot = -1;
	g->hot[i] = g->hot[--g->n_hot];
	if ((uint32_t)i < g->n_hot)
		g->hot[i].s->hot = i;
	if (s->is_direct)
		hot_arm(s);
}

void hot_add(struct group *g, struct gsock *s)
{
	if (s->hot >= 0) {
		g->hot[s->hot].idle = 0;
		return;
	}
	if (g->n_hot == HOT_MAX) {
		uint32_t oldest = 0;

		for (uint32_t i = 1; i < HOT_MAX; i++)
			if (g->hot[i].idle > g->hot[oldest].idle)
				oldest = i;
		if (g->hot[oldest].idle < HOT_IDLE_TURNS)
			return;
		hot_drop(g->hot[oldest].s);
	}
	s->hot = (int32_t)g->n_hot;
	g->hot[g->n_hot++] = (struct hot){ .s = s };
	s->lend->hot(s->sk, true);
}

void deadline_set(struct gsock *s)
{
	if (!s->user_timeout_ms)
		return;
	s->deadline_ns = now_ns() + s->user_timeout_ms * NS_PER_MS;
	s->group->n_connecting++;
}

void deadline_clear(struct gsock *s)
{
	if (s->deadline_ns)
		s->group->n_connecting--;
	s->deadline_ns = 0;
}

void gsock_unlist(struct gsock *s)
{
	struct group *g = s->group;

	if (!g)
		return;
	deadline_clear(s);
	set_drop(s);
	hot_drop(s);
	watch_close(s->sk, &s->watch);
	list_del(&s->all);
	list_del(&s->work);
	list_del(&s->acks);
	list_del(&s->dirty);
	list_del(&s->lent);
	g->n_socks--;
	if (g->current == s)
		g->current = NULL;
	s->calls = g->attr.calls;
	store_rlx(&s->group, NULL);
}
