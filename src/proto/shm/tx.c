/* SPDX-License-Identifier: MIT */
/*
 * proto/shm/tx.c - move bytes from the application into the connection
 *
 *     TCP, while only a candidate  ->  ring  ->  (a BACK mark)  ->  TCP again
 *
 * The writer holds the tx lock while it copies, never while it waits.  It
 * splits a large write into several records, so that the reader copies the
 * first record while the writer copies the second.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/libc.h"
#include "base/nocancel.h"
#include "sock/cursor.h"
#include "proto/shm/inbox.h"
#include "proto/shm/shm.h"
#include "proto/shm/tx.h"
#include "sock/shared.h"

/* With MSG_MORE, TCP holds back less than one segment: 32 KB on loopback. */
#define HELD_MAX (32u * 1024)
#define SMALL_BYTES 512u /* smaller messages: the order of lines matters */

/* Offer the kernel the cursor's next bytes, without waiting. */
static ssize_t tx_kernel(int fd, struct iov_cursor *c, size_t left, int flags)
{
	struct iovec iov[CURSOR_REST_MAX];
	struct msghdr msg = { .msg_iov = iov,
			      .msg_iovlen = cursor_rest(c, iov, left) };
	ssize_t r =
	    nocancel_sendmsg(fd, &msg, flags | MSG_DONTWAIT | MSG_NOSIGNAL);

	if (r < 0)
		return -errno;
	cursor_skip(c, (size_t)r);
	return r;
}

/* The stream is not in the ring (not yet, or no longer).  Give the bytes to
 * the kernel and count them. */
COLD ssize_t tx_tcp(struct sock *sk, int fd, struct iov_cursor *c, size_t left,
		    int flags)
{
	/* The peer may be putting back what it has not read, which is first. */
	if (shm_of(sk)->seg && shm_is_unsettled(sk)) {
		anchor_ask(sk, fd);
		if (shm_is_unsettled(sk))
			return -EAGAIN;
	}
	if (unlikely(sk->page) && !shared_is_silent(sk))
		return shm_kept(sk);
	ssize_t r = tx_kernel(fd, c, left, flags);

	if (r > 0) {
		shm_of(sk)->tx_tcp_base += (uint64_t)r;
		count(&sk->st->tx_bytes_inet, (uint64_t)r);
		inbox_went_past();
	}
	return r;
}

/*
 * Nobody reads the ring any more.  If the peer's process has ended, answer as
 * TCP does after a FIN or a reset.  Otherwise pass the call to the kernel's
 * socket, which returns the right error and may accept the first write.
 */
static COLD ssize_t tx_to_nobody(struct sock *sk, int fd, struct iov_cursor *c,
				 size_t left, int flags)
{
	shm_reset_due(sk, fd);
	if (shm_has_fallen_back(sk) && !sk->is_lost) {
		ssize_t lost = shm_tx_fell_back(sk, fd, 0);

		return lost < 0 ? lost : tx_tcp(sk, fd, c, left, flags);
	}
	if (shm_w(sk)->peer_died ==
	    PEER_READ_ALL) { /* its reset is on the way */
		shm_w(sk)->peer_died = PEER_TOLD;
		SOCK_PUT(sk, anchor_end, (uint8_t)ANCHOR_RST);
		cursor_skip(c, left);
		return (ssize_t)left;
	}
	int err = shm_is_broken(sk) ? -EPIPE : anchor_error(sk);

	if (!err && shm_w(sk)->peer_died)
		err = -EPIPE;
	if (left)
		fetch_or(&shm_me(sk)->flags, SEG_TX_LATE);
	if (err)
		return err;
	ssize_t r = tx_kernel(fd, c, left, 0);
	return r == -ECONNRESET ? -anchor_reset_error(sk) : r;
}

/* A send of no bytes.  It fails where the connection has ended, and makes nobody end it. */
static COLD ssize_t tx_of_none(struct sock *sk, int fd)
{
	struct iov_cursor none = { 0 };

	if (!sk->is_lost && !shm_w(sk)->tx_ring)
		return tx_kernel(fd, &none, 0, 0);
	if (!sk->is_lost && !tx_nobody_reads(sk, fd))
		return 0;
	sock_changes_tx(sk);
	return shm_w(sk)->peer_died == PEER_READ_ALL
		   ? 0
		   : tx_to_nobody(sk, fd, &none, 0, 0);
}

/* A bad address comes second to an error of the connection. */
static COLD ssize_t tx_nothing(struct sock *sk, int fd, bool is_bad)
{
	ssize_t r = tx_of_none(sk, fd);

	return !r && is_bad ? -EFAULT : r;
}

bool tx_nobody_reads(struct sock *sk, int fd)
{
	if (unlikely(load_rlx(&shm_peer(sk)->flags) &
		     (SEG_CLOSED | SEG_FALLBACK | SEG_SHUT)))
		return true;
	if (load_rlx(&sk->w->anchor_end) == ANCHOR_OPEN &&
	    unlikely(anchor_ask_due(sk)) && !anchor_peer_lives(sk))
		anchor_ask(sk, fd);
	return load_rlx(&sk->w->anchor_end) != ANCHOR_OPEN;
}

/* The reader may have stopped before the end of the @done bytes written since
 * @start.  What it did not read goes by TCP, like all that follows.  Return 0
 * if it has read none. */
static COLD ssize_t tx_ring_fell_back(struct sock *sk, int fd,
				      struct iov_cursor *c,
				      const struct iov_cursor *start,
				      size_t done)
{
	sock_changes_tx(sk);
	ssize_t lost = shm_tx_fell_back(sk, fd, done);

	if (lost < 0)
		return lost;
	*c = *start;
	cursor_skip(c, done - (size_t)lost);
	return (ssize_t)done - lost;
}

/* May @left more bytes wait too?  Only if they fill little of the ring. */
static COLD bool may_hold(struct sock *sk, size_t left)
{
	return left + shm_of(sk)->corked_bytes <
	       MIN(HELD_MAX, shm_of(sk)->tx.size / 4);
}

/* Call this before a record is put behind the one that is corked. */
COLD void tx_held_begin(struct sock *sk, int fd, size_t left)
{
	if (shm_cork_claim(sk, fd) && !may_hold(sk, left))
		shm_flush(sk, fd);
}

/* Release the corked bytes with what follows, or when the ring is full. */
static COLD void held_end(struct sock *sk, int fd, bool hold)
{
	if (hold)
		shm_cork_on(sk, fd);
	else
		shm_flush(sk, fd);
}

/* Write what fits of the next @left bytes.  Return the bytes taken, 0 if full,
 * or -ECONNRESET.  Vectors are gathered: a header and its body share one
 * record. */
HOT static ssize_t tx_ring(struct sock *sk, int fd, struct iov_cursor *c,
			   size_t left, int flags)
{
	struct iov_cursor start = *c;
	size_t done = 0;

	if (unlikely(shm_of(sk)->corked_bytes))
		tx_held_begin(sk, fd, left);
	bool hold = unlikely(flags & MSG_MORE) && may_hold(sk, left);

	while (done < left) {
		uint32_t chunk = (uint32_t)MIN(left - done, (size_t)TX_CHUNK);
		uint32_t at;

		if (unlikely(tx_is_full(sk)) &&
		    (ring_tx_refresh(&shm_of(sk)->tx), tx_is_full(sk)))
			break;
		uint8_t *to = ring_reserve(&shm_of(sk)->tx, &chunk, &at);
		if (unlikely(!to)) {
			if (!chunk)
				break;
			shm_broken(sk, fd, "its tail");
			return -ECONNRESET;
		}
		cursor_get(c, to, chunk);
		if (unlikely(hold) && !shm_of(sk)->corked_bytes)
			shm_cork(sk, at, chunk);
		else
			ring_commit(&shm_of(sk)->tx, at, chunk);
		if (unlikely(shm_of(sk)->tx.changes != NULL))
			sock_settles_tx(sk);
		done += chunk;
		if (unlikely(hold))
			shm_of(sk)->corked_bytes += chunk;
		if (chunk == TX_CHUNK)
			tx_bulk_count(sk, chunk);
		if (done < left) /* a fence drains what the next copy fills */
			shm_notify_early(sk, fd);
		if (shm_has_fallen_back(sk))
			break;
	}
	if (unlikely(shm_of(sk)->corked_bytes))
		held_end(sk, fd, hold && done == left);
	else if (likely(done))
		shm_notify_data(sk, fd);
	if (unlikely(done < left) && !load_rlx(&shm_me(sk)->tx_waits))
		store_rlx(&shm_me(sk)->tx_waits, 1u);
	if (shm_has_fallen_back(
		sk)) /* Dekker with shm_fallback_now(), by the fence above */
		return tx_ring_fell_back(sk, fd, c, &start, done);
	return (ssize_t)done;
}

/*
 * Write a message of a few cache lines in the order in which the lines come
 * free: first the zero behind it, then bytes and header in one go, because the
 * reader polls that line.  False if there is no such room now.
 */
HOT static inline bool put_small(struct ring_tx *tx, const void *buf,
				 uint32_t len)
{
	uint32_t got = len, at;
	uint8_t *to = ring_reserve(tx, &got, &at);

	if (unlikely(!to || got != len))
		return false;
	store_rlx(ring_hdr_at(tx->base, at + ring_record_bytes(len)),
		  UINT64_C(0));
	memcpy(to, buf, len);
	ring_commit(tx, at, len);
	return true;
}

/* The next small message will want these lines, except the first, which the reader polls. */
static inline void prefetch_next(const struct ring_tx *tx)
{
	for (uint32_t i = 1; i < 4; i++)
		prefetch_write(tx->base + tx->head + i * RING_ALIGN);
}

/* A message of a few cache lines, which nothing holds back.  0: it takes tx_ring(), unless the
 * reader has left the ring meanwhile: then TCP. */
HOT static inline ssize_t tx_small(struct sock *sk, int fd,
				   struct iov_cursor *c, size_t left, int flags)
{
	struct ring_tx *tx = &shm_of(sk)->tx;

	if (c->n != 1 || left > SMALL_BYTES || flags & MSG_MORE ||
	    unlikely(shm_of(sk)->corked_bytes || shm_of(sk)->tx_limit ||
		     tx->changes) ||
	    !put_small(tx, c->iov->iov_base, (uint32_t)left))
		return 0;
	shm_notify_data(sk, fd);
	if (unlikely(shm_has_fallen_back(sk))) {
		struct iov_cursor start = *c;

		return tx_ring_fell_back(sk, fd, c, &start, left);
	}
	prefetch_next(tx);
	return (ssize_t)left;
}

static ssize_t tx_once(struct sock *sk, int fd, struct iov_cursor *c,
		       size_t left, int flags)
{
	/* ring_tx.changes tells other holders of what changes in the ring alone.  Whatever
	 * else the call may change has to be told here. */
	if (unlikely(sk->is_lost || !shm_w(sk)->tx_ring || flags & MSG_MORE ||
		     shm_of(sk)->corked_bytes))
		sock_changes_tx(sk);
	if (unlikely(sk->is_lost))
		return tx_to_nobody(sk, fd, c, left, flags);
	if (unlikely(!shm_w(sk)->tx_ring))
		return tx_tcp(sk, fd, c, left, flags);
	if (unlikely(shm_of(sk)->tx_full_ns))
		shm_tx_stretch(sk);
	if (unlikely(tx_nobody_reads(sk, fd))) {
		sock_changes_tx(sk);
		return tx_to_nobody(sk, fd, c, left, flags);
	}
	ssize_t r = tx_small(sk, fd, c, left, flags);
	if (!r && likely(shm_w(sk)->tx_ring))
		r = tx_ring(sk, fd, c, left, flags);
	if (r > 0)
		count(&sk->st->tx_bytes_shm, (uint64_t)r);
	if (unlikely(!r && !shm_w(sk)->tx_ring))
		return tx_tcp(sk, fd, c, left, flags);
	return r ? r : -EAGAIN;
}

static inline void tx_done(struct sock *sk, int fd)
{
	bool is_shared = unlikely(shm_of(sk)->tx.changes != NULL);

	if (is_shared)
		shm_of(sk)->tx.changes = NULL;
	sock_unlock_tx(sk);
	if (is_shared)
		shm_do_due(sk, fd);
}

/* Take the lock for sending.  A candidate first checks if the peer is ready. */
int tx_begin(struct sock *sk, int fd)
{
	if (unlikely(sock_mode(sk) == SOCK_PENDING)) {
		if (!sock_take_both(sk))
			return shm_kept(sk);
		if (sock_mode(sk) == SOCK_PENDING)
			shm_pending_step(sk, fd);
		sock_unlock_rx(sk);
	} else if (unlikely(!sock_move_tx(sk)) &&
		   !(shm_is_repaired(sk, fd) && sock_move_tx(sk))) {
		return load_rlx(&sk->w->shut) & SHUT_BIT_WR ? -EPIPE
							    : shm_kept(sk);
	}
	if (unlikely(sk->tx_is_in))
		shm_of(sk)->tx.changes = &sk->page->half[HALF_TX].is_changing;
	if (likely(sock_is_ours(sk)))
		return 0;
	tx_done(sk, fd);
	return shm_went_back(sk);
}

/* End what tx_begin() began.  A caller that got -EAGAIN waits until the peer
 * has read beyond this point. */
void tx_end(struct sock *sk, int fd, ssize_t r)
{
	if (r == -EAGAIN)
		tx_full_note(sk);
	tx_done(sk, fd);
	if (unlikely(shm_wants_back(sk)))
		shm_fallback(sk, fd, OSF_REASON_NONE);
}

/*
 * MSG_ZEROCOPY.  While the connection is a candidate, the kernel numbers what
 * it is given.  After that we continue its numbering and copy the bytes.
 */
static COLD ssize_t tx_numbered(struct sock *sk, int fd, struct iov_cursor *c,
				size_t len, int flags)
{
	bool by_kernel = sock_mode(sk) == SOCK_PENDING;

	if (!load_rlx(&sk->w->zc_on) || !by_kernel)
		flags &= ~MSG_ZEROCOPY;
	sock_changes_tx(sk);
	ssize_t r = tx_once(sk, fd, c, len, flags);
	if (r > 0 && flags & MSG_ZEROCOPY)
		errq_by_kernel_locked(sk, fd, 1);
	if (r > 0 && load_rlx(&sk->w->zc_on) && !by_kernel)
		errq_copied_locked(sk);
	return r;
}

/* The direction is shut.  An error that the connection has ended with comes first, once. */
COLD ssize_t tx_is_shut(struct sock *sk, int fd)
{
	int err = anchor_end_error(sk, fd);

	return err ? -err : -EPIPE;
}

HOT ssize_t shm_send(struct sock *sk, int fd, const struct iovec *iov, size_t n,
		     int flags)
{
	struct iov_cursor c = { .iov = iov, .n = n };
	bool bad = false;
	size_t len = 0;
	ssize_t r;

	for (size_t i = 0; i < n; i++) {
		bad |= is_bad_ptr(iov[i].iov_base) && iov[i].iov_len;
		len += iov[i].iov_len;
	}
	int err = tx_begin(sk, fd);
	if (unlikely(err))
		return err;
	if (unlikely(sk->w->shut & SHUT_BIT_WR))
		r = tx_is_shut(sk, fd);
	else if (unlikely(bad || !len))
		r = tx_nothing(sk, fd, bad);
	else if (unlikely(flags & MSG_ZEROCOPY))
		r = tx_numbered(sk, fd, &c, len, flags);
	else
		r = tx_once(sk, fd, &c, len, flags);
	tx_end(sk, fd, r);
	return r;
}

HOT ssize_t shm_send_sole(struct sock *sk, int fd, const struct iovec *iov,
			  size_t n, size_t len)
{
	struct iov_cursor c = { .iov = iov, .n = n };

	if (unlikely(
		sock_mode(sk) != SOCK_SHM || !shm_w(sk)->tx_ring ||
		sk->w->shut || shm_of(sk)->corked_bytes ||
		load_rlx(&sk->w->anchor_end) != ANCHOR_OPEN ||
		load_rlx(&shm_peer(sk)->flags) &
		    (SEG_CLOSED | SEG_FALLBACK | SEG_WANT_BACK | SEG_SHUT)))
		return shm_send(sk, fd, iov, n, 0);
	ssize_t r;
	if (n == 1 && len <= SMALL_BYTES && !shm_of(sk)->tx_limit &&
	    put_small(&shm_of(sk)->tx, iov->iov_base, (uint32_t)len)) {
		shm_notify_data(sk, fd);
		r = unlikely(shm_has_fallen_back(sk))
			? tx_ring_fell_back(
			      sk, fd, &c,
			      &(struct iov_cursor){ .iov = iov, .n = n }, len)
			: (ssize_t)len;
	} else {
		r = tx_ring(sk, fd, &c, len, 0);
	}
	if (likely(r > 0)) {
		count(&sk->st->tx_bytes_shm, (uint64_t)r);
		count(&sk->st->tx_ops, 1);
		prefetch_next(&shm_of(sk)->tx);
	}
	return r ? r : -EAGAIN;
}
