/* SPDX-License-Identifier: MIT */
/*
 * tests/unit/shared_numbers.c - a process that shares a connection by fork writes anything
 * into the numbers that all of its holders exchange
 *
 * They are refused, or they lead to wrong bytes of this connection.  They never lead out of
 * its memory: the segment lies between pages that nobody may touch, and is used after each
 * import as send() and recv() use it.
 */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/libc.h"
#include "proto/shm/shm.h"
#include "sock/arena.h"
#include "sock/shared.h"
#include "unit.h"

/* Nothing is lost here. */
struct osf_stats_totals *arena_totals(void) { return NULL; }
void sock_set_reason(struct sock *sk, enum osf_reason reason) {}
void shm_lend_shares(struct sock *sk) {}

#define RING (64u * 1024)
#define GUARD_BYTES (1u << 20)
#define N_WORDS 28u /* of a half, that mean something */

static void place_rings(struct sock *sk, struct seg *seg)
{
	struct shm_conn *c = shm_of(sk);

	c->seg = seg;
	c->side = 0;
	ring_tx_init(&c->tx, seg_ring(seg, 0, RING), RING, &seg->side[1].tail);
	ring_tx_window(&c->tx, RING / 2);
	ring_tx_areas(&c->tx, c->tx.base + RING / 2, &seg->side[1].tail2,
		      RING / 2);
	ring_rx_init(&c->rx, seg_ring(seg, 1, RING), RING, &seg->side[0].tail);
	c->rx_tcp_left = -1;
}

static struct seg *guarded_segment(void)
{
	size_t bytes = seg_bytes(RING);
	uint8_t *at = mmap(NULL, bytes + 2 * GUARD_BYTES, PROT_NONE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(at != MAP_FAILED);
	at += GUARD_BYTES;
	assert_int_equal(mprotect(at, bytes, PROT_READ | PROT_WRITE), 0);
	return (struct seg *)(void *)at;
}

/* What any call may do with the rings, once the numbers were taken. */
static void use(struct sock *sk, struct rng *r)
{
	static uint8_t buf[RING_CHUNK];
	struct shm_conn *c = shm_of(sk);
	enum ring_mark mark;
	const uint8_t *data;

	for (int i = 0; i < 4; i++)
		ring_push(&c->tx, buf, 1 + rng_below(r, RING_CHUNK));
	ring_push_mark(&c->tx, RING_BACK);
	ring_push_mark(&c->tx, RING_FIN);
	if (c->tx.holds)
		ring_release(&c->tx, c->corked_at, c->corked_hdr);
	ring_is_corked(&c->tx, c->corked_at);
	ring_rx_bytes(&c->rx, UINT32_MAX, &mark);
	for (int i = 0; i < 64; i++) {
		int32_t n = ring_peek(&c->rx, &data, &mark);

		if (n <= 0)
			break;
		uint32_t take = 1 + rng_below(r, (uint32_t)n);
		memcpy(buf, data, take);
		ring_skip(&c->rx, take);
	}
	ring_publish(&c->rx);
}

/* A record in the ring that is read, then some lies. */
static void one_round(struct sock *sk, struct rng *r)
{
	static uint32_t numbers[2][HALF_BYTES / 4] __attribute__((aligned(64)));
	struct seg *seg = shm_of(sk)->seg;
	bool good = true;

	for (uint32_t off = 0; off < RING; off += RING_ALIGN)
		*ring_hdr_at(seg_ring(seg, 1, RING), off) =
		    rng_below(r, 2)
			? ring_hdr(RING_DATA, 1 + rng_below(r, 3000))
			: rng_next(r) & UINT64_C(0xffff0000ffff);
	for (int half = HALF_RX; half <= HALF_TX; half++) {
		shm_export(sk, (enum sock_half)half, numbers[half]);
		for (uint32_t i = rng_below(r, 4); i; i--)
			numbers[half][rng_below(r, N_WORDS)] =
			    rng_below(r, 3) ? rng_below(r, RING) & ~63u
					    : (uint32_t)rng_next(r);
		good &= !shm_import(sk, (enum sock_half)half, numbers[half]);
	}
	if (good)
		use(sk, r);
}

static void lies_stay_inside_the_connection(void **state)
{
	static struct sock sk;
	struct seg *seg = guarded_segment();
	struct rng r = { 1 };

	sk.w = &sk.own_words;
	sk.state = SOCK_STATE(SOCK_SHM);
	for (int i = 0; i < 20000; i++) {
		memset(&sk.conn, 0, sizeof(sk.conn));
		place_rings(&sk, seg);
		memset(seg->side, 0, sizeof(seg->side));
		for (int j = 0; j < 4; j++)
			one_round(&sk, &r);
	}
}

static void what_was_exported_is_imported(void **state)
{
	static struct sock a, b;
	uint8_t rx[HALF_BYTES] __attribute__((aligned(64)));
	uint8_t tx[HALF_BYTES] __attribute__((aligned(64)));
	struct seg *seg = guarded_segment();
	uint8_t bytes[100];

	a.state = b.state = SOCK_STATE(SOCK_SHM);
	a.w = &a.own_words;
	b.w = &b.own_words;
	memset(seg->side, 0, sizeof(seg->side));
	place_rings(&a, seg);
	place_rings(&b, seg);
	stream_fill(bytes, 0, sizeof(bytes));
	assert_int_equal(ring_push(&shm_of(&a)->tx, bytes, 100), 100);
	shm_of(&a)->bells_drained = 7;
	shm_export(&a, HALF_RX, rx);
	shm_export(&a, HALF_TX, tx);
	assert_int_equal(shm_import(&b, HALF_RX, rx), 0);
	assert_int_equal(shm_import(&b, HALF_TX, tx), 0);
	assert_int_equal(shm_of(&b)->tx.head, shm_of(&a)->tx.head);
	assert_int_equal(shm_of(&b)->bells_drained, 7);
	assert_ptr_equal(shm_of(&b)->tx.tail_pub, shm_of(&a)->tx.tail_pub);
	assert_ptr_equal(shm_of(&b)->rx.base, shm_of(&a)->rx.base);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_exported_is_imported),
		cmocka_unit_test(lies_stay_inside_the_connection),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
