/* SPDX-License-Identifier: MIT */
/*
 * tests/unit/ring_held.c - a record whose header is not stored yet hides the rest
 *
 * Either side may store it, and the writer's store never meets a place of the ring
 * that was used again (proto/shm/cork.c).
 */
#include "ring_pair.h"

#define STEPS 200000

struct held {
	struct ring_pair p;
	uint32_t at;
	uint64_t hdr;
	bool is_on;
	uint64_t sent, got;
};

static void hold(struct held *h, uint32_t n)
{
	uint32_t len = n;
	uint8_t *to = ring_reserve(&h->p.tx, &len, &h->at);

	if (!to)
		return;
	stream_fill(to, h->sent, len);
	h->hdr = ring_commit_corked(&h->p.tx, h->at, len);
	h->sent += len;
	h->is_on = true;
}

static void release(struct held *h)
{
	if (h->is_on)
		ring_release(&h->p.tx, h->at, h->hdr);
	h->is_on = false;
}

static void take(struct held *h)
{
	uint32_t off = ring_rx_waits_at(&h->p.rx);

	if (h->is_on && off == h->at)
		ring_rx_store(&h->p.rx, off, h->hdr);
}

static void what_follows_is_hidden_too(void **state)
{
	struct held h = { 0 };
	enum ring_mark mark;

	pair_init(&h.p, RING_MIN_SIZE);
	hold(&h, 10);
	h.sent += (uint64_t)pair_push(&h.p, h.sent, 20);
	ring_push_mark(&h.p.tx, RING_FIN);
	assert_false(ring_rx_ready(&h.p.rx));
	assert_int_equal(ring_rx_bytes(&h.p.rx, 100, &mark), 0);
	assert_int_equal(mark, RING_NONE);
	assert_int_equal(ring_rx_waits_at(&h.p.rx), h.at);
	assert_true(ring_is_corked(&h.p.tx, h.at));
	release(&h);
	assert_false(ring_is_corked(&h.p.tx, h.at));
	assert_int_equal(ring_rx_bytes(&h.p.rx, 100, &mark), 30);
	assert_int_equal(mark, RING_FIN);
	assert_int_equal(pair_pull(&h.p, 0, 100), 30);
	pair_fini(&h.p);
}

static void the_reader_may_store_the_header(void **state)
{
	struct held h = { 0 };

	pair_init(&h.p, RING_MIN_SIZE);
	hold(&h, 10);
	take(&h);
	assert_false(ring_is_corked(&h.p.tx, h.at));
	assert_int_equal(ring_rx_waits_at(&h.p.rx), UINT32_MAX);
	assert_int_equal(pair_pull(&h.p, 0, 100), 10);
	release(&h);
	assert_false(ring_rx_ready(&h.p.rx));
	pair_fini(&h.p);
}

/* Not twice, either: a header that is there is not another's to replace. */
static void a_header_that_is_there_stays(void **state)
{
	struct held h = { 0 };

	pair_init(&h.p, RING_MIN_SIZE);
	hold(&h, 10);
	release(&h);
	ring_rx_store(&h.p.rx, h.at, ring_hdr(RING_DATA, 99));
	assert_int_equal(pair_pull(&h.p, 0, 100), 10);
	pair_fini(&h.p);
}

/* As proto/shm/cork.c does it: whatever is put behind a record that the reader has taken is
 * put there after the hold was given up. */
static void step(struct held *h, uint32_t what, uint32_t n)
{
	if (h->is_on && !ring_is_corked(&h->p.tx, h->at))
		release(h);
	switch (what % 6) {
	case 0:
		if (!h->is_on)
			hold(h, n);
		break;
	case 1:
	case 2: {
		ssize_t took = pair_push(&h->p, h->sent, n);

		h->sent += took > 0 ? (uint64_t)took : 0;
		break;
	}
	case 3:
		release(h);
		break;
	case 4:
		take(h);
		break;
	default:
		h->got += pair_pull(&h->p, h->got, n);
	}
}

static void any_schedule_is_a_stream(void **state)
{
	struct held h = { 0 };
	uint64_t seed = 7;

	pair_init(&h.p, RING_MIN_SIZE);
	for (int i = 0; i < STEPS; i++) {
		seed = seed * UINT64_C(6364136223846793005) + 1;
		step(&h, (uint32_t)(seed >> 33),
		     1 + (uint32_t)(seed >> 50) % 600);
	}
	release(&h);
	h.got += pair_pull(&h.p, h.got, UINT32_MAX);
	assert_int_equal(h.got, h.sent);
	assert_true(h.got > 100 * RING_MIN_SIZE);
	pair_fini(&h.p);
}

/* The header would be stored in the wrong half of the memory. */
static void who_holds_does_not_move(void **state)
{
	struct held h = { 0 };
	uint32_t other_tail = 12345;
	const uint8_t *data;
	enum ring_mark mark;

	pair_init(&h.p, 2 * RING_MIN_SIZE);
	ring_tx_window(&h.p.tx, RING_MIN_SIZE);
	ring_tx_areas(&h.p.tx, h.p.base + RING_MIN_SIZE, &other_tail,
		      RING_MIN_SIZE);
	hold(&h, 10);
	ring_ask_to_move(&h.p.rx, &other_tail);
	assert_int_equal(ring_tx_refresh(&h.p.tx), 0);
	assert_ptr_equal(h.p.tx.base, h.p.base);
	release(&h);
	assert_int_equal(ring_tx_refresh(&h.p.tx), 0);
	assert_ptr_equal(h.p.tx.base, h.p.base + RING_MIN_SIZE);
	assert_int_equal(ring_peek(&h.p.rx, &data, &mark), 10);
	assert_int_equal(stream_differs(data, 0, 10), 10);
	ring_skip(&h.p.rx, 10);
	assert_int_equal(ring_peek(&h.p.rx, &data, &mark), 0);
	assert_int_equal(mark, RING_MOVE);
	pair_fini(&h.p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_follows_is_hidden_too),
		cmocka_unit_test(the_reader_may_store_the_header),
		cmocka_unit_test(a_header_that_is_there_stays),
		cmocka_unit_test(any_schedule_is_a_stream),
		cmocka_unit_test(who_holds_does_not_move),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
