/* SPDX-License-Identifier: MIT */
/* proto/shm/rendezvous.c - see proto/shm/rendezvous.h */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fds.h"
#include "proto/shm/rendezvous.h"
#include "proto/shm/segment.h"

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif
#define DIAG_ESTABLISHED 1

/* "address:port", with v4-mapped addresses as IPv4. */
static int endpoint_text(const struct sockaddr_storage *ss, char *out,
			 size_t size)
{
	char ip[INET6_ADDRSTRLEN];
	const struct sockaddr_in *v4 = (const void *)ss;
	const struct sockaddr_in6 *v6 = (const void *)ss;

	if (ss->ss_family == AF_INET) {
		inet_ntop(AF_INET, &v4->sin_addr, ip, sizeof(ip));
		snprintf(out, size, "%s:%u", ip, ntohs(v4->sin_port));
	} else if (ss->ss_family == AF_INET6) {
		if (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr))
			inet_ntop(AF_INET, &v6->sin6_addr.s6_addr[12], ip,
				  sizeof(ip));
		else
			inet_ntop(AF_INET6, &v6->sin6_addr, ip, sizeof(ip));
		snprintf(out, size, "%s:%u", ip, ntohs(v6->sin6_port));
	} else {
		return -EAFNOSUPPORT;
	}
	return 0;
}

static socklen_t abstract(struct sockaddr_un *un, const char *name)
{
	size_t len = strlen(name);

	un->sun_family = AF_UNIX;
	un->sun_path[0] = '\0';
	memcpy(un->sun_path + 1, name, len);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len);
}

static int proposal_name(int fd, bool ours_is_client, char *name, size_t size)
{
	struct sockaddr_storage local, peer;
	socklen_t llen = sizeof(local), plen = sizeof(peer);
	char a[80], b[80];

	if (getsockname(fd, (struct sockaddr *)&local, &llen) < 0 ||
	    getpeername(fd, (struct sockaddr *)&peer, &plen) < 0)
		return -errno;
	int err = endpoint_text(&local, a, sizeof(a));
	if (!err)
		err = endpoint_text(&peer, b, sizeof(b));
	if (err)
		return err;
	int n = snprintf(name, size, "osf1/o/%s>%s", ours_is_client ? a : b,
			 ours_is_client ? b : a);
	return n < (int)size ? 0 : -ENAMETOOLONG;
}

bool are_two_ends(int a, int b)
{
	char one[192], two[192];
	uint64_t ns_a = 0, ns_b = 0;
	socklen_t len = sizeof(ns_a);

	/* Where the kernel can tell namespaces apart (Linux 5.14). */
	libc.getsockopt(a, SOL_SOCKET, SO_NETNS_COOKIE, &ns_a, &len);
	len = sizeof(ns_b);
	libc.getsockopt(b, SOL_SOCKET, SO_NETNS_COOKIE, &ns_b, &len);
	return ns_a == ns_b && !proposal_name(a, true, one, sizeof(one)) &&
	       !proposal_name(b, false, two, sizeof(two)) && !strcmp(one, two);
}

static bool diag_addr(const struct sockaddr_storage *ss, uint32_t addr[4],
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

/* Ask the kernel about the connection from @local to @peer: 0 with *@m, or
 * -errno. */
static int diag_of(const struct sockaddr_storage *local,
		   const struct sockaddr_storage *peer, struct inet_diag_msg *m)
{
	struct {
		struct nlmsghdr h;
		struct inet_diag_req_v2 r;
	} req = { .h = { .nlmsg_len = sizeof(req),
			 .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			 .nlmsg_flags = NLM_F_REQUEST },
		  .r = { .sdiag_protocol = IPPROTO_TCP,
			 .idiag_states = UINT32_MAX,
			 .id.idiag_cookie = { INET_DIAG_NOCOOKIE,
					      INET_DIAG_NOCOOKIE } } };
	union {
		struct nlmsghdr h;
		char bytes[1024];
	} got;

	bool v6 = diag_addr(local, req.r.id.idiag_src, &req.r.id.idiag_sport);
	diag_addr(peer, req.r.id.idiag_dst, &req.r.id.idiag_dport);
	req.r.sdiag_family = v6 ? AF_INET6 : AF_INET;
	int nl = libc.socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC,
			     NETLINK_SOCK_DIAG);
	if (nl < 0)
		return -errno;
	ssize_t n = -1;
	if (libc.send(nl, &req, sizeof(req), 0) == (ssize_t)sizeof(req))
		n = libc.recv(nl, &got, sizeof(got), MSG_DONTWAIT);
	libc.close(nl);
	if (n < (ssize_t)(NLMSG_HDRLEN + sizeof(*m)) ||
	    got.h.nlmsg_type != SOCK_DIAG_BY_FAMILY)
		return -ENOENT;
	memcpy(m, NLMSG_DATA(&got.h), sizeof(*m));
	return 0;
}

int owner_of_peer(int fd, uid_t *uid)
{
	struct sockaddr_storage local, peer;
	socklen_t llen = sizeof(local), plen = sizeof(peer);
	struct inet_diag_msg m;

	if (getsockname(fd, (struct sockaddr *)&local, &llen) < 0 ||
	    getpeername(fd, (struct sockaddr *)&peer, &plen) < 0)
		return -errno;
	if (diag_of(&peer, &local, &m))
		/* Conclude that the peer is not on this host only if the
		 * kernel answers, and only for an established connection. */
		return !diag_of(&local, &peer, &m) &&
			       m.idiag_state == DIAG_ESTABLISHED
			   ? -ENOENT
			   : -EAGAIN;
	if (!m.idiag_inode)
		return -EAGAIN;
	*uid = m.idiag_uid;
	return 0;
}

static bool owns_peer(int fd, uid_t uid)
{
	uid_t owner;

	return !owner_of_peer(fd, &owner) && owner == uid;
}

/* Allow the same user and root.  Allow another user only with its own end of
 * the connection. */
static bool may_take_part(int channel, int fd)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);
	uid_t uid = geteuid();

	if (libc.getsockopt(channel, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
		return false;
	if (cred.uid == uid || cred.uid == 0)
		return true;
	if (uid == 0)
		return owns_peer(fd, cred.uid);
	/* OSF_ALLOW_UIDS=33,1000 widens. */
	const char *p = secure_getenv("OSF_ALLOW_UIDS");
	while (p && *p) {
		char *end;
		unsigned long allowed = strtoul(p, &end, 10);

		if (end == p)
			return false;
		if (allowed == cred.uid)
			return owns_peer(fd, cred.uid);
		p = *end == ',' ? end + 1 : NULL;
	}
	return false;
}

pid_t channel_pid(int channel)
{
	struct ucred cred = { 0 };
	socklen_t len = sizeof(cred);

	libc.getsockopt(channel, SOL_SOCKET, SO_PEERCRED, &cred, &len);
	return cred.pid;
}

static int unix_socket(int type)
{
	int fd = libc.socket(AF_UNIX, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0) /* -EPERM is another user's */
		return errno == EPERM ? -EACCES : -errno;
	return fds_hide_spare(fd);
}

int proposal_listen(int fd)
{
	char name[100];
	struct sockaddr_un un;
	int err = proposal_name(fd, true, name, sizeof(name));

	if (err)
		return err;
	socklen_t len = abstract(&un, name);
	int s = unix_socket(SOCK_SEQPACKET);
	if (s < 0)
		return s;
	if (libc.bind(s, (struct sockaddr *)&un, len) < 0 ||
	    libc.listen(s, 2) < 0) {
		err = -errno;
		fds_close(s);
		return err;
	}
	return s;
}

int proposal_accept(int proposal_fd, int fd)
{
	int ch =
	    libc.accept4(proposal_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (ch < 0)
		return -errno;
	if (!may_take_part(ch, fd)) {
		libc.close(ch);
		return -EPERM;
	}
	return fds_hide_spare(ch);
}

int proposal_connect(int fd)
{
	char name[100];
	struct sockaddr_un un;
	int err = proposal_name(fd, false, name, sizeof(name));

	if (err)
		return err;
	socklen_t len = abstract(&un, name);
	int s = unix_socket(SOCK_SEQPACKET);
	if (s < 0)
		return s;
	if (libc.connect(s, (struct sockaddr *)&un, len) < 0)
		err =
		    errno == ECONNREFUSED || errno == EAGAIN ? -ENOENT : -errno;
	else if (!may_take_part(s, fd))
		err = -EPERM;
	if (err) {
		fds_close(s);
		return err;
	}
	return s;
}

static unsigned port_of(const struct sockaddr_storage *ss)
{
	return ntohs(ss->ss_family == AF_INET6
			 ? ((const struct sockaddr_in6 *)ss)->sin6_port
			 : ((const struct sockaddr_in *)ss)->sin_port);
}

int announce_bind(int listen_fd, enum announced what)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);
	struct sockaddr_un un;
	char name[32];

	if (getsockname(listen_fd, (struct sockaddr *)&ss, &len) < 0)
		return -errno;
	snprintf(name, sizeof(name), "osf1/%c/%u", what, port_of(&ss));
	len = abstract(&un, name);
	int s = unix_socket(SOCK_SEQPACKET);
	if (s < 0)
		return s;
	/* A backlog of one: callers connect only to see that we are there. */
	if (libc.bind(s, (struct sockaddr *)&un, len) < 0 ||
	    libc.listen(s, 1) < 0) {
		int err = -errno;

		fds_close(s);
		return err;
	}
	return s;
}

int announce_check(int fd, enum announced what)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);
	struct sockaddr_un un;
	char name[32];
	int err = 0;

	if (getpeername(fd, (struct sockaddr *)&ss, &len) < 0)
		return -errno;
	snprintf(name, sizeof(name), "osf1/%c/%u", what, port_of(&ss));
	len = abstract(&un, name);
	int s = unix_socket(SOCK_SEQPACKET);
	if (s < 0)
		return s;
	/* EAGAIN: the backlog is full, so somebody listens. */
	if (libc.connect(s, (struct sockaddr *)&un, len) < 0)
		err = errno == EAGAIN ? 0 : -ENOENT;
	fds_close(s);
	return err;
}

int hello_send(int channel, const struct hello *h, const int *fds, int n_fds)
{
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(HELLO_FDS * sizeof(int))];
	} control = { 0 };
	struct iovec iov = { (void *)h, sizeof(*h) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (n_fds) {
		size_t bytes = (size_t)n_fds * sizeof(int);

		msg.msg_control = control.buf;
		msg.msg_controllen = CMSG_SPACE(bytes);
		struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(bytes);
		memcpy(CMSG_DATA(c), fds, bytes);
	}
	return libc.sendmsg(channel, &msg, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* @n bytes came, and @n_fds descriptors; @cut: of more. */
static int hello_check(const struct hello *h, ssize_t n, size_t n_fds, bool cut)
{
	if (n == 0)
		return -EPIPE;
	if (n < (ssize_t)sizeof(*h) || h->magic != HELLO_MAGIC ||
	    (cut && n_fds == HELLO_FDS))
		return -EBADMSG;
	if (h->version != SEG_VERSION)
		return -EPROTONOSUPPORT;
	return cut && n_fds < h->n_needed ? -EMFILE : 0;
}

int hello_recv(int channel, struct hello *h, int *fds)
{
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(HELLO_FDS * sizeof(int))];
	} control;
	struct iovec iov = { h, sizeof(*h) };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control.buf,
			      .msg_controllen = sizeof(control.buf) };

	size_t n_fds = 0;

	for (int i = 0; i < HELLO_FDS; i++)
		fds[i] = -1;
	ssize_t n =
	    libc.recvmsg(channel, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (n < 0)
		return errno == ECONNRESET ? -EPIPE : -errno;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c;
	     c = CMSG_NXTHDR(&msg, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		n_fds = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		n_fds = MIN(n_fds, (size_t)HELLO_FDS);
		memcpy(fds, CMSG_DATA(c), n_fds * sizeof(int));
	}
	int err = hello_check(h, n, n_fds, msg.msg_flags & MSG_CTRUNC);
	for (int i = 0; err && i < HELLO_FDS; i++) {
		if (fds[i] >= 0)
			libc.close(fds[i]);
		fds[i] = -1;
	}
	return err;
}
