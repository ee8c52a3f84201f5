/* SPDX-License-Identifier: MIT */
/*
 * tests/unit/tcp_options.c - when small segments, ACKs and time-outs come
 *
 * Nagle, corks and MSG_MORE; delayed and quick ACKs; how long a connection waits for
 * a peer that says nothing, or only that it has no room.
 */
#include "tcp_kit.h"

static struct kit k;
static struct tcp_conn *c;
static struct kit_frame f;

static void open_one(void) { c = kit_open_one(&k); }

static void close_one(void) { kit_close_one(&k, c); }

static void expect_frame(uint32_t len)
{
	assert_true(kit_out(&k, &f));
	assert_int_equal(f.len, len);
}

static void one_small_segment_is_under_way(void **state)
{
	open_one();
	kit_write(&k, c, 10);
	expect_frame(10);
	kit_write(&k, c, 10);
	kit_write(&k, c, 10);
	kit_expect_none(&k);
	kit_in(&k, TCP_ACK, NULL, 0);
	expect_frame(20);
	kit_write(&k, c, 10);
	kit_expect_none(&k);
	tcp_set_nodelay(c, true, k.now);
	expect_frame(10);
	kit_write(&k, c, 10);
	expect_frame(10);
	close_one();
}

static void a_cork_holds_what_is_small(void **state)
{
	open_one();
	uint32_t mss = c->mss;
	tcp_set_cork(c, true, k.now);
	kit_write(&k, c, 10);
	kit_expect_none(&k);
	kit_write(&k, c, mss);
	expect_frame(mss);
	kit_expect_none(&k);
	tcp_set_cork(c, false, k.now);
	expect_frame(10);
	close_one();
}

/* TCP_NODELAY pushes what is there; what follows is corked. */
static void nodelay_opens_a_cork_once(void **state)
{
	open_one();
	tcp_set_cork(c, true, k.now);
	kit_write(&k, c, 10);
	tcp_set_nodelay(c, true, k.now);
	expect_frame(10);
	kit_write(&k, c, 10);
	kit_expect_none(&k);
	/* A FIN follows at once. */
	assert_int_equal(tcp_shutdown(c, k.now), 0);
	expect_frame(10);
	assert_true(f.seg.flags & TCP_FIN);
	close_one();
}

static void a_cork_gives_way_in_time(void **state)
{
	open_one();
	kit_write(&k, c, 10);
	expect_frame(10);
	kit_in(&k, TCP_ACK, NULL, 0);
	tcp_set_cork(c, true, k.now);
	kit_write(&k, c, 10);
	kit_expect_none(&k);
	kit_wait(&k, 190 * NS_PER_MS);
	kit_expect_none(&k);
	kit_wait(&k, 50 * NS_PER_MS);
	expect_frame(10);
	assert_int_equal(c->state, TCP_ESTABLISHED);
	close_one();
}

static void more_is_a_cork_until_the_next_call(void **state)
{
	open_one();
	assert_int_equal(tcp_send_as(c, "abc", 3, TCP_SEND_MORE, k.now), 3);
	kit_expect_none(&k);
	assert_int_equal(tcp_send(c, "de", 2, k.now), 2);
	expect_frame(5);
	assert_int_equal(tcp_send_as(c, "abc", 3, TCP_SEND_MORE, k.now), 3);
	kit_expect_none(&k);
	kit_in(&k, TCP_ACK, NULL, 0);
	expect_frame(3);
	close_one();
}

/* Linux leaves PSH to the end of what is given; a full segment before it goes at once. */
static void what_more_follows_is_not_pushed(void **state)
{
	static const uint8_t bytes[3000];

	open_one();
	assert_int_equal(
	    tcp_send_as(c, bytes, c->mss + 10u, TCP_SEND_MORE, k.now),
	    c->mss + 10);
	expect_frame(c->mss);
	assert_false(f.seg.flags & TCP_PSH);
	kit_expect_none(&k);
	kit_in(&k, TCP_ACK, NULL, 0);
	tcp_set_cork(c, true, k.now);
	kit_expect_none(&k);
	kit_wait(&k, 240 * NS_PER_MS);
	expect_frame(10);
	assert_true(f.seg.flags & TCP_PSH);
	kit_in(&k, TCP_ACK, NULL, 0);
	assert_int_equal(tcp_send_as(c, bytes, c->mss, TCP_SEND_MORE, k.now),
			 c->mss);
	expect_frame(c->mss);
	assert_false(f.seg.flags & TCP_PSH);
	assert_int_equal(tcp_send(c, bytes, c->mss, k.now), c->mss);
	expect_frame(c->mss);
	assert_true(f.seg.flags & TCP_PSH);
	close_one();
}

/* --- TCP_MAXSEG --- */

/* Whatever is asked for, segments are neither larger than the link's, nor tiny. */
static void a_maxseg_of_any_value_is_borne(void **state)
{
	static const uint16_t asked[] = { 0, 1, 47, 88, 1000, 1460, 65535 };

	for (unsigned i = 0; i < ARRAY_LEN(asked); i++) {
		uint16_t said = asked[i] && asked[i] < 1460 ? asked[i] : 1460;

		kit_begin(&k);
		assert_int_equal(tcp_connect(k.s, &k.me, KIT_PORT, &k.peer,
					     KIT_PEER_PORT, k.now, &c),
				 0);
		tcp_set_maxseg(c, asked[i]);
		assert_true(kit_out(&k, &f));
		assert_int_equal(f.seg.mss, said);
		kit_in(&k, TCP_SYN | TCP_ACK, NULL, 0);
		kit_drain(&k);
		/* Too late. */
		tcp_set_maxseg(c, 500);
		kit_write(&k, c, 3000);
		expect_frame(said > MSS_MIN ? said : MSS_MIN);
		kit_in(&k, TCP_RST, NULL, 0);
		tcp_set_maxseg(c, 500);
		assert_int_equal(c->maxseg, asked[i]);
		close_one();
	}
}

/* A listener's, too, from which timestamps take their part. */
static void a_listeners_maxseg_of_any_value_is_borne(void **state)
{
	static const uint16_t asked[] = { 1, 11, 12, 13, 1460 };

	for (unsigned i = 0; i < ARRAY_LEN(asked); i++) {
		kit_begin(&k);
		k.tsval = 1;
		assert_int_equal(
		    tcp_listen(k.s, NULL, KIT_PORT, 8, &k.listener), 0);
		tcp_set_listen_maxseg(k.listener, asked[i]);
		kit_in(&k, TCP_SYN, NULL, 0);
		kit_expect(&k, &f, TCP_SYN | TCP_ACK);
		assert_int_equal(f.seg.mss, asked[i]);
		assert_true(f.seg.wnd > 60000);
		kit_in(&k, TCP_ACK, NULL, 0);
		c = tcp_accept(k.listener);
		assert_non_null(c);
		close_one();
	}
}

static void a_cookie_has_its_listeners_maxseg(void **state)
{
	struct tcp_config cfg = kit_config(false);

	cfg.n_reqsks = 1;
	kit_init(&k, &cfg);
	assert_int_equal(tcp_listen(k.s, NULL, KIT_PORT, 8, &k.listener), 0);
	tcp_set_listen_maxseg(k.listener, 700);
	kit_in(&k, TCP_SYN, NULL, 0);
	kit_drain(&k);
	k.rport++;
	kit_in(&k, TCP_SYN, NULL, 0);
	assert_true(kit_out(&k, &f));
	assert_int_equal(tcp_dropped(k.s, DROP_SYN_COOKIE), 1);
	assert_int_equal(f.seg.mss, 700);
	kit_in(&k, TCP_ACK, NULL, 0);
	c = tcp_accept(k.listener);
	assert_non_null(c);
	assert_true(c->mss <= 700);
	/* What it is set to later is not for those that are there. */
	tcp_set_listen_maxseg(k.listener, 100);
	assert_int_equal(c->maxseg, 700);
	close_one();
}

/* --- records --- */

/* MSG_EOR, with frames of many segments: no frame reaches across, and all bytes come. */
static void records_do_not_share_segments(void **state)
{
	static uint8_t bytes[8000];
	struct tcp_config cfg = kit_config(false);
	bool ends[200001] = { false };
	uint32_t sent = 0, seen = 0, seed = 1;

	cfg.gso_max = 65000;
	kit_init(&k, &cfg);
	c = kit_established(&k);
	seq32 first = c->snd_nxt;
	while (seen < 200000) {
		seed = seed * 1103515245 + 12345;
		uint32_t n = 1 + (seed >> 8) % (seed & 1u << 20 ? 5000 : 50);
		unsigned how = seed >> 28 & 1 ? TCP_SEND_EOR : 0;

		n = MIN(n, 200000 - sent);
		stream_fill(bytes, sent, n);
		ssize_t got = n ? tcp_send_as(c, bytes, n, how, k.now) : 0;
		/* Of what is not taken whole the end is not there. */
		if (got > 0) {
			sent += (uint32_t)got;
			ends[sent] = how && got == (ssize_t)n;
		}
		while (kit_out(&k, &f)) {
			uint32_t at = seq_len(first, f.seg.seq);

			if (!f.len)
				continue;
			assert_int_equal(stream_differs(f.payload, at, f.len),
					 f.len);
			for (uint32_t i = at + 1; i < at + f.len; i++)
				assert_false(ends[i]);
			seen = at + f.len;
		}
		kit_in(&k, TCP_ACK, NULL, 0);
	}
	close_one();
}

/* Memory: records that are small do not have an extent each. */
static void small_records_share_memory(void **state)
{
	open_one();
	tcp_set_nodelay(c, true, k.now);
	c->snd_wnd = 0;
	uint32_t before = k.s->pool_extents.n_free;
	for (int i = 0; i < 100; i++)
		assert_int_equal(tcp_send_as(c, "abc", 3, TCP_SEND_EOR, k.now),
				 3);
	assert_int_equal(k.s->pool_extents.n_free, before - 1);
	/* Nothing at all ends nothing. */
	assert_int_equal(tcp_send_as(c, "", 0, TCP_SEND_EOR, k.now), 0);
	kit_in(&k, TCP_ACK, NULL, 0);
	for (int i = 0; i < 100; i++) {
		expect_frame(3);
		assert_true(f.seg.flags & TCP_PSH);
		if (i % 10 == 9)
			kit_in(&k, TCP_ACK, NULL, 0);
	}
	kit_expect_none(&k);
	kit_in(&k, TCP_ACK, NULL, 0);
	assert_int_equal(k.s->pool_extents.n_free, before);
	/* A FIN shares the segment of the last record. */
	assert_int_equal(tcp_send_as(c, "abc", 3, TCP_SEND_EOR, k.now), 3);
	assert_int_equal(tcp_shutdown(c, k.now), 0);
	expect_frame(3);
	assert_true(f.seg.flags & TCP_FIN);
	close_one();
}

/* What is written is not cut for a few bytes that fit behind others. */
static void a_little_room_in_an_extent_is_left(void **state)
{
	open_one();
	c->snd_wnd = 0;
	const struct pool *p = &k.s->pool_extents;
	uint32_t cap = p->size - (uint32_t)sizeof(struct extent), little = 100;
	uint32_t before = p->n_free;

	kit_write(&k, c, cap - little);
	kit_write(&k, c, little + 1);
	assert_int_equal(p->n_free, before - 2);
	/* It is not lost for what fits, nor is much room. */
	kit_write(&k, c, cap - 2 * little - 1);
	kit_write(&k, c, little);
	assert_int_equal(p->n_free, before - 2);
	kit_write(&k, c, cap);
	kit_write(&k, c, cap / 2);
	kit_write(&k, c, cap);
	assert_int_equal(p->n_free, before - 5);
	kit_in(&k, TCP_ACK, NULL, 0);
	while (kit_out(&k, &f))
		kit_in(&k, TCP_ACK, NULL, 0);
	assert_int_equal(p->n_free, before);
	close_one();
}

/* --- ACKs --- */

static void bytes_in(uint32_t n)
{
	static const uint8_t bytes[1460];

	kit_in(&k, TCP_ACK, bytes, n);
}

static void read_all(void)
{
	const uint8_t *data;
	ssize_t n;

	while ((n = tcp_peek(c, &data)) > 0)
		tcp_consume(c, (uint32_t)n, k.now);
}

/* What we sent before has used up none of them: an answer's slow start needs its ACKs. */
static void the_first_bytes_are_acknowledged_at_once(void **state)
{
	open_one();
	for (int i = 0; i < 20; i++) {
		kit_write(&k, c, c->mss);
		expect_frame(c->mss);
		if (i % 5 == 4)
			kit_in(&k, TCP_ACK, NULL, 0);
	}
	assert_int_equal(c->n_quick, 0);
	c->flags &= ~(uint32_t)CONN_PINGPONG;
	bytes_in(1000);
	expect_frame(0);
	close_one();
}

static void after_quick_ones_acks_wait_for_a_second_segment(void **state)
{
	open_one();
	for (int i = 0; i < 15; i++) {
		bytes_in(1000);
		read_all();
		expect_frame(0);
	}
	while (c->n_quick) {
		bytes_in(1000);
		read_all();
		expect_frame(0);
	}
	bytes_in(1000);
	read_all();
	kit_expect_none(&k);
	/* Two full segments, as large as the peer's are. */
	bytes_in(1000);
	read_all();
	expect_frame(0);
	bytes_in(1000);
	kit_expect_none(&k);
	kit_wait(&k, 39 * NS_PER_MS);
	kit_expect_none(&k);
	kit_wait(&k, 2 * NS_PER_MS);
	expect_frame(0);
	read_all();
	tcp_set_quickack(c, true, k.now);
	bytes_in(10);
	expect_frame(0);
	close_one();
}

static void acks_travel_with_answers(void **state)
{
	open_one();
	bytes_in(100);
	expect_frame(0);
	bytes_in(100);
	kit_write(&k, c, 10);
	expect_frame(10);
	bytes_in(100);
	kit_expect_none(&k);
	/* On again: what waits goes. */
	tcp_set_quickack(c, true, k.now);
	expect_frame(0);
	tcp_set_quickack(c, false, k.now);
	bytes_in(100);
	kit_expect_none(&k);
	close_one();
}

/* --- patience --- */

static uint64_t lives_for(void)
{
	uint64_t from = k.now;

	while (c->state != TCP_CLOSED) {
		kit_wait(&k, 10 * NS_PER_MS);
		kit_drain(&k);
		assert_true(k.now - from < 10000 * NS_PER_S);
	}
	assert_int_equal(tcp_error(c), -ETIMEDOUT);
	return k.now - from;
}

static void assert_near(uint64_t ns, uint64_t s)
{
	assert_true(ns >= s * NS_PER_S);
	assert_true(ns < s * NS_PER_S + NS_PER_S / 10);
}

static void user_timeout_ends_what_is_not_acknowledged(void **state)
{
	open_one();
	tcp_set_user_timeout(c, 7000);
	kit_write(&k, c, 10);
	kit_drain(&k);
	assert_near(lives_for(), 7);
	close_one();
}

static void user_timeout_ends_an_open(void **state)
{
	kit_begin(&k);
	c = kit_connect(&k);
	tcp_set_user_timeout(c, 2500);
	uint64_t ns = lives_for();
	assert_true(ns >= 2500 * NS_PER_MS && ns < 2600 * NS_PER_MS);
	close_one();
}

/* RFC 9293 section 3.8.6.1; the user's patience is another matter. */
static void a_shut_window_is_borne_as_long_as_the_user_does(void **state)
{
	for (int has_timeout = 0; has_timeout < 2; has_timeout++) {
		open_one();
		tcp_set_user_timeout(c, has_timeout ? 10000 : 0);
		kit_window(&k, 0);
		kit_write(&k, c, 10);
		uint64_t from = k.now;
		while (c->state != TCP_CLOSED &&
		       k.now - from < 3600 * NS_PER_S) {
			kit_wait(&k, 10 * NS_PER_MS);
			if (kit_drain(&k) && c->state != TCP_CLOSED)
				kit_window(&k, 0);
		}
		assert_int_equal(c->state,
				 has_timeout ? TCP_CLOSED : TCP_ESTABLISHED);
		if (has_timeout) {
			assert_int_equal(tcp_error(c), -ETIMEDOUT);
			assert_true(k.now - from >= 10 * NS_PER_S);
			assert_true(k.now - from < 13 * NS_PER_S);
		}
		close_one();
	}
}

static void a_silent_peer_is_asked_and_given_up(void **state)
{
	open_one();
	tcp_set_keepalive(c, 20, 5, 3, k.now);
	kit_wait(&k, 19900 * NS_PER_MS);
	kit_expect_none(&k);
	kit_wait(&k, 200 * NS_PER_MS);
	expect_frame(0);
	assert_true(seq_eq(f.seg.seq, seq_sub(c->snd_una, 1)));
	/* An answer is as good as bytes. */
	kit_in(&k, TCP_ACK, NULL, 0);
	/* 20 s, three probes, and their time. */
	assert_near(lives_for(), 35);
	close_one();
}

/* With a user timeout it is that which counts, and not the probes. */
static void user_timeout_takes_keepalives_place(void **state)
{
	open_one();
	tcp_set_keepalive(c, 20, 5, 3, k.now);
	tcp_set_user_timeout(c, 50000);
	assert_near(lives_for(), 50);
	close_one();
}

static void fin_wait_2_has_an_end_of_its_own(void **state)
{
	open_one();
	tcp_set_fin_timeout(c, 5);
	tcp_close(c, k.now);
	expect_frame(0);
	kit_in(&k, TCP_ACK, NULL, 0);
	kit_wait(&k, 4900 * NS_PER_MS);
	assert_int_equal(k.s->pool_conns.n_free, k.s->pool_conns.n - 1);
	kit_wait(&k, 200 * NS_PER_MS);
	assert_int_equal(k.s->pool_conns.n_free, k.s->pool_conns.n);
	kit_fini(&k);
}

/* --- resets, and a connection with itself --- */

static void reset_in(seq32 seq)
{
	struct tcp_seg seg = kit_seg(&k, TCP_RST);

	seg.seq = seq;
	kit_segment(&k, &seg, NULL);
}

/* RFC 5961 section 3.2; behind a hole Linux believes the last edge, too. */
static void a_reset_is_believed_at_two_edges(void **state)
{
	for (int i = 0; i < 4; i++) {
		open_one();
		seq32 next = k.seq;
		k.seq = seq_add(next, 100);
		bytes_in(50);
		k.seq = seq_add(next, 300);
		bytes_in(50);
		kit_drain(&k);
		static const uint32_t at[] = { 0, 150, 200, 350 };
		reset_in(seq_add(next, at[i]));
		bool is_edge = i == 0 || i == 3;
		assert_int_equal(c->state,
				 is_edge ? TCP_CLOSED : TCP_ESTABLISHED);
		assert_int_equal(tcp_error(c), is_edge ? -ECONNRESET : 0);
		/* Else it is asked whether it meant that. */
		assert_int_equal(kit_drain(&k), is_edge ? 0 : 1);
		close_one();
	}
}

/* RFC 9293 section 3.5: both SYNs are one. */
static void a_connection_may_be_with_itself(void **state)
{
	const uint8_t *data;

	kit_begin(&k);
	k.peer = k.me;
	assert_int_equal(
	    tcp_connect(k.s, &k.me, KIT_PORT, &k.me, KIT_PORT, k.now, &c), 0);
	for (int i = 0; i < 12; i++) {
		if (i == 6)
			assert_int_equal(tcp_send(c, "echo", 4, k.now), 4);
		while (kit_out(&k, &f)) {
			uint8_t copy[8];

			assert_true(f.len <= sizeof(copy));
			memcpy(copy, f.payload, f.len);
			if (!(f.seg.flags & TCP_SYN))
				f.seg.mss = 0;
			kit_segment(&k, &f.seg, copy);
		}
	}
	assert_int_equal(c->state, TCP_ESTABLISHED);
	assert_int_equal(tcp_peek(c, &data), 4);
	assert_memory_equal(data, "echo", 4);
	close_one();
}

/* --- TCP_DEFER_ACCEPT --- */

static void a_deferred_connection_waits_for_bytes(void **state)
{
	kit_begin(&k);
	assert_int_equal(tcp_listen(k.s, NULL, KIT_PORT, 8, &k.listener), 0);
	tcp_set_defer_accept(k.listener, 3);
	kit_in(&k, TCP_SYN, NULL, 0);
	expect_frame(0);
	kit_in(&k, TCP_ACK, NULL, 0);
	assert_null(tcp_accept(k.listener));
	kit_expect_none(&k);
	kit_wait(&k, 900 * NS_PER_MS);
	kit_in(&k, TCP_ACK, "hello", 5);
	c = tcp_accept(k.listener);
	assert_non_null(c);
	assert_int_equal(tcp_readable_bytes(c), 5);
	tcp_abort(c, k.now);
	kit_drain(&k);

	/* Without bytes: nothing is sent again until the last time. */
	k.seq = (seq32){ KIT_PEER_ISS };
	k.rport++;
	kit_in(&k, TCP_SYN, NULL, 0);
	expect_frame(0);
	kit_in(&k, TCP_ACK, NULL, 0);
	kit_wait(&k, 2 * NS_PER_S);
	kit_expect_none(&k);
	kit_wait(&k, 2 * NS_PER_S);
	expect_frame(0);
	assert_int_equal(f.seg.flags, TCP_SYN | TCP_ACK);
	kit_in(&k, TCP_ACK, NULL, 0);
	c = tcp_accept(k.listener);
	assert_non_null(c);
	close_one();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_small_segment_is_under_way),
		cmocka_unit_test(a_cork_holds_what_is_small),
		cmocka_unit_test(nodelay_opens_a_cork_once),
		cmocka_unit_test(a_cork_gives_way_in_time),
		cmocka_unit_test(more_is_a_cork_until_the_next_call),
		cmocka_unit_test(what_more_follows_is_not_pushed),
		cmocka_unit_test(a_maxseg_of_any_value_is_borne),
		cmocka_unit_test(a_listeners_maxseg_of_any_value_is_borne),
		cmocka_unit_test(a_cookie_has_its_listeners_maxseg),
		cmocka_unit_test(records_do_not_share_segments),
		cmocka_unit_test(small_records_share_memory),
		cmocka_unit_test(a_little_room_in_an_extent_is_left),
		cmocka_unit_test(the_first_bytes_are_acknowledged_at_once),
		cmocka_unit_test(
		    after_quick_ones_acks_wait_for_a_second_segment),
		cmocka_unit_test(acks_travel_with_answers),
		cmocka_unit_test(user_timeout_ends_what_is_not_acknowledged),
		cmocka_unit_test(user_timeout_ends_an_open),
		cmocka_unit_test(
		    a_shut_window_is_borne_as_long_as_the_user_does),
		cmocka_unit_test(a_silent_peer_is_asked_and_given_up),
		cmocka_unit_test(user_timeout_takes_keepalives_place),
		cmocka_unit_test(fin_wait_2_has_an_end_of_its_own),
		cmocka_unit_test(a_deferred_connection_waits_for_bytes),
		cmocka_unit_test(a_reset_is_believed_at_two_edges),
		cmocka_unit_test(a_connection_may_be_with_itself),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
