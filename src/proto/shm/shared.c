/* SPDX-License-Identifier: MIT */
/*
 * proto/shm/shared.c - a connection that several processes hold
 *
 *     shm_export()  ->  struct rx_shared, struct tx_shared, in the shared page
 *                   ->  shm_import()
 *
 * Another process that holds the socket has worked on a half of the connection and hands us
 * its positions (sock/shared.h).  A position must lie in its ring, on a record's
 * boundary, and before the lines reserved for marks.  We check no more than that.  A
 * wrong but possible position garbles this connection's bytes, and a process that
 * shares the descriptor could do the same with send() and recv().  We make pointers
 * from our own addresses.
 *
 * Not shared: bytes lent by reference, because only connections of poll groups have
 * them, and no child uses those; what a stream has been granted.
 */
#include <errno.h>
#include <limits.h>
#include <sys/socket.h>

#include "base/fds.h"
#include "base/libc.h"
#include "base/log.h"
#include "base/nocancel.h"
#include "proto/shm/shm.h"
#include "sock/arena.h"
#include "sock/shared.h"

struct ring_shared {
	uint32_t size, at; /* the next record: head or off */
	uint32_t area;     /* of the ring's memory, 0 or 1 */
};

struct rx_shared {
	struct ring_shared ring;
	uint32_t len, pos, published, moves;
	uint64_t tcp_base;
	int64_t tcp_left;
	uint32_t readahead_pos, readahead_end, bells_drained;
};

struct tx_shared {
	struct ring_shared ring;
	uint32_t grow_to, tail, resume, hole, hole_to;
	uint32_t holds, fin;
	uint64_t tcp_base;
	uint32_t limit, corked_bytes, corked_at;
	uint64_t corked_hdr, corked_since_ns;
	uint32_t fin_due;
};

static_assert(sizeof(struct rx_shared) <= HALF_BYTES, "it has its place");
static_assert(sizeof(struct tx_shared) <= HALF_BYTES, "it has its place");

unsigned shm_rx_area(const struct sock *sk)
{
	return shm_of(sk)->rx.tail_pub == &shm_me(sk)->tail2;
}

static void rx_export(const struct shm_conn *c, unsigned area,
		      struct rx_shared *s)
{
	*s = (struct rx_shared){
		.ring = { c->rx.size, c->rx.off, area },
		.len = c->rx.len,
		.pos = c->rx.pos,
		.published = c->rx.published,
		.moves = c->rx.moves,
		.tcp_base = c->rx_tcp_base,
		.tcp_left = c->rx_tcp_left,
		.readahead_pos = c->readahead_pos,
		.readahead_end = c->readahead_end,
		.bells_drained = c->bells_drained,
	};
}

static void tx_export(const struct shm_conn *c, struct tx_shared *s)
{
	*s = (struct tx_shared){
		.ring = { c->tx.size, c->tx.head, c->tx.base > c->tx.other },
		.grow_to = c->tx.grow_to,
		.tail = c->tx.tail,
		.resume = c->tx.resume,
		.hole = c->tx.hole,
		.hole_to = c->tx.hole_to,
		.holds = c->tx.holds,
		.fin = c->tx_fin,
		.tcp_base = c->tx_tcp_base,
		.limit = c->tx_limit,
		.corked_bytes = c->corked_bytes,
		.corked_at = c->corked_at,
		.corked_hdr = c->corked_hdr,
		.corked_since_ns = c->corked_since_ns,
		.fin_due = c->fin_due,
	};
}

void shm_export(const struct sock *sk, enum sock_half half, void *to)
{
	if (!shm_of(sk)->seg)
		return;
	if (half == HALF_RX && shm_of(sk)->rx.hold != RING_NONE_LENT)
		shm_lend_shares((struct sock *)sk);
	if (half == HALF_RX)
		rx_export(shm_of(sk), shm_rx_area(sk), to);
	else
		tx_export(shm_of(sk), to);
}

/* Is @off possible in a ring that has @size bytes from @area on?  Its last line must
 * stay free. */
static bool is_place(const struct sock *sk, uint32_t size, uint32_t area,
		     uint32_t off)
{
	uint32_t half = shm_of(sk)->tx.area_bytes;

	return area <= 1 && size >= RING_MIN_SIZE && size % RING_ALIGN == 0 &&
	       size <= (area ? half : 2 * half) && off % RING_ALIGN == 0 &&
	       off <= size - 2 * RING_ALIGN;
}

static bool is_line(uint32_t size, uint32_t off)
{
	return off % RING_ALIGN == 0 && off < size;
}

static bool rx_is_possible(const struct sock *sk, const struct rx_shared *s)
{
	uint32_t off = s->ring.at;

	if (!is_place(sk, s->ring.size, s->ring.area, off))
		return false;
	if (s->len &&
	    (s->len > RING_CHUNK || s->pos >= s->len ||
	     ring_record_bytes(s->len) > s->ring.size - RING_ALIGN - off))
		return false;
	return s->tcp_left >= -1 && s->tcp_left <= INT_MAX &&
	       s->readahead_pos <= s->readahead_end &&
	       s->readahead_end <= (shm_of(sk)->readahead ? READAHEAD_MAX : 0);
}

static bool tx_is_possible(const struct sock *sk, const struct tx_shared *s)
{
	uint32_t size = s->ring.size;

	return is_place(sk, size, s->ring.area, s->ring.at) &&
	       is_place(sk, s->grow_to, s->ring.area, 0) &&
	       s->grow_to >= size && is_line(size, s->tail) &&
	       is_line(size, s->resume) &&
	       (s->hole == RING_NO_HOLE || is_line(size, s->hole)) &&
	       is_line(size, s->hole_to) && is_line(size, s->corked_at);
}

static void rx_set_place(struct sock *sk, const struct ring_shared *s)
{
	struct shm_conn *c = shm_of(sk);
	uint32_t bytes = shm_ring_bytes(sk);
	uint8_t *ring = seg_ring(c->seg, !c->side, bytes);

	ring_rx_place(&c->rx, ring + s->area * (bytes / 2), s->size, s->at);
	c->rx.tail_pub = s->area ? &shm_me(sk)->tail2 : &shm_me(sk)->tail;
}

static void tx_set_area(struct sock *sk, unsigned area)
{
	struct shm_conn *c = shm_of(sk);
	struct seg_side *p = shm_peer(sk);
	uint32_t bytes = shm_ring_bytes(sk);
	uint8_t *ring = seg_ring(c->seg, c->side, bytes);

	c->tx.base = ring + area * (bytes / 2);
	c->tx.other = ring + !area * (bytes / 2);
	store_rlx(&c->tx.tail_pub, area ? &p->tail2 : &p->tail);
	c->tx.other_tail = area ? &p->tail : &p->tail2;
}

static void rx_take(struct sock *sk, const struct rx_shared *s)
{
	struct shm_conn *c = shm_of(sk);
	struct ring_rx *rx = &c->rx;

	rx_set_place(sk, &s->ring);
	rx->pos = s->len ? s->pos : 0;
	rx->data = rx->base + rx->off + ring_payload_off(s->len);
	rx->next = rx->off + (s->len ? ring_record_bytes(s->len) : 0);
	rx->is_ref = 0;
	store_rlx(&rx->len, s->len);
	store_rlx(&rx->published, s->published);
	rx->moves = s->moves != 0;
	rx->hold = rx->moves ? s->published : RING_NONE_LENT;
	c->rx_tcp_base = s->tcp_base;
	c->rx_tcp_left = s->tcp_left;
	store_rlx(&c->readahead_pos, s->readahead_pos);
	store_rlx(&c->readahead_end, s->readahead_end);
	store_rlx(&c->bells_drained, s->bells_drained);
}

static void tx_take(struct sock *sk, const struct tx_shared *s)
{
	struct shm_conn *c = shm_of(sk);
	struct ring_tx *tx = &c->tx;

	tx_set_area(sk, s->ring.area);
	store_rlx(&tx->size, s->ring.size);
	tx->grow_to = s->grow_to;
	store_rlx(&tx->head, s->ring.at);
	store_rlx(&tx->tail, s->tail);
	tx->look = 0; /* the reader's tail is looked at first */
	tx->resume = s->resume;
	store_rlx(&tx->hole, s->hole);
	tx->hole_to = s->hole_to;
	tx->holds = s->holds != 0;
	c->tx_fin = s->fin != 0;
	c->tx_tcp_base = s->tcp_base;
	c->tx_limit = s->limit;
	store_rlx(&c->corked_bytes, s->corked_bytes);
	c->corked_at = s->corked_at;
	c->corked_hdr = s->corked_hdr;
	c->corked_since_ns = s->corked_since_ns;
	c->fin_due = s->fin_due != 0;
}

/* Another process has finished the upgrade: close our copy of its channel. */
static void channel_end(struct sock *sk)
{
	struct shm_conn *c = shm_of(sk);

	if (likely(c->channel_fd <= 0) || sock_mode(sk) == SOCK_PENDING)
		return;
	fds_close(xchg(&c->channel_fd, 0));
}

int shm_import(struct sock *sk, enum sock_half half, const void *from)
{
	if (!shm_of(sk)->seg)
		return 0;
	/* Once: it may change at any time. */
	if (half == HALF_RX) {
		struct rx_shared s = *(const volatile struct rx_shared *)from;

		if (!rx_is_possible(sk, &s))
			return -EPROTO;
		rx_take(sk, &s);
	} else {
		struct tx_shared s = *(const volatile struct tx_shared *)from;

		if (!tx_is_possible(sk, &s))
			return -EPROTO;
		tx_take(sk, &s);
	}
	channel_end(sk);
	return 0;
}

COLD void shm_lost(struct sock *sk, const char *why)
{
	log_err("fd %d: %s; connection reset", sk->st->fd, why);
	sock_set_reason(sk, OSF_REASON_BROKEN);
	count(&arena_totals()->n_broken, 1);
	store_rlx(&shm_w(sk)->rx_broken, (uint8_t)1);
	SOCK_PUT(sk, anchor_err, ECONNRESET);
	SOCK_PUT(sk, anchor_end, (uint8_t)ANCHOR_RST);
	if (shm_of(sk)->seg)
		fetch_or(&shm_me(sk)->flags, SEG_CLOSED);
}

COLD static void reset_now(struct sock *sk, int fd)
{
	struct sockaddr unspec = { .sa_family = AF_UNSPEC };
	int saved = errno;

	if (xchg(&sk->reset_due, (uint8_t)0))
		nocancel_connect(fd, &unspec, sizeof(unspec));
	errno = saved;
}

void shm_reset_due(struct sock *sk, int fd)
{
	if (unlikely(load_rlx(&sk->reset_due)))
		reset_now(sk, fd);
}
