/* SPDX-License-Identifier: MIT */
/*
 * proto/shm/close.c - shutdown(), close(), and the end of a process
 *
 *     shm_shutdown()            ->  a FIN mark in the ring, and later the kernel's FIN
 *     shm_close(), shm_exit()   ->  the same for all that was written, or a reset
 *     shm_let_go()              ->  nothing: other processes still use the connection
 *
 * While both ends use the rings, we hold the anchor's own FIN back, because a
 * side that has shut down writing must still ring when it frees space.  The
 * peer reads the FIN mark in the ring instead.  The kernel's FIN follows when
 * both halves are shut, or at close().
 */
#include <errno.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "base/libc.h"
#include "base/log.h"
#include "proto/shm/inbox.h"
#include "proto/shm/shm.h"
#include "sock/linger.h"

/* End our direction.  The caller notifies the peer, and holds the tx lock. */
static void push_fin(struct sock *sk)
{
	shm_release(sk);
	ring_push_mark(&shm_of(sk)->tx, RING_FIN);
	shm_of(sk)->tx_fin = 1;
	fetch_or(&shm_me(sk)->flags, SEG_TX_FIN); /* S2 */
}

static void tx_shut(struct sock *sk, int fd)
{
	if (sk->w->shut & SHUT_BIT_WR)
		return;
	store_rlx(&sk->w->shut, (uint8_t)(sk->w->shut | SHUT_BIT_WR));
	if (shm_w(sk)->tx_ring && shm_has_fallen_back(sk))
		shm_tx_fell_back(sk, fd, 0);
	if (!shm_w(sk)->tx_ring || shm_is_broken(sk)) {
		shm_fin(sk, fd);
		return;
	}
	push_fin(sk);
	shm_notify_data(sk, fd);
	if (shm_has_fallen_back(sk))
		shm_tx_fell_back(sk, fd, 0);
}

/* A connection that both ends have closed, or that was reset, is over. */
static int is_over(struct sock *sk, int fd)
{
	anchor_ask(sk, fd);
	if (load_rlx(&sk->w->anchor_end) == ANCHOR_RST ||
	    anchor_is_closed(sk, fd))
		return -ENOTCONN;
	return shm_of(sk)->tx_fin && load_acq(&shm_peer(sk)->flags) & SEG_TX_FIN
		   ? -ENOTCONN
		   : 0;
}

int shm_shutdown(struct sock *sk, int fd, int how)
{
	if (how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR)
		return -EINVAL;
	sock_lock_both(sk);
	if (sock_mode(sk) == SOCK_PENDING)
		shm_pending_decide(sk, fd);
	bool ours = sock_mode(sk) != SOCK_KERNEL && !shm_w(sk)->fell_back;
	if (ours) {
		int over = is_over(sk, fd);

		if (over) {
			sock_unlock_both(sk);
			return over;
		}
	}
	if (ours && how != SHUT_WR)
		store_rlx(&sk->w->shut, (uint8_t)(sk->w->shut | SHUT_BIT_RD));
	if (ours && how != SHUT_RD)
		tx_shut(sk, fd);
	/* Both halves are shut, or ours and the peer's.  Nobody will have to
	 * ring any more, so shut the kernel's socket too. */
	bool both = sk->w->shut == (SHUT_BIT_RD | SHUT_BIT_WR) ||
		    (sk->w->shut & SHUT_BIT_WR && shm_w(sk)->rx_eof);
	if (shm_of(sk)->fin_due)
		both = false;
	fence_full(); /* Dekker with ring_begin(): it looks whether the direction is shut */
	bool sleepers = load_rlx(how == SHUT_WR ? &sk->w->n_tx_sleepers
						: &sk->w->n_sleepers) > 0;
	if (ours && !both && sleepers)
		SOCK_PUT(sk, anchor_deaf, (uint8_t)1);
	sock_unlock_both(sk);
	if (!ours)
		return -ESTALE;
	/* It may be over by now: our FIN may have met the peer's. */
	if (both && libc.shutdown(fd, how) < 0 && errno != ENOTCONN)
		return -errno;
	if (!both && sleepers)
		libc.shutdown(fd, SHUT_RD); /* wakes them; sends nothing */
	return 0;
}

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
 * not take for one of ours (is_bells_reset()).
 */
void shm_leave(struct sock *sk, int fd)
{
	fetch_or(&shm_me(sk)->flags, SEG_CLOSED);
	if (!shm_w(sk)->rx_back && (!shm_w(sk)->rx_tcp || shm_rx_sync(sk, fd)))
		anchor_drain(sk, fd);
}

/* close() will reset the connection. */
static void abort_at_close(struct sock *sk, int fd)
{
	fetch_or(&shm_me(sk)->flags, SEG_CLOSED | SEG_ABORTED);
	linger_reset(fd);
}

/* The last holder ends without closing.  Do those parts of close() that save
 * written bytes.  Free nothing, because other threads may still run. */
void shm_exit(struct sock *sk, int fd)
{
	if (sock_mode(sk) != SOCK_SHM || shm_is_broken(sk))
		return;
	bool unread = is_unread(sk, fd);
	if (sock_try_tx(sk)) {
		if (shm_w(sk)->tx_ring && !shm_of(sk)->tx_fin && !unread &&
		    linger_s(fd)) {
			store_rlx(&sk->w->shut,
				  (uint8_t)(sk->w->shut | SHUT_BIT_WR));
			push_fin(sk);
		}
		sock_unlock_tx(sk);
	}
	if (unread)
		abort_at_close(sk, fd);
	else
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
		bool unread = is_unread(sk, fd);
		int linger_for = unread ? 0 : linger_s(fd);
		if (shm_w(sk)->tx_ring && !shm_of(sk)->tx_fin && linger_for)
			push_fin(sk);
		if (shm_w(sk)->tx_ring && linger_for > 0)
			shm_linger(sk, fd, linger_for);
		shm_leave(sk, fd);
		if (!linger_for)
			abort_at_close(sk, fd);
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
