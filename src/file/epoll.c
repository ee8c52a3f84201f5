/* SPDX-License-Identifier: MIT */
/* file/epoll.c - see file/epoll.h */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fds.h"
#include "base/libc.h"
#include "base/list.h"
#include "base/spin.h"
#include "file/epoll.h"
#include "shm/inbox.h"
#include "shm/shm.h"

/* Data words of ours: an upper half that no pointer and no small number has. */
#define TAG UINT64_C(0xa5f5c31e00000000)
#define TAG_MASK UINT64_C(0xffffffff00000000)
#define KICK UINT32_MAX

#define KERNEL_LOOK_CALLS 8

struct epitem {
	struct list ready; /* in epoll.ready when on it */
	struct epitem *next_of_sock;
	struct epoll *ep;
	struct file *file;
	epoll_data_t data;
	uint32_t events; /* as the program asked */
	uint32_t idx;
	uint32_t slot; /* in the set's lane, or SLOT_NONE */
	int fd;        /* as the program named it: it may be closed by now */
	bool in_use;
	bool merged;      /* served here; else by the kernel */
	bool tagged;      /* the kernel's entry carries our tag */
	bool disabled;    /* EPOLLONESHOT has fired */
	bool parked;      /* the program took it out; see ctl_del() */
	bool fresh;       /* EPOLLET: report what is ready, seen or not */
	uint32_t ev_seen; /* EPOLLET: the bits at the last look */
	uint64_t rx_seen; /* EPOLLET: stream bytes arrived by the last report */
};

struct epoll {
	struct lock lock;
	int fd;
	struct epitem **items; /* by idx */
	uint32_t n_items, cap_items;
	struct epitem *free_items;
	uint32_t n_tagged; /* kernel entries with our tag */
	uint32_t n_merged;
	uint32_t lane;
	struct list ready;
	struct list
	    always;  /* items to look at each time: no slot tells of them */
	int kick_fd; /* in the kernel's set, to wake other waiters */
	uint32_t n_waiting;
	bool nested; /* waited for from outside */
	bool forked;
	uint32_t n_waits;
};

struct epoll *epoll_new(int fd)
{
	struct epoll *ep = calloc(1, sizeof(*ep));

	if (!ep)
		return NULL;
	ep->fd = fd;
	ep->lane = LANE_NONE;
	ep->kick_fd = -1;
	list_init(&ep->ready);
	list_init(&ep->always);
	return ep;
}

/*
 * Items.
 */

static struct epitem *item_find(struct file *f, struct epoll *ep, int fd)
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

static struct epitem *item_new(struct epoll *ep, struct file *f, int fd,
			       const struct epoll_event *ev)
{
	struct epitem *it = item_space(ep);

	if (!it)
		return NULL;
	*it = (struct epitem){ .ep = ep,
			       .file = f,
			       .fd = fd,
			       .idx = it->idx,
			       .events = ev->events,
			       .data = ev->data,
			       .slot = SLOT_NONE,
			       .in_use = true,
			       .next_of_sock = f->items };
	list_init(&it->ready);
	f->items = it;
	return it;
}

static void push_ready(struct epitem *it)
{
	list_del(&it->ready);
	list_add_tail(&it->ep->ready, &it->ready);
}

/* Not ready now.  News will put it back, unless nothing would tell us. */
static void put_aside(struct epitem *it)
{
	list_del(&it->ready);
	if (it->slot == SLOT_NONE)
		list_add_tail(&it->ep->always, &it->ready);
}

static void push_always(struct epoll *ep)
{
	while (!list_is_empty(&ep->always)) {
		struct list *l = ep->always.next;

		list_del(l);
		list_add_tail(&ep->ready, l);
	}
}

static bool is_child(const struct epitem *it)
{
	return it->file->kind == FILE_EPOLL;
}

static void item_unmerge(struct epitem *it)
{
	struct epoll *ep = it->ep;

	if (it->tagged)
		ep->n_tagged--;
	if (!it->merged)
		return;
	ep->n_merged--;
	if (it->slot != SLOT_NONE) {
		if (it->file->sk->seg)
			store_rel(&shm_me(it->file->sk)->slot, SLOT_NONE);
		slot_close(it->slot);
	}
}

/* Take @it out of both its lists; the caller holds both locks. */
static void item_drop(struct epitem *it)
{
	item_unmerge(it);
	list_del(&it->ready);
	for (struct epitem **p = &it->file->items; *p;
	     p = &(*p)->next_of_sock) {
		if (*p == it) {
			*p = it->next_of_sock;
			break;
		}
	}
	it->in_use = false;
	it->next_of_sock = it->ep->free_items;
	it->ep->free_items = it;
}

static void kick(struct epoll *ep)
{
	uint64_t one = 1;

	fence_full(); /* Dekker with wait_sleep(): the list, then the waiters */
	if ((load_rlx(&ep->n_waiting) || ep->nested) && ep->kick_fd >= 0)
		libc.write(ep->kick_fd, &one, sizeof(one));
}

static int kernel_ctl(struct epoll *ep, int op, int fd, uint32_t events,
		      uint64_t data)
{
	struct epoll_event ev = { .events = events, .data.u64 = data };

	return libc.epoll_ctl(ep->fd, op, fd, &ev) < 0 ? -errno : 0;
}

static uint32_t hint_events(const struct epoll *ep)
{
	/* Seen from outside, the set has to stay ready while a doorbell is
	 * unread. */
	return EPOLLIN | EPOLLRDHUP | (ep->nested ? 0 : EPOLLET);
}

static uint64_t tag_of(const struct epitem *it) { return TAG | it->idx; }

/* What a set needs from the first upgraded socket on. */
static void epoll_equip(struct epoll *ep)
{
	if (ep->lane == LANE_NONE && !ep->forked)
		ep->lane = lane_open();
	if (ep->kick_fd < 0) {
		ep->kick_fd = fds_hide(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
		if (ep->kick_fd >= 0)
			kernel_ctl(ep, EPOLL_CTL_ADD, ep->kick_fd,
				   EPOLLIN | EPOLLET, TAG | KICK);
	}
}

/* A socket in one set is told of by that set's lane; one in several sets, or of
 * several processes, by its anchor. */
static void item_choose_slot(struct epitem *it)
{
	struct sock *sk = it->file->sk;
	bool alone = !it->file->items->next_of_sock;

	if (is_child(it) || !sk->seg)
		return;
	if (alone && it->slot == SLOT_NONE && !it->ep->nested) {
		it->slot = slot_open(it->ep->lane, it);
		store_rel(&shm_me(sk)->slot, it->slot);
	} else if (!alone) {
		for (struct epitem *o = it->file->items; o;
		     o = o->next_of_sock) {
			slot_close(o->slot);
			o->slot = SLOT_NONE;
		}
		store_rel(&shm_me(sk)->slot, SLOT_NONE);
	}
}

static void item_merge(struct epitem *it)
{
	struct epoll *ep = it->ep;

	if (it->merged)
		return;
	epoll_equip(ep);
	if (kernel_ctl(ep, EPOLL_CTL_MOD, it->fd, hint_events(ep),
		       tag_of(it))) {
		/* EPOLLEXCLUSIVE entries cannot be changed in place. */
		kernel_ctl(ep, EPOLL_CTL_DEL, it->fd, 0, 0);
		kernel_ctl(ep, EPOLL_CTL_ADD, it->fd, hint_events(ep),
			   tag_of(it));
	}
	if (!it->tagged) {
		it->tagged = true;
		ep->n_tagged++;
	}
	it->merged = true;
	it->fresh = true;
	ep->n_merged++;
	item_choose_slot(it);
	push_ready(it);
	kick(ep);
}

void epoll_merge_sock(struct file *f)
{
	/* The lists are stable enough to walk: items are added and dropped
	 * under the file's lock. */
	GUARD(&f->lock);
	f->merged = 1;
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

void epoll_touch(struct file *f, unsigned events)
{
	if (likely(!f->items))
		return;
	GUARD(&f->lock);
	for (struct epitem *it = f->items; it; it = it->next_of_sock) {
		if (!it->merged || it->parked)
			continue;
		GUARD(&it->ep->lock);
		it->ev_seen &= ~events;
		push_ready(it);
		kick(it->ep);
	}
}

void epoll_free(struct epoll *ep)
{
	for (uint32_t i = 0; i < ep->n_items; i++) {
		struct epitem *it = ep->items[i];

		if (it->in_use) {
			GUARD(&it->file->lock);
			GUARD(&ep->lock);
			item_drop(it);
		}
	}
	for (uint32_t i = 0; i < ep->n_items; i++)
		free(ep->items[i]);
	free(ep->items);
	lane_close(ep->lane);
	fds_close(ep->kick_fd);
	free(ep);
}

/*
 * epoll_ctl().
 */

/* Entries whose firing we must see carry our tag from the start. */
static bool wants_tag(uint32_t events) { return events & EPOLLONESHOT; }

static int ctl_add(struct epoll *ep, struct file *f, int fd,
		   struct epoll_event *ev)
{
	bool merged = f->merged || f->kind == FILE_EPOLL;
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
	if (tagged) {
		it->tagged = true;
		ep->n_tagged++;
	}
	if (merged) {
		it->merged = true;
		it->fresh = true;
		ep->n_merged++;
		epoll_equip(ep);
		item_choose_slot(it);
		push_ready(it);
		kick(ep);
	}
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
		ep->n_tagged += tagged && !it->tagged;
		it->tagged = tagged;
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
		if (it->slot != SLOT_NONE) {
			store_rel(&shm_me(it->file->sk)->slot, SLOT_NONE);
			slot_close(it->slot);
			it->slot = SLOT_NONE;
		}
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
		if (f->kind == FILE_SOCK && !f->merged)
			file_settle(f, fd);
		GUARD(&f->lock);
		GUARD(&fe->ep->lock);
		err = ctl_locked(fe->ep, f, op, fd, ev);
	}
	if (f)
		file_put(f);
	return err;
}

/*
 * epoll_wait().
 */

static void item_news(void *owner, void *arg)
{
	struct epitem *it = owner;

	if (it->in_use && !it->parked && it->ep == arg)
		push_ready(it);
}

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

/*
 * Edge-triggered: an edge is a bit that was not there at the last look, or stream
 * bytes that have come since the last report.
 */
static bool has_edge(struct epitem *it, struct sock *sk, uint32_t ev)
{
	int inq = ev & EPOLLIN ? shm_inq(sk, it->file->anchor_fd) : 0;
	bool eof =
	    ev & EPOLLIN && shm_events(sk, it->file->anchor_fd) & POLLRDHUP;
	uint64_t rx = sk->st.rx_bytes_shm + sk->st.rx_bytes_inet +
		      (uint64_t)(inq > 0 ? inq : 0) + eof;
	bool edge = it->fresh || ev & ~it->ev_seen ||
		    (ev & EPOLLIN && rx > it->rx_seen);

	it->ev_seen = ev;
	if (edge) {
		it->rx_seen = rx;
		it->fresh = false;
	}
	return edge;
}

/* Events of the item now; if none, ask to be told and look once more. */
static uint32_t item_events(struct epitem *it)
{
	if (unlikely(is_child(it)))
		return child_events(it);
	struct sock *sk = it->file->sk;
	uint32_t want = it->events | EPOLLERR | EPOLLHUP;
	uint32_t ev = shm_events(sk, it->file->anchor_fd);
	enum shm_arm how = it->slot == SLOT_NONE ? ARM_ANCHOR : ARM_INBOX;

	if (ev & want && !(it->events & EPOLLET))
		return ev & want;
	if (!sk->seg)
		return ev & want;
	/* Space is worth a word only to who has none. */
	uint32_t arm = EPOLLIN | (ev & EPOLLOUT ? 0 : it->events & EPOLLOUT);
	shm_arm(sk, arm, how);
	ev = shm_events(sk, it->file->anchor_fd) & want;
	if (!(it->events & EPOLLET))
		return ev;
	return has_edge(it, sk, ev) ? ev : 0;
}

/* Fill @evs from the ready list.  Caller holds the lock. */
static int collect_ready(struct epoll *ep, struct epoll_event *evs, int max)
{
	struct list again;
	int n = 0;

	list_init(&again);
	while (n < max && !list_is_empty(&ep->ready)) {
		struct epitem *it =
		    container_of(ep->ready.next, struct epitem, ready);

		put_aside(it);
		if (it->disabled || !it->merged) {
			list_del(&it->ready);
			continue;
		}
		uint32_t ev = item_events(it);
		if (!ev)
			continue;
		evs[n++] =
		    (struct epoll_event){ .events = ev, .data = it->data };
		if (it->events & EPOLLONESHOT) {
			it->disabled = true;
		} else if (!(it->events & EPOLLET)) {
			list_del(&it->ready);
			list_add_tail(&again, &it->ready);
		}
	}
	while (!list_is_empty(&again)) {
		struct list *l = again.next;

		list_del(l);
		list_add_tail(&ep->ready, l);
	}
	return n;
}

static int collect(struct epoll *ep, struct epoll_event *evs, int max)
{
	GUARD(&ep->lock);
	push_always(ep);
	if (ep->lane != LANE_NONE)
		inbox_harvest(ep->lane, item_news, ep);
	int n = collect_ready(ep, evs, max);
	if (!list_is_empty(&ep->ready) && n == max)
		kick(ep); /* there is more than one waiter's worth */
	return n;
}

/* A hint from the kernel about an upgraded socket's anchor. */
static void hint(struct epitem *it, uint32_t events)
{
	struct sock *sk = it->file->sk;

	if (is_child(it)) {
		push_ready(it);
		return;
	}
	if (!sk->seg)
		return;
	if (events & (EPOLLHUP | EPOLLERR | EPOLLRDHUP))
		anchor_look(sk, it->file->anchor_fd);
	bool keep = load_rlx(&sk->n_sleepers) ||
		    (it->slot == SLOT_NONE &&
		     shm_events(sk, it->file->anchor_fd) & POLLIN);
	if (!keep && lock_try(&sk->rx_lock)) {
		/* With unread doorbells in it the anchor's next edge might be
		 * lost; but a sleeper, or who looks from outside, needs it. */
		anchor_drain(sk, it->file->anchor_fd);
		lock_put(&sk->rx_lock);
	}
	if (!it->parked)
		push_ready(it);
}

/*
 * Turn what the kernel returned into what the program asked for: its own entries
 * as they are, tagged ones of kernel sockets with the program's data, and hints
 * not at all.  Returns how many of @evs[0..n) remain.
 */
static int translate(struct epoll *ep, struct epoll_event *evs, int n)
{
	int kept = 0;

	GUARD(&ep->lock);
	for (int i = 0; i < n; i++) {
		uint64_t data = evs[i].data.u64;
		uint32_t idx = (uint32_t)data;

		if ((data & TAG_MASK) != TAG ||
		    (idx >= ep->n_items && idx != KICK)) {
			evs[kept++] = evs[i];
			continue;
		}
		if (idx == KICK || !ep->items[idx]->in_use)
			continue;
		struct epitem *it = ep->items[idx];
		if (it->merged) {
			hint(it, evs[i].events);
			continue;
		}
		it->disabled = it->events & EPOLLONESHOT;
		evs[kept].events = evs[i].events;
		evs[kept++].data = it->data;
	}
	return kept;
}

static int kernel_look(struct epoll *ep, int epfd, struct epoll_event *evs,
		       int max)
{
	int n = libc.epoll_wait(epfd, evs, max, 0);

	return n > 0 ? translate(ep, evs, n) : 0;
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

	if (a->ep->lane != LANE_NONE &&
	    lane_has_news(&inbox_own()->lane[a->ep->lane]))
		return true;
	if (++a->turns % 64)
		return false;
	return libc.poll(&p, 1, 0) > 0;
}

/* Sleep in the kernel's set, having said so to those who post in our lane. */
static int wait_sleep(struct epoll *ep, int epfd, struct epoll_event *evs,
		      int max, uint64_t deadline_ns, const sigset_t *mask)
{
	struct lane *lane =
	    ep->lane == LANE_NONE ? NULL : &inbox_own()->lane[ep->lane];
	struct timespec left = { 0 };
	int n = 0;

	fetch_add(&ep->n_waiting, 1);
	if (lane)
		xchg(&lane->sleeping, 1u); /* and a fence */
	if (!(lane && lane_has_news(lane)) && list_is_empty(&ep->ready)) {
		uint64_t now = now_ns();

		if (now < deadline_ns)
			left = ns_timespec(deadline_ns - now);
		n = libc.epoll_pwait2(epfd, evs, max,
				      deadline_ns == UINT64_MAX ? NULL : &left,
				      mask);
		if (n < 0)
			n = -errno;
	}
	if (fetch_sub(&ep->n_waiting, 1) == 1 && lane)
		store_rlx(&lane->sleeping, 0u);
	else if (lane)
		xchg(&lane->sleeping, 1u); /* for the others */
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
		count(slept ? &it->file->sk->st.n_sleeps
			    : &it->file->sk->st.n_spins,
		      1);
	}
}

static int merged_wait(struct epoll *ep, int epfd, struct epoll_event *evs,
		       int max, uint64_t deadline_ns, bool poll_only,
		       const sigset_t *mask)
{
	uint64_t start = 0;

	for (;;) {
		int n = 0;

		/* Kernel descriptors get their turn however busy ours are: half
		 * of the places every few calls. */
		if (++ep->n_waits % KERNEL_LOOK_CALLS == 0)
			n = kernel_look(ep, epfd, evs, (max + 1) / 2);
		if (n < max)
			n += collect(ep, evs + n, max - n);
		if (!n)
			n = kernel_look(ep, epfd, evs, max);
		if (!n)
			n = collect(ep, evs, max);
		if (n || poll_only)
			return n;

		struct spin_arg arg = { .ep = ep, .epfd = epfd };
		if (!start)
			start = now_ns();
		if (start >= deadline_ns)
			return 0;
		if (spin_until(wait_spin_ready, &arg, deadline_ns)) {
			n = collect(ep, evs, max);
			count_wait(ep, n, false);
			if (!n)
				n = kernel_look(ep, epfd, evs, max);
			if (n)
				return n;
			continue;
		}
		n = wait_sleep(ep, epfd, evs, max, deadline_ns, mask);
		if (n < 0)
			return n;
		n = translate(ep, evs, n);
		if (n < max)
			n += collect(ep, evs + n, max - n);
		count_wait(ep, n, true);
		uint64_t now = now_ns();
		if (n) {
			spin_learn(now - start);
			return n;
		}
		if (now >= deadline_ns)
			return 0;
	}
}

int epoll_file_wait(int epfd, struct file *fe, struct epoll_event *evs, int max,
		    const struct timespec *ts, const sigset_t *mask)
{
	struct epoll *ep = fe->ep;
	uint64_t deadline_ns = UINT64_MAX;
	bool poll_only = ts && !ts->tv_sec && !ts->tv_nsec;

	if (max <= 0 || (size_t)max > INT32_MAX / sizeof(*evs))
		return -EINVAL;
	/* Without sockets of ours in it the set is the kernel's alone. */
	bool may_merge = load_rlx(&ep->n_items);
	if (ts && !poll_only && may_merge)
		deadline_ns = now_ns() + (uint64_t)ts->tv_sec * NS_PER_S +
			      (uint64_t)ts->tv_nsec;
	if (!load_rlx(&ep->n_tagged)) {
		int n = libc.epoll_pwait2(epfd, evs, max, ts, mask);

		if (n < 0)
			return -errno;
		if (likely(!load_rlx(&ep->n_tagged) && ep->kick_fd < 0) || !n)
			return n;
		n = translate(ep, evs, n);
		if (n)
			return n;
	}
	return merged_wait(ep, epfd, evs, max, deadline_ns, poll_only, mask);
}

bool epoll_is_merged(const struct file *fe)
{
	return load_rlx(&fe->ep->n_tagged);
}

bool epoll_has_ready(struct file *fe)
{
	struct epoll *ep = fe->ep;

	GUARD(&ep->lock);
	if (ep->lane != LANE_NONE)
		inbox_harvest(ep->lane, item_news, ep);
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

	GUARD(&ep->lock);
	for (uint32_t i = 0; i < ep->n_items; i++) {
		struct epitem *it = ep->items[i];
		struct sock *sk = it->file->sk;

		if (!it->in_use || !it->merged || it->parked || is_child(it))
			continue;
		/* An unread doorbell or an ended anchor is a hint. */
		if (sk->anchor_end != ANCHOR_OPEN ||
		    sk->bells_drained != load_acq(&shm_peer(sk)->bells)) {
			hint(it, 0);
			hinted = true;
		}
	}
	return !hinted || libc.poll(&p, 1, 0) > 0;
}

void epoll_sleeping(struct file *fe) { epoll_nest(fe); }

/* The lane and what peers know of it are the parent's: in the child every socket
 * is told of by its anchor. */
void epoll_after_fork(struct file *fe)
{
	struct epoll *ep = fe->ep;

	ep->lock = (struct lock){ 0 };
	ep->forked = true;
	ep->lane = LANE_NONE;
	ep->n_waiting = 0;
	for (uint32_t i = 0; i < ep->n_items; i++)
		ep->items[i]->slot = SLOT_NONE;
}
