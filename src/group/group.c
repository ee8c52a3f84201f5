/* SPDX-License-Identifier: MIT */
/* group/group.c - the life of groups, and of the process; see group/group.h */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/fds.h"
#include "base/fork_lock.h"
#include "base/libc.h"
#include "base/log.h"
#include "base/nocancel.h"
#include "group/end.h"
#include "group/handle.h"
#include "group/txop.h"
#include "group/wake.h"
#include "ops/port.h"

static struct lock lock; /* the lists, and is_ready */
static struct group *groups, *free_groups;
static bool is_ready;

/*
 * Enter a group.  If the program asked for it, take a recursive lock, because
 * callbacks use the group too.  Otherwise a second thread is an error of the
 * program's.
 */
static void enter(struct group *g)
{
	if (g->attr.is_locked) {
		if (load_rlx(&g->lock_tid) != lock_self()) {
			lock_get(&g->lock);
			store_rlx(&g->lock_tid, lock_self());
		}
		g->lock_depth++;
		return;
	}
#ifdef OSF_DEBUG
	uint32_t tid = lock_self();

	if (load_rlx(&g->inside) != tid && !cas(&g->inside, 0u, tid)) {
		static const char text[] =
		    "osf: two threads are inside one poll group\n";

		if (nocancel_write(2, text, sizeof(text) - 1) < 0)
			log_err("%s", text);
		abort();
	}
	g->n_inside++;
#endif
}

void group_leave(struct group *g)
{
	if (!g)
		return;
	if (g->attr.is_locked) {
		if (--g->lock_depth)
			return;
		store_rlx(&g->lock_tid, 0u);
		lock_put(&g->lock);
		return;
	}
#ifdef OSF_DEBUG
	if (!--g->n_inside)
		store_rel(&g->inside, 0u);
#endif
}

struct group *group_enter(uintptr_t handle)
{
	struct group *g = handle_get(handle, HANDLE_GROUP);

	if (unlikely(!g))
		return NULL;
	enter(g);
	if (likely(load_rlx(&g->handle) == handle))
		return g;
	group_leave(g); /* destroyed while we waited for the lock */
	return NULL;
}

struct gsock *gsock_enter(uintptr_t handle, struct group **group)
{
	struct gsock *s = handle_get(handle, HANDLE_SOCK);

	if (unlikely(!s))
		return NULL;
	struct group *g = load_rlx(&s->group);
	*group = g;
	if (unlikely(!g))
		return s;
	enter(g);
	if (likely(load_rlx(&s->handle) == handle && s->group == g))
		return s;
	group_leave(g);
	return NULL;
}

/* In the child the parent's groups are gone.  Close the copies of their
 * descriptors, which would keep connections open. */
static void after_fork(void)
{
	lock = (struct lock){ 0 };
	for (struct group *g = groups; g; g = g->next) {
		for (struct list *l = g->all.next; l != &g->all; l = l->next) {
			struct gsock *s = container_of(l, struct gsock, all);

			nocancel_close(s->fd);
			if (!s->sk)
				continue;
			int32_t fds[OPS_UPGRADE_FDS];

			ops_upgrade_fds(s->sk, fds);
			for (int i = 0; i < OPS_UPGRADE_FDS; i++)
				fds_close(fds[i]);
			if (s->sk->announce_fd > 0)
				fds_close(s->sk->announce_fd);
			if (sock_ops(s->sk)->in_process)
				sock_ops(s->sk)->after_fork(s->sk);
		}
		nocancel_close(g->epfd);
		fds_close(g->timer_fd);
	}
	groups = free_groups = NULL;
	is_ready = false;
	group_wake_after_fork();
	handle_after_fork();
	gsocks_after_fork();
	txops_after_fork();
	buf_after_fork();
}

/* Other threads may be inside: nothing is taken away, and a list may change meanwhile. */
static void for_all_moved(void (*call)(struct gsock *s, enum osf_reason why),
			  enum osf_reason why)
{
	if (!lock_try(&lock))
		return;
	for (struct group *g = groups; g; g = g->next) {
		uint32_t n = g->n_socks;

		for (struct list *l = g->all.next; n && l != &g->all;
		     l = l->next, n--) {
			struct gsock *s = container_of(l, struct gsock, all);

			if (s->sk)
				call(s, why);
		}
	}
	lock_put(&lock);
}

/* Those of a port, which is about to be dropped or to be lost by exec(). */
static void goes_back(struct gsock *s, enum osf_reason why)
{
	if (sock_ops(s->sk)->in_process)
		sock_ops(s->sk)->fallback(s->sk, s->fd, why);
}

static void leave_port(enum osf_reason why) { for_all_moved(goes_back, why); }

int groups_init(const struct group_memory *memory)
{
	static bool knows_of_forks;

	if (!memory->alloc != !memory->free)
		return -EINVAL;
	GUARD(&lock);
	if (is_ready)
		return memory->alloc ? -EEXIST : 0;
	if (!knows_of_forks)
		fork_lock_on_child(after_fork);
	port_on_leave(leave_port);
	knows_of_forks = true;
	buf_init(memory);
	is_ready = true;
	return 0;
}

bool groups_are_ready(void) { return load_rlx(&is_ready); }

static int open_set(struct group *g)
{
	int fd = libc.epoll_create1(EPOLL_CLOEXEC);

	if (fd < 0)
		return -errno;
	g->epfd = fd;
	return 0;
}

/* A group is never freed: others may look at one that has gone. */
static struct group *group_alloc(void)
{
	GUARD(&lock);
	struct group *g = free_groups;

	if (g)
		free_groups = g->next;
	else
		g = calloc(1, sizeof(*g));
	return g;
}

static void group_release(struct group *g)
{
	GUARD(&lock);
	g->next = free_groups;
	free_groups = g;
}

/* Called by the thread that notified a socket, which may be another one. */
static void on_notified(struct ready_set *rs)
{
	struct group *g = container_of(rs, struct group, rs);

	if (load_rlx(&g->is_armed))
		group_wake(g);
}

int group_create(const struct group_attr *attr, uintptr_t *out)
{
	if (!attr->calls.event)
		return -EINVAL;
	struct group *g = group_alloc();
	if (!g)
		return -ENOMEM;
	memset(g, 0, sizeof(*g));
	g->attr = *attr;
	g->epfd = g->timer_fd = g->idle_fd = -1;
	ready_init(&g->rs, on_notified);
	list_init(&g->all);
	list_init(&g->work);
	list_init(&g->acks);
	list_init(&g->dirty);
	list_init(&g->lent);
	int err = open_set(g);
	if (!err) {
		g->handle = handle_new(g, HANDLE_GROUP);
		err = g->handle ? 0 : -ENOMEM;
	}
	if (err) {
		if (g->epfd >= 0)
			nocancel_close(g->epfd);
		group_release(g);
		return err;
	}
	*out = g->handle;
	GUARD(&lock);
	g->next = groups;
	groups = g;
	return 0;
}

static void unlist(struct group *g)
{
	GUARD(&lock);
	for (struct group **pg = &groups; *pg; pg = &(*pg)->next)
		if (*pg == g) {
			*pg = g->next;
			return;
		}
}

int group_destroy(struct group *g)
{
	if (g->in_turn)
		return -EBUSY;
	g->in_turn = true; /* its callbacks may not turn it */
	/* A callback may make another one, or move one here. */
	while (!list_is_empty(&g->all))
		gsock_terminate(g,
				container_of(g->all.next, struct gsock, all));
	handle_free(g->handle);
	group_wake_end(g);
	unlist(g);
	ready_close(&g->rs);
	fds_close(g->timer_fd);
	nocancel_close(g->epfd);
	txops_fini(g);
	pool_fini(&g->pool);
	g->in_turn = false;
	group_leave(g);
	group_release(g);
	return 0;
}

int group_update(struct group *g, const struct group_attr *attr)
{
	if (attr->is_locked != g->attr.is_locked ||
	    attr->keeps_dirty != g->attr.keeps_dirty || !attr->calls.event)
		return -EINVAL;
	g->attr = *attr;
	return 0;
}

int groups_exit(void)
{
	for (struct group *g = groups; g; g = g->next)
		if (g->in_turn)
			return -EBUSY;
	while (groups) {
		struct group *g = group_enter(groups->handle);

		int err = group_destroy(g);
		assert(!err);
	}
	GUARD(&lock);
	if (is_ready)
		buf_fini();
	is_ready = false;
	return 0;
}

static void exits(struct gsock *s, enum osf_reason why)
{
	if (s->is_direct || sock_ops(s->sk)->in_process)
		sock_ops(s->sk)->exit(s->sk, s->fd);
}

void groups_at_exit(void) { for_all_moved(exits, OSF_REASON_NONE); }
