/* SPDX-License-Identifier: MIT */
/*
 * tests/sim/scenarios_peer.c - peers that are broken, old or hostile
 *
 * The peer is written out by hand, segment by segment.  It does what no TCP should do,
 * or somebody else does it in its name.
 */
#include "tcp_kit.h"
#include "tcp/timer.h"

static struct kit k;
static struct kit_frame f;

static void begin(bool has_ts)
{
	struct tcp_config cfg = kit_config(false);

	if (!has_ts)
		cfg.offers &= ~(uint32_t)TCP_OFFER_TS;
	kit_init(&k, &cfg);
	k.tsval = has_ts ? 1000 : 0;
}

/* Sends a segment at @off from the peer's next number, which does not change. */
static void segment_at(unsigned flags, int32_t off, int32_t ack_off,
		       uint32_t len)
{
	static const uint8_t bytes[1460];
	struct tcp_seg seg = { .sport = k.rport,
			       .dport = k.lport,
			       .seq = seq_add(k.seq, (uint32_t)off),
			       .ack = seq_add(k.ack, (uint32_t)ack_off),
			       .flags = (uint8_t)flags,
			       .wnd = 65535,
			       .len = len,
			       .wscale = TCP_NO_WSCALE,
			       .has_ts = k.tsval != 0,
			       .tsval = k.tsval,
			       .tsecr = k.tsecr };

	kit_segment(&k, &seg, bytes);
}

/* --- opening --- */

/* Also a regression test: the window was not scaled, and promised too much. */
static void a_challenge_while_half_open_has_a_scaled_window(void **state)
{
	struct tcp_config cfg = kit_config(false);

	cfg.rcv_buf = 1 << 20;
	kit_init(&k, &cfg);
	assert_int_equal(tcp_listen(k.s, NULL, KIT_PORT, 8, &k.listener), 0);
	kit_in(&k, TCP_SYN, NULL, 0);
	assert_true(kit_out(&k, &f));
	uint8_t scale = f.seg.wscale;
	assert_true(scale > 0);
	segment_at(TCP_ACK, 1 << 24, 0, 0);
	assert_true(kit_out(&k, &f));
	assert_int_equal(f.seg.flags, TCP_ACK);
	assert_true((uint32_t)f.seg.wnd << scale <= 65535);
	kit_fini(&k);
}

/* Also a regression test: the window of the second SYN of a simultaneous open was
 * scaled. */
static void the_window_of_a_syn_is_not_scaled(void **state)
{
	begin(true);
	struct tcp_conn *c = kit_connect(&k);
	kit_in(&k, TCP_SYN, NULL, 0);
	assert_int_equal(c->state, TCP_SYN_RCVD);
	kit_drain(&k);
	k.seq = seq_sub(k.seq, 1);
	kit_in(&k, TCP_SYN | TCP_ACK, NULL, 0);
	assert_int_equal(c->state, TCP_ESTABLISHED);
	assert_int_equal(c->snd_wscale, 7);
	assert_true(c->snd_wnd && c->snd_wnd <= 65535);
	kit_fini(&k);
}

static void a_syn_again_is_answered_as_before(void **state)
{
	begin(true);
	assert_int_equal(tcp_listen(k.s, NULL, KIT_PORT, 8, &k.listener), 0);
	kit_in(&k, TCP_SYN, NULL, 0);
	assert_true(kit_out(&k, &f));
	seq32 iss = f.seg.seq;
	k.seq = seq_sub(k.seq, 1);
	kit_in(&k, TCP_SYN, NULL, 0);
	assert_true(kit_out(&k, &f));
	assert_int_equal(f.seg.flags, TCP_SYN | TCP_ACK);
	assert_true(seq_eq(f.seg.seq, iss));
	kit_fini(&k);
}

/* RFC 9293 section 3.10.7.2; the peer sends the text of its SYN again. */
static void a_syn_with_text_opens(void **state)
{
	begin(true);
	assert_int_equal(tcp_listen(k.s, NULL, KIT_PORT, 8, &k.listener), 0);
	kit_in(&k, TCP_SYN, "abc", 3);
	assert_true(kit_out(&k, &f));
	assert_int_equal(f.seg.flags, TCP_SYN | TCP_ACK);
	assert_int_equal(f.seg.ack.v, KIT_PEER_ISS + 1);
	kit_fini(&k);
}

static void a_syn_with_fin_opens_nothing(void **state)
{
	begin(true);
	assert_int_equal(tcp_listen(k.s, NULL, KIT_PORT, 8, &k.listener), 0);
	kit_in(&k, TCP_SYN | TCP_FIN, NULL, 0);
	assert_false(kit_out(&k, &f));
	assert_int_equal(tcp_dropped(k.s, DROP_FLAGS_WRONG), 1);
	kit_fini(&k);
}

/* RFC 5961 section 4, in every synchronised state. */
static void a_syn_in_a_connection_is_challenged(void **state)
{
	for (int step = 0; step < 4; step++) {
		begin(true);
		struct tcp_conn *c = kit_established(&k);
		if (step & 1)
			kit_in(&k, TCP_FIN | TCP_ACK, NULL, 0);
		if (step & 2)
			assert_int_equal(tcp_shutdown(c, k.now), 0);
		kit_drain(&k);
		uint8_t before = c->state;
		segment_at(TCP_SYN, 5, 0, 0);
		assert_int_equal(c->state, before);
		assert_true(kit_out(&k, &f));
		assert_int_equal(f.seg.flags, TCP_ACK);
		assert_true(seq_eq(f.seg.ack, k.seq));
		kit_fini(&k);
	}
}

/* A SYN-ACK for a SYN of an earlier connection gets a reset, and the open goes on. */
static void an_old_answer_is_reset_and_the_open_goes_on(void **state)
{
	begin(true);
	struct tcp_conn *c = kit_connect(&k);
	segment_at(TCP_SYN | TCP_ACK, 0, -1000, 0);
	assert_true(kit_out(&k, &f));
	assert_int_equal(f.seg.flags, TCP_RST);
	assert_int_equal(c->state, TCP_SYN_SENT);
	k.ack = seq_add(c->iss, 1);
	kit_in(&k, TCP_SYN | TCP_ACK, NULL, 0);
	assert_int_equal(c->state, TCP_ESTABLISHED);
	kit_fini(&k);
}

/* RFC 6191: the timestamp decides, or the sequence number if there is none. */
static void a_name_in_time_wait_is_used_again(void **state)
{
	for (int i = 0; i < 8; i++) {
		bool has_ts = i & 1, is_later = i & 2, is_fresh = i & 4;

		begin(has_ts);
		struct tcp_conn *c = kit_accepted(&k);
		assert_int_equal(tcp_shutdown(c, k.now), 0);
		kit_drain(&k);
		kit_in(&k, TCP_FIN | TCP_ACK, NULL, 0);
		kit_drain(&k);
		assert_int_equal(c->state, TCP_CLOSED);
		kit_wait(&k, NS_PER_S);
		if (has_ts)
			k.tsval += is_fresh ? 1 : (uint32_t)-1;
		seq32 seq = k.seq;
		k.seq = is_later ? seq_add(seq, 1000) : seq_sub(seq, 1000);
		bool may_open = has_ts ? is_fresh : is_later;
		kit_in(&k, TCP_SYN, NULL, 0);
		bool has_answer = kit_out(&k, &f);
		assert_int_equal(has_answer && f.seg.flags & TCP_SYN, may_open);
		tcp_close(c, k.now);
		kit_fini(&k);
	}
}

/* Sends what leaves back in. */
static void reflect(struct tcp_conn *c)
{
	for (int i = 0; i < 100 && kit_out(&k, &f); i++) {
		struct extent *e = extent_new(&k.rx);

		assert_non_null(e);
		memcpy(e->data, f.head, f.head_len);
		memcpy(e->data + f.head_len, f.payload, f.len);
		tcp_rx(k.s, e, 0, f.head_len + f.len, 0, k.now);
		extent_put(e);
		kit_check(&k);
	}
	assert_false(kit_out(&k, &f));
}

static void a_connection_to_itself_works(void **state)
{
	const uint8_t *data;
	struct tcp_conn *c;

	begin(true);
	assert_int_equal(tcp_connect(k.s, &k.me, 4000, &k.me, 4000, k.now, &c),
			 0);
	reflect(c);
	assert_int_equal(c->state, TCP_ESTABLISHED);
	kit_write(&k, c, 100);
	reflect(c);
	assert_int_equal(tcp_peek(c, &data), 100);
	assert_int_equal(stream_differs(data, 0, 100), 100);
	tcp_consume(c, 100, k.now);
	assert_int_equal(tcp_shutdown(c, k.now), 0);
	reflect(c);
	kit_wait(&k, NS_PER_S);
	reflect(c);
	assert_int_equal(c->state, TCP_CLOSED);
	assert_int_equal(tcp_peek(c, &data), 0);
	tcp_close(c, k.now);
	kit_fini(&k);
}

static uint16_t port_to(uint16_t rport)
{
	struct tcp_conn *c;
	int err = tcp_connect(k.s, &k.me, 0, &k.peer, rport, k.now, &c);

	assert_int_equal(err, 0);
	uint16_t port = c->flow.lport;
	tcp_abort(c, k.now);
	kit_drain(&k);
	return port;
}

/* RFC 6056 section 3.3.3: with another secret or another peer, the search begins
 * elsewhere. */
static void ports_depend_on_the_peer_and_a_secret(void **state)
{
	struct tcp_config cfg = kit_config(false);
	uint16_t first[64];
	unsigned n_near = 0;

	for (unsigned i = 0; i < ARRAY_LEN(first); i++) {
		cfg.key.k[0] = i / 8;
		kit_init(&k, &cfg);
		first[i] = port_to((uint16_t)(80 + i % 8));
		assert_true(first[i] >= PORT_FIRST && first[i] <= PORT_LAST);
		kit_fini(&k);
	}
	for (unsigned i = 1; i < ARRAY_LEN(first); i++)
		n_near += abs(first[i] - first[i - 1]) < 100;
	assert_true(n_near < 8);
}

/* --- resets --- */

/* RFC 5961 section 3: a reset at rcv_nxt, in the window, and outside of it. */
static void a_reset_is_believed_at_the_edge_only(void **state)
{
	static const int32_t offs[] = { 0, 1, 1000, 60000, -1, -1000, 1 << 20 };

	for (unsigned i = 0; i < ARRAY_LEN(offs); i++)
		for (int step = 0; step < 4; step++) {
			begin(true);
			struct tcp_conn *c = kit_established(&k);
			if (step & 1)
				kit_in(&k, TCP_FIN | TCP_ACK, NULL, 0);
			if (step & 2)
				assert_int_equal(tcp_shutdown(c, k.now), 0);
			kit_drain(&k);
			segment_at(TCP_RST, offs[i], 0, 0);
			bool in_window = offs[i] > 0 && offs[i] < 65536;
			assert_int_equal(c->state == TCP_CLOSED, !offs[i]);
			assert_int_equal(kit_out(&k, &f), in_window);
			if (in_window)
				assert_int_equal(f.seg.flags, TCP_ACK);
			kit_fini(&k);
		}
}

/* RFC 5961 section 7: a million guesses cause two answers per second, and nothing
 * else. */
static void a_million_blind_segments_change_nothing(void **state)
{
	static const uint8_t kinds[] = { TCP_RST, TCP_SYN, TCP_ACK };
	struct rng r = { 10 };
	unsigned n_answers = 0;

	begin(false);
	struct tcp_conn *c = kit_established(&k);
	uint64_t from = k.now;
	seq32 rcv_nxt = c->rcv_nxt;
	for (int i = 0; i < 1000000; i++) {
		struct tcp_seg seg = { .sport = k.rport,
				       .dport = k.lport,
				       .seq = { (uint32_t)rng_next(&r) },
				       .ack = { (uint32_t)rng_next(&r) },
				       .flags = kinds[i % 3],
				       .wnd = (uint16_t)rng_next(&r),
				       .wscale = TCP_NO_WSCALE };

		if (seq_eq(seg.seq, c->rcv_nxt) || seq_eq(seg.ack, k.ack))
			continue;
		k.now += 10000;
		kit_segment(&k, &seg, NULL);
		n_answers += kit_drain(&k);
	}
	assert_int_equal(c->state, TCP_ESTABLISHED);
	assert_true(seq_eq(c->rcv_nxt, rcv_nxt));
	assert_true(n_answers <= 2 * (k.now - from) / NS_PER_S + 1);
	kit_in(&k, TCP_ACK, "x", 1);
	assert_int_equal(tcp_readable_bytes(c), 1);
	kit_fini(&k);
}

static void text_of_a_blind_sender_is_not_taken(void **state)
{
	begin(false);
	struct tcp_conn *c = kit_established(&k);
	/* In the window, but with an ACK of bytes that were never sent. */
	segment_at(TCP_ACK, 0, 1 << 20, 100);
	segment_at(TCP_ACK, 0, -(1 << 24), 100);
	assert_int_equal(tcp_readable_bytes(c), 0);
	assert_int_equal(tcp_dropped(k.s, DROP_ACK_AHEAD), 1);
	assert_int_equal(tcp_dropped(k.s, DROP_ACK_OLD), 1);
	kit_fini(&k);
}

/* --- SACK --- */

static void sack(uint32_t n, const int32_t (*at)[2])
{
	struct tcp_seg seg = { .sport = k.rport,
			       .dport = k.lport,
			       .seq = k.seq,
			       .ack = k.ack,
			       .flags = TCP_ACK,
			       .wnd = 65535,
			       .n_sacks = (uint8_t)n,
			       .wscale = TCP_NO_WSCALE };

	for (uint32_t i = 0; i < n; i++) {
		seg.sacks[i].from = seq_add(k.ack, (uint32_t)at[i][0]);
		seg.sacks[i].to = seq_add(k.ack, (uint32_t)at[i][1]);
	}
	kit_segment(&k, &seg, NULL);
}

/* Sends @n bytes, of which the peer acknowledges none. */
static struct tcp_conn *in_flight(uint32_t n)
{
	begin(false);
	struct tcp_conn *c = kit_established(&k);
	seq32 ack = k.ack;

	c->cwnd = 1 << 20;
	kit_write(&k, c, n);
	kit_drain(&k);
	k.ack = ack;
	return c;
}

/* RFC 2018 section 8: the sender keeps SACKed bytes, and sends them again after a
 * time-out if the peer has dropped them. */
static void a_peer_that_forgets_what_it_has_is_sent_it_again(void **state)
{
	static const int32_t all[][2] = { { 0, 14600 } };
	struct tcp_conn *c = in_flight(14600);
	bool was_sent = false;

	sack(1, all);
	kit_drain(&k);
	k.now += 3 * NS_PER_S;
	for (int i = 0; i < 60 && !was_sent; i++) {
		kit_wait(&k, NS_PER_S);
		while (kit_out(&k, &f))
			was_sent |= f.len && seq_eq(f.seg.seq, c->snd_una);
	}
	assert_true(was_sent);
	kit_fini(&k);
}

/* CVE-2019-11477 and the like: holes of one byte, and SACK blocks that overlap, that
 * lie outside of the window, that end before they begin. */
static void any_blocks_are_survived(void **state)
{
	struct rng r = { 20 };

	for (int round = 0; round < 50; round++) {
		struct tcp_conn *c = in_flight(60000);

		for (int i = 0; i < 200; i++) {
			int32_t at[4][2];

			for (int b = 0; b < 4; b++) {
				at[b][0] =
				    (int32_t)rng_below(&r, 80000) - 10000;
				at[b][1] = at[b][0] +
					   (int32_t)rng_below(&r, 3000) - 200;
			}
			sack(1 + rng_below(&r, 4), at);
			kit_drain(&k);
			k.now += rng_below(&r, 1000000);
			tcp_timers(k.s, k.now);
		}
		assert_int_equal(c->state, TCP_ESTABLISHED);
		kit_fini(&k);
	}
}

/* A regression test: the wait of segments behind a hole was taken for a round trip as
 * long as the time-out.  So each time-out made the next one longer. */
static void the_wait_behind_a_hole_is_no_round_trip(void **state)
{
	struct tcp_conn *c = in_flight(14600);

	k.now += 20 * NS_PER_MS;
	/* The first segment is lost, and so are the ACKs of the others. */
	for (int i = 0; i < 4; i++)
		kit_wait(&k, NS_PER_S);
	assert_true(c->n_rtx);
	assert_true(kit_out(&k, &f));
	k.ack = c->snd_nxt;
	k.now += 20 * NS_PER_MS;
	segment_at(TCP_ACK, 0, 0, 0);
	assert_true(seq_eq(c->snd_una, c->snd_nxt));
	assert_true(conn_srtt_ns(c) < 100 * NS_PER_MS);
	kit_fini(&k);
}

/* A regression test: a peer drops bytes that it has SACKed, and SACKs them again after
 * the time-out. */
static void what_is_sacked_again_is_no_round_trip(void **state)
{
	static const int32_t all[][2] = { { 1448, 14600 } };
	struct tcp_conn *c = in_flight(14600);

	k.now += 20 * NS_PER_MS;
	sack(1, all);
	kit_drain(&k);
	k.ack = seq_add(c->snd_una, 1448);
	segment_at(TCP_ACK, 0, 0, 0);
	for (int i = 0; i < 4; i++)
		kit_wait(&k, NS_PER_S);
	assert_true(c->n_rtx);
	static const int32_t rest[][2] = { { 1448, 14600 - 1448 } };
	sack(1, rest);
	assert_true(conn_srtt_ns(c) < 100 * NS_PER_MS);
	kit_fini(&k);
}

/* --- windows --- */

/* RFC 9293 section 3.8.6: we send nothing beyond a shrunk window, and keep what was
 * sent. */
static void a_window_that_shrinks_is_obeyed(void **state)
{
	begin(false);
	struct tcp_conn *c = kit_established(&k);
	struct tcp_seg seg = { .sport = k.rport,
			       .dport = k.lport,
			       .seq = k.seq,
			       .flags = TCP_ACK,
			       .wnd = 1,
			       .wscale = TCP_NO_WSCALE };

	kit_write(&k, c, 50000);
	kit_drain(&k);
	seq32 sent = c->snd_nxt;
	seg.ack = seq_add(c->snd_una, 1460);
	k.ack = seg.ack;
	kit_segment(&k, &seg, NULL);
	for (int i = 0; i < 10; i++) {
		while (kit_out(&k, &f))
			assert_true(seq_le(seq_add(f.seg.seq, f.len), sent));
		kit_wait(&k, 200 * NS_PER_MS);
	}
	kit_fini(&k);
}

/* A regression test: the window of an old ACK was counted from a later number, and so
 * reached beyond what the peer had ever offered. */
static void an_old_ack_brings_no_window(void **state)
{
	struct tcp_seg seg = { .sport = KIT_PEER_PORT,
			       .dport = KIT_PORT,
			       .flags = TCP_ACK,
			       .wnd = 16,
			       .wscale = TCP_NO_WSCALE };
	struct tcp_conn *c = in_flight(4096);

	seg.seq = k.seq;
	seg.ack = seq_add(k.ack, 2048);
	seg.wnd = 0;
	kit_segment(&k, &seg, NULL);
	assert_int_equal(c->snd_wnd, 0);
	/* New text, an old ACK. */
	seg.seq = seq_add(k.seq, 100);
	seg.len = 100;
	seg.ack = k.ack;
	seg.wnd = 16;
	static const uint8_t text[100];
	kit_segment(&k, &seg, text);
	assert_int_equal(c->snd_wnd, 0);
	kit_fini(&k);
}

/* RFC 1122 section 4.2.3.4: we do not fill a window that opens by a few bytes. */
static void crumbs_of_window_are_not_filled(void **state)
{
	begin(false);
	struct tcp_conn *c = kit_established(&k);
	struct tcp_seg seg = { .sport = k.rport,
			       .dport = k.lport,
			       .seq = k.seq,
			       .flags = TCP_ACK,
			       .wscale = TCP_NO_WSCALE };

	kit_write(&k, c, 100000);
	kit_drain(&k);
	/* The peer acknowledges everything, and offers a few bytes at a time (scaled by
	 * 7). */
	for (uint16_t wnd = 0; wnd < 4; wnd++) {
		seg.ack = c->snd_nxt;
		seg.wnd = wnd;
		kit_segment(&k, &seg, NULL);
		while (kit_out(&k, &f))
			assert_int_equal(f.len, 0);
	}
	kit_fini(&k);
}

/* RFC 9293 section 3.8.6.2.2: we do not open the window by a few bytes, either. */
static void a_window_opens_by_a_segment_at_least(void **state)
{
	static uint8_t text[1448];
	const uint8_t *data;

	begin(false);
	struct tcp_conn *c = kit_established(&k);
	while (seq_len(c->rcv_nxt, c->rcv_adv) >= sizeof(text)) {
		kit_in(&k, TCP_ACK, text, sizeof(text));
		kit_drain(&k);
	}
	for (int i = 0; i < 200; i++) {
		seq32 before = c->rcv_adv;

		assert_true(tcp_peek(c, &data) > 0);
		tcp_consume(c, 10, k.now);
		kit_drain(&k);
		uint32_t n = seq_len(before, c->rcv_adv);
		assert_true(!n || n >= 1400);
	}
	kit_fini(&k);
}

/* --- text behind the end --- */

static void text_behind_a_fin_is_not_taken(void **state)
{
	begin(true);
	struct tcp_conn *c = kit_established(&k);
	kit_in(&k, TCP_FIN | TCP_ACK, "ab", 2);
	kit_drain(&k);
	kit_in(&k, TCP_ACK, "cd", 2);
	assert_int_equal(tcp_readable_bytes(c), 2);
	assert_int_equal(tcp_dropped(k.s, DROP_AFTER_FIN), 1);
	kit_fini(&k);
}

/* RFC 9293 section 3.6: no program will read the bytes, and the reset tells the peer. */
static void text_for_a_closed_program_is_reset(void **state)
{
	begin(true);
	struct tcp_conn *c = kit_established(&k);
	tcp_close(c, k.now);
	kit_drain(&k);
	kit_in(&k, TCP_ACK, "ab", 2);
	assert_true(kit_out(&k, &f));
	assert_true(f.seg.flags & TCP_RST);
	assert_int_equal(k.s->pool_conns.n_free, k.s->pool_conns.n);
	kit_fini(&k);
}

/* RFC 7323 section 5: after 24 days of silence the timestamp may have wrapped. */
static void after_24_days_an_older_timestamp_is_taken(void **state)
{
	begin(true);
	struct tcp_conn *c = kit_established(&k);
	k.tsval -= 100;
	kit_in(&k, TCP_ACK, "a", 1);
	assert_int_equal(tcp_readable_bytes(c), 0);
	assert_int_equal(tcp_dropped(k.s, DROP_PAWS), 1);
	k.seq = seq_sub(k.seq, 1);
	kit_wait(&k, 25ull * 24 * 3600 * NS_PER_S);
	kit_drain(&k);
	kit_in(&k, TCP_ACK, "a", 1);
	assert_int_equal(tcp_readable_bytes(c), 1);
	kit_fini(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
		    a_challenge_while_half_open_has_a_scaled_window),
		cmocka_unit_test(the_window_of_a_syn_is_not_scaled),
		cmocka_unit_test(a_syn_again_is_answered_as_before),
		cmocka_unit_test(a_syn_with_text_opens),
		cmocka_unit_test(a_syn_with_fin_opens_nothing),
		cmocka_unit_test(a_syn_in_a_connection_is_challenged),
		cmocka_unit_test(an_old_answer_is_reset_and_the_open_goes_on),
		cmocka_unit_test(a_name_in_time_wait_is_used_again),
		cmocka_unit_test(a_connection_to_itself_works),
		cmocka_unit_test(ports_depend_on_the_peer_and_a_secret),
		cmocka_unit_test(a_reset_is_believed_at_the_edge_only),
		cmocka_unit_test(a_million_blind_segments_change_nothing),
		cmocka_unit_test(text_of_a_blind_sender_is_not_taken),
		cmocka_unit_test(
		    a_peer_that_forgets_what_it_has_is_sent_it_again),
		cmocka_unit_test(any_blocks_are_survived),
		cmocka_unit_test(the_wait_behind_a_hole_is_no_round_trip),
		cmocka_unit_test(what_is_sacked_again_is_no_round_trip),
		cmocka_unit_test(a_window_that_shrinks_is_obeyed),
		cmocka_unit_test(an_old_ack_brings_no_window),
		cmocka_unit_test(crumbs_of_window_are_not_filled),
		cmocka_unit_test(a_window_opens_by_a_segment_at_least),
		cmocka_unit_test(text_behind_a_fin_is_not_taken),
		cmocka_unit_test(text_for_a_closed_program_is_reset),
		cmocka_unit_test(after_24_days_an_older_timestamp_is_taken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
