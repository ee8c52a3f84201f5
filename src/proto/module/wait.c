/* SPDX-License-Identifier: MIT */
/*
 * proto/module/wait.c - readiness of a module's connection
 *
 *     module:  osf_sock_notify()  ->  the sets of those who watch  ->  a thread's bell
 *
 * The module's events() tells what the stream can do; what the program has shut, and what
 * a fallback changes, is ours.
 */
#include <errno.h>
#include <poll.h>

#include "base/clock.h"
#include "base/libc.h"
#include "base/nocancel.h"
#include "proto/module/stream.h"
#include "sock/errq.h"

#define ENDS (POLLIN | POLLRDNORM | POLLRDHUP)
#define ENDED (POLLIN | POLLOUT | POLLHUP | POLLRDHUP)

/* An end that nobody has accepted has no socket. */
static void notify(struct osf_sock *s, unsigned events)
{
	struct sock *sk = load_acq(&s->sk);

	if (likely(sk))
		sock_notify(sk, events | READY_NEWS);
}

OSF_API void osf_sock_notify(struct osf_sock *s, unsigned events)
{
	if (events & OSF_EVENT_BACK) {
		store_rel(&s->peer_back, (uint8_t)1);
		events = POLLIN | POLLOUT;
	}
	notify(s, events & 0xffff);
}

OSF_API void osf_sock_fail(struct osf_sock *s, int err)
{
	if (load_acq(&s->is_over))
		return;
	store_rlx(&s->err, (int32_t)err);
	store_rel(&s->is_over, (uint8_t)1);
	notify(s, POLLIN | POLLOUT | POLLERR | POLLHUP | POLLRDHUP);
}

/* When turn() has work to do.  The connection cannot end meanwhile. */
static uint64_t due_ns(const struct osf_sock *s)
{
	uint64_t (*next_ns)(void *) = STREAM_OP(s->ops, next_ns);
	uint64_t at = UINT64_MAX;

	if (next_ns)
		STREAM_RUN(s->ops, at =, next_ns(s->conn));
	return at;
}

void stream_turn(struct osf_sock *s)
{
	void (*turn)(void *, uint64_t) = STREAM_OP(s->ops, turn);
	uint64_t due = turn && !s->is_gone ? due_ns(s) : UINT64_MAX;

	if (due == UINT64_MAX)
		return;
	uint64_t now = now_ns();
	if (now >= due)
		STREAM_RUN(s->ops, , turn(s->conn, now));
}

uint64_t stream_next_ns(struct sock *sk)
{
	struct osf_sock *s = stream_of(sk);
	uint64_t at = stream_enter(s) ? due_ns(s) : UINT64_MAX;

	stream_leave(s);
	return at;
}

unsigned stream_kernel_events(int fd, unsigned want)
{
	struct pollfd p = { .fd = fd, .events = (short)want };
	int saved = errno;

	nocancel_poll(&p, 1, 0);
	errno = saved;
	return (unsigned short)p.revents;
}

/* What the module says, after its turn. */
static unsigned ask(struct osf_sock *s)
{
	unsigned ev = ENDED | POLLERR;

	if (sock_try_rx(s->sk)) {
		stream_turn(s);
		sock_unlock_rx(s->sk);
	}
	if (stream_enter(s))
		STREAM_RUN(s->ops, ev =, s->ops->events(s->conn));
	stream_leave(s);
	if (unlikely(load_acq(&s->is_over)))
		ev |= ENDED |
		      (load_rlx(&s->err) || load_rlx(&s->rx_err) ? POLLERR : 0);
	return ev;
}

/* SO_RCVLOWAT: are there so many bytes?  Who holds the lock reads some just now. */
static bool are_enough(struct osf_sock *s)
{
	int low = load_rlx(&s->sk->w->rcvlowat);

	if (likely(low <= 1) || !sock_try_rx(s->sk))
		return true;
	bool is_last = stream_pull(s, (size_t)low) == -ESTALE; /* TCP goes on */
	bool enough = stream_held(s) >= (size_t)low || is_last || s->rx_err ||
		      s->rx_ended;
	sock_unlock_rx(s->sk);
	return enough;
}

/* The receiving half. */
static unsigned rx_events(struct osf_sock *s, int fd, unsigned ev)
{
	uint8_t shut = load_rlx(&s->sk->w->shut);
	unsigned out = ev & (POLLERR | POLLHUP);

	if (s->rx_back)
		return stream_kernel_events(fd, ENDS | POLLPRI);
	if (ev & POLLRDHUP || s->rx_ended || shut & SHUT_BIT_RD)
		return out | ENDS;
	if ((ev & POLLIN || stream_held(s) || s->rx_err) &&
	    (ev & (POLLERR | POLLHUP) || are_enough(s)))
		out |= POLLIN | POLLRDNORM;
	return out;
}

static unsigned tx_events(struct osf_sock *s, int fd, unsigned ev)
{
	if (s->tx_back)
		return stream_kernel_events(fd, POLLOUT | POLLWRNORM);
	return ev & POLLOUT || load_rlx(&s->sk->w->shut) & SHUT_BIT_WR
		   ? POLLOUT | POLLWRNORM
		   : 0;
}

/* The peer has fallen back, or what came by the module may have been read. */
static COLD void follow(struct sock *sk, int fd)
{
	struct osf_sock *s = stream_of(sk);

	if (!s->tx_back)
		stream_follow(sk, fd);
	if (sock_try_rx(sk)) {
		stream_rx_look(s, fd, stream_pull(s, 1) == -ESTALE);
		sock_unlock_rx(sk);
	}
	stream_retire(sk);
}

unsigned stream_events(struct sock *sk, int fd)
{
	struct osf_sock *s = stream_of(sk);
	unsigned ev = ask(s);
	short said;

	if (unlikely((load_acq(&s->peer_back) || s->tx_back) && !s->is_gone)) {
		follow(sk, fd);
		ev = ask(s);
	}
	unsigned out = rx_events(s, fd, ev) | tx_events(s, fd, ev);
	if (unlikely(s->tx_back))
		out |= (stream_kernel_events(fd, POLLPRI) & POLLPRI) |
		       errq_events(sk, fd, 0, &said);
	else if (unlikely(load_rlx(&sk->w->zc_done)))
		out |= POLLERR;
	if (!s->tx_back && out & POLLRDHUP &&
	    load_rlx(&sk->w->shut) & SHUT_BIT_WR)
		out |= POLLHUP;
	return out;
}

bool stream_arm(struct sock *sk, int fd, unsigned events, const struct watch *w)
{
	struct osf_sock *s = stream_of(sk);
	int (*arm)(void *, unsigned) = STREAM_OP(s->ops, arm);

	if (stream_enter(s) && arm)
		STREAM_RUN(
		    s->ops, ,
		    arm(s->conn, events & (OSF_EVENT_IN | OSF_EVENT_OUT)));
	stream_leave(s);
	return w && w->is_notified && !s->tx_back;
}
