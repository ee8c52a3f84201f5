/* SPDX-License-Identifier: MIT */
/*
 * proto/tcp/table.c - the operations of sockets that our own TCP carries
 *
 * An operation that only a kernel's socket can do gives the connection back first.
 */
#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/libc.h"
#include "proto/tcp/conn.h"
#include "proto/tcp/wire.h"
#include "sock/io.h"
#include "tcp/calls.h"
#include "tcp/info.h"
#include "tcp/opt.h"

static ssize_t recvmsg_by_kernel(struct sock *sk, int fd, struct msghdr *msg,
				 int flags)
{
	if (!(flags & MSG_OOB))
		return -EOPNOTSUPP;
	moved_back(sk, fd, OSF_REASON_URGENT);
	return -ESTALE;
}

static ssize_t sendmsg_by_kernel(struct sock *sk, int fd,
				 const struct msghdr *msg, int flags)
{
	moved_back(sk, fd, OSF_REASON_OPTION);
	return -ESTALE;
}

/* The end of a connection is told by the kernel, after it has gone back. */
static void error_later(struct sock *sk, int err) {}
static int not_held(struct sock *sk) { return -EOPNOTSUPP; }
static void not_let_go(struct sock *sk, int dir, ssize_t n) {}
static bool never_due(const struct sock *sk, int dir) { return false; }

/* Each turn notifies of all; who waits looks once more. */
static void watch(struct sock *sk, struct watch *w) { w->is_notified = true; }

static bool arm(struct sock *sk, int fd, unsigned events, const struct watch *w)
{
	return w && w->is_notified;
}

/* The anchor is silent, except for what happens to it: `ss -K`. */
static void sleep_on(struct sock *sk, struct pollfd *p) { p->fd = -1; }

static bool anchor_event(struct sock *sk, int fd, unsigned events,
			 const struct watch *w)
{
	return false;
}

static bool is_not_rung(const struct sock *sk) { return false; }
static void nothing(struct sock *sk, int fd) {}
static void nobody_left(struct sock *sk) {}
/* A handler may have closed the descriptor of a call that is about to sleep. */
static void anchor_moves(struct sock *sk, int from, int to)
{
	sock_notify(sk, READY_NEWS);
}

static uint64_t never(struct sock *sk) { return UINT64_MAX; }
static bool not_over(const struct sock *sk) { return false; }
static bool at_anchors_mark(struct sock *sk, int fd) { return false; }
static int by_kernel(struct sock *sk, int fd) { return -1; }

/*
 * Options.  Most of them change what only the kernel's socket has.
 */

struct option {
	int level, name;
};

/* Those that the frozen socket takes as well as a live one. */
static const struct option harmless[] = {
	{ IPPROTO_TCP, TCP_NODELAY },  { IPPROTO_TCP, TCP_INQ },
	{ IPPROTO_TCP, TCP_QUICKACK }, { SOL_SOCKET, SO_RCVLOWAT },
	{ SOL_SOCKET, SO_RCVTIMEO },   { SOL_SOCKET, SO_SNDTIMEO },
};

static int set_option(struct sock *sk, int fd, int level, int name,
		      const void *val, socklen_t len)
{
	for (size_t i = 0; i < ARRAY_LEN(harmless); i++)
		if (harmless[i].level == level && harmless[i].name == name)
			return -EOPNOTSUPP;
	moved_rest(sk, fd, OSF_REASON_OPTION);
	return -EOPNOTSUPP;
}

/* What the freeze has changed, as the program knows it. */
static int frozen_option(const struct frozen *f, int level, int name)
{
	if (level == SOL_SOCKET && name == SO_KEEPALIVE)
		return !!(f->flags & FROZEN_KEEPALIVE);
	if (level == SOL_SOCKET && name == SO_REUSEADDR)
		return !!(f->flags & FROZEN_REUSEADDR);
	if (level == IPPROTO_TCP && name == TCP_MAXSEG)
		return (int)f->snd_mss;
	if (level == IPPROTO_TCP && name == TCP_REPAIR)
		return 0;
	return -1;
}

static int get_option(struct sock *sk, int level, int name, void *val,
		      socklen_t *len)
{
	SOCK_GUARD_RX(sk);
	const struct moved *m = moved_of(sk);

	if (sock_mode(sk) != SOCK_TCP || !m)
		return -EOPNOTSUPP;
	if (level == SOL_SOCKET && name == SO_GET_FILTER) {
		*len = 0; /* the one that is there is osfd's */
		return 0;
	}
	if (level == IPPROTO_TCP && name == TCP_REPAIR_QUEUE)
		return -EINVAL;
	int v = frozen_option(&m->frozen, level, name);
	if (v < 0 || (int)*len < 0)
		return -EOPNOTSUPP;
	*len = MIN(*len, (socklen_t)sizeof(v));
	memcpy(val, &v, *len);
	return 0;
}

/* Some option that is not the kernel's alone was set; the anchor gets it, too. */
static bool opt_changed(struct sock *sk, int fd, int level, int name)
{
	SOCK_GUARD_RX(sk);
	const struct moved *m = moved_of(sk);

	if (sock_mode(sk) != SOCK_TCP || !m)
		return false;
	wire_lock();
	tcp_set_nodelay(m->c, load_rlx(&sk->w->nodelay), now_ns());
	tcp_set_cork(m->c, load_rlx(&sk->w->cork), now_ns());
	tcp_set_rcv_lowat(m->c, (uint32_t)load_rlx(&sk->w->rcvlowat));
	wire_unlock();
	return false;
}

/* Only the kernel sends SIGIO. */
static void async_changed(struct sock *sk, int fd)
{
	if (load_rlx(&sk->w->is_async))
		moved_back(sk, fd, OSF_REASON_ASYNC);
}

static void tell_info(struct sock *sk, int fd, void *info, size_t len)
{
	struct tcp_conn_info i;
	SOCK_GUARD_RX(sk);
	const struct moved *m = moved_of(sk);

	if (sock_mode(sk) != SOCK_TCP || !m)
		return;
	wire_lock();
	tcp_get_info(m->c, &i, now_ns());
	wire_unlock();
	memcpy(info, &i, MIN(len, sizeof(i)));
}

/*
 * Ends: all of them are the kernel's.
 */

static int disconnect(struct sock *sk, int fd, const struct sockaddr *addr,
		      socklen_t len)
{
	moved_back(sk, fd, OSF_REASON_OPTION);
	return -ESTALE;
}

static int shut(struct sock *sk, int fd, int how)
{
	moved_back(sk, fd, OSF_REASON_HALF_CLOSED);
	return -ESTALE;
}

static int connect_again(struct sock *sk, int fd, const struct sockaddr *to,
			 socklen_t len)
{
	return -EISCONN;
}

static void closes(struct sock *sk, int fd)
{
	moved_back(sk, fd, OSF_REASON_UNCONNECTED);
	sock_ops(sk)->close(sk, fd);
}

static void exits(struct sock *sk, int fd)
{
	moved_back(sk, fd, OSF_REASON_UNCONNECTED);
	sock_ops(sk)->exit(sk, fd);
}

static void reset(struct sock *sk, int fd, const char *why)
{
	moved_back(sk, fd, OSF_REASON_BROKEN);
	sock_ops(sk)->reset(sk, fd, why);
}

static void retired(struct sock *sk) {}
static void unchanged(struct sock *sk) {} /* by a fork */

static int fallback(struct sock *sk, int fd, enum osf_reason why)
{
	moved_back(sk, fd, why);
	return 0;
}

const struct sock_ops tcp_ops = {
	.name = "tcp",
	.is_ours = true,
	.in_process = true,
	.own_events = true,
	.recv = moved_recv,
	.send = moved_send,
	.send_file = io_file_by_send,
	.recvmsg = recvmsg_by_kernel,
	.sendmsg = sendmsg_by_kernel,
	.error_later = error_later,
	.is_ready = moved_is_ready,
	.enter = not_held,
	.leave = not_let_go,
	.is_due = never_due,
	.inq = moved_inq,
	.outq = moved_outq,
	.room = moved_room_now,
	.events = moved_events,
	.events_now = moved_events,
	.watch = watch,
	.arm = arm,
	.sleep_on = sleep_on,
	.anchor_event = anchor_event,
	.is_rung = is_not_rung,
	.drain = nothing,
	.next_ns = never,
	.getsockopt = get_option,
	.setsockopt = set_option,
	.connect = connect_again,
	.opt_changed = opt_changed,
	.async_changed = async_changed,
	.tcp_info = tell_info,
	.so_error = by_kernel,
	.is_over = not_over,
	.is_before_mark = at_anchors_mark,
	.disconnect = disconnect,
	.shutdown = shut,
	.close = closes,
	.exit = exits,
	.before_fork = unchanged,
	.after_fork = moved_after_fork,
	.alone = nobody_left,
	.sync = nothing,
	.passthrough = nothing,
	.anchor_moved = anchor_moves,
	.reset = reset,
	.fallback = fallback,
	.fallback_now = moved_back_now,
	.retire = retired,
};
