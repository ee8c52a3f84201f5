/* SPDX-License-Identifier: MIT */
/*
 * proto/shm/cork.c - MSG_MORE and TCP_CORK: hold bytes back until more follow
 *
 *     send(MSG_MORE)   writes the bytes into the ring, but not the header
 *     send()           writes the header: the reader sees all bytes at once
 *
 * TCP holds such bytes back for at most 200 ms.  The writer may make no call
 * in that time, and we have no thread.  So the writer notes in its side of the
 * segment where the record is, its header and the time.  A reader that looks
 * later than 200 ms after that time writes the header itself.  Both write the
 * same value.
 *
 * A reader that finds the ring empty and such a note sleeps only until that
 * time.  For a reader that sleeps already, the writer sends a doorbell with
 * MSG_MORE, which the kernel's own timer delivers.  The next doorbell takes it
 * along, so there is usually one wake-up for both.
 *
 *   H1  held_off, corked_hdr, then held_ns  ->  held_ns, then the others
 *
 * The reader checks that the note is about the record it waits for.  A hostile
 * writer gains nothing by a false note: it could write the same into the ring.
 */
#include "base/clock.h"
#include "proto/shm/inbox.h"
#include "proto/shm/shm.h"

#define HELD_NS (200 * NS_PER_MS) /* tcp(7), TCP_CORK */

/* In held_ns: the writer is inside a call.  A reader takes the record then only if
 * it reads for the last time. */
#define HELD_BUSY UINT64_MAX
#define NOTES_MAX 4

/*
 * The writer withdraws the note before it puts anything behind the record, and
 * renews it afterwards.  So no reader starts to write the header while the
 * writer may reach the same place of the ring again.  A reader that had already
 * started finishes before it reads on, and the place is not reused before that.
 * A reader that is falling back may still start: it gives no space back, and it
 * only takes bytes of calls that have returned.
 */
COLD bool shm_cork_claim(struct sock *sk, int fd)
{
	xchg(&shm_me(sk)->held_ns, HELD_BUSY);
	if (ring_is_corked(&shm_of(sk)->tx, shm_of(sk)->corked_at) &&
	    now_ns() - shm_of(sk)->corked_since_ns < HELD_NS)
		return true;
	shm_flush(sk, fd);
	return false;
}

COLD void shm_cork(struct sock *sk, uint32_t at, uint32_t len)
{
	shm_of(sk)->corked_hdr = ring_commit_corked(&shm_of(sk)->tx, at, len);
	shm_of(sk)->corked_at = at;
	shm_of(sk)->corked_since_ns = now_ns();
	store_rlx(&shm_w(sk)->bell_waits,
		  (uint8_t)0); /* the last one has left */
}

COLD void shm_release(struct sock *sk)
{
	if (!shm_of(sk)->corked_bytes)
		return;
	/* In this order: a reader that reads for the last time sees either. */
	ring_release(&shm_of(sk)->tx, shm_of(sk)->corked_at,
		     shm_of(sk)->corked_hdr);
	store_rel(&shm_me(sk)->held_ns, UINT64_C(0));
	shm_of(sk)->corked_bytes = 0;
}

COLD void shm_flush(struct sock *sk, int fd)
{
	bool any = shm_of(sk)->corked_bytes;

	shm_release(sk);
	if (any)
		shm_notify_data(sk, fd);
	if (load_rlx(&shm_w(sk)->bell_waits)) /* the kernel holds one back */
		anchor_ring(sk, fd);
}

/* Wake a sleeping reader when the bytes are due.  Notify a reader that is
 * awake, so that it looks at the note. */
static void notify_corked(struct sock *sk, int fd)
{
	const struct seg_side *p = shm_peer(sk);
	uint32_t slot = load_acq(&p->slot);

	fence_full(); /* Dekker, as shm_notify_data() */
	bool later = load_rlx(&p->rx_anchor) || load_rlx(&p->rx_bell1);
	if (load_rlx(&p->rx_inbox)) {
		bool has_lane = slot != SLOT_NONE && shm_of(sk)->peer_inbox &&
				!(load_rlx(&p->flags) & SEG_SHARED);

		if (!has_lane || inbox_sleeps(shm_of(sk)->peer_inbox, slot))
			later = true;
		else if (inbox_post(shm_of(sk)->peer_inbox, slot) &&
			 !inbox_ring(shm_of(sk)->peer_inbox, slot))
			anchor_ring(sk, fd);
	}
	if (later && !load_rlx(&shm_w(sk)->bell_waits))
		anchor_ring_later(sk, fd);
}

COLD void shm_cork_on(struct sock *sk, int fd)
{
	struct seg_side *me = shm_me(sk);

	if (!ring_is_corked(&shm_of(sk)->tx,
			    shm_of(sk)->corked_at)) { /* already stored */
		shm_flush(sk, fd);
		return;
	}
	store_rel(&me->held_off, shm_of(sk)->corked_at);
	store_rel(&me->corked_hdr, shm_of(sk)->corked_hdr);
	store_rel(&me->held_ns, shm_of(sk)->corked_since_ns); /* H1 */
	notify_corked(sk, fd);
}

/* Return the time when the peer's corked bytes are due, or UINT64_MAX if it
 * holds none.  @off: where the next header is missing, or UINT32_MAX; the peer's
 * note must agree with it.  @is_last: nobody reads here after this. */
static uint64_t due_ns(const struct sock *sk, bool is_last, uint32_t off,
		       uint64_t *hdr)
{
	const struct seg_side *p = shm_peer(sk);
	uint64_t since = load_acq(&p->held_ns); /* H1 */
	uint32_t said = load_acq(&p->held_off);

	*hdr = load_acq(&p->corked_hdr);
	if (!since || !*hdr || off == UINT32_MAX || off != said ||
	    load_rlx(&shm_w(sk)->rx_back))
		return UINT64_MAX;
	if (!is_last && (since == HELD_BUSY || load_rlx(&shm_w(sk)->rx_tcp)))
		return UINT64_MAX;
	if (load_acq(&p->held_ns) != since) /* last: withdrawn since? */
		return UINT64_MAX;
	/* A time in the future comes from another clock, or from a hostile
	 * peer. */
	return since > now_ns() ? 0 : since + HELD_NS;
}

COLD uint64_t shm_corked_until(const struct sock *sk)
{
	uint64_t hdr;

	return due_ns(sk, false, ring_rx_waits_at(&shm_of(sk)->rx), &hdr);
}

COLD void shm_uncork_last(struct sock *sk, struct ring_rx *rx, uint32_t off)
{
	uint64_t hdr, due = UINT64_MAX;

	/* The writer may renew its note meanwhile, once or twice. */
	for (int i = 0; due == UINT64_MAX && i <= NOTES_MAX; i++)
		due = due_ns(sk, true, off, &hdr);
	if (due != UINT64_MAX)
		ring_rx_store(rx, off, hdr);
}

/* The caller holds the rx lock. */
COLD bool shm_uncork(struct sock *sk)
{
	struct ring_rx *rx = &shm_of(sk)->rx;
	uint32_t off = ring_rx_waits_at(rx);
	uint64_t hdr;

	if (due_ns(sk, false, off, &hdr) > now_ns())
		return false;
	ring_rx_store(rx, off, hdr);
	return true;
}

COLD bool shm_poll_corked(struct sock *sk)
{
	if (shm_w(sk)->rx_tcp || shm_w(sk)->rx_back ||
	    shm_corked_until(sk) > now_ns())
		return false;
	if (!sock_look_rx(sk)) /* the header is right, whoever stores it */
		return false;
	bool taken = shm_uncork(sk);
	sock_unlock_rx(sk);
	return taken;
}
