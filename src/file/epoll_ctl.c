/* SPDX-License-Identifier: MIT */
/* file/epoll_ctl.c - adding to, changing and taking from a set; see file/epoll_set.h */
#include "file/epoll_set.h"
#include "file/hold.h"
#include "ops/ops.h"

/*
 * If we must see the entry fire, the kernel gets our tag from the start.  A
 * process that shares the set by fork() could not read the tag.  In a shared
 * set the kernel keeps the program's data, and the connection stays on TCP.
 */
static bool wants_tag(const struct epoll *ep, struct file *f, uint32_t events)
{
	if (likely(!(events & EPOLLONESHOT)))
		return false;
	if (likely(!ep->forked && !hold_any()))
		return true;
	if (f->kind == FILE_SOCK &&
	    ops_keep_kernel(f->sk, OSF_REASON_FORKED_SET))
		file_pass(f);
	return false;
}

static int ctl_add(struct epoll *ep, struct file *f, int fd,
		   struct epoll_event *ev)
{
	bool merged = load_rlx(&f->merged) || f->kind == FILE_EPOLL;
	bool tagged = merged || wants_tag(ep, f, ev->events);

	struct epitem *it = item_new(ep, f, fd, ev);
	if (!it)
		return -ENOMEM;
	if (tagged)
		item_tagged(it);
	int err = kernel_ctl(ep, EPOLL_CTL_ADD, fd,
			     merged ? anchor_events(it) : ev->events,
			     tagged ? tag_of(it) : ev->data.u64);
	if (err) {
		item_drop(it);
		return err;
	}
	if (merged)
		item_merged(it);
	return 0;
}

/* An entry that the kernel serves. */
static int ctl_mod_kernel(struct epoll *ep, struct epitem *it,
			  const struct epoll_event *ev)
{
	uint32_t before = it->generation;

	if (it->tagged || wants_tag(ep, it->file, ev->events)) {
		it->generation = item_generation(ep);
		item_tagged(it);
	}
	int err = kernel_ctl(ep, EPOLL_CTL_MOD, it->fd, ev->events,
			     it->tagged ? tag_of(it) : ev->data.u64);
	if (err)
		it->generation = before;
	return err;
}

static int ctl_mod(struct epoll *ep, struct epitem *it, struct epoll_event *ev)
{
	if (it->merged) {
		if (it->events & EPOLLEXCLUSIVE)
			return -EINVAL;
	} else {
		int err = ctl_mod_kernel(ep, it, ev);

		if (err)
			return err;
	}
	uint32_t watched = anchor_events(it);
	it->events = ev->events;
	it->data = ev->data;
	it->disabled = false;
	it->fresh = true;
	if (it->merged) {
		it->asks_room = false; /* it may not ask any more */
		if (unlikely(anchor_events(it) != watched))
			item_watch_anchor(it);
		push_ready(it);
		kick(ep);
	}
	return 0;
}

/*
 * Event loops remove a socket and add it again for every answer.  The kernel's
 * entry of an upgraded socket tells only us of its anchor, so the entry and the
 * watch may stay: park the item until the program adds it again or closes the socket.
 */
static int ctl_del(struct epoll *ep, struct epitem *it, int fd)
{
	if (it && it->merged && !is_child(it) && !ep->nested) {
		it->parked = true;
		list_del(&it->ready);
		return 0;
	}
	if (libc.epoll_ctl(load_rlx(&ep->fd), EPOLL_CTL_DEL, fd, NULL) < 0)
		return -errno;
	if (it)
		item_drop(it);
	return 0;
}

static int ctl_unpark(struct epoll *ep, struct epitem *it,
		      struct epoll_event *ev)
{
	it->parked = false;
	it->asks_room = false;
	it->disabled = false;
	it->events = ev->events;
	it->data = ev->data;
	if (ep->nested)
		kernel_ctl(ep, EPOLL_CTL_MOD, it->fd, anchor_events(it),
			   tag_of(it));
	it->fresh = true;
	push_ready(it);
	kick(ep);
	return 0;
}

#define EXCLUSIVE_MAY                                                          \
	((uint32_t)(EPOLLIN | EPOLLOUT | EPOLLERR | EPOLLHUP | EPOLLWAKEUP |   \
		    EPOLLET | EPOLLEXCLUSIVE))

/* The kernel refuses these flags before it looks at the set: epoll_ctl(2),
 * EINVAL.  We check them here because the entry that we pass on may lack
 * EPOLLEXCLUSIVE. */
static bool is_bad_exclusive(const struct file *f, int op, uint32_t events)
{
	if (likely(!(events & EPOLLEXCLUSIVE)) || op == EPOLL_CTL_DEL)
		return false;
	return op == EPOLL_CTL_MOD || f->kind == FILE_EPOLL ||
	       events & ~EXCLUSIVE_MAY;
}

static int ctl_locked(struct epoll *ep, struct file *f, int op, int fd,
		      struct epoll_event *ev)
{
	struct epitem *it = item_find(f, ep, fd);

	if (it && it->parked && op == EPOLL_CTL_DEL)
		return -ENOENT;
	if (op == EPOLL_CTL_DEL)
		return ctl_del(ep, it, fd);
	if (!ev)
		return -EFAULT;
	if (is_bad_exclusive(f, op, ev->events))
		return -EINVAL;
	if (it && it->parked && op == EPOLL_CTL_MOD)
		return -ENOENT;
	if (it && it->parked)
		return ctl_unpark(ep, it, ev);
	if (op == EPOLL_CTL_ADD && !it)
		return ctl_add(ep, f, fd, ev);
	if (op == EPOLL_CTL_MOD && it)
		return ctl_mod(ep, it, ev);
	/* Added before we knew it, or an error: the kernel decides. */
	return libc.epoll_ctl(load_rlx(&ep->fd), op, fd, ev) < 0 ? -errno : 0;
}

/* A set inside another: its entries must be visible to the kernel's poll. */
static void epoll_nest(struct file *fe)
{
	struct epoll *ep = fe->ep;

	GUARD(&ep->lock);
	if (ep->nested)
		return;
	ep->nested = ep->rs.by_fd = true;
	epoll_drop_bell(ep);
	for (uint32_t i = 0; i < ep->n_items; i++) {
		struct epitem *it = ep->items[i];

		if (!it->in_use || !it->merged || is_child(it))
			continue;
		if (it->parked) {
			/* A doorbell of a parked item must not make the set
			 * readable.  By now the number may name another file.
			 */
			if (file_is_at(it->file, it->fd))
				kernel_ctl(ep, EPOLL_CTL_MOD, it->fd, EPOLLET,
					   tag_of(it));
			continue;
		}
		kernel_ctl(ep, EPOLL_CTL_MOD, it->fd, anchor_events(it),
			   tag_of(it));
		watch_by_fd(it->file->sk, &it->watch);
		push_ready(it);
	}
}

int epoll_file_ctl(int epfd, struct file *fe, int op, int fd,
		   struct epoll_event *ev)
{
	struct file *f = file_get_any(fd);
	int err;

	if (unlikely(load_rlx(&fe->ep->fd) < 0))
		epoll_adopt(fe, epfd);
	if (!f || file_is_passthrough(fd) || f == fe) {
		err = libc.epoll_ctl(epfd, op, fd, ev) < 0 ? -errno : 0;
		/* It may have been ours when it was added. */
		if (f && f != fe && op == EPOLL_CTL_DEL && !err) {
			GUARD(&f->lock);
			GUARD(&fe->ep->lock);
			struct epitem *it = item_find(f, fe->ep, fd);
			if (it)
				item_drop(it);
		}
	} else {
		if (f->kind == FILE_EPOLL && op == EPOLL_CTL_ADD)
			epoll_nest(f);
		if (f->kind == FILE_SOCK && !load_rlx(&f->merged))
			file_sync(f, fd);
		GUARD(&f->lock);
		GUARD(&fe->ep->lock);
		err = ctl_locked(fe->ep, f, op, fd, ev);
	}
	if (f)
		file_put(f);
	return err;
}

void epoll_sleeping(struct file *fe) { epoll_nest(fe); }
