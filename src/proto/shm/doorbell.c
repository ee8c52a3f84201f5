/* SPDX-License-Identifier: MIT */
/*
 * proto/shm/doorbell.c - doorbells: how a peer is woken, and how they are discarded
 *
 * A doorbell is one byte sent through the anchor.  A side sends it only if it
 * sends its stream by ring, and only to a peer that has armed.  It counts the
 * doorbell in the segment first, so the peer knows how many bytes to discard.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/fds.h"
#include "base/libc.h"
#include "base/nocancel.h"
#include "proto/shm/inbox.h"
#include "proto/shm/shm.h"
#include "sock/shared.h"

/* Doorbells that one call discards. */
#define DRAINS_MAX 4
#define DRAIN_BYTES (1024u * 1024)

/* The caller holds the lock of a half, so that the words stay where they are. */
static void ring(struct sock *sk, int fd, int flags)
{
	struct seg_side *me = shm_me(sk);
	int saved = errno;

	fetch_add(&sk->w->n_ringing, 1);
	if (!load_seq(&shm_w(sk)->tx_ring)) { /* our TCP carries the stream */
		fetch_sub(&sk->w->n_ringing, 1);
		return;
	}
	uint32_t was = unlikely(sk->page) ? page_count_begin(sk) : 0;
	fetch_add(&me->bells, 1);
	if (load_seq(&shm_peer(sk)->flags) &
	    (SEG_CLOSED | SEG_FALLBACK | SEG_SHUT)) {
		/* Dekker with shm_leave() and shm_fallback_now().  SEG_SHUT is only
		 * a hint here: the peer's kernel is shut before the flag is set, and
		 * answers with a reset a doorbell that comes in between. */
		fetch_sub(&me->bells, 1);
		fetch_sub(&sk->w->n_ringing, 1);
		if (unlikely(was))
			page_count_end(sk, was);
		return;
	}
	count(&sk->st->n_wakes, 1);
	bell_met_sleeper();
	/* EAGAIN: thousands of doorbells are unread, so the peer will wake.
	 * Any other error means that the peer has ended, which the next look
	 * will find. */
	store_rlx(&shm_w(sk)->bell_waits, (uint8_t)(flags & MSG_MORE ? 1 : 0));
	if (nocancel_send(fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL | flags) !=
	    1) {
		anchor_note(sk, errno);
		fetch_sub(&me->bells, 1);
		store_rlx(&sk->looked_ns, UINT64_C(0));
	}
	fetch_sub(&sk->w->n_ringing, 1);
	if (unlikely(was))
		page_count_end(sk, was);
	errno = saved;
}

void anchor_ring(struct sock *sk, int fd) { ring(sk, fd, 0); }
void anchor_ring_later(struct sock *sk, int fd) { ring(sk, fd, MSG_MORE); }

/*
 * From now on no thread of this process rings.  A thread that is ringing now
 * holds the rx lock, or belongs to a process that was killed while it held that
 * lock.  If another process holds the socket, it has counted its doorbell, and
 * whoever sends by TCP next waits for it (tx_tcp()).
 */
void anchor_silence(struct sock *sk)
{
	xchg(&shm_w(sk)->tx_ring, (uint8_t)0); /* Dekker with anchor_ring() */
	if (unlikely(sk->page)) {
		(void)!shared_is_silent(sk);
		return;
	}
	while (load_acq(&sk->w->n_ringing))
		sched_yield();
}

/*
 * Our direction continues in TCP.  Count the last doorbell before the mark, so
 * that the peer does not take it for data.  Send it after the mark, so that
 * the peer does not sleep again.
 */
void anchor_back(struct sock *sk, int fd)
{
	struct seg_side *me = shm_me(sk);
	int saved = errno;

	anchor_silence(sk);
	shm_release(sk);
	fetch_add(&me->bells, 1);
	bool rings = !(load_seq(&shm_peer(sk)->flags) &
		       (SEG_CLOSED | SEG_FALLBACK | SEG_SHUT));
	if (!rings)
		fetch_sub(&me->bells, 1);
	ring_push_mark(&shm_of(sk)->tx, RING_BACK);
	fetch_or(&me->flags, SEG_TX_BACK); /* S2 */
	if (rings && nocancel_send(fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) != 1)
		fetch_sub(&me->bells, 1);
	errno = saved;
}

/* Is @bell1, as the peer's rx_bell1 says, rung?  0: it asks for none. */
static bool ring_bell(struct sock *sk, uint32_t bell1)
{
	struct peer_inbox *to = shm_of(sk)->peer_inbox;
	uint32_t bell = (bell1 & ~RING_ONLY_ONE) - 1;

	if (!bell1)
		return true;
	if (!to || !(bell1 & RING_ONLY_ONE ? inbox_ring_only(to, bell)
					   : bell_ring(&to->bells, bell)))
		return false;
	count(&sk->st->n_wakes, 1);
	bell_met_sleeper();
	return true;
}

/* Set @slot's bit.  True if the peer's waiter sleeps and has no bell. */
static bool post(struct sock *sk, uint32_t slot)
{
	struct peer_inbox *to = shm_of(sk)->peer_inbox;

	if (likely(!inbox_post(to, slot)))
		return false;
	if (!inbox_ring(to, slot))
		return true;
	count(&sk->st->n_wakes, 1);
	return false;
}

/*
 * A slot stays armed for data (@stays): setting a bit that is already set
 * changes nothing, so neither side writes the other's line for every message.
 * All other arming is for one time.
 */
void shm_wake_peer(struct sock *sk, int fd, uint32_t *inbox_word,
		   uint32_t *anchor_word, uint32_t *bell_word, bool stays)
{
	uint32_t how = load_rlx(anchor_word);
	bool ring = how == RING_EACH_TIME || (how && xchg(anchor_word, 0u));
	bool posted = false;

	if (bell_word && load_rlx(bell_word))
		ring |= !ring_bell(sk, xchg(bell_word, 0u));
	if (load_rlx(inbox_word) && (stays || xchg(inbox_word, 0u))) {
		const struct seg_side *p = shm_peer(sk);
		uint32_t slot = load_acq(&p->slot);

		if (slot != SLOT_NONE && shm_of(sk)->peer_inbox &&
		    !(load_rlx(&p->flags) & SEG_SHARED)) {
			ring |= post(sk, slot);
			posted = true;
		} else {
			ring |= !stays || xchg(inbox_word, 0u);
		}
	}
	if (ring)
		anchor_ring(sk, fd);
	if (ring && !posted)
		inbox_rang(shm_of(sk)->peer_inbox);
}

/* Discard the doorbells rung for us.  The caller holds the rx lock.  A peer that
 * rings while we discard does not keep us here. */
void anchor_drain(struct sock *sk, int fd)
{
	uint32_t rung = load_acq(&shm_peer(sk)->bells);
	int saved = errno;

	/* Bytes of the stream come first and are counted, or no doorbells
	 * follow. */
	if (load_rlx(&shm_w(sk)->rx_tcp) || load_rlx(&shm_w(sk)->fell_back))
		return;
	if (rung == shm_of(sk)->bells_drained)
		return;
	uint32_t was = unlikely(sk->page) ? page_count_begin(sk) : 0;
	for (int i = 0; rung != shm_of(sk)->bells_drained && i < DRAINS_MAX;
	     i++) {
		uint32_t due = rung - shm_of(sk)->bells_drained;
		char bin[64];
		ssize_t n = due <= sizeof(bin)
				? nocancel_recv(fd, bin, due, MSG_DONTWAIT)
				: nocancel_recv(fd, NULL, MIN(due, DRAIN_BYTES),
						MSG_DONTWAIT | MSG_TRUNC);

		if (n < 0)
			anchor_note(sk, errno);
		if (n <= 0)
			break;
		store_rlx(&shm_of(sk)->bells_drained,
			  shm_of(sk)->bells_drained + (uint32_t)n);
	}
	if (unlikely(was))
		page_count_end(sk, was);
	errno = saved;
}

/* The same, for a caller that reads what TCP brings after the doorbells.  False: a doorbell
 * that was counted is still to come.  If the connection has ended, none comes any more: the
 * peer may have died before it sent the doorbell, or its kernel may have dropped it.  What
 * the peer sent before the end is here by then, so it is discarded once more. */
bool anchor_drain_all(struct sock *sk, int fd)
{
	anchor_drain(sk, fd);
	if (likely(shm_of(sk)->bells_drained == load_acq(&shm_peer(sk)->bells)))
		return true;
	if (load_rlx(&sk->w->anchor_end) == ANCHOR_OPEN)
		anchor_ask(sk, fd);
	if (load_rlx(&sk->w->anchor_end) == ANCHOR_OPEN)
		return false;
	anchor_drain(sk, fd);
	return true;
}

/*
 * A process that shares the connection was killed while it rang or discarded doorbells, so
 * our counts may be wrong.  Take the kernel's: all bytes that our TCP has sent since our
 * stream went to the ring are doorbells, and so are all bytes that were read from TCP since
 * the peer's stream did.  The caller has both halves.
 */
bool shm_repair(struct sock *sk, int fd)
{
	struct shm_conn *c = shm_of(sk);
	struct seg_side *me = shm_me(sk);
	uint64_t sent, got;

	if (sock_mode(sk) != SOCK_SHM || !shm_w(sk)->tx_ring ||
	    shm_w(sk)->rx_tcp || shm_w(sk)->rx_back || shm_w(sk)->fell_back ||
	    anchor_has_fin(fd) || /* which the kernel counts as a byte */
	    anchor_counts(fd, sk->flags & SOCK_F_ACTIVE, &sent) ||
	    anchor_consumed(fd, &got))
		return false;
	uint32_t rung = (uint32_t)(sent - c->tx_tcp_base);
	uint32_t drained = (uint32_t)(got - c->rx_tcp_base);
	/* Of each half, one may have been counted and not sent. */
	if (load_rlx(&me->bells) - rung > 2 ||
	    drained - c->bells_drained >
		load_rlx(&shm_peer(sk)->bells) - c->bells_drained)
		return false;
	store_rlx(&me->bells, rung);
	store_rlx(&c->bells_drained, drained);
	store_rlx(&sk->w->n_ringing, 0u);
	return true;
}

/* Does TCP hold bytes that are no doorbells? A peer that sends by ring counts
 * each doorbell before it sends it, and writes BACK before its stream goes on
 * in TCP.  Bytes that we put back ourselves follow our FALLBACK.  So look at
 * TCP's bytes first and at the counts afterwards.  Do not look at anything in
 * between that another thread may drain. */
static bool has_uncounted(const struct sock *sk, int fd)
{
	uint32_t drained = load_acq(&shm_of(sk)->bells_drained);
	int n = 0;

	if (sock_mode(sk) != SOCK_SHM || load_rlx(&shm_w(sk)->rx_tcp) ||
	    load_rlx(&shm_w(sk)->rx_back) || shm_is_broken(sk) ||
	    libc.ioctl(fd, FIONREAD, &n) < 0 || n <= 0)
		return false;
	fence_full();
	if (load_acq(&shm_me(sk)->flags) & SEG_FALLBACK)
		return false;
	if (load_acq(&shm_peer(sk)->flags) & SEG_TX_BACK) /* S2 */
		return !ring_rx_ready(&shm_of(sk)->rx);
	return (uint32_t)n > load_acq(&shm_peer(sk)->bells) - drained;
}

/* The anchor has unread bytes that are no doorbells: the peer breaks the protocol.  A
 * thread that waits for the ring would never sleep, and find nothing, so end the
 * connection.  But another thread may have put another file under the number @fd, which has
 * unread bytes of its own. */
void anchor_not_rung(struct sock *sk, int fd)
{
	int saved = errno;

	if (likely(ring_rx_ready(&shm_of(sk)->rx)) || !has_uncounted(sk, fd) ||
	    !sock_try_rx(sk)) {
		errno = saved;
		return;
	}
	if (has_uncounted(sk, fd) && fds_cookie(fd) == shm_of(sk)->cookie)
		shm_broken(sk, fd, "bytes by TCP beside the ring");
	sock_unlock_rx(sk);
	errno = saved;
}
