/* SPDX-License-Identifier: MIT */
/*
 * api/vma/zcopy.c - recvfrom_zcopy(): packets where they lie, instead of a copy
 *
 *     filter_take_held()  ->  the program's buffer: how many, and for each
 *                             packet its number, one vector, the bytes' place
 */
#include <errno.h>
#include <string.h>

#include "api/vma/below.h"
#include "api/vma/calls.h"
#include "api/vma/epset.h"
#include "api/vma/filter.h"
#include "api/vma/vma.h"
#include "base/atomic.h"

#define OURS (MSG_VMA_ZCOPY | MSG_VMA_ZCOPY_FORCE)
#define NOT_DATA (MSG_OOB | MSG_ERRQUEUE)
/* How many packets there are, the packet, and its vector. */
#define HEAD_BYTES (sizeof(struct vma_packets_t) + sizeof(struct vma_packet_t))
#define ONE_BYTES (HEAD_BYTES + sizeof(struct iovec))

/* As recvfrom(): what is not this API's, and what is no data. */
static ssize_t recv_plain(int fd, void *buf, size_t len, int flags,
			  struct sockaddr *from, socklen_t *fromlen)
{
	struct iovec iov = { buf, len };
	struct msghdr m = { .msg_name = from,
			    .msg_namelen = from ? *fromlen : 0,
			    .msg_iov = &iov,
			    .msg_iovlen = 1 };
	ssize_t r = below_recvmsg(fd, &m, flags);

	if (r < 0)
		return -errno;
	if (from)
		*fromlen = m.msg_namelen;
	return r;
}

static void put_from(const struct vsock *s, const struct packet *p,
		     struct sockaddr *from, socklen_t *fromlen)
{
	if (!from)
		return;
	if (!s->is_udp) { /* libvma names the peer of a stream, too */
		if (getpeername(s->fd, from, fromlen) < 0)
			*fromlen = 0;
		return;
	}
	memcpy(from, &p->from, MIN(*fromlen, p->from_len));
	*fromlen = p->from_len;
}

/* Has the call left something to receive?  libvma's call takes all that it has room for, so
 * its programs call once for each edge of an epoll set.  Our call takes one piece. */
static bool leaves_some(const struct vsock *s, size_t n)
{
	int is = below_is_ready(s->fd);

	return is >= 0 ? is : !s->is_udp && n >= PACKET_MAX;
}

/* @n bytes of packet @number.  Returns those that the vectors name. */
static ssize_t put_packet(void *buf, size_t len, const struct packet *p,
			  uint64_t number, size_t n, int *flags)
{
	struct vma_packets_t *out = buf;
	struct vma_packet_t *one = out->pkts;

	out->n_packet_num = 1;
	one->packet_id = (void *)(uintptr_t)number;
	one->sz_iov = len >= ONE_BYTES;
	*flags |= MSG_VMA_ZCOPY;
	if (one->sz_iov) {
		one->iov[0] = (struct iovec){ (void *)p->data, n };
		return (ssize_t)n;
	}
	*flags |= MSG_TRUNC;
	return 0;
}

static ssize_t zcopy_now(struct visit *v, void *buf, size_t len, int *flags,
			 struct sockaddr *from, socklen_t *fromlen)
{
	struct vsock *s = v->s;
	uint64_t number;
	struct packet p;
	int got = *flags & ~(OURS | MSG_TRUNC), saved = errno;

	if (!visit_lock_rx(v))
		return -EAGAIN;
	ssize_t r = filter_take_held(s, *flags & MSG_PEEK, &p, &number);
	visit_unlock_rx(v);
	if (r < 0)
		return r;
	if (unlikely(load_rlx(&epset_has_edges)) && number &&
	    leaves_some(s, (size_t)r))
		epset_again(s->fd);
	put_from(s, &p, from, fromlen);
	if (number)
		r = put_packet(buf, len, &p, number, (size_t)r, &got);
	else
		memset(buf, 0, sizeof(struct vma_packets_t));
	*flags = got;
	errno = saved;
	return r;
}

static ssize_t zcopy(struct visit *v, void *buf, size_t len, int *flags,
		     struct sockaddr *from, socklen_t *fromlen)
{
	bool is_in_callback =
	    load_rlx(&v->s->owner) == (uintptr_t)pthread_self();
	uint64_t start_ns = 0;

	if (len < (v->s->is_udp ? HEAD_BYTES : ONE_BYTES))
		return -ENOBUFS;
	for (;;) {
		ssize_t r = zcopy_now(v, buf, len, flags, from, fromlen);

		if (r != -EAGAIN || *flags & MSG_DONTWAIT || is_in_callback)
			return r;
		r = filter_wait(v->s, *flags, &start_ns);
		if (r < 0)
			return r;
	}
}

int vma_recvfrom_zcopy(int fd, void *buf, size_t len, int *flags,
		       struct sockaddr *from, socklen_t *fromlen)
{
	int err;
	ssize_t r = -EFAULT;

	if (is_bad_ptr(buf) || is_bad_ptr(flags) ||
	    (from && is_bad_ptr(fromlen))) {
		errno = EFAULT;
		return -1;
	}
	VISIT(v, *flags & NOT_DATA ? NULL : vsock_make(fd, &err));
	if (v.s) {
		r = zcopy(&v, buf, len, flags, from, fromlen);
		if (unlikely(r < 0))
			vsock_count_error(v.s, r);
	} else {
		*flags &= ~OURS;
		r = recv_plain(fd, buf, len, *flags, from, fromlen);
	}
	if (r < 0)
		errno = (int)-r;
	return r < 0 ? -1 : (int)r;
}
