/* SPDX-License-Identifier: MIT */
/* sock/sleep.c - see sock/sleep.h */
#include <errno.h>

#include "base/bell.h"
#include "base/clock.h"
#include "base/compiler.h"
#include "base/idle.h"
#include "base/libc.h"
#include "sock/anchor.h"
#include "sock/sleep.h"

static void ring(struct ready_set *rs) { bell_ring_own(rs->bell1 - 1); }

/* A protocol of this process tells us what comes. */
static COLD void watch(struct sleeper *s, struct sleep_entry *e)
{
	if (!s->rs.wake) {
		ready_init(&s->rs, ring);
		s->rs.bell1 = bell_mine() + 1;
		s->rs.is_calls = true;
	}
	watch_open(e->sk, &e->watch, &s->rs);
}

void sleep_entry_init(struct sleep_entry *e, struct sock *sk, int fd)
{
	e->sk = sk;
	e->fd = fd;
	e->is_armed = e->for_room = false;
	e->by_bell = NULL;
	e->watch.set = NULL;
}

/* A young socket is armed, too: another thread may upgrade it while we sleep, and then
 * nobody else may read its doorbells. */
void sleep_arm(struct sleeper *s, struct sleep_entry *e, unsigned events)
{
	bool others = anchor_sleep_begin(e->sk, e->fd, e->for_room);
	const struct sock_ops *ops = sock_ops(e->sk);

	e->is_armed = true;
	if (!is_single_threaded()) {
		s->may_leave = true;
		bell_mine(); /* it can be rung before the caller looks */
	}
	if (!ops->is_ours)
		return;
	if (unlikely(ops->in_process))
		watch(s, e);
	if (events & POLLIN && !s->is_full && !others && ops->arm_bell &&
	    ops->arm_bell(e->sk, e->fd)) {
		e->by_bell = ops;
		s->n_bells++;
		events &= ~(unsigned)POLLIN;
	}
	ops->arm(e->sk, e->fd, events, NULL);
}

void sleep_disarm(struct sleeper *s, struct sleep_entry *e)
{
	if (!e->is_armed)
		return;
	e->is_armed = false;
	if (e->by_bell) {
		e->by_bell->disarm_bell(e->sk);
		s->n_bells--;
	}
	e->by_bell = NULL;
	watch_close(e->sk, &e->watch);
	anchor_sleep_end(e->sk, e->for_room);
}

static bool has_bell(const struct sleeper *s)
{
	return s->n_bells || unlikely(s->rs.wake != NULL);
}

/* Is somebody notified by other threads without a bell? The kernel may have
 * refused to poll() the bell, or there is none.  Then the thread looks each
 * millisecond. */
uint64_t sleep_look_ns(const struct sleeper *s, uint64_t now)
{
	if (!has_bell(s))
		return UINT64_MAX;
	uint32_t bell = bell_mine();
	if (s->rs.wake && (s->is_full || bell_own_fd(bell) < 0))
		return now + NS_PER_MS;
	return bell_is_private(bell) ? UINT64_MAX : now + BELL_LOOK_NS;
}

COLD void sleepers_wake(struct sock *sk)
{
	sock_notify(sk, READY_ANY);
	bells_ring_own();
}

int sleep_poll(struct sleeper *s, struct pollfd *fds, nfds_t n,
	       const struct timespec *left, const sigset_t *mask)
{
	bool listens = has_bell(s) || s->may_leave;
	uint32_t number,
	    bell = listens && !s->is_full ? bell_mine() : BELL_NONE;
	struct pollfd *extra = fds + n;

	extra[0] = (struct pollfd){ .fd = idle_fd(&number), .events = POLLIN };
	extra[1] = (struct pollfd){ .fd = bell_own_fd(bell), .events = POLLIN };
	nfds_t n_extra = extra[1].fd >= 0 ? 2 : extra[0].fd >= 0;
	if (extra[0].fd >= 0)
		idle_waits();
	int r = libc.ppoll(fds, n + n_extra, left, mask);

	if (r < 0 && errno == EINVAL && bell != BELL_NONE) {
		s->is_full = true; /* RLIMIT_NOFILE */
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
	return r;
}
