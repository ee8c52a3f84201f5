/* SPDX-License-Identifier: MIT */
/*
 * shm/errq.c - the error queue of a connection
 *
 * The kernel puts the completions of MSG_ZEROCOPY there, and the times at which bytes
 * were sent.  While one is unread, poll() says POLLERR.  So POLLERR alone is no end of
 * the connection: whatever ends one, a reset or a timeout, also closes both of its
 * directions, and then poll() says POLLHUP too.
 *
 * The anchor has such entries if the program sent in one of these ways before the
 * connection was moved, or after it went back.  recvmsg(MSG_ERRQUEUE) on the anchor
 * returns them.
 */
#include <errno.h>
#include <poll.h>

#include "base/libc.h"
#include "shm/shm.h"

void errq_note(struct sock *sk, short *revents)
{
	if (likely(!(*revents & POLLERR)) || *revents & POLLHUP)
		return;
	store_rlx(&sk->errq, (uint8_t)(sk->errq % UINT8_MAX + 1));
	*revents = (short)(*revents & ~POLLERR);
}

/*
 * The program may read the queue at any time, so the kernel is asked each time.  An
 * entry that is unread keeps poll() from sleeping, so this is also where the end of the
 * connection is noticed.
 */
COLD unsigned errq_events(struct sock *sk, int fd, unsigned want)
{
	uint8_t seen = load_rlx(&sk->errq);
	struct pollfd p = { .fd = fd, .events = (short)(want | POLLRDHUP) };
	short ends = load_rlx(&sk->tx_ring) ? POLLHUP | POLLRDHUP : POLLHUP;
	int saved = errno;

	libc.poll(&p, 1, 0);
	errno = saved;
	if (p.revents & ends)
		anchor_look(sk, fd);
	if (p.revents & POLLERR)
		errq_note(sk, &(short){ p.revents });
	else if (seen) /* unless another thread has just noted one */
		cas(&sk->errq, seen, (uint8_t)0);
	return (unsigned short)p.revents & (want | POLLERR);
}
