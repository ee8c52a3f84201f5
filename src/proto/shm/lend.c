/* SPDX-License-Identifier: MIT */
/*
 * proto/shm/lend.c - records and references, read in place
 *
 *     ring record  ->  lend(): the application reads it there  ->  back()
 *                      rx.hold names the oldest that is lent
 *     region       ->  send_ref(): a REF record (region.c)      ->  refs_done()
 *
 * The peer gets the ring's space back up to the oldest record that is lent.
 * At most half of a ring is lent at a time.  move_on() asks the peer to write
 * in the other half of the ring's memory (ring.h), so that the lent bytes stay
 * untouched.  Two halves are enough, because lend() lends nothing in the new
 * half until all of the old half has come back.
 *
 * lend_one() lends to callers that share the socket with calls that know nothing of
 * it, so at most one record.  The reader sees if the stream could stand still for that
 * record (shm_lend_pinned()), and so does a fork (shm_lend_shares()): both ask the
 * peer to move.  It can, because it knew before it filled the ring (SEG_LENDS).
 *
 * The segment and the peer's regions stay mapped while anything is lent, even
 * after the socket has closed.
 *
 * Runs in the one thread that has the socket to itself (sock/lend.h); only the
 * count of struct lend_memory is shared with others.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>

#include "base/libc.h"
#include "base/nocancel.h"
#include "base/rawcall.h"
#include "proto/shm/region.h"
#include "proto/shm/shm.h"

#define PUBLISH_BYTES (RING_WINDOW / 8)

struct shm_lend {
	struct lend_memory memory;
	struct seg *seg;
	uint32_t ring_bytes;
	uint32_t max;           /* bytes of the ring that are lent at once */
	struct ring_refs *refs; /* what is mapped of the peer; or NULL */
	bool in_place;
	bool is_shared; /* with calls that know nothing of it: lend_one() */
	bool has_moved; /* since something was lent that is not back yet */
	struct region_list announced;
};

static struct shm_lend *lend_of(const struct sock *sk)
{
	return shm_of(sk)->lend;
}

/* The socket has closed, and nothing is lent any more. */
static void lend_free(struct lend_memory *m)
{
	struct shm_lend *l = container_of(m, struct shm_lend, memory);

	/* The peer may be waiting to reuse the memory. */
	if (l->refs)
		shm_refs_over(l->refs);
	shm_refs_free(l->refs);
	seg_unmap(l->seg, l->ring_bytes);
	free(l);
}

static struct lend_memory *lend_open(struct sock *sk, bool in_place,
				     void (*announce)(void *addr, size_t len))
{
	struct shm_conn *c = shm_of(sk);
	struct shm_lend *l = calloc(1, sizeof(*l));
	uint32_t bytes = shm_ring_bytes(sk);

	if (!l)
		return NULL;
	l->memory = (struct lend_memory){ .n_refs = 1, .free = lend_free };
	l->seg = c->seg;
	l->ring_bytes = bytes;
	l->max = MIN(bytes / 2, RING_WINDOW) / 2;
	l->in_place = in_place;
	/* A caller that must know in advance where data may lie would have to
	 * know all memory of every peer, so it gets no references. */
	if (!announce && shm_take_refs(sk))
		l->refs = c->rx.refs;
	if (in_place && announce)
		announce(seg_ring(c->seg, !c->side, bytes), bytes);
	if (in_place)
		fetch_or(&shm_me(sk)->flags, SEG_LENDS);
	c->lend = l;
	return &l->memory;
}

void shm_lend_close(struct sock *sk)
{
	struct shm_conn *c = shm_of(sk);
	struct shm_lend *l = c->lend;

	if (c->rx.refs)
		ring_publish_refs(&c->rx);
	c->rx.refs = NULL;
	c->lend = NULL;
	lend_memory_put(&l->memory, NULL);
}

/*
 * Receiving.
 */

static bool lend_ready(const struct sock *sk)
{
	const struct ring_rx *rx = &shm_of(sk)->rx;

	if (likely(!ring_rx_ready(rx)))
		return false;
	/* Prefetch the second line while the caller handles the first. */
	__builtin_prefetch((const uint8_t *)load_rlx(&rx->at) + CACHE_LINE);
	return true;
}

/* At most this many bytes of the ring cannot go back to the peer; a ring that
 * does not use all of its memory may have fewer. */
static inline uint32_t span(const struct ring_rx *rx)
{
	if (rx->hold == RING_NONE_LENT)
		return 0;
	return rx->off >= rx->hold ? rx->off - rx->hold
				   : rx->off + rx->size - rx->hold;
}

/* Has the stream reached the half in which nothing is lent? */
static COLD bool has_arrived(struct shm_lend *l, const struct ring_rx *rx)
{
	if (rx->moves || (rx->refs && rx->refs->is_held))
		return false;
	l->has_moved = false;
	return true;
}

HOT static int32_t lend(struct sock *sk, int fd, const uint8_t **data,
			struct lent *at)
{
	struct shm_lend *l = lend_of(sk);
	struct ring_rx *rx = &shm_of(sk)->rx;

	if (unlikely(!l->in_place || span(rx) >= l->max))
		return 0;
	if (unlikely(l->has_moved) && !has_arrived(l, rx))
		return 0;
	int32_t n = shm_recv_place(sk, fd, UINT32_MAX, data, &at->off);
	if (unlikely(n <= 0))
		return n;
	at->in_order = rx->is_ref;
	if (rx->hold == RING_NONE_LENT)
		rx->hold = at->off;
	if (!rx->refs)
		return n;
	/* If this record is a reference, it was already counted. */
	at->n_refs = rx->refs->n - rx->is_ref;
	if (!rx->refs->is_held)
		rx->refs->held = at->n_refs;
	rx->refs->is_held = true;
	return n;
}

/* Publish the tail and the references, if they have changed. */
static void publish(struct sock *sk, int fd)
{
	struct ring_rx *rx = &shm_of(sk)->rx;
	bool refs = ring_rx_owes_refs(rx);

	if (!ring_publish(rx)) {
		if (!refs)
			return;
		ring_publish_refs(rx);
	}
	shm_notify_space(sk, fd);
}

HOT static void lend_back(struct sock *sk, int fd, const struct lent *oldest)
{
	struct ring_rx *rx = &shm_of(sk)->rx;

	/* What was lent before the move does not hold back this half. */
	if (likely(!rx->moves))
		rx->hold = oldest && likely(!lend_of(sk)->has_moved)
			       ? oldest->off
			       : RING_NONE_LENT;
	if (rx->refs) {
		rx->refs->is_held = oldest;
		if (oldest)
			rx->refs->held = oldest->n_refs;
	}
	if (unlikely(ring_rx_owes_refs(rx)) ||
	    (rx->hold == RING_NONE_LENT && ring_rx_owed(rx) >= PUBLISH_BYTES))
		publish(sk, fd);
}

static void lend_rest(struct sock *sk, int fd)
{
	if (!shm_w(sk)->rx_tcp)
		publish(sk, fd);
}

static bool is_waited_for(struct sock *sk, bool anew)
{
	struct seg_side *p = shm_peer(sk);

	if (anew) {
		if (load_rlx(&p->tx_waits))
			store_rlx(&p->tx_waits, 0u);
		return false;
	}
	return sock_mode(sk) == SOCK_SHM &&
	       (span(&shm_of(sk)->rx) >= lend_of(sk)->max ||
		load_rlx(&p->tx_waits) || load_rlx(&p->tx_inbox) ||
		load_rlx(&p->tx_anchor));
}

static void move_on(struct sock *sk, int fd)
{
	lend_of(sk)->has_moved = true;
	shm_ask_to_move(sk, fd);
}

static bool is_idle(struct sock *sk)
{
	const struct shm_conn *c = shm_of(sk);

	return !ring_rx_ready(&c->rx) && !shm_w(sk)->rx_tcp &&
	       !shm_w(sk)->rx_back && sock_mode(sk) == SOCK_SHM &&
	       !(shm_is_corked(sk) && shm_corked_until(sk) != UINT64_MAX &&
		 shm_poll_corked(sk));
}

/*
 * For callers that share the socket.
 */

#define ONE_MIN 4096 /* bytes; fewer are copied sooner */

static void announce_nothing(void *addr, size_t len) {}

/* With the rx lock.  May the next record be lent?  The peer must have known from
 * the start that it may have to move. */
static bool may_lend_one(struct sock *sk)
{
	struct ring_rx *rx = &shm_of(sk)->rx;
	struct shm_lend *l = lend_of(sk);
	const uint8_t *data;
	enum ring_mark mark;

	if (sock_mode(sk) != SOCK_SHM || sk->page ||
	    !(load_rlx(&shm_me(sk)->flags) & SEG_LENDS) || rx->moves ||
	    rx->hold != RING_NONE_LENT || shm_w(sk)->rx_tcp ||
	    shm_w(sk)->rx_back || shm_is_broken(sk) ||
	    ring_peek(rx, &data, &mark) < ONE_MIN || rx->is_ref)
		return false;
	if (!l && lend_open(sk, true, announce_nothing)) {
		l = lend_of(sk);
		l->is_shared = true;
	}
	if (!l || !l->is_shared)
		return false;
	if (l->has_moved && load_acq(&l->memory.n_refs) == 1)
		l->has_moved = false; /* the other half is free again */
	return !l->has_moved;
}

static int32_t lend_one(struct sock *sk, int fd, uint32_t max,
			const uint8_t **data, struct lent *at,
			struct lend_memory **memory)
{
	int32_t n = 0;

	if (!sock_take_rx(sk))
		return 0;
	if (may_lend_one(sk))
		n = shm_recv_place(sk, fd, max, data, &at->off);
	if (n > 0) {
		shm_of(sk)->rx.hold = at->off;
		*memory = &lend_of(sk)->memory;
		lend_memory_get(*memory);
	}
	sock_unlock_rx(sk);
	return n;
}

static void one_back_locked(struct sock *sk, int fd, const struct lent *at,
			    const struct lend_memory *memory)
{
	struct ring_rx *rx = &shm_of(sk)->rx;
	const struct shm_lend *l = lend_of(sk);

	if (!l || &l->memory != memory || l->has_moved || rx->moves ||
	    rx->hold != at->off)
		return;
	rx->hold = RING_NONE_LENT;
	if (ring_rx_owed(rx) >= PUBLISH_BYTES || !ring_rx_ready(rx))
		publish(sk, fd);
}

/* Where others hold the socket, the stream does not stand still for what is lent. */
static void one_back(struct sock *sk, int fd, const struct lent *at,
		     struct lend_memory *memory)
{
	if (!sock_take_rx(sk))
		return;
	one_back_locked(sk, fd, at, memory);
	sock_unlock_rx(sk);
}

COLD void shm_lend_pinned(struct sock *sk, int fd)
{
	const struct ring_rx *rx = &shm_of(sk)->rx;
	const struct shm_lend *l = lend_of(sk);
	bool is_empty = !ring_rx_ready(rx);

	if (!l || !l->is_shared)
		return;
	if (rx->moves) {
		if (is_empty) /* it may sleep, and not know yet */
			shm_notify_space(sk, fd);
	} else if (is_empty || span(rx) >= l->max) {
		move_on(sk, fd);
	}
}

void shm_lend_shares(struct sock *sk)
{
	struct shm_lend *l = lend_of(sk);

	if (!l || !l->is_shared || shm_of(sk)->rx.moves)
		return;
	l->has_moved = true;
	shm_ask_to_move_later(sk);
}

/*
 * Sending.
 */

static bool is_spacious(const struct sock *sk)
{
	return ring_tx_spacious(&shm_of(sk)->tx);
}

static bool acks_at_once(const struct sock *sk) { return shm_w(sk)->tx_ring; }

static ssize_t send_ref(struct sock *sk, int fd, const struct region *r,
			uint64_t off, uint32_t len)
{
	struct shm_lend *l = lend_of(sk);

	return l ? shm_send_ref(sk, fd, &l->announced, r, off, len) : 0;
}

/* A process that has ended no longer reads, even if it is a zombie.  If we
 * cannot ask about the process, assume that it reads. */
static bool peer_reads(struct sock *sk)
{
	pid_t pid = (pid_t)load_rlx(&shm_peer(sk)->pid);
	struct pollfd p = { .events = POLLIN };
	int saved = errno;
	bool ended;

	p.fd = (int)rawcall(SYS_pidfd_open, pid, 0);
	if (p.fd >= 0) {
		ended = nocancel_poll(&p, 1, 0) > 0 && p.revents & POLLIN;
		nocancel_close(p.fd);
	} else {
		ended = kill(pid, 0) < 0 && errno == ESRCH;
	}
	errno = saved;
	return !ended;
}

static bool peer_is_gone(struct sock *sk)
{
	return (load_rlx(&sk->w->anchor_end) != ANCHOR_OPEN ||
		load_rlx(&shm_peer(sk)->flags) & SEG_CLOSED) &&
	       !peer_reads(sk);
}

static int refs_done(struct sock *sk, int fd, uint32_t n_sent, uint32_t *n_done)
{
	bool lies;

	if (!shm_of(sk)->seg || *n_done == n_sent)
		return 0;
	*n_done = shm_refs_done(sk, *n_done, n_sent, &lies);
	if (unlikely(lies)) {
		shm_broken(sk, fd, "its count of references");
		return -ECONNRESET;
	}
	if (*n_done != n_sent && unlikely(peer_is_gone(sk)))
		*n_done = n_sent;
	return 0;
}

/*
 * Waiting.
 */

static void hot(struct sock *sk, bool is_hot)
{
	struct seg_side *me = shm_me(sk);

	/* Dekker with shm_notify_data(); the caller fences and looks. */
	store_rlx(&me->rx_inbox, is_hot ? 0u : 1u);
	if (is_hot)
		store_rlx(&me->rx_anchor, 0u);
}

static bool arm_room(struct sock *sk, int fd, bool by_fd)
{
	const struct shm_conn *c = shm_of(sk);

	if (!shm_w(sk)->tx_ring)
		return false;
	shm_arm(sk, fd, POLLOUT, by_fd ? ARM_ANCHOR : ARM_INBOX);
	return load_acq(c->tx.tail_pub) == c->tx.tail && !ring_rx_ready(&c->rx);
}

const struct lend_ops shm_lend_ops = {
	.open = lend_open,
	.ready = lend_ready,
	.lend = lend,
	.back = lend_back,
	.rest = lend_rest,
	.is_waited_for = is_waited_for,
	.move_on = move_on,
	.is_idle = is_idle,
	.lend_one = lend_one,
	.one_back = one_back,
	.send = shm_send_sole,
	.is_spacious = is_spacious,
	.acks_at_once = acks_at_once,
	.send_ref = send_ref,
	.refs_done = refs_done,
	.peer_reads = peer_reads,
	.hot = hot,
	.arm_room = arm_room,
};
