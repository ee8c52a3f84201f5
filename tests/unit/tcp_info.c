/* SPDX-License-Identifier: MIT */
/*
 * tests/unit/tcp_info.c - TCP_INFO: Linux's layout, and true numbers
 */
#include <linux/tcp.h>

#include "tcp/info.h"
#include "tcp_kit.h"

#define SAME(field)                                                            \
	static_assert(offsetof(struct tcp_info, field) ==                      \
			  offsetof(struct tcp_conn_info, field),               \
		      "Linux's place")

SAME(tcpi_state);
SAME(tcpi_rto);
SAME(tcpi_unacked);
SAME(tcpi_last_data_sent);
SAME(tcpi_pmtu);
SAME(tcpi_rtt);
SAME(tcpi_snd_cwnd);
SAME(tcpi_total_retrans);
SAME(tcpi_pacing_rate);
SAME(tcpi_bytes_acked);
SAME(tcpi_segs_out);
SAME(tcpi_notsent_bytes);
SAME(tcpi_data_segs_out);
SAME(tcpi_delivery_rate);
SAME(tcpi_sndbuf_limited);
SAME(tcpi_delivered);
SAME(tcpi_bytes_retrans);
SAME(tcpi_reord_seen);
SAME(tcpi_rcv_ooopack);
SAME(tcpi_snd_wnd);

static struct kit k;
static struct tcp_conn *c;

static struct tcp_conn_info info(void)
{
	struct tcp_conn_info i;

	tcp_get_info(c, &i, k.now);
	return i;
}

static void pass_ms(uint32_t ms) { k.now += ms * NS_PER_MS; }

static void numbers_are_what_happened(void **state)
{
	struct tcp_conn_info i;

	kit_begin(&k);
	k.tsval = 1;
	c = kit_connect(&k);
	i = info();
	assert_int_equal(i.tcpi_state, 2);
	assert_int_equal(i.tcpi_bytes_sent, 0);
	assert_int_equal(i.tcpi_pacing_rate, 0);
	kit_wait(&k, 10 * NS_PER_MS);
	kit_in(&k, TCP_SYN | TCP_ACK, NULL, 0);
	kit_drain(&k);
	i = info();
	assert_int_equal(i.tcpi_state, 1);
	assert_int_equal(i.tcpi_options, 7);
	assert_int_equal(i.tcpi_snd_wscale, 7);
	assert_int_equal(i.tcpi_rtt, 10000);
	assert_int_equal(i.tcpi_rto, 210000);
	assert_int_equal(i.tcpi_snd_mss, 1448);
	assert_int_equal(i.tcpi_advmss, 1448);
	assert_int_equal(i.tcpi_snd_cwnd, 10);
	/* Twice the window in a round trip, of 10 ms. */
	assert_int_equal(i.tcpi_pacing_rate, 2 * 14480 * 100);
	assert_int_equal(i.tcpi_snd_ssthresh, 0x7fffffff);
	assert_int_equal(i.tcpi_bytes_acked, 0);
	pass_ms(7);
	/* Of bytes that never came, it is the open that is told of. */
	assert_int_equal(info().tcpi_last_data_recv, 7);

	kit_write(&k, c, 14480 + 2000);
	assert_int_equal(kit_drain(&k), 10);
	i = info();
	assert_int_equal(i.tcpi_unacked, 10);
	assert_int_equal(i.tcpi_notsent_bytes, 2000);
	assert_int_equal(i.tcpi_data_segs_out, 10);
	assert_int_equal(i.tcpi_segs_out, 12);
	kit_wait(&k, 10 * NS_PER_MS);
	kit_in(&k, TCP_ACK, "hello", 5);
	kit_drain(&k);
	kit_in(&k, TCP_ACK, NULL, 0);
	i = info();
	assert_int_equal(i.tcpi_unacked, 0);
	assert_int_equal(i.tcpi_bytes_acked, 16480);
	assert_int_equal(i.tcpi_bytes_received, 5);
	assert_int_equal(i.tcpi_delivered, 13); /* with the SYN */
	assert_int_equal(i.tcpi_data_segs_in, 1);
	assert_int_equal(i.tcpi_segs_in, 3);
	assert_int_equal(i.tcpi_ca_state, 0);

	kit_wait(&k, 5 * NS_PER_S);
	i = info();
	assert_int_equal(i.tcpi_last_data_recv, 5000);
	assert_int_equal(i.tcpi_last_ack_recv, 5000);
	kit_write(&k, c, 100);
	kit_drain(&k);
	for (int n = 0; n < 300; n++) {
		kit_wait(&k, 10 * NS_PER_MS);
		kit_drain(&k);
	}
	i = info();
	assert_true(i.tcpi_retransmits >= 2);
	assert_int_equal(i.tcpi_ca_state, 4);
	assert_int_equal(i.tcpi_snd_cwnd, 1);
	assert_true(i.tcpi_total_retrans >= 3);
	assert_int_equal(i.tcpi_retrans, 1);
	assert_int_equal(i.tcpi_bytes_retrans, 100 * i.tcpi_total_retrans);
	assert_int_equal(i.tcpi_bytes_sent, 16580 + i.tcpi_bytes_retrans);
	kit_close_one(&k, c);
}

/* The numbers on the wire have 32 bits; those that are told do not. */
static void more_than_the_sequence_space_is_counted(void **state)
{
	static const uint8_t bytes[1000];
	const uint8_t *data;

	kit_begin(&k);
	k.seq = (seq32){ 0xffffff00u };
	c = kit_established(&k);
	for (int i = 0; i < 3; i++) {
		kit_in(&k, TCP_ACK, bytes, sizeof(bytes));
		ssize_t n = tcp_peek(c, &data);
		tcp_consume(c, (uint32_t)n, k.now);
		kit_drain(&k);
	}
	assert_int_equal(info().tcpi_bytes_received, 3000);
	kit_in(&k, TCP_FIN | TCP_ACK, NULL, 0);
	assert_int_equal(info().tcpi_bytes_received, 3000);
	assert_int_equal(info().tcpi_state, 8);
	c->iss = (seq32){ 5 };
	c->snd_wraps = 3;
	uint64_t acked = info().tcpi_bytes_acked;
	assert_true(acked > 3ull << 32);
	kit_write(&k, c, 100);
	kit_drain(&k);
	kit_in(&k, TCP_ACK, NULL, 0);
	assert_int_equal(info().tcpi_bytes_acked, acked + 100);
	assert_int_equal(info().tcpi_bytes_sent, acked + 100);
	kit_close_one(&k, c);
}

/* Both ends open at once, and ours closes: neither SYN nor FIN is a byte. */
static void a_fin_before_the_open_is_no_byte(void **state)
{
	kit_begin(&k);
	c = kit_connect(&k);
	kit_in(&k, TCP_SYN, NULL, 0);
	kit_drain(&k);
	tcp_close(c, k.now);
	assert_int_equal(kit_drain(&k), 1);
	assert_int_equal(info().tcpi_bytes_sent, 0);
	assert_int_equal(info().tcpi_bytes_acked, 0);
	kit_in(&k, TCP_RST | TCP_ACK, NULL, 0);
	kit_fini(&k);
}

/* In 64 bits, up to the largest window. */
static void the_pacing_rate_of_a_large_window_is_true(void **state)
{
	c = kit_open_one(&k);
	c->srtt_8us = 8 * 10000;
	c->ssthresh = 1u << 30;
	c->cwnd = c->ssthresh - 1;
	assert_int_equal(info().tcpi_pacing_rate, c->cwnd * 200ull);
	c->cwnd = c->ssthresh;
	assert_int_equal(info().tcpi_pacing_rate, c->cwnd * 120ull);
	kit_close_one(&k, c);
}

/* Microseconds, of ours and of Linux, whose clock counts milliseconds. */
static void expect_held(uint32_t busy_ms, uint32_t rwnd_ms, uint32_t sndbuf_ms)
{
	assert_int_equal(info().tcpi_busy_time, busy_ms * 1000);
	assert_int_equal(info().tcpi_rwnd_limited, rwnd_ms * 1000);
	assert_int_equal(info().tcpi_sndbuf_limited, sndbuf_ms * 1000);
}

/* As fast as the program may send, with 10 ms until the peer's ACK. */
static void the_buffer_holds_back_when_it_is_smaller_than_cwnd(void **state)
{
	static const uint8_t bytes[8000];

	c = kit_open_one(&k);
	tcp_set_snd_buf(c, 4000);
	tcp_set_nodelay(c, true, k.now);
	c->cwnd = 20000;
	assert_int_equal(tcp_send(c, bytes, 1000, k.now), 1000);
	kit_drain(&k);
	pass_ms(10);
	expect_held(10, 0, 0);
	assert_int_equal(tcp_send(c, bytes, 8000, k.now), 3000);
	kit_drain(&k);
	pass_ms(10);
	expect_held(20, 0, 10);
	assert_int_equal(tcp_send(c, bytes, 1, k.now), -EAGAIN);
	pass_ms(10);
	expect_held(30, 0, 20);
	/* There is room, which the program has been told of. */
	kit_in(&k, TCP_ACK, NULL, 0);
	pass_ms(10);
	expect_held(30, 0, 20);
	/* What was lent waits, too, until it has room. */
	struct tcp_lent z[2];

	assert_int_equal(tcp_send_lent(c, &z[0], bytes, 4000, k.now), 0);
	assert_int_equal(tcp_send_lent(c, &z[1], bytes, 8, k.now), -EAGAIN);
	kit_drain(&k);
	pass_ms(5);
	expect_held(35, 0, 25);
	/* Nobody writes behind a FIN. */
	assert_int_equal(tcp_shutdown(c, k.now), 0);
	kit_drain(&k);
	pass_ms(5);
	expect_held(40, 0, 25);
	kit_in(&k, TCP_ACK, NULL, 0);
	pass_ms(5);
	expect_held(40, 0, 25);
	kit_close_one(&k, c);
}

static void the_peers_window_holds_back(void **state)
{
	c = kit_open_one(&k);
	c->snd_wnd = 1000;
	kit_write(&k, c, 3000);
	kit_drain(&k);
	pass_ms(10);
	expect_held(10, 10, 0);
	tcp_abort(c, k.now);
	kit_drain(&k);
	kit_fini(&k);
}

static void our_own_window_is_not_told_of(void **state)
{
	c = kit_open_one(&k);
	kit_write(&k, c, 11 * c->mss);
	kit_drain(&k);
	pass_ms(10);
	expect_held(10, 0, 0);
	kit_in(&k, TCP_RST | TCP_ACK, NULL, 0);
	pass_ms(10);
	expect_held(10, 0, 0);
	kit_close_one(&k, c);
}

/* A segment and its ACK, @ms later; minutes in between would make cwnd fall. */
static uint32_t min_rtt_after(uint32_t ms)
{
	kit_write(&k, c, 100);
	kit_drain(&k);
	pass_ms(ms);
	kit_in(&k, TCP_ACK, NULL, 0);
	return info().tcpi_min_rtt;
}

/* A path that has become longer is not measured by what it was: RFC 8985 section 6.2 */
static void the_least_round_trip_is_of_the_last_minutes(void **state)
{
	kit_begin(&k);
	c = kit_connect(&k);
	uint64_t begin = k.now;
	pass_ms(10);
	kit_in(&k, TCP_SYN | TCP_ACK, NULL, 0);
	kit_drain(&k);
	while (k.now < begin + 140 * NS_PER_S)
		assert_int_equal(min_rtt_after(50), 10000);
	while (k.now < begin + 310 * NS_PER_S)
		min_rtt_after(50);
	assert_int_equal(min_rtt_after(50), 50000);
	assert_int_equal(min_rtt_after(20), 20000);
	pass_ms(3600 * 1000);
	assert_int_equal(min_rtt_after(40), 40000);
	kit_close_one(&k, c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_are_what_happened),
		cmocka_unit_test(more_than_the_sequence_space_is_counted),
		cmocka_unit_test(the_pacing_rate_of_a_large_window_is_true),
		cmocka_unit_test(
		    the_buffer_holds_back_when_it_is_smaller_than_cwnd),
		cmocka_unit_test(the_peers_window_holds_back),
		cmocka_unit_test(our_own_window_is_not_told_of),
		cmocka_unit_test(a_fin_before_the_open_is_no_byte),
		cmocka_unit_test(the_least_round_trip_is_of_the_last_minutes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
