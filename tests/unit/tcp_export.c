/* SPDX-License-Identifier: MIT */
/*
 * tests/unit/tcp_export.c - connections that leave a stack and go on in another one
 *
 * The peer is the kit's, and must see one connection: its numbers, windows and timestamps
 * go on, and each byte arrives once.
 */
#include "tcp/export.h"
#include "tcp/timer.h"
#include "tcp_kit.h"

static struct kit k;
static struct tcp_stack *other; /* where the connection is not */
static void *other_mem;
static struct tcp_conn *c;

static void stream_check(const uint8_t *buf, uint64_t off, size_t n)
{
	assert_int_equal(stream_differs(buf, off, n), n);
}

/* What a moving connection takes along. */
static struct tcp_image x;
static uint8_t queued_bytes[1 << 18], unread_bytes[1 << 18];
static struct extent queued, unread;
static unsigned n_put;

static void put(struct extent *e)
{
	assert_int_equal(e->refs, 0);
	n_put++;
}

static void begin_as(const struct tcp_config *cfg)
{
	struct tcp_config second = *cfg;

	kit_init(&k, cfg);
	second.key.k[0] = 99;
	other_mem = aligned_alloc(64, tcp_stack_bytes(&second));
	other = tcp_stack_init(other_mem, &second, k.now);
}

static void end(void)
{
	tcp_abort(c, k.now);
	kit_drain(&k);
	tcp_stack_fini(other);
	free(other_mem);
	kit_fini(&k);
}

/* Takes the connection out of its stack. */
static void take_out(void)
{
	assert_int_equal(tcp_export(c, &x, k.now), 0);
	uint32_t n = seq_len(x.snd_una, x.snd_end);

	/* The old stack may still refer to the bytes of the last move. */
	static uint8_t sent[sizeof(queued_bytes)], got[sizeof(unread_bytes)];
	assert_int_equal(tcp_export_queued(c, sent, sizeof(sent)), n);
	assert_int_equal(tcp_export_unread(c, got, sizeof(got)), x.n_unread);
	tcp_forget(c, k.now);
	memcpy(queued_bytes, sent, n);
	memcpy(unread_bytes, got, x.n_unread);
	kit_expect_none(&k);
}

/* Puts it into the other stack, with which the peer talks from then on. */
static int put_in(void)
{
	uint32_t n = seq_len(x.snd_una, x.snd_end);
	struct tcp_stack *s = k.s;
	void *mem = k.mem;

	extent_lend(&queued, queued_bytes, n, put);
	extent_lend(&unread, unread_bytes, x.n_unread, put);
	n_put = 0;
	int err = tcp_import(other, &x, n ? &queued : NULL,
			     x.n_unread ? &unread : NULL, k.now, &c);
	extent_put(&queued);
	extent_put(&unread);
	if (err) {
		assert_int_equal(n_put, 2);
		return err;
	}
	assert_int_equal(n_put, !n + !x.n_unread);
	k.s = other;
	k.mem = other_mem;
	other = s;
	other_mem = mem;
	kit_check(&k);
	return 0;
}

static void move(void)
{
	take_out();
	assert_int_equal(put_in(), 0);
}

/* The peer's next bytes arrive, and the program reads them. */
static void read_some(uint32_t n)
{
	static uint8_t buf[KIT_RX_CAP];
	const uint8_t *data;

	memset(buf, 'x', n);
	kit_in(&k, TCP_ACK, buf, n);
	assert_int_equal(tcp_peek(c, &data), n);
	assert_memory_equal(data, buf, n);
	tcp_consume(c, n, k.now);
}

static void begin(void)
{
	struct tcp_config cfg = kit_config(false);

	begin_as(&cfg);
	k.tsval = 1000;
	c = kit_established(&k);
	/* The peer knows that the connection is open. */
	read_some(1);
	kit_drain(&k);
}

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

static void timestamps_never_step_back(void **state)
{
	struct kit_frame f;
	uint32_t last;

	begin();
	kit_write(&k, c, 10);
	kit_expect(&k, &f, TCP_ACK | TCP_PSH);
	last = f.seg.tsval;
	for (int i = 0; i < 10; i++) {
		kit_in(&k, TCP_ACK, NULL, 0);
		move();
		/* What the kernel is given, and gives. */
		uint32_t value = tcp_image_timestamp(&x);
		take_out();
		assert_true((int32_t)(value - x.tsval) >= 0);
		assert_int_equal(value & 1, x.is_ts_us);
		tcp_image_set_timestamp(&x, value);
		/* From the third on, the kernel counts microseconds. */
		x.is_ts_us |= i > 2;
		assert_int_equal(put_in(), 0);
		kit_wait(&k, NS_PER_MS / 2);
		kit_write(&k, c, 10);
		kit_expect(&k, &f, TCP_ACK | TCP_PSH);
		assert_int_equal(f.seg.tsecr, 0);
		assert_true((int32_t)(f.seg.tsval - last) >= 0);
		assert_in_range(f.seg.tsval - last, 0, 505);
		last = f.seg.tsval;
	}
	/* With microseconds, timestamps are better samples. */
	kit_wait(&k, 300 * NS_PER_US);
	c->srtt_8us = 0;
	kit_in(&k, TCP_ACK, "x", 1);
	assert_in_range(c->srtt_8us / 8, 300, 310);
	assert_in_range(c->rcv_rtt_us, 300, 2 * NS_PER_S);
	end();
}

static void lowest_bit_of_linux_timestamps(void **state)
{
	struct tcp_image i = { .tsval = 0xffffffff };

	assert_int_equal(tcp_image_timestamp(&i), 0);
	i.is_ts_us = true;
	assert_int_equal(tcp_image_timestamp(&i), 0xffffffff);
	tcp_image_set_timestamp(&i, 8);
	assert_false(i.is_ts_us);
	assert_int_equal(i.tsval, 9);
	tcp_image_set_timestamp(&i, 9);
	assert_true(i.is_ts_us);
	assert_int_equal(i.tsval, 9);
}

/* The first segment tells what is recent; from then on older ones are refused. */
static void no_timestamp_is_old_before_the_first(void **state)
{
	begin();
	k.tsval = 5000;
	read_some(1);
	kit_drain(&k);
	move();
	k.tsval = 3000;
	read_some(1);
	k.tsval = 2999;
	uint64_t n = tcp_dropped(k.s, DROP_PAWS);
	kit_in(&k, TCP_ACK, "x", 1);
	assert_int_equal(tcp_dropped(k.s, DROP_PAWS), n + 1);
	end();
}

static void time_wait_keeps_the_timestamps(void **state)
{
	struct kit_frame f;

	begin();
	move();
	assert_int_equal(tcp_shutdown(c, k.now), 0);
	kit_expect(&k, &f, TCP_ACK | TCP_FIN);
	uint32_t last = f.seg.tsval;
	kit_in(&k, TCP_ACK | TCP_FIN, NULL, 0);
	assert_int_equal(c->state, TCP_CLOSED);
	kit_expect(&k, &f, TCP_ACK);
	assert_int_equal(f.seg.tsval, last);
	end();
}

static void keepalive_goes_on(void **state)
{
	struct kit_frame f;

	begin();
	tcp_set_keepalive(c, 10, 2, 3, k.now);
	/* Moves change nothing: the first probe comes after 10 s. */
	for (int i = 0; i < 99; i++) {
		kit_wait(&k, 100 * NS_PER_MS);
		kit_expect_none(&k);
		move();
		kit_expect_none(&k);
	}
	kit_wait(&k, 200 * NS_PER_MS);
	for (int i = 1; i <= 3; i++) {
		kit_expect(&k, &f, TCP_ACK);
		assert_int_equal(c->n_probes, i);
		move();
		kit_wait(&k, NS_PER_S);
		kit_expect_none(&k);
		move();
		kit_wait(&k, NS_PER_S + 10 * NS_PER_MS);
	}
	assert_int_equal(c->state, TCP_CLOSED);
	assert_int_equal(tcp_error(c), -ETIMEDOUT);
	end();
}

static void options_move_along(void **state)
{
	begin();
	tcp_set_nodelay(c, true, k.now);
	tcp_set_cork(c, true, k.now);
	tcp_set_oob_inline(c, true);
	tcp_set_pacing(c, true, k.now);
	tcp_set_linger(c, true);
	tcp_set_rcv_buf(c, 50000);
	tcp_set_snd_buf(c, 60000);
	tcp_set_window_clamp(c, 40000);
	tcp_set_rcv_lowat(c, 100);
	tcp_set_notsent_lowat(c, 200);
	tcp_set_fin_timeout(c, 7);
	struct tcp_image first;
	assert_int_equal(tcp_export(c, &first, k.now), 0);
	move();
	struct tcp_image second;
	assert_int_equal(tcp_export(c, &second, k.now), 0);
	assert_memory_equal(&first, &second, sizeof(first));
	tcp_set_linger(c, false);
	end();
}

static void all_agreements_and_families(void **state)
{
	struct kit_frame f;

	for (unsigned i = 0; i < 16; i++) {
		struct tcp_config cfg = kit_config(i & 8);
		uint32_t offers = i & TCP_OFFER_ALL;

		cfg.offers = offers;
		begin_as(&cfg);
		other->cfg.offers = TCP_OFFER_ALL & ~offers;
		k.tsval = 1000;
		c = kit_established(&k);
		read_some(1);
		uint16_t mss = c->mss;
		uint32_t same = CONN_TS | CONN_SACK | CONN_WSCALE,
			 flags = c->flags;
		uint32_t wnd = c->snd_wnd;
		move();
		assert_int_equal(c->mss, mss);
		assert_int_equal(c->flags & same, flags & same);
		assert_int_equal(c->snd_wnd, wnd);
		if (!(offers & TCP_OFFER_TS))
			k.tsval = 0;
		read_some(10);
		kit_write(&k, c, 3000);
		kit_expect(&k, &f, TCP_ACK);
		assert_int_equal(f.len, mss);
		assert_int_equal(f.seg.has_ts, !!(offers & TCP_OFFER_TS));
		end();
	}
}

static void a_small_path_mtu_moves_along(void **state)
{
	begin();
	kit_write(&k, c, 3000);
	kit_drain(&k);
	kit_icmp(&k, 3, 4, 1000, c->snd_una);
	assert_int_equal(c->path_mtu, 1000);
	kit_drain(&k);
	move();
	assert_int_equal(c->path_mtu, 1000);
	assert_int_equal(c->mss, 1000 - 52);
	end();
}

static void who_cannot_leave(void **state)
{
	struct tcp_seg seg;

	begin();
	seg = kit_seg(&k, TCP_ACK | TCP_URG);
	seg.urg = 2;
	seg.len = 3;
	kit_segment(&k, &seg, "abc");
	k.seq = seq_add(k.seq, 3);
	assert_int_equal(tcp_export(c, &x, k.now), -EBUSY);
	tcp_consume(c, 3, k.now);
	assert_int_equal(tcp_export(c, &x, k.now), 0);
	assert_int_equal(tcp_send_as(c, "x", 1, TCP_SEND_URGENT, k.now), 1);
	assert_int_equal(tcp_export(c, &x, k.now), -EBUSY);
	end();

	kit_begin(&k);
	c = kit_connect(&k);
	assert_int_equal(tcp_export(c, &x, k.now), -EINVAL);
	assert_int_equal(tcp_listen(k.s, NULL, 81, 8, &k.listener), 0);
	k.lport = 81;
	kit_in(&k, TCP_SYN, NULL, 0);
	kit_drain(&k);
	kit_in(&k, TCP_ACK, NULL, 0);
	struct tcp_conn *d =
	    container_of(k.listener->accept.next, struct tcp_conn, ready_link);
	assert_int_equal(tcp_export(d, &x, k.now), -EINVAL);
	assert_ptr_equal(tcp_accept(k.listener), d);
	k.tsval = 1;
	assert_int_equal(tcp_export(d, &x, k.now), 0);
	/* Its place is taken. */
	assert_int_equal(tcp_import(k.s, &x, NULL, NULL, k.now, &d),
			 -EADDRINUSE);
	kit_close_one(&k, c);
}

/* The peer may have answered by a cookie, and may have lost our ACK of it. */
static void a_young_connection_stays(void **state)
{
	struct kit_frame f;

	kit_begin(&k);
	k.tsval = 1000;
	c = kit_established(&k);
	assert_int_equal(tcp_export(c, &x, k.now), -EBUSY);
	kit_write(&k, c, 10);
	kit_expect(&k, &f, TCP_ACK | TCP_PSH);
	assert_int_equal(tcp_export(c, &x, k.now), -EBUSY);
	kit_in(&k, TCP_ACK, NULL, 0);
	assert_int_equal(tcp_export(c, &x, k.now), 0);
	x.bytes_acked = 0;
	x.rport++;
	assert_int_equal(tcp_import(k.s, &x, NULL, NULL, k.now, &c), -EBUSY);
	x.has_ts = false;
	struct tcp_conn *d;
	assert_int_equal(tcp_import(k.s, &x, NULL, NULL, k.now, &d), 0);
	tcp_forget(d, k.now);
	kit_close_one(&k, c);
}

static void expect_refused(struct tcp_image wrong, int err)
{
	struct tcp_conn *d = NULL;
	struct tcp_image keep = x;

	extent_lend(&queued, queued_bytes, 10, put);
	assert_int_equal(
	    tcp_import(other, &wrong,
		       seq_eq(wrong.snd_una, wrong.snd_end) ? NULL : &queued,
		       NULL, k.now, &d),
	    err);
	assert_null(d);
	assert_int_equal(queued.refs, 1);
	x = keep;
}

#define REFUSED(err, ...)                                                      \
	do {                                                                   \
		struct tcp_image i = x;                                        \
		__VA_ARGS__;                                                   \
		expect_refused(i, err);                                        \
	} while (0)

static void contradictions_are_refused(void **state)
{
	begin();
	assert_int_equal(tcp_export(c, &x, k.now), 0);
	REFUSED(-EINVAL, i.snd_lost = seq_sub(i.snd_una, 1));
	REFUSED(-EINVAL, i.snd_lost = seq_add(i.snd_nxt, 1));
	REFUSED(-EINVAL, i.snd_nxt = seq_sub(i.snd_una, 1));
	REFUSED(-EINVAL, i.snd_end = seq_sub(i.snd_nxt, 1));
	REFUSED(-EINVAL, i.snd_end = seq_add(i.snd_nxt, 11));
	REFUSED(-EINVAL, i.n_unread = 1);
	REFUSED(-EINVAL, i.snd_wnd = i.max_wnd + 1);
	REFUSED(-EINVAL, i.snd_wnd = i.max_wnd = (1u << 30) + 1);
	REFUSED(-EINVAL, i.rcv_wnd = (1u << 30) + 1);
	REFUSED(-EINVAL, i.rcv_wup = seq_add(i.rcv_nxt, 1));
	REFUSED(-EINVAL, i.rcv_nxt = seq_add(i.rcv_wup, i.rcv_wnd + 1));
	REFUSED(-EINVAL, i.snd_wl1 = seq_add(i.rcv_wup, i.rcv_wnd + 1));
	REFUSED(-EINVAL, i.snd_wscale = 15);
	REFUSED(-EINVAL, i.rcv_wscale = 15);
	REFUSED(-EINVAL, i.has_wscale = false);
	REFUSED(-EINVAL, i.lport = 0);
	REFUSED(-EINVAL, i.rport = 0);
	REFUSED(-EINVAL, i.raddr = (struct ip_addr){ { 0x20 } });
	REFUSED(-EINVAL, i.raddr = ip_addr_v4(0xffffffff));
	REFUSED(-EADDRNOTAVAIL, i.laddr = ip_addr_v4(0x0a0000ff));
	while (other->pool_ranges.n_free > 2)
		assert_non_null(pool_get(&other->pool_ranges));
	expect_refused(x, -ENOBUFS);
	pool_init(&other->pool_ranges, other->pool_ranges.first.base,
		  sizeof(struct range), other->cfg.n_ranges);
	end();
}

/* The connection was opened elsewhere while the stack had an older one in TIME-WAIT. */
static void time_wait_gives_way(void **state)
{
	begin();
	assert_int_equal(tcp_export(c, &x, k.now), 0);
	struct tcp_stack *s = k.s;
	struct tcp_image first = x;
	k.s = other;
	seq32 seq = k.seq, ack = k.ack;
	struct tcp_conn *d = kit_established(&k);
	assert_int_equal(tcp_shutdown(d, k.now), 0);
	kit_drain(&k);
	kit_in(&k, TCP_ACK | TCP_FIN, NULL, 0);
	kit_drain(&k);
	assert_int_equal(d->state, TCP_CLOSED);
	tcp_close(d, k.now);
	assert_int_equal(other->pool_tws.n - other->pool_tws.n_free, 1);
	k.s = s;
	k.seq = seq;
	k.ack = ack;
	x = first;
	move();
	assert_int_equal(k.s->pool_tws.n - k.s->pool_tws.n_free, 0);
	end();
}

/* Whatever a stranger writes into an image, the engine goes on. */
static void any_image_is_survived(void **state)
{
	unsigned n_taken = 0;
	struct rng rng = { 7 };

	begin();
	assert_int_equal(tcp_export(c, &x, k.now), 0);
	struct tcp_image good = x;
	good.snd_lost = seq_add(good.snd_una, 1000);
	good.snd_nxt = seq_add(good.snd_una, 3000);
	good.snd_end = seq_add(good.snd_una, 9000);
	good.n_unread = 2000;
	for (unsigned round = 0; round < 20000; round++) {
		struct tcp_conn *d;
		struct tcp_frame f;
		uint8_t *raw = (uint8_t *)&x;

		x = good;
		for (unsigned n = 1 + rng_next(&rng) % 4; n; n--) {
			uint64_t r = rng_next(&rng);
			uint32_t at = (uint32_t)r % sizeof(x);

			raw[at] = r >> 40 & 1 ? (uint8_t)(r >> 32)
					      : (uint8_t) - (r >> 41 & 1);
		}
		extent_lend(&queued, queued_bytes, sizeof(queued_bytes), put);
		extent_lend(&unread, unread_bytes, sizeof(unread_bytes), put);
		if (!tcp_import(other, &x, &queued, &unread, k.now, &d)) {
			n_taken++;
			conn_check(d);
			for (unsigned i = 0; i < 20; i++) {
				while (tcp_tx(other, &f, k.now))
					tcp_frame_done(&f);
				uint64_t at = tcp_next_ns(other);
				if (at == UINT64_MAX || d->state == TCP_CLOSED)
					break;
				k.now = at > k.now ? at : k.now;
				tcp_timers(other, k.now);
				conn_check(d);
			}
			tcp_abort(d, k.now);
			while (tcp_tx(other, &f, k.now))
				tcp_frame_done(&f);
		}
		assert_int_equal(queued.refs, 1);
		assert_int_equal(unread.refs, 1);
	}
	assert_true(n_taken > 1000);
	x = good;
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
		cmocka_unit_test(a_reset_is_held_for_the_next_stack),
		cmocka_unit_test(queues_lie_across_0),
		cmocka_unit_test(timestamps_never_step_back),
		cmocka_unit_test(lowest_bit_of_linux_timestamps),
		cmocka_unit_test(no_timestamp_is_old_before_the_first),
		cmocka_unit_test(time_wait_keeps_the_timestamps),
		cmocka_unit_test(keepalive_goes_on),
		cmocka_unit_test(options_move_along),
		cmocka_unit_test(all_agreements_and_families),
		cmocka_unit_test(a_small_path_mtu_moves_along),
		cmocka_unit_test(who_cannot_leave),
		cmocka_unit_test(a_young_connection_stays),
		cmocka_unit_test(contradictions_are_refused),
		cmocka_unit_test(time_wait_gives_way),
		cmocka_unit_test(any_image_is_survived),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
