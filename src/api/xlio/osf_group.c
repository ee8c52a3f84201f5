/* SPDX-License-Identifier: MIT */
/*
 * api/xlio/osf_group.c - what osf adds to the XLIO socket API: see osf/group.h
 *
 * A poll that counts, a descriptor to sleep on, a wait with a timeout, and memory that
 * is sent without a copy.  Each call returns a negative errno and leaves errno alone.
 */
#include <errno.h>
#include <poll.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/libc.h"
#include "group/group.h"
#include "group/memory.h"
#include "osf/group.h"
#include "sock/sleep.h"
#include "sock/wait.h"

OSF_API int osf_group_poll(xlio_poll_group_t group)
{
	struct group *g = group_enter(group);
	int saved = errno, r = g ? group_turn(g) : -EINVAL;

	group_leave(g);
	errno = saved;
	return r;
}

OSF_API int osf_group_fd(xlio_poll_group_t group)
{
	struct group *g = group_enter(group);
	int fd = g ? group_fd(g) : -EINVAL;

	group_leave(g);
	return fd;
}

OSF_API int osf_group_arm(xlio_poll_group_t group)
{
	struct group *g = group_enter(group);
	int saved = errno, r = g ? group_arm(g) : -EINVAL;

	group_leave(g);
	errno = saved;
	return r;
}

OSF_API void *osf_mem_alloc(size_t size) { return memory_alloc(size); }

OSF_API void osf_mem_free(void *p) { memory_free(p); }

/* A thread that waits for a group: see sock/wait.h. */
struct group_wait {
	struct wait wait;
	struct sleeper sleeper;
	xlio_poll_group_t group;
	int armed; /* as osf_group_arm() has answered */
};

static struct group_wait *group_wait_of(struct wait *w)
{
	return container_of(w, struct group_wait, wait);
}

static void group_begin(struct wait *w)
{
	struct group_wait *me = group_wait_of(w);

	me->armed = osf_group_arm(me->group);
}

static bool group_look(struct wait *w) { return group_wait_of(w)->armed; }

static int group_sleep(struct wait *w, const struct timespec *left)
{
	struct group_wait *me = group_wait_of(w);
	struct pollfd fds[1 + SLEEP_EXTRA] = { { .fd = osf_group_fd(me->group),
						 .events = POLLIN } };

	return MIN(sleep_poll(&me->sleeper, fds, 1, left, NULL), 0);
}

static void group_end(struct wait *w) {} /* the next turn disarms it */

OSF_API int osf_group_wait(xlio_poll_group_t group, int timeout_ms)
{
	static const struct wait_ops ops = { .begin = group_begin,
					     .look = group_look,
					     .sleep = group_sleep,
					     .end = group_end };
	struct group_wait me = { .wait = { .ops = &ops,
					   .deadline_ns = UINT64_MAX,
					   .seen = handlers_seen() },
				 .group = group };
	int saved = errno;

	if (timeout_ms > 0)
		me.wait.deadline_ns =
		    now_ns() + (uint64_t)timeout_ms * NS_PER_MS;
	sleeper_init(&me.sleeper);
	for (;;) {
		int r = osf_group_poll(group);

		if (r || !timeout_ms)
			return r;
		r = wait_step(&me.wait);
		errno = saved;
		if (r || me.armed < 0)
			return r == -EAGAIN ? 0 : r ? r : me.armed;
	}
}
