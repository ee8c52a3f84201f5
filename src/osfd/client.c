/* SPDX-License-Identifier: MIT */
/* osfd/client.c - a program's side of osfd's socket; see client.h */
#include "osfd/client.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/libc.h"
#include "base/nocancel.h"
#include "osfd/channel.h"
#include "osfd/name.h"

/* What osfd does takes microseconds; one that does not answer counts as gone. */
#define REPLY_S 5
/* An osfd that ends has stopped serving some time before it gives up its name.  An osfd
 * that has no room for another client also closes the connection. */
#define CONNECTS_MAX 4

static int request_send(int fd, const struct request *r, size_t len,
			const int *fds, unsigned n_fds)
{
	union channel_control control;
	struct iovec iov = { (void *)r, len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	channel_attach(&msg, &control, fds, n_fds);
	ssize_t n;
	do /* otherwise osfd would serve a request that its sender has forgotten */
		n = nocancel_sendmsg(fd, &msg, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

static int reply_receive(int fd, struct reply *out, int got[2], int flags)
{
	struct iovec iov = { out, sizeof(*out) };
	union {
		struct cmsghdr head;
		char buf[CMSG_SPACE(2 * sizeof(int))];
	} control = { 0 };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.buf,
		.msg_controllen = sizeof(control.buf),
	};

	memset(out, 0, sizeof(*out)); /* an older osfd says less */
	ssize_t n;
	do
		n = nocancel_recvmsg(fd, &msg, MSG_CMSG_CLOEXEC | flags);
	while (n < 0 && errno == EINTR);
	if (n < 0 && flags & MSG_DONTWAIT && errno == EAGAIN)
		return -EAGAIN;
	if (n < (ssize_t)offsetof(struct reply, hello) ||
	    out->magic != MSG_MAGIC)
		return -EIO;
	out->reason[MSG_REASON_MAX - 1] = '\0';
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
	for (unsigned i = 0;
	     c && i < 2 && c->cmsg_len >= CMSG_LEN((i + 1) * sizeof(int));
	     i++) {
		int came;

		memcpy(&came, CMSG_DATA(c) + i * sizeof(int), sizeof(came));
		if (got)
			got[i] = came;
		else
			nocancel_close(came);
	}
	return 0;
}

int osfd_ask(int fd, enum msg_type type, struct request *r, const int *fds,
	     unsigned n_fds)
{
	r->magic = MSG_MAGIC;
	r->version = MSG_VERSION;
	r->type = (uint16_t)type;
	return request_send(fd, r, request_len(type), fds, n_fds);
}

int osfd_answer(int fd, struct reply *out, int got[2], bool waits)
{
	int err;

	if (got)
		got[0] = got[1] = -1;
	do /* what MSG_LEAVE says is in the reply as well */
		err = reply_receive(fd, out, got, waits ? 0 : MSG_DONTWAIT);
	while (!err && out->type == MSG_LEAVE);
	return err ? err : out->err;
}

int osfd_call(int fd, enum msg_type type, struct request *r, const int *fds,
	      unsigned n_fds, struct reply *out, int got[2])
{
	int err = osfd_ask(fd, type, r, fds, n_fds);

	if (err && got)
		got[0] = got[1] = -1;
	return err ? err : osfd_answer(fd, out, got, true);
}

/* Anybody may bind the name where no osfd runs; osfd listens as root. */
static int check_is_root(int fd)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (libc.getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
		return -errno;
	return cred.uid == 0 ? 0 : -EPERM;
}

static int connect_once(struct reply *hello, bool *has_closed)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	struct request r = { .hello = { MSG_VERSION, MSG_VERSION_MIN } };
	struct timeval limit = { .tv_sec = REPLY_S };
	socklen_t len =
	    offsetof(struct sockaddr_un, sun_path) + sizeof(OSFD_NAME);
	int fd = libc.socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	int err = fd < 0 ? -errno : 0;

	memcpy(un.sun_path + 1, OSFD_NAME, sizeof(OSFD_NAME) - 1);
	if (!err && nocancel_connect(fd, (struct sockaddr *)&un, len) < 0)
		err = -errno;
	if (!err)
		err = check_is_root(fd);
	if (!err)
		libc.setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit,
				sizeof(limit));
	if (!err)
		err = osfd_call(fd, MSG_HELLO, &r, NULL, 0, hello, NULL);
	if (!err)
		return fd;
	struct pollfd p = { .fd = fd };
	*has_closed = !hello->err && err != -ECONNREFUSED && fd >= 0 &&
		      nocancel_poll(&p, 1, 0) == 1 && p.revents & POLLHUP;
	if (fd >= 0)
		nocancel_close(fd);
	return err;
}

int osfd_connect(struct reply *hello)
{
	bool has_closed = true;
	int r = -EIO;

	for (int i = 0; has_closed && i < CONNECTS_MAX; i++) {
		has_closed = false;
		*hello = (struct reply){ 0 };
		r = connect_once(hello, &has_closed);
	}
	return r;
}
