/* SPDX-License-Identifier: MIT */
/*
 * file/epoll_wait.c - what is ready, and waiting for it; see file/epoll_set.h
 *
 *     news  ->  ready  ->  the program
 *           ->  behind, until the kernel's set has been asked
 *
 * The kernel gives events in the order of its wake-ups.  Here they come from two
 * places, and asking the kernel costs a system call.  News (sock/ready.h) is in order
 * in itself, and goes before the kernel's, unless whoever sent it had sent something by
 * the kernel before: then the kernel is asked first.
 */
#include <poll.h>

#include "base/clock.h"
#include "base/spin.h"
#include "base/unwind.h"
#include "base/idle.h"
#include "file/epoll_set.h"
#include "file/hold.h"

#define KERNEL_LOOK_CALLS 8
#define SHARED_LOOK_NS (10 * NS_PER_MS)
#define SOME_LOOK_NS (100 * NS_PER_MS)
#define SOME_ITEMS 64u

/* Not ready now.  News will put it back, unless nothing would tell us. */
static void put_aside(struct epitem *it)
{
	list_del(&it->ready);
	it->queued = false;
	if (!it->watch.is_told)
		list_add_tail(&it->ep->always, &it->ready);
}

/* It will say more at a known time, of which nobody tells. */
static void look_when_due(struct epitem *it)
{
	struct sock *sk = is_child(it) ? NULL : it->file->sk;
	uint64_t due;

	if (!sk)
		due = epoll_held_until(it->file);
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

static void drain(struct epoll *ep) { ready_drain(&ep->told, item_news, ep); }

/* A set in this set is readable when it would return something. */
static uint32_t child_events(struct epitem *it)
{
	struct pollfd p = { .fd = it->fd, .events = POLLIN };
	uint32_t want = it->events & EPOLLIN;

	if (epoll_has_ready(it->file))
		return want;
	return libc.poll(&p, 1, 0) > 0 && epoll_kernel_ready(it->file) ? want
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
 * Edge-triggered: an edge is a bit that was not there at the last look, or news
 * since: as in the kernel, whatever it was about.  Where news may be missing (not
 * @is_told), the bytes are counted.
 */
static bool has_edge(struct epitem *it, struct sock *sk, uint32_t ev,
		     bool is_told)
{
	bool edge = it->fresh || ev & ~it->ev_seen;

	if (ev & EPOLLIN && !is_told) {
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

/* Events of the item now; if none, ask to be told and look once more. */
static uint32_t item_events(struct epitem *it)
{
	if (unlikely(is_child(it)))
		return child_events(it);
	struct sock *sk = it->file->sk;
	uint32_t want = it->events | EPOLLERR | EPOLLHUP;
	uint32_t ev = sock_ops(sk)->events(sk, item_fd(it));

	if (ev & want && !(it->events & EPOLLET))
		return ev & want;
	/* Space is worth a word only to who has none. */
	uint32_t arm = EPOLLIN | (ev & EPOLLOUT ? 0 : it->events & EPOLLOUT);
	bool is_told = sock_ops(sk)->arm(sk, item_fd(it), arm, &it->watch);
	ev = sock_ops(sk)->events(sk, item_fd(it)) & want;
	if (!(it->events & EPOLLET))
		return ev;
	return has_edge(it, sk, ev, is_told) ? ev : 0;
}

/* Fill @evs from the ready list.  @before: how many come before @first on it, all if
 * it is not met.  Caller holds the lock. */
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
		uint32_t ev = item_events(it);
		if (!ev) {
			look_when_due(it);
			continue;
		}
		evs[n++] =
		    (struct epoll_event){ .events = ev, .data = it->data };
		if (it->events & EPOLLONESHOT) {
			it->disabled = true;
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

/* Bytes are there, and more may come: the end is an edge of its own. */
static bool has_unread(const struct epitem *it)
{
	struct sock *sk = it->file->sk;

	return (sock_ops(sk)->events(sk, item_fd(it)) &
		(EPOLLIN | EPOLLRDHUP)) == EPOLLIN;
}

/* Every peer can write in our inbox, and so wipe out what another has posted: some
 * items are looked at now and then, news or not. */
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

/* Events of ours; @has_asked: the kernel, just now.  -EAGAIN: it has to be first. */
static int collect(struct epoll *ep, struct epoll_event *evs, int max,
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
		kick(ep); /* there is more than one waiter's worth */
	return n;
}

/* A fork has shared it, and so peers ring it.  When the child has ended, they tell our
 * sets again. */
static COLD void look_for_others(struct sock *sk)
{
	static uint64_t asked_ns;
	uint64_t now = coarse_ns();

	if (load_rlx(&sk->n_procs) > 1) {
		if (now - load_rlx(&asked_ns) < SHARED_LOOK_NS)
			return;
		store_rlx(&asked_ns, now);
		hold_reap();
	}
	if (load_rlx(&sk->n_procs) == 1)
		sock_ops(sk)->alone(sk);
}

/* A hint from the kernel about an upgraded socket's anchor. */
static void hint(struct epitem *it, uint32_t events)
{
	struct sock *sk = it->file->sk;

	if (is_child(it)) {
		push_ready(it);
		return;
	}
	if (unlikely(load_rlx(&sk->st->shared)))
		look_for_others(sk);
	it->news |= sock_ops(sk)->hint(sk, item_fd(it), events, &it->watch);
	if (!it->parked)
		push_news(it, &it->ep->ready);
}

/* Does any of them carry our tag? */
static bool has_tag(const struct epoll_event *evs, int n)
{
	for (int i = 0; i < n; i++)
		if (unlikely(is_tag(evs[i].data.u64)))
			return true;
	return false;
}

/* The item that the tag @data means; NULL: an entry that is gone, or was changed since
 * the kernel reported it, or belongs to a process that shares the set. */
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

/* What the kernel returned, with the set locked; see translate(). */
static int translate_locked(struct epoll *ep, struct epoll_event *evs, int n,
			    bool *watched)
{
	int kept = 0;

	drain(ep); /* what was posted before the kernel woke goes first */
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
			hint(it, evs[i].events);
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
 * Turn what the kernel returned into what the program asked for: its own entries
 * as they are, tagged ones of kernel sockets with the program's data, and hints
 * not at all.  Returns how many of @evs[0..n) remain.
 */
static int translate(struct epoll *ep, struct epoll_event *evs, int n)
{
	bool watched = false;

	lock_get(&ep->lock);
	n = translate_locked(ep, evs, n, &watched);
	lock_put(&ep->lock);
	if (unlikely(watched))
		idle_run();
	return n;
}

static int kernel_look(struct epoll *ep, int epfd, struct epoll_event *evs,
		       int max, uint64_t now)
{
	int n = libc.epoll_wait(epfd, evs, max, 0);

	if (n < max) /* there is no more */
		ready_asked(&ep->told, now);
	return n > 0 ? translate(ep, evs, n) : 0;
}

static void reverse(struct epoll_event *evs, int n)
{
	for (int i = 0; i < n / 2; i++) {
		struct epoll_event ev = evs[i];

		evs[i] = evs[n - 1 - i];
		evs[n - 1 - i] = ev;
	}
}

/*
 * Add events of ours to @n of the kernel's; how many there are in all.  If some of
 * ours are to stand behind what it has, the kernel is asked; but not once more, for
 * what is level-triggered it would tell again.
 */
static int add_ours(struct epoll *ep, int epfd, struct epoll_event *evs,
		    int max, int n)
{
	int before = 0;

	if (n == max)
		return n;
	int ours = collect(ep, evs + n, max - n, false, &before);
	if (unlikely(ours < 0)) {
		if (!n)
			n = kernel_look(ep, epfd, evs, (max + 1) / 2, now_ns());
		ours = collect(ep, evs + n, max - n, true, &before);
	}
	if (n && before) { /* change places */
		reverse(evs, n);
		reverse(evs + n, before);
		reverse(evs, n + before);
	}
	return n + ours;
}

struct spin_arg {
	struct epoll *ep;
	int epfd;
	unsigned turns;
};

static bool wait_spin_ready(void *arg)
{
	struct spin_arg *a = arg;
	struct pollfd p = { .fd = a->epfd, .events = POLLIN };

	if (ready_has_come(&a->ep->told))
		return true;
	if (++a->turns % 64)
		return false;
	return libc.poll(&p, 1, 0) > 0;
}

static bool has_listed(struct epoll *ep)
{
	GUARD(&ep->lock);
	return !list_is_empty(&ep->ready) || !list_is_empty(&ep->behind);
}

/* One who sleeps in the kernel's set, however it ends. */
struct waiter {
	struct unwind u;
	struct epoll *ep;
};

static void waiter_end(struct unwind *u)
{
	ready_awake(&((struct waiter *)u)->ep->told);
}

/* Sleep in the kernel's set, having said so to those who have news for us. */
static int wait_sleep(struct epoll *ep, int epfd, struct epoll_event *evs,
		      int max, uint64_t deadline_ns, const sigset_t *mask,
		      struct handlers_seen seen)
{
	UNWIND(struct waiter, me) = { .ep = ep };
	struct timespec left = { 0 };
	int n = 0;

	bool go = ready_sleep(&ep->told);
	unwind_push(&me.u, waiter_end);
	if (go && !has_listed(ep)) {
		if (handlers_ran(seen, false))
			return -EINTR;
		uint64_t now = now_ns();

		deadline_ns = MIN(deadline_ns, load_rlx(&ep->held_until));
		if (ep->n_merged && !ep->forked) /* see push_some() */
			deadline_ns = MIN(deadline_ns, now + SOME_LOOK_NS);
		if (now < deadline_ns)
			left = ns_timespec(deadline_ns - now);
		n = libc.epoll_pwait2(epfd, evs, max,
				      deadline_ns == UINT64_MAX ? NULL : &left,
				      mask);
		if (n < 0)
			n = -errno;
	}
	return n;
}

static void count_wait(struct epoll *ep, int n, bool slept)
{
	if (n <= 0)
		return;
	/* One socket stands for the wait: the first that was ready. */
	GUARD(&ep->lock);
	struct epitem *it = container_of(ep->ready.next, struct epitem, ready);
	if (!list_is_empty(&ep->ready) && !is_child(it)) {
		count(slept ? &it->file->sk->st->n_sleeps
			    : &it->file->sk->st->n_spins,
		      1);
	}
}

static int merged_wait(struct epoll *ep, int epfd, struct epoll_event *evs,
		       int max, uint64_t deadline_ns, bool poll_only,
		       const sigset_t *mask)
{
	struct handlers_seen seen = handlers_seen();
	uint64_t start = 0, now;

	for (;;) {
		int n = 0;

		/* Kernel descriptors get their turn however busy ours are: half
		 * of the places every few calls. */
		if (++ep->n_waits % KERNEL_LOOK_CALLS == 0)
			n = kernel_look(ep, epfd, evs, (max + 1) / 2, now_ns());
		n = add_ours(ep, epfd, evs, max, n);
		if (!n) {
			now = now_ns();
			n = kernel_look(ep, epfd, evs, max, now);
			n = add_ours(ep, epfd, evs, max, n);
		}
		if (n || poll_only)
			return n;

		struct spin_arg arg = { .ep = ep, .epfd = epfd };
		if (!start)
			start = now;
		if (start >= deadline_ns)
			return 0;
		if (spin_until(wait_spin_ready, &arg, deadline_ns)) {
			n = add_ours(ep, epfd, evs, max, 0);
			count_wait(ep, n, false);
			if (!n) {
				n = kernel_look(ep, epfd, evs, max, start);
				n = add_ours(ep, epfd, evs, max, n);
			}
			if (n)
				return n;
			continue;
		}
		n = wait_sleep(ep, epfd, evs, max, deadline_ns, mask, seen);
		if (n < 0)
			return n;
		n = add_ours(ep, epfd, evs, max, translate(ep, evs, n));
		count_wait(ep, n, true);
		now = now_ns();
		if (n)
			return n;
		if (now >= deadline_ns)
			return 0;
	}
}

/* The kernel's own set; another thread may add a socket of ours, and kick. */
static int kernel_wait(struct epoll *ep, int epfd, struct epoll_event *evs,
		       int max, const struct timespec *ts, const sigset_t *mask)
{
	UNWIND(struct waiter, me) = { .ep = ep };

	if (!is_single_threaded()) {
		ready_sleep(&ep->told);
		unwind_push(&me.u, waiter_end);
	}
	int n = libc.epoll_pwait2(epfd, evs, max, ts, mask);
	return n < 0 ? -errno : n;
}

int epoll_file_wait(int epfd, struct file *fe, struct epoll_event *evs, int max,
		    const struct timespec *ts, const sigset_t *mask)
{
	struct epoll *ep = fe->ep;
	uint64_t deadline_ns = UINT64_MAX;
	bool poll_only = ts && !ts->tv_sec && !ts->tv_nsec;

	if (max <= 0 || (size_t)max > INT32_MAX / sizeof(*evs))
		return -EINVAL;
	/* Without sockets of ours in it the set is the kernel's alone, as long as no
	 * other thread adds one. */
	bool may_merge = load_rlx(&ep->n_items) || !is_single_threaded();
	if (idle_is_on()) {
		epoll_idle(ep);
		may_merge = true;
	}
	if (ts && !poll_only && may_merge)
		deadline_ns = now_ns() + (uint64_t)ts->tv_sec * NS_PER_S +
			      (uint64_t)ts->tv_nsec;
	if (!load_rlx(&ep->n_tagged)) {
		int n = kernel_wait(ep, epfd, evs, max, ts, mask);

		if (n < 0)
			return n;
		/* Whatever has changed meanwhile: a tag is never the program's. */
		if (likely(!has_tag(evs, n)))
			return n;
		n = add_ours(ep, epfd, evs, max, translate(ep, evs, n));
		if (n)
			return n;
	}
	return merged_wait(ep, epfd, evs, max, deadline_ns, poll_only, mask);
}

uint64_t epoll_held_until(const struct file *fe)
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
			it->fresh = true; /* looked at, not reported */
			return true;
		}
		put_aside(it);
		if (it->merged)
			look_when_due(it);
	}
	return false;
}

/*
 * The kernel can only be asked for events by taking them.  Level-triggered ones
 * come again; an edge of the program's own would be lost, so when the set is ready
 * and no hint of ours explains it, it counts as ready.
 */
bool epoll_kernel_ready(struct file *fe)
{
	struct epoll *ep = fe->ep;

	struct pollfd p = { .fd = ep->fd, .events = POLLIN };
	uint64_t kicks;
	bool hinted = ep->kick_fd >= 0 &&
		      libc.read(ep->kick_fd, &kicks, sizeof(kicks)) > 0;

	if (load_rlx(&ep->idle_fd) >= 0) {
		idle_run(); /* what it has makes the set ready for nobody */
		hinted = true;
	}
	GUARD(&ep->lock);
	for (uint32_t i = 0; i < ep->n_items; i++) {
		struct epitem *it = ep->items[i];

		if (!it->in_use || !it->merged || it->parked || is_child(it))
			continue;
		struct sock *sk = it->file->sk;
		/* An unread doorbell or an ended anchor is a hint. */
		if (load_rlx(&sk->anchor_end) != ANCHOR_OPEN ||
		    sock_ops(sk)->is_rung(sk)) {
			hint(it, 0);
			hinted = true;
		}
	}
	return !hinted || libc.poll(&p, 1, 0) > 0;
}
