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

#include "base/atomic.h"
#include "base/fds.h"
#include "base/fork_lock.h"
#include "base/libc.h"
#include "base/lock.h"
#include "base/nocancel.h"
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

/* The network namespace of @fd; 0: Linux before 5.14 cannot tell. */
static uint64_t netns_of(int fd)
{
	uint64_t netns = 0;
	socklen_t len = sizeof(netns);

	if (libc.getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &netns, &len))
		return 0;
	return netns;
}

/* The rate in the tcp_info behind the message @m of @len bytes. */
static uint64_t rate_of(const struct inet_diag_msg *m, size_t len)
{
	const struct rtattr *at = (const void *)(m + 1);
	int left = (int)(len - sizeof(*m)); /* RTA_NEXT() may go below 0 */
	const size_t need =
	    offsetof(struct tcp_info, tcpi_max_pacing_rate) + sizeof(uint64_t);
	uint64_t rate = UINT64_MAX;

	for (; RTA_OK(at, left); at = RTA_NEXT(at, left)) {
		const char *info = RTA_DATA(at); /* aligned to 4 bytes only */

		if (at->rta_type == INET_DIAG_INFO && RTA_PAYLOAD(at) >= need)
			memcpy(&rate, info + need - sizeof(rate), sizeof(rate));
	}
	return rate;
}

static uint32_t n_asked;

/*
 * Ask about the socket that has @local and @peer: 0 with *@m, or -errno.  -EPROTO: the
 * answer is to another question.  With a @rate, ask for that, too, of the socket with the
 * cookie of *@m.  For a rate the kernel takes the lock of that socket.
 */
static int ask(int nl, const struct sockaddr_storage *local,
	       const struct sockaddr_storage *peer, struct inet_diag_msg *m,
	       uint64_t *rate)
{
	struct {
		struct nlmsghdr h;
		struct inet_diag_req_v2 r;
	} req = { .h = { .nlmsg_len = sizeof(req),
			 .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			 .nlmsg_flags = NLM_F_REQUEST,
			 .nlmsg_seq = fetch_add(&n_asked, 1u) },
		  .r = { .sdiag_protocol = IPPROTO_TCP,
			 .idiag_ext = rate ? 1 << (INET_DIAG_INFO - 1) : 0,
			 .idiag_states = UINT32_MAX,
			 .id.idiag_cookie = { INET_DIAG_NOCOOKIE,
					      INET_DIAG_NOCOOKIE } } };
	union {
		struct nlmsghdr h;
		char bytes[ANSWER_BYTES];
	} got;

	if (rate)
		memcpy(req.r.id.idiag_cookie, m->id.idiag_cookie,
		       sizeof(req.r.id.idiag_cookie));
	bool v6 = put_addr(local, req.r.id.idiag_src, &req.r.id.idiag_sport);
	put_addr(peer, req.r.id.idiag_dst, &req.r.id.idiag_dport);
	req.r.sdiag_family = v6 ? AF_INET6 : AF_INET;
	if (v6)
		req.r.id.idiag_if =
		    ((const struct sockaddr_in6 *)local)->sin6_scope_id;
	if (nocancel_send(nl, &req, sizeof(req), 0) != (ssize_t)sizeof(req))
		return -errno;
	ssize_t n = nocancel_recv(nl, &got, sizeof(got), MSG_DONTWAIT);
	if (n >= (ssize_t)NLMSG_HDRLEN && got.h.nlmsg_seq != req.h.nlmsg_seq)
		return -EPROTO;
	if (n < (ssize_t)(NLMSG_HDRLEN + sizeof(*m)))
		return -EOPNOTSUPP;
	if (got.h.nlmsg_type != SOCK_DIAG_BY_FAMILY)
		return -ENOENT;
	memcpy(m, NLMSG_DATA(&got.h), sizeof(*m));
	if (rate)
		*rate = rate_of(NLMSG_DATA(&got.h), (size_t)n - NLMSG_HDRLEN);
	/* A listener answers for connections that are not there. */
	return m->id.idiag_dport == req.r.id.idiag_dport ? 0 : -ENOENT;
}

/* A new socket to ask with, or -errno. */
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
	       const struct sockaddr_storage *peer, uint64_t *rate)
{
	struct inet_diag_msg m;
	int nl = ask_open();

	if (nl < 0)
		return nl;
	int err = ask(nl, local, peer, &m, NULL);
	if (!err)
		err = ask(nl, local, peer, &m, rate);
	nocancel_close(nl);
	return err;
}

/*
 * It takes twice as long to make such a socket as to ask one question.  So this
 * process keeps one, and a fork closes it in the child.  The socket keeps its
 * network namespace alive, so only the namespace of the first connection has
 * one.
 */

static struct lock lock;
static struct {
	int fd; /* 0: none */
	uint64_t cookie, netns;
} kept;

static void forget(void)
{
	fds_close(kept.fd);
	kept.fd = 0;
}

static void after_fork(void)
{
	lock_inherit(&lock);
	forget();
}

bool other_end_spare_fd(void)
{
	GUARD(&lock);
	bool had = kept.fd > 0;

	forget();
	return had;
}

static void keep(int nl)
{
	static uint32_t knows;

	if (!xchg(&knows, 1u))
		fork_lock_on_child(after_fork);
	nl = fds_hide_spare(nl);
	kept.fd = nl < 0 ? 0 : nl;
	kept.cookie = fds_cookie(nl);
}

/* A socket to ask with about connections in namespace @netns, or -errno.  The caller
 * holds the lock, and closes what is not kept. */
static int asker(uint64_t netns)
{
	/* Has the program put something else there? */
	if (kept.fd > 0 && fds_cookie(kept.fd) != kept.cookie)
		kept.fd = 0;
	if (!kept.netns)
		kept.netns = netns;
	if (kept.fd > 0 && netns == kept.netns)
		return kept.fd;
	int nl = ask_open();
	/* This thread may be in another one. */
	if (nl < 0 || !netns || netns != kept.netns || netns_of(nl) != netns)
		return nl;
	keep(nl);
	return kept.fd > 0 ? kept.fd : ask_open();
}

/* -ENOENT: conclude that the peer is not on this host only if the kernel answers, and
 * only for an established connection. */
static int ask_why_not(int nl, const struct sockaddr_storage *local,
		       const struct sockaddr_storage *peer)
{
	struct inet_diag_msg m;

	return !ask(nl, local, peer, &m, NULL) &&
		       m.idiag_state == DIAG_ESTABLISHED
		   ? -ENOENT
		   : -EAGAIN;
}

typedef int about(int nl, bool is_same_netns,
		  const struct sockaddr_storage *local,
		  const struct sockaddr_storage *peer, struct other_end *e);

static int over_is_ours(int nl, bool is_same_netns,
			const struct sockaddr_storage *local,
			const struct sockaddr_storage *peer,
			struct other_end *e)
{
	struct inet_diag_msg m;
	int err = is_same_netns ? ask(nl, peer, local, &m, NULL) : -ENOENT;

	if (err == -ENOENT)
		return ask_why_not(nl, local, peer);
	if (!err && !m.idiag_inode)
		return -EAGAIN;
	if (!err) {
		e->uid = m.idiag_uid;
		memcpy(&e->cookie, m.id.idiag_cookie, sizeof(e->cookie));
	}
	return err;
}

static int over_shows(int nl, bool is_same_netns,
		      const struct sockaddr_storage *local,
		      const struct sockaddr_storage *peer, struct other_end *e)
{
	struct inet_diag_msg m;

	memcpy(m.id.idiag_cookie, &e->cookie, sizeof(e->cookie));
	int err = is_same_netns ? ask(nl, peer, local, &m, &e->rate) : -ENOENT;
	return err == -ENOENT ? -EAGAIN : err;
}

/* 1: the kernel answers for our end, and the other one is in no process, or gone. */
static int over_is_orphan(int nl, bool is_same_netns,
			  const struct sockaddr_storage *local,
			  const struct sockaddr_storage *peer,
			  struct other_end *e)
{
	struct inet_diag_msg m;
	int err = is_same_netns ? ask(nl, peer, local, &m, NULL) : -EOPNOTSUPP;

	if (err == -ENOENT)
		return !ask(nl, local, peer, &m, NULL);
	return err ? err : !m.idiag_inode;
}

static int ask_about(int fd, about *what, struct other_end *e)
{
	struct sockaddr_storage local, peer;
	socklen_t llen = sizeof(local), plen = sizeof(peer);
	uint64_t netns = netns_of(fd);

	if (getsockname(fd, (struct sockaddr *)&local, &llen) < 0 ||
	    libc.getpeername(fd, (struct sockaddr *)&peer, &plen) < 0)
		return -errno;
	GUARD(&lock);
	int nl = asker(netns);
	if (nl < 0)
		return nl;
	bool is_same = !netns || nl == kept.fd || netns_of(nl) == netns;
	int err = what(nl, is_same, &local, &peer, e);
	if (nl != kept.fd)
		nocancel_close(nl);
	else if (err == -EPROTO || err == -EOPNOTSUPP)
		forget();
	return err == -EPROTO ? -EAGAIN : err;
}

int other_end_ask(int fd, struct other_end *e)
{
	return ask_about(fd, over_is_ours, e);
}

int other_end_rate(int fd, struct other_end *e)
{
	return ask_about(fd, over_shows, e);
}

bool other_end_is_orphan(int fd)
{
	struct other_end e;

	return ask_about(fd, over_is_orphan, &e) == 1;
}
