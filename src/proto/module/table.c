/* SPDX-License-Identifier: MIT */
/*
 * proto/module/table.c - the operations of sockets whose bytes a module moves
 *
 * Here are those that only ask the module, the anchor, or struct sock.
 */
#include <errno.h>
#include <linux/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "base/libc.h"
#include "base/nocancel.h"
#include "proto/module/stream.h"
#include "sock/io.h"
#include "sock/shared.h"

static ssize_t recvmsg_by_kernel(struct sock *sk, int fd, struct msghdr *msg,
				 int flags)
{
	if (!(flags & MSG_OOB) && !stream_of(sk)->rx_back)
		return -EOPNOTSUPP;
	ssize_t r = libc.recvmsg(fd, msg, flags);
	return r < 0 ? -errno : r;
}

/* The caller has asked for a fallback before. */
static ssize_t sendmsg_by_kernel(struct sock *sk, int fd,
				 const struct msghdr *msg, int flags)
{
	if (!stream_of(sk)->tx_back)
		return -EOPNOTSUPP;
	ssize_t r = libc.sendmsg(fd, msg, flags | MSG_NOSIGNAL);
	return r < 0 ? -errno : r;
}

static void error_later(struct sock *sk, int err)
{
	SOCK_GUARD_RX(sk);
	stream_of(sk)->rx_err = err;
}

/* To look takes the module's locks: so nobody spins. */
static int only_by_sleeping(struct sock *sk, int dir) { return -1; }
static int not_held(struct sock *sk) { return -EOPNOTSUPP; }
static void not_let_go(struct sock *sk, int dir, ssize_t n) {}
static bool never_due(const struct sock *sk, int dir) { return false; }

static int outq(struct sock *sk, int fd)
{
	struct osf_sock *s = stream_of(sk);
	int (*op)(void *) = STREAM_OP(s->ops, outq);
	int n = 0;

	if (stream_enter(s) && op)
		STREAM_RUN(s->ops, n =, op(s->conn));
	stream_leave(s);
	return n;
}

/* The module notifies of all; who waits looks once more. */
static void watch(struct sock *sk, struct watch *w) { w->is_notified = true; }

static void sleep_on(struct sock *sk, struct pollfd *p)
{
	const struct osf_sock *s = stream_of(sk);

	p->events &= (s->tx_back ? POLLOUT | POLLPRI : 0) |
		     (s->rx_back ? POLLIN | POLLRDHUP : 0);
	if (!p->events)
		p->fd = -1;
}

/* Of the anchor: news only in what the kernel carries again. */
static bool anchor_event(struct sock *sk, int fd, unsigned events,
			 const struct watch *w)
{
	return stream_of(sk)->tx_back;
}

static bool is_not_rung(const struct sock *sk) { return false; }
static void nothing(struct sock *sk, int fd) {}
static void unchanged(struct sock *sk) {} /* by a fork */
/* A handler may have closed the descriptor of a call that is about to sleep. */
static void anchor_moves(struct sock *sk, int from, int to)
{
	sock_notify(sk, READY_NEWS);
}

static int get_option(struct sock *sk, int level, int name, void *val,
		      socklen_t *len)
{
	struct osf_sock *s = stream_of(sk);
	int (*op)(void *, int, int, void *, socklen_t *) =
	    STREAM_OP(s->ops, getsockopt);
	int err = -EOPNOTSUPP;

	if (stream_enter(s) && op)
		STREAM_RUN(s->ops, err =, op(s->conn, level, name, val, len));
	stream_leave(s);
	return err;
}

static int set_option(struct sock *sk, int fd, int level, int name,
		      const void *val, socklen_t len)
{
	struct osf_sock *s = stream_of(sk);
	int (*op)(void *, int, int, const void *, socklen_t) =
	    STREAM_OP(s->ops, setsockopt);
	int err = -EOPNOTSUPP;

	if (stream_enter(s) && op)
		STREAM_RUN(s->ops, err =, op(s->conn, level, name, val, len));
	stream_leave(s);
	return err;
}

static int name_of(struct sock *sk, bool peer, struct sockaddr_storage *out,
		   socklen_t *len)
{
	struct osf_sock *s = stream_of(sk);
	int (*op)(void *, int, struct sockaddr_storage *, socklen_t *) =
	    STREAM_OP(s->ops, name);
	int err = -EOPNOTSUPP;

	if (stream_enter(s) && op)
		STREAM_RUN(s->ops, err =, op(s->conn, peer, out, len));
	stream_leave(s);
	return err;
}

static int connect_again(struct sock *sk, int fd, const struct sockaddr *to,
			 socklen_t len)
{
	return -EISCONN;
}

static bool tell_anchor(struct sock *sk, int fd, int level, int name)
{
	return false;
}

/* Only the kernel sends SIGIO. */
static void async_changed(struct sock *sk, int fd)
{
	if (load_rlx(&sk->w->is_async))
		stream_to_kernel(sk, fd, OSF_REASON_ASYNC);
}

/* TCP's states, as <netinet/tcp.h> numbers them; it conflicts with <linux/tcp.h>. */
enum { ESTABLISHED = 1, FIN_WAIT2 = 5, CLOSE = 7, CLOSE_WAIT = 8 };

static uint8_t tcp_state(struct sock *sk, int fd, uint8_t anchors)
{
	unsigned ev = stream_events(sk, fd);

	if (ev & POLLHUP)
		return CLOSE;
	if (anchors != ESTABLISHED)
		return anchors;
	if (ev & POLLRDHUP && !(load_rlx(&sk->w->shut) & SHUT_BIT_RD))
		return CLOSE_WAIT;
	return load_rlx(&sk->w->shut) & SHUT_BIT_WR ? FIN_WAIT2 : anchors;
}

/* The anchor's answer, and the stream that is not in it. */
static void add_info(struct sock *sk, int fd, void *info, size_t len)
{
	const struct osf_sock *s = stream_of(sk);
	struct tcp_info ti = { 0 };
	size_t n = MIN(len, sizeof(ti));

	stream_inq(sk, fd); /* what has arrived counts */
	memcpy(&ti, info, n);
	ti.tcpi_state = tcp_state(sk, fd, ti.tcpi_state);
	ti.tcpi_bytes_acked += s->tx_bytes;
	ti.tcpi_bytes_sent += s->tx_bytes;
	ti.tcpi_bytes_received += s->rx_bytes;
	memcpy(info, &ti, n);
}

static int so_error(struct sock *sk, int fd)
{
	struct osf_sock *s = stream_of(sk);
	SOCK_GUARD_RX(sk);
	int err = s->rx_err;

	s->rx_err = 0;
	if (!err)
		err = xchg(&s->err, 0);
	return err || !s->tx_back ? err : -1;
}

/* Both directions have ended. */
static bool is_over(const struct sock *sk)
{
	struct osf_sock *s = stream_of(sk);
	unsigned ev = 0;

	if (stream_enter(s))
		STREAM_RUN(s->ops, ev =, s->ops->events(s->conn));
	stream_leave(s);
	return load_acq(&s->is_over) ||
	       (ev & OSF_EVENT_RDHUP && load_rlx(&sk->w->shut) & SHUT_BIT_WR);
}

static bool at_anchors_mark(struct sock *sk, int fd) { return false; }

/* What follows is a new connection, and the kernel's. */
static int disconnect(struct sock *sk, int fd, const struct sockaddr *addr,
		      socklen_t len)
{
	if (!sock_lock_mode(sk, SOCK_MODULE))
		return -ESTALE;
	int err = nocancel_connect(fd, addr, len) < 0 ? -errno : 0;
	if (!err) {
		stream_end(stream_of(sk), 0);
		sk->st->proto = OSF_PROTO_NONE;
		sock_set_reason(sk, OSF_REASON_OPTION);
		sock_set_mode(sk, SOCK_KERNEL);
	}
	sock_unlock_both(sk);
	return err;
}

static int shut_locked(struct osf_sock *s, int fd, int how)
{
	int (*op)(void *, int) = STREAM_OP(s->ops, shutdown);
	struct sock *sk = s->sk;

	if (s->tx_back && libc.shutdown(fd, how) < 0)
		return -errno;
	if (how != SHUT_RD && !(sk->w->shut & SHUT_BIT_WR) && !s->tx_back &&
	    !s->is_gone && op) {
		int err;

		STREAM_RUN(s->ops, err =, op(s->conn, SHUT_WR));
		if (err)
			return err;
	}
	if (how != SHUT_WR)
		store_rlx(&sk->w->shut, (uint8_t)(sk->w->shut | SHUT_BIT_RD));
	if (how != SHUT_RD)
		store_rlx(&sk->w->shut, (uint8_t)(sk->w->shut | SHUT_BIT_WR));
	return 0;
}

static int shut(struct sock *sk, int fd, int how)
{
	if (how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR)
		return -EINVAL;
	if (!sock_lock_mode(sk, SOCK_MODULE))
		return -ESTALE;
	int err = is_over(sk) ? -ENOTCONN : shut_locked(stream_of(sk), fd, how);
	sock_unlock_both(sk);
	if (err)
		return err;
	/* The peer waits for TCP's FIN. */
	if (load_acq(&stream_of(sk)->peer_back))
		stream_follow(sk, fd);
	sock_notify(sk, POLLIN | POLLOUT | POLLRDHUP | POLLHUP);
	return 0;
}

static int fallback(struct sock *sk, int fd, enum osf_reason why)
{
	stream_to_kernel(sk, fd, why);
	return 0;
}

const struct sock_ops stream_ops = {
	.name = "module",
	.is_ours = true,
	.in_process = true,
	.own_events = true,
	.recv = stream_recv,
	.send = stream_send,
	.send_file = io_file_by_send,
	.recvmsg = recvmsg_by_kernel,
	.sendmsg = sendmsg_by_kernel,
	.error_later = error_later,
	.is_ready = only_by_sleeping,
	.enter = not_held,
	.leave = not_let_go,
	.is_due = never_due,
	.inq = stream_inq,
	.outq = outq,
	.events = stream_events,
	.events_now = stream_events,
	.watch = watch,
	.arm = stream_arm,
	.sleep_on = sleep_on,
	.anchor_event = anchor_event,
	.is_rung = is_not_rung,
	.drain = nothing,
	.next_ns = stream_next_ns,
	.getsockopt = get_option,
	.setsockopt = set_option,
	.name_of = name_of,
	.connect = connect_again,
	.opt_changed = tell_anchor,
	.async_changed = async_changed,
	.tcp_info = add_info,
	.so_error = so_error,
	.is_over = is_over,
	.is_before_mark = at_anchors_mark,
	.disconnect = disconnect,
	.shutdown = shut,
	.close = stream_close,
	.exit = stream_exit,
	.before_fork = unchanged,
	.after_fork = stream_inherited,
	.alone = sock_unshare,
	.sync = nothing,
	.passthrough = nothing,
	.anchor_moved = anchor_moves,
	.reset = stream_reset,
	.fallback = fallback,
	.fallback_now = stream_to_kernel_now,
	.retire = stream_retire,
};
