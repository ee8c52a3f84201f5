/* SPDX-License-Identifier: MIT */
/*
 * api/vma/joined_leave.c - clears UDP_GRO of a socket that is never found empty
 *
 *     look at all datagrams that are there  ->  the option goes  ->  none came meanwhile: done
 *                    ^                                                        |
 *                    +--------------- the option is back <--------------------+
 *
 * While the option is set, and as long as a joined datagram may be in the socket, a receive
 * takes two calls of the kernel.  If we cleared the option only when the socket is empty, a
 * program that is a little too slow for its datagrams would pay that for ever, and fall
 * behind even more.  So this file looks at all datagrams that are there, with SO_PEEK_OFF,
 * and takes none.
 */
#include <errno.h>

#include "api/vma/joined.h"
#include "base/libc.h"
#include "base/nocancel.h"

#define LOOKS_MAX 1024u   /* the kernel passes those before it each time */
#define CONTROL_BYTES 256 /* what the kernel may say before the size of parts */
#define TRIES 8

static bool set_peek_off(int fd, int off)
{
	return !libc.setsockopt(fd, SOL_SOCKET, SO_PEEK_OFF, &off, sizeof(off));
}

/* May this datagram be joined?  A control message says how large the parts of a joined one
 * are.  If control messages did not fit (MSG_CTRUNC), that one may be missing. */
static bool may_be_joined(struct msghdr *m)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c))
		if (c->cmsg_level == IPPROTO_UDP && c->cmsg_type == UDP_GRO)
			return true;
	return m->msg_flags & MSG_CTRUNC;
}

/* Looks at the next datagram, which stays.  Return: 1: it is not joined; 0: there is none;
 * -EBUSY: it may be joined; another -errno: the socket has an error */
static int look_at_next(int fd)
{
	alignas(struct cmsghdr) uint8_t control[CONTROL_BYTES];
	uint8_t byte;
	struct iovec iov = { &byte, 1 };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = control,
			    .msg_controllen = sizeof(control) };

	/* MSG_TRUNC: the next look begins behind the whole datagram. */
	if (nocancel_recvmsg(fd, &m, MSG_PEEK | MSG_TRUNC | MSG_DONTWAIT) < 0)
		return errno == EAGAIN ? 0 : -errno;
	return may_be_joined(&m) ? -EBUSY : 1;
}

/* Looks on to the last one.  0 or -errno, as look_at_next(). */
static int look_at_all(int fd)
{
	for (unsigned i = 0; i < LOOKS_MAX; i++) {
		int n = look_at_next(fd);

		if (n <= 0)
			return n;
	}
	return -EBUSY;
}

/* Has nothing come since? */
static bool is_at_end(int fd)
{
	uint8_t byte;

	return nocancel_recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 &&
	       errno == EAGAIN;
}

/* 0: it is off, and nothing joined is in the socket; or -errno. */
static int option_off(struct vsock *s, struct joined *j)
{
	for (unsigned i = 0; i < TRIES; i++) {
		int err = look_at_all(s->fd);

		if (err)
			return err;
		if (!xchg(&j->is_set, false))
			return -EBUSY; /* another thread was faster */
		joined_set_option(s->fd, 0);
		if (is_at_end(s->fd))
			return 0;
		/* What came may be joined. */
		joined_set_again(s, j);
	}
	return -EBUSY;
}

bool joined_leave(struct vsock *s)
{
	struct joined *j = s->joined;
	uint32_t leaves = JOINED_LEAVES;
	int saved = errno, err = -EBUSY;
	ALONE(&j->lock);

	if (load_rlx(&j->state) != JOINED_LEAVES || j->left ||
	    load_rlx(&j->n_refs) > 1 || !load_rlx(&j->is_set) ||
	    load_rlx(&j->is_theirs) || --j->n_looks)
		return false;
	j->n_looks = JOINED_LOOKS;
	if (set_peek_off(s->fd, 0)) {
		err = option_off(s, j);
		set_peek_off(s->fd, -1);
	}
	errno = saved;
	if (err && err != -EBUSY)
		s->err = -err; /* the look has taken it from the socket */
	if (err || !cas(&j->state, leaves, (uint32_t)JOINED_OFF))
		return false;
	vsock_uncount(s);
	return true;
}
