/* SPDX-License-Identifier: MIT */
/* group/wake.c - see group/wake.h */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "base/fds.h"
#include "base/libc.h"
#include "group/handle.h"
#include "group/wake.h"

static struct lock
    handles; /* group.handle, for those who do not own the group */

/* Something that is always ready, for any group's set. */
static int bell_fd(void)
{
	static struct lock lock;
	static int fd = -1;
	GUARD(&lock);

	if (fd < 0)
		fd = fds_hide(eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC));
	return fd;
}

static void ring(const struct group *g)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLONESHOT };
	int saved = errno, fd = bell_fd();

	if (fd >= 0 && libc.epoll_ctl(g->epfd, EPOLL_CTL_ADD, fd, &ev) < 0 &&
	    errno == EEXIST)
		libc.epoll_ctl(g->epfd, EPOLL_CTL_MOD, fd, &ev);
	errno = saved;
}

void group_wake(struct group *g)
{
	GUARD(&handles);
	if (load_rlx(&g->handle) != HANDLE_NONE)
		ring(g);
}

void group_wake_end(struct group *g)
{
	GUARD(&handles);
	store_rlx(&g->handle, HANDLE_NONE);
}

void group_wake_after_fork(void) { handles = (struct lock){ 0 }; }
