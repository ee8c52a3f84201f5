/* SPDX-License-Identifier: MIT */
/*
 * proto/shm/shared.c - a connection that several processes hold
 *
 *     shm_export()  ->  struct shm_shared in the shared page  ->  shm_import()
 *
 * Another process of the family has worked on the connection and hands us
 * numbers.  A position must lie in its ring, on a record's boundary, and
 * before the lines reserved for marks.  We check no more than that.  A wrong
 * but possible position garbles this connection's bytes, and a process that
 * shares the descriptor could do the same with send() and recv().  We make
 * pointers from our own addresses.
 *
 * Not shared: bytes lent by reference, because only connections of poll groups
 * have them, and no child uses those; what a stream has been granted; who
 * sleeps.
 */
#include <errno.h>
#include <limits.h>

#include "base/fds.h"
#include "proto/shm/shm.h"
#include "sock/shared.h"

struct ring_shared {
	uint32_t size, head_or_off;
	uint8_t area; /* of the ring's memory, 0 or 1 */
};

struct shm_shared {
	/* receiving */
	struct ring_shared rx;
	uint32_t rx_len, rx_pos, rx_published;
	uint8_t rx_moves, rx_tcp, rx_eof, rx_back, recalled, broken, peer_died;
	uint64_t rx_tcp_base;
	int64_t rx_tcp_left;
	uint32_t backlog_pos, backlog_end, bells_drained;
	/* sending */
	struct ring_shared tx;
	uint32_t tx_grow_to, tx_tail, tx_resume, tx_hole;
	uint8_t tx_holds, tx_ring, tx_fin, bell_waits;
	uint64_t tx_tcp_base;
	uint32_t tx_limit, held_bytes, held_at;
	uint64_t held_hdr, held_since_ns;
};

static_assert(sizeof(struct shm_shared) <= SHARED_CONN_BYTES,
	      "it has its place");

/* The area of our ring, 0 or 1, that we read from. */
unsigned shm_rx_area(const struct sock *sk)
{
	return shm_of(sk)->rx.tail_pub == &shm_me(sk)->tail2;
}

void shm_export(const struct sock *sk, void *shared)
{
	const struct shm_conn *c = shm_of(sk);

	*(struct shm_shared *)shared = (struct shm_shared){
		.rx = { c->rx.size, c->rx.off, shm_rx_area(sk) },
		.rx_len = c->rx.len,
		.rx_pos = c->rx.pos,
		.rx_published = c->rx.published,
		.rx_moves = c->rx.moves,
		.rx_tcp = c->rx_tcp,
		.rx_eof = c->rx_eof,
		.rx_back = c->rx_back,
		.recalled = c->recalled,
		.broken = c->rx_broken,
		.peer_died = c->peer_died,
		.rx_tcp_base = c->rx_tcp_base,
		.rx_tcp_left = c->rx_tcp_left,
		.backlog_pos = c->backlog_pos,
		.backlog_end = c->backlog_end,
		.bells_drained = c->bells_drained,
		.tx = { c->tx.size, c->tx.head, c->tx.base > c->tx.other },
		.tx_grow_to = c->tx.grow_to,
		.tx_tail = c->tx.tail,
		.tx_resume = c->tx.resume,
		.tx_hole = c->tx.hole,
		.tx_holds = c->tx.holds,
		.tx_ring = c->tx_ring,
		.tx_fin = c->tx_fin,
		.bell_waits = c->bell_waits,
		.tx_tcp_base = c->tx_tcp_base,
		.tx_limit = c->tx_limit,
		.held_bytes = c->held_bytes,
		.held_at = c->held_at,
		.held_hdr = c->held_hdr,
		.held_since_ns = c->held_since_ns,
	};
}

/* Is @off possible in a ring that has @size bytes from @area on?  Its last
 * line must stay free. */
static bool is_place(const struct sock *sk, uint32_t size, uint8_t area,
		     uint32_t off)
{
	uint32_t half = shm_of(sk)->tx.area_bytes;

	return area <= 1 && size >= RING_MIN_SIZE && size % RING_ALIGN == 0 &&
	       size <= (area ? half : 2 * half) && off % RING_ALIGN == 0 &&
	       off <= size - 2 * RING_ALIGN;
}

void shm_rx_set_area(struct sock *sk, unsigned area)
{
	struct shm_conn *c = shm_of(sk);
	uint32_t bytes = shm_ring_bytes(sk);

	c->rx.base = seg_ring(c->seg, !c->side, bytes) + area * (bytes / 2);
	c->rx.tail_pub = area ? &shm_me(sk)->tail2 : &shm_me(sk)->tail;
}

void shm_tx_set_area(struct sock *sk, unsigned area)
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

static bool is_line(uint32_t size, uint32_t off)
{
	return off % RING_ALIGN == 0 && off < size;
}

static bool rx_is_possible(const struct sock *sk, const struct shm_shared *s)
{
	uint32_t off = s->rx.head_or_off;

	if (!is_place(sk, s->rx.size, s->rx.area, off))
		return false;
	if (s->rx_len &&
	    (s->rx_len > RING_CHUNK || s->rx_pos >= s->rx_len ||
	     ring_record_bytes(s->rx_len) > s->rx.size - RING_ALIGN - off))
		return false;
	return s->rx_tcp_left >= -1 && s->rx_tcp_left <= INT_MAX &&
	       s->backlog_pos <= s->backlog_end &&
	       s->backlog_end <= (shm_of(sk)->backlog ? BACKLOG_MAX : 0);
}

static bool tx_is_possible(const struct sock *sk, const struct shm_shared *s)
{
	uint32_t size = s->tx.size;

	return is_place(sk, size, s->tx.area, s->tx.head_or_off) &&
	       is_place(sk, s->tx_grow_to, s->tx.area, 0) &&
	       s->tx_grow_to >= size && is_line(size, s->tx_tail) &&
	       is_line(size, s->tx_resume) &&
	       (s->tx_hole == RING_NO_HOLE || is_line(size, s->tx_hole)) &&
	       is_line(size, s->held_at);
}

static void rx_take(struct sock *sk, const struct shm_shared *s)
{
	struct shm_conn *c = shm_of(sk);
	struct ring_rx *rx = &c->rx;
	bool begun = s->rx_len && s->rx_pos < s->rx_len;

	shm_rx_set_area(sk, s->rx.area);
	rx->size = s->rx.size;
	store_rlx(&rx->off, s->rx.head_or_off);
	rx->pos = begun ? s->rx_pos : 0;
	rx->data = rx->base + rx->off + ring_payload_off(s->rx_len);
	rx->next = rx->off + (begun ? ring_record_bytes(s->rx_len) : 0);
	rx->is_ref = 0;
	store_rlx(&rx->len, begun ? s->rx_len : 0);
	store_rlx(&rx->published, s->rx_published);
	rx->moves = s->rx_moves != 0;
	store_rlx(&c->rx_tcp, (uint8_t)(s->rx_tcp != 0));
	store_rlx(&c->rx_eof, (uint8_t)(s->rx_eof != 0));
	store_rlx(&c->rx_back, (uint8_t)(s->rx_back != 0));
	store_rlx(&c->recalled, (uint8_t)(s->recalled != 0));
	store_rlx(&c->rx_broken, (uint8_t)(s->broken != 0));
	store_rlx(
	    &c->peer_died,
	    (uint8_t)(s->peer_died <= PEER_RESET ? s->peer_died : PEER_RESET));
	c->rx_tcp_base = s->rx_tcp_base;
	c->rx_tcp_left = s->rx_tcp_left;
	store_rlx(&c->backlog_pos, s->backlog_pos);
	store_rlx(&c->backlog_end, s->backlog_end);
	store_rlx(&c->bells_drained, s->bells_drained);
}

static void tx_take(struct sock *sk, const struct shm_shared *s)
{
	struct shm_conn *c = shm_of(sk);
	struct ring_tx *tx = &c->tx;

	shm_tx_set_area(sk, s->tx.area);
	store_rlx(&tx->size, s->tx.size);
	tx->grow_to = s->tx_grow_to;
	store_rlx(&tx->head, s->tx.head_or_off);
	store_rlx(&tx->tail, s->tx_tail);
	tx->look = 0; /* the reader's tail is looked at first */
	tx->resume = s->tx_resume;
	store_rlx(&tx->hole, s->tx_hole);
	tx->holds = s->tx_holds != 0;
	store_rlx(&c->tx_ring, (uint8_t)(s->tx_ring != 0));
	c->tx_fin = s->tx_fin != 0;
	store_rlx(&c->bell_waits, (uint8_t)(s->bell_waits != 0));
	c->tx_tcp_base = s->tx_tcp_base;
	c->tx_limit = s->tx_limit;
	store_rlx(&c->held_bytes, s->held_bytes);
	c->held_at = s->held_at;
	c->held_hdr = s->held_hdr;
	c->held_since_ns = s->held_since_ns;
}

int shm_import(struct sock *sk, const void *shared)
{
	const volatile struct shm_shared *from = shared;
	struct shm_conn *c = shm_of(sk);
	struct shm_shared s = *from; /* once: it may change at any time */

	if (!c->seg)
		return 0;
	if (!rx_is_possible(sk, &s) || !tx_is_possible(sk, &s))
		return -EPROTO;
	rx_take(sk, &s);
	tx_take(sk, &s);
	/* Another process has finished the upgrade.  Close our copy of its
	 * channel. */
	if (sock_mode(sk) != SOCK_CANDIDATE && c->channel_fd > 0) {
		fds_close(c->channel_fd);
		c->channel_fd = 0;
	}
	return 0;
}
