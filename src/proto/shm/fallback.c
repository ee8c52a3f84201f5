/* SPDX-License-Identifier: MIT */
/*
 * proto/shm/fallback.c - fall back to TCP at once, without the peer's help
 *
 *     reader                                  writer, at its next call
 *     sets FALLBACK
 *     sets the cut, where the ring ends  ..or..  sets the cut: proto/shm/cut.c
 *     reads up to the cut                     takes its bytes behind the cut back
 *     sets SETTLED                            sends by TCP
 *
 * Somebody who knows nothing of rings is about to use the descriptor: a
 * program that exec() starts, a process that receives the descriptor,
 * io_uring.  So when shm_fallback_now() returns, TCP must carry the rest of the
 * peer's stream and nothing else, however long the peer sleeps.
 *
 * Our own direction ends with a BACK mark, as in a fallback that both sides
 * agree on.  The peer's direction ends where we stop reading.  The peer
 * publishes a record, fences and checks FALLBACK; we set FALLBACK, fence and look
 * at the ring.  At least one of us sees the other.  So we read all records of
 * calls that have returned.  Only the call that is writing right now may have
 * to send some of its bytes again, and it can, because it has not returned.
 * Doorbells follow the same rule: we wait for each one counted before FALLBACK,
 * and the peer sends none after.
 *
 * The stash holds what the application has not read yet.  It must come before
 * what TCP will bring, and only the peer's socket can put it there.  If the
 * kernel gives a process of ours a copy of that socket (pidfd_getfd(2): same user,
 * tracing allowed), that process writes the stash into it: struct far_end.  Otherwise
 * the caller has to deliver it.  The same if the peer keeps its socket busy: the process
 * writes when the socket is free, says how much, and a relay throws that away.  Only then we
 * have settled.
 *
 * If both sides fall back, only the first may put bytes back (seg.first_back).  So the
 * first never waits for the second.  The second waits a moment until the first has
 * settled.  If that takes longer, what its descriptor's next user sends goes through
 * the relay, which holds it back until then.
 *
 * Another process that holds the connection may have stopped inside a call, with a half.
 * Nobody but that process knows how far the stream has come.  Then a relay waits for it in
 * our place (file/relay.c), and falls back when the half is free: shm_fallback_late().
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/libc.h"
#include "base/nocancel.h"
#include "base/rawcall.h"
#include "proto/shm/elsewhere.h"
#include "proto/shm/fallback.h"
#include "proto/shm/shm.h"
#include "sock/arena.h"
#include "sock/shared.h"

#define NAP_MAX_NS (20 * NS_PER_MS) /* of a relay, between two looks */
#define NOT_ASKED (-1)              /* a channel: for the peer's descriptor */
#define NOT_TO_ASK (-2)

/* One limit for everything that a fallback waits for, and also for a peer that
 * was first.  The relay waits for whatever has not arrived by then. */
#define SETTLE_NS (2 * NS_PER_MS)
/* A process that has waited in vain waits for a shorter time at its next
 * connection, because it may have thousands of such connections. */
#define IMPATIENT_NS (100 * NS_PER_MS)

/* When we have waited in vain for a peer that was first. */
static uint64_t second_ns;

/* When a wait that begins now ends.  @last: when one was in vain. */
static uint64_t settle_until(const uint64_t *vain)
{
	uint64_t now = now_ns(), last = load_rlx(vain);

	return last && now - last < IMPATIENT_NS ? now : now + SETTLE_NS;
}

/* Has a process of its own copy the peer's descriptor of the anchor.  The peer says where it
 * is, so nothing of that is used in this process. */
static bool borrow_from_peer(const struct sock *sk, int fd,
			     struct far_end *other)
{
	const struct seg_side *p = shm_peer(sk);

	return !far_open(fd, (pid_t)load_rlx(&p->pid), load_rlx(&p->anchor_fd),
			 other);
}

/* The buffers of a TCP connection always have room for this much, once read. */
#define PUT_BACK_MAX (64u * 1024)

/* The kernel answers bytes for a socket that is shut in both directions with a reset.  What it
 * had before can be read. */
static bool is_shut(const struct sock *sk)
{
	return load_rlx(&sk->w->shut) == (SHUT_BIT_RD | SHUT_BIT_WR);
}

/* Can we put back all unread bytes ourselves, so that no relay is needed?  Then with
 * the descriptor in *@other. */
static bool may_put_back(struct sock *sk, int fd, struct far_end *other)
{
	enum ring_mark mark;

	if (load_acq(&shm_peer(sk)->flags) & (SEG_TX_BACK | SEG_FALLBACK))
		return false;
	if (readahead_bytes(sk) || is_shut(sk))
		return false;
	if (!shm_w(sk)->rx_back &&
	    ring_rx_bytes(&shm_of(sk)->rx, PUT_BACK_MAX + 1, &mark) >
		PUT_BACK_MAX)
		return false;
	return borrow_from_peer(sk, fd, other);
}

static void settle(struct sock *sk, int fd)
{
	fetch_or(&shm_me(sk)->flags, SEG_SETTLED); /* S4 */
	shm_notify_space(sk, fd); /* whoever waits for room looks again */
}

/* The peer has shut its direction down meanwhile, and may not look at it again. */
static void send_fin(struct sock *sk, int fd, struct far_end *other,
		     struct stash *st)
{
	if (other->channel == NOT_ASKED)
		borrow_from_peer(sk, fd, other);
	if (other->channel >= 0 && far_shut(other))
		st->has_end = true; /* and TCP's end comes later */
}

/* Another process is still putting bytes back.  Who reads them, the relay, settles then. */
static void settle_later(struct sock *sk, struct stash *st)
{
	st->told = &shm_me(sk)->flags;
	st->told_bit = SEG_SETTLED; /* S4 */
	st->ended = &shm_peer(sk)->flags;
	st->ended_bit = SEG_FIN_DUE; /* S7 */
}

/* End the peer's direction where we stop reading.  *@other: the peer's descriptor, or
 * NOT_ASKED; it may be borrowed here. */
static int end_rx(struct sock *sk, int fd, bool is_first, struct far_end *other,
		  struct stash *st)
{
	uint64_t until_ns = settle_until(&stash_vain_ns);
	int err = stash_rx(sk, fd, st, until_ns);

	if (shm_w(sk)->rx_eof)
		st->has_end = true;
	bool is_needed = is_first && !err && !is_shut(sk) && !st->is_late &&
			 !st->n_gap && !st->rung && (st->n || st->has_end);
	if (is_needed && other->channel == NOT_ASKED)
		borrow_from_peer(sk, fd, other);
	if (is_needed && other->channel >= 0)
		err = stash_put_back(fd, other, st, until_ns);
	/* Nothing behind it: TCP brings the gap and what follows. */
	if (st->n == st->n_first && !st->n_skip && !st->rung)
		st->n_gap = 0;
	ring_publish(&shm_of(sk)->rx);
	if (st->writer1) {
		settle_later(sk, st);
		return err;
	}
	settle(sk, fd);
	fence_full(); /* S7 */
	if (load_acq(&shm_peer(sk)->flags) & SEG_FIN_DUE) {
		/* It has sent nothing by TCP, since we had not settled. */
		st->has_end |= other->channel == NOT_TO_ASK;
		send_fin(sk, fd, other, st);
	}
	return err;
}

/* The peer was first: wait until it has put back what it had not read, because from
 * now on somebody may write to TCP who knows nothing of it.  If it needs longer, @st
 * says what the relay has to wait for. */
static void await_first(struct sock *sk, int fd, struct stash *st)
{
	struct timespec tick = ns_timespec(TICK_NS);
	uint64_t until_ns = settle_until(&second_ns);

	while (shm_is_unsettled(sk) && now_ns() < until_ns)
		nocancel_ppoll(NULL, 0, &tick, NULL);
	if (shm_is_unsettled(sk)) {
		store_rlx(&second_ns, now_ns());
		st->gate = &shm_peer(sk)->flags;
		st->gate_bit = SEG_SETTLED;
	} else if (shm_of(sk)->fin_due) {
		shm_fin(sk, fd);
	}
}

/* End our direction: the peer reads the ring to its end, then TCP. */
static int end_tx(struct sock *sk, int fd)
{
	if (shm_has_fallen_back(sk)) { /* both at once */
		ssize_t lost = shm_tx_fell_back(sk, fd, 0);

		return lost < 0 ? (int)lost : 0;
	}
	if (!shm_w(sk)->tx_ring)
		return 0;
	if (!shm_of(sk)->tx_fin) {
		anchor_back(sk, fd);
		return 0;
	}
	/* The FIN mark was notified, and so is room: there is nothing to ring for.  A
	 * doorbell might meet a peer that has closed, and its kernel's reset would be
	 * the next program's to see. */
	anchor_silence(sk);
	shm_fin(sk, fd);
	return 0;
}

/* Pass on the FIN that we held back.  If the stream ended well, drop a later
 * reset that only answers a doorbell that the peer did not read. */
static void end_rx_now(const struct sock *sk, int fd)
{
	int err;
	socklen_t len = sizeof(err);

	libc.shutdown(fd, SHUT_RD);
	if (!shm_is_reset(sk))
		libc.getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len);
}

/* The peer has just fallen back too.  Its last bytes stay in the ring, where
 * the processes that know the ring read them. */
static int leave_rest(struct sock *sk, int fd)
{
	settle(sk, fd);
	if (end_tx(sk, fd))
		shm_broken(sk, fd, "the cut");
	return 0;
}

/* From now on we fall back.  True: we are the first. */
static bool claim(struct sock *sk)
{
	return cas(&shm_of(sk)->seg->first_back, 0u, shm_of(sk)->side + 1u);
}

static int fallback_now_locked(struct sock *sk, int fd, enum osf_reason why,
			       bool gently, struct far_end *other,
			       struct stash *st)
{
	if (sock_mode(sk) == SOCK_PENDING)
		shm_pending_decide(sk, fd);
	if (sock_mode(sk) != SOCK_SHM || shm_w(sk)->fell_back)
		return 0;
	if (shm_is_broken(sk))
		return -ECONNRESET;
	if (gently && !may_put_back(sk, fd, other))
		return 0;
	bool is_first = claim(sk);
	if (gently && !is_first)
		return 0;
	store_rlx(&shm_me(sk)->rx_anchor, 1u); /* long writes look there */
	fetch_or(&shm_me(sk)->flags, SEG_FALLBACK | SEG_WANT_BACK);
	fence_full(); /* Dekker with tx.c and anchor_ring() */
	if (gently && load_acq(&shm_peer(sk)->flags) & SEG_TX_BACK)
		return leave_rest(sk, fd);
	int err = end_rx(sk, fd, is_first, other, st);
	if (!err)
		err = end_tx(sk, fd);
	if (!err && !is_first)
		await_first(sk, fd, st);
	st->is_shut = sk->w->shut & SHUT_BIT_WR;
	if (err) {
		shm_broken(sk, fd, "the kernel cannot take it");
		return err == -ENOMEM ? err : -ECONNRESET;
	}
	store_rlx(&shm_w(sk)->rx_tcp, (uint8_t)0);
	store_rlx(&shm_w(sk)->rx_back, (uint8_t)1);
	store_rlx(&shm_w(sk)->rx_eof, (uint8_t)0);
	store_rlx(&shm_w(sk)->fell_back, (uint8_t)1);
	anchor_restore(sk, fd);
	if (st->has_end && !stash_needs_relay(st))
		end_rx_now(sk, fd);
	sock_set_reason(sk, why);
	sk->st->proto = OSF_PROTO_INET;
	count(&arena_totals()->n_fallbacks, 1);
	if (stash_needs_relay(st)) /* others wait until it is there */
		sock_set_mode(sk, SOCK_UPGRADING);
	return 1;
}

/* Take both halves.  The next user of the descriptor cannot be put off, so another process
 * that has merely lost its core is given time to release its half.  A process that was
 * stopped may keep it for as long as somebody likes.  False: a relay has to wait for that
 * one. */
static bool take_both(struct sock *sk, int fd)
{
	uint64_t start = now_ns();

	while (!sock_take_both(sk)) {
		shm_do_due(sk, fd);
		if (!shared_is_stopped(sk) &&
		    now_ns() - start < PAGE_PATIENCE_NS)
			continue;
		if (sock_mode(sk) == SOCK_SHM)
			return false;
		shared_lose(sk, "a lock that another process keeps");
	}
	return true;
}

int shm_fallback_now(struct sock *sk, int fd, enum osf_reason why, bool gently,
		     struct stash *st)
{
	struct far_end other = { .channel = NOT_ASKED };
	int saved = errno;

	if (!take_both(sk, fd)) {
		errno = saved;
		return gently ? 0 : -EBUSY;
	}
	int r = fallback_now_locked(sk, fd, why, gently, &other, st);
	sock_unlock_both(sk);
	far_close(&other);
	if (unlikely(sk->page))
		shm_do_due(sk, fd);
	errno = saved;
	return r;
}

/* This runs in the relay, whose memory is a copy of the program's.  Another thread of the
 * program may have held a lock of this process when the copy was made.  So this asks
 * nothing of the peer's process, which would take such locks. */
int shm_fallback_late(struct sock *sk, int fd, enum osf_reason why,
		      struct stash *st)
{
	struct far_end other = { .channel = NOT_TO_ASK };
	uint64_t nap_ns = NS_PER_MS;

	while (!sock_take_both(sk)) {
		struct timespec nap = ns_timespec(nap_ns);

		shm_do_due(sk, fd);
		nocancel_ppoll(NULL, 0, &nap, NULL);
		nap_ns = MIN(2 * nap_ns, NAP_MAX_NS);
	}
	int r = fallback_now_locked(sk, fd, why, false, &other, st);
	if (sock_mode(sk) == SOCK_UPGRADING)
		sock_set_mode(sk, SOCK_KERNEL); /* the relay is there */
	sock_unlock_both(sk);
	shm_reset_due(sk, fd);
	return r;
}
