/* SPDX-License-Identifier: MIT */
/* preload/times.c - see preload/times.h */
#include <errno.h>
#include <signal.h>

#include "base/libc.h"
#include "ops/ops.h"
#include "preload/edge.h"
#include "preload/times.h"
#include "proto/shm/shm.h"

bool times_are_of(int level, int name)
{
	if (level != SOL_SOCKET)
		return false;
	switch (name) {
	case SO_TIMESTAMP:
	case SO_TIMESTAMPNS:
	case SO_TIMESTAMPING:
	case SO_TIMESTAMP_NEW:
	case SO_TIMESTAMPNS_NEW:
	case SO_TIMESTAMPING_NEW:
		return true;
	default:
		return false;
	}
}

static int option(int fd, int name)
{
	int v = 0;
	socklen_t len = sizeof(v);

	return libc.getsockopt(fd, SOL_SOCKET, name, &v, &len) ? 0 : v;
}

/* Each option tells only of its own form. */
void times_changed(struct sock *sk, int fd)
{
	bool on = option(fd, SO_TIMESTAMP) || option(fd, SO_TIMESTAMPNS) ||
		  option(fd, SO_TIMESTAMP_NEW) ||
		  option(fd, SO_TIMESTAMPNS_NEW) ||
		  option(fd, SO_TIMESTAMPING) & SOF_TIMESTAMPING_SOFTWARE;

	store_rlx(&sk->times, (uint8_t)on);
}

/* And before a send that only the kernel can make. */
COLD void times_wanted_young(struct file *f)
{
	if (sock_mode(f->sk) == SOCK_YOUNG && ops_pin(f->sk, OSF_REASON_OPTION))
		file_pass(f);
}

COLD bool times_wanted(struct file *f, int fd)
{
	struct sock *sk = f->sk;

	if (sock_mode(sk) != SOCK_SHM)
		return false;
	if (load_rlx(&shm_of(sk)->tx_ring))
		shm_take_back(sk, fd, OSF_REASON_OPTION);
	return shm_rx_is_kernels(sk, fd);
}

bool control_is_kernels(const struct cmsghdr *c)
{
	return c->cmsg_level == SOL_SOCKET && c->cmsg_type != SCM_RIGHTS &&
	       c->cmsg_type != SCM_CREDENTIALS;
}

/* One that is wrong is refused with all others, before anything is sent. */
static bool asks_kernel(const struct msghdr *msg)
{
	struct msghdr m = *msg;
	bool asks = false;

	if (is_bad_ptr(m.msg_control))
		return false;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
		if (c->cmsg_len < sizeof(*c))
			return false;
		asks |= control_is_kernels(c);
	}
	return asks;
}

/* A candidate counts what its kernel sends. */
static void leave_candidate(struct sock *sk, int fd)
{
	lock_get(&sk->rx_lock);
	lock_get(&sk->tx_lock);
	if (sock_mode(sk) == SOCK_CANDIDATE)
		shm_candidate_decide(sk, fd);
	lock_put(&sk->tx_lock);
	lock_put(&sk->rx_lock);
}

COLD ssize_t control_send(struct call *c, int fd, const struct msghdr *msg,
			  int flags)
{
	struct sock *sk = c->file->sk;

	if (!asks_kernel(msg))
		return libc.sendmsg(fd, msg, flags);
	times_wanted_young(c->file);
	if (sock_mode(sk) == SOCK_CANDIDATE)
		leave_candidate(sk, fd);
	if (call_enter(c)) { /* it is not moved under us */
		ssize_t r = libc.sendmsg(fd, msg, flags);

		call_leave(c);
		return r;
	}
	if (load_rlx(&sk->shut) & SHUT_BIT_WR) { /* the anchor is not */
		if (!(flags & MSG_NOSIGNAL))
			raise(SIGPIPE);
		errno = EPIPE;
		return -1;
	}
	shm_take_back(sk, fd, OSF_REASON_OPTION);
	file_settle(c->file, fd);
	ssize_t r = libc.sendmsg(fd, msg, flags & ~MSG_ZEROCOPY);
	if (r > 0 && flags & MSG_ZEROCOPY && load_rlx(&sk->zc_on))
		errq_copied(sk);
	return r;
}
