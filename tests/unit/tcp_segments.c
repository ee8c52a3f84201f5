/* SPDX-License-Identifier: MIT */
/*
 * tests/unit/tcp_segments.c - what single segments say, and what they do not
 *
 * Timestamps, marks of congestion, duplicates and tails; frames as ports hand them in.
 */
#include "tcp_kit.h"
#include "tcp/rcv.h"

static struct kit k;
static struct tcp_conn *c;
static struct kit_frame f;

/* A connection whose round trip takes 50 ms. */
static void open_one(const struct tcp_config *cfg)
{
	kit_init(&k, cfg);
	c = kit_connect(&k);
	kit_wait(&k, 50 * NS_PER_MS);
	kit_in(&k, TCP_SYN | TCP_ACK, NULL, 0);
	assert_int_equal(kit_drain(&k), 1);
	kit_in(&k, TCP_ACK, NULL, 0); /* with a window that is scaled */
}

/* --- timestamps --- */

/* RFC 7323 section 3.2: what a side has not offered it does not look at. */
static void timestamps_that_nobody_asked_for_are_ignored(void **state)
{
	struct tcp_config cfg = kit_config(false);

	cfg.offers &= ~(uint32_t)TCP_OFFER_TS;
	kit_init(&k, &cfg);
	c = kit_connect(&k);
	k.tsval = 1000;
	k.tsecr = 12345;
	kit_in(&k, TCP_SYN | TCP_ACK, NULL, 0);
	assert_int_equal(c->state, TCP_ESTABLISHED);
	assert_true(kit_out(&k, &f));
	assert_false(f.seg.has_ts);
	kit_close_one(&k, c);
}

/* RFC 7323 section 5.3 (R1), RFC 5961 section 7: an old SYN costs nothing, so it is
 * answered seldom; old text each time. */
static void old_syns_are_answered_twice_a_second(void **state)
{
	kit_begin(&k);
	k.tsval = 1000;
	c = kit_established(&k);
	kit_wait(&k, NS_PER_S);
	k.tsval = 500;
	seq32 seq = k.seq;
	for (int i = 0; i < 5; i++) {
		kit_in(&k, TCP_SYN, NULL, 0);
		k.seq = seq;
		assert_int_equal(kit_drain(&k), !i);
	}
	for (int i = 0; i < 5; i++) {
		kit_in(&k, TCP_ACK, "text", 4);
		k.seq = seq;
		assert_int_equal(kit_drain(&k), 1);
	}
	assert_int_equal(tcp_dropped(k.s, DROP_PAWS), 10);
	assert_int_equal(tcp_readable_bytes(c), 0);
	kit_close_one(&k, c);
}

/* RFC 6298 section 3: what was sent twice is measured by an echo that can be one. */
static void an_echo_that_cannot_be_measures_nothing(void **state)
{
	/* By the key, our own timestamps are large or small. */
	for (uint32_t i = 0; i < 32; i++) {
		struct tcp_config cfg = kit_config(false);
		unsigned how = i % 4;

		cfg.key.k[0] = i / 4;
		kit_init(&k, &cfg);
		k.tsval = 1000;
		c = kit_connect(&k);
		kit_wait(&k, 50 * NS_PER_MS);
		kit_in(&k, TCP_SYN | TCP_ACK, NULL, 0);
		kit_drain(&k);
		uint32_t before = c->srtt_8us;
		kit_write(&k, c, 100);
		kit_drain(&k);
		/* The tail's probe, 20 ms before its ACK. */
		kit_wait(&k, 320 * NS_PER_MS);
		assert_int_equal(kit_drain(&k), 1);
		kit_wait(&k, 20 * NS_PER_MS);
		if (how == 0)
			k.tsval = 0;
		else if (how == 1)
			k.tsecr = 0;
		else if (how == 2)
			k.tsecr += 1000000;
		kit_in(&k, TCP_ACK, NULL, 0);
		assert_int_equal(tcp_unacked_bytes(c), 0);
		if (how < 3)
			assert_true(c->srtt_8us == before);
		else
			assert_true(c->srtt_8us < before);
		kit_close_one(&k, c);
	}
}

/* RFC 5961 section 7, as every 49 days. */
static void the_limit_holds_when_the_clock_reads_0(void **state)
{
	c = kit_open_one(&k);
	kit_wait(&k, (NS_PER_MS << 32) - k.now);
	assert_int_equal(now_ms(k.s), 0);
	for (int i = 0; i < 5; i++) {
		k.seq = seq_add(k.seq, 1 << 20);
		kit_in(&k, TCP_ACK, NULL, 0);
		k.seq = seq_sub(k.seq, 1 << 20);
		assert_int_equal(kit_drain(&k), !i);
		kit_wait(&k, 20 * NS_PER_MS);
	}
	kit_close_one(&k, c);
}

/* --- congestion --- */

static void open_with_ecn(void)
{
	kit_begin(&k);
	assert_int_equal(tcp_listen(k.s, NULL, KIT_PORT, 8, &k.listener), 0);
	kit_in(&k, TCP_SYN | TCP_ECE | TCP_CWR, NULL, 0);
	kit_drain(&k);
	kit_wait(&k, 50 * NS_PER_MS);
	kit_in(&k, TCP_ACK, NULL, 0);
	c = tcp_accept(k.listener);
	assert_non_null(c);
	assert_true(c->flags & CONN_ECN);
}

/* A segment in a frame of that pool's, with these bits of the IP header. */
static void frame_in(struct pool *from, uint8_t ecn, const char *text,
		     uint32_t len)
{
	struct extent *e = extent_new(from);
	struct tcp_seg seg = kit_seg(&k, TCP_ACK);

	seg.len = len;
	assert_non_null(e);
	ip_build(e->data, &k.peer, &k.me, IP_PROTO_TCP, ecn, TCP_HEAD + len);
	tcp_head_build(e->data + IPV4_HEAD, &seg);
	memcpy(e->data + IPV4_HEAD + TCP_HEAD, text, len);
	tcp_rx(k.s, e, 0, IPV4_HEAD + TCP_HEAD + len, TCP_RX_SUM_GOOD, k.now);
	extent_put(e);
	kit_check(&k);
}

/* A segment that a router has marked. */
static void marked_in(uint32_t len)
{
	frame_in(&k.rx, IP_CE, "xxxxxxxxxx", len);
	k.seq = seq_add(k.seq, len);
}

/* RFC 3168 section 6.1.4: ACKs alone are not capable; a mark there is somebody's error. */
static void a_mark_on_an_ack_alone_is_not_echoed(void **state)
{
	open_with_ecn();
	marked_in(0);
	kit_write(&k, c, 10);
	assert_true(kit_out(&k, &f));
	assert_false(f.seg.flags & TCP_ECE);
	marked_in(10);
	assert_true(kit_out(&k, &f));
	assert_true(f.seg.flags & TCP_ECE);
	kit_close_one(&k, c);
}

/* RFC 3168 section 6.1.2, RFC 8985 section 7.4.2: a mark and a lost tail in one window of
 * data are one reason for the window to fall. */
static void the_window_falls_once_for_a_mark_and_a_tail(void **state)
{
	open_with_ecn();
	tcp_set_nodelay(c, true, k.now);
	for (int i = 0; i < 3; i++)
		kit_write(&k, c, 1000);
	seq32 first = seq_add(c->snd_una, 1000);
	assert_int_equal(kit_drain(&k), 3);
	kit_wait(&k, 110 * NS_PER_MS);
	assert_int_equal(kit_drain(&k), 1);
	assert_true(c->rec.is_tlp_out && c->rec.is_tlp_retx);
	seq32 end = k.ack;
	k.ack = first;
	kit_in(&k, TCP_ACK | TCP_ECE, NULL, 0);
	assert_int_equal(c->ca_state, CA_CWR);
	uint32_t ssthresh = c->ssthresh;
	assert_true(ssthresh < SSTHRESH_MAX);
	kit_write(&k, c, 1000);
	k.ack = end;
	assert_int_equal(kit_drain(&k), 1);
	kit_in(&k, TCP_ACK, NULL, 0);
	assert_int_equal(tcp_unacked_bytes(c), 0);
	assert_false(c->rec.is_tlp_out);
	assert_int_equal(c->ssthresh, ssthresh);
	kit_close_one(&k, c);
}

/* RFC 8985 section 7.4.2: the ACK that says that a tail was lost may bring no byte that
 * was not SACKed before it. */
static void a_tail_may_be_sacked_before_its_ack(void **state)
{
	c = kit_open_one(&k);
	tcp_set_nodelay(c, true, k.now);
	kit_write(&k, c, 1000);
	kit_write(&k, c, 1000);
	assert_int_equal(kit_drain(&k), 2);
	kit_wait(&k, 150 * NS_PER_MS);
	assert_int_equal(kit_drain(&k), 1);
	assert_true(c->rec.is_tlp_out && c->rec.is_tlp_retx);
	kit_write(&k, c, 1000);
	assert_int_equal(kit_drain(&k), 1);
	kit_sack(&k, c->snd_una, c->snd_una, c->snd_nxt);
	assert_int_equal(c->sacked_bytes, 3000);
	assert_int_equal(c->ca_state, CA_OPEN);
	k.ack = c->snd_nxt;
	kit_in(&k, TCP_ACK, NULL, 0);
	assert_int_equal(tcp_unacked_bytes(c), 0);
	assert_true(c->ssthresh < SSTHRESH_MAX);
	kit_close_one(&k, c);
}

/* RFC 5681 section 3.2: the third duplicate says what all others say. */
static void any_number_of_duplicates_is_one_loss(void **state)
{
	struct tcp_config cfg = kit_config(false);
	unsigned n_again = 0;

	cfg.offers &= ~(uint32_t)TCP_OFFER_SACK;
	open_one(&cfg);
	c->cwnd = 1 << 20;
	seq32 first = k.ack;
	kit_write(&k, c, 100u * c->mss);
	assert_int_equal(kit_drain(&k), 100);
	k.ack = first;
	for (int i = 0; i < 600; i++) {
		kit_in(&k, TCP_ACK, NULL, 0);
		while (kit_out(&k, &f)) {
			n_again += seq_eq(f.seg.seq, first);
			k.ack = first;
		}
	}
	assert_int_equal(n_again, 1);
	kit_close_one(&k, c);
}

/* --- frames --- */

static void *ranges[4096];
static unsigned n_ranges;

/* Somebody else has all of the stack's memory for ranges. */
static void ranges_take(void)
{
	while (n_ranges < ARRAY_LEN(ranges) &&
	       (ranges[n_ranges] = pool_get(&k.s->pool_ranges)))
		n_ranges++;
}

static void ranges_give_back(void)
{
	while (n_ranges)
		pool_put(&k.s->pool_ranges, ranges[--n_ranges]);
}

/* RFC 8985 section 7.3: the last segment, or all of its range where it cannot be cut. */
static void without_memory_the_whole_tail_is_probed(void **state)
{
	struct tcp_config cfg = kit_config(false);

	cfg.gso_max = 20000;
	open_one(&cfg);
	kit_write(&k, c, 5u * c->mss);
	assert_true(kit_out(&k, &f));
	assert_int_equal(f.len, 5u * c->mss);
	assert_true(f.seg.flags & TCP_PSH);
	seq32 una = c->snd_una;
	ranges_take();
	kit_wait(&k, 320 * NS_PER_MS);
	assert_true(kit_out(&k, &f));
	assert_true(seq_eq(f.seg.seq, una));
	assert_int_equal(f.len, 5u * c->mss);
	assert_int_equal(f.gso_size, c->mss);
	assert_true(c->rec.is_tlp_out);
	ranges_give_back();
	kit_close_one(&k, c);
}

/* RFC 2018 section 4: a part of a range arrives, which cannot be told of apart: nothing
 * is, and all of it is sent again. */
static void without_memory_a_part_is_not_sacked(void **state)
{
	for (uint32_t from = 0; from < 2; from++) {
		struct tcp_config cfg = kit_config(false);

		cfg.gso_max = 20000;
		open_one(&cfg);
		kit_write(&k, c, 5u * c->mss);
		assert_true(kit_out(&k, &f));
		seq32 una = c->snd_una, first = seq_add(una, from * c->mss);
		ranges_take();
		kit_sack(&k, una, first, seq_add(una, 2u * c->mss));
		assert_int_equal(c->sacked_bytes, 0);
		ranges_give_back();
		kit_sack(&k, una, first, seq_add(una, 2u * c->mss));
		assert_int_equal(c->sacked_bytes, (2 - from) * c->mss);
		kit_in(&k, TCP_ACK, NULL, 0);
		assert_int_equal(tcp_unacked_bytes(c), 0);
		kit_close_one(&k, c);
	}
}

/* What takes no time is not spread over any. */
static void a_path_without_delay_is_not_paced(void **state)
{
	struct tcp_config cfg = kit_config(false);

	cfg.gso_max = 20000;
	cfg.is_paced = true;
	kit_init(&k, &cfg);
	c = kit_established(&k);
	assert_int_equal(c->srtt_8us, 1);
	kit_write(&k, c, 10u * c->mss);
	assert_true(kit_out(&k, &f));
	assert_int_equal(f.len, 10u * c->mss);
	kit_close_one(&k, c);
}

#define BIG (1u << 20)

static struct pool big_pool;

/* A port may have larger ones than a connection may hold; then it holds one, and what
 * comes behind it is copied. */
static void a_frame_beyond_the_limit_is_held_alone(void **state)
{
	void *mem = aligned_alloc(64, 4 * (size_t)extent_size(BIG));
	const uint8_t *data;

	assert_non_null(mem);
	pool_init(&big_pool, mem, extent_size(BIG), 4);
	c = kit_open_one(&k);
	assert_true(rcv_mem_max(c) < BIG);
	for (int i = 0; i < 2; i++) {
		frame_in(&big_pool, 0, "text", 4);
		k.seq = seq_add(k.seq, 4);
		assert_int_equal(tcp_peek(c, &data), 4);
		assert_memory_equal(data, "text", 4);
		assert_int_equal(big_pool.n_free, 3);
		tcp_consume(c, 2, k.now);
		frame_in(&big_pool, 0, "more", 4);
		k.seq = seq_add(k.seq, 4);
		assert_int_equal(tcp_readable_bytes(c), 6);
		assert_int_equal(big_pool.n_free, 3);
		tcp_consume(c, 2, k.now);
		assert_int_equal(tcp_peek(c, &data), 4);
		assert_memory_equal(data, "more", 4);
		tcp_consume(c, 4, k.now);
	}
	kit_close_one(&k, c);
	assert_int_equal(big_pool.n_free, 4);
	free(mem);
}

/* RFC 2018 section 8: after a time-out what a peer has SACKed counts no more if it has
 * forgotten it; the same block then tells something again. */
static void what_was_sacked_and_forgotten_is_sacked_again(void **state)
{
	c = kit_open_one(&k);
	uint32_t mss = c->mss; /* time-outs make it smaller */
	kit_write(&k, c, 5 * mss);
	kit_drain(&k);
	seq32 una = c->snd_una;
	kit_sack(&k, una, una, seq_add(una, mss));
	assert_int_equal(c->sacked_bytes, mss);
	kit_wait(&k, 3 * NS_PER_S);
	assert_int_equal(c->sacked_bytes, 0);
	kit_drain(&k);
	kit_sack(&k, una, una, seq_add(una, mss));
	assert_int_equal(c->sacked_bytes, mss);
	kit_close_one(&k, c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(timestamps_that_nobody_asked_for_are_ignored),
		cmocka_unit_test(old_syns_are_answered_twice_a_second),
		cmocka_unit_test(an_echo_that_cannot_be_measures_nothing),
		cmocka_unit_test(the_limit_holds_when_the_clock_reads_0),
		cmocka_unit_test(a_mark_on_an_ack_alone_is_not_echoed),
		cmocka_unit_test(the_window_falls_once_for_a_mark_and_a_tail),
		cmocka_unit_test(a_tail_may_be_sacked_before_its_ack),
		cmocka_unit_test(any_number_of_duplicates_is_one_loss),
		cmocka_unit_test(without_memory_the_whole_tail_is_probed),
		cmocka_unit_test(without_memory_a_part_is_not_sacked),
		cmocka_unit_test(what_was_sacked_and_forgotten_is_sacked_again),
		cmocka_unit_test(a_path_without_delay_is_not_paced),
		cmocka_unit_test(a_frame_beyond_the_limit_is_held_alone),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
