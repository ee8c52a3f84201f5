/* SPDX-License-Identifier: MIT */
/* api/vma/filter.c - see api/vma/filter.h */
#include <errno.h>
#include <string.h>
#include <time.h>

#include <linux/errqueue.h>

#include "api/vma/below.h"
#include "api/vma/filter.h"
#include "base/atomic.h"
#include "base/clock.h"
#include "base/libc.h"

/* SO_TIMESTAMP and SO_TIMESTAMPNS of kernels with either size of time. */
#define IS_TIME(type, what) ((type) == (what##_OLD) || (type) == (what##_NEW))

uint32_t filter_times = 1;

union ip_addr {
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

/* Of an IP socket. */
static inline void *copy_ip(union ip_addr *to,
			    const struct sockaddr_storage *from)
{
	memcpy(to, from, sizeof(*to));
	return to;
}

/* A v4 address of an IPv6 socket, as programs of this API expect it. */
static void unmap(void *addr)
{
	union ip_addr *a = addr;
	struct sockaddr_in in = { .sin_family = AF_INET };

	if (a->v6.sin6_family != AF_INET6 ||
	    !IN6_IS_ADDR_V4MAPPED(&a->v6.sin6_addr))
		return;
	in.sin_port = a->v6.sin6_port;
	memcpy(&in.sin_addr, &a->v6.sin6_addr.s6_addr[12], 4);
	memset(a, 0, sizeof(*a));
	a->v4 = in;
}

static void find_ends(struct vsock *s)
{
	socklen_t len = sizeof(s->local), len2 = len;

	getsockname(s->fd, (struct sockaddr *)&s->local, &len);
	unmap(&s->local);
	if (!s->is_udp &&
	    !getpeername(s->fd, (struct sockaddr *)&s->peer, &len2))
		unmap(&s->peer);
}

void filter_find_ends(struct vsock *s)
{
	int saved = errno;

	if (s->local.ss_family == AF_UNSPEC)
		find_ends(s);
	errno = saved;
}

static bool is_wildcard(const struct sockaddr_storage *a)
{
	return a->ss_family == AF_INET6
		   ? IN6_IS_ADDR_UNSPECIFIED(
			 &((const struct sockaddr_in6 *)a)->sin6_addr)
		   : !((const struct sockaddr_in *)a)->sin_addr.s_addr;
}

void filter_prepare(struct vsock *s)
{
	int on = 0, saved = errno;
	socklen_t len = sizeof(on);

	find_ends(s);
	/* Where a datagram went to: another address than the socket's, if that
	 * is the wildcard. */
	if (s->is_udp && is_wildcard(&s->local) &&
	    !libc.getsockopt(s->fd, IPPROTO_IP, IP_RECVORIGDSTADDR, &on,
			     &len) &&
	    !on) {
		on = 1;
		s->has_dst = !libc.setsockopt(s->fd, IPPROTO_IP,
					      IP_RECVORIGDSTADDR, &on, len);
	}
	errno = saved;
}

bool filter_is_time(int name)
{
	return IS_TIME(name, SO_TIMESTAMP) || IS_TIME(name, SO_TIMESTAMPNS) ||
	       IS_TIME(name, SO_TIMESTAMPING);
}

static COLD void find_times(struct vsock *s, uint32_t times)
{
	static const int names[] = { SO_TIMESTAMP_OLD,    SO_TIMESTAMP_NEW,
				     SO_TIMESTAMPNS_OLD,  SO_TIMESTAMPNS_NEW,
				     SO_TIMESTAMPING_OLD, SO_TIMESTAMPING_NEW };
	int saved = errno;

	s->has_times = false;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		int on[2] = { 0 };
		socklen_t len = sizeof(on);

		s->has_times |=
		    libc.getsockopt(s->fd, SOL_SOCKET, names[i], on, &len) ||
		    on[0];
	}
	s->times = times;
	errno = saved;
}

/* Has the callback a use for control messages?  They cost more than a short datagram. */
static inline bool needs_control(struct vsock *s)
{
	uint32_t times = load_acq(&filter_times);

	if (unlikely(s->times != times))
		find_times(s, times);
	return s->has_dst || s->has_times;
}

static bool is_dst(const struct cmsghdr *c)
{
	return c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_ORIGDSTADDR;
}

/* The first control message of @p, or the one after @c. */
static struct cmsghdr *next(const struct packet *p, struct cmsghdr *c)
{
	struct msghdr m = { .msg_control = (void *)p->control,
			    .msg_controllen = p->control_len };

	return c ? CMSG_NXTHDR(&m, c) : CMSG_FIRSTHDR(&m);
}

static struct timespec time_of(const struct cmsghdr *c, bool is_us)
{
	struct timespec ts;

	memcpy(&ts, CMSG_DATA(c), sizeof(ts));
	if (is_us)
		ts.tv_nsec *= (long)NS_PER_US;
	return ts;
}

static void read_control(const struct packet *p, struct vma_info_t *info,
			 union ip_addr *dst)
{
	for (struct cmsghdr *c = next(p, NULL); c; c = next(p, c)) {
		struct scm_timestamping times;

		if (is_dst(c)) {
			memcpy(dst, CMSG_DATA(c), sizeof(struct sockaddr_in));
		} else if (c->cmsg_level != SOL_SOCKET) {
			continue;
		} else if (IS_TIME(c->cmsg_type, SO_TIMESTAMPNS)) {
			info->sw_timestamp = time_of(c, false);
		} else if (IS_TIME(c->cmsg_type, SO_TIMESTAMP)) {
			info->sw_timestamp = time_of(c, true);
		} else if (IS_TIME(c->cmsg_type, SO_TIMESTAMPING)) {
			memcpy(&times, CMSG_DATA(c), sizeof(times));
			info->sw_timestamp = times.ts[0];
			info->hw_timestamp = times.ts[2];
		}
	}
}

void addr_of(const struct sockaddr_storage *addr, struct sockaddr_in *from)
{
	union ip_addr a;

	unmap(copy_ip(&a, addr));
	*from = a.v4;
	if (a.v4.sin_family != AF_INET)
		from->sin_addr.s_addr = 0;
}

struct timespec packet_hw_time(const struct packet *p)
{
	struct vma_info_t info = { 0 };
	union ip_addr dst;

	if (p->control_len)
		read_control(p, &info, &dst);
	return info.hw_timestamp;
}

static void count_received(struct vsock *s, size_t n)
{
	count(&s->packets.at->n_received, 1);
	count(&s->packets.at->rx_bytes, n);
}

/* What the callback has decided. */
static vma_recv_callback_retval_t note(struct vsock *s, size_t n,
				       vma_recv_callback_retval_t is)
{
	if (is == VMA_PACKET_DROP) {
		count(&s->packets.at->n_dropped, 1);
		count(&s->packets.at->dropped_bytes, n);
		return is;
	}
	if (is != VMA_PACKET_HOLD) {
		count_received(s, n);
		return VMA_PACKET_RECV;
	}
	count(&s->packets.at->n_held, 1);
	held_keep(s->spare, &s->room, n);
	s->spare = 0;
	return is;
}

/* Ask @callback about the packet that was received into the room.  Another thread may
 * close the socket meanwhile, so the caller has loaded it once. */
static inline vma_recv_callback_retval_t ask(struct vsock *s,
					     vma_recv_callback_t callback,
					     const void *data, size_t n,
					     struct vma_info_t *info)
{
	int *err = &errno, saved = *err;
	struct iovec iov = { (void *)data, n };

	info->struct_sz = sizeof(*info);
	info->packet_id = (void *)(uintptr_t)s->spare;
	info->payload_sz = n;
	vma_recv_callback_retval_t is =
	    callback(s->fd, 1, &iov, info, s->context);
	*err = saved;
	return note(s, n, is);
}

static inline vma_recv_callback_retval_t
ask_of_stream(struct vsock *s, vma_recv_callback_t callback, const void *data,
	      size_t n)
{
	if (unlikely(s->peer.ss_family == AF_UNSPEC))
		find_ends(s); /* the callback came before the connection */
	struct vma_info_t info = { .src = (struct sockaddr_in *)&s->peer,
				   .dst = (struct sockaddr_in *)&s->local };
	return ask(s, callback, data, n, &info);
}

static vma_recv_callback_retval_t judge(struct vsock *s, struct packet *p,
					size_t n)
{
	vma_recv_callback_t callback = load_rlx(&s->callback);
	union ip_addr src, dst;

	if (!callback)
		return VMA_PACKET_RECV;
	if (!s->is_udp)
		return ask_of_stream(s, callback, p->data, n);
	struct vma_info_t info = { .src = copy_ip(&src, &p->from),
				   .dst = copy_ip(&dst, &s->local) };
	unmap(&src);
	if (p->control_len)
		read_control(p, &info, &dst);
	return ask(s, callback, p->data, n, &info);
}

/* False: errno says why not. */
static bool is_there(const struct vsock *s)
{
	uint8_t byte;
	struct iovec iov = { &byte, 1 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };

	return below_recvmsg(s->fd, &m, MSG_PEEK | MSG_DONTWAIT) >= 0;
}

/* Bytes received into the room, or -errno. */
static ssize_t receive(struct vsock *s, struct packet *p, size_t want,
		       int flags, bool wants_control)
{
	uint8_t *to = room_reserve(&s->room);

	if (!s->spare)
		s->spare = held_number(s->number, s->fd);
	if (!to || !s->spare)
		return is_there(s) ? -ENOBUFS : -errno;
	if (load_rlx(&s->is_closed))
		return -EBADF;
	struct iovec iov = { to, MIN(want, (size_t)PACKET_MAX) };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	p->data = to;
	if (!s->is_udp && !flags) {
		ssize_t r = below_recv(s->fd, to, iov.iov_len);

		p->flags = 0;
		p->from_len = 0;
		return r < 0 ? -errno : r;
	}
	if (s->is_udp && !wants_control && !needs_control(s)) {
		p->flags = 0;
		p->control_len = 0;
		p->from_len = sizeof(p->from);
		ssize_t r =
		    below_recvfrom(s->fd, to, iov.iov_len, flags | MSG_DONTWAIT,
				   (struct sockaddr *)&p->from, &p->from_len);
		return r < 0 ? -errno : r;
	}
	if (s->is_udp) {
		m.msg_name = &p->from;
		m.msg_namelen = sizeof(p->from);
		m.msg_control = p->control;
		m.msg_controllen = sizeof(p->control);
	}
	ssize_t r = below_recvmsg(s->fd, &m, flags | MSG_DONTWAIT);
	if (r < 0)
		return -errno;
	p->from_len = m.msg_namelen;
	p->control_len = m.msg_controllen;
	p->flags = m.msg_flags & MSG_CTRUNC;
	return r;
}

/* Take the @n bytes, or the datagram, that the callback has seen by MSG_PEEK. */
static void consume(struct vsock *s, const uint8_t *data, size_t n)
{
	uint8_t byte;

	if (s->is_udp) {
		struct iovec iov = { &byte, 1 };
		struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };

		below_recvmsg(s->fd, &m, MSG_DONTWAIT);
		return;
	}
	/* The same bytes to the same place. */
	while (n && !load_rlx(&s->is_closed)) {
		struct iovec iov = { (void *)data, n };
		struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
		ssize_t r = below_recvmsg(s->fd, &m, MSG_DONTWAIT);

		if (r <= 0)
			return;
		data += r;
		n -= (size_t)r;
	}
}

bool filter_look(struct vsock *s)
{
	struct packet p;
	int saved = errno;

	p.control_len = 0;
	while (!s->accepted && !s->err) {
		ssize_t r = receive(s, &p, PACKET_MAX, MSG_PEEK, false);

		if (r < 0 && r != -EAGAIN && r != -ENOBUFS)
			s->err = (int)-r;
		if (r < 0 || (!r && !s->is_udp)) {
			errno = saved;
			return r != -EAGAIN;
		}
		if (judge(s, &p, (size_t)r) == VMA_PACKET_RECV)
			s->accepted = s->is_udp ? 1 : (size_t)r;
		else if (!load_rlx(&s->is_closed))
			consume(s, p.data, (size_t)r);
	}
	errno = saved;
	return true;
}

ssize_t filter_take(struct vsock *s, size_t want, bool wants_control,
		    struct packet *p)
{
	p->control_len = 0;
	for (;;) {
		ssize_t r = receive(s, p, s->is_udp ? (size_t)PACKET_MAX : want,
				    0, wants_control);

		if (r < 0 || (!r && !s->is_udp) ||
		    judge(s, p, (size_t)r) == VMA_PACKET_RECV)
			return r;
	}
}

HOT ssize_t filter_take_quick(struct vsock *s, size_t want,
			      const uint8_t **data)
{
	vma_recv_callback_t callback;
	ssize_t r;

	do {
		uint8_t *to = room_reserve(&s->room);

		callback = s->callback;
		if (unlikely(!to || !s->spare || s->is_closed || !callback))
			return -EAGAIN;
		r = below_recv(s->fd, to, MIN(want, (size_t)PACKET_MAX));
		if (unlikely(r <= 0))
			return r < 0 ? -errno : 0;
		*data = to;
	} while (ask_of_stream(s, callback, *data, (size_t)r) !=
		 VMA_PACKET_RECV);
	return r;
}

ssize_t filter_take_next(struct vsock *s, size_t want, bool peek,
			 struct packet *p)
{
	ssize_t r;

	if ((s->accepted || peek) && load_rlx(&s->callback) && !filter_look(s))
		return -EAGAIN;
	if (s->err) {
		r = -s->err;
		s->err = 0;
		return r;
	}
	if (!s->accepted && !peek)
		return filter_take(s, want, false, p);
	p->control_len = 0;
	if (s->accepted && !s->is_udp)
		want = MIN(want, s->accepted);
	r = receive(s, p, s->is_udp ? (size_t)PACKET_MAX : want,
		    peek ? MSG_PEEK : 0, false);
	if (r == -EAGAIN)
		s->accepted = 0;
	if (r >= 0 && !peek)
		s->accepted -=
		    s->is_udp ? s->accepted : MIN((size_t)r, s->accepted);
	return r;
}

/* Bytes where they lie, if nobody is to decide about them.  0: receive them. */
static ssize_t take_lent(struct vsock *s, struct packet *p, uint64_t *number)
{
	struct below_lent l;

	if (s->is_udp || load_rlx(&s->callback) || s->accepted || s->err ||
	    !held_may_be_lent())
		return 0;
	if (!s->spare && !(s->spare = held_number(s->number, s->fd)))
		return 0;
	ssize_t r = below_lend(s->fd, &p->data, &l);
	if (r <= 0)
		return r;
	p->control_len = 0;
	p->from_len = 0;
	p->flags = 0;
	held_keep_lent(s->spare, &l);
	*number = s->spare;
	s->spare = 0;
	return r;
}

ssize_t filter_take_held(struct vsock *s, bool peek, struct packet *p,
			 uint64_t *number)
{
	ssize_t r = peek ? 0 : take_lent(s, p, number);

	if (r)
		return r;
	r = filter_take_next(s, PACKET_MAX, peek, p);
	*number = 0;
	if (r < 0 || (!r && !s->is_udp))
		return r;
	if (!peek && !load_rlx(&s->callback))
		count_received(s, (size_t)r);
	count(&s->packets.at->n_held, 1);
	held_keep(s->spare, &s->room, (size_t)r);
	*number = s->spare;
	s->spare = 0;
	return r;
}

int filter_wait(const struct vsock *s, int flags)
{
	uint8_t byte;
	struct iovec iov = { &byte, 1 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (load_rlx(&s->is_closed))
		return -EBADF;
	return below_recvmsg(s->fd, &m, MSG_PEEK | (flags & MSG_DONTWAIT)) < 0
		   ? -errno
		   : 0;
}

void packet_copy(const struct packet *p, struct msghdr *msg)
{
	uint8_t *to = msg->msg_control;
	size_t left = to ? msg->msg_controllen : 0, used = 0;

	msg->msg_flags = p->flags;
	if (msg->msg_name)
		memcpy(msg->msg_name, &p->from,
		       MIN(msg->msg_namelen, p->from_len));
	msg->msg_namelen = p->from_len;
	for (struct cmsghdr *c = next(p, NULL); c; c = next(p, c)) {
		size_t len = c->cmsg_len;

		if (is_dst(c))
			continue;
		if (left - used < len) {
			msg->msg_flags |= MSG_CTRUNC;
			break;
		}
		memcpy(to + used, c, len);
		used += MIN(CMSG_ALIGN(len), left - used);
	}
	msg->msg_controllen = used;
}
