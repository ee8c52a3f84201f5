/* SPDX-License-Identifier: MIT */
/*
 * api/vma/ends.c - what a packet has besides its bytes: its two addresses, and when it came
 *
 *     datagram  ->  its sender; its control messages: destination, times
 *     stream    ->  the two ends of the connection
 *
 * Control messages cost more than a short datagram, so ends_need_control() says if the
 * callback has a use for them.
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include <linux/errqueue.h>

#include "api/vma/filter.h"
#include "base/atomic.h"
#include "base/clock.h"
#include "base/libc.h"

/* SO_TIMESTAMP and SO_TIMESTAMPNS of kernels with either size of time. */
#define IS_TIME(type, what) ((type) == (what##_OLD) || (type) == (what##_NEW))

uint32_t filter_times = 1;

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

void ends_find(struct vsock *s)
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
		ends_find(s);
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

	ends_find(s);
	/* If the socket is bound to the wildcard address, the callback has to learn which
	 * address a datagram was sent to. */
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

bool ends_need_control(struct vsock *s)
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

void ends_of_datagram(const struct vsock *s, const struct packet *p,
		      struct vma_info_t *info, union ip_addr *src,
		      union ip_addr *dst)
{
	info->src = copy_ip(src, &p->from);
	info->dst = copy_ip(dst, &s->local);
	unmap(src);
	if (p->control_len)
		read_control(p, info, dst);
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
