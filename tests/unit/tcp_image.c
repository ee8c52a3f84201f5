/* SPDX-License-Identifier: MIT */
/*
 * tests/unit/tcp_image.c - what an image of a moving connection says beside its stream
 *
 * Timestamps, options and timers go on in the other stack (tcp_export.c has the bytes).
 * Which connections cannot leave, and which images are refused.
 */
#include "tcp/timer.h"
#include "tcp_move.h"

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
