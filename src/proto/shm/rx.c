/* SPDX-License-Identifier: MIT */
/*
 * proto/shm/rx.c - move bytes from the connection to the application
 *
 *     TCP, up to the peer's K  ->  ring  ->  (a BACK mark)  ->  TCP again
 *
 * K is the number of bytes that the peer sent by TCP before it used the ring.
 * rx_kernel.c reads what TCP brings, and this file what is in the ring.
 *
 * The caller is inside a recv-like call on a descriptor of the socket.  It
 * holds the rx lock while it copies, never while it waits.  We publish the
 * tail when PUBLISH_BYTES are free or the ring is empty, not after every
 * message, so that a reply leaves before that cache line does.
 *
 * On every return:
 *   I1  each byte was delivered once, in order
 *   I2  if there was nothing to read, the peer notifies whoever armed
 */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/libc.h"
#include "sock/anchor.h"
#include "sock/cursor.h"
#include "proto/shm/region.h"
#include "proto/shm/rx.h"
#include "sock/shared.h"

#define PUBLISH_BYTES (RING_WINDOW / 8)

/* Records that one step reads, and steps of a call.  Marks of an honest peer that
 * follow each other take fewer. */
#define RECORDS_MAX 4096u
#define STEPS_MAX 64u

/* As the kernel does, answer a null pointer with EFAULT instead of crashing. */
static bool is_bad(const struct iovec *iov, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (is_bad_ptr(iov[i].iov_base) && iov[i].iov_len)
			return true;
	return false;
}

/* The peer's flags say that its stream has ended in the ring, and the ring looked empty
 * before.  By now the mark must be there, perhaps after bytes that we have not seen yet. */
static COLD ssize_t rx_unmarked(struct sock *sk, int fd)
{
	if (ring_rx_ready(&shm_of(sk)->rx))
		return GO_ON_IN_RING;
	return rx_impossible(sk, fd, "an end without its mark");
}

/* The ring was empty.  Return -EAGAIN, or what ends the stream. */
static COLD ssize_t rx_nothing(struct sock *sk, int fd, enum ring_mark mark)
{
	if (ring_publish(&shm_of(sk)->rx)) {
		sock_settles_rx(sk);
		shm_notify_space(sk, fd);
	}
	if (shm_of(sk)->rx.hold != RING_NONE_LENT) {
		sock_changes_rx(sk);
		shm_lend_pinned(sk, fd);
	}
	if (mark == RING_FIN) {
		store_rlx(&shm_w(sk)->rx_eof, (uint8_t)1);
		return 0;
	}
	if (mark == RING_BACK) {
		store_rlx(&shm_w(sk)->rx_back, (uint8_t)1);
		shm_note_back(sk);
		return GO_ON_IN_RING;
	}
	if (mark == RING_MAP || mark == RING_MOVE)
		sock_changes_rx(sk);
	if (mark == RING_MAP) {
		if (!shm_rx_map(sk))
			return GO_ON_IN_RING;
		return rx_impossible(sk, fd, "what it says of its memory");
	}
	if (mark == RING_MOVE) {
		shm_rx_move(sk);
		return GO_ON_IN_RING;
	}
	if (shm_is_corked(sk) && shm_uncork(sk))
		return GO_ON_IN_RING;
	if (unlikely(load_acq(&shm_peer(sk)->flags) & /* S2 */
		     (SEG_TX_FIN | SEG_TX_BACK)))
		return rx_unmarked(sk, fd);
	if (sk->w->shut & SHUT_BIT_RD)
		return -anchor_end_error(sk, fd);
	if (load_rlx(&sk->w->anchor_end) == ANCHOR_OPEN && anchor_ask_due(sk) &&
	    !anchor_peer_lives(sk))
		anchor_ask(sk, fd);
	if (load_rlx(&sk->w->anchor_end) == ANCHOR_OPEN)
		return -EAGAIN;
	shm_uncork_last(sk, &shm_of(sk)->rx, ring_rx_waits_at(&shm_of(sk)->rx));
	/* The ring now has all that the peer wrote before it died. */
	if (ring_rx_ready(&shm_of(sk)->rx))
		return GO_ON_IN_RING;
	sock_changes_rx(sk);
	return rx_end(sk, fd);
}

/* We have read as much as the ring can hold.  If the peer had ended before that, an honest
 * ring is empty now.  A ring that leads in a circle is never empty, and a process that has
 * ended would keep ours busy for ever.  Bytes that lie outside of the ring are another
 * matter. */
static COLD bool rx_outlives(struct sock *sk, int fd)
{
	struct shm_conn *c = shm_of(sk);
	bool had_ended = c->saw_anchor_end && !c->rx.refs;

	c->rx_unlooked = 0;
	if (load_rlx(&sk->w->anchor_end) == ANCHOR_OPEN)
		anchor_ask(sk, fd);
	c->saw_anchor_end = load_rlx(&sk->w->anchor_end) != ANCHOR_OPEN;
	return had_ended;
}

/* Read from the ring.  Return the bytes read, 0 at the end, or -errno.  However
 * long @want is, and however fast the peer writes, this ends. */
HOT static ssize_t rx_ring(struct sock *sk, int fd, struct iov_cursor *c,
			   size_t want, int flags)
{
	size_t got = 0;
	enum ring_mark mark = RING_NONE;

	for (unsigned i = 0; got < want && i < RECORDS_MAX; i++) {
		const uint8_t *data;
		int32_t n = ring_peek(&shm_of(sk)->rx, &data, &mark);

		if (unlikely(n < 0))
			return rx_impossible(sk, fd, "a record's header");
		if (!n)
			break;
		uint32_t take = (uint32_t)MIN((size_t)n, want - got);
		if (!(flags & MSG_TRUNC))
			cursor_put(c, data, take);
		ring_skip(&shm_of(sk)->rx, take);
		got += take;
		uint32_t freed = ring_rx_owed(&shm_of(sk)->rx);
		if (freed >= PUBLISH_BYTES && ring_publish(&shm_of(sk)->rx)) {
			sock_settles_rx(sk);
			shm_notify_space(sk, fd);
		}
	}
	if (likely(got)) {
		if (unlikely(shm_of(sk)->rx.hold != RING_NONE_LENT))
			shm_lend_pinned(sk, fd);
		rx_say_read(sk);
		count(&sk->st->rx_bytes_shm, got);
		if (unlikely(got > load_rlx(&sk->st->rx_most)))
			store_rlx(&sk->st->rx_most, (uint64_t)got);
		shm_of(sk)->rx_unlooked += got;
		if (unlikely(shm_rx_is_unlooked(sk)) && rx_outlives(sk, fd))
			shm_broken(sk, fd, "bytes without end behind its end");
		return (ssize_t)got;
	}
	return rx_nothing(sk, fd, mark);
}

/* As in the kernel, a read stops before an urgent byte, but not before what precedes it. */
static bool is_tcp_next(struct sock *sk, int fd)
{
	int is_urgent = 0;

	return anchor_drain_all(sk, fd) &&
	       !libc.ioctl(fd, SIOCATMARK, &is_urgent) && !is_urgent;
}

/* Behind the ring's last bytes, a BACK mark: the stream goes on in TCP. */
static COLD size_t rx_peek_tcp(int fd, struct iov_cursor *c, size_t want,
			       int flags)
{
	struct iovec iov[CURSOR_REST_MAX];
	struct msghdr msg = { .msg_iov = iov,
			      .msg_iovlen = cursor_rest(c, iov, want) };
	ssize_t r = nocancel_recvmsg(fd, &msg, flags | MSG_DONTWAIT);

	return r > 0 ? (size_t)r : 0;
}

static size_t rx_peek_ring(struct sock *sk, const struct iov_cursor *c,
			   size_t want)
{
	uint32_t skip = 0;

	for (size_t i = 0; i < c->n && skip < want; i++) {
		uint32_t got = ring_rx_copy_ahead(
		    &shm_of(sk)->rx, c->iov[i].iov_base,
		    (uint32_t)MIN(c->iov[i].iov_len, (size_t)INT_MAX), skip);
		skip += got;
		if (got < c->iov[i].iov_len)
			break;
	}
	return skip;
}

static ssize_t rx_peek(struct sock *sk, int fd, struct iov_cursor *c,
		       size_t want, int flags)
{
	enum ring_mark mark = RING_NONE;
	const uint8_t *data;

	/* Step over WRAP and SKIP, to tell an empty ring from a corrupt one. */
	int32_t first = ring_peek(&shm_of(sk)->rx, &data, &mark);
	if (first < 0) {
		shm_broken(sk, fd, "a record's header");
		return -ECONNRESET;
	}
	if (!first)
		return rx_nothing(sk, fd, mark);
	size_t got = ring_rx_bytes(&shm_of(sk)->rx,
				   (uint32_t)MIN(want, (size_t)INT_MAX), &mark);
	if (!(flags & MSG_TRUNC)) /* else only how many there are */
		got = rx_peek_ring(sk, c, want);
	if (unlikely(mark == RING_BACK) && got < want && is_tcp_next(sk, fd)) {
		cursor_skip(c, got);
		got += rx_peek_tcp(fd, c, want - got,
				   flags & (MSG_PEEK | MSG_TRUNC));
	}
	return (ssize_t)got;
}

/* What takes bytes out of the kernel, or may. */
static COLD ssize_t rx_elsewhere(struct sock *sk, int fd, struct iov_cursor *c,
				 size_t want, int flags)
{
	sock_changes_rx(sk);
	if (shm_is_broken(sk))
		return rx_end(sk, fd);
	if (shm_w(sk)->rx_back)
		return anchor_is_urgent_alone(sk, fd, flags)
			   ? -EAGAIN
			   : rx_back(sk, fd, c, want,
				     flags & (MSG_PEEK | MSG_TRUNC));
	if (shm_w(sk)->rx_tcp)
		return rx_tcp(sk, fd, c, want, flags);
	return rx_peek(sk, fd, c, want, flags);
}

/* Make one attempt, from wherever the stream is now: TCP or the ring. */
static inline ssize_t rx_step(struct sock *sk, int fd, struct iov_cursor *c,
			      size_t want, int flags)
{
	if (unlikely(shm_is_broken(sk) || shm_w(sk)->rx_back ||
		     shm_w(sk)->rx_tcp || flags & MSG_PEEK))
		return rx_elsewhere(sk, fd, c, want, flags);
	return rx_ring(sk, fd, c, want, flags);
}

/* The peer's stream goes back to TCP.  Are there bytes that the same call may read? */
static COLD bool rx_goes_to_tcp(struct sock *sk, int fd)
{
	enum ring_mark mark;

	return ring_rx_bytes(&shm_of(sk)->rx, 1, &mark) || mark != RING_BACK ||
	       is_tcp_next(sk, fd);
}

/* We have @got fewer bytes than wanted.  Does the stream go on elsewhere (TCP
 * or ring)?  An edge-triggered program takes a short read to mean "empty". */
static COLD bool rx_goes_on(struct sock *sk, int fd)
{
	if (shm_w(sk)->rx_tcp)
		return shm_of(sk)->rx_tcp_left == 0 || readahead_bytes(sk);
	if (shm_w(sk)->rx_back || !ring_rx_ready(&shm_of(sk)->rx))
		return false;
	return likely(!(load_acq(&shm_peer(sk)->flags) & SEG_TX_BACK)) ||
	       rx_goes_to_tcp(sk, fd);
}

/* One call has taken so many steps.  Either the peer writes as fast as we read:
 * then tell ourselves of the rest, because an edge-triggered program takes a short
 * read to mean that nothing is left.  Or its marks never end (@r). */
static COLD ssize_t rx_endless(struct sock *sk, int fd, ssize_t r)
{
	if (r == GO_ON_IN_RING)
		return rx_impossible(sk, fd, "marks without end");
	shm_tell_self(sk);
	return r;
}

static ssize_t rx_once(struct sock *sk, int fd, struct iov_cursor *c,
		       size_t want, int flags)
{
	size_t got = 0;

	for (unsigned i = 0;; i++) {
		ssize_t r = rx_step(sk, fd, c, want - got, flags);

		if (unlikely(i == STEPS_MAX))
			r = rx_endless(sk, fd, r);
		if (unlikely(r == GO_ON_IN_RING))
			continue;
		if (unlikely(r <= 0)) {
			if (got && r < 0 && r != -EAGAIN)
				anchor_note(sk, (int)-r);
			return got ? (ssize_t)got : r;
		}
		got += (size_t)r;
		if (likely(got == want) || flags & MSG_PEEK || i >= STEPS_MAX ||
		    !rx_goes_on(sk, fd))
			return (ssize_t)got;
	}
}

/* The next bytes must raise SIGIO, so the peer must ring.  True if there are
 * bytes. */
static COLD bool rx_arm_async(struct sock *sk, int fd)
{
	anchor_clear(sk, fd);
	shm_arm(sk, fd, POLLIN, ARM_ANCHOR);
	return !shm_w(sk)->rx_tcp && !shm_w(sk)->rx_back &&
	       ring_rx_ready(&shm_of(sk)->rx) && !shm_w(sk)->rx_eof;
}

/* The caller has room for no byte, or a bad address.  As in the kernel, this only matters when
 * there is something to read; else the call ends as one with room. */
static COLD ssize_t rx_nowhere(struct sock *sk, int fd, size_t want)
{
	char byte;
	struct iovec iov = { &byte, 1 };
	struct iov_cursor c = { .iov = &iov, .n = 1 };
	ssize_t r = rx_once(sk, fd, &c, 1, MSG_PEEK | MSG_DONTWAIT);

	if (r <= 0)
		return r;
	return want ? -EFAULT : 0;
}

/* Another process that holds the connection has stopped inside a call.  Nothing tells
 * when it goes on, so whoever waits for events comes again. */
COLD int shm_kept(struct sock *sk)
{
	store_rlx(&sk->is_kept, (uint8_t)1);
	shm_tell_self(sk);
	return -EAGAIN;
}

/* If this process is killed before anything else of the call can be seen, other holders
 * read what it has read, too (sock/shared.h). */
MUST_CHECK static inline bool rx_begin(struct sock *sk)
{
	if (unlikely(!sock_move_rx(sk)))
		return false;
	if (unlikely(sk->rx_is_in))
		shm_of(sk)->rx.changes = &sk->page->half[HALF_RX].is_changing;
	return true;
}

static inline void rx_done(struct sock *sk, int fd)
{
	bool is_shared = unlikely(shm_of(sk)->rx.changes != NULL);

	if (is_shared)
		shm_of(sk)->rx.changes = NULL;
	sock_unlock_rx(sk);
	if (is_shared)
		shm_do_due(sk, fd);
}

/* One record, whole.  0: it takes more than that. */
HOT ssize_t shm_recv_one(struct sock *sk, int fd, void *to, size_t max)
{
	struct ring_rx *rx = &shm_of(sk)->rx;
	enum ring_mark mark;
	const uint8_t *data;
	ssize_t r = 0;

	if (unlikely(load_rlx(&sk->w->is_async) || shm_wants_back(sk) ||
		     !rx_begin(sk)))
		return 0; /* shm_recv() knows what to do */
	if (unlikely(!sock_is_ours(sk) || shm_is_broken(sk) ||
		     shm_w(sk)->rx_back || shm_w(sk)->rx_tcp ||
		     rx->hold != RING_NONE_LENT || shm_rx_is_unlooked(sk)))
		goto done;
	int32_t n = ring_peek(rx, &data, &mark);
	if (unlikely(n <= 0 || (size_t)n > max))
		goto done;
	memcpy(to, data, (size_t)n);
	ring_skip(rx, (uint32_t)n);
	if (unlikely(ring_rx_owed(rx) >= PUBLISH_BYTES) && ring_publish(rx)) {
		sock_settles_rx(sk);
		shm_notify_space(sk, fd);
	}
	rx_say_read(sk);
	count(&sk->st->rx_bytes_shm, (uint64_t)n);
	if (unlikely((uint64_t)n > load_rlx(&sk->st->rx_most)))
		store_rlx(&sk->st->rx_most, (uint64_t)n);
	shm_of(sk)->rx_unlooked += (uint64_t)n;
	r = n;
done:
	rx_done(sk, fd);
	return r;
}

HOT ssize_t shm_recv(struct sock *sk, int fd, const struct iovec *iov, size_t n,
		     int flags)
{
	struct iov_cursor c = { .iov = iov, .n = n };
	size_t want = n == 1 ? iov->iov_len : iov_bytes(iov, n);
	bool moves = want && (flags & MSG_TRUNC || !is_bad(iov, n));
	ssize_t r = 0;

	if (unlikely(flags & MSG_OOB))
		return rx_urgent(fd, iov, n, flags);
	do {
		if (unlikely(!rx_begin(sk)) &&
		    !(shm_is_repaired(sk, fd) && rx_begin(sk)))
			return shm_kept(sk);
		if (unlikely(!sock_is_ours(sk))) {
			rx_done(sk, fd);
			return shm_went_back(sk);
		}
		r = likely(moves) ? rx_once(sk, fd, &c, want, flags)
				  : rx_nowhere(sk, fd, want);
		rx_done(sk, fd);
	} while (unlikely(load_rlx(&sk->w->is_async)) &&
		 (r > 0 || r == -EAGAIN) && !(flags & MSG_PEEK) &&
		 rx_arm_async(sk, fd) && r == -EAGAIN);
	if (unlikely(shm_wants_back(sk)))
		shm_fallback(sk, fd, OSF_REASON_NONE);
	return r;
}
