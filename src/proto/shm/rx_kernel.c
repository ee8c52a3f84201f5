/* SPDX-License-Identifier: MIT */
/*
 * proto/shm/rx_kernel.c - what recv() takes out of the kernel's connection
 *
 *     TCP, up to the peer's K            ->  rx_tcp(), shm_rx_sync()
 *     TCP again, behind a BACK mark      ->  rx_back(), shm_rx_is_kernels()
 *     how the connection ended           ->  rx_end(), shm_went_back()
 *     urgent bytes                       ->  rx_urgent()
 *
 * rx.c calls these when the bytes are not in the ring, so none of this is hot.  The
 * caller is inside a recv-like call on a descriptor of the socket, and holds the rx lock,
 * except for shm_rx_sync(), shm_rx_is_kernels(), shm_went_back() and rx_urgent().
 */
#include <errno.h>
#include <limits.h>

#include "base/libc.h"
#include "base/nocancel.h"
#include "proto/shm/rx.h"

#define LOOK_AGAIN (GO_ON_IN_RING + 1) /* instead of a number of bytes */
#define END_LOOKS_MAX                                                          \
	64u /* at bytes that the peer goes on sending behind the end */

/* Learn how many TCP bytes come before the ring: K, which the peer has now
 * said, minus what the program has read since the upgrade began. */
int shm_rx_learn(struct sock *sk)
{
	uint64_t k = load_rlx(&shm_peer(sk)->tcp_bytes); /* S1 by the caller */

	if (shm_of(sk)->rx_tcp_base > k ||
	    k - shm_of(sk)->rx_tcp_base > INT_MAX)
		return -EPROTO;
	shm_of(sk)->rx_tcp_left = (int64_t)(k - shm_of(sk)->rx_tcp_base);
	return 0;
}

/* Has the peer said K?  Once it has, it cannot take that back.  Check if
 * rx_tcp_left is still negative: then K is impossible. */
bool shm_rx_is_known(struct sock *sk)
{
	if (shm_of(sk)->rx_tcp_left >= 0)
		return true;
	if (!(load_acq(&shm_peer(sk)->flags) & SEG_TX_RING)) /* S1 */
		return false;
	shm_rx_learn(sk);
	return true;
}

/* The peer has taken the segment.  A candidate completes the upgrade before it reads from the
 * ring: until then it rings no doorbell, and only the kernel's events wake its program.  If the
 * connection has ended, nobody has to be woken. */
static bool is_no_candidate(struct sock *sk, int fd)
{
	if (likely(sock_mode(sk) != SOCK_PENDING) ||
	    load_rlx(&sk->w->anchor_err))
		return true;
	if (!sock_take_tx(sk))
		return false;
	shm_pending_follow(sk, fd);
	sock_unlock_tx(sk);
	return sock_mode(sk) != SOCK_PENDING;
}

/* The program has read all TCP bytes that come before the ring.  False: a candidate
 * cannot follow yet. */
static COLD bool rx_tcp_over(struct sock *sk, int fd)
{
	if (!is_no_candidate(sk, fd))
		return false;
	store_rlx(&shm_w(sk)->rx_tcp, (uint8_t)0);
	readahead_free(sk);
	rx_say_read(sk);
	return true;
}

bool shm_rx_sync(struct sock *sk, int fd)
{
	if (unlikely(!sock_take_rx(sk)))
		return !load_rlx(&shm_w(sk)->rx_tcp);
	if (shm_w(sk)->rx_tcp && shm_rx_is_known(sk)) {
		if (shm_of(sk)->rx_tcp_left < 0)
			shm_broken(sk, fd, "its count of TCP bytes");
		else if (!shm_of(sk)->rx_tcp_left && !readahead_bytes(sk))
			rx_tcp_over(sk, fd);
	}
	bool is_over = !shm_w(sk)->rx_tcp;
	sock_unlock_rx(sk);
	return is_over;
}

COLD ssize_t rx_impossible(struct sock *sk, int fd, const char *what)
{
	shm_broken(sk, fd, what);
	return -ECONNRESET;
}

/* Deliver the bytes that were read ahead from TCP, then what TCP has now. */
static COLD ssize_t rx_readahead(struct sock *sk, int fd, struct iov_cursor *c,
				 size_t want, int flags)
{
	readahead_fill_locked(sk, fd);
	ssize_t r = (ssize_t)readahead_read(sk, c, want, flags);
	if (!shm_of(sk)->rx_tcp_left && !readahead_bytes(sk))
		rx_tcp_over(sk, fd);
	return r;
}

/*
 * Take up to @want bytes from TCP.  Until we know K, a doorbell could look like data.  So
 * look at the bytes first and check for K afterwards.  If K is still unknown, none of those
 * bytes is a doorbell, because the peer says K before it rings.
 */
static COLD ssize_t rx_tcp_take(struct sock *sk, int fd, struct iov_cursor *c,
				size_t want, int flags, bool known)
{
	struct iovec iov[CURSOR_REST_MAX];
	size_t max = known ? MIN(want, (size_t)shm_of(sk)->rx_tcp_left) : want;
	struct msghdr msg = { .msg_iov = iov,
			      .msg_iovlen = cursor_rest(c, iov, max) };
	/* MSG_TRUNC: only count the bytes. */
	ssize_t r =
	    nocancel_recvmsg(fd, &msg, MSG_PEEK | MSG_TRUNC | MSG_DONTWAIT);
	int err = errno;

	if (!known && shm_rx_is_known(sk)) {
		if (r < 0)
			anchor_note(sk, err); /* comes after the ring */
		return LOOK_AGAIN;
	}
	if (r > 0) {
		msg.msg_iovlen = cursor_rest(c, iov, (size_t)r);
		r = nocancel_recvmsg(
		    fd, &msg, (flags & (MSG_TRUNC | MSG_PEEK)) | MSG_DONTWAIT);
		err = errno; /* EFAULT: the look has copied nothing */
	}
	if (r > 0 && !(flags & MSG_PEEK)) {
		shm_of(sk)->rx_tcp_base += (uint64_t)r;
		shm_of(sk)->rx_tcp_left -= known ? r : 0;
		count(&sk->st->rx_bytes_inet, (uint64_t)r);
	}
	if (!r && sk->w->anchor_deaf && !(sk->w->shut & SHUT_BIT_RD) &&
	    !anchor_has_fin(fd))
		return -EAGAIN;
	if (r <= 0)
		return r < 0 ? -err : anchor_error(sk);
	cursor_skip(c, (size_t)r);
	return r;
}

COLD ssize_t rx_tcp(struct sock *sk, int fd, struct iov_cursor *c, size_t want,
		    int flags)
{
	ssize_t r;

	do {
		if (sock_mode(sk) == SOCK_PENDING) {
			if (!sock_take_tx(sk))
				return shm_kept(sk);
			shm_pending_step(sk, fd);
			sock_unlock_tx(sk);
		}
		if (sock_mode(sk) == SOCK_KERNEL)
			return -ESTALE;
		if (readahead_bytes(sk))
			return rx_readahead(sk, fd, c, want, flags);
		bool known = shm_rx_is_known(sk);
		if (known && shm_of(sk)->rx_tcp_left < 0)
			return rx_impossible(sk, fd, "its count of TCP bytes");
		if (known && !shm_of(sk)->rx_tcp_left && rx_tcp_over(sk, fd))
			return GO_ON_IN_RING;
		if (known && !shm_of(sk)->rx_tcp_left)
			return shm_is_broken(sk) ? -ECONNRESET : shm_kept(sk);
		r = rx_tcp_take(sk, fd, c, want, flags, known);
	} while (r == LOOK_AGAIN);
	return r;
}

/* After a BACK mark, drop the doorbells; then the kernel takes over. */
ssize_t rx_back(struct sock *sk, int fd, struct iov_cursor *c, size_t want,
		int flags)
{
	struct iovec iov[CURSOR_REST_MAX];
	struct msghdr msg = { .msg_iov = iov,
			      .msg_iovlen = cursor_rest(c, iov, want) };

	if (!shm_w(sk)->fell_back && !anchor_drain_all(sk, fd))
		return -EAGAIN;
	ssize_t r = nocancel_recvmsg(fd, &msg, flags | MSG_DONTWAIT);
	/* The kernel does not know that the program has shut this direction. */
	bool is_shut = r < 0 && errno == EAGAIN && sk->w->shut & SHUT_BIT_RD;
	if (r <= 0)
		return r < 0 && !is_shut ? -errno : anchor_error(sk);
	cursor_skip(c, (size_t)r);
	count(&sk->st->rx_bytes_inet, (uint64_t)r);
	return r;
}

bool shm_rx_is_kernels(struct sock *sk, int fd)
{
	if (!sock_take_rx(sk))
		return false;
	bool is_back = shm_w(sk)->rx_back;
	if (is_back)
		anchor_drain(sk, fd);
	is_back = is_back &&
		  (shm_w(sk)->fell_back ||
		   shm_of(sk)->bells_drained == load_acq(&shm_peer(sk)->bells));
	sock_unlock_rx(sk);
	return is_back;
}

/* Ask the kernel how the anchor's connection ended. */
ssize_t rx_end(struct sock *sk, int fd)
{
	char bin[64];
	ssize_t r = 1;

	shm_reset_due(sk, fd);
	if (shm_w(sk)->rx_eof)
		return 0;
	int err = anchor_error(sk);
	if (err || sk->w->anchor_end == ANCHOR_FIN)
		return err;
	for (unsigned i = 0; r > 0 && i < END_LOOKS_MAX; i++)
		r = nocancel_recv(fd, bin, sizeof(bin), MSG_DONTWAIT);
	return r < 0 && errno != EAGAIN && errno != ENOTCONN ? -errno : 0;
}

/* The kernel handles urgent bytes, on the anchor. */
COLD ssize_t rx_urgent(int fd, const struct iovec *iov, size_t n, int flags)
{
	struct msghdr msg = { .msg_iov = (struct iovec *)iov, .msg_iovlen = n };
	ssize_t r = libc.recvmsg(fd, &msg, flags);

	return r < 0 ? -errno : r;
}

/* The kernel carries the stream again.  Report an error from our time first. */
COLD int shm_went_back(struct sock *sk)
{
	int err = anchor_error(sk);

	return err ? err : -ESTALE;
}
