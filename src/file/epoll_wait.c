/* SPDX-License-Identifier: MIT */
/*
 * file/epoll_wait.c - epoll_wait(); see file/epoll_set.h
 *
 *     ready list, kernel's set  ->  spin  ->  sleep in the kernel's set
 */
#include <poll.h>

#include "base/clock.h"
#include "base/spin.h"
#include "base/unwind.h"
#include "base/idle.h"
#include "file/epoll_set.h"

#define KERNEL_LOOK_CALLS 8

static int kernel_poll(struct epoll *ep, int epfd, struct epoll_event *evs,
		       int max, uint64_t now)
{
	int n = libc.epoll_wait(epfd, evs, max, 0);

	if (n < max) /* there is no more */
		ready_asked(&ep->rs, now);
	return n > 0 ? epoll_translate(ep, evs, n) : 0;
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
 * Add our sockets' events to the @n events of the kernel; returns the total.
 * If some of ours must come after the kernel's, poll the kernel first, but not
 * a second time: it would report level-triggered events twice.
 */
static int add_ours(struct epoll *ep, int epfd, struct epoll_event *evs,
		    int max, int n)
{
	int before = 0;

	if (n == max)
		return n;
	int ours = epoll_collect(ep, evs + n, max - n, false, &before);
	if (unlikely(ours < 0)) {
		if (!n)
			n = kernel_poll(ep, epfd, evs, (max + 1) / 2, now_ns());
		ours = epoll_collect(ep, evs + n, max - n, true, &before);
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

	idle_spin();
	if (ready_has_come(&a->ep->rs))
		return true;
	if (++a->turns % 64)
		return false;
	return libc.poll(&p, 1, 0) > 0;
}

/* A thread that sleeps in the kernel's set; cleaned up on cancellation too. */
struct sleeper {
	struct unwind u;
	struct epoll *ep;
};

static void sleeper_end(struct unwind *u)
{
	ready_awake(&((struct sleeper *)u)->ep->rs);
}

/* Sleep in the kernel's set, after telling those who notify us. */
static int wait_sleep(struct epoll *ep, int epfd, struct epoll_event *evs,
		      int max, uint64_t deadline_ns, const sigset_t *mask,
		      struct handlers_seen seen)
{
	UNWIND(struct sleeper, me) = { .ep = ep };
	struct timespec left = { 0 };
	int n = 0;

	if (unlikely(ep->n_merged && !load_rlx(&ep->bell_tried)))
		epoll_hang_bell(ep);
	if (idle_is_on()) /* since this wait began, maybe */
		epoll_idle(ep);
	bool go = ready_sleep(&ep->rs);
	unwind_push(&me.u, sleeper_end);
	if (go && !epoll_has_listed(ep)) {
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
		else if (n < max) /* there was no more */
			ready_asked(&ep->rs, now);
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

		/* Kernel descriptors get half of the places every few calls,
		 * however busy our sockets are. */
		if (++ep->n_waits % KERNEL_LOOK_CALLS == 0)
			n = kernel_poll(ep, epfd, evs, (max + 1) / 2, now_ns());
		n = add_ours(ep, epfd, evs, max, n);
		now = n ? 0 : now_ns();
		/* A sleep asks the kernel, too. */
		if (!n && (poll_only || now >= deadline_ns || spin_pays())) {
			n = kernel_poll(ep, epfd, evs, max, now);
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
				n = kernel_poll(ep, epfd, evs, max, start);
				n = add_ours(ep, epfd, evs, max, n);
			}
			if (n)
				return n;
			continue;
		}
		n = wait_sleep(ep, epfd, evs, max, deadline_ns, mask, seen);
		if (n < 0)
			return n;
		n = add_ours(ep, epfd, evs, max, epoll_translate(ep, evs, n));
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
	UNWIND(struct sleeper, me) = { .ep = ep };

	if (!is_single_threaded()) {
		ready_sleep(&ep->rs);
		unwind_push(&me.u, sleeper_end);
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
	/* A set without sockets of ours belongs to the kernel alone, as long as
	 * no other thread adds one. */
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
		/* The set may have changed: never return a tag. */
		if (likely(!epoll_has_tag(evs, n)))
			return n;
		n = add_ours(ep, epfd, evs, max, epoll_translate(ep, evs, n));
		if (n)
			return n;
	}
	return merged_wait(ep, epfd, evs, max, deadline_ns, poll_only, mask);
}
