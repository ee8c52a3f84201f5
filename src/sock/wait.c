/* SPDX-License-Identifier: MIT */
/* sock/wait.c - see sock/wait.h */
#include <errno.h>
#include <pthread.h>
#include <signal.h>

#include "base/bell.h"
#include "base/clock.h"
#include "base/idle.h"
#include "base/libc.h"
#include "base/spin.h"
#include "sock/sock_ops.h"
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

/* An unread completion of MSG_ZEROCOPY does not end a blocking call's sleep. */
static bool only_completions(const struct nap *n)
{
	for (nfds_t i = 0; i < n->n_fds; i++)
		if (n->fds[i].revents & ~POLLERR)
			return false;
	return true;
}

/* ppoll() on @fds, and on the one all sleepers serve. */
static int poll_too(struct pollfd *fds, nfds_t n, const struct timespec *left,
		    const sigset_t *mask)
{
	struct pollfd all[WAIT_FDS + 1];
	uint32_t number;
	int extra = n < ARRAY_LEN(all) ? idle_fd(&number) : -1;

	if (likely(extra < 0))
		return libc.ppoll(fds, n, left, mask);
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

static void ring(struct ready_set *rs) { bell_ring_own(rs->bell1 - 1); }

void ready_init_bell(struct ready_set *rs)
{
	ready_init(rs, ring);
	rs->bell1 = bell_mine() + 1;
	rs->is_calls = true;
}

uint64_t ready_look_ns(const struct ready_set *rs)
{
	uint32_t bell = rs->bell1 - 1;

	if (bell_own_fd(bell) < 0)
		return now_ns() + NS_PER_MS;
	return bell_is_private(bell) ? UINT64_MAX : now_ns() + BELL_LOOK_NS;
}

/* A process may have lowered its limit of descriptors below @n: poll() refuses. */
static int wait_blind(void)
{
	struct timespec ms = { .tv_nsec = NS_PER_MS };

	return libc.ppoll(NULL, 0, &ms, NULL);
}

int wait_fds(struct pollfd *fds, nfds_t n, const struct call_wait *w,
	     uint64_t until_ns)
{
	uint64_t now = until_ns == UINT64_MAX ? 0 : now_ns();
	struct timespec ts = ns_timespec(now < until_ns ? until_ns - now : 0);

	int r = poll_too(fds, n, until_ns == UINT64_MAX ? NULL : &ts, NULL);
	if (!r && until_ns == w->deadline_ns)
		return -EAGAIN;
	if (r < 0 && errno == EINVAL)
		r = wait_blind();
	/* Any handler ends ppoll().  Go on if all of them had SA_RESTART. */
	if (r < 0 && errno == EINTR && waiter_restarts(w) &&
	    handlers_ran(w->seen, false) && !handlers_ran(w->seen, true))
		return 0;
	return r < 0 ? -errno : 0;
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
	return s.ops->sleep(sk, fd, w);
}
