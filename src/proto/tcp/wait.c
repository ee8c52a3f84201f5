/* SPDX-License-Identifier: MIT */
/*
 * proto/tcp/wait.c - readiness of a moved connection, and how a blocking call sleeps
 *
 *     a turn, by any thread -> moved_news() -> sock_notify() -> a thread's bell
 *     sleeper: opens a watch, looks, sleeps on its bell and on base/idle.h's descriptor
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>

#include "base/bell.h"
#include "base/clock.h"
#include "base/idle.h"
#include "base/libc.h"
#include "base/unwind.h"
#include "proto/tcp/conn.h"
#include "proto/tcp/wire.h"
#include "sock/wait.h"
#include "tcp/calls.h"

/* A connection that is due is looked at by recv(), which gives it back. */
static unsigned bits(const struct moved *m)
{
	uint32_t ev = load_acq(&m->events);

	return (ev & TCP_READABLE ? POLLIN | POLLRDNORM : 0u) |
	       (ev & TCP_WRITABLE ? POLLOUT | POLLWRNORM : 0u);
}

/* 0 where the connection is the kernel's by now.  @due: to be given back first */
static unsigned look(struct sock *sk, enum osf_reason *due, bool *is_there)
{
	SOCK_LOOK_RX(sk);
	const struct moved *m = moved_of(sk);

	*is_there = sock_mode(sk) == SOCK_TCP && m;
	if (!*is_there)
		return 0;
	wire_look();
	*due = (enum osf_reason)load_acq(&m->due);
	return bits(m);
}

unsigned moved_events(struct sock *sk, int fd)
{
	enum osf_reason due = OSF_REASON_NONE;
	bool is_there;
	unsigned ev = look(sk, &due, &is_there);

	if (unlikely(due != OSF_REASON_NONE))
		moved_rest(sk, fd, due);
	if (unlikely(!is_there || due != OSF_REASON_NONE))
		return sock_ops(sk)->events(sk, fd);
	return ev;
}

/* A frame may be for somebody else: then the call looks in vain, and waits again. */
int moved_is_ready(struct sock *sk, int dir)
{
	const struct moved *m = moved_of(sk);

	if (unlikely(!m) || load_acq(&m->due))
		return 1;
	if (load_acq(&m->events) &
	    (dir == DIR_RX ? TCP_READABLE : TCP_WRITABLE))
		return 1;
	return wire_has_come();
}

struct sleeper {
	struct unwind u;
	struct sock *sk;
	struct ready_set set;
	struct watch watch;
};

static void sleeper_end(struct unwind *u)
{
	struct sleeper *me = (struct sleeper *)u;

	watch_close(me->sk, &me->watch);
}

static int sleep_on_bell(struct sleeper *me, const struct call_wait *w)
{
	uint32_t bell = bell_mine();
	struct pollfd p = { .fd = bell_own_fd(bell), .events = POLLIN };

	count(&me->sk->st->n_sleeps, 1);
	int r =
	    wait_fds(&p, 1, w, MIN(w->deadline_ns, ready_look_ns(&me->set)));
	bell_hush(bell);
	return r;
}

int moved_sleep(struct sock *sk, int fd, const struct call_wait *w)
{
	UNWIND(struct sleeper, me) = { .sk = sk };
	unsigned want = w->dir == DIR_RX ? POLLIN : POLLOUT;

	ready_init_bell(&me.set);
	watch_open(sk, &me.watch, &me.set);
	unwind_push(&me.u, sleeper_end);
	if (moved_events(sk, fd) & want || sock_mode(sk) != SOCK_TCP)
		return 0;
	if (handlers_ran(w->seen, waiter_restarts(w)))
		return -EINTR;
	int r = sleep_on_bell(&me, w);
	/* A handler may have closed it. */
	if (!r && handlers_ran(w->seen, false) && libc.fcntl(fd, F_GETFD) < 0)
		return -EBADF;
	return r;
}
