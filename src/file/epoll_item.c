/* SPDX-License-Identifier: MIT */
/* file/epoll_item.c - see file/epoll_set.h */
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/bell.h"
#include "base/fds.h"
#include "base/idle.h"
#include "base/nocancel.h"
#include "file/epoll_set.h"

struct epitem *item_find(struct file *f, struct epoll *ep, int fd)
{
	for (struct epitem *it = f->items; it; it = it->next_of_sock)
		if (it->ep == ep && it->fd == fd)
			return it;
	return NULL;
}

/* Space for one more: a freed item, or a new one with the next number. */
static struct epitem *item_space(struct epoll *ep)
{
	struct epitem *it = ep->free_items;

	if (it) {
		ep->free_items = it->next_of_sock;
		return it;
	}
	if (ep->n_items == IDLE)
		return NULL;
	if (ep->n_items == ep->cap_items) {
		uint32_t cap = ep->cap_items ? ep->cap_items * 2 : 16;
		struct epitem **more = realloc(ep->items, cap * sizeof(*more));

		if (!more)
			return NULL;
		ep->items = more;
		ep->cap_items = cap;
	}
	it = malloc(sizeof(*it));
	if (!it)
		return NULL;
	it->idx = ep->n_items;
	ep->items[ep->n_items++] = it;
	return it;
}

uint32_t item_generation(struct epoll *ep)
{
	return ep->next_generation++ % TAG_GENERATIONS;
}

struct epitem *item_new(struct epoll *ep, struct file *f, int fd,
			const struct epoll_event *ev)
{
	struct epitem *it = item_space(ep);

	if (!it)
		return NULL;
	*it = (struct epitem){ .ep = ep,
			       .generation = item_generation(ep),
			       .file = f,
			       .fd = fd,
			       .idx = it->idx,
			       .events = ev->events,
			       .data = ev->data,
			       .in_use = true,
			       .next_of_sock = f->items };
	list_init(&it->ready);
	store_rlx(&f->items, it);
	return it;
}

/* As in the kernel, an item that was notified, or was reported and must be
 * checked again, keeps its place.  Any other item moves to the end. */
static void push_tail(struct epitem *it, struct list *to)
{
	if (it->queued && !list_is_empty(&it->ready))
		return;
	list_del(&it->ready);
	list_add_tail(to, &it->ready);
}

void push_ready(struct epitem *it) { push_tail(it, &it->ep->ready); }

void push_news(struct epitem *it, struct list *to)
{
	push_tail(it, to);
	it->queued = true;
}

static void item_unmerge(struct epitem *it)
{
	struct epoll *ep = it->ep;

	if (it->tagged)
		count(&ep->n_tagged, -1u);
	if (!it->merged)
		return;
	ep->n_merged--;
	watch_close(it->file->sk, &it->watch);
}

/* Take @it out of both its lists; the caller holds both locks. */
void item_drop(struct epitem *it)
{
	item_unmerge(it);
	list_del(&it->ready);
	for (struct epitem **p = &it->file->items; *p;
	     p = &(*p)->next_of_sock) {
		if (*p == it) {
			store_rlx(p, it->next_of_sock);
			break;
		}
	}
	it->in_use = false;
	it->next_of_sock = it->ep->free_items;
	it->ep->free_items = it;
}

void kick(struct epoll *ep)
{
	uint64_t one = 1;

	fence_full(); /* Dekker with ready_sleep(): the list, then the waiters */
	if ((load_rlx(&ep->rs.n_sleepers) || ep->nested) && ep->kick_fd >= 0)
		nocancel_write(ep->kick_fd, &one, sizeof(one));
}

/* A sleeper that is alone wakes once for all notifications that it has not drained: see
 * drain().  In a set that a fork has shared, the other process may take the kick. */
static void wake(struct ready_set *rs)
{
	struct epoll *ep = container_of(rs, struct epoll, rs);

	fence_full(); /* Dekker with drain(): the notification, then the kick */
	uint32_t n = load_rlx(&rs->n_sleepers);
	if (n == 1 && !ep->nested && !load_rlx(&ep->shared) &&
	    load_rlx(&ep->is_kicked))
		return;
	store_rlx(&ep->is_kicked, true);
	kick(ep);
}

struct epoll *epoll_new(int fd)
{
	struct epoll *ep = calloc(1, sizeof(*ep));

	if (!ep)
		return NULL;
	ep->fd = fd;
	ready_init(&ep->rs, wake);
	ep->kick_fd = ep->idle_fd = -1;
	ep->held_until = UINT64_MAX;
	ep->look_calls = 1;
	list_init(&ep->ready);
	list_init(&ep->behind);
	list_init(&ep->always);
	return ep;
}

/* Under the lock, so that no call uses the old number once it is closed. */
void epoll_moved(struct file *fe)
{
	GUARD(&fe->ep->lock);
	store_rlx(&fe->ep->fd, load_acq(&fe->anchor_fd));
}

COLD void epoll_adopt(struct file *fe, int epfd)
{
	GUARD(&fe->ep->lock);
	if (load_rlx(&fe->ep->fd) >= 0 ||
	    !cas(&fe->anchor_fd, -1, (int32_t)epfd))
		return;
	fence_full(); /* Dekker with file_forget(): the number, then its entry */
	if (!file_is_at(fe, epfd))
		cas(&fe->anchor_fd, (int32_t)epfd, -1);
	store_rlx(&fe->ep->fd, load_acq(&fe->anchor_fd));
}

int kernel_ctl(struct epoll *ep, int op, int fd, uint32_t events, uint64_t data)
{
	struct epoll_event ev = { .events = events, .data.u64 = data };

	return libc.epoll_ctl(load_rlx(&ep->fd), op, fd, &ev) < 0 ? -errno : 0;
}

static bool wants_any(const struct epitem *it)
{
	return it->events & (EPOLLIN | EPOLLOUT | EPOLLPRI | EPOLLRDHUP |
			     EPOLLRDNORM | EPOLLWRNORM);
}

uint32_t anchor_events(const struct epitem *it)
{
	/* EPOLLONESHOT has fired, or the program wants nothing: nothing makes the set readable
	 * but the end of the connection, of which the kernel always tells. */
	if (unlikely(it->ep->nested) && (it->disabled || !wants_any(it)))
		return EPOLLET;
	/* Level-triggered if the set is polled from outside: it must stay
	 * readable until the doorbell is read.  But room lasts. */
	bool by_level =
	    it->ep->nested && !(it->asks_room && it->events & EPOLLET);
	return EPOLLIN | EPOLLRDHUP | (it->asks_room ? EPOLLOUT : 0) |
	       (by_level ? 0 : EPOLLET);
}

void item_watch_anchor(struct epitem *it)
{
	/* The program may have closed the number and kept a copy. */
	if (file_is_at(it->file, it->fd))
		kernel_ctl(it->ep, EPOLL_CTL_MOD, it->fd, anchor_events(it),
			   tag_of(it));
}

/* Make what a set needs from its first upgraded socket on. */
static void epoll_equip(struct epoll *ep)
{
	if (ep->kick_fd >= 0)
		return;
	ep->kick_fd = fds_hide(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
	if (ep->kick_fd >= 0)
		kernel_ctl(ep, EPOLL_CTL_ADD, ep->kick_fd, EPOLLIN | EPOLLET,
			   TAG | KICK);
}

void epoll_hang_bell(struct epoll *ep)
{
	GUARD(&ep->lock);
	if (ep->bell_tried)
		return;
	ep->bell_tried = true;
	uint32_t bell = bell_mine();
	if (ep->forked || bell_own_fd(bell) < 0 ||
	    kernel_ctl(ep, EPOLL_CTL_ADD, bell_own_fd(bell), EPOLLIN | EPOLLET,
		       TAG | KICK))
		return;
	store_rlx(&ep->rs.bell1, bell + 1);
}

/* A set that others wait for, too, or from outside, needs readiness that lasts. */
void epoll_drop_bell(struct epoll *ep)
{
	uint32_t bell1 = ep->rs.bell1;

	ep->bell_tried = true;
	if (!bell1)
		return;
	store_rlx(&ep->rs.bell1, 0u);
	kernel_ctl(ep, EPOLL_CTL_DEL, bell_own_fd(bell1 - 1), 0, 0);
	kick(ep); /* who sleeps on it goes to sleep without it */
}

void item_tagged(struct epitem *it)
{
	if (it->tagged)
		return;
	it->tagged = true;
	count(&it->ep->n_tagged, 1);
}

void item_merged(struct epitem *it)
{
	it->merged = true;
	it->fresh = true;
	it->ep->n_merged++;
	epoll_equip(it->ep);
	if (!is_child(it))
		watch_open(it->file->sk, &it->watch, &it->ep->rs);
	push_ready(it);
	kick(it->ep);
}

void epoll_idle(struct epoll *ep)
{
	uint32_t number = 0;
	int fd = idle_fd(&number);

	if (fd < 0 || ep->forked || load_rlx(&ep->shared))
		return;
	GUARD(&ep->lock);
	if (fd == ep->idle_fd && number == ep->idle_number)
		return;
	if (ep->idle_fd < 0)
		count(&ep->n_tagged,
		      1); /* the kernel's set may be ready for idle_fd alone */
	ep->idle_fd = fd;
	ep->idle_number = number;
	store_rlx(&ep->idle_off, false);
	kernel_ctl(ep, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLET, TAG | IDLE);
}

/* Take the descriptor of base/idle.h out of the set, for good or for a while. */
void epoll_no_idle(struct epoll *ep)
{
	GUARD(&ep->lock);
	if (ep->idle_fd < 0)
		return;
	if (idle_is_at(ep->idle_fd, ep->idle_number))
		kernel_ctl(ep, EPOLL_CTL_DEL, ep->idle_fd, 0, 0);
	count(&ep->n_tagged, -1u);
	store_rlx(&ep->idle_fd, -1);
}

void epoll_idle_wakes(struct epoll *ep, bool does)
{
	GUARD(&ep->lock);
	if (ep->idle_fd < 0 || ep->idle_off != does ||
	    !idle_is_at(ep->idle_fd, ep->idle_number))
		return;
	store_rlx(&ep->idle_off, !does);
	kernel_ctl(ep, EPOLL_CTL_MOD, ep->idle_fd,
		   does ? EPOLLIN | EPOLLET : EPOLLET, TAG | IDLE);
}

/* EPOLL_CTL_MOD reports what is ready, so no edge is lost: neither one that nobody has
 * looked at, nor one that another thread has fetched with our tag. */
static bool give_back_locked(struct epitem *it)
{
	struct epoll *ep = it->ep;
	bool keeps_tag = it->events & EPOLLONESHOT;

	if (is_child(it) || it->parked || ep->nested || ep->forked ||
	    load_rlx(&ep->shared) || it->events & EPOLLEXCLUSIVE ||
	    !file_is_at(it->file, it->fd))
		return false;
	it->generation = item_generation(ep);
	if (kernel_ctl(ep, EPOLL_CTL_MOD, it->fd, it->disabled ? 0 : it->events,
		       keeps_tag ? tag_of(it) : it->data.u64))
		return false;
	list_del(&it->ready);
	it->queued = it->merged = it->asks_room = false;
	ep->n_merged--;
	watch_close(it->file->sk, &it->watch);
	if (!keeps_tag) {
		it->tagged = false;
		count(&ep->n_tagged, -1u);
	}
	store_rlx(&it->file->merged, (uint8_t)0);
	store_rlx(&ep->gave_back, true);
	return true;
}

/* With a lock of the socket its mode stays.  Whoever moves it afterwards finds it not
 * merged, in file_sync(). */
bool item_give_back(struct epitem *it)
{
	struct sock *sk = it->file->sk;

	if (!sock_look_rx(sk))
		return false;
	bool gave = !sock_ops(sk)->is_ours && !sock_ops(sk)->is_moving &&
		    give_back_locked(it);
	sock_unlock_rx(sk);
	return gave;
}

static void item_merge(struct epitem *it)
{
	struct epoll *ep = it->ep;

	if (it->merged)
		return;
	item_tagged(it);
	/* The program may have closed the number and kept a copy. */
	if (file_is_at(it->file, it->fd) &&
	    kernel_ctl(ep, EPOLL_CTL_MOD, it->fd, anchor_events(it),
		       tag_of(it))) {
		/* EPOLLEXCLUSIVE entries cannot be changed in place. */
		kernel_ctl(ep, EPOLL_CTL_DEL, it->fd, 0, 0);
		kernel_ctl(ep, EPOLL_CTL_ADD, it->fd, anchor_events(it),
			   tag_of(it));
	}
	item_merged(it);
}

void epoll_merge_sock(struct file *f)
{
	/* The lists do not change while we walk them: adding and dropping an
	 * item needs the file's lock. */
	GUARD(&f->lock);
	store_rlx(&f->merged, (uint8_t)1);
	for (struct epitem *it = f->items; it; it = it->next_of_sock) {
		GUARD(&it->ep->lock);
		item_merge(it);
	}
}

void epoll_forget_sock(struct file *f)
{
	GUARD(&f->lock);
	while (f->items) {
		struct epoll *ep = f->items->ep;

		GUARD(&ep->lock);
		item_drop(f->items);
	}
}

void epoll_free(struct epoll *ep)
{
	for (uint32_t i = 0; i < ep->n_items; i++) {
		struct epitem *it = ep->items[i];
		struct file *f = it->file; /* type-stable; may be gone */

		GUARD(&f->lock);
		GUARD(&ep->lock);
		if (it->in_use && it->file == f)
			item_drop(it);
	}
	/* Waits until a thread that drops an item has released the lock. */
	lock_get(&ep->lock);
	for (uint32_t i = 0; i < ep->n_items; i++)
		free(ep->items[i]);
	free(ep->items);
	ready_close(&ep->rs);
	fds_close(ep->kick_fd);
	lock_put(&ep->lock);
	free(ep);
}

/* Processes that share a set consume each other's events: remove ours first. */
void epoll_before_fork(struct file *fe)
{
	struct epoll *ep = fe->ep;

	store_rlx(&ep->shared, true);
	GUARD(&ep->lock);
	epoll_drop_bell(ep);
	if (ep->idle_fd >= 0 && idle_is_at(ep->idle_fd, ep->idle_number))
		kernel_ctl(ep, EPOLL_CTL_DEL, ep->idle_fd, 0, 0);
	if (ep->idle_fd >= 0)
		count(&ep->n_tagged, -1u);
	ep->idle_fd = -1;
}

/* The program's entry, as the kernel would have it without us. */
static void item_restore(struct epitem *it)
{
	struct epoll *ep = it->ep;
	uint32_t events = it->events;

	if (!it->in_use || !it->tagged || !file_is_at(it->file, it->fd))
		return;
	if (it->parked || events & EPOLLEXCLUSIVE)
		kernel_ctl(ep, EPOLL_CTL_DEL, it->fd, 0, 0);
	if (it->parked)
		return;
	if (it->disabled)
		events &= (uint32_t)(EPOLLET | EPOLLONESHOT);
	kernel_ctl(ep, events & EPOLLEXCLUSIVE ? EPOLL_CTL_ADD : EPOLL_CTL_MOD,
		   it->fd, events, it->data.u64);
}

void epoll_restore(struct file *fe)
{
	struct epoll *ep = fe->ep;

	epoll_before_fork(fe); /* bell and idle descriptor */
	kick(ep);
	GUARD(&ep->lock);
	for (uint32_t i = 0; i < ep->n_items; i++)
		item_restore(ep->items[i]);
	if (ep->kick_fd >= 0)
		kernel_ctl(ep, EPOLL_CTL_DEL, ep->kick_fd, 0, 0);
}

/* Peers know the parent's set, not the child's.  So in the child only the
 * anchor descriptors notify the set of its sockets. */
void epoll_after_fork(struct file *fe)
{
	struct epoll *ep = fe->ep;

	ep->lock = (struct lock){ 0 };
	ep->forked = true;
	ep->next_generation +=
	    TAG_GENERATIONS / 2; /* others than the parent's */
	ready_after_fork(&ep->rs);
	for (uint32_t i = 0; i < ep->n_items; i++)
		watch_after_fork(&ep->items[i]->watch);
}
