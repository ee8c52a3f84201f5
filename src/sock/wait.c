/* SPDX-License-Identifier: MIT */
/* sock/wait.c - see sock/wait.h */
#include <errno.h>
#include <pthread.h>
#include <signal.h>

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

/* ppoll() on the nap's descriptors, and on the one all sleepers serve. */
static int nap_poll(const struct nap *n, const struct timespec *left,
		    const sigset_t *mask)
{
	struct pollfd both[2];
	uint32_t number;
	int extra = n->n_fds < ARRAY_LEN(both) ? idle_fd(&number) : -1;

	if (likely(extra < 0))
		return libc.ppoll(n->fds, n->n_fds, left, mask);
	both[n->n_fds] = (struct pollfd){ .fd = extra, .events = POLLIN };
	for (nfds_t i = 0; i < n->n_fds; i++)
		both[i] = n->fds[i];
	int r = libc.ppoll(both, n->n_fds + 1, left, mask);
	for (nfds_t i = 0; i < n->n_fds; i++)
		n->fds[i].revents = r > 0 ? both[i].revents : 0;
	if (r > 0 && both[n->n_fds].revents) {
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
	int r = nap_poll(n, left == UINT64_MAX ? NULL : &ts, meanwhile);

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
