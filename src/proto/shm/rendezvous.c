/* SPDX-License-Identifier: MIT */
/* proto/shm/rendezvous.c - see proto/shm/rendezvous.h */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fds.h"
#include "base/libc.h"
#include "base/nocancel.h"
#include "proto/shm/elsewhere.h"
#include "proto/shm/other_end.h"
#include "proto/shm/rendezvous.h"
#include "proto/shm/segment.h"
#include "proto/shm/trust.h"

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif
#define BACKLOG 8        /* strangers that may stand before the peer */
#define ANNOUNCE_TRIES 4 /* names, of which strangers may take some */
#define SCM_MAX_FDS 253  /* of one message: linux/net/scm.h */
/* Of a message: what the kernel itself puts in, if the socket has SO_PASSCRED or SO_PASSSEC. */
#define LABEL_MAX 4096
#define CREDENTIALS_SPACE                                                      \
	(CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(LABEL_MAX))
#define NAME_PREFIX "osf8/"
#define NAME_LEN (sizeof(NAME_PREFIX) - 1 + NOTICE_BITS / 4)

static socklen_t abstract(struct sockaddr_un *un, const char *name)
{
	size_t len = strlen(name);

	un->sun_family = AF_UNIX;
	un->sun_path[0] = '\0';
	memcpy(un->sun_path + 1, name, len);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len);
}

static socklen_t name_of(struct sockaddr_un *un, uint64_t number)
{
	char name[NAME_LEN + 1];

	snprintf(name, sizeof(name), NAME_PREFIX "%015llx",
		 (unsigned long long)number);
	return abstract(un, name);
}

/* Is @number's name that of the socket at the other end of @channel? */
static bool is_named(int channel, uint64_t number)
{
	struct sockaddr_un un, want;
	socklen_t len = sizeof(un);

	return !libc.getpeername(channel, (struct sockaddr *)&un, &len) &&
	       len == name_of(&want, number) && !memcmp(&un, &want, len);
}

/* Does @fd have the addresses *@local and *@peer, and is it connected? */
static bool addresses(int fd, struct sockaddr_storage *local,
		      struct sockaddr_storage *peer)
{
	socklen_t len = sizeof(*local);

	memset(local, 0, sizeof(*local));
	memset(peer, 0, sizeof(*peer));
	if (getsockname(fd, (struct sockaddr *)local, &len))
		return false;
	len = sizeof(*peer);
	return !libc.getpeername(fd, (struct sockaddr *)peer, &len);
}

/* One of the two may have an IPv4 address in the form of IPv6. */
static bool is_same_address(const struct sockaddr_storage *a,
			    const struct sockaddr_storage *b)
{
	const struct sockaddr_in6 *a6 = (const void *)a, *b6 = (const void *)b;
	const struct sockaddr_in *a4 = (const void *)a, *b4 = (const void *)b;
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	if (a->ss_family == AF_INET && b->ss_family == AF_INET6)
		return is_same_address(b, a);
	if (a4->sin_port != b4->sin_port) /* at the same place in both */
		return false;
	if (a->ss_family == AF_INET6 && b->ss_family == AF_INET)
		return !memcmp(&a6->sin6_addr, mapped, 12) &&
		       !memcmp(&a6->sin6_addr.s6_addr[12], &b4->sin_addr, 4);
	if (a->ss_family == AF_INET6 && b->ss_family == AF_INET6)
		return !memcmp(&a6->sin6_addr, &b6->sin6_addr, 16);
	return a->ss_family == AF_INET && b->ss_family == AF_INET &&
	       a4->sin_addr.s_addr == b4->sin_addr.s_addr;
}

bool tcp_end_of(int fd, struct tcp_end *out)
{
	socklen_t len = sizeof(out->netns);

	out->netns = 0;
	libc.getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &out->netns, &len);
	return addresses(fd, &out->local, &out->peer);
}

bool are_two_ends(const struct tcp_end *a, const struct tcp_end *b)
{
	return a->netns == b->netns && is_same_address(&a->local, &b->peer) &&
	       is_same_address(&a->peer, &b->local);
}

static int unix_socket(void)
{
	int fd = libc.socket(AF_UNIX,
			     SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0) /* -EPERM is another user's */
		return errno == EPERM ? -EACCES : -errno;
	return fds_hide_spare(fd);
}

/* A unix socket with a name that is new, whose number is shown on @fd. */
static int named_socket(int fd, struct notice *n, bool listens)
{
	struct sockaddr_un un;
	uint64_t number = notice_number();
	socklen_t len = name_of(&un, number);
	int s = discard_is_full() ? -EMFILE
		: number          ? unix_socket()
				  : -EOPNOTSUPP;

	if (s < 0)
		return s;
	int err = libc.bind(s, (struct sockaddr *)&un, len) ||
			  (listens && libc.listen(s, BACKLOG))
		      ? -errno
		      : notice_put(n, fd, number);
	if (!err)
		return s;
	fds_close(s);
	return err == -EPERM ? -EACCES : err;
}

int proposal_listen(int fd, struct notice *n)
{
	return named_socket(fd, n, true);
}

int proposal_accept(int proposal_fd, int fd)
{
	struct other_end who;
	uint64_t shown;

	for (int i = 0; i <= BACKLOG; i++) {
		int ch = fds_hide_spare(nocancel_accept4(
		    proposal_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC));

		if (ch < 0)
			return ch == -EMFILE ? ch : -errno;
		int err = notice_read(fd, &who, &shown);
		bool is_peer = !err && is_named(ch, shown);
		if (is_peer)
			err = trust_check(ch);
		if (is_peer && !err)
			return ch;
		discard_channel(ch);
		if (is_peer)
			return err;
	}
	return -EAGAIN; /* strangers alone */
}

/* The number may have been taken away before we were there, and its name bound by
 * somebody else. */
static bool is_still_shown(int fd, struct other_end *who, uint64_t number)
{
	uint64_t shown;

	return !notice_read_again(fd, who, &shown) && shown == number;
}

int proposal_connect(int fd, struct notice *n, int *refused)
{
	struct sockaddr_un un;
	struct other_end who;
	uint64_t number;
	int err = notice_read(fd, &who, &number);

	*refused = -1;
	if (err)
		return err == -EXDEV ? -ENOENT : err;
	int s = named_socket(fd, n, false);
	if (s < 0)
		return s;
	if (nocancel_connect(s, (struct sockaddr *)&un, name_of(&un, number)) <
	    0)
		err = errno == ECONNREFUSED ? -ENOENT : -errno;
	else if (!is_still_shown(fd, &who, number))
		err = -ENOENT;
	else
		err = trust_check(s);
	if (!err)
		return s;
	if (err == -EPERM || err == -EXDEV || err == -ENOSYS) {
		*refused = s;
		return err;
	}
	if (notice_remove(n))
		discard_channel(s);
	return err;
}

void proposal_close(int proposal_fd)
{
	if (proposal_fd > 0)
		discard_listener(proposal_fd);
}

static unsigned port_of(const struct sockaddr_storage *ss)
{
	return ntohs(ss->ss_family == AF_INET6
			 ? ((const struct sockaddr_in6 *)ss)->sin6_port
			 : ((const struct sockaddr_in *)ss)->sin_port);
}

/* The name for @try: strangers may have taken the first ones. */
static socklen_t announce_name(struct sockaddr_un *un, enum announced what,
			       const struct sockaddr_storage *ss, int try)
{
	char name[32];
	int n = snprintf(name, sizeof(name), "osf1/%c/%u", what, port_of(ss));

	if (try)
		snprintf(name + n, sizeof(name) - (size_t)n, "/%d", try);
	return abstract(un, name);
}

/* Whose process listens under the name?  0: @owner's; 1: another user's; -ENOENT: nobody;
 * -EAGAIN: the kernel does not say it any more, because nobody takes callers from there and
 * no further one has room. */
static int announced_by(const struct sockaddr_un *un, socklen_t len,
			uid_t owner)
{
	struct ucred cred = { 0 };
	socklen_t cred_len = sizeof(cred);
	int err = -ENOENT, s = unix_socket();

	if (s < 0)
		return s;
	if (!nocancel_connect(s, (const struct sockaddr *)un, len))
		err = libc.getsockopt(s, SOL_SOCKET, SO_PEERCRED, &cred,
				      &cred_len) ||
		      cred.uid != owner;
	else if (errno == EAGAIN)
		err = -EAGAIN;
	discard_channel(s);
	return err;
}

int announce_bind(int listen_fd, enum announced what)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);
	struct sockaddr_un un;
	int err = -EADDRINUSE;

	if (getsockname(listen_fd, (struct sockaddr *)&ss, &len) < 0)
		return -errno;
	int s = unix_socket();
	if (s < 0)
		return s;
	for (int i = 0; i < ANNOUNCE_TRIES && err == -EADDRINUSE; i++) {
		len = announce_name(&un, what, &ss, i);
		err = libc.bind(s, (struct sockaddr *)&un, len) ? -errno : 0;
		if (err == -EADDRINUSE && !announced_by(&un, len, geteuid()))
			break; /* another process of ours has done it */
	}
	/* A backlog of one: callers connect only to see that we are there. */
	if (!err && libc.listen(s, 1) < 0)
		err = -errno;
	if (!err)
		return s;
	fds_close(s);
	return err;
}

/* A name that was asked for so often that it has no room counts as @owner's: it says why a
 * connection is where it is, and gives nobody any right. */
int announce_check(int fd, enum announced what, uid_t owner)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);
	struct sockaddr_un un;
	int found = -ENOENT;

	if (libc.getpeername(fd, (struct sockaddr *)&ss, &len) < 0)
		return -errno;
	for (int i = 0; i < ANNOUNCE_TRIES; i++) {
		len = announce_name(&un, what, &ss, i);
		int by = announced_by(&un, len, owner);
		if (by == -ENOENT)
			break;
		if (by == -EAGAIN)
			found = 0;
		else if (by <= 0)
			return by;
	}
	return found;
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
	return nocancel_sendmsg(channel, &msg, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* @n bytes came, and @n_fds descriptors; @cut: of more. */
static int hello_check(const struct hello *h, ssize_t n, size_t n_fds, bool cut)
{
	if (n == 0)
		return -EPIPE;
	if (n < (ssize_t)sizeof(*h) || h->magic != HELLO_MAGIC ||
	    n_fds > HELLO_FDS)
		return -EBADMSG;
	if (h->version != SEG_VERSION)
		return -EPROTONOSUPPORT;
	return cut && n_fds < h->n_needed ? -EMFILE : 0;
}

int hello_recv(int channel, struct hello *h, int *fds)
{
	union {
		struct cmsghdr align;
		char buf[CREDENTIALS_SPACE +
			 CMSG_SPACE(SCM_MAX_FDS * sizeof(int))];
	} control;
	int got[SCM_MAX_FDS];
	struct iovec iov = { h, sizeof(*h) };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control.buf,
			      .msg_controllen = sizeof(control.buf) };

	size_t n_fds;

	for (int i = 0; i < HELLO_FDS; i++)
		fds[i] = -1;
	if (discard_is_full())
		return -EBADMSG;
	/* There is room for as many descriptors as the kernel lets a message
	 * have.  If there were less, the kernel would close the others here and
	 * now.  The kernel puts the sender's credentials and label before them, on
	 * a socket that discard_channel() has looked at, or that a process with
	 * the same socket has set so. */
	ssize_t n = receive_passed(channel, &msg, got, &n_fds);
	if (n < 0)
		return errno == ECONNRESET ? -EPIPE : -errno;
	int err = hello_check(h, n, n_fds, msg.msg_flags & MSG_CTRUNC);
	for (size_t i = 0; i < n_fds; i++)
		if (err || i >= HELLO_FDS)
			discard_passed(got[i]);
		else
			fds[i] = got[i];
	return err;
}
