/* SPDX-License-Identifier: MIT */
/*
 * proto/shm/cut.c - where a ring ends whose reader falls back alone
 *
 *     the reader sets FALLBACK, looks how far the records go   -> cut, if it is first
 *     the writer is inside a call, or comes later: its head    -> cut, if it is first
 *
 * Nobody waits for the other.  Both may set the cut by a compare-and-swap, and both go
 * by what stands there afterwards:
 *
 *   - the writer was first: the reader reads up to the writer's head, since all of it
 *     is in the ring;
 *   - the reader was first: what the writer's call has put behind the cut was not sent.
 *     It can be no more than that, because a call that returns has published its
 *     records, fenced, and looked for FALLBACK, and the reader does the opposite.
 *
 * After that the writer sends by TCP, as soon as the peer has settled: it may be putting
 * back there what it had read and not delivered.  Until then send() answers as if the
 * peer's window were closed.  Only the FIN of a stream that has been shut down already
 * is due later, when any thread of this process looks at the socket.
 *
 * What the peer writes here is checked: a cut that is no place of the ring, or behind
 * which there is more than a call has written, ends the connection.
 */
#include <errno.h>
#include <sys/socket.h>

#include "base/atomic.h"
#include "base/libc.h"
#include "proto/shm/shm.h"

static uint32_t cut_at(bool is_second, uint32_t off)
{
	return off | SEG_CUT_IS | (is_second ? SEG_CUT_SECOND : 0);
}

/* Set the cut @word to @at, unless that was done.  What it is. */
static uint32_t cut_set(uint32_t *word, uint32_t at)
{
	return cas(word, 0u, at) ? at : load_acq(word); /* S6 */
}

/*
 * The reader.
 */

/* Where the records of calls that have returned end, with the one that the peer holds
 * back. */
static uint32_t end_of(struct sock *sk, struct ring_rx *rx,
		       enum ring_mark *mark)
{
	uint32_t off = ring_rx_end(rx, mark);

	if (*mark != RING_NONE)
		return off;
	shm_uncork_last(sk, rx, off);
	return ring_rx_end(rx, mark);
}

uint32_t shm_cut_rx(struct sock *sk)
{
	struct ring_rx *rx = &shm_of(sk)->rx;
	bool is_second = shm_rx_area(sk);
	uint32_t off = rx->off, half = shm_ring_bytes(sk) / 2;
	struct ring_rx other = { .size = half, .refs = rx->refs };
	enum ring_mark mark = RING_NONE;

	/* While TCP still carries the stream, the ring is empty. */
	if (!shm_w(sk)->rx_back && !shm_w(sk)->rx_eof &&
	    (!shm_w(sk)->rx_tcp ||
	     load_acq(&shm_peer(sk)->flags) & SEG_TX_RING)) /* S1 */
		off = end_of(sk, rx, &mark);
	if (mark == RING_MOVE) {
		other.base = is_second ? rx->base - half : rx->base + half;
		is_second = !is_second;
		off = end_of(sk, &other, &mark);
	}
	if (mark == RING_FIN || mark == RING_BACK) /* it is part of the ring */
		off += RING_ALIGN;
	return cut_set(&shm_me(sk)->cut, cut_at(is_second, off));
}

/*
 * The writer.
 */

/* The bytes of our ring from @off of one of its halves on, at most @max, or -1. */
static int64_t bytes_from(const struct sock *sk, uint8_t *base, uint32_t off,
			  uint32_t max)
{
	bool is_second = base > seg_ring(shm_of(sk)->seg, shm_of(sk)->side,
					 shm_ring_bytes(sk));
	struct ring_refs refs = { 0 }; /* they count as bytes */
	struct ring_rx rest = { .base = base,
				.size = is_second ? shm_of(sk)->tx.area_bytes
						  : shm_ring_bytes(sk),
				.off = off,
				.refs = &refs,
				.moves = 1 };
	enum ring_mark mark;

	if (off % RING_ALIGN || off > rest.size - RING_ALIGN)
		return -1;
	return ring_rx_bytes(&rest, max, &mark);
}

static bool tx_is_second(const struct sock *sk)
{
	return shm_of(sk)->tx.base > shm_of(sk)->tx.other;
}

/* How much of our ring is behind @cut?  @most: what is possible. */
static ssize_t count_unread(struct sock *sk, int fd, uint32_t cut, size_t most)
{
	uint32_t off = cut & ~(uint32_t)(SEG_CUT_IS | SEG_CUT_SECOND);
	bool is_other = !(cut & SEG_CUT_SECOND) == tx_is_second(sk);
	uint32_t max = (uint32_t)MIN(most, (size_t)INT32_MAX - 1) + 1;
	int64_t n = -1;

	if (cut & SEG_CUT_IS)
		n = bytes_from(
		    sk, is_other ? shm_of(sk)->tx.other : shm_of(sk)->tx.base,
		    off, max);
	if (n >= 0 && is_other) /* the call has moved to this half */
		n += bytes_from(sk, shm_of(sk)->tx.base, 0, max);
	if (n >= 0 && (uint64_t)n <= most)
		return (ssize_t)n;
	shm_broken(sk, fd, "the cut");
	return -ECONNRESET;
}

/* Nobody may look at this socket again for long, so the peer may send it, too. */
void shm_fin(struct sock *sk, int fd)
{
	shm_of(sk)->fin_due = shm_is_unsettled(sk);
	if (shm_of(sk)->fin_due) {
		fetch_or(&shm_me(sk)->flags, SEG_FIN_DUE);
		fence_full(); /* S7 */
		shm_of(sk)->fin_due = shm_is_unsettled(sk);
	}
	if (!shm_of(sk)->fin_due)
		libc.shutdown(fd, SHUT_WR);
}

ssize_t shm_tx_fell_back(struct sock *sk, int fd, size_t mine)
{
	ssize_t n = 0;

	shm_release(sk);
	if (shm_w(sk)->tx_ring) {
		uint32_t head = cut_at(tx_is_second(sk), shm_of(sk)->tx.head);
		uint32_t cut = cut_set(&shm_peer(sk)->cut, head);

		n = cut == head ? 0 : count_unread(sk, fd, cut, mine);
		if (n < 0)
			return n;
		anchor_silence(sk);
		if (sk->st->reason == OSF_REASON_UPGRADED)
			sock_set_reason(sk, OSF_REASON_PEER_BACK);
		shm_note_back(sk);
		shm_of(sk)->fin_due = shm_of(sk)->tx_fin;
	}
	if (shm_of(sk)->fin_due)
		shm_fin(sk, fd);
	return n;
}
