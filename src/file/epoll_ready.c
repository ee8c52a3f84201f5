/* SPDX-License-Identifier: MIT */
/*
 * file/epoll_ready.c - what is ready in a set; see file/epoll_set.h
 *
 *     notification  ->  ready list   ->  the program
 *                   ->  behind list, until the kernel's set has been polled
 *     kernel's event  ->  that of an anchor becomes a notification
 *                     ->  the program's own entry goes to the program as it is
 *
 * The kernel reports events in the order of its wake-ups.  Here events come
 * from two places, and polling the kernel costs a system call.  Notifications
 * (sock/ready.h) are in order among themselves and go before the kernel's
 * events.  But if the peer sent something through the kernel before it notified
 * us, the item goes on the behind list and we poll the kernel first.
 */
#include <poll.h>

#include "base/clock.h"
#include "base/idle.h"
#include "base/nocancel.h"
#include "file/epoll_set.h"
#include "file/hold.h"
#include "sock/shared.h"

#define SHARED_LOOK_NS (10 * NS_PER_MS)
#define SOME_ITEMS 64u

/* Not ready now.  A notification puts it back; without any, keep looking. */
static void put_aside(struct epitem *it)
{
	list_del(&it->ready);
	it->queued = false;
	if (!it->watch.is_notified)
		list_add_tail(&it->ep->always, &it->ready);
}

/* Its events change at a known time without a notification: look then. */
static void look_when_due(struct epitem *it)
{
	struct sock *sk = is_child(it) ? NULL : it->file->sk;
	uint64_t due;

	if (!sk)
		due = epoll_corked_until(it->file);
	else
		due = sock_ops(sk)->next_ns(sk);
	if (likely(due == UINT64_MAX))
		return;
	it->ep->held_until = MIN(it->ep->held_until, due);
	it->news = true;
	list_del(&it->ready);
	list_add_tail(&it->ep->always, &it->ready);
}

static void push_always(struct epoll *ep)
{
	ep->held_until = UINT64_MAX;
	while (!list_is_empty(&ep->always)) {
		struct list *l = ep->always.next;

		list_del(l);
		list_add_tail(&ep->ready, l);
	}
}

static void item_news(struct watch *w, unsigned events, bool is_behind,
		      void *arg)
{
	struct epitem *it = container_of(w, struct epitem, watch);
	struct epoll *ep = arg;

	if (!it->in_use || it->parked || it->ep != ep)
		return;
	if (likely(events == READY_ANY))
		it->news = true;
	else
		it->ev_seen &= ~events;
	is_behind |= !list_is_empty(&ep->behind);
	if (likely(events & READY_NEWS))
		push_news(it, is_behind ? &ep->behind : &ep->ready);
	else
		push_ready(it);
}

static void drain(struct epoll *ep)
{
	if (load_rlx(&ep->is_kicked)) {
		store_rlx(&ep->is_kicked, false);
		fence_full(); /* Dekker with wake() */
	}
	ready_drain(&ep->rs, item_news, ep);
}

/* A set in this set is readable when it would return something. */
static uint32_t child_events(struct epitem *it)
{
	struct pollfd p = { .fd = it->fd, .events = POLLIN };
	uint32_t want = it->events & EPOLLIN;

	if (epoll_has_ready(it->file))
		return want;
	return nocancel_poll(&p, 1, 0) > 0 && epoll_kernel_ready(it->file)
		   ? want
		   : 0;
}

/* Bytes of the stream that have arrived, and 1 for its end. */
static uint64_t arrived(struct sock *sk, int fd)
{
	const struct sock_ops *ops = sock_ops(sk);
	int inq = ops->inq(sk, fd);

	return sk->st->rx_bytes_shm + sk->st->rx_bytes_inet +
	       (uint64_t)(inq > 0 ? inq : 0) +
	       !!(ops->events(sk, fd) & POLLRDHUP);
}

/*
 * Edge-triggered: an edge is a bit that was not set at the last look, or any
 * notification since then, as in the kernel.  If notifications may be missing
 * (not @is_notified), compare the number of bytes that have arrived.
 */
static bool has_edge(struct epitem *it, struct sock *sk, uint32_t ev,
		     bool is_notified)
{
	bool edge = it->fresh || ev & ~it->ev_seen;

	if (ev & EPOLLIN && !is_notified) {
		uint64_t rx = arrived(sk, item_fd(it));

		edge |= rx > it->rx_seen;
		it->rx_seen = edge ? rx : it->rx_seen;
	} else {
		edge |= it->news && ev;
	}
	it->ev_seen = ev;
	it->news = false;
	if (edge)
		it->fresh = false;
	return edge;
}

/* It waits for room.  If the kernel reports that, the entry must ask for it. */
static COLD void ask_room(struct epitem *it, const struct sock_ops *ops)
{
	struct pollfd p = { .events = POLLOUT };

	ops->sleep_on(it->file->sk, &p);
	if (!(p.events & POLLOUT))
		return;
	it->asks_room = true;
	item_watch_anchor(it);
}

/* Events of the item now; if none, ask for notification and look once more. */
static uint32_t item_events(struct epitem *it)
{
	if (unlikely(is_child(it)))
		return child_events(it);
	struct sock *sk = it->file->sk;
	const struct sock_ops *ops = sock_ops(sk);
	uint32_t want = it->events | EPOLLERR | EPOLLHUP;
	bool by_level = !(it->events & EPOLLET);
	uint32_t arm = EPOLLIN;

	if (by_level || it->events & EPOLLOUT) {
		uint32_t ev = ops->events(sk, item_fd(it));

		if (by_level && ev & want)
			return ev & want;
		/* Ask for notification of room only if there is none. */
		if (!(ev & EPOLLOUT))
			arm |= it->events & EPOLLOUT;
	}
	bool is_notified = ops->arm(sk, item_fd(it), arm, &it->watch);
	/* Room that came and went between two looks is an edge, too; the kernel sees it. */
	if (!by_level && !ops->own_events)
		arm |= it->events & EPOLLOUT;
	if (unlikely(arm & EPOLLOUT) && !it->asks_room)
		ask_room(it, ops);
	uint32_t ev = ops->events(sk, item_fd(it)) & want;
	if (by_level)
		return ev;
	return has_edge(it, sk, ev, is_notified) ? ev : 0;
}

/* Our own TCP had it, and the kernel has it again. */
static bool is_given_back(const struct epitem *it)
{
	const struct sock *sk = is_child(it) ? NULL : it->file->sk;

	return sk && load_rlx(&sk->flags) & SOCK_F_PORT &&
	       !sock_ops(sk)->is_ours && !sock_ops(sk)->is_moving;
}

/* The kernel has just said nothing of its end: a call needs not ask the anchor. */
static void has_not_ended(const struct epitem *it)
{
	struct sock *sk = is_child(it) ? NULL : it->file->sk;
	uint64_t told_ns = load_rlx(&it->ep->told_ns);

	if (sk && load_rlx(&sk->looked_ns) < told_ns)
		store_rlx(&sk->looked_ns, told_ns);
}

/* Fill @evs from the ready list.  @before: number of events before item @first,
 * or all events if @first is not reached.  Caller holds the lock. */
static int collect_ready(struct epoll *ep, struct epoll_event *evs, int max,
			 const struct list *first, int *before)
{
	struct list again;
	int n = 0;

	*before = -1;
	list_init(&again);
	while (n < max && !list_is_empty(&ep->ready)) {
		struct epitem *it =
		    container_of(ep->ready.next, struct epitem, ready);

		if (&it->ready == first)
			*before = n;
		put_aside(it);
		if (it->disabled || !it->merged) {
			list_del(&it->ready);
			continue;
		}
		if (unlikely(is_given_back(it)) && item_give_back(it)) {
			continue;
		}
		uint32_t ev = item_events(it);
		if (!ev) {
			look_when_due(it);
			continue;
		}
		has_not_ended(it);
		if (ev & EPOLLIN)
			batch_add(&ep->batch, &it->batch);
		evs[n++] =
		    (struct epoll_event){ .events = ev, .data = it->data };
		if (it->events & EPOLLONESHOT) {
			it->disabled = true;
			if (unlikely(ep->nested))
				item_watch_anchor(it);
		} else if (!(it->events & EPOLLET)) {
			list_del(&it->ready);
			list_add_tail(&again, &it->ready);
			it->queued = true;
		}
	}
	list_splice_tail(&ep->ready, &again);
	if (*before < 0)
		*before = n;
	return n;
}

/* It has unread bytes and has not ended: the end is an edge of its own. */
static bool has_unread(const struct epitem *it)
{
	struct sock *sk = it->file->sk;

	return (sock_ops(sk)->events(sk, item_fd(it)) &
		(EPOLLIN | EPOLLRDHUP)) == EPOLLIN;
}

/* Where peers share an inbox, a faulty one can erase the notifications of others
 * of its user.  So look at some items from time to time without a notification. */
static void push_some(struct epoll *ep)
{
	uint64_t now = coarse_ns();

	if (likely(now - ep->looked_ns < SOME_LOOK_NS))
		return;
	ep->looked_ns = now;
	for (uint32_t i = 0; i < MIN(ep->n_items, SOME_ITEMS); i++) {
		struct epitem *it = ep->items[ep->look_next++ % ep->n_items];

		if (!it->in_use || !it->merged || it->parked || is_child(it) ||
		    !list_is_empty(&it->ready))
			continue;
		it->news |= has_unread(it);
		push_ready(it);
	}
}

/* Events of our sockets; @has_asked: kernel was polled.  -EAGAIN: poll it. */
int epoll_collect(struct epoll *ep, struct epoll_event *evs, int max,
		  bool has_asked, int *before)
{
	GUARD(&ep->lock);
	push_always(ep);
	if (likely(!has_asked))
		drain(ep);
	const struct list *first = NULL;
	if (unlikely(!list_is_empty(&ep->behind))) {
		if (!has_asked)
			return -EAGAIN;
		first = ep->behind.next;
		list_splice_tail(&ep->ready, &ep->behind);
	}
	push_some(ep);
	int n = collect_ready(ep, evs, max, first, before);
	if (!list_is_empty(&ep->ready) && n == max)
		kick(ep); /* wake another waiter for the rest */
	return n;
}

/* A fork has shared the socket, so its peer notifies through the descriptor.
 * Once the child has ended, the peer can notify our sets directly again. */
static COLD void look_for_others(struct sock *sk)
{
	static uint64_t asked_ns;
	uint64_t now = coarse_ns();

	if (sock_procs(sk) > 1) {
		if (now - load_rlx(&asked_ns) < SHARED_LOOK_NS)
			return;
		store_rlx(&asked_ns, now);
		hold_reap();
	}
	if (sock_procs(sk) == 1)
		sock_ops(sk)->alone(sk);
}

/* The set does not report the item as long as it has bytes: it reports what is new, or the program
 * does not want to know. */
static bool tells_news(const struct epitem *it)
{
	return it->disabled || it->events & EPOLLET || !(it->events & EPOLLIN);
}

/* The kernel has reported @events of an upgraded socket's anchor. */
static void anchor_event(struct epitem *it, uint32_t events)
{
	struct sock *sk = it->file->sk;

	if (is_child(it)) {
		push_ready(it);
		return;
	}
	if (unlikely(load_rlx(&sk->st->shared)))
		look_for_others(sk);
	if (tells_news(it))
		events |= EPOLLET;
	it->news |=
	    sock_ops(sk)->anchor_event(sk, item_fd(it), events, &it->watch);
	if (!it->parked)
		push_news(it, &it->ep->ready);
}

/* Does any of them carry our tag? */
bool epoll_has_tag(const struct epoll_event *evs, int n)
{
	for (int i = 0; i < n; i++)
		if (unlikely(is_tag(evs[i].data.u64)))
			return true;
	return false;
}

/* The item that tag @data names.  NULL: the entry is gone, or has changed since
 * the kernel reported it, or belongs to another process that shares the set. */
static struct epitem *tagged_item(const struct epoll *ep, uint64_t data)
{
	uint32_t idx = tag_idx(data);
	struct epitem *it = idx < ep->n_items ? ep->items[idx] : NULL;

	if (!it || !it->in_use || !it->tagged)
		return NULL;
	if (likely(tag_generation(data) == it->generation))
		return it;
	/* The other process may have changed the entry that both know. */
	return ep->shared && !it->merged ? it : NULL;
}

/* epoll_translate(), with the set locked. */
static int translate_locked(struct epoll *ep, struct epoll_event *evs, int n,
			    bool *watched)
{
	int kept = 0;

	drain(ep); /* notifications from before the wake-up */
	for (int i = 0; i < n; i++) {
		uint64_t data = evs[i].data.u64;

		if (!is_tag(data)) {
			evs[kept++] = evs[i];
			continue;
		}
		struct epitem *it = tagged_item(ep, data);
		if (!it) {
			*watched |= tag_idx(data) == IDLE;
			continue;
		}
		if (it->merged) {
			anchor_event(it, evs[i].events);
			continue;
		}
		if (likely(tag_generation(data) == it->generation))
			it->disabled = it->events & EPOLLONESHOT;
		evs[kept].events = evs[i].events;
		evs[kept++].data = it->data;
	}
	return kept;
}

/*
 * Replace tagged entries of kernel sockets by the program's data, drop events of
 * anchors, and leave the program's own entries alone.  Returns how many of
 * @evs[0..n) remain.
 */
int epoll_translate(struct epoll *ep, struct epoll_event *evs, int n)
{
	bool watched = false;

	lock_get(&ep->lock);
	n = translate_locked(ep, evs, n, &watched);
	lock_put(&ep->lock);
	if (unlikely(watched)) {
		count(&ep->idle_vain,
		      idle_is_driven() ? 1u : -load_rlx(&ep->idle_vain));
		idle_run();
	}
	return n;
}

bool epoll_has_listed(struct epoll *ep)
{
	GUARD(&ep->lock);
	return !list_is_empty(&ep->ready) || !list_is_empty(&ep->behind);
}

uint64_t epoll_corked_until(const struct file *fe)
{
	return load_rlx(&fe->ep->held_until);
}

bool epoll_is_merged(const struct file *fe)
{
	return load_rlx(&fe->ep->n_tagged);
}

bool epoll_has_ready(struct file *fe)
{
	struct epoll *ep = fe->ep;

	GUARD(&ep->lock);
	drain(ep);
	list_splice_tail(&ep->ready, &ep->behind);
	push_always(ep);
	/* Ask each that may be ready, and leave those that are on the list. */
	for (struct list *l = ep->ready.next, *next; l != &ep->ready;
	     l = next) {
		struct epitem *it = container_of(l, struct epitem, ready);

		next = l->next;
		if (it->merged && !it->disabled && item_events(it)) {
			it->fresh = true; /* the program has not seen it */
			return true;
		}
		put_aside(it);
		if (it->merged)
			look_when_due(it);
	}
	return false;
}

/* Doorbells that nobody has read, and ends.  False: there are none. */
static bool read_anchor_events(struct epoll *ep)
{
	bool any = false;
	GUARD(&ep->lock);

	for (uint32_t i = 0; i < ep->n_items; i++) {
		struct epitem *it = ep->items[i];

		if (!it->in_use || !it->merged || it->parked || is_child(it))
			continue;
		struct sock *sk = it->file->sk;
		/* An unread doorbell and an ended anchor are events that the program
		 * does not see. */
		if (load_rlx(&sk->w->anchor_end) != ANCHOR_OPEN ||
		    sock_ops(sk)->is_rung(sk)) {
			anchor_event(it, 0);
			any = true;
		}
	}
	return any;
}

/*
 * The kernel has no way to look at events without consuming them.  It reports
 * level-triggered events again, but an edge of the program's own entry would be
 * lost.  So do not consume: if the kernel's set is readable and no anchor
 * explains why, report the set as ready.  An anchor's event may have come just now:
 * look again.
 */
bool epoll_kernel_ready(struct file *fe)
{
	struct epoll *ep = fe->ep;

	struct pollfd p = { .fd = load_rlx(&ep->fd), .events = POLLIN };
	uint64_t kicks;
	bool explained = ep->kick_fd >= 0 &&
			 nocancel_read(ep->kick_fd, &kicks, sizeof(kicks)) > 0;

	if (load_rlx(&ep->idle_fd) >= 0) {
		idle_run(); /* its events are not the program's */
		explained = true;
	}
	explained |= read_anchor_events(ep);
	return !explained || nocancel_poll(&p, 1, 0) > 0 || epoll_has_ready(fe);
}
