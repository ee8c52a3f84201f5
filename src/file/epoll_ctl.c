/* SPDX-License-Identifier: MIT */
/* file/epoll_ctl.c - adding to, changing and taking from a set; see file/epoll_set.h */
#include "file/epoll_set.h"

/* Entries whose firing we must see carry our tag from the start. */
static bool wants_tag(uint32_t events) { return events & EPOLLONESHOT; }

static int ctl_add(struct epoll *ep, struct file *f, int fd,
		   struct epoll_event *ev)
{
	bool merged = load_rlx(&f->merged) || f->kind == FILE_EPOLL;
	bool tagged = merged || wants_tag(ev->events);

	if (merged && ev->events & EPOLLEXCLUSIVE &&
	    ev->events & ~(uint32_t)(EPOLLIN | EPOLLOUT | EPOLLERR | EPOLLHUP |
				     EPOLLWAKEUP | EPOLLET | EPOLLEXCLUSIVE))
		return -EINVAL;
	struct epitem *it = item_new(ep, f, fd, ev);
	if (!it)
		return -ENOMEM;
	int err = kernel_ctl(ep, EPOLL_CTL_ADD, fd,
			     merged ? hint_events(ep) : ev->events,
			     tagged ? tag_of(it) : ev->data.u64);
	if (err) {
		item_drop(it);
		return err;
	}
	if (merged)
		item_merged(it);
	else if (tagged)
		item_tagged(it);
	return 0;
}

static int ctl_mod(struct epoll *ep, struct epitem *it, struct epoll_event *ev)
{
	if (it->merged) {
		if ((it->events | ev->events) & EPOLLEXCLUSIVE)
			return -EINVAL;
	} else {
		bool tagged = it->tagged || wants_tag(ev->events);
		int err = kernel_ctl(ep, EPOLL_CTL_MOD, it->fd, ev->events,
				     tagged ? tag_of(it) : ev->data.u64);
		if (err)
			return err;
		if (tagged)
			item_tagged(it);
	}
	it->events = ev->events;
	it->data = ev->data;
	it->disabled = false;
	it->fresh = true;
	if (it->merged) {
		push_ready(it);
		kick(ep);
	}
	return 0;
}

/*
 * Event loops take a socket out and put it back for every answer.  The kernel's
 * entry of an upgraded one is only a hint of ours, so it may stay, and so may the
 * slot: the item is parked until it comes back or the socket is closed.
 */
static int ctl_del(struct epoll *ep, struct epitem *it, int fd)
{
	if (it && it->merged && !is_child(it) && !ep->nested) {
		it->parked = true;
		list_del(&it->ready);
		return 0;
	}
	if (libc.epoll_ctl(ep->fd, EPOLL_CTL_DEL, fd, NULL) < 0)
		return -errno;
	if (it)
		item_drop(it);
	return 0;
}

static int ctl_unpark(struct epoll *ep, struct epitem *it,
		      struct epoll_event *ev)
{
	it->parked = false;
	if (ep->nested)
		kernel_ctl(ep, EPOLL_CTL_MOD, it->fd, hint_events(ep),
			   tag_of(it));
	it->events = ev->events;
	it->data = ev->data;
	it->disabled = false;
	it->fresh = true;
	push_ready(it);
	kick(ep);
	return 0;
}

static int ctl_locked(struct epoll *ep, struct file *f, int op, int fd,
		      struct epoll_event *ev)
{
	struct epitem *it = item_find(f, ep, fd);

	if (it && it->parked && op != EPOLL_CTL_ADD)
		return -ENOENT;
	if (op == EPOLL_CTL_DEL)
		return ctl_del(ep, it, fd);
	if (!ev)
		return -EFAULT;
	if (it && it->parked)
		return ctl_unpark(ep, it, ev);
	if (op == EPOLL_CTL_ADD && !it)
		return ctl_add(ep, f, fd, ev);
	if (op == EPOLL_CTL_MOD && it)
		return ctl_mod(ep, it, ev);
	/* Added before we knew it, or an error: the kernel decides. */
	return libc.epoll_ctl(ep->fd, op, fd, ev) < 0 ? -errno : 0;
}

/* A set inside another: its entries must be visible to the kernel's poll. */
static void epoll_nest(struct file *fe)
{
	struct epoll *ep = fe->ep;

	GUARD(&ep->lock);
	if (ep->nested)
		return;
	ep->nested = true;
	for (uint32_t i = 0; i < ep->n_items; i++) {
		struct epitem *it = ep->items[i];

		if (!it->in_use || !it->merged || is_child(it))
			continue;
		if (it->parked) {
			/* Its doorbells must not make the set look ready; its
			 * number may have become another's meanwhile. */
			if ((table_load(it->fd) & ~FILE_PASS) ==
			    (uintptr_t)it->file)
				kernel_ctl(ep, EPOLL_CTL_MOD, it->fd, EPOLLET,
					   tag_of(it));
			continue;
		}
		kernel_ctl(ep, EPOLL_CTL_MOD, it->fd, hint_events(ep),
			   tag_of(it));
		item_close_slot(it);
		push_ready(it);
	}
}

int epoll_file_ctl(int epfd, struct file *fe, int op, int fd,
		   struct epoll_event *ev)
{
	struct file *f = file_get_any(fd);
	int err;

	if (!f || file_is_passed(fd) || f == fe) {
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
			file_settle(f, fd);
		GUARD(&f->lock);
		GUARD(&fe->ep->lock);
		err = ctl_locked(fe->ep, f, op, fd, ev);
	}
	if (f)
		file_put(f);
	return err;
}

void epoll_sleeping(struct file *fe) { epoll_nest(fe); }
