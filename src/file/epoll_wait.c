/* SPDX-License-Identifier: MIT */
/*
 * file/epoll_wait.c - epoll_wait(); see file/epoll_set.h
 *
 *     ready list, kernel's set  ->  wait_step(): spin, sleep in the kernel's set
 */
#include <errno.h>
#include <poll.h>
#include <sys/prctl.h>

#include "base/bell.h"
#include "base/clock.h"
#include "base/rawcall.h"
#include "base/spin.h"
#include "base/unwind.h"
#include "base/idle.h"
#include "base/nocancel.h"
#include "file/epoll_set.h"
#include "sock/wait.h"

/* While our sockets have events the kernel's set is asked in each call if it had some the last
 * time, else in one call of 2, 4, and so on up to this. */
#define KERNEL_LOOK_CALLS 8u
/* After so many wake-ups that brought it nothing, a thread leaves them to the threads that
 * find more to do. */
#define IDLE_VAIN_MAX 16u
#define IDLE_LOOK_NS (20 * NS_PER_MS)
/* A nap.  The kernel adds the timer slack of the thread, 50 us as a rule. */
#define NAP_NS (5 * NS_PER_US)
#define NAP_SLACK_MAX ((long)(200 * NS_PER_US))

static struct naps naps;

/* Asked once, before a thread's first nap.  One that is set later is found by naps_took(). */
static __thread uint8_t slack_known __attribute__((tls_model("initial-exec")));
enum { SLACK_IS_SMALL = 1, SLACK_IS_LARGE };

/* The next whole millisecond; -1: without end. */
static int ms_of(const struct timespec *ts)
{
	if (!ts)
		return -1;
	if (ts->tv_sec >= INT32_MAX / 1000)
		return INT32_MAX;
	return (int)(ts->tv_sec * 1000 +
		     (ts->tv_nsec + NS_PER_MS - 1) / NS_PER_MS);
}

/* epoll_pwait2() of the kernel.  Kernels before 5.11, filters of containers and valgrind do not
 * have it: there the time has milliseconds. */
static bool has_no_pwait2;

static int kernel_pwait2(int epfd, struct epoll_event *evs, int max,
			 const struct timespec *ts, const sigset_t *mask)
{
	if (likely(!load_rlx(&has_no_pwait2))) {
		int n = libc.epoll_pwait2(epfd, evs, max, ts, mask);

		if (likely(n >= 0 || (errno != ENOSYS && errno != EPERM)))
			return n;
		store_rlx(&has_no_pwait2, true);
	}
	return libc.epoll_pwait(epfd, evs, max, ms_of(ts), mask);
}

static int kernel_poll(struct epoll *ep, int epfd, struct epoll_event *evs,
		       int max, uint64_t now)
{
	int n = nocancel_epoll_wait(epfd, evs, max, 0);

	if (n < max) /* there is no more */
		ready_asked(&ep->rs, now);
	return n > 0 ? epoll_translate(ep, evs, n) : 0;
}

/* The kernel's set was asked, and had @n events for a call with @max places. */
static void kernel_had(struct epoll *ep, int n, int max)
{
	ep->n_waits = 0;
	if (n) /* sockets of ours need a turn, too */
		ep->look_calls = n == max ? 2 : 1;
	else
		ep->look_calls = MIN(2 * ep->look_calls, KERNEL_LOOK_CALLS);
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

/* One call that waits for a set with sockets of ours. */
struct waiting {
	struct wait wait;
	struct epoll *ep;
	int epfd;
	struct epoll_event *evs;
	int max;
	int n;     /* of evs, that the last sleep has fetched */
	bool news; /* something has come before we slept */
	bool is_asleep;
	bool naps; /* see file/batch.h */
	unsigned rounds;
};

static struct waiting *waiting_of(struct wait *w)
{
	return container_of(w, struct waiting, wait);
}

static bool has_come(void *arg)
{
	struct waiting *a = waiting_of(arg);
	struct pollfd p = { .fd = a->epfd, .events = POLLIN };

	idle_spin();
	if (ready_has_come(&a->ep->rs))
		return true;
	if (++a->rounds % 64)
		return false;
	return nocancel_poll(&p, 1, 0) > 0;
}

static COLD void learn_slack(void)
{
	long slack = rawcall(SYS_prctl, PR_GET_TIMERSLACK, 0, 0, 0, 0);

	slack_known = slack > NAP_SLACK_MAX ? SLACK_IS_LARGE : SLACK_IS_SMALL;
}

/* Would a nap of this thread end in time? */
static bool can_nap(void)
{
	if (load_rlx(&has_no_pwait2) ||
	    (load_rlx(&naps.off_until) && naps_are_off(&naps, now_ns())))
		return false;
	if (unlikely(!slack_known))
		learn_slack();
	return slack_known == SLACK_IS_SMALL;
}

static bool should_nap(struct epoll *ep)
{
	GUARD(&ep->lock);
	return ep->rs.feed && can_nap() &&
	       batch_naps(&ep->batch, bell_sleepers_met());
}

static void begin_sleep(struct wait *w)
{
	struct waiting *a = waiting_of(w);

	a->n = 0;
	if (unlikely(a->ep->n_merged && !load_rlx(&a->ep->bell_tried)))
		epoll_hang_bell(a->ep);
	if (idle_is_on()) { /* since this wait began, maybe */
		epoll_idle(a->ep);
		if (!load_rlx(&a->ep->idle_off))
			idle_waits();
	}
	a->naps = should_nap(a->ep);
	a->news = !(a->naps ? ready_nap(&a->ep->rs) : ready_sleep(&a->ep->rs));
	a->is_asleep = true;
}

static bool look_again(struct wait *w)
{
	struct waiting *a = waiting_of(w);

	return a->news || epoll_has_listed(a->ep);
}

static uint64_t next_ns(struct wait *w)
{
	const struct epoll *ep = waiting_of(w)->ep;
	uint64_t at = load_rlx(&ep->held_until);

	if (ep->n_merged && !ep->forked) /* see push_some() */
		at = MIN(at, w->asleep_ns + SOME_LOOK_NS);
	if (unlikely(load_rlx(&ep->idle_off)))
		at = MIN(at, w->asleep_ns + IDLE_LOOK_NS);
	if (waiting_of(w)->naps)
		at = MIN(at, w->asleep_ns + NAP_NS);
	return at;
}

/* The kernel's set of several processes does not hold the descriptor of base/idle.h, since
 * another process would take its event (epoll_idle()).  So this thread waits for both. */
static COLD int shared_pwait(struct waiting *a, const struct timespec *left)
{
	struct pollfd p = { .fd = a->epfd, .events = POLLIN };
	int n = poll_too(&p, 1, left, a->wait.mask);

	return n > 0 ? nocancel_epoll_wait(a->epfd, a->evs, a->max, 0) : n;
}

static int sleep_in_set(struct wait *w, const struct timespec *left)
{
	struct waiting *a = waiting_of(w);
	bool is_shared = a->ep->forked || load_rlx(&a->ep->shared);
	int n = unlikely(is_shared && idle_is_on())
		    ? shared_pwait(a, left)
		    : kernel_pwait2(a->epfd, a->evs, a->max, left, w->mask);

	if (n < 0)
		return -errno;
	if (a->naps && !n)
		naps_took(&naps, w->asleep_ns, now_ns());
	if (n < a->max) { /* there was no more */
		ready_asked(&a->ep->rs, w->asleep_ns);
		if (!is_shared)
			store_rlx(&a->ep->told_ns, coarse_ns());
	}
	a->ep->n_waits = 0; /* the kernel's descriptors had their turn */
	a->n = n;
	return 0;
}

static void end_sleep(struct wait *w)
{
	struct waiting *a = waiting_of(w);

	if (a->is_asleep)
		ready_awake(&a->ep->rs);
	a->is_asleep = false;
}

static const struct wait_ops waits = { .has_come = has_come,
				       .begin = begin_sleep,
				       .look = look_again,
				       .next_ns = next_ns,
				       .sleep = sleep_in_set,
				       .end = end_sleep };

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

static bool is_over(const struct waiting *a)
{
	uint64_t end = a->wait.deadline_ns;

	return end != UINT64_MAX && now_ns() >= end;
}

/* Items were given back after the kernel's set was asked: it has their events now. */
static int ask_again(const struct waiting *a, int n)
{
	if (n || likely(!load_rlx(&a->ep->gave_back)))
		return n;
	store_rlx(&a->ep->gave_back, false);
	return kernel_poll(a->ep, a->epfd, a->evs, a->max, now_ns());
}

static int ask_kernel(const struct waiting *a, int max)
{
	int n = kernel_poll(a->ep, a->epfd, a->evs, max, now_ns());

	kernel_had(a->ep, n, a->max);
	return n;
}

/* What is there without waiting.  Kernel descriptors have their turns, however busy our sockets
 * are, and leave a place to each of these, or half of all places. */
static int look_first(const struct waiting *a, bool poll_only)
{
	struct epoll *ep = a->ep;
	int n = 0, half = a->max / 2;
	uint32_t ours = load_rlx(&ep->n_items);

	if (++ep->n_waits >= ep->look_calls)
		n = ask_kernel(a, a->max - MIN((int)ours, half));
	n = add_ours(a->ep, a->epfd, a->evs, a->max, n);
	if (n)
		return n;
	/* A sleep asks the kernel, too. */
	if (poll_only || spin_pays() || is_over(a)) {
		n = ask_kernel(a, a->max);
		n = add_ours(a->ep, a->epfd, a->evs, a->max, n);
	}
	return ask_again(a, n);
}

/*
 * Each thread that sleeps also waits for base/idle.h, so each arriving frame wakes all of
 * them.  If a thread is woken in this way again and again and finds nothing for itself, while
 * other threads wait for base/idle.h anyhow, then it sleeps without base/idle.h.  Every 20 ms
 * it checks that others have waited for it lately.
 */
static void share_idle(struct epoll *ep, bool slept, int n)
{
	if (n)
		store_rlx(&ep->idle_vain, 0u);
	if (unlikely(load_rlx(&ep->idle_off))) {
		if (!idle_is_driven() || n)
			epoll_idle_wakes(ep, true);
		if (slept)
			idle_run();
	} else if (load_rlx(&ep->idle_vain) > IDLE_VAIN_MAX && !ep->nested) {
		store_rlx(&ep->idle_vain, 0u);
		if (idle_leaves())
			epoll_idle_wakes(ep, false);
	}
}

/* What the wait has brought. */
static int look_after(const struct waiting *a)
{
	bool slept = a->wait.has_slept;
	int n = slept ? epoll_translate(a->ep, a->evs, a->n) : 0;

	if (n)
		kernel_had(a->ep, n, a->max);
	n = add_ours(a->ep, a->epfd, a->evs, a->max, n);
	if (unlikely(idle_is_on()))
		share_idle(a->ep, slept, n);
	count_wait(a->ep, n, slept);
	if (!n && !slept) {
		n = ask_kernel(a, a->max);
		n = add_ours(a->ep, a->epfd, a->evs, a->max, n);
	}
	return ask_again(a, n);
}

static int merged_wait(struct waiting *a, bool poll_only)
{
	for (;;) {
		int n = look_first(a, poll_only);

		if (n || poll_only)
			return n;
		vain_again(&a->wait.vain);
		int err = wait_step(&a->wait);
		if (err)
			return err == -EAGAIN ? 0 : err;
		n = look_after(a);
		if (n || (a->wait.has_slept && is_over(a)))
			return n;
	}
}

/* A thread that sleeps in the kernel's set; cleaned up on cancellation too. */
struct in_set {
	struct unwind u;
	struct epoll *ep;
};

static void in_set_end(struct unwind *u)
{
	ready_awake(&((struct in_set *)u)->ep->rs);
}

/* The kernel's own set; another thread may add a socket of ours, and kick. */
static int kernel_wait(struct epoll *ep, int epfd, struct epoll_event *evs,
		       int max, const struct timespec *ts, const sigset_t *mask)
{
	UNWIND(struct in_set, me) = { .ep = ep };

	if (!is_single_threaded()) {
		ready_sleep(&ep->rs);
		unwind_push(&me.u, in_set_end);
	}
	int n = kernel_pwait2(epfd, evs, max, ts, mask);
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
	if (unlikely(load_rlx(&ep->fd) < 0))
		epoll_adopt(fe, epfd);
	/* A set without sockets of ours belongs to the kernel alone, as long as
	 * no other thread adds one. */
	bool may_merge = load_rlx(&ep->n_items) || !is_single_threaded();
	if (idle_is_on()) {
		/* A set inside another one would make that one report each frame, and nobody
		 * sleeps here. */
		if (!poll_only || !ep->nested)
			epoll_idle(ep);
		if (!poll_only && !load_rlx(&ep->idle_off))
			idle_waits();
		may_merge = true;
	} else if (unlikely(load_rlx(&ep->idle_fd) >= 0)) {
		epoll_no_idle(ep);
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
	struct waiting a = { .wait = { .ops = &waits,
				       .deadline_ns = deadline_ns,
				       .seen = handlers_seen(),
				       .mask = mask },
			     .ep = ep,
			     .epfd = epfd,
			     .evs = evs,
			     .max = max };
	return merged_wait(&a, poll_only);
}
