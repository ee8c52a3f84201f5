/* SPDX-License-Identifier: MIT */
/* file/poll.c - see file/poll.h */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/bell.h"
#include "base/clock.h"
#include "base/libc.h"
#include "base/spin.h"
#include "base/unwind.h"
#include "base/idle.h"
#include "file/epoll.h"
#include "file/file.h"
#include "file/poll.h"
#include "sock/anchor.h"
#include "sock/sock_ops.h"
#include "sock/wait.h"

#define ALWAYS (POLLERR | POLLHUP | POLLNVAL)
#define ON_STACK 64
#define EXTRA 2 /* what a sleep watches besides: the bell, and base/idle.h's */

/* One pollfd as we serve it: a copy for the kernel, and our file if the
 * descriptor is one of ours. */
struct entry {
	struct file *file; /* referenced; NULL: the kernel's alone */
	struct pollfd kernel;
	bool young; /* the kernel's, but another thread may upgrade it */
	bool armed;
	const struct sock_ops *by_bell; /* whose peer rings the thread's bell */
	bool asked;                     /* the kernel, this time */
	struct watch watch; /* open while we sleep, if a protocol tells it */
};

/* A program that polls in a loop asks for ends no more often than this. */
#define ENDS_NS (20 * NS_PER_US)

struct poller {
	struct unwind u;
	struct pollfd *fds; /* the program's */
	struct entry *entries;
	struct pollfd *kfds; /* scratch for the kernel, EXTRA more than n */
	nfds_t n;
	nfds_t n_kernel; /* entries that the kernel alone serves */
	unsigned turns;
	bool
	    is_full; /* the kernel takes no more of them: no place for a bell */
	void *heap;  /* or NULL: entries and kfds are on the stack */
	struct ready_set rs; /* of the watches; wake is NULL: none so far */
	struct handlers_seen seen;
};

enum { NOT_OURS, YOUNG, OURS };

static int whose(const struct file *f)
{
	if (f->kind == FILE_EPOLL)
		return epoll_is_merged(f) ? OURS : NOT_OURS;
	const struct sock_ops *ops = sock_ops(f->sk);
	if (ops->is_ours)
		return OURS;
	/* A single thread cannot upgrade it while it waits. */
	return ops->may_move && !is_single_threaded() ? YOUNG : NOT_OURS;
}

static int concerns(int fd)
{
	uintptr_t entry = fd >= 0 ? table_load(fd) : 0;

	if (likely(!entry || entry & FILE_PASS))
		return NOT_OURS;
	return whose((const struct file *)entry);
}

/* The kernel refuses these before it looks at them. */
static bool are_too_many(nfds_t n)
{
	struct rlimit rl;

	return n > ON_STACK && !getrlimit(RLIMIT_NOFILE, &rl) &&
	       n > rl.rlim_cur;
}

bool poll_concerns_us(const struct pollfd *fds, nfds_t n)
{
	if (unlikely(are_too_many(n)))
		return false;
	if (idle_is_on())
		return true;
	for (nfds_t i = 0; i < n; i++)
		if (unlikely(concerns(fds[i].fd)))
			return true;
	return false;
}

static short file_revents(const struct entry *e)
{
	unsigned want = (unsigned short)e->kernel.events | ALWAYS;
	struct file *f = e->file;

	if (f->kind == FILE_EPOLL)
		return epoll_has_ready(f) ? (short)(POLLIN & want) : 0;
	unsigned ev = sock_ops(f->sk)->events(f->sk, e->kernel.fd);
	if (unlikely(!load_rlx(&f->merged)))
		file_sync(f, e->kernel.fd);
	return (short)(ev & want);
}

static bool asks_kernel(struct entry *e)
{
	if (e->young && whose(e->file) == OURS)
		e->young = false;
	return !e->file || e->file->kind == FILE_EPOLL || e->young;
}

/* The kernel's answer for an entry. */
static short kernel_revents(struct entry *e, short re)
{
	if (!e->file || !re)
		return re;
	/* A merged set may be readable only because of our hint: check whether
	 * it would return an event. */
	if (e->file->kind == FILE_EPOLL)
		return epoll_kernel_ready(e->file) ? re : 0;
	/* It was upgraded meanwhile: the kernel may have seen a doorbell. */
	return asks_kernel(e) ? re : file_revents(e);
}

/* Fill in revents; how many are not 0. */
static int look(struct poller *p, bool ask_kernel)
{
	int n_ready = 0;
	nfds_t n_k = 0;

	for (nfds_t i = 0; i < p->n; i++) {
		struct entry *e = &p->entries[i];
		bool kernel = asks_kernel(e);

		p->fds[i].revents = e->file && !e->young ? file_revents(e) : 0;
		n_ready += p->fds[i].revents != 0;
		if (kernel)
			p->kfds[n_k++] = (struct pollfd){
				.fd = p->fds[i].fd,
				.events = p->fds[i].events,
			};
		e->asked = kernel;
	}
	if (!n_k || !ask_kernel || libc.poll(p->kfds, n_k, 0) <= 0)
		return n_ready;
	n_k = 0;
	for (nfds_t i = 0; i < p->n; i++) {
		struct entry *e = &p->entries[i];

		if (!e->asked)
			continue;
		short re = kernel_revents(e, p->kfds[n_k++].revents);
		n_ready += re && !p->fds[i].revents;
		p->fds[i].revents |= re;
	}
	return n_ready;
}

/* Must we ask the kernel whether the TCP connection has ended? */
static bool asks_end(const struct entry *e, short revents, uint64_t now)
{
	if (!e->file || e->file->kind != FILE_SOCK || e->young)
		return false;
	struct sock *sk = e->file->sk;
	if (!sock_ops(sk)->own_events ||
	    load_rlx(&sk->w->anchor_end) != ANCHOR_OPEN)
		return false;
	/* Unless it polls for POLLRDHUP, the program reads the bytes first. */
	if (revents & POLLIN && !(e->kernel.events & POLLRDHUP))
		return anchor_ask_due(sk);
	if (now - load_rlx(&sk->polled_ns) < ENDS_NS)
		return false;
	store_rlx(&sk->polled_ns, now);
	return true;
}

/*
 * Called before poll() returns without having slept.  A peer that was killed
 * leaves no trace in shared memory; only the kernel knows.  Returns the number
 * of revents that are not 0 afterwards.
 */
static int look_ends(struct poller *p, int n_ready)
{
	uint64_t now = now_ns();
	nfds_t n_k = 0;

	for (nfds_t i = 0; i < p->n; i++) {
		struct entry *e = &p->entries[i];

		e->asked = asks_end(e, p->fds[i].revents, now);
		if (e->asked)
			p->kfds[n_k++] = (struct pollfd){
				.fd = p->fds[i].fd,
				.events = POLLRDHUP,
			};
	}
	if (!n_k || libc.poll(p->kfds, n_k, 0) <= 0)
		return n_ready;
	n_k = 0;
	for (nfds_t i = 0; i < p->n; i++) {
		struct entry *e = &p->entries[i];

		if (!e->asked || !p->kfds[n_k++].revents)
			continue;
		sock_ops(e->file->sk)->events_now(e->file->sk, e->kernel.fd);
		short re = file_revents(e);
		n_ready += re && !p->fds[i].revents;
		p->fds[i].revents = re;
	}
	return n_ready;
}

static bool any_ready(void *arg)
{
	struct poller *p = arg;

	return look(p, ++p->turns % 64 == 0) > 0;
}

/* A protocol of this process tells us what comes. */
static COLD void watch(struct poller *p, struct entry *e)
{
	if (!p->rs.wake)
		ready_init_bell(&p->rs);
	watch_open(e->file->sk, &e->watch, &p->rs);
}

static void arm(struct poller *p, struct entry *e)
{
	if (!e->file)
		return;
	if (e->file->kind == FILE_EPOLL) {
		epoll_sleeping(e->file);
		return;
	}
	/* Arm a young socket too: another thread may upgrade it while we sleep,
	 * and then nobody else may read its doorbells. */
	struct sock *sk = e->file->sk;
	bool others = anchor_sleep_begin(sk, e->kernel.fd, false);
	e->armed = true;
	if (whose(e->file) != OURS)
		return;
	const struct sock_ops *ops = sock_ops(sk);
	unsigned events = (unsigned short)e->kernel.events & (POLLIN | POLLOUT);
	if (unlikely(ops->in_process))
		watch(p, e);
	if (events & POLLIN && !p->is_full && !others && ops->arm_bell &&
	    ops->arm_bell(sk, e->kernel.fd)) {
		e->by_bell = ops;
		events &= ~(unsigned)POLLIN;
	}
	ops->arm(sk, e->kernel.fd, events, NULL);
}

static void disarm(struct entry *e, short revents)
{
	if (!e->armed)
		return;
	struct sock *sk = e->file->sk;
	e->armed = false;
	if (e->by_bell)
		e->by_bell->disarm_bell(sk);
	e->by_bell = NULL;
	watch_close(sk, &e->watch);
	anchor_sleep_end(sk, false);
	if (revents & (POLLHUP | POLLERR | POLLRDHUP) &&
	    sock_ops(sk)->own_events)
		sock_ops(sk)->events_now(sk, e->kernel.fd);
	if (revents & POLLIN)
		anchor_clear(sk, e->kernel.fd);
	count(&sk->st->n_sleeps, 1);
}

/* What to ask the kernel for while asleep. */
static struct pollfd sleeping_pollfd(const struct entry *e)
{
	struct pollfd k = e->kernel;

	if (!e->file || e->file->kind == FILE_EPOLL)
		return k;
	sock_ops(e->file->sk)->sleep_on(e->file->sk, &k);
	return k;
}

/* Another thread or process may send with MSG_ZEROCOPY, whose completion makes
 * the socket ready.  The anchors do not notify us of that: sleep in
 * short steps. */
static bool may_complete(const struct poller *p)
{
	for (nfds_t i = 0; i < p->n; i++) {
		const struct file *f = p->entries[i].file;

		if (f && f->kind == FILE_SOCK &&
		    unlikely(load_rlx(&f->sk->w->zc_on)) &&
		    !sock_is_alone(f->sk))
			return true;
	}
	return false;
}

/* When one of them may become ready without a notification. */
static uint64_t next_ns(const struct poller *p)
{
	uint64_t first = UINT64_MAX;

	for (nfds_t i = 0; i < p->n; i++) {
		const struct file *f = p->entries[i].file;

		if (!f)
			continue;
		first = MIN(first, f->kind == FILE_EPOLL
				       ? epoll_corked_until(f)
				       : sock_ops(f->sk)->next_ns(f->sk));
	}
	return first;
}

static bool has_bell(const struct poller *p)
{
	if (unlikely(p->rs.wake != NULL))
		return true;
	for (nfds_t i = 0; i < p->n; i++)
		if (p->entries[i].by_bell)
			return true;
	return false;
}

/* When to look although no bell has rung.  The kernel may have refused to poll() ours:
 * then those who are notified by other threads look each millisecond. */
static uint64_t bell_look_ns(const struct poller *p)
{
	if (p->rs.wake && p->is_full)
		return now_ns() + NS_PER_MS;
	if (p->rs.wake)
		return ready_look_ns(&p->rs);
	return bell_is_private(bell_mine()) ? UINT64_MAX
					    : now_ns() + BELL_LOOK_NS;
}

/*
 * ppoll() of the first n descriptors and of those we watch besides.  Sets
 * *@again if only the latter woke us, or if there was no room for them.
 */
static int kernel_sleep(struct poller *p, const struct timespec *left,
			const sigset_t *mask, bool *again)
{
	struct pollfd *extra = p->kfds + p->n;
	uint32_t number,
	    bell = has_bell(p) && !p->is_full ? bell_mine() : BELL_NONE;

	extra[0] = (struct pollfd){ .fd = idle_fd(&number), .events = POLLIN };
	extra[1] = (struct pollfd){ .fd = bell_own_fd(bell), .events = POLLIN };
	nfds_t n_extra = extra[1].fd >= 0 ? 2 : extra[0].fd >= 0;
	int r = libc.ppoll(p->kfds, p->n + n_extra, left, mask);

	if (r < 0 && errno == EINVAL && bell != BELL_NONE) {
		p->is_full = *again = true; /* RLIMIT_NOFILE */
		return 0;
	}
	if (r <= 0)
		return r < 0 ? -errno : 0;
	if (n_extra && unlikely(extra[0].revents)) {
		idle_run();
		r--;
	}
	if (n_extra == 2 && extra[1].revents) {
		bell_hush(bell);
		r--;
	}
	*again = !r;
	return r;
}

/* 0 to look again, -EAGAIN when time is over, -EINTR, ... */
static int sleep_once(struct poller *p, uint64_t deadline_ns,
		      const sigset_t *mask)
{
	struct timespec left;
	bool naps = false;
	int r = 0;

	for (nfds_t i = 0; i < p->n; i++)
		arm(p, &p->entries[i]);
	bool go = !look(p, false);
	for (nfds_t i = 0; i < p->n; i++)
		p->kfds[i] = sleeping_pollfd(&p->entries[i]);
	if (go && handlers_ran(p->seen, false)) {
		r = -EINTR;
	} else if (go) {
		uint64_t now = now_ns();

		uint64_t due = next_ns(p);
		if (due < deadline_ns) {
			deadline_ns = due;
			naps = true;
		}
		if (may_complete(p) && deadline_ns > now + NS_PER_MS) {
			deadline_ns = now + NS_PER_MS;
			naps = true;
		}
		uint64_t look_ns = has_bell(p) ? bell_look_ns(p) : UINT64_MAX;
		if (deadline_ns > look_ns) {
			deadline_ns = look_ns;
			naps = true;
		}
		left = ns_timespec(now < deadline_ns ? deadline_ns - now : 0);
		bool again = false;
		r = kernel_sleep(p, deadline_ns == UINT64_MAX ? NULL : &left,
				 mask, &again);
		naps |= again;
	}
	for (nfds_t i = 0; i < p->n; i++)
		disarm(&p->entries[i], r > 0 ? p->kfds[i].revents : 0);
	if (go && !r && !naps)
		return -EAGAIN;
	return r < 0 ? r : 0;
}

static void poller_end(struct unwind *u)
{
	struct poller *p = (struct poller *)u;

	for (nfds_t i = 0; i < p->n; i++) {
		struct entry *e = &p->entries[i];

		disarm(e, 0); /* if it was left asleep */
		if (e->file)
			file_put(e->file);
	}
	free(p->heap);
}

/* While we slept another thread may have closed a descriptor or reused its
 * number.  As in the kernel, what counts is what the number names now. */
static void forget_closed(struct poller *p)
{
	for (nfds_t i = 0; i < p->n; i++) {
		struct entry *e = &p->entries[i];

		if (!e->file || file_is_at(e->file, e->kernel.fd))
			continue;
		file_put(e->file);
		e->file = NULL;
		e->young = false;
	}
}

static int poll_loop(struct poller *p, const struct timespec *ts,
		     const sigset_t *mask)
{
	uint64_t start = now_ns(), deadline_ns = UINT64_MAX;
	int n = look(p, true);

	if (n || (ts && !ts->tv_sec && !ts->tv_nsec))
		return look_ends(p, n);
	if (ts)
		deadline_ns = start + (uint64_t)ts->tv_sec * NS_PER_S +
			      (uint64_t)ts->tv_nsec;
	for (;;) {
		if (spin_until(any_ready, p, deadline_ns)) {
			n = look(p, true);
			if (n)
				return look_ends(p, n);
		}
		int err = sleep_once(p, deadline_ns, mask);
		forget_closed(p);
		n = look(p, true);
		if (n)
			return n;
		if (err == -EAGAIN || now_ns() >= deadline_ns)
			return 0;
		if (err)
			return err;
	}
}

int poll_files(struct pollfd *fds, nfds_t n, const struct timespec *ts,
	       const sigset_t *mask)
{
	struct entry entries[ON_STACK];
	struct pollfd kfds[ON_STACK + EXTRA];
	UNWIND(struct poller, p) = { .fds = fds,
				     .entries = entries,
				     .kfds = kfds,
				     .n = n,
				     .seen = handlers_seen() };

	if (ts && (ts->tv_sec < 0 || ts->tv_nsec < 0 ||
		   ts->tv_nsec >= (long)NS_PER_S))
		return -EINVAL;
	if (n > ON_STACK) {
		p.heap = malloc(n * (sizeof(*entries) + sizeof(*kfds)) +
				EXTRA * sizeof(*kfds));
		if (!p.heap)
			return -ENOMEM;
		p.entries = p.heap;
		p.kfds = (struct pollfd *)(p.entries + n);
	}
	for (nfds_t i = 0; i < n; i++) {
		struct entry *e = &p.entries[i];

		e->kernel = fds[i];
		e->file = NULL;
		e->by_bell = NULL;
		e->young = e->armed = e->asked = false;
		e->watch.set = NULL;
		struct file *f = file_get(fds[i].fd);
		int who = f ? whose(f) : NOT_OURS;

		if (f && who == NOT_OURS) {
			file_put(f);
			continue;
		}
		e->file = f;
		e->young = who == YOUNG;
	}
	unwind_push(&p.u, poller_end);
	return poll_loop(&p, ts, mask);
}

/* select() is poll() in another notation. */

#define SEL_IN (POLLRDNORM | POLLRDBAND | POLLIN | POLLHUP | POLLERR)
#define SEL_OUT (POLLWRBAND | POLLWRNORM | POLLOUT | POLLERR)
#define SEL_EX POLLPRI

static bool in_set(int fd, const fd_set *s)
{
	/* Past FD_SETSIZE too: programs do allocate larger ones. */
	return s && s->fds_bits[fd / NFDBITS] >> (fd % NFDBITS) & 1;
}

static void set_bit(int fd, fd_set *s)
{
	s->fds_bits[fd / NFDBITS] |= (fd_mask)(1UL << (fd % NFDBITS));
}

static void clear_set(fd_set *s, int n)
{
	if (s)
		memset(s, 0,
		       (size_t)((n + NFDBITS - 1) / NFDBITS) * sizeof(fd_mask));
}

static short wanted(int fd, const fd_set *r, const fd_set *w, const fd_set *e)
{
	return (short)((in_set(fd, r) ? POLLIN : 0) |
		       (in_set(fd, w) ? POLLOUT : 0) |
		       (in_set(fd, e) ? POLLPRI : 0));
}

bool select_concerns_us(int n, fd_set *const sets[3])
{
	for (int i = 0; i < 3; i++)
		if (n < 0 || (sets[i] && is_bad_ptr(sets[i])))
			return false;
	if (idle_is_on())
		return true;
	for (int fd = 0; fd < n; fd++)
		if (wanted(fd, sets[0], sets[1], sets[2]) &&
		    concerns(fd) != NOT_OURS)
			return true;
	return false;
}

int select_files(int n, fd_set *r, fd_set *w, fd_set *e,
		 const struct timespec *ts, const sigset_t *mask, bool *ours)
{
	struct pollfd on_stack[ON_STACK], *fds = on_stack;
	nfds_t n_fds = 0, concern = idle_is_on();

	*ours = false;
	for (int fd = 0; fd < n; fd++) {
		if (!wanted(fd, r, w, e))
			continue;
		n_fds++;
		concern += concerns(fd) != NOT_OURS;
	}
	if (!concern)
		return 0;
	*ours = true;
	if (n_fds > ON_STACK && !(fds = malloc(n_fds * sizeof(*fds))))
		return -ENOMEM;
	n_fds = 0;
	for (int fd = 0; fd < n; fd++) {
		short want = wanted(fd, r, w, e);

		if (want)
			fds[n_fds++] =
			    (struct pollfd){ .fd = fd, .events = want };
	}
	int n_ready = poll_files(fds, n_fds, ts, mask);
	for (nfds_t i = 0; n_ready > 0 && i < n_fds; i++)
		if (fds[i].revents & POLLNVAL)
			n_ready = -EBADF;
	if (n_ready >= 0) {
		clear_set(r, n);
		clear_set(w, n);
		clear_set(e, n);
		n_ready = 0;
		for (nfds_t i = 0; i < n_fds; i++) {
			short re = fds[i].revents, ev = fds[i].events;

			if (ev & POLLIN && re & SEL_IN)
				set_bit(fds[i].fd, r), n_ready++;
			if (ev & POLLOUT && re & SEL_OUT)
				set_bit(fds[i].fd, w), n_ready++;
			if (ev & POLLPRI && re & SEL_EX)
				set_bit(fds[i].fd, e), n_ready++;
		}
	}
	if (fds != on_stack)
		free(fds);
	return n_ready;
}
