/* SPDX-License-Identifier: MIT */
/*
 * proto/tcp/wait.c - readiness of a moved connection
 *
 *     a turn, by any thread -> moved_news() -> sock_notify() -> a thread's bell
 *     a thread that sleeps: sock/sleep.h, on its bell and on base/idle.h's descriptor
 */
#include <errno.h>
#include <poll.h>

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
	SOCK_GUARD_RX(sk);
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
