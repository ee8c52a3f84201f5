/* SPDX-License-Identifier: MIT */
/*
 * api/vma/recv.c - receiving calls on sockets with a callback
 *
 *     recv()  ->  recv_now()  ->  filter_take(): below, the callback, a copy
 *                            \->  recv_accepted(): what a poll() has accepted
 *             ->  -EAGAIN  ->  below, which waits  ->  again
 *
 * The wait is a receiving call with MSG_PEEK, so that timeouts, signals, errors and
 * O_NONBLOCK are those of the socket below.
 */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/uio.h>

#include "api/vma/below.h"
#include "api/vma/filter.h"
#include "api/vma/joined.h"
#include "api/vma/vma.h"
#include "base/clock.h"
#include "sock/cursor.h"

/* No call of this API's: it asks for something else than the next bytes. */
#define NOT_DATA (MSG_OOB | MSG_ERRQUEUE)

bool vma_knows(int fd)
{
	struct vsock **slot = vsock_slot(fd);
	const struct vsock *s = slot ? load_acq(slot) : NULL;

	return s && load_rlx(&s->is_counted);
}

static bool is_bad(const struct msghdr *msg)
{
	if (is_bad_ptr(msg) || msg->msg_iovlen > IOV_MAX ||
	    (msg->msg_iovlen && is_bad_ptr(msg->msg_iov)) ||
	    (msg->msg_name && is_bad_ptr(msg->msg_name)) ||
	    (msg->msg_controllen && is_bad_ptr(msg->msg_control)) ||
	    (int)msg->msg_namelen < 0)
		return true;
	size_t bytes = 0;
	for (size_t i = 0; i < msg->msg_iovlen; i++) {
		if (msg->msg_iov[i].iov_len > SSIZE_MAX - bytes ||
		    (msg->msg_iov[i].iov_len &&
		     is_bad_ptr(msg->msg_iov[i].iov_base)))
			return true;
		bytes += msg->msg_iov[i].iov_len;
	}
	return false;
}

/* The program's own call, for no more than was accepted. */
static ssize_t recv_accepted(struct vsock *s, struct msghdr *msg, int flags)
{
	struct iovec rest[CURSOR_REST_MAX];
	struct iov_cursor c = { .iov = msg->msg_iov, .n = msg->msg_iovlen };
	struct msghdr m = *msg;
	struct packet p;

	if (!s->is_udp && s->accepted) {
		m.msg_iov = rest;
		m.msg_iovlen = cursor_rest(&c, rest, s->accepted);
	}
	if (s->has_dst && msg->msg_controllen) {
		m.msg_control = p.control;
		m.msg_controllen = sizeof(p.control);
	}
	ssize_t r = below_recvmsg(s->fd, &m, flags | MSG_DONTWAIT);
	if (r < 0 && errno == EAGAIN)
		s->accepted = 0; /* another process has it */
	if (r < 0)
		return -errno;
	if (!(flags & MSG_PEEK))
		s->accepted -=
		    s->is_udp ? s->accepted : MIN((size_t)r, s->accepted);
	p.control_len = m.msg_controllen;
	p.flags = m.msg_flags;
	p.from_len = 0;
	if (s->has_dst && msg->msg_controllen) {
		void *name = m.msg_name;

		m.msg_name = NULL;
		m.msg_control = msg->msg_control;
		m.msg_controllen = msg->msg_controllen;
		socklen_t name_len = m.msg_namelen;
		packet_copy(&p, &m);
		m.msg_name = name;
		m.msg_namelen = name_len;
	}
	msg->msg_namelen = m.msg_namelen;
	msg->msg_controllen = m.msg_controllen;
	msg->msg_flags = m.msg_flags;
	return r;
}

/* Copy the @r bytes of @p to the program. */
static ssize_t recv_copy(const struct vsock *s, const struct packet *p,
			 ssize_t r, struct msghdr *msg, size_t want, int flags)
{
	struct iov_cursor c = { .iov = msg->msg_iov, .n = msg->msg_iovlen };
	size_t n = MIN((size_t)r, want);

	if (s->is_udp || !(flags & MSG_TRUNC))
		cursor_put(&c, p->data, n);
	packet_copy(p, msg);
	msg->msg_flags |= flags & MSG_CMSG_CLOEXEC;
	if ((size_t)r > n)
		msg->msg_flags |= MSG_TRUNC;
	return flags & MSG_TRUNC ? r : (ssize_t)n;
}

/* Take a packet and copy it. */
static ssize_t recv_packet(struct vsock *s, struct msghdr *msg, size_t want,
			   int flags)
{
	struct packet p;

	p.from_len = 0;
	p.flags = 0;
	ssize_t r = filter_take(s, want, msg->msg_controllen, &p);
	return r < 0 ? r : recv_copy(s, &p, r, msg, want, flags);
}

/* A datagram of those that the kernel may have joined; with MSG_PEEK it stays. */
static ssize_t recv_part(struct vsock *s, struct msghdr *msg, size_t want,
			 int flags)
{
	struct packet p;
	ssize_t r = filter_take_next(s, want, flags & MSG_PEEK, &p);

	return r < 0 ? r : recv_copy(s, &p, r, msg, want, flags);
}

/* What there is now.  Bytes or -errno. */
static ssize_t recv_now(struct visit *v, struct msghdr *msg, int flags)
{
	struct vsock *s = v->s;
	size_t want = iov_bytes(msg->msg_iov, msg->msg_iovlen);
	ssize_t r;

	visit_lock_rx(v);
	if (load_rlx(&s->is_closed)) {
		r = -EBADF;
	} else if (joined_is_on(s)) {
		r = recv_part(s, msg, want, flags);
	} else if (!s->accepted && !load_rlx(&s->callback) && !s->err) {
		r = below_recvmsg(s->fd, msg, flags | MSG_DONTWAIT);
		r = r < 0 ? -errno : r;
	} else if (s->err) {
		r = -s->err;
		s->err = 0;
		vsock_uncount(s);
	} else if (!s->accepted && !(flags & MSG_PEEK) &&
		   (s->is_udp || (want && !msg->msg_controllen))) {
		r = recv_packet(s, msg, want, flags);
	} else if (want && !filter_look(s)) {
		r = -EAGAIN;
	} else {
		r = s->err ? -s->err : recv_accepted(s, msg, flags);
		s->err = 0;
		vsock_uncount(s);
	}
	visit_unlock_rx(v);
	return r;
}

static ssize_t recv_waiting(struct visit *v, struct msghdr *msg, int flags)
{
	uint64_t start_ns = 0;

	for (;;) {
		ssize_t r = recv_now(v, msg, flags);

		if (r != -EAGAIN || flags & MSG_DONTWAIT)
			return r;
		r = filter_wait(v->s, flags, &start_ns);
		if (r < 0)
			return r;
	}
}

/* MSG_WAITALL on a stream. */
static ssize_t recv_all(struct visit *v, struct msghdr *msg, int flags)
{
	struct iov_cursor c = { .iov = msg->msg_iov, .n = msg->msg_iovlen };
	size_t want = iov_bytes(msg->msg_iov, msg->msg_iovlen), done = 0;
	struct iovec rest[CURSOR_REST_MAX];
	struct msghdr m = *msg;

	do {
		m.msg_iov = rest;
		m.msg_iovlen = cursor_rest(&c, rest, want - done);
		m.msg_controllen = msg->msg_controllen;
		ssize_t r = recv_waiting(v, &m, flags & ~MSG_WAITALL);

		if (r < 0 && done && r != -EAGAIN && r != -EINTR)
			v->s->err = (int)-r;
		if (r < 0 && !done)
			return r;
		if (r <= 0)
			break;
		done += (size_t)r;
		cursor_skip(&c, (size_t)r);
	} while (done < want);
	msg->msg_namelen = m.msg_namelen;
	msg->msg_controllen = m.msg_controllen;
	msg->msg_flags = m.msg_flags;
	return (ssize_t)done;
}

static ssize_t recv_visit(int fd, struct msghdr *msg, int flags)
{
	int saved = errno;
	ssize_t r;

	if (flags & NOT_DATA || is_bad(msg))
		return below_recvmsg(fd, msg, flags);
	VISIT(v, vsock_get(fd));
	if (!v.s || (!load_rlx(&v.s->callback) && !load_rlx(&v.s->accepted) &&
		     !load_rlx(&v.s->err) && !joined_is_on(v.s)))
		return below_recvmsg(fd, msg, flags);
	if (load_rlx(&v.s->owner) == (uintptr_t)pthread_self())
		r = -EAGAIN; /* in its callback: nothing is before the packet */
	else if (flags & MSG_WAITALL && !(flags & MSG_PEEK) && !v.s->is_udp)
		r = recv_all(&v, msg, flags);
	else
		r = recv_waiting(&v, msg, flags);
	if (unlikely(r < 0))
		vsock_count_error(v.s, r);
	errno = r < 0 ? (int)-r : saved;
	return r < 0 ? -1 : r;
}

ssize_t vma_recvmsg(int fd, struct msghdr *msg, int flags)
{
	return recv_visit(fd, msg, flags);
}

/* The usual case in a process of one thread: the next bytes of a stream are there, and the
 * program gives one buffer.  -EAGAIN: this is another case; errno is as it was. */
HOT static ssize_t recv_quick(int fd, const struct iovec *iov)
{
	const uint8_t *data;
	struct vsock **slot = vsock_slot(fd), *s = slot ? *slot : NULL;

	if (unlikely(!s || s->is_udp || s->owner || s->accepted || s->err ||
		     !iov->iov_len || is_bad_ptr(iov->iov_base)))
		return -EAGAIN;
	vsock_hold(s);
	VISIT(v, s);
	s->owner = (uintptr_t)pthread_self();
	v.has_rx_lock = true;
	ssize_t r = filter_take_quick(s, iov->iov_len, &data);
	if (likely(r > 0))
		memcpy(iov->iov_base, data, (size_t)r);
	visit_unlock_rx(&v);
	if (unlikely(r < 0 && r != -EAGAIN))
		errno = (int)-r;
	return r;
}

ssize_t vma_recv(int fd, const struct iovec *iov, size_t n, int flags)
{
	if (likely(n == 1 && !(flags & ~MSG_DONTWAIT) &&
		   is_single_threaded())) {
		ssize_t r = recv_quick(fd, iov);

		if (likely(r != -EAGAIN))
			return r < 0 ? -1 : r;
	}
	struct msghdr m = { .msg_iov = (struct iovec *)iov, .msg_iovlen = n };

	return recv_visit(fd, &m, flags);
}

ssize_t vma_recvfrom(int fd, void *buf, size_t n, int flags,
		     struct sockaddr *addr, socklen_t *len)
{
	struct iovec iov = { buf, n };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (addr && is_bad_ptr(len)) {
		errno = EFAULT;
		return -1;
	}
	if (addr) {
		m.msg_name = addr;
		m.msg_namelen = *len;
	}
	ssize_t r = recv_visit(fd, &m, flags);
	if (r >= 0 && addr)
		*len = m.msg_namelen;
	return r;
}

/* As the kernel, look at the time after each message. */
int vma_recvmmsg(int fd, struct mmsghdr *msgs, unsigned n, int flags,
		 struct timespec *ts)
{
	uint64_t end_ns = UINT64_MAX;
	unsigned i = 0;

	if ((n && is_bad_ptr(msgs)) || (ts && is_bad_ptr(ts))) {
		errno = EFAULT;
		return -1;
	}
	if (ts && (ts->tv_sec < 0 || ts->tv_nsec < 0 ||
		   ts->tv_nsec >= (long)NS_PER_S)) {
		errno = EINVAL;
		return -1;
	}
	if (ts)
		end_ns = now_ns() + (uint64_t)ts->tv_sec * NS_PER_S +
			 (uint64_t)ts->tv_nsec;
	while (i < n && i < UIO_MAXIOV) {
		int saved = errno;
		ssize_t r =
		    recv_visit(fd, &msgs[i].msg_hdr, flags & ~MSG_WAITFORONE);

		if (r < 0 && !i)
			return -1;
		if (r < 0) {
			errno = saved;
			break;
		}
		msgs[i++].msg_len = (unsigned)r;
		if (flags & MSG_WAITFORONE)
			flags |= MSG_DONTWAIT;
		if (end_ns != UINT64_MAX && now_ns() >= end_ns)
			break;
	}
	return (int)i;
}
