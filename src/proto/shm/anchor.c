/* SPDX-License-Identifier: MIT */
/*
 * proto/shm/anchor.c - the kernel's TCP socket below: how it ended, and its counts
 *
 *     poll(), SO_ERROR, TCP_INFO  ->  anchor_ask(), anchor_note()  ->  sock.w->anchor_end
 *     SIOCOUTQ, TCP_INFO          ->  anchor_counts(), anchor_consumed()
 *
 * doorbell.c sends and discards doorbells through it.
 */
#include <errno.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/libc.h"
#include "base/log.h"
#include "base/nocancel.h"
#include "base/sockopt.h"
#include "proto/shm/inbox.h"
#include "proto/shm/other_end.h"
#include "proto/shm/shm.h"
#include "sock/shared.h"

#define ERRNOS 4096 /* the kernel's are smaller */
#define OWN_LOOK_NS (100 * NS_PER_MS)

/* <netinet/tcp.h> defines these, but conflicts with <linux/tcp.h>. */
enum {
	TCP_ESTABLISHED = 1,
	TCP_FIN_WAIT1 = 4,
	TCP_FIN_WAIT2 = 5,
	TCP_CLOSE = 7
};

/* The anchor has ended, unless we know of another end. */
static void anchor_ends(struct sock *sk, int how)
{
	struct sock_words *w;

	do {
		w = load_acq(&sk->w);
		cas(&w->anchor_end, (uint8_t)ANCHOR_OPEN, (uint8_t)how);
	} while (w != load_acq(&sk->w)); /* as SOCK_PUT() */
}

/* Does our ring at @base hold a record at @off? */
static bool has_bytes(const struct sock *sk, uint8_t *base, uint32_t off)
{
	bool is_second = base > seg_ring(shm_of(sk)->seg, shm_of(sk)->side,
					 shm_ring_bytes(sk));
	uint32_t size =
	    is_second ? shm_of(sk)->tx.area_bytes : shm_ring_bytes(sk);
	struct ring_refs refs = { 0 }; /* they count as bytes */
	struct ring_rx rest = {
		.base = base, .size = size, .off = off, .refs = &refs
	};
	enum ring_mark mark;

	return off % RING_ALIGN || off > size - RING_ALIGN ||
	       ring_rx_bytes(&rest, 1, &mark);
}

/* Did the peer's program leave some of our bytes unread?  @by_reset: the
 * peer's kernel has sent a reset. */
static bool left_unread(const struct sock *sk, bool by_reset)
{
	const struct seg_side *p = shm_peer(sk);
	uint32_t read = load_rlx(&p->read), off = read & ~SEG_READ_RING;
	bool is_second = shm_of(sk)->tx.base > shm_of(sk)->tx.other;

	if (by_reset && !read)
		return true;
	if (load_rlx(&p->read_half) == is_second)
		return has_bytes(sk, shm_of(sk)->tx.base, off);
	/* We have moved to the other half of the ring and the peer has not. */
	return has_bytes(sk, shm_of(sk)->tx.other, off) ||
	       has_bytes(sk, shm_of(sk)->tx.base, 0);
}

/*
 * The peer has closed in good order, and then its kernel has reset the connection: its
 * kernel answers bytes that come after the close, or a doorbell of ours that comes too
 * late.  Had TCP carried everything, there would have been no doorbell.
 */
static bool is_bells_reset(const struct sock *sk, uint32_t flags)
{
	uint32_t ended = SEG_CLOSED | SEG_TX_FIN;

	return !shm_is_late(sk) && (flags & (ended | SEG_ABORTED)) == ended;
}

/* The peer's stream has ended and ours has not: CLOSE-WAIT, of which the kernel may not know. */
static bool is_close_wait(const struct sock *sk)
{
	return sock_mode(sk) == SOCK_SHM &&
	       load_acq(&shm_peer(sk)->flags) & SEG_TX_FIN && /* S2 */
	       !(load_rlx(&sk->w->shut) & SHUT_BIT_WR);
}

int anchor_reset_error(const struct sock *sk)
{
	return is_close_wait(sk) ? EPIPE : ECONNRESET;
}

/*
 * The anchor's connection has ended.  Did the peer's process end without
 * closing?  The kernel cannot tell: it resets the connection for unread
 * doorbells, but not for unread bytes in the ring.  Had TCP carried
 * everything, only unread bytes, or SO_LINGER with 0, would have caused a reset.
 */
static bool peer_died(struct sock *sk, bool by_reset)
{
	/* A peer that shuts both halves or falls back makes the kernel send a
	 * FIN too. */
	uint32_t lives =
	    by_reset ? SEG_CLOSED
		     : SEG_CLOSED | SEG_TX_FIN | SEG_TX_BACK | SEG_FALLBACK;

	uint32_t flags;

	if (sock_mode(sk) != SOCK_SHM || !shm_w(sk)->tx_ring ||
	    shm_w(sk)->rx_back || load_rlx(&shm_w(sk)->rx_broken))
		return false;
	flags = load_acq(&shm_peer(sk)->flags);
	/* Both live.  One has sent to a socket that the other had shut or closed. */
	if (by_reset &&
	    (shm_is_late(sk) ||
	     (flags & SEG_TX_LATE && load_rlx(&sk->w->shut) & SHUT_BIT_RD)))
		return false;
	if (flags & lives && !(by_reset && is_bells_reset(sk, flags)))
		return false;
	bool unread =
	    (by_reset && flags & SEG_RESETS) || left_unread(sk, by_reset);
	if (!cas(&shm_w(sk)->peer_died, (uint8_t)PEER_LIVES,
		 (uint8_t)(unread ? PEER_RESET : PEER_READ_ALL)))
		return true;
	if (unread)
		SOCK_PUT(sk, anchor_err, anchor_reset_error(sk));
	anchor_ends(sk, unread ? ANCHOR_RST : ANCHOR_FIN);
	return true;
}

/*
 * The kernel reports an error once.  Keep it for the call that must fail with
 * it.  False if @err does not end the connection.
 */
bool anchor_note(struct sock *sk, int err)
{
	if (err != ECONNRESET && err != ETIMEDOUT && err != EHOSTUNREACH &&
	    err != ENETUNREACH)
		return false;
	if (err == ECONNRESET && peer_died(sk, true))
		return true;
	SOCK_PUT(sk, anchor_err,
		 err == ECONNRESET ? anchor_reset_error(sk) : err);
	SOCK_PUT(sk, anchor_end, (uint8_t)ANCHOR_RST);
	return true;
}

/* SO_ERROR: the positive error that the next call would return, once.  -1: ask
 * the kernel.  Otherwise the kernel's own error is about a doorbell. */
int anchor_so_error(struct sock *sk, int fd)
{
	if (sock_mode(sk) == SOCK_SHM &&
	    load_rlx(&sk->w->anchor_end) == ANCHOR_OPEN)
		anchor_ask(sk, fd);
	int err = -anchor_error(sk);
	return err || shm_w(sk)->peer_died ? err : -1;
}

int anchor_end_error(struct sock *sk, int fd)
{
	int err = anchor_so_error(sk, fd);
	socklen_t len = sizeof(err);

	if (err < 0 &&
	    libc.getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len) < 0)
		err = 0;
	return err;
}

/* Return the error that we kept, negative, once. */
int anchor_error(struct sock *sk)
{
	if (likely(!load_rlx(&sk->w->anchor_err)))
		return 0;
	int err = xchg(&sk->w->anchor_err, 0);
	return err >= 0 && err < ERRNOS ? -err : -ECONNRESET;
}

/* recv() on the anchor has returned 0. */
void anchor_fin(struct sock *sk)
{
	if (!sk->w->anchor_deaf && !peer_died(sk, false))
		anchor_ends(sk, ANCHOR_FIN);
}

static int tcp_info_get(int fd, struct tcp_info *ti)
{
	socklen_t len = sizeof(*ti);

	if (libc.getsockopt(fd, IPPROTO_TCP, TCP_INFO, ti, &len) < 0)
		return -errno;
	return len >= offsetof(struct tcp_info, tcpi_rcv_ooopack) ? 0
								  : -ENOTSUP;
}

/* After our own SHUT_RD, poll() cannot show the peer's FIN.  The TCP state
 * can. */
bool anchor_has_fin(int fd)
{
	struct tcp_info ti;

	if (tcp_info_get(fd, &ti))
		return true;
	return ti.tcpi_state != TCP_ESTABLISHED &&
	       ti.tcpi_state != TCP_FIN_WAIT1 && ti.tcpi_state != TCP_FIN_WAIT2;
}

/* After a reset whose error the program has fetched, poll() shows an ordinary
 * hang-up.  The TCP state shows the reset. */
bool anchor_is_closed(const struct sock *sk, int fd)
{
	struct tcp_info ti;

	return load_rlx(&sk->w->anchor_end) != ANCHOR_OPEN &&
	       !load_rlx(&shm_w(sk)->peer_died) && !tcp_info_get(fd, &ti) &&
	       ti.tcpi_state == TCP_CLOSE;
}

/*
 * A process that is killed ends all of its connections at once.  So if the kernel says that
 * one of them is open, the process lives, and its other connections need not be asked about
 * until the next look is due.  But a single connection may end while its process lives.  So
 * each connection is looked at now and then all the same.
 */
bool anchor_peer_lives(const struct sock *sk)
{
	const struct peer_inbox *of = shm_of(sk)->peer_inbox;
	uint64_t now = coarse_ns();

	return of && now - load_rlx(&of->lives_ns) <= ANCHOR_LOOK_NS &&
	       now - load_rlx(&sk->looked_ns) < OWN_LOOK_NS &&
	       !(load_rlx(&shm_peer(sk)->flags) & SEG_SHARED);
}

/* An open connection shows that the peer's process lives, unless the connection may belong
 * to another process by now: several processes hold it, or it fell back and was handed
 * over. */
static void peer_seen(const struct sock *sk, uint64_t at_ns)
{
	const uint32_t others = SEG_SHARED | SEG_FALLBACK | SEG_TX_BACK;
	struct peer_inbox *of = shm_of(sk)->peer_inbox;

	if (of && !(load_rlx(&shm_peer(sk)->flags) & others))
		store_rlx(&of->lives_ns, at_ns);
}

/* The kernel keeps the error for the call that must fail with it, unless it is not the right
 * one. */
static void ask_reset(struct sock *sk, int fd)
{
	int err = is_close_wait(sk) ? sockopt_int(fd, SOL_SOCKET, SO_ERROR) : 0;

	if (err)
		SOCK_PUT(sk, anchor_err, err == ECONNRESET ? EPIPE : err);
	SOCK_PUT(sk, anchor_end, (uint8_t)ANCHOR_RST);
}

void anchor_ask(struct sock *sk, int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLRDHUP };
	int saved = errno;

	store_rlx(&sk->looked_ns, coarse_ns());
	int n = nocancel_poll(&p, 1, 0);
	if (n >= 0)
		peer_seen(sk, n ? 0 : load_rlx(&sk->looked_ns));
	if (n > 0) {
		int err = 0;
		socklen_t len = sizeof(err);

		errq_note(sk, &p.revents);
		if (p.revents & POLLERR && peer_died(sk, true))
			libc.getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len);
		else if (p.revents & POLLERR)
			ask_reset(sk, fd);
		else if (p.revents & (POLLRDHUP | POLLHUP) &&
			 load_rlx(&sk->w->anchor_end) == ANCHOR_OPEN &&
			 (!sk->w->anchor_deaf || anchor_has_fin(fd)) &&
			 !peer_died(sk, false))
			anchor_ends(sk, ANCHOR_FIN);
	}
	if (unlikely(load_rlx(&sk->w->anchor_end) == ANCHOR_FIN) &&
	    sock_mode(sk) == SOCK_SHM && shm_is_unsettled(sk))
		store_rlx(&shm_of(sk)->is_orphan,
			  (uint8_t)other_end_is_orphan(fd));
	errno = saved;
}

/*
 * Count the bytes written to the connection since it was opened, by any means.
 * The kernel reports this twice: sent plus unsent, and acknowledged plus not
 * acknowledged (where the active side's count includes its SYN).  Believe it
 * only if both agree.
 */
int anchor_counts(int fd, bool active, uint64_t *sent)
{
	for (int tries = 0; tries < 16; tries++) {
		struct tcp_info ti;
		int outq, err = tcp_info_get(fd, &ti);

		if (err)
			return err;
		if (libc.ioctl(fd, SIOCOUTQ, &outq) < 0)
			return -errno;
		uint64_t by_sent = ti.tcpi_bytes_sent - ti.tcpi_bytes_retrans +
				   ti.tcpi_notsent_bytes;
		uint64_t by_acked = ti.tcpi_bytes_acked + (uint64_t)outq;
		if (by_acked == by_sent ||
		    (active && by_acked == by_sent + 1)) {
			*sent = by_sent;
			return 0;
		}
	}
	return -EUCLEAN;
}

/* Count the stream bytes that the application has read so far. */
int anchor_consumed(int fd, uint64_t *consumed)
{
	for (int tries = 0; tries < 16; tries++) {
		struct tcp_info before, after;
		int inq, err = tcp_info_get(fd, &before);

		if (err)
			return err;
		if (libc.ioctl(fd, SIOCINQ, &inq) < 0)
			return -errno;
		err = tcp_info_get(fd, &after);
		if (err)
			return err;
		if (before.tcpi_bytes_received != after.tcpi_bytes_received)
			continue;
		*consumed = after.tcpi_bytes_received - (uint64_t)inq;
		return 0;
	}
	return -EUCLEAN;
}
