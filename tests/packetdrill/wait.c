/* SPDX-License-Identifier: MIT */
/*
 * tests/packetdrill/wait.c - poll() and epoll, over our sockets and the kernel's files
 *
 * An epoll set is one of the kernel's, which holds the kernel's descriptors, and a list
 * of our watches.  For edges we look at each watch after everything that happens: a new
 * event is an edge, and so are more bytes to read.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "host.h"

static uint64_t timeout_end(struct host *h, int timeout_ms)
{
	return timeout_ms < 0 ? NEVER
			      : host_now(h) + (uint64_t)timeout_ms * NS_PER_MS;
}

/* --- poll --- */

static short look(struct host *h, const struct pollfd *p)
{
	struct file *f = file_get(h, p->fd, FILE_SOCKET);

	if (p->fd < 0)
		return 0;
	if (f) {
		int ev = h->b.ops->poll(h->b.self, f->sock, p->events);

		return ev < 0 ? POLLNVAL : (short)ev;
	}
	struct pollfd one = { .fd = p->fd, .events = p->events };
	return poll(&one, 1, 0) > 0 ? one.revents : 0;
}

int pd_poll(struct host *h, struct pollfd *fds, nfds_t n, int timeout_ms)
{
	uint64_t until = timeout_end(h, timeout_ms);

	for (;;) {
		int found = 0;

		for (nfds_t i = 0; i < n; i++) {
			fds[i].revents = look(h, &fds[i]);
			found += !!fds[i].revents;
		}
		if (found || !timeout_ms || host_wait(h, until))
			return found;
	}
}

/* --- epoll --- */

int pd_epoll_create(struct host *h, int size)
{
	struct file *f;

	if (size <= 0)
		return -EINVAL;
	int fd = file_new(h, FILE_EPOLL, epoll_create1(EPOLL_CLOEXEC), &f);
	if (fd < 0)
		return fd;
	f->watches = calloc(WATCHES_MAX, sizeof(*f->watches));
	if (!f->watches) {
		pd_close(h, fd);
		return -ENOMEM;
	}
	for (unsigned i = 0; i < WATCHES_MAX; i++)
		f->watches[i].fd = -1;
	return fd;
}

static struct watch *watch_find(const struct file *ep, int fd)
{
	for (unsigned i = 0; i < WATCHES_MAX; i++)
		if (ep->watches[i].fd == fd)
			return &ep->watches[i];
	return NULL;
}

static void watch_look(struct host *h, struct watch *w)
{
	int sock = h->files[w->fd].sock, n_readable = 0;
	int ev = h->b.ops->poll(h->b.self, sock, (short)(w->events & 0x7fff));

	if (h->b.ops->ioctl(h->b.self, sock, FIONREAD, &n_readable))
		n_readable = 0;
	uint32_t now = ev > 0 ? (uint32_t)ev : 0;
	w->is_new |= (now & ~w->seen) || n_readable > w->n_readable;
	w->seen = now;
	w->n_readable = n_readable;
}

void epoll_look(struct host *h)
{
	for (int fd = 0; fd < FILES_MAX; fd++) {
		struct file *ep = &h->files[fd];

		if (ep->kind != FILE_EPOLL)
			continue;
		for (unsigned i = 0; i < WATCHES_MAX; i++)
			if (ep->watches[i].fd >= 0)
				watch_look(h, &ep->watches[i]);
	}
}

/* Removes all watches of a descriptor that is gone. */
void epoll_forget(struct host *h, int fd)
{
	for (int i = 0; i < FILES_MAX; i++) {
		struct watch *w = h->files[i].kind == FILE_EPOLL
				      ? watch_find(&h->files[i], fd)
				      : NULL;
		if (w)
			w->fd = -1;
	}
}

static int watch_set(struct host *h, struct watch *w, int fd,
		     const struct epoll_event *ev)
{
	*w = (struct watch){
		.fd = fd, .events = ev->events, .data = ev->data, .is_new = true
	};
	watch_look(h, w);
	w->is_new = true;
	return 0;
}

int pd_epoll_ctl(struct host *h, int epfd, int op, int fd,
		 struct epoll_event *ev)
{
	struct file *ep = file_get(h, epfd, FILE_EPOLL);

	if (!ep || !file_get(h, fd, FILE_SOCKET))
		return epoll_ctl(epfd, op, fd, ev) ? -errno : 0;
	if (op != EPOLL_CTL_DEL && !ev)
		return -EFAULT;
	struct watch *w = watch_find(ep, fd);
	switch (op) {
	case EPOLL_CTL_ADD:
		if (w)
			return -EEXIST;
		w = watch_find(ep, -1);
		return w ? watch_set(h, w, fd, ev) : -ENOSPC;
	case EPOLL_CTL_MOD:
		return w ? watch_set(h, w, fd, ev) : -ENOENT;
	case EPOLL_CTL_DEL:
		if (!w)
			return -ENOENT;
		w->fd = -1;
		return 0;
	}
	return -EINVAL;
}

static bool watch_report(struct host *h, struct watch *w,
			 struct epoll_event *out)
{
	watch_look(h, w);
	if (w->is_off || !w->seen || (w->events & EPOLLET && !w->is_new))
		return false;
	*out = (struct epoll_event){ .events = w->seen, .data = w->data };
	w->is_new = false;
	w->is_off = w->events & EPOLLONESHOT;
	return true;
}

static int epoll_collect(struct host *h, struct file *ep, int epfd,
			 struct epoll_event *evs, int max)
{
	int n = epoll_wait(epfd, evs, max, 0);

	if (n < 0)
		return -errno;
	for (unsigned i = 0; i < WATCHES_MAX && n < max; i++)
		if (ep->watches[i].fd >= 0 &&
		    watch_report(h, &ep->watches[i], &evs[n]))
			n++;
	return n;
}

int pd_epoll_wait(struct host *h, int epfd, struct epoll_event *evs, int max,
		  int timeout_ms)
{
	uint64_t until = timeout_end(h, timeout_ms);

	for (;;) {
		struct file *ep = file_get(h, epfd, FILE_EPOLL);

		if (!ep)
			return epoll_wait(epfd, evs, max, 0) < 0 ? -errno
								 : -EINVAL;
		int n = epoll_collect(h, ep, epfd, evs, max);
		if (n || !timeout_ms || host_wait(h, until))
			return n;
	}
}
