/* SPDX-License-Identifier: MIT */
/*
 * proto/shm/close.c - close(), and the end of a process
 *
 *     shm_close(), shm_exit()   ->  a FIN after all that was written, or a reset
 *     shm_let_go()              ->  nothing: other processes still use the connection
 */
#include <errno.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "base/libc.h"
#include "base/log.h"
#include "proto/shm/inbox.h"
#include "proto/shm/shm.h"
#include "sock/linger.h"

/* Has the program left bytes unread, in TCP or in the ring?  As in the kernel,
 * the connection then ends with a reset. */
static bool is_unread(struct sock *sk, int fd)
{
	enum ring_mark mark;

	if (shm_w(sk)->rx_tcp ? shm_inq(sk, fd) <= 0
			      : shm_w(sk)->rx_eof || shm_w(sk)->rx_back ||
				    !ring_rx_bytes(&shm_of(sk)->rx, 1, &mark))
		return false;
	log_info("fd %d: closed with bytes unread", fd);
	return true;
}

/*
 * Say that nobody here reads any more, and discard the last doorbells.  Unread
 * bytes would turn the kernel's FIN into a reset.  Dekker with anchor_ring(): the
 * peer sends no doorbell that it counts after the flag.  One that it counted
 * before, and had no core to send, is answered with a reset, which the peer does
 * not take for one of ours (is_bells_reset()).  But if the peer's process gives the
 * connection back to the kernel meanwhile and executes another program, that one sees
 * the reset as an error.  So if a doorbell is still to come, our kernel sends its FIN
 * first: that program then reads all bytes, and the end.
 */
void shm_leave(struct sock *sk, int fd)
{
	fetch_or(&shm_me(sk)->flags, SEG_CLOSED);
	if (shm_w(sk)->fell_back || (shm_w(sk)->rx_tcp && !shm_rx_sync(sk, fd)))
		return;
	anchor_drain(sk, fd);
	if (unlikely(load_acq(&shm_peer(sk)->bells) !=
		     shm_of(sk)->bells_drained))
		libc.shutdown(fd, SHUT_WR);
}

/* As linger_at_close().  If that is a reset, the peer learns of it here. */
static int linger_or_abort(struct sock *sk, int fd)
{
	int linger_for = linger_at_close(fd, is_unread(sk, fd));

	if (!linger_for)
		fetch_or(&shm_me(sk)->flags, SEG_CLOSED | SEG_ABORTED);
	return linger_for;
}

/* The last holder ends without closing.  Do those parts of close() that save
 * written bytes.  Free nothing, because other threads may still run. */
void shm_exit(struct sock *sk, int fd)
{
	if (sock_mode(sk) != SOCK_SHM || shm_is_broken(sk) ||
	    !linger_or_abort(sk, fd))
		return;
	if (sock_try_tx(sk)) {
		if (shm_w(sk)->tx_ring && !shm_of(sk)->tx_fin) {
			store_rlx(&sk->w->shut,
				  (uint8_t)(sk->w->shut | SHUT_BIT_WR));
			shm_push_fin(sk);
		}
		sock_unlock_tx(sk);
	}
	shm_leave(sk, fd);
}

/*
 * The last holder closes.  As in the kernel, deliver what was written, and
 * reset the connection if bytes are unread.
 */
static struct seg *close_keep(struct sock *sk, int fd)
{
	struct seg *seg;

	shm_reset_due(sk, fd);
	if (sock_mode(sk) == SOCK_PENDING)
		shm_pending_decide(sk, fd);
	if (!(seg = shm_of(sk)->seg))
		return NULL;
	if (sock_mode(sk) == SOCK_SHM && !shm_is_broken(sk)) {
		if (shm_w(sk)->rx_tcp)
			shm_rx_sync(sk, fd);
		int linger_for = linger_or_abort(sk, fd);
		if (shm_w(sk)->tx_ring && !shm_of(sk)->tx_fin && linger_for)
			shm_push_fin(sk);
		if (shm_w(sk)->tx_ring && linger_for > 0)
			shm_linger(sk, fd, linger_for);
		if (linger_for)
			shm_leave(sk, fd);
	}
	shm_tx_shrink(sk);
	readahead_free(sk);
	inbox_detach(shm_of(sk)->peer_inbox);
	inbox_put(shm_of(sk)->inbox_tag);
	shm_of(sk)->peer_inbox = NULL;
	shm_of(sk)->inbox_tag = 0;
	shm_of(sk)->seg = NULL;
	shm_proposal_close(sk, fd);
	return seg;
}

void shm_close(struct sock *sk, int fd)
{
	struct seg *seg = close_keep(sk, fd);

	if (shm_of(sk)->lend)
		shm_lend_close(sk); /* what is lent may keep the mapping */
	else if (seg)
		seg_unmap(seg, shm_ring_bytes(sk));
}

void shm_let_go(struct sock *sk, int fd)
{
	struct seg *seg = shm_of(sk)->seg;

	if (!seg)
		return;
	shm_reset_due(sk, fd);
	shm_tx_shrink(sk);
	if (shm_of(sk)->readahead)
		munmap(shm_of(sk)->readahead, READAHEAD_MAX);
	shm_of(sk)->readahead = NULL;
	/* Each process has a mapping of its own: a fork copies them all. */
	inbox_detach(shm_of(sk)->peer_inbox);
	inbox_put(shm_of(sk)->inbox_tag);
	shm_of(sk)->peer_inbox = NULL;
	shm_of(sk)->inbox_tag = 0;
	shm_of(sk)->seg = NULL;
	if (shm_of(sk)->lend)
		shm_lend_close(sk);
	else
		seg_unmap(seg, shm_ring_bytes(sk));
}
