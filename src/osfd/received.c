/* SPDX-License-Identifier: MIT */
/* osfd/received.c - see received.h */
#include "osfd/received.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "osfd/msg.h"
#include "osfd/sockopt.h"

_Static_assert(RECEIVED_MAX > MSG_FDS_MAX &&
		   CMSG_SPACE(RECEIVED_MAX * sizeof(int)) ==
		       CMSG_LEN(RECEIVED_MAX * sizeof(int)),
	       "the kernel delivers more than is taken");

bool has_descriptors(int fd)
{
	char byte;
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	return recvmsg(fd, &msg, MSG_PEEK | MSG_DONTWAIT) >= 0 &&
	       msg.msg_flags & MSG_CTRUNC;
}

static void take(struct msghdr *msg, struct received *out)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c;
	     c = CMSG_NXTHDR(msg, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		size_t bytes = c->cmsg_len - CMSG_LEN(0);
		for (size_t i = 0;
		     i < bytes / sizeof(int) && out->n < RECEIVED_MAX; i++)
			memcpy(&out->fd[out->n++],
			       CMSG_DATA(c) + i * sizeof(int), sizeof(int));
	}
}

ssize_t receive(int fd, struct iovec *iov, struct received *out, int flags)
{
	union {
		struct cmsghdr head;
		char buf[CMSG_SPACE(RECEIVED_MAX * sizeof(int))];
	} control;
	struct msghdr msg = {
		.msg_iov = iov,
		.msg_iovlen = 1,
		.msg_control = control.buf,
		.msg_controllen = sizeof(control.buf),
	};
	ssize_t n = recvmsg(fd, &msg, flags | MSG_CMSG_CLOEXEC);

	out->n = 0;
	if (n >= 0)
		take(&msg, out);
	out->flags = msg.msg_flags;
	return n;
}

bool is_timer(int fd)
{
	struct itimerspec at;

	return timerfd_gettime(fd, &at) == 0;
}

void socket_close(int fd)
{
	struct linger l, off = { 0 };
	socklen_t len = sizeof(l);

	if (getsockopt(fd, SOL_SOCKET, SO_LINGER, &l, &len) == 0 && l.l_onoff &&
	    l.l_linger)
		(void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &off, sizeof(off));
	close(fd);
}

/* Return: whether it stays open */
static bool let_go(int fd)
{
	if (opt_get(fd, SOL_SOCKET, SO_PROTOCOL) == IPPROTO_TCP)
		socket_close(fd);
	else if (fcntl(fd, F_GET_SEALS) >= 0 || is_timer(fd))
		close(fd);
	else
		return true;
	return false;
}

unsigned received_close(struct received *r)
{
	unsigned n_open = 0;

	while (r->n)
		n_open += let_go(r->fd[--r->n]);
	return n_open;
}
