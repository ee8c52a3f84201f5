/* SPDX-License-Identifier: MIT */
/*
 * tests/fuzz/fuzz_shared.c - a process that shares a connection by fork writes anything
 * into the numbers that all of its holders exchange
 *
 *     bytes -> a script: exports, stores into what was exported, imports, and between
 *              them what calls do with the rings, and what the peer may store there
 *
 * The segment lies between pages that nobody may touch.  Besides never leaving it:
 *   I1  what was exported, and not touched, is taken, and exports the same again
 *   I2  whatever is taken leaves room for the marks behind head, and a record that
 *       has begun ends inside its ring
 */
#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "proto/shm/shm.h"
#include "sock/arena.h"
#include "sock/shared.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Nothing is lost or lent here. */
struct osf_stats_totals *arena_totals(void) { return NULL; }
void sock_set_reason(struct sock *sk, enum osf_reason reason) {}
void shm_lend_shares(struct sock *s) {}

#define RING (64u * 1024)
#define GUARD_BYTES (1u << 20)

struct script {
	const uint8_t *at, *end;
};

static uint32_t next_byte(struct script *s)
{
	return s->at < s->end ? *s->at++ : 0;
}

static uint32_t next_u32(struct script *s)
{
	uint32_t v = next_byte(s);

	v |= next_byte(s) << 8;
	v |= next_byte(s) << 16;
	return v | next_byte(s) << 24;
}

static struct sock sk;
static struct seg *seg;
static uint8_t numbers[2][HALF_BYTES] __attribute__((aligned(64)));
static uint8_t buf[RING_CHUNK];

static void begin(void)
{
	size_t bytes = seg_bytes(RING);
	uint8_t *at = mmap(NULL, bytes + 2 * GUARD_BYTES, PROT_NONE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert(at != MAP_FAILED);
	at += GUARD_BYTES;
	int err = mprotect(at, bytes, PROT_READ | PROT_WRITE);
	assert(!err);
	seg = (struct seg *)(void *)at;
}

static void fresh(void)
{
	struct shm_conn *c = shm_of(&sk);

	memset(&sk, 0, sizeof(sk));
	memset(seg->side, 0, sizeof(seg->side));
	memset(numbers, 0, sizeof(numbers));
	for (uint32_t off = 0; off < 2 * RING; off += RING_ALIGN)
		*ring_hdr_at((uint8_t *)seg + SEG_PAGE, off) = 0;
	sk.w = &sk.own_words;
	sk.state = SOCK_STATE(SOCK_SHM);
	c->seg = seg;
	ring_tx_init(&c->tx, seg_ring(seg, 0, RING), RING, &seg->side[1].tail);
	ring_tx_window(&c->tx, RING / 2);
	ring_tx_areas(&c->tx, c->tx.base + RING / 2, &seg->side[1].tail2,
		      RING / 2);
	ring_rx_init(&c->rx, seg_ring(seg, 1, RING), RING, &seg->side[0].tail);
	c->rx_tcp_left = -1;
	shm_export(&sk, HALF_RX, numbers[HALF_RX]);
	shm_export(&sk, HALF_TX, numbers[HALF_TX]);
}

static void check(enum sock_half half)
{
	const struct shm_conn *c = shm_of(&sk);
	const struct ring_rx *rx = &c->rx;

	if (half == HALF_TX) {
		assert(c->tx.head + 2 * RING_ALIGN <= c->tx.size);
		assert(c->tx.base + c->tx.size <=
		       seg_ring(seg, 0, RING) + RING);
		return;
	}
	assert(rx->base + rx->size <= seg_ring(seg, 1, RING) + RING);
	assert(!rx->len || (rx->pos < rx->len &&
			    rx->data + rx->len <= rx->base + rx->size));
}

static void import(enum sock_half half)
{
	static uint8_t again[HALF_BYTES] __attribute__((aligned(64)));

	if (shm_import(&sk, half, numbers[half]))
		return;
	check(half);
	shm_export(&sk, half, again);
	memcpy(numbers[half], again, HALF_BYTES);
	int err = shm_import(&sk, half, numbers[half]);
	assert(!err);
	shm_export(&sk, half, again);
	assert(!memcmp(numbers[half], again, HALF_BYTES));
}

/* Small numbers and places in a ring mean more than others. */
static void lie(struct script *s)
{
	uint32_t half = next_byte(s), at = next_byte(s) % (HALF_BYTES / 4);
	uint32_t v = next_byte(s);

	if (v & 128)
		v = next_u32(s);
	else if (v & 64)
		v = v % 64 << 10 | next_byte(s) << 6;
	memcpy(numbers[half & 1] + 4 * at, &v, 4);
	import((enum sock_half)(half & 1));
}

static void peer_stores(struct script *s)
{
	uint32_t at = (next_byte(s) << 8 | next_byte(s)) % (RING / RING_ALIGN);
	uint32_t v = next_u32(s);

	switch (next_byte(s) % 4) {
	case 0:
		seg->side[1].tail = v;
		break;
	case 1:
		seg->side[1].tail2 = v;
		break;
	default:
		*ring_hdr_at(seg_ring(seg, 1, RING), at * RING_ALIGN) =
		    ring_hdr((enum ring_mark)(v % 16), v >> 4 & 0x1ffff);
	}
}

static void writes(struct script *s)
{
	struct ring_tx *tx = &shm_of(&sk)->tx;
	uint32_t at = shm_of(&sk)->corked_at;

	switch (next_byte(s) % 4) {
	case 0:
		ring_push_mark(tx, RING_BACK);
		break;
	case 1:
		if (tx->holds)
			ring_release(tx, at, shm_of(&sk)->corked_hdr);
		ring_is_corked(tx, at);
		break;
	default:
		ring_push(tx, buf, 1 + (next_byte(s) << 8 | next_byte(s)));
	}
}

static void reads(struct script *s)
{
	struct ring_rx *rx = &shm_of(&sk)->rx;
	enum ring_mark mark;
	const uint8_t *data;

	ring_rx_bytes(rx, UINT32_MAX, &mark);
	ring_rx_copy_ahead(rx, buf, 100, next_byte(s));
	int32_t n = ring_peek(rx, &data, &mark);
	if (n <= 0)
		return;
	uint32_t take = 1 + (next_byte(s) << 8 | next_byte(s)) % (uint32_t)n;
	memcpy(buf, data, take);
	ring_skip(rx, take);
	if (next_byte(s) & 1)
		ring_publish(rx);
}

/* Only a liar leads a half to the last line of a ring: an honest writer leaves it free. */
static bool is_at_end(enum sock_half half)
{
	const struct shm_conn *c = shm_of(&sk);

	return half == HALF_TX ? c->tx.head > c->tx.size - 2 * RING_ALIGN
			       : c->rx.off > c->rx.size - 2 * RING_ALIGN;
}

/* As a call in this process ends, and one in another begins. */
static void goes_on(enum sock_half half)
{
	shm_export(&sk, half, numbers[half]);
	int err = shm_import(&sk, half, numbers[half]);
	assert(!err || is_at_end(half));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct script s = { data, data + n };

	if (!seg)
		begin();
	fresh();
	while (s.at < s.end)
		switch (next_byte(&s) % 8) {
		case 0:
		case 1:
			lie(&s);
			break;
		case 2:
			peer_stores(&s);
			break;
		case 3:
		case 4:
			writes(&s);
			break;
		case 5:
		case 6:
			reads(&s);
			break;
		default:
			goes_on(next_byte(&s) & 1 ? HALF_TX : HALF_RX);
		}
	return 0;
}
