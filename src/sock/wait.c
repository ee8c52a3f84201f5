/* SPDX-License-Identifier: MIT */
/* sock/wait.c - see sock/wait.h */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/idle.h"
#include "base/libc.h"
#include "base/spin.h"
#include "sock/sleep.h"
#include "sock/wait.h"

/* Run the handlers of signals that came while all were blocked.  Return -EINTR
 * if one of them ends the call. */
static int handlers_run(const sigset_t *mask, const sigset_t *all,
			bool restarts)
{
	bool any = false;
	sigset_t due;
	int err = 0;

	if (sigpending(&due))
		return 0;
	for (int sig = 1; sig < NSIG; sig++) {
		struct sigaction sa;

		if (sigismember(&due, sig) != 1 ||
		    sigismember(mask, sig) == 1 ||
		    libc.sigaction(sig, NULL, &sa))
			continue;
		any = true;
		if (sa.sa_handler != SIG_DFL && sa.sa_handler != SIG_IGN &&
		    !(restarts && sa.sa_flags & SA_RESTART))
			err = -EINTR;
	}
	if (any) {
		pthread_sigmask(SIG_SETMASK, mask, NULL);
		pthread_sigmask(SIG_SETMASK, all, NULL);
	}
	return err;
}

/* So many waits in vain take at least as long as this. */
#define VAIN_NS (2 * NS_PER_MS)

COLD void vain_sleep(struct vain *v)
{
	uint64_t now = now_ns(), took = now - v->since_ns;

	if (v->since_ns && took < VAIN_NS) {
		struct timespec rest = ns_timespec(VAIN_NS - took);

		libc.ppoll(NULL, 0, &rest, NULL);
		now = now_ns();
	}
	v->since_ns = now;
}

/* An unread completion of MSG_ZEROCOPY does not end a blocking call's sleep. */
static bool only_completions(const struct nap *n)
{
	for (nfds_t i = 0; i < n->n_fds; i++)
		if (n->fds[i].revents & ~POLLERR)
			return false;
	return true;
}

int poll_too(struct pollfd *fds, nfds_t n, const struct timespec *left,
	     const sigset_t *mask)
{
	struct pollfd all[3];
	uint32_t number;
	int extra = n < ARRAY_LEN(all) ? idle_fd(&number) : -1;

	if (likely(extra < 0))
		return libc.ppoll(fds, n, left, mask);
	idle_waits();
	all[n] = (struct pollfd){ .fd = extra, .events = POLLIN };
	for (nfds_t i = 0; i < n; i++)
		all[i] = fds[i];
	int r = libc.ppoll(all, n + 1, left, mask);
	for (nfds_t i = 0; i < n; i++)
		fds[i].revents = r > 0 ? all[i].revents : 0;
	if (r > 0 && all[n].revents) {
		idle_run();
		r--;
	}
	return r;
}

static int nap_once(const struct nap *n, const sigset_t *mask, uint64_t now)
{
	uint64_t left = MIN(n->deadline_ns - now, n->tick_ns);
	struct timespec ts = ns_timespec(left);
	const sigset_t *meanwhile = n->restarts ? NULL : mask;
	int r = poll_too(n->fds, n->n_fds, left == UINT64_MAX ? NULL : &ts,
			 meanwhile);

	if (r > 0 && only_completions(n)) {
		ts = ns_timespec(MIN(left, NS_PER_MS));
		r = libc.ppoll(NULL, 0, &ts, meanwhile);
	}
	if (r < 0)
		return -errno;
	n->woke(n->arg);
	return r;
}

COLD int nap(const struct nap *n)
{
	sigset_t all, mask;
	int r = 0;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &mask);
	while (!r && !n->is_over(n->arg)) {
		uint64_t now = now_ns();

		if (now >= n->deadline_ns)
			r = -EAGAIN;
		else
			r = nap_once(n, &mask, now);
		if (!r && n->restarts)
			r = handlers_run(&mask, &all, true);
	}
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
	return MIN(r, 0);
}

/*
 * A call that moves bytes.
 */

struct calls_wait {
	struct wait wait;
	struct sleeper sleeper;
	struct sleep_entry entry;
	unsigned want;
};

static struct calls_wait *call_of(struct wait *w)
{
	return container_of(w, struct calls_wait, wait);
}

static void call_begins(struct wait *w)
{
	struct calls_wait *c = call_of(w);

	sleep_arm(&c->sleeper, &c->entry, c->want);
}

static __thread const struct sock *closed_here
    __attribute__((tls_model("initial-exec")));

void wait_closes(const struct sock *sk) { closed_here = sk; }

bool wait_is_closed(const struct sock *sk, int fd, struct handlers_seen seen)
{
	return (handlers_ran(seen, false) || closed_here == sk) &&
	       libc.fcntl(fd, F_GETFD) < 0;
}

/* If so, the entry sleeps on another descriptor of the socket, where nobody wakes it. */
static bool is_closed(const struct calls_wait *c)
{
	return wait_is_closed(c->entry.sk, c->entry.fd, c->wait.seen);
}

static bool is_same_file(int a, int b)
{
	struct stat of_a, of_b;

	return !libc.fstat(a, &of_a) && !libc.fstat(b, &of_b) &&
	       of_a.st_dev == of_b.st_dev && of_a.st_ino == of_b.st_ino;
}

int wait_fd(const struct sock *sk, int fd, struct handlers_seen seen)
{
	int moved = (int)load_acq(&sk->moved_fd1) - 1;

	if (likely(moved < 0))
		return fd;
	/* Whoever closes @fd wakes this thread first: right now it may be the socket's still. */
	bool leaves = load_rlx(&sk->closed_fd1) == (uint32_t)fd + 1 ||
		      !is_same_file(fd, moved);
	/* Asked last: a handler may run at any time. */
	return leaves && !wait_is_closed(sk, fd, seen) ? moved : fd;
}

static bool call_looks(struct wait *w)
{
	const struct calls_wait *c = call_of(w);

	return sock_ops(c->entry.sk)->events(c->entry.sk, c->entry.fd) &
		   c->want ||
	       is_closed(c);
}

static uint64_t call_next_ns(struct wait *w)
{
	const struct calls_wait *c = call_of(w);
	struct sock *sk = c->entry.sk;

	return MIN(sleep_look_ns(&c->sleeper, w->asleep_ns),
		   sock_ops(sk)->next_ns(sk));
}

/* A process may have lowered its limit of descriptors so far that poll() refuses. */
static int call_sleeps(struct wait *w, const struct timespec *left)
{
	struct calls_wait *c = call_of(w);
	struct sock *sk = c->entry.sk;
	struct pollfd fds[1 + SLEEP_EXTRA] = { { .fd = c->entry.fd,
						 .events = (short)c->want } };
	struct timespec ms = { .tv_nsec = NS_PER_MS };

	sock_ops(sk)->sleep_on(sk, &fds[0]);
	count(&sk->st->n_sleeps, 1);
	int r = sleep_poll(&c->sleeper, fds, 1, left, w->mask);
	if (r == -EINVAL)
		r = libc.ppoll(NULL, 0, &ms, NULL) < 0 ? -errno : 0;
	if (r > 0 && fds[0].revents & POLLNVAL) /* a handler has closed it */
		return -EBADF;
	if (r > 0 && fds[0].revents == POLLERR) /* see only_completions() */
		r = libc.ppoll(NULL, 0, &ms, NULL) < 0 ? -errno : 0;
	return MIN(r, 0);
}

static void call_ends(struct wait *w)
{
	struct calls_wait *c = call_of(w);

	sleep_disarm(&c->sleeper, &c->entry);
}

int wait_asleep(struct sock *sk, int fd, const struct call_wait *w)
{
	static const struct wait_ops ops = { .begin = call_begins,
					     .look = call_looks,
					     .next_ns = call_next_ns,
					     .sleep = call_sleeps,
					     .end = call_ends };
	struct calls_wait c = { .wait = { .ops = &ops,
					  .deadline_ns = w->deadline_ns,
					  .seen = w->seen,
					  .restarts = waiter_restarts(w) },
				.want = w->dir == DIR_TX ? POLLOUT
					: w->partial     ? POLLIN | POLLPRI
							 : POLLIN };

	sleep_entry_init(&c.entry, sk, fd);
	c.entry.for_room = w->dir == DIR_TX;
	int r = wait_step(&c.wait);
	return !r && is_closed(&c) ? -EBADF : r;
}

struct spinning {
	struct sock *sk;
	const struct sock_ops *ops;
	int dir;
};

static bool is_ready(void *arg)
{
	const struct spinning *s = arg;

	return s->ops->is_ready(s->sk, s->dir) > 0;
}

int wait_for(struct sock *sk, int fd, const struct call_wait *w)
{
	struct spinning s = { sk, sock_ops(sk), w->dir };
	uint64_t start = now_ns();

	if (start >= w->deadline_ns)
		return -EAGAIN;
	bool spins = s.ops->is_ready(sk, w->dir) >= 0;
	if (spins && spin_until(is_ready, &s, w->deadline_ns)) {
		count(&sk->st->n_spins, 1);
		return 0;
	}
	return s.ops->sleep ? s.ops->sleep(sk, fd, w) : wait_asleep(sk, fd, w);
}
