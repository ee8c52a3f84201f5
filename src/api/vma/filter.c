/* SPDX-License-Identifier: MIT */
/* api/vma/filter.c - see api/vma/filter.h */
#include <errno.h>
#include <fcntl.h>

#include "api/vma/below.h"
#include "api/vma/filter.h"
#include "api/vma/joined.h"
#include "base/atomic.h"
#include "base/clock.h"

static inline void count_received(struct vsock *s, size_t n)
{
	count(&s->packets.at->n_received, 1);
	count(&s->packets.at->rx_bytes, n);
}

/* The callback has decided something else than to receive. */
static COLD vma_recv_callback_retval_t note(struct vsock *s, size_t n,
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
	held_keep(s->spare, vsock_keep(s, n));
	s->spare = 0;
	s->has_held = true;
	return is;
}

/* Ask @callback about the packet that was received into the room.  The caller has loaded
 * s->callback once, because another thread may close the socket meanwhile. */
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
	if (unlikely(is != VMA_PACKET_RECV))
		return note(s, n, is);
	count_received(s, n);
	return is;
}

static inline vma_recv_callback_retval_t
ask_of_stream(struct vsock *s, vma_recv_callback_t callback, const void *data,
	      size_t n)
{
	if (unlikely(s->peer.ss_family == AF_UNSPEC))
		ends_find(s); /* the callback came before the connection */
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
	struct vma_info_t info = { 0 };
	ends_of_datagram(s, p, &info, &src, &dst);
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

/* A datagram's bytes, at @iov, or -errno. */
static ssize_t receive_datagram(struct vsock *s, struct packet *p,
				struct iovec *iov, int flags,
				bool wants_control)
{
	struct msghdr m = { .msg_name = &p->from,
			    .msg_namelen = sizeof(p->from),
			    .msg_iov = iov,
			    .msg_iovlen = 1,
			    .msg_control = p->control,
			    .msg_controllen = sizeof(p->control) };
	ssize_t r;

	p->flags = 0;
	p->control_len = 0;
	p->from_len = sizeof(p->from);
	if (wants_control || ends_need_control(s)) {
		r = below_recvmsg(s->fd, &m, flags | MSG_DONTWAIT);
		p->from_len = m.msg_namelen;
		p->control_len = r < 0 ? 0 : m.msg_controllen;
		p->flags = m.msg_flags & MSG_CTRUNC;
	} else {
		r = below_recvfrom(s->fd, iov->iov_base, iov->iov_len,
				   flags | MSG_DONTWAIT,
				   (struct sockaddr *)&p->from, &p->from_len);
	}
	if (r < 0 && errno == EAGAIN)
		s->was_empty = true;
	return r < 0 ? -errno : r;
}

/* What a stream has, at @iov, or -errno. */
static ssize_t receive_bytes(const struct vsock *s, struct packet *p,
			     struct iovec *iov, int flags)
{
	struct msghdr m = { .msg_iov = iov, .msg_iovlen = 1 };

	p->flags = 0;
	p->from_len = 0;
	p->control_len = 0;
	if (!flags)
		return below_recv(s->fd, iov->iov_base, iov->iov_len);
	ssize_t r = below_recvmsg(s->fd, &m, flags | MSG_DONTWAIT);
	return r < 0 ? -errno : r;
}

/* There is no room for what comes.  -errno. */
static int full(const struct vsock *s)
{
	return is_there(s) ? -ENOBUFS : -errno;
}

/* Bytes received into the room, or -errno. */
static ssize_t receive(struct vsock *s, struct packet *p, size_t want,
		       int flags, bool wants_control)
{
	uint8_t *to;

	if (unlikely(!s->spare))
		s->spare = held_number(s->number, s->fd);
	if (unlikely(!s->spare))
		return full(s);
	if (s->is_udp && !joined_is_on(s))
		joined_tick(s);
	if (s->is_udp && joined_is_on(s) && !joined_leaves(s)) {
		ssize_t r = joined_receive(s, p, flags);

		return likely(r != -ENOBUFS) ? r : full(s);
	}
	vsock_lies_in(s, NULL, false);
	if (unlikely(!(to = room_reserve(&s->room))))
		return full(s);
	if (load_rlx(&s->is_closed))
		return -EBADF;
	struct iovec iov = { to, MIN(want, (size_t)PACKET_MAX) };
	p->data = to;
	return s->is_udp ? receive_datagram(s, p, &iov, flags, wants_control)
			 : receive_bytes(s, p, &iov, flags);
}

/* Take the @n bytes, or the datagram, that the callback has seen by MSG_PEEK. */
static void consume(struct vsock *s, const uint8_t *data, size_t n)
{
	uint8_t byte;

	if (s->is_udp && joined_is_on(s)) {
		joined_take(s);
		return;
	}
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

/* A look takes the error away from the socket below.  So from now on receiving calls must
 * come here for it, even if the callback has unregistered itself, unless the callback has
 * closed the socket. */
static void keep_error(struct vsock *s, int err)
{
	s->err = err;
	if (!load_rlx(&s->is_closed))
		vsock_count(s);
}

bool filter_look(struct vsock *s)
{
	struct packet p;
	int saved = errno;

	p.control_len = 0;
	while (!s->accepted && !s->err) {
		ssize_t r = receive(s, &p, PACKET_MAX, MSG_PEEK, false);

		if (r < 0 && r != -EAGAIN && r != -ENOBUFS)
			keep_error(s, (int)-r);
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

/* May the next datagram be received without control messages?  Then the callback gets its
 * bytes and its sender alone. */
static inline bool is_plain(const struct vsock *s)
{
	return load_rlx(&s->callback) && s->spare && s->until_try != 1 &&
	       s->times == load_acq(&filter_times) && !s->has_times &&
	       !s->has_dst && !s->lies_in && !joined_is_on(s) &&
	       s->local.ss_family == AF_INET && !load_rlx(&s->is_closed);
}

/* As judge(), of a datagram without control messages. */
static inline vma_recv_callback_retval_t judge_plain(struct vsock *s,
						     struct packet *p, size_t n)
{
	vma_recv_callback_t callback = load_rlx(&s->callback);
	struct sockaddr_in dst = *(struct sockaddr_in *)&s->local;
	struct vma_info_t info = { .src = (void *)&p->from, .dst = &dst };

	/* An IPv6 socket with an IPv4 address has senders to be unmapped. */
	if (unlikely(!callback || p->from.ss_family != AF_INET))
		return judge(s, p, n);
	return ask(s, callback, p->data, n, &info);
}

/* Takes datagrams as is_plain() allows, up to the first that the callback accepts.  Return:
 * its bytes; -errno; -ENODATA: the next one is not plain */
HOT static ssize_t take_plain(struct vsock *s, struct packet *p)
{
	while (likely(is_plain(s))) {
		uint8_t *to = room_reserve(&s->room);

		if (unlikely(!to))
			break;
		s->until_try -= s->until_try != 0;
		p->data = to;
		p->from_len = sizeof(p->from);
		ssize_t r =
		    below_recvfrom(s->fd, to, PACKET_MAX, MSG_DONTWAIT,
				   (struct sockaddr *)&p->from, &p->from_len);
		if (unlikely(r < 0)) {
			s->was_empty |= errno == EAGAIN;
			return -errno;
		}
		if (judge_plain(s, p, (size_t)r) == VMA_PACKET_RECV)
			return r;
	}
	return -ENODATA;
}

ssize_t filter_take(struct vsock *s, size_t want, bool wants_control,
		    struct packet *p)
{
	p->control_len = 0;
	p->flags = 0;
	for (;;) {
		ssize_t r =
		    s->is_udp && !wants_control ? take_plain(s, p) : -ENODATA;

		if (likely(r != -ENODATA))
			return r;
		r = receive(s, p, s->is_udp ? (size_t)PACKET_MAX : want, 0,
			    wants_control);
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
			return r;
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

ssize_t filter_lend(struct vsock *s, uint32_t max, const uint8_t **data,
		    struct below_lent *l)
{
	if (s->is_udp || load_rlx(&s->callback) || s->accepted || s->err ||
	    s->room.area || !held_may_be_lent())
		return 0;
	return below_lend(s->fd, max, data, l);
}

static ssize_t take_lent(struct vsock *s, struct packet *p, uint64_t *number)
{
	struct below_lent l;

	if (!s->spare && !(s->spare = held_number(s->number, s->fd)))
		return 0;
	ssize_t r = filter_lend(s, UINT32_MAX, &p->data, &l);
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
	held_keep(s->spare, vsock_keep(s, (size_t)r));
	*number = s->spare;
	s->spare = 0;
	return r;
}

/* The callback has dropped what came, so the call waits for the rest of SO_RCVTIMEO.
 * Return: 0: something has come; -EAGAIN: the time is over; another -errno; 1: the socket
 * has no SO_RCVTIMEO, or does not block */
static int wait_on(const struct vsock *s, uint64_t start_ns)
{
	struct timeval tv = { 0 };
	socklen_t len = sizeof(tv);
	struct pollfd p = { .fd = s->fd, .events = POLLIN };
	int saved = errno;

	if (getsockopt(s->fd, SOL_SOCKET, SO_RCVTIMEO, &tv, &len))
		errno = saved;
	uint64_t all =
	    (uint64_t)tv.tv_sec * NS_PER_S + (uint64_t)tv.tv_usec * NS_PER_US;
	uint64_t used = now_ns() - start_ns;
	if (!all || fcntl(s->fd, F_GETFL) & O_NONBLOCK)
		return 1;
	struct timespec left = ns_timespec(used < all ? all - used : 0);
	int r = below_ppoll(&p, 1, &left, NULL);
	return r > 0 ? 0 : r < 0 ? -errno : -EAGAIN;
}

int filter_wait(const struct vsock *s, int flags, uint64_t *start_ns)
{
	uint8_t byte;
	struct iovec iov = { &byte, 1 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (load_rlx(&s->is_closed))
		return -EBADF;
	int r = *start_ns ? wait_on(s, *start_ns) : 1;
	if (r <= 0)
		return r;
	if (!*start_ns)
		*start_ns = now_ns();
	return below_recvmsg(s->fd, &m, MSG_PEEK | (flags & MSG_DONTWAIT)) < 0
		   ? -errno
		   : 0;
}
