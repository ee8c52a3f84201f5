/* SPDX-License-Identifier: MIT */
/*
 * tests/unit/tcp_cookies.c - opens when there is no room to remember them (RFC 4987)
 */
#include "tcp_kit.h"

#define BACKLOG 2

static struct kit k;
static struct kit_frame f;

static void syn_in(uint16_t port, const struct tcp_seg *options)
{
	struct tcp_seg seg = *options;

	k.rport = port;
	seg.sport = port;
	seg.dport = KIT_PORT;
	seg.seq = (seq32){ KIT_PEER_ISS };
	seg.flags = TCP_SYN;
	seg.wnd = 65535;
	k.seq = seq_add(seg.seq, 1);
	kit_segment(&k, &seg, NULL);
}

static const struct tcp_seg all_options = { .mss = 1400,
					    .wscale = 9,
					    .is_sack_ok = true,
					    .has_ts = true,
					    .tsval = 77 };

/* A listener whose request socks are all taken by SYNs that nobody follows up. */
static void flood(bool is_v6)
{
	struct tcp_config cfg = kit_config(is_v6);

	kit_init(&k, &cfg);
	assert_int_equal(tcp_listen(k.s, NULL, KIT_PORT, BACKLOG, &k.listener),
			 0);
	for (uint16_t i = 0; i <= BACKLOG; i++) {
		syn_in((uint16_t)(9000 + i), &all_options);
		assert_int_equal(kit_drain(&k), 1);
	}
	assert_int_equal(tcp_dropped(k.s, DROP_SYN_COOKIE), 0);
}

static void end(void)
{
	tcp_unlisten(k.listener, k.now);
	kit_fini(&k);
}

/* The connection that has opened, and the end of it and of the world. */
static struct tcp_conn *opened(void)
{
	struct tcp_conn *c = tcp_accept(k.listener);

	assert_non_null(c);
	return c;
}

static void end_with(struct tcp_conn *c)
{
	tcp_abort(c, k.now);
	kit_drain(&k);
	end();
}

/* The SYN-ACK of one more, which is a cookie. */
static void cookie_out(const struct tcp_seg *options)
{
	uint32_t n_free = k.s->pool_reqsks.n_free;

	syn_in(KIT_PEER_PORT, options);
	kit_expect(&k, &f, TCP_SYN | TCP_ACK);
	assert_int_equal(k.s->pool_reqsks.n_free, n_free);
	assert_int_equal(tcp_dropped(k.s, DROP_SYN_COOKIE), 1);
}

static void ack_in(bool has_ts)
{
	k.tsval = has_ts ? 78 : 0;
	kit_in(&k, TCP_ACK, NULL, 0);
}

static void all_that_the_syn_said_comes_back(void **state)
{
	static const uint8_t scales[] = { 0, 1, 9, 14 };

	for (unsigned i = 0; i < 16; i++) {
		struct tcp_seg options = all_options;
		uint8_t wscale = scales[i % 4];

		options.wscale = wscale;
		options.is_sack_ok = i & 4;
		flood(i & 8);
		/* Any instant: the timestamp's lower bits are not the clock's. */
		kit_wait(&k, i * 7 * NS_PER_MS);
		cookie_out(&options);
		assert_true(f.seg.has_ts);
		ack_in(true);
		struct tcp_conn *c = opened();
		assert_int_equal(c->state, TCP_ESTABLISHED);
		assert_int_equal(!!(c->flags & CONN_SACK), !!(i & 4));
		assert_int_equal(c->snd_wscale, wscale);
		assert_true(c->flags & CONN_WSCALE);
		assert_int_equal(c->mss_max, i & 8 ? 1220 - 12 : 1300 - 12);
		kit_in(&k, TCP_ACK, "hello", 5);
		assert_int_equal(tcp_readable_bytes(c), 5);
		/* Later timestamps are later. */
		uint32_t ts = f.seg.tsval;
		kit_write(&k, c, 10);
		assert_true(kit_out(&k, &f));
		assert_true((int32_t)(f.seg.tsval - ts) >= 0);
		end_with(c);
	}
}

/* A peer that was moved to another stack echoes 0 until it has received a segment.  Its
 * windows may be larger than we then believe, but never smaller. */
static void an_echo_of_0_promises_nothing(void **state)
{
	flood(false);
	cookie_out(&all_options);
	k.tsecr = 0;
	ack_in(true);
	struct tcp_conn *c = opened();
	assert_true(c->flags & CONN_TS);
	assert_false(c->flags & CONN_SACK);
	assert_int_equal(c->snd_wscale, 0);
	end_with(c);
}

/* The scale is that of the SYN-ACK, which nobody remembers, whatever the buffer is now. */
static void the_scale_that_a_cookie_had_stays(void **state)
{
	flood(false);
	tcp_set_listen_rcv_buf(k.listener, 1u << 20);
	cookie_out(&all_options);
	uint8_t said = f.seg.wscale;
	uint16_t wnd = f.seg.wnd;
	assert_int_equal(said, 5);
	tcp_set_listen_rcv_buf(k.listener, 3000);
	ack_in(true);
	struct tcp_conn *c = opened();
	assert_int_equal(c->rcv_wscale, said);
	assert_int_equal(seq_len(c->rcv_nxt, c->rcv_adv), wnd);
	end_with(c);
}

/* The bytes come with the ACK when the first ACK was lost. */
static void bytes_may_come_at_once(void **state)
{
	flood(false);
	cookie_out(&all_options);
	k.tsval = 78;
	kit_in(&k, TCP_ACK, "hello", 5);
	struct tcp_conn *c = opened();
	assert_int_equal(tcp_readable_bytes(c), 5);
	end_with(c);
}

static void without_timestamps_there_is_only_the_mss(void **state)
{
	struct tcp_seg options = all_options;

	options.has_ts = false;
	options.mss = 1460;
	flood(false);
	cookie_out(&options);
	assert_false(f.seg.is_sack_ok);
	assert_int_equal(f.seg.wscale, TCP_NO_WSCALE);
	ack_in(false);
	struct tcp_conn *c = opened();
	assert_int_equal(c->flags & (CONN_TS | CONN_SACK | CONN_WSCALE), 0);
	assert_int_equal(c->mss, 1460);
	end_with(c);
}

/* The numbers beside the right one are as wrong as all others, although those of the
 * cookie itself stand for several sizes. */
static void near_numbers_open_nothing(void **state)
{
	static const uint16_t sizes[] = { 536, 1300, 1440, 1460 };

	for (unsigned i = 0; i < ARRAY_LEN(sizes); i++) {
		struct tcp_seg options = all_options;

		options.mss = sizes[i];
		flood(false);
		cookie_out(&options);
		seq32 good = k.seq;
		for (uint32_t off = 1; off < 6; off++) {
			k.seq = seq_add(good, off);
			ack_in(true);
			assert_null(tcp_accept(k.listener));
			k.seq = seq_sub(good, off);
			ack_in(true);
			assert_null(tcp_accept(k.listener));
		}
		kit_drain(&k);
		k.seq = good;
		ack_in(true);
		end_with(opened());
	}
}

/* Two million guesses open one connection, give or take. */
static void guesses_are_refused(void **state)
{
	struct rng r = { 1 };

	flood(false);
	cookie_out(&all_options);
	seq32 good = k.ack;
	for (int i = 0; i < 20000; i++) {
		k.ack.v = (uint32_t)rng_next(&r);
		ack_in(true);
		kit_expect(&k, &f, TCP_RST);
		assert_null(tcp_accept(k.listener));
	}
	/* Another peer's cookie is none. */
	k.ack = good;
	k.rport++;
	ack_in(true);
	assert_null(tcp_accept(k.listener));
	k.rport--;
	kit_drain(&k);
	k.ack = good;
	ack_in(true);
	end_with(opened());
}

static void a_cookie_grows_stale(void **state)
{
	for (int i = 0; i < 2; i++) {
		flood(false);
		cookie_out(&all_options);
		seq32 good = k.ack;
		kit_wait(&k, (i ? 130 : 60) * NS_PER_S);
		kit_drain(&k);
		/* Cookies are given still. */
		for (uint16_t n = 0; n <= BACKLOG + 1; n++)
			syn_in((uint16_t)(9100 + n), &all_options);
		kit_drain(&k);
		k.rport = KIT_PEER_PORT;
		k.seq = (seq32){ KIT_PEER_ISS + 1 };
		k.ack = good;
		ack_in(true);
		struct tcp_conn *c = tcp_accept(k.listener);
		assert_int_equal(c != NULL, i == 0);
		if (c)
			end_with(c);
		else
			end();
	}
}

/* Where no cookie was given, none is looked for. */
static void cookies_that_were_not_given_are_none(void **state)
{
	flood(false);
	cookie_out(&all_options);
	seq32 good = k.ack;
	k.listener->cookie_ns = 0;
	k.ack = good;
	ack_in(true);
	assert_null(tcp_accept(k.listener));
	kit_drain(&k);
	end();
}

/* Nor when the last was given long ago. */
static void cookies_are_not_looked_for_for_ever(void **state)
{
	flood(false);
	cookie_out(&all_options);
	kit_wait(&k, 200 * NS_PER_S);
	kit_drain(&k);
	ack_in(true);
	kit_expect(&k, &f, TCP_RST);
	assert_int_equal(tcp_dropped(k.s, DROP_LISTEN_ACK), 1);
	end();
}

/* RFC 9293 section 3.10.7.2, "second": a SYN-ACK is for nobody who listens. */
static void a_syn_ack_opens_nothing(void **state)
{
	flood(false);
	cookie_out(&all_options);
	seq32 seq = k.seq;
	kit_in(&k, TCP_SYN | TCP_ACK, NULL, 0);
	kit_expect(&k, &f, TCP_RST);
	assert_null(tcp_accept(k.listener));
	k.seq = seq;
	ack_in(true);
	assert_non_null(tcp_accept(k.listener));
	end();
}

/* The queue is full: the ACK is as if it were lost, and the next one opens. */
static void a_cookie_waits_for_room_in_the_queue(void **state)
{
	struct tcp_conn *c[BACKLOG + 1];

	flood(false);
	cookie_out(&all_options);
	seq32 seq = k.seq, good = k.ack;
	for (unsigned i = 0; i < BACKLOG; i++) {
		syn_in((uint16_t)(9100 + i), &all_options);
		assert_true(kit_out(&k, &f));
		ack_in(true);
	}
	k.rport = KIT_PEER_PORT;
	k.seq = seq;
	k.ack = good;
	ack_in(true);
	assert_int_equal(kit_drain(&k), 0);
	assert_int_equal(tcp_dropped(k.s, DROP_BACKLOG), 1);
	for (unsigned i = 0; i < BACKLOG; i++)
		assert_non_null(c[i] = tcp_accept(k.listener));
	assert_null(tcp_accept(k.listener));
	ack_in(true);
	assert_non_null(c[BACKLOG] = tcp_accept(k.listener));
	end();
}

/* What a peer makes of our timestamp is no agreement. */
static void ecn_that_is_off_stays_off(void **state)
{
	for (int is_off = 0; is_off < 2; is_off++) {
		flood(false);
		k.s->cfg.ecn = is_off ? TCP_ECN_OFF : TCP_ECN_ACCEPT;
		cookie_out(&all_options);
		uint32_t ts =
		    k.tsecr -
		    flow_ts_off(k.s, &(struct flow){ .raddr = k.peer,
						     .lport = KIT_PORT,
						     .rport = k.rport });
		k.tsecr += (ts | 32) - ts;
		ack_in(true);
		struct tcp_conn *c = opened();
		kit_write(&k, c, 10);
		assert_true(kit_out(&k, &f));
		assert_int_equal(f.head[1] & 3, is_off ? 0 : IP_ECT_0);
		end();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_that_the_syn_said_comes_back),
		cmocka_unit_test(an_echo_of_0_promises_nothing),
		cmocka_unit_test(the_scale_that_a_cookie_had_stays),
		cmocka_unit_test(bytes_may_come_at_once),
		cmocka_unit_test(without_timestamps_there_is_only_the_mss),
		cmocka_unit_test(near_numbers_open_nothing),
		cmocka_unit_test(guesses_are_refused),
		cmocka_unit_test(a_cookie_grows_stale),
		cmocka_unit_test(cookies_that_were_not_given_are_none),
		cmocka_unit_test(cookies_are_not_looked_for_for_ever),
		cmocka_unit_test(a_syn_ack_opens_nothing),
		cmocka_unit_test(a_cookie_waits_for_room_in_the_queue),
		cmocka_unit_test(ecn_that_is_off_stays_off),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
