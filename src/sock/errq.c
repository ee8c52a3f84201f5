/* SPDX-License-Identifier: MIT */
/*
 * sock/errq.c - the error queue of a connection
 *
 *     send(MSG_ZEROCOPY)  -> errq_copied() -> events(): POLLERR
 *                                        -> recvmsg(MSG_ERRQUEUE): errq_recv()
 *
 * The kernel puts two things there: completions of MSG_ZEROCOPY, and the times
 * at which bytes were sent.  While an entry is unread, poll() reports POLLERR.
 * So POLLERR alone does not mean that the connection has ended: a reset or a
 * timeout also closes both directions, and then poll() reports POLLHUP too.
 *
 * On a connection that we carry, we copy the bytes.  So each send with
 * MSG_ZEROCOPY is complete when it returns, and reports
 * SO_EE_CODE_ZEROCOPY_COPIED, as on loopback.  Such sends have numbers.  The
 * kernel counts them until the upgrade, and nobody can set its counter.  So we
 * count along, and after the upgrade we number them ourselves.  That stays so
 * after a fallback: we no longer pass MSG_ZEROCOPY to the kernel.
 *
 * The anchor's own queue holds completions from before the upgrade, and times
 * asked for after a fallback.
 *
 * Not done: a program that receives the connection (exec(), SCM_RIGHTS) sees
 * the kernel's counter, which stopped at the upgrade.  Spec:
 * Documentation/networking/msg_zerocopy.rst, recvmsg(2), ip(7) "IP_RECVERR".
 */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <time.h> /* which the next needs */

#include <linux/errqueue.h>

#include "base/libc.h"
#include "base/nocancel.h"
#include "base/sockopt.h"
#include "sock/errq.h"
#include "sock/shared.h"

/* Store a new value, never 0.  This takes no lock, so a note may get lost while the words
 * move to or from a shared page.  Whoever moves them therefore makes a note, too
 * (sock/shared.c). */
static void note(struct sock *sk)
{
	fetch_add(&sk->w->errq, 2u);
	fetch_or(&sk->w->errq, 1u);
}

void errq_note(struct sock *sk, short *revents)
{
	if (likely(!(*revents & POLLERR)) || *revents & POLLHUP)
		return;
	note(sk);
	*revents = (short)(*revents & ~POLLERR);
}

/*
 * Ask the kernel each time, because the program may read the kernel's queue at
 * any time.  An unread entry keeps poll() from sleeping, so the caller also
 * learns here that the connection has ended.
 */
COLD unsigned errq_events(struct sock *sk, int fd, unsigned want, short *said)
{
	uint32_t seen = load_acq(&sk->w->errq);
	struct pollfd p = { .fd = fd, .events = (short)(want | POLLRDHUP) };
	bool copied = load_rlx(&sk->w->zc_done) != 0;
	int saved = errno;

	nocancel_poll(&p, 1, 0);
	errno = saved;
	*said = p.revents;
	if (p.revents & POLLERR)
		errq_note(sk, &(short){ p.revents });
	else if (seen && !copied && !load_rlx(&sk->w->zc_kernel))
		cas(&sk->w->errq, seen,
		    0u); /* unless somebody has just noted */
	return ((unsigned short)p.revents & (want | POLLERR)) |
	       (copied ? POLLERR : 0);
}

/* What was sent must be counted, also while another process keeps the half.  The words
 * are atomic; that process may report a completion late, or with the next. */
static void take_words(struct sock *sk)
{
	if (unlikely(!sock_take_tx(sk)))
		lock_get(&sk->tx_lock);
}

COLD void errq_by_kernel(struct sock *sk, int fd, unsigned n)
{
	take_words(sk);
	errq_by_kernel_locked(sk, fd, n);
	sock_unlock_tx(sk);
}

COLD void errq_by_kernel_locked(struct sock *sk, int fd, unsigned n)
{
	if (!sockopt_int(fd, SOL_SOCKET, SO_ZEROCOPY))
		return; /* then MSG_ZEROCOPY means nothing */
	fetch_add(&sk->w->zc_next, n);
	fetch_add(&sk->w->zc_kernel, n);
	note(sk);
}

void errq_zerocopy_changed(struct sock *sk, int fd)
{
	SOCK_PUT(sk, zc_on, (uint8_t)sockopt_int(fd, SOL_SOCKET, SO_ZEROCOPY));
	if (load_rlx(&sk->w->zc_kernel))
		note(sk);
}

COLD void errq_copied_locked(struct sock *sk)
{
	fetch_add(&sk->w->zc_next, 1u);
	if (load_rlx(&sk->w->zc_done) != UINT32_MAX)
		fetch_add(&sk->w->zc_done, 1u);
	note(sk);
}

COLD void errq_copied(struct sock *sk)
{
	take_words(sk);
	errq_copied_locked(sk);
	sock_unlock_tx(sk);
}

/* As the kernel's put_cmsg() does, truncate what does not fit. */
static void put_control(struct msghdr *msg, int level, int type,
			const void *data, size_t len)
{
	struct cmsghdr h = { .cmsg_level = level, .cmsg_type = type };
	size_t room = msg->msg_control ? msg->msg_controllen : 0;
	uint8_t *to = msg->msg_control;

	msg->msg_controllen = 0;
	if (CMSG_LEN(len) > room)
		msg->msg_flags |= MSG_CTRUNC;
	if (room < sizeof(h) || is_bad_ptr(to))
		return;
	h.cmsg_len = MIN(CMSG_LEN(len), room);
	memcpy(to, &h, sizeof(h));
	memcpy(to + CMSG_LEN(0), data, h.cmsg_len - CMSG_LEN(0));
	msg->msg_controllen = MIN(CMSG_SPACE(len), room);
}

/* One entry reports all sends copied since the last entry. */
static void put_completion(const struct sock *sk, struct msghdr *msg, int flags,
			   uint32_t first, uint32_t last)
{
	struct {
		struct sock_extended_err ee;
		struct sockaddr_in6 nobody;
	} e = { .ee = { .ee_origin = SO_EE_ORIGIN_ZEROCOPY,
			.ee_code = SO_EE_CODE_ZEROCOPY_COPIED,
			.ee_info = first,
			.ee_data = last } };

	msg->msg_flags = MSG_ERRQUEUE | (flags & MSG_CMSG_CLOEXEC);
	if (msg->msg_name)
		msg->msg_namelen = 0;
	if (sk->st->family == AF_INET6)
		put_control(msg, SOL_IPV6, IPV6_RECVERR, &e, sizeof(e));
	else
		put_control(msg, SOL_IP, IP_RECVERR, &e,
			    sizeof(e.ee) + sizeof(struct sockaddr_in));
}

/* The program has read a kernel's entry: note which sends it reports. */
static void account(struct sock *sk, struct msghdr *msg)
{
	struct sock_extended_err ee;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c;
	     c = CMSG_NXTHDR(msg, c)) {
		if (!(c->cmsg_level == SOL_IP && c->cmsg_type == IP_RECVERR) &&
		    !(c->cmsg_level == SOL_IPV6 &&
		      c->cmsg_type == IPV6_RECVERR))
			continue;
		if (c->cmsg_len < CMSG_LEN(sizeof(ee)))
			break;
		memcpy(&ee, CMSG_DATA(c), sizeof(ee));
		if (ee.ee_origin != SO_EE_ORIGIN_ZEROCOPY)
			return;
		uint32_t n = ee.ee_data - ee.ee_info + 1;
		take_words(sk);
		uint32_t due = load_rlx(&sk->w->zc_kernel);
		fetch_sub(&sk->w->zc_kernel, MIN(n, due));
		sock_unlock_tx(sk);
		return;
	}
	/* Without control data we do not know which sends the entry reports.
	 * The kernel will report later ones. */
	SOCK_PUT(sk, zc_kernel, 0u);
}

ssize_t errq_recv(struct sock *sk, int fd, struct msghdr *msg, int flags)
{
	if (!load_rlx(&sk->w->zc_done) || load_rlx(&sk->w->zc_kernel)) {
		ssize_t r = nocancel_recvmsg(fd, msg, flags);

		if (r >= 0)
			account(sk, msg);
		if (r >= 0 || errno != EAGAIN)
			return r < 0 ? -errno : r;
	}
	if (unlikely(!sock_take_tx(sk)))
		return -EAGAIN;
	uint32_t n = sk->w->zc_done, end = sk->w->zc_next;
	store_rlx(&sk->w->zc_done, 0u);
	sock_unlock_tx(sk);
	if (!n)
		return -EAGAIN;
	put_completion(sk, msg, flags, end - n, end - 1);
	return 0;
}
