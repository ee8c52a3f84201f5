/* SPDX-License-Identifier: MIT */
/*
 * proto/shm/shut.c - shutdown(), the fallback that both ends do, and what is put off
 *
 *     shutdown(), setsockopt(), recvmsg()  ->  a half that another process keeps?
 *         no   done at once
 *         yes  noted in w->due, and done by shm_do_due(): at the next call of this
 *              process, or by the other one as soon as it has released the half
 *
 * While both ends use the rings, we hold the anchor's own FIN back, because a side that
 * has shut down writing must still ring when it frees space.  The peer reads the FIN mark
 * in the ring instead.  The kernel's FIN follows when both halves are shut, or at close().
 *
 * A process of our user that holds the connection, too, may stop inside a call (SIGSTOP, a
 * debugger).  Nobody waits for it for more than PAGE_WAIT_NS a half, and nothing is lost:
 * what is noted here may be done later and by anybody, in any order, twice.
 *
 * On return from shutdown() this process's calls see the direction shut, done or noted.
 */
#include <errno.h>
#include <sys/socket.h>

#include "base/libc.h"
#include "proto/shm/shm.h"
#include "sock/arena.h"
#include "sock/shared.h"

static_assert((int)SHM_DUE_SHUT_RD == SHUT_BIT_RD, "one is read as the other");
static_assert((int)SHM_DUE_SHUT_WR == SHUT_BIT_WR, "one is read as the other");

#define DUE_SHUT (SHM_DUE_SHUT_RD | SHM_DUE_SHUT_WR)
#define DUE_TX (SHM_DUE_FLUSH | SHM_DUE_SNDBUF)

void shm_push_fin(struct sock *sk)
{
	shm_release(sk);
	ring_push_mark(&shm_of(sk)->tx, RING_FIN);
	shm_of(sk)->tx_fin = 1;
	fetch_or(&shm_me(sk)->flags, SEG_TX_FIN); /* S2 */
}

static uint8_t bits_of(int how)
{
	return how == SHUT_RD   ? SHUT_BIT_RD
	       : how == SHUT_WR ? SHUT_BIT_WR
				: SHUT_BIT_RD | SHUT_BIT_WR;
}

static int how_of(uint8_t bits)
{
	return !(bits & SHUT_BIT_WR) ? SHUT_RD
	       : bits & SHUT_BIT_RD  ? SHUT_RDWR
				     : SHUT_WR;
}

static void tx_shut(struct sock *sk, int fd)
{
	if (fetch_or(&sk->w->shut, (uint8_t)SHUT_BIT_WR) & SHUT_BIT_WR &&
	    shm_of(sk)->tx_fin)
		return;
	if (shm_w(sk)->tx_ring && shm_has_fallen_back(sk))
		shm_tx_fell_back(sk, fd, 0);
	if (!shm_w(sk)->tx_ring || shm_is_broken(sk)) {
		shm_fin(sk, fd);
		return;
	}
	shm_push_fin(sk);
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
	bool has_ended = load_acq(&shm_peer(sk)->flags) & SEG_TX_FIN ||
			 load_rlx(&shm_w(sk)->peer_died);
	return shm_of(sk)->tx_fin && has_ended ? -ENOTCONN : 0;
}

#define SLEEPERS 4
static_assert(!(SLEEPERS & (SHUT_BIT_RD | SHUT_BIT_WR)), "");

/* Shut the direction in the ring.  The caller holds the tx lock.  Return what the caller
 * has to do to the kernel's socket: SHUT_BIT_*: shut it in these directions, too; SLEEPERS:
 * wake threads that sleep there; 0: nothing. */
static int shut_locked(struct sock *sk, int fd, int how)
{
	if (how != SHUT_WR)
		fetch_or(&sk->w->shut, (uint8_t)SHUT_BIT_RD);
	if (how != SHUT_RD)
		tx_shut(sk, fd);
	/* Both halves are shut, or ours and the peer's.  Nobody will have to
	 * ring any more, so shut the kernel's socket too. */
	uint8_t shut = load_rlx(&sk->w->shut);
	bool both = shut == (SHUT_BIT_RD | SHUT_BIT_WR) ||
		    (shut & SHUT_BIT_WR && shm_w(sk)->rx_eof);
	if (shm_of(sk)->fin_due)
		both = false;
	fence_full(); /* Dekker with ring_begin(): it looks whether the direction is shut */
	bool sleepers = load_rlx(how == SHUT_WR ? &sk->w->n_tx_sleepers
						: &sk->w->n_sleepers) > 0;
	/* Either way the kernel's socket will show an end that is not the peer's. */
	if (both ? shut & SHUT_BIT_RD : sleepers)
		SOCK_PUT(sk, anchor_deaf, (uint8_t)1);
	return both ? shut : sleepers ? SLEEPERS : 0;
}

/* Shut the kernel's socket, too.  @shut: all directions that the program has shut, with
 * this call and before, because the kernel has not been told of those before.  Only a
 * kernel that has been told of both answers with a reset what the peer still sends. */
static int shut_tcp(struct sock *sk, int fd, uint8_t shut)
{
	/* It may be over by now: our FIN may have met the peer's. */
	if (libc.shutdown(fd, how_of(shut)) < 0 && errno != ENOTCONN)
		return -errno;
	if (shut == (SHUT_BIT_RD | SHUT_BIT_WR))
		fetch_or(&shm_me(sk)->flags, SEG_SHUT);
	return 0;
}

/* -EAGAIN: another process keeps a half; -ESTALE: the kernel has the connection. */
static int shut_try(struct sock *sk, int fd, int how)
{
	bool is_candidate = sock_mode(sk) == SOCK_PENDING;
	int err = -ESTALE, next = 0;

	/* Only a candidate's mode may change here. */
	if (is_candidate ? !sock_take_both(sk) : !sock_take_tx(sk))
		return -EAGAIN;
	if (is_candidate && sock_mode(sk) == SOCK_PENDING)
		shm_pending_decide(sk, fd);
	if (sock_mode(sk) != SOCK_KERNEL && !shm_w(sk)->fell_back)
		err = is_over(sk, fd);
	if (!err)
		next = shut_locked(sk, fd, how);
	sock_unlock_tx(sk);
	if (is_candidate)
		sock_unlock_rx(sk);
	if (next && next != SLEEPERS)
		return shut_tcp(sk, fd, (uint8_t)next);
	if (next)
		libc.shutdown(fd, SHUT_RD); /* wakes them; sends nothing */
	return err;
}

int shm_shutdown(struct sock *sk, int fd, int how)
{
	if (how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR)
		return -EINVAL;
	int err = shut_try(sk, fd, how);
	if (likely(err != -EAGAIN))
		return err;
	struct sock_words *w;
	do {
		w = load_acq(&sk->w);
		fetch_or(&w->shut, bits_of(how));
		fence_full();
	} while (w != load_acq(&sk->w)); /* as SOCK_PUT() */
	shm_leave_due(sk, fd, bits_of(how));
	return 0;
}

/*
 * Fall back to the kernel.  Our direction ends with a BACK mark and continues
 * in TCP.  We ask the peer to do the same at its next call.
 */

static void fallback_locked(struct sock *sk, int fd, enum osf_reason reason)
{
	if (shm_has_fallen_back(sk)) {
		shm_tx_fell_back(sk, fd, 0);
	} else if (shm_w(sk)->tx_ring && !shm_of(sk)->tx_fin) {
		fetch_or(&shm_me(sk)->flags, SEG_WANT_BACK);
		anchor_back(sk, fd);
		sock_set_reason(sk, reason != OSF_REASON_NONE
					? reason
					: OSF_REASON_PEER_BACK);
		shm_note_back(sk);
		count(&arena_totals()->n_fallbacks, 1);
	}
}

static int fallback_try(struct sock *sk, int fd, enum osf_reason reason)
{
	if (!sock_take_both(sk))
		return -EAGAIN;
	/* First let a candidate's peer decide whether it upgrades. */
	if (sock_mode(sk) == SOCK_PENDING && reason != OSF_REASON_NONE)
		shm_pending_decide(sk, fd);
	if (sock_mode(sk) == SOCK_SHM)
		fallback_locked(sk, fd, reason);
	sock_unlock_both(sk);
	return 0;
}

int shm_fallback(struct sock *sk, int fd, enum osf_reason reason)
{
	int err = fallback_try(sk, fd, reason);

	/* If the peer has asked for it, its flag stays set, and the next call tries again. */
	if (likely(!err) || reason == OSF_REASON_NONE)
		return err;
	SOCK_PUT(sk, due_why, (uint8_t)reason);
	shm_leave_due(sk, fd, SHM_DUE_BACK);
	return load_rlx(&sk->w->due) & SHM_DUE_BACK ? -EAGAIN : 0;
}

/*
 * What is put off.
 */

/* The other process releases the half, fences, and looks at what is due; we note it,
 * fence, and look at the half. */
COLD void shm_leave_due(struct sock *sk, int fd, uint8_t what)
{
	struct sock_words *w;

	do {
		w = load_acq(&sk->w);
		fetch_or(&w->due, what);
		fence_full();
	} while (w != load_acq(&sk->w)); /* as SOCK_PUT() */
	store_rlx(&sk->is_kept, (uint8_t)1);
	shm_tell_self(sk);
	if (shared_is_free(sk))
		shm_do_due(sk, fd);
}

static void is_done(struct sock *sk, uint8_t what)
{
	fetch_and(&sk->w->due, (uint8_t)~what);
}

static void do_tx(struct sock *sk, int fd, uint8_t due)
{
	if (!sock_take_tx(sk))
		return;
	is_done(sk, DUE_TX); /* first: somebody may ask for it again */
	if (due & SHM_DUE_SNDBUF)
		shm_sndbuf_changed(sk, fd);
	if (due & SHM_DUE_FLUSH && shm_w(sk)->tx_ring)
		shm_flush(sk, fd);
	sock_unlock_tx(sk);
}

static void do_shut(struct sock *sk, int fd, uint8_t what)
{
	int err = shut_try(sk, fd, how_of(what));

	if (err == -EAGAIN)
		return;
	if (err == -ESTALE)
		libc.shutdown(fd, how_of(what));
	is_done(sk, what);
}

static void do_fallback(struct sock *sk, int fd)
{
	uint8_t why = load_rlx(&sk->w->due_why); /* any value is possible */

	if (!fallback_try(sk, fd,
			  why < OSF_REASONS && why ? (enum osf_reason)why
						   : OSF_REASON_OPTION))
		is_done(sk, SHM_DUE_BACK);
}

/* The kernel knows how much went through its socket. */
static void do_repair(struct sock *sk, int fd)
{
	if (!page_repair_begin(sk))
		return;
	is_done(sk, SOCK_DUE_REPAIR);
	if (!sk->is_lost && sock_ops(sk)->repair &&
	    !sock_ops(sk)->repair(sk, fd))
		shared_lose(sk, "a process that died in the middle of a call");
	sock_unlock_both(sk);
}

static COLD bool do_all(struct sock *sk, int fd, uint8_t due)
{
	int saved = errno;

	if (due & SOCK_DUE_REPAIR)
		do_repair(sk, fd);

	if (due & DUE_TX)
		do_tx(sk, fd, due);
	if (due & DUE_SHUT)
		do_shut(sk, fd, due & DUE_SHUT);
	if (due & SHM_DUE_BACK)
		do_fallback(sk, fd);
	if (due & SHM_DUE_SPACE) {
		is_done(sk, SHM_DUE_SPACE);
		shm_tell_of_space(sk, fd);
	}
	errno = saved;
	return !load_rlx(&sk->w->due);
}

bool shm_do_due(struct sock *sk, int fd)
{
	uint8_t due = load_acq(&sk->w->due);

	return likely(!due) || do_all(sk, fd, due);
}

COLD bool shm_is_kept(struct sock *sk, int fd)
{
	bool is_due = load_rlx(&sk->w->due);

	if (is_due && !shm_do_due(sk, fd))
		return true;
	if (!load_rlx(&sk->page))
		store_rlx(&sk->is_kept, (uint8_t)0);
	else if (is_due)
		sock_refresh(sk);
	return load_rlx(&sk->is_kept);
}

COLD bool shm_is_repaired(struct sock *sk, int fd)
{
	if (!(load_rlx(&sk->w->due) & SOCK_DUE_REPAIR))
		return false;
	shm_do_due(sk, fd);
	return !(load_rlx(&sk->w->due) & SOCK_DUE_REPAIR);
}

/* The kernel is about to have the connection, and nobody comes here any more. */
void shm_due_by_kernel(struct sock *sk, int fd)
{
	uint8_t due = xchg(&sk->w->due, (uint8_t)0);

	if (unlikely(due & DUE_SHUT))
		libc.shutdown(fd, how_of(due & DUE_SHUT));
}
