/* SPDX-License-Identifier: MIT */
/*
 * proto/shm/tx_grow.c - how much of its ring a stream uses
 *
 *     a fast stream              ->  tx_bulk_look()    ->  all of its half
 *     a ring that stays full     ->  shm_tx_stretch()  ->  both halves
 *
 * The caller holds the tx lock, but for shm_stretch_ns().
 */
#include "base/clock.h"
#include "base/memory.h"
#include "proto/shm/tx.h"

/*
 * A stream that moves a gigabyte a second may use its whole ring, because
 * lines that have left the reader's cache cost the writer less.  The total
 * over all streams of a process is bounded, because a stream keeps this memory
 * until it closes.
 */
#define BULK_NS (8 * NS_PER_MS)
/* A reader that hands out pointers may never load the data into its own cache.
 * The writer then finds the lines in its cache as long as the ring is small,
 * so do not grow the ring.  After BULK_SLOW slow rounds in a row, treat the
 * stream like any other. */
#define BULK_STAYS_NS (NS_PER_MS / 2)
#define BULK_SLOW 8u
#define GRANTS_MAX (256u * 1024 * 1024)
#define GRANT_OF_ROOM 8 /* for one stream */

static uint32_t grants; /* bytes */

COLD void tx_bulk_look(struct sock *sk)
{
	bool lends = load_rlx(&shm_peer(sk)->flags) & SEG_LENDS;
	/* A reader that lends may ask us to continue in the other half. */
	uint32_t size =
	    lends ? shm_of(sk)->tx.area_bytes : 2 * shm_of(sk)->tx.area_bytes;
	uint32_t more = size - MIN(size, shm_of(sk)->tx.size);
	uint64_t now = now_ns();
	bool is_fast = now - shm_of(sk)->bulk_since_ns < BULK_NS;

	bool stays = now - shm_of(sk)->bulk_since_ns < BULK_STAYS_NS;

	shm_of(sk)->bulk_bytes = 0;
	shm_of(sk)->bulk_since_ns = now;
	if (!is_fast || size <= shm_of(sk)->tx.grow_to)
		return;
	if (lends) {
		shm_of(sk)->n_bulk_slow =
		    stays ? 0 : shm_of(sk)->n_bulk_slow + 1;
		if (shm_of(sk)->n_bulk_slow < BULK_SLOW)
			return;
	}
	if (memory_room() / GRANT_OF_ROOM < more)
		return;
	if (fetch_add(&grants, more) > GRANTS_MAX - more) {
		fetch_sub(&grants, more);
		return;
	}
	shm_of(sk)->granted += more;
	ring_tx_grow(&shm_of(sk)->tx, size);
}

void shm_tx_shrink(struct sock *sk)
{
	fetch_sub(&grants, shm_of(sk)->granted);
	shm_of(sk)->granted = 0;
}

/*
 * A reader that reads nothing may itself be writing.  TCP takes what both kernels'
 * buffers hold by default, so a ring that has been full for some time takes as much,
 * too.  A reader that merely has no core for a moment has no use for that.
 */
#define STRETCH_BYTES (5u * 1024 * 1024)
#define STRETCH_NS (10 * NS_PER_MS)

uint64_t shm_stretch_ns(const struct sock *sk)
{
	uint64_t since = load_rlx(&shm_of(sk)->tx_full_ns);

	if (likely(!since) || !load_rlx(&shm_w(sk)->tx_ring) ||
	    load_rlx(&sk->w->shut) & SHUT_BIT_WR ||
	    load_rlx(&shm_peer(sk)->flags) & SEG_CLOSED ||
	    load_rlx(shm_of(sk)->tx.tail_pub) !=
		load_rlx(&shm_of(sk)->tx_full_at))
		return UINT64_MAX;
	return since + STRETCH_NS;
}

COLD void shm_tx_stretch(struct sock *sk)
{
	struct ring_tx *tx = &shm_of(sk)->tx;
	bool lends = load_rlx(&shm_peer(sk)->flags) & SEG_LENDS;

	uint64_t due = shm_stretch_ns(sk);

	if (due != UINT64_MAX && due > now_ns())
		return;
	store_rlx(&shm_of(sk)->tx_full_ns, UINT64_C(0));
	if (due == UINT64_MAX) /* the reader has read */
		return;
	if (!lends && tx->base < tx->other)
		ring_tx_stretch(tx, MIN(STRETCH_BYTES, 2 * tx->area_bytes));
}

/* A call has found no room. */
COLD void tx_full_note(struct sock *sk)
{
	struct shm_conn *c = shm_of(sk);

	if (c->tx.grow_to < MIN(STRETCH_BYTES, 2 * c->tx.area_bytes) &&
	    !c->tx_limit && (!c->tx_full_ns || c->tx_full_at != c->tx.tail))
		store_rlx(&c->tx_full_ns, now_ns());
	store_rlx(&c->tx_full_at, c->tx.tail);
}
