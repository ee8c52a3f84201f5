/* SPDX-License-Identifier: MIT */
/*
 * tests/unit/tcp_lend.c - bytes and blocks that others give come back, once
 */
#include "tcp_kit.h"

static struct kit k;
static struct tcp_conn *c;
static struct kit_frame f;
static uint8_t bytes[100000];

static void open_one(uint32_t gso_max)
{
	struct tcp_config cfg = kit_config(false);

	cfg.gso_max = gso_max;
	kit_init(&k, &cfg);
	c = kit_established(&k);
	stream_fill(bytes, 0, sizeof(bytes));
}

static void lend(struct tcp_lent *z, uint32_t off, uint32_t len)
{
	assert_int_equal(tcp_send_lent(c, z, bytes + off, len, k.now), 0);
}

/* Takes what is sent and acknowledges it, until nothing is left. */
static void deliver(uint64_t off, uint64_t until)
{
	while (off < until) {
		assert_true(kit_out(&k, &f));
		if (!f.len)
			continue;
		assert_int_equal(stream_differs(f.payload, off, f.len), f.len);
		off += f.len;
		kit_in(&k, TCP_ACK, NULL, 0);
	}
}

static void lent_bytes_come_back_when_they_are_acknowledged(void **state)
{
	for (uint32_t gso = 0; gso < 2; gso++) {
		struct tcp_lent z[3];

		open_one(gso * 20000);
		lend(&z[0], 0, 10);
		lend(&z[1], 10, 5000);
		/* Copied ones may stand between. */
		assert_int_equal(tcp_send(c, bytes + 5010, 90, k.now), 90);
		lend(&z[2], 5100, 60000);
		assert_null(tcp_next_returned(k.s));
		deliver(0, 65100);
		for (int i = 0; i < 3; i++)
			assert_ptr_equal(tcp_next_returned(k.s), &z[i]);
		assert_null(tcp_next_returned(k.s));
		tcp_abort(c, k.now);
		kit_drain(&k);
		assert_null(tcp_next_returned(k.s));
		kit_fini(&k);
	}
}

/* Frames in a port's queue refer to them as long as they are there. */
static void not_while_a_port_reads_them(void **state)
{
	struct tcp_lent z;
	struct tcp_frame held, again;

	open_one(0);
	lend(&z, 0, 100);
	assert_true(tcp_tx(k.s, &held, k.now));
	kit_wait(&k, NS_PER_S);
	assert_true(tcp_tx(k.s, &again, k.now));
	assert_int_equal(again.len, 100);
	k.ack = c->snd_nxt;
	kit_in(&k, TCP_ACK, NULL, 0);
	assert_int_equal(tcp_unacked_bytes(c), 0);
	tcp_frame_done(&again);
	assert_null(tcp_next_returned(k.s));
	assert_memory_equal(held.pieces[0].data, bytes, 100);
	tcp_frame_done(&held);
	assert_ptr_equal(tcp_next_returned(k.s), &z);
	tcp_abort(c, k.now);
	kit_drain(&k);
	kit_fini(&k);
}

static void the_end_of_a_connection_returns_them(void **state)
{
	struct tcp_lent z;

	for (int how = 0; how < 3; how++) {
		open_one(0);
		lend(&z, 0, 50000);
		kit_drain(&k);
		if (how == 0)
			tcp_abort(c, k.now);
		else if (how == 1)
			kit_in(&k, TCP_RST | TCP_ACK, NULL, 0);
		else
			kit_wait(&k, 2000 * NS_PER_S);
		if (how)
			tcp_close(c, k.now);
		assert_ptr_equal(tcp_next_returned(k.s), &z);
		assert_null(tcp_next_returned(k.s));
		kit_drain(&k);
		kit_fini(&k);
	}
	open_one(0);
	lend(&z, 0, 50000);
	tcp_stack_fini(k.s);
	assert_ptr_equal(tcp_next_returned(k.s), &z);
	free(k.mem);
	free(k.rx_mem);
}

static void what_does_not_fit_is_not_taken(void **state)
{
	struct tcp_lent a, b;
	struct tcp_config cfg = kit_config(false);

	cfg.snd_buf = 10000;
	kit_init(&k, &cfg);
	c = kit_connect(&k);
	assert_int_equal(tcp_send_lent(c, &a, bytes, 10, k.now), -EAGAIN);
	kit_in(&k, TCP_SYN | TCP_ACK, NULL, 0);
	kit_drain(&k);
	lend(&a, 0, 50000); /* alone it may be as large as it is */
	assert_int_equal(tcp_send_lent(c, &b, bytes, 1, k.now), -EAGAIN);
	assert_null(tcp_next_returned(k.s));
	deliver(0, 50000);
	assert_ptr_equal(tcp_next_returned(k.s), &a);
	lend(&b, 0, 1);
	assert_int_equal(tcp_shutdown(c, k.now), 0);
	assert_int_equal(tcp_send_lent(c, &a, bytes, 1, k.now), -EPIPE);
	tcp_abort(c, k.now);
	assert_ptr_equal(tcp_next_returned(k.s), &b);
	kit_drain(&k);
	kit_fini(&k);
}

/* A frame refers to so many pieces and no more; the FIN is behind the last of them. */
static void many_small_pieces_are_several_frames(void **state)
{
	static struct tcp_lent z[50];
	uint64_t off = 0;

	open_one(0);
	for (unsigned i = 0; i < 50; i++)
		lend(&z[i], 10 * i, 10);
	assert_int_equal(tcp_shutdown(c, k.now), 0);
	while (kit_out(&k, &f)) {
		assert_true(f.len <= 10 * TCP_FRAME_PIECES);
		assert_int_equal(stream_differs(f.payload, off, f.len), f.len);
		off += f.len;
		assert_int_equal(f.seg.flags & TCP_FIN ? 1 : 0, off == 500);
	}
	assert_int_equal(off, 500);
	/* Sent again, they are the same bytes. */
	k.ack = c->snd_una;
	for (int i = 0; i < 20 && c->state == TCP_FIN_WAIT_1; i++) {
		kit_wait(&k, NS_PER_S);
		while (kit_out(&k, &f)) {
			off = seq_len(seq_add(c->iss, 1), f.seg.seq);
			assert_int_equal(stream_differs(f.payload, off, f.len),
					 f.len);
			kit_in(&k, TCP_ACK, NULL, 0);
		}
	}
	assert_int_equal(c->state, TCP_FIN_WAIT_2);
	for (unsigned i = 0; i < 50; i++)
		assert_ptr_equal(tcp_next_returned(k.s), &z[i]);
	kit_close_one(&k, c);
}

/* What waits out of order holds the ranges. */
static void without_ranges_nothing_is_lent(void **state)
{
	struct tcp_config cfg = kit_config(false);
	struct tcp_lent z;

	cfg.n_ranges = 64;
	kit_init(&k, &cfg);
	c = kit_established(&k);
	seq32 first = k.seq;
	for (int i = 0; i < 60; i++) {
		k.seq = seq_add(first, 1 + 2 * (uint32_t)i);
		kit_in(&k, TCP_ACK, "x", 1);
	}
	kit_drain(&k);
	assert_int_equal(tcp_send_lent(c, &z, bytes, 10, k.now), -EAGAIN);
	assert_null(tcp_next_returned(k.s));
	k.seq = first;
	tcp_reclaim(k.s);
	stream_fill(bytes, 0, sizeof(bytes));
	lend(&z, 0, 10);
	deliver(0, 10);
	assert_ptr_equal(tcp_next_returned(k.s), &z);
	kit_close_one(&k, c);
}

/* --- blocks --- */

#define N_OPEN 3000
#define N_BLOCKS 16

static unsigned n_given;

static void feed(void)
{
	int which;

	while ((which = tcp_wants(k.s)) >= 0) {
		void *mem = aligned_alloc(TCP_BLOCK, TCP_BLOCK);

		assert_non_null(mem);
		memset(mem, 0xa5, TCP_BLOCK);
		assert_true(tcp_grow(k.s, (enum tcp_pool)which, mem));
		n_given++;
	}
}

static void starve(void)
{
	void *mem;

	while ((mem = tcp_shrink(k.s))) {
		memset(mem, 0x5a, TCP_BLOCK);
		free(mem);
		n_given--;
	}
}

static void pools_grow_as_needed_and_give_back(void **state)
{
	static struct tcp_conn *conns[N_OPEN];
	struct tcp_config cfg = kit_config(false);

	cfg.n_conns = 4;
	cfg.n_reqsks = 4;
	cfg.n_ranges = 64;
	cfg.n_extents = 4;
	cfg.extent_bytes = 4000;
	cfg.n_blocks = N_BLOCKS;
	kit_init(&k, &cfg);
	assert_int_equal(tcp_listen(k.s, NULL, KIT_PORT, 8, &k.listener), 0);
	for (int round = 0; round < 2; round++) {
		for (uint32_t i = 0; i < N_OPEN; i++) {
			k.rport = (uint16_t)(1000 + i);
			k.seq = (seq32){ KIT_PEER_ISS };
			feed();
			conns[i] = c = kit_accepted(&k);
			kit_write(&k, c, 100);
			assert_true(kit_out(&k, &f));
			assert_int_equal(f.len, 100);
			/* Half of them keep bytes in their buffers. */
			if (i % 2)
				kit_in(&k, TCP_ACK, NULL, 0);
		}
		assert_true(n_given >= 4);
		starve();
		assert_true(n_given >= 4);
		/* Whoever is in a block is found by its segments. */
		for (uint32_t i = 0; i < N_OPEN; i++) {
			const struct flow *at = flow_find(
			    k.s, 0, KIT_PORT, &k.peer, (uint16_t)(1000 + i));
			assert_ptr_equal(at, &conns[i]->flow);
		}
		for (uint32_t i = 0; i < N_OPEN; i++) {
			/* Its memory may be gone when it would be looked at. */
			tcp_send_soon(k.s, conns[(i * 7) % N_OPEN]);
			tcp_abort(conns[(i * 7) % N_OPEN], k.now);
			kit_drain(&k);
		}
		starve();
		assert_int_equal(n_given, 0);
		assert_int_equal(k.s->pool_conns.n, 4);
	}
	tcp_unlisten(k.listener, k.now);
	kit_fini(&k);
}

/* TIME-WAIT is kept in blocks, and its links are numbers. */
static void half_open_connections_live_in_blocks(void **state)
{
	struct tcp_config cfg = kit_config(false);

	cfg.n_reqsks = 4;
	cfg.n_blocks = 2;
	kit_init(&k, &cfg);
	for (uint32_t i = 0; i < 500; i++) {
		feed();
		k.rport = (uint16_t)(1000 + i);
		k.seq = (seq32){ KIT_PEER_ISS };
		c = kit_accepted(&k);
		tcp_close(c, k.now);
		kit_drain(&k);
		kit_in(&k, TCP_FIN | TCP_ACK, NULL, 0);
		kit_drain(&k);
	}
	assert_int_equal(k.s->pool_tws.n - k.s->pool_tws.n_free, 500);
	kit_wait(&k, 61 * NS_PER_S);
	assert_int_equal(k.s->pool_tws.n_free, k.s->pool_tws.n);
	starve();
	assert_int_equal(n_given, 0);
	tcp_unlisten(k.listener, k.now);
	kit_fini(&k);
}

static void the_budget_is_kept(void **state)
{
	struct tcp_config cfg = kit_config(false);
	void *mem = aligned_alloc(TCP_BLOCK, TCP_BLOCK);

	kit_init(&k, &cfg);
	assert_int_equal(tcp_wants(k.s), -1);
	assert_false(tcp_grow(k.s, TCP_POOL_CONNS, mem));
	assert_null(tcp_shrink(k.s));
	free(mem);
	kit_fini(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
		    lent_bytes_come_back_when_they_are_acknowledged),
		cmocka_unit_test(not_while_a_port_reads_them),
		cmocka_unit_test(the_end_of_a_connection_returns_them),
		cmocka_unit_test(what_does_not_fit_is_not_taken),
		cmocka_unit_test(many_small_pieces_are_several_frames),
		cmocka_unit_test(without_ranges_nothing_is_lent),
		cmocka_unit_test(pools_grow_as_needed_and_give_back),
		cmocka_unit_test(half_open_connections_live_in_blocks),
		cmocka_unit_test(the_budget_is_kept),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
