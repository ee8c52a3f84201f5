/* SPDX-License-Identifier: MIT */
/*
 * tests/unit/tcp_long_ago.c - what was noted long ago: numbers that have wrapped since
 *
 * After two gigabytes an old sequence number looks like one that is still to come.  The
 * notes are written here as they would be by then.
 */
#include "tcp_kit.h"

#define LONG_AGO ((1u << 31) + 1000)

static struct kit k;
static struct tcp_conn *c;

/* Segment @i of what is under way. */
static struct tcp_sack segment(uint32_t i)
{
	seq32 from = seq_add(c->snd_una, i * c->mss);

	return (struct tcp_sack){ from, seq_add(from, c->mss) };
}

/* The small segment of then is not under way: Minshall's rule. */
static void a_small_segment_of_long_ago_holds_nothing(void **state)
{
	c = kit_open_one(&k);
	c->snd_sml = seq_sub(c->snd_una, LONG_AGO);
	kit_write(&k, c, 100);
	assert_int_equal(kit_drain(&k), 1);
	kit_write(&k, c, 100);
	assert_int_equal(kit_drain(&k), 0);
	kit_close_one(&k, c);
}

/* RFC 5961 section 5.2: all before snd_una was sent, whatever the first number. */
static void an_old_ack_is_old_after_the_numbers_have_wrapped(void **state)
{
	c = kit_open_one(&k);
	seq32 ack = k.ack;

	k.ack = seq_sub(ack, 500);
	kit_in(&k, TCP_ACK, "abc", 3);
	assert_int_equal(c->rcvq_bytes, 0);
	kit_drain(&k);
	k.seq = seq_sub(k.seq, 3);
	c->snd_wraps++;
	k.ack = seq_sub(ack, 500);
	kit_in(&k, TCP_ACK, "abc", 3);
	assert_int_equal(c->rcvq_bytes, 3);
	kit_close_one(&k, c);
}

/* RFC 8985 section 6.2: once a round, and the first round has not been yet. */
static void duplicates_widen_the_window_whatever_the_numbers(void **state)
{
	for (int is_old = 0; is_old < 2; is_old++) {
		c = kit_open_one(&k);
		c->rec.reo_round = is_old ? seq_sub(c->snd_una, LONG_AGO)
					  : seq_add(c->snd_nxt, 1u << 30);
		kit_write(&k, c, 4u * c->mss);
		kit_drain(&k);
		struct tcp_sack d = { seq_sub(c->snd_una, 1), c->snd_una };
		kit_sacks(&k, c->snd_una, 1, d, d);
		assert_int_equal(c->rec.reo_steps, 1);
		kit_sacks(&k, c->snd_una, 1, d, d);
		assert_int_equal(c->rec.reo_steps, 1);
		kit_close_one(&k, c);
	}
}

static void blocks_of_long_ago_reorder_nothing(void **state)
{
	c = kit_open_one(&k);
	c->sack_high = seq_sub(c->snd_una, LONG_AGO);
	kit_write(&k, c, 6u * c->mss);
	kit_drain(&k);
	kit_sacks(&k, c->snd_una, 1, segment(2), segment(2));
	kit_sacks(&k, c->snd_una, 1,
		  (struct tcp_sack){ segment(2).from, segment(3).to },
		  segment(3));
	assert_false(c->flags & CONN_REORDERS);
	kit_sacks(&k, c->snd_una, 2, segment(5), segment(2));
	kit_sacks(&k, c->snd_una, 2, segment(4), segment(2));
	assert_true(c->flags & CONN_REORDERS);
	kit_close_one(&k, c);
}

static void blocks_of_long_ago_are_not_known(void **state)
{
	c = kit_open_one(&k);
	kit_write(&k, c, 6u * c->mss);
	kit_drain(&k);
	c->sacks_known[0] = (struct tcp_sack){ c->snd_una, c->snd_nxt };
	c->n_sacks_known = 1;
	kit_sacks(&k, c->snd_una, 1, segment(2), segment(2));
	assert_int_equal(c->sacked_bytes, c->mss);
	kit_close_one(&k, c);
}

/* RFC 9438 section 5.8: a pause that began before the epoch does not move it beyond now,
 * from where the curve would go up to the sky. */
static void a_pause_does_not_outlast_itself(void **state)
{
	struct tcp_config cfg = kit_config(false);

	cfg.cc = &tcp_cubic;
	kit_init(&k, &cfg);
	c = kit_established(&k);
	kit_in(&k, TCP_ACK, NULL, 0);
	c->ssthresh = c->cwnd;
	kit_write(&k, c, 40u * c->mss);
	assert_int_equal(kit_drain(&k), 10);
	kit_wait(&k, 100 * NS_PER_MS);
	kit_window(&k, 0);
	assert_true(c->cc_state.cubic.epoch_ns);
	for (int i = 0; i < 10; i++) {
		kit_wait(&k, NS_PER_S);
		kit_drain(&k);
		kit_window(&k, 0);
	}
	kit_window(&k, 65535);
	uint32_t cwnd = c->cwnd;
	assert_int_equal(kit_drain(&k), 10);
	assert_true(c->cc_state.cubic.epoch_ns <= k.now);
	kit_wait(&k, 50 * NS_PER_MS);
	kit_window(&k, 65535);
	assert_true(c->cwnd >= cwnd && c->cwnd <= cwnd + c->mss);
	kit_close_one(&k, c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_small_segment_of_long_ago_holds_nothing),
		cmocka_unit_test(
		    an_old_ack_is_old_after_the_numbers_have_wrapped),
		cmocka_unit_test(
		    duplicates_widen_the_window_whatever_the_numbers),
		cmocka_unit_test(blocks_of_long_ago_reorder_nothing),
		cmocka_unit_test(blocks_of_long_ago_are_not_known),
		cmocka_unit_test(a_pause_does_not_outlast_itself),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
