/* SPDX-License-Identifier: MIT */
/*
 * tests/unit/tcp_export.c - what a moving connection takes along of its stream
 *
 * Its numbers and windows go on, each byte arrives once, and so does the end.  What both
 * sides have agreed on: tcp_image.c.
 */
#include "ip/checksum.h"
#include "tcp/timer.h"
#include "tcp_move.h"

static void a_quiet_connection_goes_on_elsewhere(void **state)
{
	struct kit_frame f;

	begin();
	read_some(100);
	kit_write(&k, c, 200);
	kit_expect(&k, &f, TCP_ACK | TCP_PSH);
	assert_false(tcp_is_quiet(c));
	kit_in(&k, TCP_ACK, NULL, 0);
	assert_true(tcp_is_quiet(c));
	seq32 edge = c->rcv_adv;
	uint32_t cwnd = c->cwnd;
	move();
	assert_int_equal(c->state, TCP_ESTABLISHED);
	kit_expect_none(&k);
	assert_true(tcp_is_quiet(c));
	assert_int_equal(c->cwnd, cwnd);
	assert_true(seq_eq(c->rcv_adv, edge));
	for (int i = 0; i < 3; i++) {
		seq32 next = k.ack;

		read_some(10);
		kit_write(&k, c, 300);
		kit_expect(&k, &f, TCP_ACK | TCP_PSH);
		assert_true(seq_eq(f.seg.seq, next));
		assert_true(seq_eq(f.seg.ack, k.seq));
		kit_in(&k, TCP_ACK, NULL, 0);
		move();
	}
	assert_int_equal(x.bytes_acked, 200 + 3 * 300);
	assert_int_equal(x.bytes_received, 1 + 100 + 3 * 10);
	end();
}

/* What was sent before is acknowledged afterwards, and is no sample of the RTT. */
static void bytes_under_way_count_as_sent(void **state)
{
	struct kit_frame f;

	begin();
	k.tsval = 0;
	kit_write(&k, c, 20000);
	kit_drain(&k);
	seq32 una = c->snd_una, nxt = c->snd_nxt;
	assert_int_equal(seq_len(una, nxt), 10 * c->mss);
	move();
	kit_expect_none(&k);
	assert_true(seq_eq(c->snd_una, una));
	assert_true(seq_eq(c->snd_nxt, nxt));
	uint32_t srtt = c->srtt_8us;
	kit_wait(&k, NS_PER_MS);
	k.ack = seq_add(una, 3000);
	kit_in(&k, TCP_ACK, NULL, 0);
	assert_int_equal(c->srtt_8us, srtt);
	/* What was never sent follows what was. */
	kit_expect(&k, &f, TCP_ACK);
	assert_true(seq_eq(f.seg.seq, nxt));
	stream_check(f.payload, seq_len(una, nxt), f.len);
	end();
}

static void what_was_lost_is_sent_again(void **state)
{
	struct kit_frame f;

	begin();
	kit_write(&k, c, 5000);
	kit_drain(&k);
	seq32 una = c->snd_una;
	kit_wait(&k, 100 * NS_PER_MS);
	move();
	assert_int_equal(x.rtx_left_us, (c->rto_at_ns - k.now) / NS_PER_US);
	/* The time-out comes when it would have come. */
	kit_wait(&k, NS_PER_S);
	kit_expect(&k, &f, TCP_ACK);
	assert_true(seq_eq(f.seg.seq, una));
	stream_check(f.payload, 0, f.len);
	/* In the next stack, all of it is lost still. */
	assert_int_equal(c->ca_state, CA_LOSS);
	move();
	assert_true(x.is_lossy);
	assert_int_equal(c->ca_state, CA_LOSS);
	assert_true(seq_eq(x.snd_lost, seq_add(una, f.len)));
	/* What was sent again is under way: only its time-out sends it once more. */
	kit_expect_none(&k);
	k.ack = x.snd_lost;
	kit_in(&k, TCP_ACK, NULL, 0);
	kit_expect(&k, &f, TCP_ACK);
	assert_true(seq_eq(f.seg.seq, x.snd_lost));
	k.ack = c->snd_nxt;
	kit_in(&k, TCP_ACK, NULL, 0);
	assert_int_equal(c->ca_state, CA_OPEN);
	end();
}

/* A peer that is gone is noticed even if the connection moves all the time. */
static void retries_and_user_timeouts_count_across_moves(void **state)
{
	begin();
	tcp_set_user_timeout(c, 5000);
	kit_write(&k, c, 100);
	kit_drain(&k);
	uint64_t until = k.now + 6 * NS_PER_S;
	while (k.now < until && c->state != TCP_CLOSED) {
		kit_wait(&k, 30 * NS_PER_MS);
		kit_drain(&k);
		if (c->state != TCP_CLOSED)
			move();
	}
	assert_int_equal(c->state, TCP_CLOSED);
	assert_int_equal(tcp_error(c), -ETIMEDOUT);
	assert_true(x.n_backoffs >= 2);
	end();
}

static void unread_bytes_move_along(void **state)
{
	const uint8_t *data;
	uint8_t buf[1000];

	begin();
	for (uint32_t i = 0; i < 5; i++) {
		stream_fill(buf, i * 1000, 1000);
		kit_in(&k, TCP_ACK, buf, 1000);
	}
	kit_drain(&k);
	tcp_consume(c, 500, k.now);
	move();
	assert_int_equal(tcp_poll(c) & TCP_READABLE, TCP_READABLE);
	assert_int_equal(tcp_peek(c, &data), 4500);
	stream_check(data, 500, 4500);
	tcp_consume(c, 500, k.now);
	move();
	assert_int_equal(tcp_peek(c, &data), 4000);
	stream_check(data, 1000, 4000);
	assert_int_equal(n_put, 1);
	tcp_consume(c, 4000, k.now);
	assert_int_equal(n_put, 2); /* the bytes are the caller's again */
	assert_int_equal(c->rcv_mem, 0);
	end();
}

static void bytes_out_of_order_come_again(void **state)
{
	struct kit_frame f;
	struct tcp_seg seg;

	begin();
	seg = kit_seg(&k, TCP_ACK);
	seg.seq = seq_add(seg.seq, 1000);
	seg.len = 500;
	uint8_t buf[1500] = { 0 };
	kit_segment(&k, &seg, buf);
	kit_expect(&k, &f, TCP_ACK);
	assert_int_equal(f.seg.n_sacks, 1);
	move();
	read_some(1000);
	kit_expect(&k, &f, TCP_ACK);
	assert_true(seq_eq(f.seg.ack, k.seq));
	assert_int_equal(f.seg.n_sacks, 0);
	read_some(500);
	end();
}

/* What arrived last was not acknowledged: an ACK that waited would be forgotten. */
static void an_ack_that_waits_leaves_at_once(void **state)
{
	struct kit_frame f;

	begin();
	tcp_set_quickack(c, false, k.now);
	read_some(10);
	kit_expect_none(&k);
	move();
	kit_expect(&k, &f, TCP_ACK);
	assert_true(seq_eq(f.seg.ack, k.seq));
	end();
}

static void a_closed_window_is_probed_as_before(void **state)
{
	struct kit_frame f;

	begin();
	kit_window(&k, 0);
	kit_write(&k, c, 100);
	kit_expect_none(&k);
	for (int i = 0; i < 19; i++) {
		kit_wait(&k, 10 * NS_PER_MS);
		kit_expect_none(&k);
		move();
	}
	kit_wait(&k, 20 * NS_PER_MS);
	kit_expect(&k, &f, TCP_ACK); /* the probe */
	assert_int_equal(c->n_probes, 1);
	assert_true(seq_eq(f.seg.seq, seq_sub(c->snd_una, 1)));
	move();
	assert_int_equal(c->n_probes, 1);
	kit_window(&k, 1000);
	kit_expect(&k, &f, TCP_ACK | TCP_PSH);
	stream_check(f.payload, 0, 100);
	end();
}

/* Our own window is closed: the peer hears when the new stack has room. */
static void our_closed_window_opens_elsewhere(void **state)
{
	struct kit_frame f;
	uint8_t buf[1024] = { 0 };

	begin();
	tcp_set_rcv_buf(c, 4096);
	while (seq_len(c->rcv_nxt, c->rcv_adv)) {
		uint32_t n = seq_len(c->rcv_nxt, c->rcv_adv);

		kit_in(&k, TCP_ACK, buf, MIN(n, 1024u));
		kit_drain(&k);
	}
	seq32 edge = c->rcv_adv;
	move();
	kit_drain(&k);
	assert_true(seq_eq(c->rcv_adv, edge));
	tcp_consume(c, x.n_unread, k.now);
	kit_expect(&k, &f, TCP_ACK);
	assert_true(f.seg.wnd > 0);
	end();
}

static void a_fin_that_waits_is_sent_elsewhere(void **state)
{
	struct kit_frame f;

	begin();
	kit_window(&k, 0);
	kit_write(&k, c, 100);
	assert_int_equal(tcp_shutdown(c, k.now), 0);
	kit_expect_none(&k);
	move();
	assert_true(x.is_shut);
	assert_int_equal(c->state, TCP_FIN_WAIT_1);
	kit_expect_none(&k);
	kit_window(&k, 1000);
	kit_expect(&k, &f, TCP_ACK | TCP_PSH | TCP_FIN);
	/* It was sent: elsewhere it is sent again, with the same number. */
	seq32 una = c->snd_una;
	move();
	assert_int_equal(c->state, TCP_FIN_WAIT_1);
	kit_expect(&k, &f, TCP_ACK | TCP_FIN);
	assert_true(seq_eq(f.seg.seq, seq_add(una, 100)));
	kit_in(&k, TCP_ACK, NULL, 0);
	assert_int_equal(c->state, TCP_FIN_WAIT_2);
	/* There is no number for a FIN that was acknowledged. */
	assert_int_equal(tcp_export(c, &x, k.now), -EINVAL);
	end();
}

static void the_peers_fin_moves_along(void **state)
{
	struct kit_frame f;
	const uint8_t *data;

	begin();
	kit_in(&k, TCP_ACK | TCP_FIN, "abc", 3);
	kit_expect(&k, &f, TCP_ACK);
	move();
	assert_true(x.is_peer_shut);
	assert_int_equal(c->state, TCP_CLOSE_WAIT);
	kit_expect(&k, &f, TCP_ACK);
	assert_true(seq_eq(f.seg.ack, k.seq));
	assert_int_equal(tcp_peek(c, &data), 3);
	assert_memory_equal(data, "abc", 3);
	tcp_consume(c, 3, k.now);
	assert_int_equal(tcp_peek(c, &data), 0);
	assert_int_equal(tcp_shutdown(c, k.now), 0);
	kit_expect(&k, &f, TCP_ACK | TCP_FIN);
	move();
	assert_int_equal(c->state, TCP_LAST_ACK);
	kit_drain(&k);
	kit_in(&k, TCP_ACK, NULL, 0);
	assert_int_equal(c->state, TCP_CLOSED);
	end();
}

/* The FIN is not acknowledged, so that the peer sends it again to whoever comes next. */
static void a_fin_is_held_for_the_next_stack(void **state)
{
	struct kit_frame f;

	for (int is_moved = 0; is_moved < 2; is_moved++) {
		begin();
		tcp_hold_end(c, true, k.now);
		seq32 first = k.seq;
		/* Out of order, it is not next. */
		struct tcp_seg seg = kit_seg(&k, TCP_ACK | TCP_FIN);
		seg.seq = seq_add(first, 3);
		kit_segment(&k, &seg, NULL);
		assert_int_equal(tcp_held_end(c), TCP_END_NONE);
		kit_drain(&k);
		while (tcp_next_ready(k.s))
			;
		kit_in(&k, TCP_ACK | TCP_FIN, "abc", 3);
		assert_int_equal(tcp_held_end(c), TCP_END_FIN);
		assert_ptr_equal(tcp_next_ready(k.s), c);
		assert_int_equal(c->state, TCP_ESTABLISHED);
		assert_int_equal(tcp_readable_bytes(c), 3);
		kit_expect(&k, &f, TCP_ACK);
		assert_true(seq_eq(f.seg.ack, seq_add(first, 3)));
		if (is_moved) {
			move();
			assert_false(x.is_peer_shut);
			k.seq = seq_add(first, 3);
			kit_in(&k, TCP_ACK | TCP_FIN, NULL, 0);
		} else {
			tcp_hold_end(c, false, k.now);
		}
		assert_int_equal(c->state, TCP_CLOSE_WAIT);
		kit_expect(&k, &f, TCP_ACK);
		assert_true(seq_eq(f.seg.ack, seq_add(first, 4)));
		end();
	}
}

/* A segment of the peer's with an option that does nothing in its IPv4 header, or as the
 * first fragment.  @seq: its number */
static void strange_in(seq32 seq, bool is_fragment)
{
	struct tcp_seg seg = kit_seg(&k, TCP_ACK);
	struct extent *e = extent_new(&k.rx);
	uint32_t head = is_fragment ? IPV4_HEAD : IPV4_HEAD + 4;
	uint8_t *p = e->data;

	seg.seq = seq;
	uint32_t n = tcp_head_build(p + head, &seg);
	ip_build(p, &k.peer, &k.me, IP_PROTO_TCP, 0, n);
	memset(p + IPV4_HEAD, 1, head - IPV4_HEAD);
	p[0] = (uint8_t)(0x40 | head / 4);
	store_be16(p + 2, (uint16_t)(head + n));
	store_be16(p + 6, is_fragment ? 0x2000 : 0);
	store_be16(p + 10, 0);
	store_be16(p + 10, cksum_words(p, head / 4));
	tcp_rx(k.s, e, 0, head + n, TCP_RX_SUM_GOOD, k.now);
	extent_put(e);
	kit_check(&k);
}

/* Whoever has the connection next can take what ip_parse() leaves to the kernel. */
static void strange_headers_are_told_of(void **state)
{
	for (int is_fragment = 0; is_fragment < 2; is_fragment++) {
		begin();
		kit_drain(&k);
		strange_in(k.seq, is_fragment);
		assert_int_equal(tcp_held_end(c), TCP_END_NONE);
		tcp_hold_end(c, true, k.now);
		strange_in(seq_sub(k.seq, 2), is_fragment);
		strange_in(seq_add(c->rcv_adv, 1), is_fragment);
		assert_int_equal(tcp_held_end(c), TCP_END_NONE);
		while (tcp_next_ready(k.s))
			;
		strange_in(k.seq, is_fragment);
		assert_int_equal(tcp_held_end(c), TCP_END_STRANGE);
		assert_ptr_equal(tcp_next_ready(k.s), c);
		/* It goes on, as far as it can. */
		kit_in(&k, TCP_ACK, "abc", 3);
		assert_int_equal(tcp_readable_bytes(c), 3);
		kit_in(&k, TCP_ACK | TCP_FIN, NULL, 0);
		assert_int_equal(tcp_held_end(c), TCP_END_FIN);
		tcp_hold_end(c, false, k.now);
		assert_int_equal(c->state, TCP_CLOSE_WAIT);
		end();
	}
}

static void a_reset_is_held_for_the_next_stack(void **state)
{
	begin();
	kit_drain(&k);
	tcp_hold_end(c, true, k.now);
	kit_in(&k, TCP_RST, NULL, 0);
	assert_int_equal(tcp_held_end(c), TCP_END_RESET);
	assert_int_equal(c->state, TCP_ESTABLISHED);
	kit_expect_none(&k);
	/* A FIN that was sent before, and comes later, changes nothing. */
	kit_in(&k, TCP_ACK | TCP_FIN, NULL, 0);
	assert_int_equal(tcp_held_end(c), TCP_END_RESET);
	tcp_hold_end(c, false, k.now);
	assert_int_equal(c->state, TCP_CLOSED);
	assert_int_equal(tcp_error(c), -ECONNRESET);
	tcp_hold_end(c, false, k.now);
	end();
}

/* Both queues and both windows lie across 0. */
static void queues_lie_across_0(void **state)
{
	struct kit_frame f;
	const uint8_t *data;

	begin();
	take_out();
	x.snd_una = (seq32){ (uint32_t)-1000 };
	x.snd_lost = x.snd_nxt = (seq32){ 1000 };
	x.snd_end = (seq32){ 3000 };
	x.rcv_nxt = (seq32){ 10 };
	x.rcv_wup = x.snd_wl1 = (seq32){ (uint32_t)-5 };
	x.n_unread = 30;
	stream_fill(queued_bytes, 0, 4000);
	stream_fill(unread_bytes, 0, 30);
	x.bytes_acked = 5ull << 32;
	x.bytes_received = 7;
	assert_int_equal(put_in(), 0);
	k.seq = x.rcv_nxt;
	k.ack = (seq32){ 1 };
	assert_int_equal(tcp_peek(c, &data), 30);
	kit_in(&k, TCP_ACK, NULL, 0);
	assert_int_equal(c->snd_una.v, 1);
	while (kit_out(&k, &f))
		if (f.len)
			stream_check(f.payload, f.seg.seq.v + 1000, f.len);
	move();
	assert_int_equal(x.bytes_acked, (5ull << 32) + 1001);
	assert_int_equal(x.bytes_received, 7);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_quiet_connection_goes_on_elsewhere),
		cmocka_unit_test(bytes_under_way_count_as_sent),
		cmocka_unit_test(what_was_lost_is_sent_again),
		cmocka_unit_test(retries_and_user_timeouts_count_across_moves),
		cmocka_unit_test(unread_bytes_move_along),
		cmocka_unit_test(bytes_out_of_order_come_again),
		cmocka_unit_test(an_ack_that_waits_leaves_at_once),
		cmocka_unit_test(a_closed_window_is_probed_as_before),
		cmocka_unit_test(our_closed_window_opens_elsewhere),
		cmocka_unit_test(a_fin_that_waits_is_sent_elsewhere),
		cmocka_unit_test(the_peers_fin_moves_along),
		cmocka_unit_test(a_fin_is_held_for_the_next_stack),
		cmocka_unit_test(strange_headers_are_told_of),
		cmocka_unit_test(a_reset_is_held_for_the_next_stack),
		cmocka_unit_test(queues_lie_across_0),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
