/* SPDX-License-Identifier: MIT */
/* sock/io.c - see sock/io.h */
#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/libc.h"
#include "base/nocancel.h"
#include "sock/cursor.h"
#include "sock/errq.h"
#include "sock/idle.h"
#include "sock/io.h"
#include "sock/wait.h"

#define FILE_CHUNK 16384u /* of the stack */

static bool may_wait(const struct sock *sk, int flags)
{
	return !(flags & MSG_DONTWAIT) && !load_rlx(&sk->w->nonblock);
}

/* Wait.  The timeout covers the whole call, from its first wait.  Handlers with SA_RESTART
 * that ran before any byte was moved count no longer: the kernel begins the call anew. */
static int wait_in(struct io_call *io, struct call_wait *w, size_t done)
{
	if (!w->deadline_ns) {
		uint64_t timeout_ns = w->dir == DIR_RX
					  ? load_rlx(&io->sk->w->rcvtimeo_ns)
					  : load_rlx(&io->sk->w->sndtimeo_ns);

		w->deadline_ns =
		    timeout_ns ? now_ns() + timeout_ns : UINT64_MAX;
	}
	w->partial = done > 0;
	vain_again(&w->vain);
	int err = waiter_ended(w, wait_for(io->sk, io->fd, w));
	io->fd = wait_fd(io->sk, io->fd, w->seen);
	struct handlers_seen now = handlers_seen();
	if (!err && waiter_restarts(w) && now.n_ends == w->seen.n_ends)
		w->seen = now;
	return err;
}

/* Waits until a call that has moved bytes can move more. */
static int await_more(struct sock *sk, int *fd, int dir, unsigned want)
{
	struct call_wait w = idle_wait_of(*fd, dir);
	unsigned events;

	w.partial = true;
	/* It may be moving to another description of the kernel's: await_more() is not to
	 * sleep on the old one. */
	sock_await_move(sk);
	*fd = wait_fd(sk, *fd, w.seen);
	return idle_wait_until(sk, fd, &w, want, &events);
}

/*
 * A call has moved bytes, and goes on where the kernel has the connection.  The kernel tells
 * an error once, and has to leave it to the next call.  So wait until the call can move more,
 * and look for an error in a way that does not take it.
 */
static bool may_go_on(struct sock *sk, int *fd, int dir, int flags)
{
	bool is_rx = dir == DIR_RX;
	unsigned ends = idle_ends_of(sk) | (is_rx ? POLLRDHUP : 0);

	if (idle_may_wait(sk, flags) &&
	    await_more(sk, fd, dir,
		       ends | (is_rx ? POLLIN | POLLPRI : POLLOUT)))
		return false;
	const struct sock_ops *ops = sock_ops(sk);
	if (ops->own_events)
		return true;
	/* Bytes come before an error, and nothing is sent after one. */
	return is_rx ? ops->inq(sk, *fd) > 0
		     : !(ops->events(sk, *fd) & idle_ends_of(sk));
}

bool io_has_more(struct sock *sk, int fd, int flags)
{
	return likely(sock_ops(sk)->own_events) ||
	       may_go_on(sk, &fd, DIR_RX, flags);
}

/* The call ends with @r after @done bytes; if both matter, @r is kept for the
 * next call. */
static ssize_t end(const struct io_call *io, size_t done, ssize_t r)
{
	if (!done)
		return r;
	if (r < 0 && r != -EAGAIN && r != -EINTR && r != -ESTALE)
		io->ops->error_later(io->sk, (int)-r);
	return (ssize_t)done;
}

/* A call that has read something ends before an urgent byte. */
static COLD bool is_at_mark(const struct io_call *io)
{
	int is = 0;

	return !io->ops->is_before_mark(io->sk, io->fd) &&
	       io->ops->events(io->sk, io->fd) & POLLPRI &&
	       !libc.ioctl(io->fd, SIOCATMARK, &is) && is;
}

/* An attempt moved nothing, and returned *r.  Wait, if that may help.  False: try again;
 * true: the call ends with *r. */
static bool is_over(struct io_call *io, struct call_wait *w, size_t done,
		    ssize_t *r)
{
	if (*r == -ESTALE) {
		io->fd = wait_fd(io->sk, io->fd, w->seen);
		return false;
	}
	if (*r != -EAGAIN || !io->ops->is_ours || !may_wait(io->sk, io->flags))
		return true;
	if (done && w->dir == DIR_RX && is_at_mark(io))
		return true;
	*r = wait_in(io, w, done);
	return *r != 0;
}

/* MSG_PEEK found too few bytes, and no event reports more.  True: look again.
 * If the stream has ended, *target becomes what there will ever be. */
static bool peek_again(const struct io_call *io, size_t *target)
{
	struct timespec ms = { .tv_nsec = NS_PER_MS };

	if (libc.ppoll(NULL, 0, &ms, NULL) < 0)
		return false;
	io->ops->events_now(io->sk, io->fd);
	if (io->ops->events(io->sk, io->fd) & (POLLRDHUP | POLLHUP))
		*target = 1;
	return true;
}

static ssize_t peek_on(const struct io_call *first, size_t target, ssize_t r)
{
	struct io_call io = *first;
	struct call_wait w = { .dir = DIR_RX, .seen = io.seen };
	bool waits = may_wait(io.sk, io.flags);

	while (r == -ESTALE || (io.ops->is_ours && waits)) {
		if (r > 0 ? (size_t)r >= target || !peek_again(&io, &target)
			  : r != -ESTALE && r != -EAGAIN)
			break;
		int err = r == -EAGAIN ? wait_in(&io, &w, 0) : 0;
		if (err)
			return err;
		io.ops = sock_ops(io.sk);
		r = io.ops->recv(io.sk, io.fd, io.iov, io.n, io.flags);
	}
	return r;
}

void sock_count_failed(struct sock *sk, int dir, int err, bool is_ours)
{
	struct osf_stats_sock *st = sk->st;
	bool is_rx = dir == DIR_RX;

	if (err == -EINTR || err == -ESTALE)
		return;
	if (err == -EAGAIN && is_ours)
		count(is_rx ? &st->rx_eagains : &st->tx_eagains, 1);
	else if (err == -EAGAIN)
		count(is_rx ? &st->rx_eagains_inet : &st->tx_eagains_inet, 1);
	else if (is_ours)
		count(is_rx ? &st->rx_errors : &st->tx_errors, 1);
	else
		count(is_rx ? &st->rx_errors_inet : &st->tx_errors_inet, 1);
}

/* What the kernel's tables return, they have counted. */
static ssize_t counted(const struct io_call *io, int dir, ssize_t r)
{
	if (r < 0 && io->ops->is_ours)
		sock_count_failed(io->sk, dir, (int)r, true);
	return r;
}

static ssize_t recv_on(const struct io_call *first, ssize_t r)
{
	struct io_call io = *first;
	struct iov_cursor c = { .iov = io.iov, .n = io.n };
	struct call_wait w = { .dir = DIR_RX, .seen = io.seen };
	struct iovec rest[CURSOR_REST_MAX];
	size_t want = iov_bytes(io.iov, io.n), done = 0;
	size_t low = (size_t)load_rlx(&io.sk->w->rcvlowat);
	size_t target = io.flags & MSG_WAITALL ? want : MIN(low, want);

	if (io.flags & MSG_PEEK)
		return peek_on(first, target, r);
	for (;;) {
		if (r > 0) {
			done += (size_t)r;
			w.vain.n = 0;
			cursor_skip(&c, (size_t)r);
			if (!io.ops->is_ours || done >= target ||
			    is_at_mark(&io))
				return (ssize_t)done;
		} else if (is_over(&io, &w, done, &r)) {
			return end(&io, done, r);
		}
		io.ops = sock_ops(io.sk);
		if (done && !io.ops->is_ours) {
			if (!may_go_on(io.sk, &io.fd, DIR_RX, io.flags))
				return (ssize_t)done;
			io.ops = sock_ops(io.sk);
		}
		size_t n = cursor_rest(&c, rest, want - done);
		r = done ? io.ops->recv(io.sk, io.fd, rest, n, io.flags)
			 : io.ops->recv(io.sk, io.fd, io.iov, io.n, io.flags);
	}
}

COLD ssize_t io_recv_on(const struct io_call *first, ssize_t r)
{
	return counted(first, DIR_RX, recv_on(first, r));
}

/* Of a call with MSG_ZEROCOPY, only the first part gets a number. */
static ssize_t send_on(const struct io_call *first, ssize_t r)
{
	struct io_call io = *first;
	struct iov_cursor c = { .iov = io.iov, .n = io.n };
	struct call_wait w = { .dir = DIR_TX, .seen = io.seen };
	struct iovec rest[CURSOR_REST_MAX];
	size_t len = iov_bytes(io.iov, io.n), done = 0;

	for (;;) {
		if (r > 0) {
			done += (size_t)r;
			w.vain.n = 0;
			cursor_skip(&c, (size_t)r);
			io.flags &= ~MSG_ZEROCOPY;
			if (!io.ops->is_ours || done == len)
				return (ssize_t)done;
		} else if (is_over(&io, &w, done, &r)) {
			return end(&io, done, r);
		}
		/* Send until the protocol says it is full, because the protocol
		 * may change. */
		io.ops = sock_ops(io.sk);
		if (done && !io.ops->is_ours) {
			if (!may_go_on(io.sk, &io.fd, DIR_TX, io.flags))
				return (ssize_t)done;
			io.ops = sock_ops(io.sk);
		}
		size_t n = cursor_rest(&c, rest, len - done);
		r = done ? io.ops->send(io.sk, io.fd, rest, n, io.flags)
			 : io.ops->send(io.sk, io.fd, io.iov, io.n, io.flags);
	}
}

COLD ssize_t io_send_on(const struct io_call *first, ssize_t r)
{
	return counted(first, DIR_TX, send_on(first, r));
}

ssize_t io_send_file(struct sock *sk, int fd, int in, off_t *off, size_t n)
{
	struct io_call io = { .sk = sk, .fd = fd };
	struct call_wait w = { .dir = DIR_TX, .seen = handlers_seen() };
	size_t done = 0;

	for (;;) {
		io.ops = sock_ops(sk);
		if (done && !io.ops->is_ours) {
			if (!may_go_on(sk, &io.fd, DIR_TX, 0))
				return (ssize_t)done;
			io.ops = sock_ops(sk);
		}
		ssize_t r = io.ops->send_file(sk, io.fd, in, off, n - done);

		if (r > 0) {
			done += (size_t)r;
			w.vain.n = 0;
			if (!io.ops->is_ours || done == n)
				return (ssize_t)done;
		} else if (is_over(&io, &w, done, &r)) {
			return end(&io, done, r);
		}
	}
}

/* The file's position moves by what was sent. */
ssize_t io_file_by_send(struct sock *sk, int fd, int in, off_t *off, size_t n)
{
	uint8_t chunk[FILE_CHUNK];
	off_t at = off ? *off : lseek(in, 0, SEEK_CUR);

	if (at < 0)
		return off || errno == ESPIPE ? -EINVAL : -errno;
	ssize_t r = nocancel_pread(in, chunk, MIN(n, sizeof(chunk)), at);
	if (r <= 0)
		return r < 0 ? -errno : 0;
	const struct iovec iov = { chunk, (size_t)r };
	r = sock_ops(sk)->send(sk, fd, &iov, 1, 0);
	if (r > 0 && off)
		*off = at + r;
	else if (r > 0)
		lseek(in, at + r, SEEK_SET);
	return r;
}

/*
 * Messages.
 */

/* Put TCP_INQ's control message.  As in the kernel, truncate it if the program
 * left no room, and count the end of the stream as a byte, so that it reads
 * on. */
static COLD void put_inq(struct sock *sk, int fd, struct msghdr *msg,
			 size_t room)
{
	struct {
		struct cmsghdr head;
		int inq;
	} c = { .head = { .cmsg_len = CMSG_LEN(sizeof(int)),
			  .cmsg_level = IPPROTO_TCP,
			  .cmsg_type = TCP_CM_INQ } };

	if (is_bad_ptr(msg->msg_control) || room < sizeof(c.head)) {
		msg->msg_flags |= MSG_CTRUNC;
		return;
	}
	c.inq = sock_ops(sk)->inq(sk, fd);
	if (c.inq <= 0)
		c.inq = (sock_ops(sk)->events(sk, fd) & POLLRDHUP) != 0;
	if (room < c.head.cmsg_len) {
		msg->msg_flags |= MSG_CTRUNC;
		c.head.cmsg_len = room;
	}
	memcpy(msg->msg_control, &c, c.head.cmsg_len);
	msg->msg_controllen = MIN(room, CMSG_SPACE(sizeof(int)));
}

/*
 * Only the kernel knows when a byte arrived (SO_TIMESTAMP and similar).
 * Programs set these options without reading the times (iperf 2), so the
 * option alone changes nothing.  Fall back when recvmsg() has room for control
 * messages.
 */
ssize_t io_recvmsg(struct sock *sk, int fd, struct msghdr *msg, int flags)
{
	size_t room = msg->msg_controllen;
	bool times = room && load_rlx(&sk->w->times);
	ssize_t r;

	if (unlikely(flags & MSG_ERRQUEUE))
		return errq_recv(sk, fd, msg, flags);
	if (unlikely(times))
		sock_ops(sk)->fallback(sk, fd, OSF_REASON_OPTION);
	while (!sock_is_ours(sk) || times || flags & MSG_OOB) {
		r = sock_ops(sk)->recvmsg(sk, fd, msg, flags);
		if (r == -EOPNOTSUPP && sock_is_ours(sk))
			break;
		if (r != -ESTALE)
			return r;
	}
	r = io_recv(sk, sock_ops(sk), fd, msg->msg_iov, msg->msg_iovlen, flags);
	if (r >= 0) {
		msg->msg_namelen = 0;
		msg->msg_controllen = 0;
		msg->msg_flags = flags & MSG_CMSG_CLOEXEC;
		if (unlikely(load_rlx(&sk->w->inq)))
			put_inq(sk, fd, msg, room);
	}
	return r;
}

enum io_control io_control(const struct msghdr *msg)
{
	enum io_control is = IO_CONTROL_NONE;
	struct msghdr m = *msg;

	if (!m.msg_controllen || !m.msg_control)
		return IO_CONTROL_NONE;
	if (is_bad_ptr(m.msg_control))
		return IO_CONTROL_BAD;
	const char *control_end = (char *)m.msg_control + m.msg_controllen;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
		if (c->cmsg_len < sizeof(*c) ||
		    c->cmsg_len > (size_t)(control_end - (char *)c))
			return IO_CONTROL_BAD;
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type != SCM_RIGHTS &&
		    c->cmsg_type != SCM_CREDENTIALS)
			is = IO_CONTROL_KERNEL;
	}
	return is;
}

/* Waits as sock_await_move(), but not for another process that does not end it. */
static COLD bool has_moved(struct sock *sk)
{
	while (sock_ops(sk)->is_moving && !sock_moves_long(sk))
		sock_moving(sk);
	return !sock_ops(sk)->is_moving;
}

/* The kernel is to carry what is sent next.  @flags: of the call. */
static COLD int go_back(struct sock *sk, int fd, int flags, enum osf_reason why)
{
	struct io_call io = { .sk = sk, .fd = fd, .seen = handlers_seen() };
	struct call_wait w = { .dir = DIR_TX, .seen = io.seen };
	int err;

	if (!may_wait(sk, flags) && !has_moved(sk))
		return -EAGAIN;
	while ((err = sock_ops(sk)->fallback(sk, io.fd, why)) == -EAGAIN &&
	       may_wait(sk, flags))
		if ((err = wait_in(&io, &w, 0)))
			break;
	return err;
}

/* Refuse what the kernel refuses before it sends anything: bad control
 * messages, and an address, which a stream checks but ignores. */
static int refused(const struct msghdr *msg, enum io_control control)
{
	if (control == IO_CONTROL_BAD)
		return is_bad_ptr(msg->msg_control) ? -EFAULT : -EINVAL;
	if (!msg->msg_name)
		return 0;
	if ((int)msg->msg_namelen < 0)
		return -EINVAL; /* one that is too long is cut off */
	return msg->msg_namelen && is_bad_ptr(msg->msg_name) ? -EFAULT : 0;
}

ssize_t io_sendmsg(struct sock *sk, int fd, const struct msghdr *msg,
		   size_t len, int flags)
{
	enum io_control control = io_control(msg);
	enum osf_reason why = flags & MSG_OOB                ? OSF_REASON_URGENT
			      : control == IO_CONTROL_KERNEL ? OSF_REASON_OPTION
							     : OSF_REASON_NONE;
	int err = refused(msg, control);

	if (unlikely(err) && sock_is_ours(sk))
		return err;
	int wait =
	    unlikely(why != OSF_REASON_NONE) ? go_back(sk, fd, flags, why) : 0;
	if (unlikely(wait))
		return wait;
	while (!sock_is_ours(sk) || why != OSF_REASON_NONE) {
		ssize_t r = sock_ops(sk)->sendmsg(sk, fd, msg, flags);

		if (r != -ESTALE)
			return r;
	}
	return err ? err
		   : io_send(sk, sock_ops(sk), fd, msg->msg_iov,
			     msg->msg_iovlen, len, flags);
}
