/* SPDX-License-Identifier: MIT */
/*
 * proto/shm/events.c - what poll() would say of a connection
 *
 *     the peer's flags, the rings  ->  shm_events()  ->  POLL* bits
 *     the kernel's poll(), while it carries a part of the stream, and of its end  -^
 *
 * A call may ask at any time, in any mode, and holds no lock.
 */
#include <errno.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/libc.h"
#include "base/nocancel.h"
#include "proto/shm/shm.h"

/* Writable means that this part of the ring is free; in the kernel it is a
 * third. */
#define WRITABLE_PART 8

/* Ask the kernel, in the phases in which it carries the stream.  POLLIN and POLLRDNORM
 * are the same to TCP, and so are POLLOUT and POLLWRNORM. */
static unsigned tcp_events(int fd, unsigned want)
{
	struct pollfd p = { .fd = fd, .events = (short)(want | POLLRDHUP) };
	int saved = errno;
	int n = nocancel_poll(&p, 1, 0);
	unsigned ev = n > 0 ? (unsigned short)p.revents : 0;

	errno = saved;
	return ev | (ev & POLLIN ? POLLRDNORM : 0u) |
	       (ev & POLLOUT ? POLLWRNORM : 0u);
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
	if (unlikely(!sock_look_tx(sk)))
		return true;
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
	if (!sock_look_rx(sk))
		return true;
	low = MIN(low, RING_COUNTED_MAX);
	bool enough = ring_rx_bytes(&shm_of(sk)->rx, low, &mark) >= low ||
		      mark != RING_NONE;
	sock_unlock_rx(sk);
	return enough;
}

/* Even if nobody reads or writes a candidate, notice when its peer is ready. */
static void pending_ask(struct sock *sk, int fd)
{
	if (!sock_take_mode(sk, SOCK_PENDING))
		return;
	shm_pending_step(sk, fd);
	sock_unlock_both(sk);
}

/* Before SHM: true if the kernel has the answer.  It does not if the peer has
 * just become ready, because then the readable bytes may be a doorbell. */
static COLD bool kernel_events(struct sock *sk, int fd, unsigned *ev)
{
	unsigned tcp;
	int looks = 0;

	do {
		if (sock_mode(sk) == SOCK_PENDING)
			pending_ask(sk, fd);
		if (sock_mode(sk) == SOCK_SHM)
			return false;
		tcp = tcp_events(fd, POLLIN | POLLOUT | POLLPRI);
	} while (tcp & POLLIN && sock_mode(sk) == SOCK_PENDING &&
		 load_acq(&shm_peer(sk)->flags) & SEG_READY &&
		 !sk->w->anchor_err && ++looks < SHM_LOOKS_MAX);
	*ev = tcp;
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
		 ++looks < SHM_LOOKS_MAX);
	if (tcp & (POLLERR | POLLHUP | POLLRDHUP))
		anchor_ask(sk, fd);
	*ev |= tcp & (POLLIN | POLLRDNORM);
	if (readahead_bytes(sk))
		*ev |= POLLIN | POLLRDNORM;
	return true;
}

/* Have some of the TCP bytes that come before the ring not arrived yet?  The peer's FIN comes
 * behind them, and the kernel reports no end before the FIN is in order: a program may take a
 * short read after POLLHUP for the end of the stream (libuv does). */
static COLD bool rx_tcp_is_short(struct sock *sk, int fd)
{
	int n = 0, saved = errno;

	if (!sock_look_rx(sk))
		return true;
	bool is_short = load_rlx(&shm_w(sk)->rx_tcp) &&
			!libc.ioctl(fd, FIONREAD, &n) &&
			n < shm_of(sk)->rx_tcp_left;
	sock_unlock_rx(sk);
	errno = saved;
	return is_short;
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

	if (!sock_look_rx(sk))
		return false;
	if (!ring_rx_bytes(&shm_of(sk)->rx, 1, &mark) && mark == RING_BACK) {
		store_rlx(&shm_w(sk)->rx_back, (uint8_t)1);
		shm_note_back(sk);
	}
	bool is_back = load_rlx(&shm_w(sk)->rx_back);
	sock_unlock_rx(sk);
	return is_back;
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

	if (load_rlx(&sk->w->anchor_end) != ANCHOR_RST) {
		/* The peer may have reset the connection after its FIN, or its kernel
		 * answered our bytes with a reset.  poll() shows that even after another
		 * call has returned its error. */
		if (!shm_w(sk)->peer_died && shm_is_reset(sk))
			ev |= tcp_events(fd, 0) & (POLLERR | POLLHUP);
		return ev;
	}
	ev |= POLLHUP;
	if (load_rlx(&sk->w->anchor_err))
		ev |= POLLERR;
	/* Of a peer that died, TCP's error is that of a doorbell. */
	return shm_w(sk)->peer_died ? ev : ev | (tcp_events(fd, 0) & POLLERR);
}

/* If one side is shut in both directions, its kernel answers what the other side still
 * sends with a reset.  Ask the kernel if that has happened. */
static COLD void ask_for_reset(struct sock *sk, int fd)
{
	if (load_rlx(&sk->w->anchor_end) == ANCHOR_OPEN)
		anchor_ask(sk, fd);
}

/* What the receiving half says.  *@is_over: nothing comes after what is there. */
static inline unsigned rx_events(struct sock *sk, int fd, uint32_t peer,
				 uint8_t shut, bool *is_over)
{
	unsigned ev = 0;

	*is_over = load_rlx(&shm_w(sk)->rx_eof) || peer & SEG_TX_FIN ||
		   shut & SHUT_BIT_RD;
	if (unlikely(load_rlx(&shm_w(sk)->rx_back)))
		return rx_back_events(sk, fd) |
		       (shut & SHUT_BIT_RD ? POLLIN | POLLRDNORM : 0);
	if (unlikely(load_rlx(&shm_w(sk)->rx_tcp)) &&
	    rx_tcp_events(sk, fd, &ev)) {
		if (peer & SEG_TX_FIN && !(shut & SHUT_BIT_RD))
			*is_over = !rx_tcp_is_short(sk, fd);
		return ev;
	}
	if (!*is_over && !rx_enough(sk))
		return 0;
	if (!*is_over && unlikely(may_be_back(sk)) && rx_goes_back(sk))
		return rx_back_events(sk, fd);
	return POLLIN | POLLRDNORM;
}

/* Does nobody carry our direction, because the peer may be putting back what it has not
 * read? */
static inline bool tx_is_nobodys(struct sock *sk, int fd, uint32_t peer)
{
	if (likely(!(peer & SEG_FALLBACK)) || !shm_is_unsettled(sk))
		return false;
	store_rlx(&shm_of(sk)->saw_unsettled, (uint8_t)1);
	anchor_ask(sk, fd);
	return shm_is_unsettled(sk);
}

/* What the sending half says. */
static inline unsigned tx_events(struct sock *sk, int fd, uint32_t peer,
				 uint8_t shut)
{
	unsigned ev = 0;

	if (unlikely(tx_is_nobodys(sk, fd, peer)))
		return 0;
	if (unlikely(!load_rlx(&shm_w(sk)->tx_ring)))
		return queue_events(sk, fd, POLLOUT | POLLWRNORM);
	if (unlikely(load_rlx(&sk->w->errq)))
		ev = queue_events(sk, fd, 0);
	if (shut & SHUT_BIT_WR || peer & (SEG_CLOSED | SEG_SHUT) ||
	    tx_writable(sk, fd))
		ev |= POLLOUT | POLLWRNORM;
	return ev;
}

unsigned shm_events(struct sock *sk, int fd)
{
	unsigned ev;
	bool is_over;

	sock_refresh(sk);
	if (unlikely(load_rlx(&sk->is_kept)) &&
	    shm_is_kept(sk, fd)) /* nothing else will tell */
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
	/* The peer wants to fall back.  Do our part here as well, because this thread may
	 * do nothing but sleep. */
	if (unlikely(peer & SEG_WANT_BACK) && shm_wants_back(sk))
		shm_fallback(sk, fd, OSF_REASON_NONE);
	ev = rx_events(sk, fd, peer, shut, &is_over);
	ev |= tx_events(sk, fd, peer, shut);
	if (unlikely(shut == (SHUT_BIT_RD | SHUT_BIT_WR) || peer & SEG_SHUT))
		ask_for_reset(sk, fd);
	if (unlikely(load_rlx(&sk->w->anchor_end) != ANCHOR_OPEN)) {
		ev |= anchor_end_events(sk, fd);
		is_over = true;
	}
	if (unlikely(peer & SEG_TX_BACK))
		ev |= tcp_events(fd, POLLPRI) & POLLPRI;
	if (is_over)
		ev |= shut & SHUT_BIT_WR ? POLLRDHUP | POLLHUP : POLLRDHUP;
	return ev;
}
