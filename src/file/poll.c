/* SPDX-License-Identifier: MIT */
/* file/poll.c - see file/poll.h */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/fds.h"
#include "base/libc.h"
#include "base/unwind.h"
#include "base/idle.h"
#include "base/nocancel.h"
#include "file/epoll.h"
#include "file/file.h"
#include "file/poll.h"
#include "sock/anchor.h"
#include "sock/sleep.h"
#include "sock/sock_ops.h"
#include "sock/wait.h"

#define ALWAYS (POLLERR | POLLHUP | POLLNVAL)
#define ON_STACK 64

/* One pollfd as we serve it: a copy for the kernel, and our file if the
 * descriptor is one of ours. */
struct entry {
	struct file *file; /* referenced; NULL: the kernel's alone */
	struct pollfd kernel;
	bool young; /* the kernel's, but another thread may upgrade it */
	bool asked; /* the kernel, this time */
	bool gone;  /* the number has left the file: see forget() */
	struct sleep_entry nap;
};

/* A program that polls in a loop asks for ends no more often than this. */
#define ENDS_NS (20 * NS_PER_US)

struct poller {
	struct unwind u;
	struct pollfd *fds; /* the program's */
	struct entry *entries;
	struct pollfd
	    *kfds; /* scratch for the kernel, SLEEP_EXTRA more than n */
	nfds_t n;
	nfds_t n_kernel; /* entries that the kernel alone serves */
	unsigned rounds;
	bool any_gone; /* of the entries */
	void *heap;    /* or NULL: entries and kfds are on the stack */
	struct wait wait;
	struct sleeper sleeper;
	int n_woken; /* of kfds, by the last sleep */
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

bool poll_concerns(int fd)
{
	uintptr_t entry = fd >= 0 ? table_load(fd) : 0;

	if (likely(!entry || entry & FILE_PASS))
		return false;
	return whose((const struct file *)entry) != NOT_OURS;
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
		if (unlikely(poll_concerns(fds[i].fd)))
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
	if (unlikely(e->gone))
		return true;
	if (e->young && whose(e->file) == OURS)
		e->young = false;
	return !e->file || e->file->kind == FILE_EPOLL || e->young;
}

/* The kernel's answer for an entry. */
static short kernel_revents(struct entry *e, short re)
{
	if (!e->file || e->gone || !re)
		return re;
	/* A merged set may be readable only because of an anchor: check whether
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

		p->fds[i].revents =
		    e->file && !e->young && !e->gone ? file_revents(e) : 0;
		n_ready += p->fds[i].revents != 0;
		if (kernel)
			p->kfds[n_k++] = (struct pollfd){
				.fd = p->fds[i].fd,
				.events = p->fds[i].events,
			};
		e->asked = kernel;
	}
	if (!n_k || !ask_kernel || nocancel_poll(p->kfds, n_k, 0) <= 0)
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
	if (!e->file || e->file->kind != FILE_SOCK || e->young || e->gone)
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
	if (!n_k || nocancel_poll(p->kfds, n_k, 0) <= 0)
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

/* What a sleeping entry waits for, in the words of sock/sleep.h: POLLIN also stands for the end
 * of the peer's stream, which is POLLRDHUP, and POLLHUP if the program has shut its direction. */
static unsigned awaits(const struct entry *e)
{
	unsigned ev = (unsigned short)e->kernel.events;
	bool in = ev & (POLLIN | POLLRDNORM | POLLRDHUP) ||
		  load_rlx(&e->file->sk->w->shut) & SHUT_BIT_WR;

	return (in ? POLLIN : 0u) |
	       (ev & (POLLOUT | POLLWRNORM) ? POLLOUT : 0u);
}

/* A descriptor of what the entry sleeps on. */
static int fd_of(const struct entry *e)
{
	const struct file *f = e->file;

	if (likely(!e->gone))
		return e->kernel.fd;
	int moved = load_acq(&f->moved_fd);
	return moved < 0 ? load_acq(&f->anchor_fd) : moved;
}

static void arm(struct poller *p, struct entry *e)
{
	if (!e->file)
		return;
	if (e->file->kind == FILE_EPOLL) {
		epoll_sleeping(e->file);
		return;
	}
	e->nap.sk = e->file->sk;
	e->nap.fd = fd_of(e);
	sleep_arm(&p->sleeper, &e->nap, awaits(e));
}

static void disarm(struct poller *p, struct entry *e, short revents)
{
	struct sock *sk = e->nap.sk;

	if (!e->nap.is_armed)
		return;
	sleep_disarm(&p->sleeper, &e->nap);
	count(&sk->st->n_sleeps, 1);
	/* Another thread may have closed the number, or put something else there. */
	int fd = fd_of(e);
	if (!file_is_at(e->file, fd) && !(e->gone && e->file->hidden))
		return;
	if (revents & (POLLHUP | POLLERR | POLLRDHUP) &&
	    sock_ops(sk)->own_events)
		sock_ops(sk)->events_now(sk, fd);
	if (revents & POLLIN)
		anchor_clear(sk, fd);
}

/* What to ask the kernel for while asleep.  A connection that the kernel carries wakes by the
 * program's own events.  With POLLIN, unread bytes would end each sleep of a program that
 * waits for POLLRDHUP alone. */
static struct pollfd sleeping_pollfd(const struct entry *e)
{
	struct pollfd k = e->kernel;

	k.fd = fd_of(e);
	if (!e->file || e->file->kind == FILE_EPOLL)
		return k;
	const struct sock_ops *ops = sock_ops(e->file->sk);
	if (ops->is_ours)
		k.events |= (short)awaits(e);
	ops->sleep_on(e->file->sk, &k);
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

static struct poller *poller_of(struct wait *w)
{
	return container_of(w, struct poller, wait);
}

static bool any_ready(void *arg)
{
	struct poller *p = poller_of(arg);

	return look(p, ++p->rounds % 64 == 0) > 0;
}

static void begin_sleep(struct wait *w)
{
	struct poller *p = poller_of(w);

	for (nfds_t i = 0; i < p->n; i++)
		arm(p, &p->entries[i]);
}

/* No ring says whether an entry is ready whose number has left its file: only the kernel knows. */
static bool look_again(struct wait *w)
{
	struct poller *p = poller_of(w);

	return look(p, unlikely(p->any_gone));
}

/* When one of them may become ready without a notification. */
static uint64_t next_ns(struct wait *w)
{
	const struct poller *p = poller_of(w);
	uint64_t first = sleep_look_ns(&p->sleeper, w->asleep_ns);

	for (nfds_t i = 0; i < p->n; i++) {
		const struct file *f = p->entries[i].file;

		if (!f)
			continue;
		first = MIN(first, f->kind == FILE_EPOLL
				       ? epoll_corked_until(f)
				       : sock_ops(f->sk)->next_ns(f->sk));
	}
	if (may_complete(p))
		first = MIN(first, w->asleep_ns + NS_PER_MS);
	return first;
}

static int sleep_now(struct wait *w, const struct timespec *left)
{
	struct poller *p = poller_of(w);

	for (nfds_t i = 0; i < p->n; i++)
		p->kfds[i] = sleeping_pollfd(&p->entries[i]);
	p->n_woken = sleep_poll(&p->sleeper, p->kfds, p->n, left, w->mask);
	return MIN(p->n_woken, 0);
}

static void end_sleep(struct wait *w)
{
	struct poller *p = poller_of(w);

	for (nfds_t i = 0; i < p->n; i++)
		disarm(p, &p->entries[i],
		       p->n_woken > 0 ? p->kfds[i].revents : 0);
	p->n_woken = 0;
}

static const struct wait_ops waits = { .has_come = any_ready,
				       .begin = begin_sleep,
				       .look = look_again,
				       .next_ns = next_ns,
				       .sleep = sleep_now,
				       .end = end_sleep };

static void poller_end(struct unwind *u)
{
	struct poller *p = (struct poller *)u;

	for (nfds_t i = 0; i < p->n; i++) {
		struct entry *e = &p->entries[i];

		disarm(p, e, 0); /* if it was left asleep */
		if (e->file)
			file_put(e->file);
	}
	free(p->heap);
}

/* Does the number of @e, which has left the file, name its description still?  The thread that
 * closes it is on its way. */
static bool is_leaving(const struct entry *e)
{
	const struct file *f = e->file;
	int fd = e->kernel.fd, anchor = load_acq(&f->anchor_fd);

	if (f->kind != FILE_SOCK || load_acq(&f->moved_fd) >= 0)
		return false;
	/* The bell rings when the file has another one, or can have none. */
	if (anchor == fd)
		return load_acq(&f->sk->closed_fd1) != (uint32_t)fd + 1;
	uint64_t cookie = fds_cookie(anchor);
	return cookie && fds_cookie(fd) == cookie;
}

/* As in the kernel, what the number names now decides whether the entry is ready.  A thread that
 * sleeps on the old description goes on doing so. */
static COLD void forget(struct poller *p, struct entry *e)
{
	struct file *f = e->file;

	if (is_leaving(e)) {
		e->gone = load_acq(&f->anchor_fd) != e->kernel.fd;
		p->any_gone |= e->gone;
		return;
	}
	e->young = e->gone = false;
	e->file = NULL;
	file_put(f);
}

/* While we waited another thread may have closed a descriptor or reused its number. */
static void forget_closed(struct poller *p)
{
	for (nfds_t i = 0; i < p->n; i++) {
		struct entry *e = &p->entries[i];

		if (e->file && !file_is_at(e->file, e->kernel.fd))
			forget(p, e);
	}
}

static int poll_loop(struct poller *p, const struct timespec *ts,
		     const sigset_t *mask)
{
	uint64_t start = ts ? now_ns() : 0, deadline_ns = UINT64_MAX;
	int n = look(p, true);

	if (n || (ts && !ts->tv_sec && !ts->tv_nsec))
		return look_ends(p, n);
	if (ts)
		deadline_ns = start + (uint64_t)ts->tv_sec * NS_PER_S +
			      (uint64_t)ts->tv_nsec;
	p->wait.mask = mask;
	p->wait.deadline_ns = deadline_ns;
	for (;;) {
		vain_again(&p->wait.vain);
		int err = wait_step(&p->wait);

		if (err == -EAGAIN)
			return 0;
		forget_closed(p);
		n = look(p, true);
		if (n)
			return p->wait.has_slept ? n : look_ends(p, n);
		if (err)
			return err;
	}
}

/* Each member by itself: most of a sleeper is rarely used. */
static void poller_init(struct poller *p, struct pollfd *fds, nfds_t n)
{
	p->u = (struct unwind){ 0 };
	p->fds = fds;
	p->n = n;
	p->rounds = 0;
	p->any_gone = false;
	p->heap = NULL;
	p->wait = (struct wait){ .ops = &waits, .seen = handlers_seen() };
	p->n_woken = 0;
	sleeper_init(&p->sleeper);
}

int poll_files(struct pollfd *fds, nfds_t n, const struct timespec *ts,
	       const sigset_t *mask)
{
	struct entry entries[ON_STACK];
	struct pollfd kfds[ON_STACK + SLEEP_EXTRA];
	UNWIND(struct poller, p);

	poller_init(&p, fds, n);
	p.entries = entries;
	p.kfds = kfds;
	if (ts && (ts->tv_sec < 0 || ts->tv_nsec < 0 ||
		   ts->tv_nsec >= (long)NS_PER_S))
		return -EINVAL;
	if (n > ON_STACK) {
		p.heap = malloc(n * (sizeof(*entries) + sizeof(*kfds)) +
				SLEEP_EXTRA * sizeof(*kfds));
		if (!p.heap)
			return -ENOMEM;
		p.entries = p.heap;
		p.kfds = (struct pollfd *)(p.entries + n);
	}
	for (nfds_t i = 0; i < n; i++) {
		struct entry *e = &p.entries[i];

		e->kernel = fds[i];
		e->file = NULL;
		e->young = e->asked = e->gone = false;
		sleep_entry_init(&e->nap, NULL, fds[i].fd);
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
