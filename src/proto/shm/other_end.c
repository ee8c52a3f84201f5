/* SPDX-License-Identifier: MIT */
/* proto/shm/other_end.c - see proto/shm/other_end.h */
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>

#include "base/libc.h"
#include "proto/shm/other_end.h"

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif
#define DIAG_ESTABLISHED 1
#define ANSWER_BYTES 4096

static bool put_addr(const struct sockaddr_storage *ss, uint32_t addr[4],
		     uint16_t *port)
{
	const struct sockaddr_in *v4 = (const void *)ss;
	const struct sockaddr_in6 *v6 = (const void *)ss;

	if (ss->ss_family == AF_INET) {
		memcpy(addr, &v4->sin_addr, 4);
		*port = v4->sin_port;
		return false;
	}
	*port = v6->sin6_port;
	bool mapped = IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr);
	if (mapped)
		memcpy(addr, &v6->sin6_addr.s6_addr[12], 4);
	else
		memcpy(addr, &v6->sin6_addr, 16);
	return !mapped;
}

/* Is the netlink socket, which this thread has made, in the namespace of @fd?
 * Kernels before 5.14 cannot tell. */
static bool is_same_netns(int nl, int fd)
{
	uint64_t a = 0, b = 0;
	socklen_t len = sizeof(a);

	if (libc.getsockopt(nl, SOL_SOCKET, SO_NETNS_COOKIE, &a, &len))
		return true;
	len = sizeof(b);
	return !libc.getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &b, &len) &&
	       a == b;
}

/* The rate in the tcp_info behind the message @m of @len bytes. */
static uint64_t rate_of(const struct inet_diag_msg *m, size_t len)
{
	const struct rtattr *at = (const void *)(m + 1);
	size_t left = len - sizeof(*m);
	const size_t need =
	    offsetof(struct tcp_info, tcpi_max_pacing_rate) + sizeof(uint64_t);
	uint64_t rate = UINT64_MAX;

	for (; RTA_OK(at, left); at = RTA_NEXT(at, left)) {
		const struct tcp_info *ti = RTA_DATA(at);

		if (at->rta_type == INET_DIAG_INFO && RTA_PAYLOAD(at) >= need)
			memcpy(&rate, &ti->tcpi_max_pacing_rate, sizeof(rate));
	}
	return rate;
}

/* Ask about the socket that has @local and @peer: 0 with *@m and *@rate, or
 * -errno. */
static int ask(int nl, const struct sockaddr_storage *local,
	       const struct sockaddr_storage *peer, struct inet_diag_msg *m,
	       uint64_t *rate)
{
	struct {
		struct nlmsghdr h;
		struct inet_diag_req_v2 r;
	} req = { .h = { .nlmsg_len = sizeof(req),
			 .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			 .nlmsg_flags = NLM_F_REQUEST },
		  .r = { .sdiag_protocol = IPPROTO_TCP,
			 .idiag_ext = 1 << (INET_DIAG_INFO - 1),
			 .idiag_states = UINT32_MAX,
			 .id.idiag_cookie = { INET_DIAG_NOCOOKIE,
					      INET_DIAG_NOCOOKIE } } };
	union {
		struct nlmsghdr h;
		char bytes[ANSWER_BYTES];
	} got;

	bool v6 = put_addr(local, req.r.id.idiag_src, &req.r.id.idiag_sport);
	put_addr(peer, req.r.id.idiag_dst, &req.r.id.idiag_dport);
	req.r.sdiag_family = v6 ? AF_INET6 : AF_INET;
	if (v6)
		req.r.id.idiag_if =
		    ((const struct sockaddr_in6 *)local)->sin6_scope_id;
	if (libc.send(nl, &req, sizeof(req), 0) != (ssize_t)sizeof(req))
		return -errno;
	ssize_t n = libc.recv(nl, &got, sizeof(got), MSG_DONTWAIT);
	if (n < (ssize_t)(NLMSG_HDRLEN + sizeof(*m)))
		return -EOPNOTSUPP;
	if (got.h.nlmsg_type != SOCK_DIAG_BY_FAMILY)
		return -ENOENT;
	memcpy(m, NLMSG_DATA(&got.h), sizeof(*m));
	*rate = rate_of(NLMSG_DATA(&got.h), (size_t)n - NLMSG_HDRLEN);
	/* A listener answers for connections that are not there. */
	return m->id.idiag_dport == req.r.id.idiag_dport ? 0 : -ENOENT;
}

/* A socket to ask with, or -errno. */
static int ask_open(void)
{
	int nl = libc.socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC,
			     NETLINK_SOCK_DIAG);

	if (nl < 0)
		return errno == EMFILE || errno == ENFILE ? -errno
							  : -EOPNOTSUPP;
	return nl;
}

int socket_ask(const struct sockaddr_storage *local,
	       const struct sockaddr_storage *peer, struct other_end *e)
{
	struct inet_diag_msg m;
	int nl = ask_open();

	if (nl < 0)
		return nl;
	int err = ask(nl, local, peer, &m, &e->rate);
	libc.close(nl);
	if (!err)
		e->uid = m.idiag_uid;
	return err;
}

int other_end_ask(int fd, struct other_end *e)
{
	struct sockaddr_storage local, peer;
	socklen_t llen = sizeof(local), plen = sizeof(peer);
	struct inet_diag_msg m;
	uint64_t rate;

	if (getsockname(fd, (struct sockaddr *)&local, &llen) < 0 ||
	    libc.getpeername(fd, (struct sockaddr *)&peer, &plen) < 0)
		return -errno;
	int nl = ask_open();
	if (nl < 0)
		return nl;
	int err =
	    is_same_netns(nl, fd) ? ask(nl, &peer, &local, &m, &rate) : -ENOENT;
	if (err == -ENOENT)
		/* Conclude that the peer is not on this host only if the
		 * kernel answers, and only for an established connection. */
		err = !ask(nl, &local, &peer, &m, &rate) &&
			      m.idiag_state == DIAG_ESTABLISHED
			  ? -ENOENT
			  : -EAGAIN;
	else if (!err && !m.idiag_inode)
		err = -EAGAIN;
	libc.close(nl);
	if (err)
		return err;
	e->uid = m.idiag_uid;
	e->rate = rate;
	return 0;
}
