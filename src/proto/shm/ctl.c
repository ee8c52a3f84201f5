/* SPDX-License-Identifier: MIT */
/*
 * proto/shm/ctl.c - readiness, arming, shutdown, close, and fallback
 *
 * While both ends use the rings, we hold the anchor's own FIN back, because a
 * side that has shut down writing must still ring when it frees space.  The
 * peer reads the FIN mark in the ring instead.  The kernel's FIN follows when
 * both halves are shut, or at close().
 */
#include <errno.h>
#include <linux/sockios.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fds.h"
#include "base/libc.h"
#include "base/log.h"
#include "base/nocancel.h"
#include "proto/shm/inbox.h"
#include "proto/shm/shm.h"
#include "sock/shared.h"
#include "sock/linger.h"
#include "sock/arena.h"

/* Writable means that this part of the ring is free; in the kernel it is a
 * third. */
#define WRITABLE_PART 8

/* An honest peer sets a flag once, so the second look finds it.  A hostile one may
 * set and clear it for ever. */
#define LOOKS_MAX 3

void shm_broken(struct sock *sk, int fd, const char *why)
{
	struct sockaddr unspec = { .sa_family = AF_UNSPEC };

	if (load_rlx(&shm_w(sk)->rx_broken))
		return;
	log_err(
	    "fd %d: the peer broke the segment's protocol: %s; connection reset",
	    fd, why);
	sock_set_reason(sk, OSF_REASON_BROKEN);
	count(&arena_totals()->n_broken, 1);
	store_rlx(&shm_w(sk)->rx_broken, (uint8_t)1);
	SOCK_PUT(sk, anchor_end, (uint8_t)ANCHOR_RST);
	fetch_or(&shm_me(sk)->flags, SEG_CLOSED);
	/* connect(AF_UNSPEC) resets and leaves the descriptor the program's. */
	nocancel_connect(fd, &unspec, sizeof(unspec));
}

/* Ask the kernel, in the phases in which it carries the stream. */
static unsigned tcp_events(int fd, unsigned want)
{
	struct pollfd p = { .fd = fd, .events = (short)(want | POLLRDHUP) };
	int saved = errno;
	int n = nocancel_poll(&p, 1, 0);

	errno = saved;
	return n > 0 ? (unsigned short)p.revents : 0;
}

static bool tx_writable_locked(struct sock *sk, int fd)
{
	/* A writer that holds a record back does not move to the other half,
	 * and has no room until it does. */
	if (unlikely(load_rlx(shm_of(sk)->tx.tail_pub) == RING_TAIL_MOVE)) {
		sock_changes_tx(sk);
		if (shm_of(sk)->corked_bytes)
			shm_flush(sk, fd);
	}
	/* The next send reports a corrupt tail.  It must not hang the program
	 * here. */
	if (ring_tx_refresh(&shm_of(sk)->tx))
		return true;
	if (unlikely(load_rlx(&shm_of(sk)->tx_full_ns))) {
		sock_changes_tx(sk);
		shm_tx_stretch(sk);
	}
	if (shm_of(sk)->tx_limit &&
	    ring_tx_used(&shm_of(sk)->tx) >= shm_of(sk)->tx_limit)
		return false;
	return ring_tx_room(&shm_of(sk)->tx) >=
	       shm_of(sk)->tx.size / WRITABLE_PART;
}

static bool tx_writable(struct sock *sk, int fd)
{
	if (likely(!shm_of(sk)->tx_limit && ring_tx_spacious(&shm_of(sk)->tx)))
		return true;
	sock_look_tx(sk);
	bool writable = tx_writable_locked(sk, fd);
	sock_unlock_tx(sk);
	return writable;
}

static bool rx_enough(struct sock *sk)
{
	uint32_t low = (uint32_t)load_rlx(&sk->w->rcvlowat);
	enum ring_mark mark;

	if (likely(low <= 1))
		return ring_rx_ready(&shm_of(sk)->rx);
	SOCK_LOOK_RX(sk);
	return ring_rx_bytes(&shm_of(sk)->rx, low, &mark) >= low ||
	       mark != RING_NONE;
}

/* Even if nobody reads or writes a candidate, notice when its peer is ready. */
static void pending_ask(struct sock *sk, int fd)
{
	if (!sock_lock_mode(sk, SOCK_PENDING))
		return;
	shm_pending_step(sk, fd);
	sock_unlock_both(sk);
}

/* Before SHM: true if the kernel has the answer.  It does not if the peer has
 * just become ready, because then the readable bytes may be a doorbell. */
static COLD bool kernel_events(struct sock *sk, int fd, unsigned *ev)
{
	int looks = 0;

	do {
		if (sock_mode(sk) == SOCK_PENDING)
			pending_ask(sk, fd);
		if (sock_mode(sk) == SOCK_SHM)
			return false;
		*ev = tcp_events(fd, POLLIN | POLLOUT | POLLPRI);
	} while (*ev & POLLIN && sock_mode(sk) == SOCK_PENDING &&
		 load_acq(&shm_peer(sk)->flags) & SEG_READY &&
		 !sk->w->anchor_err && ++looks < LOOKS_MAX);
	return true;
}

/* The same for the TCP bytes that come before the ring. */
static COLD bool rx_tcp_events(struct sock *sk, int fd, unsigned *ev)
{
	unsigned tcp;
	int looks = 0;

	do {
		if (shm_rx_sync(sk, fd))
			return false;
		tcp = tcp_events(fd, POLLIN);
	} while (tcp & POLLIN && shm_of(sk)->rx_tcp_left < 0 &&
		 load_acq(&shm_peer(sk)->flags) & SEG_TX_RING &&
		 ++looks < LOOKS_MAX);
	if (tcp & (POLLERR | POLLHUP | POLLRDHUP))
		anchor_ask(sk, fd);
	*ev |= tcp & (POLLIN | POLLRDNORM);
	if (readahead_bytes(sk))
		*ev |= POLLIN | POLLRDNORM;
	return true;
}

/* TCP carries the stream again.  A doorbell in front of its bytes does not
 * make the socket readable. */
static COLD unsigned rx_back_events(struct sock *sk, int fd)
{
	unsigned tcp = tcp_events(fd, POLLIN);
	int n = 0, saved = errno;

	if (!(tcp & POLLIN) || load_rlx(&shm_w(sk)->fell_back))
		return tcp & ~(unsigned)POLLOUT;
	anchor_clear(sk, fd);
	uint32_t due = load_acq(&shm_peer(sk)->bells) -
		       load_rlx(&shm_of(sk)->bells_drained);
	tcp = tcp_events(fd, POLLIN);
	if (due && !(tcp & POLLRDHUP) && !libc.ioctl(fd, FIONREAD, &n) &&
	    (uint32_t)n <= due)
		tcp &= ~(unsigned)(POLLIN | POLLRDNORM);
	errno = saved;
	return tcp & ~(unsigned)POLLOUT;
}

/* May the next record be the BACK mark, after which TCP continues? */
static bool may_be_back(const struct sock *sk)
{
	if (load_rlx(&shm_of(sk)->rx.len))
		return false;
	uint64_t hdr = load_acq(load_acq(&shm_of(sk)->rx.at)); /* A4, A1 */
	return hdr >> 32 == RING_BACK || ring_is_jump(hdr);
}

/* If it is, the ring has ended, and the mark does not make the socket
 * readable. */
static COLD bool rx_goes_back(struct sock *sk)
{
	enum ring_mark mark;
	SOCK_LOOK_RX(sk);

	if (!ring_rx_bytes(&shm_of(sk)->rx, 1, &mark) && mark == RING_BACK) {
		store_rlx(&shm_w(sk)->rx_back, (uint8_t)1);
		shm_note_back(sk);
	}
	return load_rlx(&shm_w(sk)->rx_back);
}

/* Add to @want what the error queue and the end of the connection say. */
static COLD unsigned queue_events(struct sock *sk, int fd, unsigned want)
{
	short ends =
	    load_rlx(&shm_w(sk)->tx_ring) ? POLLHUP | POLLRDHUP : POLLHUP;
	short said;
	unsigned ev = errq_events(sk, fd, want, &said);

	if (said & ends)
		anchor_ask(sk, fd);
	return ev;
}

/* The TCP connection has ended: reads end, and sends do not wait for their error. */
static COLD unsigned anchor_end_events(const struct sock *sk, int fd)
{
	unsigned ev = POLLIN | POLLRDNORM | POLLRDHUP | POLLOUT | POLLWRNORM;

	if (load_rlx(&sk->w->anchor_end) != ANCHOR_RST)
		return ev;
	ev |= POLLHUP;
	if (load_rlx(&sk->w->anchor_err))
		ev |= POLLERR;
	/* Of a peer that died, TCP's error is that of a doorbell. */
	return shm_w(sk)->peer_died ? ev : ev | (tcp_events(fd, 0) & POLLERR);
}

unsigned shm_events(struct sock *sk, int fd)
{
	unsigned ev = 0;

	sock_refresh(sk);
	if (unlikely(load_rlx(&sk->is_kept))) /* nothing else will tell */
		return POLLIN | POLLOUT | POLLRDNORM | POLLWRNORM;
	uint8_t shut = load_rlx(&sk->w->shut);
	if (unlikely(sock_mode(sk) != SOCK_SHM) && kernel_events(sk, fd, &ev))
		return ev;
	shm_reset_due(sk, fd);
	if (unlikely(shm_is_broken(sk)))
		return POLLIN | POLLOUT | POLLERR | POLLHUP | POLLRDHUP |
		       POLLRDNORM | POLLWRNORM;

	/* Do this even if nobody reads, because a sleeper must wake when bytes
	 * are due. */
	if (shm_is_corked(sk))
		shm_poll_corked(sk);
	/* Once: this line is the peer's. */
	uint32_t peer = load_acq(&shm_peer(sk)->flags); /* S2 */
	/* A thread that only sleeps here ends our direction, too. */
	if (unlikely(peer & SEG_WANT_BACK) && shm_wants_back(sk))
		shm_fallback(sk, fd, OSF_REASON_NONE);
	bool rx_done = load_rlx(&shm_w(sk)->rx_eof) || peer & SEG_TX_FIN ||
		       shut & SHUT_BIT_RD;
	if (unlikely(load_rlx(&shm_w(sk)->rx_back))) {
		ev |= rx_back_events(sk, fd);
	} else if (unlikely(load_rlx(&shm_w(sk)->rx_tcp)) &&
		   rx_tcp_events(sk, fd, &ev)) {
		;
	} else if (rx_done) {
		ev |= POLLIN | POLLRDNORM;
	} else if (rx_enough(sk)) {
		ev |= unlikely(may_be_back(sk)) && rx_goes_back(sk)
			  ? rx_back_events(sk, fd)
			  : POLLIN | POLLRDNORM;
	}
	bool by_tcp = !load_rlx(&shm_w(sk)->tx_ring);
	bool by_none = unlikely(peer & SEG_FALLBACK) && shm_is_unsettled(sk);
	if (unlikely(by_none))
		store_rlx(&shm_of(sk)->saw_unsettled, (uint8_t)1);
	if (unlikely(by_none))
		;
	else if (unlikely(by_tcp))
		ev |= queue_events(sk, fd, POLLOUT | POLLWRNORM);
	else if (unlikely(load_rlx(&sk->w->errq)))
		ev |= queue_events(sk, fd, 0);
	if (unlikely(load_rlx(&sk->w->anchor_end) != ANCHOR_OPEN)) {
		ev |= anchor_end_events(sk, fd);
		rx_done = true;
	}
	if (unlikely(peer & SEG_TX_BACK))
		ev |= tcp_events(fd, POLLPRI) & POLLPRI;
	if (likely(!by_tcp && !by_none) &&
	    (shut & SHUT_BIT_WR || peer & SEG_CLOSED || tx_writable(sk, fd)))
		ev |= POLLOUT | POLLWRNORM;
	if (rx_done) {
		ev |= POLLRDHUP;
		if (shut & SHUT_BIT_WR)
			ev |= POLLHUP;
	}
	return ev;
}

/* Tell the peer about space that we freed silently: it may wait for that while
 * we wait for it. */
static void tell_of_space(struct sock *sk, int fd)
{
	if (load_rlx(&shm_w(sk)->rx_tcp) ||
	    (!sk->page && load_rlx(&shm_of(sk)->rx.published) ==
			      load_rlx(&shm_of(sk)->rx.off)))
		return;
	SOCK_LOOK_RX(sk);
	if (!sock_is_ours(sk) || shm_of(sk)->rx.published == shm_of(sk)->rx.off)
		return;
	sock_changes_rx(sk);
	if (ring_publish(&shm_of(sk)->rx))
		shm_notify_space(sk, fd);
}

bool shm_has_inbox(const struct sock *sk)
{
	return inbox_of(shm_of(sk)->inbox_tag);
}

/* The peer has copies of the bells of one process: the one whose inbox it
 * maps. */
static bool peer_has_bell(const struct sock *sk, uint32_t bell)
{
	return bell_own_fd(bell) >= 0 &&
	       load_rlx(&shm_peer(sk)->has_bell1) == bell + 1 &&
	       shm_has_inbox(sk);
}

bool shm_arm_bell(struct sock *sk, int fd)
{
	uint32_t bell = bell_mine(), *word = &shm_me(sk)->rx_bell1;
	uint32_t was = load_rlx(word), how = bell + 1;

	if (load_rlx(&shm_w(sk)->rx_tcp) || sock_procs(sk) > 1 ||
	    shm_ring_how(sk) != RING_ONCE || !peer_has_bell(sk, bell) ||
	    (was && (was & ~RING_ONLY_ONE) != bell + 1)) /* another thread's */
		return false;
	/* The word that all peers can clear is for who looks up now and then. */
	if (!bell_is_private(bell)) {
		how |= RING_ONLY_ONE;
		store_rlx(&inbox_of(shm_of(sk)->inbox_tag)->bell[bell].sleeping,
			  1u);
	}
	if (!cas(word, was, how))
		return false;
	fence_full(); /* Dekker; the caller looks next */
	tell_of_space(sk, fd);
	return true;
}

void shm_disarm_bell(struct sock *sk)
{
	uint32_t bell = bell_mine(), *word = &shm_me(sk)->rx_bell1;
	uint32_t was = load_rlx(word);

	if ((was & ~RING_ONLY_ONE) == bell + 1)
		cas(word, was, 0u);
	struct inbox *in = inbox_of(shm_of(sk)->inbox_tag);
	if (bell < BELLS && in)
		store_rlx(&in->bell[bell].sleeping, 0u);
}

void shm_arm(struct sock *sk, int fd, unsigned events, enum shm_arm how)
{
	struct seg_side *me = shm_me(sk);

	uint32_t *rx = how == ARM_INBOX ? &me->rx_inbox : &me->rx_anchor;
	uint32_t *tx = how == ARM_INBOX ? &me->tx_inbox : &me->tx_anchor;
	bool fresh = false;

	/* A slot that is already armed needs no fence: an exchange has cleared
	 * its bit before the caller's next look. */
	if (events & POLLIN && (how == ARM_ANCHOR || !load_rlx(rx))) {
		store_rlx(rx, how == ARM_ANCHOR ? shm_ring_how(sk) : 1u);
		fresh = true;
	}
	if (events & POLLOUT) {
		store_rlx(tx, 1u);
		fresh = true;
	}
	if (fresh)
		fence_full(); /* Dekker; the caller looks next */
	if (events & POLLIN)
		tell_of_space(sk, fd);
}

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

int shm_inq(struct sock *sk, int fd)
{
	enum ring_mark mark;
	int n = 0, looks = 0;

	/* Doorbells are not bytes of the stream.  While TCP has both, count
	 * only the stream's. */
	while (shm_w(sk)->rx_tcp && !shm_rx_sync(sk, fd) &&
	       shm_of(sk)->rx_tcp_left < 0 && looks++ < LOOKS_MAX) {
		if (load_rlx(&shm_w(sk)->rx_broken))
			return 0;
		if (libc.ioctl(fd, FIONREAD, &n) < 0)
			return -errno;
		if (sock_mode(sk) == SOCK_KERNEL ||
		    !(load_acq(&shm_peer(sk)->flags) & SEG_TX_RING))
			return n + (int)readahead_bytes(sk);
	}
	SOCK_LOOK_RX(sk);
	if (sock_mode(sk) == SOCK_KERNEL)
		return libc.ioctl(fd, FIONREAD, &n) < 0 ? -errno : n;
	if (shm_is_corked(sk))
		shm_uncork(sk, false);
	int in_ring = (int)ring_rx_bytes(&shm_of(sk)->rx, INT32_MAX, &mark);
	if (!shm_w(sk)->rx_tcp && !shm_w(sk)->rx_back) {
		if (in_ring || mark != RING_BACK)
			return in_ring;
		store_rlx(&shm_w(sk)->rx_back, (uint8_t)1);
		shm_note_back(sk);
	}
	if (shm_w(sk)->rx_back)
		anchor_drain(sk, fd);
	if (libc.ioctl(fd, FIONREAD, &n) < 0)
		return -errno;
	if (shm_w(sk)->rx_back)
		return n;
	int held = (int)readahead_bytes(sk);
	if (n < shm_of(sk)->rx_tcp_left)
		return held + n; /* more is on its way before the ring */
	return held + (int)shm_of(sk)->rx_tcp_left + in_ring;
}

/*
 * The kernel's SIOCOUTQ counts what the other host has not acknowledged, and a
 * receiving kernel acknowledges what its buffer can hold.  The ring stands for
 * both buffers, so its older half counts as acknowledged.
 */
int shm_outq(struct sock *sk, int fd)
{
	int n = 0;
	SOCK_GUARD_TX(sk);

	if (!shm_w(sk)->tx_ring)
		return libc.ioctl(fd, SIOCOUTQ, &n) < 0 ? -errno : n;
	if (ring_tx_refresh(&shm_of(sk)->tx))
		return 0;
	uint32_t used = ring_tx_used(&shm_of(sk)->tx);
	if (used > shm_of(sk)->tx.size / 2)
		return (int)(used - shm_of(sk)->tx.size / 2);
	return (int)shm_of(sk)->corked_bytes;
}

/*
 * Fall back to the kernel.  Our direction ends with a BACK mark and continues
 * in TCP.  We ask the peer to do the same at its next call.
 */
void shm_fallback(struct sock *sk, int fd, enum osf_reason reason)
{
	if (!sock_lock_mode(sk, SOCK_SHM))
		return;
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
	sock_unlock_both(sk);
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
