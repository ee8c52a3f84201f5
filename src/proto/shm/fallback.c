/* SPDX-License-Identifier: MIT */
/*
 * proto/shm/fallback.c - fall back to TCP at once, without the peer's help
 *
 *     reader                                  writer, at its next call
 *     sets FALLBACK, reads the ring to its end
 *     sets CUT: "I stopped here"              sends by TCP what is behind the
 *                                             cut, and everything after it
 *
 * Somebody who knows nothing of rings is about to use the descriptor: a
 * program that exec() starts, a process that receives the descriptor,
 * io_uring.  So when shm_fallback_now() returns, TCP must carry the rest of the
 * peer's stream and nothing else, however long the peer sleeps.
 *
 * Our own direction ends with a BACK mark, as in a fallback that both sides
 * agree on.  The peer's direction ends where we stop reading.  The peer
 * publishes a record, fences and checks FALLBACK; we set FALLBACK, fence and read
 * the ring.  At least one of us sees the other.  So we read all records of
 * calls that have returned.  Only the call that is writing right now may have
 * to send some of its bytes again, and it can, because it has not returned.
 * Doorbells follow the same rule: we wait for each one counted before FALLBACK,
 * and the peer sends none after.
 *
 * The stash holds what the application has not read yet.  It must come before
 * what TCP will bring, and only the peer's socket can put it there.  If the
 * kernel gives us a copy of that socket (pidfd_getfd(2): same user, tracing
 * allowed), we write the stash into it.  Otherwise the caller has to deliver
 * it.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/libc.h"
#include "base/rawcall.h"
#include "proto/shm/rendezvous.h"
#include "proto/shm/shm.h"
#include "sock/arena.h"

/* The peer has already begun what we wait for.  It may only need a core. */
#define SETTLE_NS (2 * NS_PER_S)
#define STASH_MIN (64u * 1024)
/* The buffers of a TCP connection always have room for this much, once read. */
#define PUT_BACK_MAX (64u * 1024)

/* Where @n more bytes may be written, or NULL. */
static uint8_t *stash_room(struct stash *st, size_t n)
{
	size_t cap = st->cap ? st->cap : STASH_MIN;

	while (cap < st->n + n)
		cap *= 2;
	if (cap > st->cap) {
		void *more =
		    st->data ? mremap(st->data, st->cap, cap, MREMAP_MAYMOVE)
			     : mmap(NULL, cap, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (more == MAP_FAILED)
			return NULL;
		st->data = more;
		st->cap = cap;
	}
	return st->data + st->n;
}

/* Read up to *@left bytes from TCP into @st, or discard them if @st is NULL.
 * -ENODATA: the connection ended first. */
static int take_tcp(int fd, struct stash *st, int64_t *left)
{
	size_t want = MIN((size_t)*left, (size_t)STASH_MIN);
	uint8_t bin[256], *to = st ? stash_room(st, want) : bin;
	struct pollfd p = { .fd = fd, .events = POLLIN };

	if (!to)
		return -ENOMEM;
	uint64_t end = now_ns() + SETTLE_NS;
	int n;
	do {
		n = libc.poll(&p, 1, (int)(SETTLE_NS / NS_PER_MS));
		if (p.revents == POLLERR) /* the error queue; no bytes yet */
			libc.poll(NULL, 0, 1);
	} while ((n < 0 && errno == EINTR) ||
		 (p.revents == POLLERR && now_ns() < end));
	if (n <= 0)
		return -ETIMEDOUT;
	ssize_t r =
	    libc.recv(fd, to, st ? want : MIN(want, sizeof(bin)), MSG_DONTWAIT);
	if (r <= 0)
		return r < 0 && errno == EAGAIN ? 0 : -ENODATA;
	*left -= r;
	if (st)
		st->n += (size_t)r;
	return 0;
}

/* Stash what we read from TCP earlier and the program has not read. */
static int stash_backlog(struct sock *sk, struct stash *st)
{
	uint32_t n = backlog_bytes(sk);
	uint8_t *to = n ? stash_room(st, n) : NULL;

	if (!n)
		return 0;
	if (!to)
		return -ENOMEM;
	memcpy(to, shm_of(sk)->backlog + shm_of(sk)->backlog_pos, n);
	st->n += n;
	st->is_late = true; /* TCP may have what follows already */
	backlog_free(sk);
	return 0;
}

/* Stash the TCP bytes that come before the ring.  They are on their way,
 * unless the connection has ended; then the next reader gets that from the
 * kernel. */
static int stash_tcp(struct sock *sk, int fd, struct stash *st)
{
	int err = 0;

	while (!err && shm_of(sk)->rx_tcp_left > 0)
		err = take_tcp(fd, st, &shm_of(sk)->rx_tcp_left);
	return err == -ENODATA ? 0 : err;
}

static int stash_ring(struct sock *sk, struct stash *st)
{
	enum ring_mark mark = RING_NONE;

	for (;;) {
		const uint8_t *data;
		int32_t n = ring_peek(&shm_of(sk)->rx, &data, &mark);

		if (n < 0)
			return -EPROTO;
		if (!n)
			break;
		uint8_t *to = stash_room(st, (size_t)n);
		if (!to)
			return -ENOMEM;
		memcpy(to, data, (size_t)n);
		st->n += (size_t)n;
		ring_skip(&shm_of(sk)->rx, (uint32_t)n);
	}
	st->has_end = mark == RING_FIN;
	st->is_late = mark == RING_BACK;
	return 0;
}

/* Wait until each doorbell that was counted has arrived, and discard it. */
static int sync_bells(struct sock *sk, int fd)
{
	uint64_t end = now_ns() + SETTLE_NS;

	for (;;) {
		anchor_drain(sk, fd);
		if (shm_of(sk)->bells_drained ==
			load_acq(&shm_peer(sk)->bells) ||
		    load_rlx(&sk->w->anchor_end) != ANCHOR_OPEN)
			return 0; /* behind its end nothing comes */
		if (now_ns() > end)
			return -ETIMEDOUT;
		anchor_ask(sk, fd);
		sched_yield();
	}
}

/* Copy the peer's descriptor of the anchor.  Return -1 if that is not
 * possible. */
static int borrow_other_end(const struct sock *sk, int fd)
{
	const struct seg_side *p = shm_peer(sk);
	uint32_t pid = load_rlx(&p->pid);
	int their_fd = load_rlx(&p->anchor_fd), other = -1;

	if (pid == (uint32_t)getpid()) {
		other = libc.fcntl(their_fd, F_DUPFD_CLOEXEC, 3);
	} else {
		long pidfd = rawcall(SYS_pidfd_open, pid, 0);

		if (pidfd < 0)
			return -1;
		other = (int)rawcall(SYS_pidfd_getfd, pidfd, their_fd, 0);
		libc.close((int)pidfd);
	}
	if (other < 0 || are_two_ends(fd, other))
		return other < 0 ? -1 : other;
	libc.close(other);
	return -1;
}

/* Can we put back all unread bytes ourselves, so that no relay is needed? */
static bool may_put_back(struct sock *sk, int fd)
{
	enum ring_mark mark;

	if (load_acq(&shm_peer(sk)->flags) & (SEG_TX_BACK | SEG_FALLBACK))
		return false;
	if (backlog_bytes(sk))
		return false;
	if (!shm_w(sk)->rx_back &&
	    ring_rx_bytes(&shm_of(sk)->rx, PUT_BACK_MAX + 1, &mark) >
		PUT_BACK_MAX)
		return false;
	int other = borrow_other_end(sk, fd);
	if (other >= 0)
		libc.close(other);
	return other >= 0;
}

/* Write the stash into the peer's socket.  If not all fits, read it back. */
static void put_back(struct sock *sk, int fd, struct stash *st)
{
	size_t put = 0;
	int other = -1;

	if (!st->is_late && (st->n || st->has_end))
		other = borrow_other_end(sk, fd);
	if (other < 0)
		return;
	while (put < st->n) {
		ssize_t r = libc.send(other, st->data + put, st->n - put,
				      MSG_DONTWAIT | MSG_NOSIGNAL);

		if (r <= 0)
			break;
		put += (size_t)r;
	}
	if (put == st->n) {
		if (st->has_end)
			libc.shutdown(other, SHUT_WR);
		*st = (struct stash){ .data = st->data, .cap = st->cap };
	} else {
		int64_t again = (int64_t)put;

		while (again > 0 && !take_tcp(fd, NULL, &again))
			;
	}
	libc.close(other);
}

/* End the peer's direction where we stop reading. */
static int end_rx(struct sock *sk, int fd, struct stash *st)
{
	struct seg_side *me = shm_me(sk);
	int err = 0;

	if (shm_w(sk)->rx_tcp)
		err = stash_backlog(sk, st);
	if (!err && shm_w(sk)->rx_tcp &&
	    load_acq(&shm_peer(sk)->flags) & SEG_TX_RING) { /* S1 */
		shm_rx_learn(sk);
		err = stash_tcp(sk, fd, st);
		if (!err)
			store_rlx(&shm_w(sk)->rx_tcp, (uint8_t)0);
	}
	/* While TCP still carries the stream, the ring is empty and no
	 * doorbell was rung. */
	if (!err && !shm_w(sk)->rx_tcp) {
		shm_uncork(sk, true);
		if (!shm_w(sk)->rx_back && !shm_w(sk)->rx_eof)
			err = stash_ring(sk, st);
		if (!err)
			err = sync_bells(sk, fd);
	}
	if (shm_w(sk)->rx_eof)
		st->has_end = true;
	if (!err)
		put_back(sk, fd, st);
	me->cut = shm_of(sk)->rx.off;
	fetch_or(&me->flags, SEG_CUT); /* S4 */
	ring_publish(&shm_of(sk)->rx); /* whoever waits for room looks again */
	return err;
}

/* End our direction: the peer reads the ring to its end, then TCP. */
static void end_tx(struct sock *sk, int fd)
{
	if (shm_has_fallen_back(sk)) /* both at once */
		shm_tx_fell_back(sk, fd, 0);
	if (!shm_w(sk)->tx_ring)
		return;
	if (!shm_of(sk)->tx_fin) {
		anchor_back(sk, fd);
		return;
	}
	anchor_ring(sk, fd);
	anchor_silence(sk);
	libc.shutdown(fd, SHUT_WR);
}

/* Give the anchor the options that the application has set. */
static void restore_options(const struct sock *sk, int fd)
{
	int nodelay = sk->w->nodelay, cork = sk->w->cork,
	    lowat = sk->w->rcvlowat;

	libc.setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &nodelay, sizeof(int));
	if (cork)
		libc.setsockopt(fd, IPPROTO_TCP, TCP_CORK, &cork, sizeof(int));
	if (lowat > 1)
		libc.setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &lowat,
				sizeof(int));
}

/* Pass on the FIN that we held back.  The stream ended well, so drop a later
 * reset that only answers a doorbell that the peer did not read. */
static void end_rx_now(int fd)
{
	int err;
	socklen_t len = sizeof(err);

	libc.shutdown(fd, SHUT_RD);
	libc.getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len);
}

/* The peer has just fallen back too.  Its last bytes stay in the ring, where
 * the processes that know the ring read them. */
static int leave_rest(struct sock *sk, int fd)
{
	struct seg_side *me = shm_me(sk);

	me->cut = shm_of(sk)->rx.off;
	fetch_or(&me->flags, SEG_CUT); /* S4: it may be waiting for that */
	end_tx(sk, fd);
	return 0;
}

static int fallback_now_locked(struct sock *sk, int fd, enum osf_reason why,
			       bool gently, struct stash *st)
{
	if (sock_mode(sk) == SOCK_PENDING)
		shm_pending_decide(sk, fd);
	if (sock_mode(sk) != SOCK_SHM || shm_w(sk)->fell_back)
		return 0;
	if (shm_is_broken(sk))
		return -ECONNRESET;
	if (gently && !may_put_back(sk, fd))
		return 0;
	store_rlx(&shm_me(sk)->rx_anchor, 1u); /* long writes look there */
	fetch_or(&shm_me(sk)->flags, SEG_FALLBACK | SEG_WANT_BACK);
	fence_full(); /* Dekker with tx.c and anchor_ring() */
	if (gently && load_acq(&shm_peer(sk)->flags) & SEG_TX_BACK)
		return leave_rest(sk, fd);
	int err = end_rx(sk, fd, st);
	if (err) {
		shm_broken(sk, fd, "the kernel cannot take it");
		return err == -ENOMEM ? err : -ECONNRESET;
	}
	end_tx(sk, fd);
	store_rlx(&shm_w(sk)->rx_tcp, (uint8_t)0);
	store_rlx(&shm_w(sk)->rx_back, (uint8_t)1);
	store_rlx(&shm_w(sk)->rx_eof, (uint8_t)0);
	store_rlx(&shm_w(sk)->fell_back, (uint8_t)1);
	restore_options(sk, fd);
	if (st->has_end && !st->n)
		end_rx_now(fd);
	sock_set_reason(sk, why);
	sk->st->proto = OSF_PROTO_INET;
	count(&arena_totals()->n_fallbacks, 1);
	if (st->n) /* others wait until the stash is read */
		sock_set_mode(sk, SOCK_UPGRADING);
	return 1;
}

int shm_fallback_now(struct sock *sk, int fd, enum osf_reason why, bool gently,
		     struct stash *st)
{
	int saved = errno;

	sock_lock_halves(sk);
	int r = fallback_now_locked(sk, fd, why, gently, st);
	sock_unlock_both(sk);
	errno = saved;
	return r;
}

/* Wait until the peer says where it stopped, which it is about to do.  Until
 * then send nothing by TCP, because the peer may be putting unread bytes back
 * there. */
bool shm_cut_is_known(struct sock *sk, int fd)
{
	uint64_t end = now_ns() + SETTLE_NS;

	while (!(load_acq(&shm_peer(sk)->flags) & SEG_CUT)) { /* S4 */
		anchor_ask(sk, fd);
		if (load_rlx(&sk->w->anchor_end) != ANCHOR_OPEN ||
		    now_ns() > end)
			return load_acq(&shm_peer(sk)->flags) & SEG_CUT;
		sched_yield();
	}
	return true;
}

ssize_t shm_tx_fell_back(struct sock *sk, int fd, size_t mine)
{
	bool in_second = shm_of(sk)->tx.other < shm_of(sk)->tx.base;
	/* The size of the memory from @base on. */
	uint32_t size =
	    in_second ? shm_of(sk)->tx.area_bytes : shm_ring_bytes(sk);
	enum ring_mark mark;

	shm_release(sk);
	if (!shm_w(sk)->tx_ring)
		return 0;
	if (!shm_cut_is_known(sk, fd)) {
		if (load_rlx(&sk->w->anchor_end) == ANCHOR_OPEN)
			shm_broken(sk, fd, "fell back, and does not say where");
		return -ECONNRESET;
	}
	/* Read our own ring from the cut, as the peer would have done. */
	struct ring_rx rest = { .base = shm_of(sk)->tx.base,
				.size = size,
				.off = load_rlx(&shm_peer(sk)->cut) };
	if (rest.off % RING_ALIGN || rest.off > size - RING_ALIGN) {
		shm_broken(sk, fd, "the cut");
		return -ECONNRESET;
	}
	uint32_t n = ring_rx_bytes(&rest, INT32_MAX, &mark);
	if (n > mine) {
		shm_broken(sk, fd, "the cut");
		return -ECONNRESET;
	}
	anchor_silence(sk);
	if (sk->st->reason == OSF_REASON_UPGRADED)
		sock_set_reason(sk, OSF_REASON_PEER_BACK);
	shm_note_back(sk);
	if (shm_of(sk)->tx_fin)
		libc.shutdown(fd, SHUT_WR); /* the mark may be unseen */
	return (ssize_t)n;
}
