/* SPDX-License-Identifier: MIT */
/*
 * tests/unit/tcp_icmp.c - what routers and hosts say about our segments
 *
 * RFC 1122 section 4.2.3.9, RFC 5461, RFC 5927; the errnos are Linux's.
 */
#include "tcp_kit.h"
#include "tcp/timer.h"

struct told {
	uint8_t type, code;
	int err;
	bool is_v6;
};

static const struct told errors[] = {
	{ 3, 0, -ENETUNREACH, false },   { 3, 1, -EHOSTUNREACH, false },
	{ 3, 2, -ENOPROTOOPT, false },   { 3, 3, -ECONNREFUSED, false },
	{ 3, 5, -EOPNOTSUPP, false },    { 3, 6, -ENETUNREACH, false },
	{ 3, 7, -EHOSTDOWN, false },     { 3, 8, -ENONET, false },
	{ 3, 9, -ENETUNREACH, false },   { 3, 10, -EHOSTUNREACH, false },
	{ 3, 13, -EHOSTUNREACH, false }, { 11, 0, -EHOSTUNREACH, false },
	{ 12, 0, -EPROTO, false },       { 1, 0, -ENETUNREACH, true },
	{ 1, 1, -EACCES, true },         { 1, 3, -EHOSTUNREACH, true },
	{ 1, 4, -ECONNREFUSED, true },   { 1, 6, -EACCES, true },
	{ 3, 0, -EHOSTUNREACH, true },   { 4, 1, -EPROTO, true },
};

static void an_error_ends_an_open_at_once(void **state)
{
	for (unsigned i = 0; i < ARRAY_LEN(errors); i++) {
		struct tcp_config cfg = kit_config(errors[i].is_v6);
		struct kit k;

		kit_init(&k, &cfg);
		struct tcp_conn *c = kit_connect(&k);
		kit_icmp(&k, errors[i].type, errors[i].code, 0, c->iss);
		assert_int_equal(c->state, TCP_CLOSED);
		assert_true(tcp_poll(c) & TCP_ERROR);
		assert_int_equal(tcp_error(c), errors[i].err);
		tcp_close(c, k.now);
		assert_int_equal(kit_drain(&k), 0);
		kit_fini(&k);
	}
}

/* And is what the program is told if nothing comes back. */
static void an_error_does_not_end_what_is_open(void **state)
{
	for (unsigned i = 0; i < ARRAY_LEN(errors); i++) {
		struct tcp_config cfg = kit_config(errors[i].is_v6);
		struct kit k;

		kit_init(&k, &cfg);
		struct tcp_conn *c = kit_established(&k);
		kit_write(&k, c, 100);
		kit_drain(&k);
		kit_icmp(&k, errors[i].type, errors[i].code, 0, c->snd_una);
		assert_int_equal(c->state, TCP_ESTABLISHED);
		assert_int_equal(tcp_error(c), 0);
		kit_wait(&k, 1800 * NS_PER_S);
		assert_int_equal(c->state, TCP_CLOSED);
		assert_int_equal(tcp_error(c), errors[i].err);
		tcp_close(c, k.now);
		kit_drain(&k);
		kit_fini(&k);
	}
}

static void an_answer_makes_an_error_forgotten(void **state)
{
	struct kit k;

	struct tcp_conn *c = kit_open_one(&k);
	kit_write(&k, c, 100);
	kit_drain(&k);
	kit_icmp(&k, 3, 1, 0, c->snd_una);
	kit_in(&k, TCP_ACK, NULL, 0);
	kit_write(&k, c, 100);
	kit_wait(&k, 1800 * NS_PER_S);
	kit_drain(&k);
	assert_int_equal(tcp_error(c), 0);
	kit_wait(&k, 1800 * NS_PER_S);
	assert_int_equal(tcp_error(c), -ETIMEDOUT);
	tcp_close(c, k.now);
	kit_drain(&k);
	kit_fini(&k);
}

static void a_number_that_is_not_under_way_changes_nothing(void **state)
{
	for (int is_v6 = 0; is_v6 < 2; is_v6++) {
		struct tcp_config cfg = kit_config(is_v6);
		struct kit k;

		kit_init(&k, &cfg);
		struct tcp_conn *c = kit_connect(&k);
		kit_icmp(&k, is_v6 ? 1 : 3, is_v6 ? 4 : 3, 0,
			 seq_add(c->iss, 2));
		kit_icmp(&k, is_v6 ? 1 : 3, is_v6 ? 4 : 3, 0,
			 seq_sub(c->iss, 1));
		assert_int_equal(c->state, TCP_SYN_SENT);
		assert_int_equal(tcp_dropped(k.s, DROP_ICMP_SEQ), 2);
		kit_in(&k, TCP_SYN | TCP_ACK, NULL, 0);
		kit_write(&k, c, 5000);
		kit_drain(&k);
		uint16_t mss = c->mss;
		kit_icmp(&k, is_v6 ? 2 : 3, is_v6 ? 0 : 4, 1300,
			 seq_sub(c->snd_una, 1));
		kit_icmp(&k, is_v6 ? 2 : 3, is_v6 ? 0 : 4, 1300, c->snd_nxt);
		assert_int_equal(c->mss, mss);
		assert_int_equal(tcp_dropped(k.s, DROP_ICMP_SEQ), 4);
		kit_close_one(&k, c);
	}
}

/* Both ends open at once; the program may have given up already. */
static void an_error_ends_what_both_ends_open(void **state)
{
	for (int is_closed = 0; is_closed < 2; is_closed++) {
		struct kit k;

		kit_begin(&k);
		struct tcp_conn *c = kit_connect(&k);
		kit_in(&k, TCP_SYN, NULL, 0);
		kit_drain(&k);
		assert_int_equal(c->state, TCP_SYN_RCVD);
		if (is_closed)
			tcp_close(c, k.now);
		kit_icmp(&k, 3, 3, 0, c->iss);
		if (!is_closed) {
			assert_int_equal(c->state, TCP_CLOSED);
			assert_int_equal(tcp_error(c), -ECONNREFUSED);
			tcp_close(c, k.now);
		}
		assert_int_equal(kit_drain(&k), 0);
		assert_int_equal(k.s->pool_conns.n_free, k.s->pool_conns.n);
		assert_true(tcp_next_ns(k.s) == UINT64_MAX);
		kit_fini(&k);
	}
}

/* A message to us that quotes what somebody else has sent. */
static void an_error_about_anothers_segment_is_not_ours(void **state)
{
	struct ip_addr other = ip_addr_v4(0x0a000063);
	uint8_t m[8 + IPV4_HEAD + 8] = { 3, 3 };
	struct cksum sum = { 0 };
	struct kit k;

	kit_begin(&k);
	struct tcp_conn *c = kit_connect(&k);
	ip_build(m + 8, &other, &k.peer, IP_PROTO_TCP, 0, 1480);
	store_be16(m + 28, k.lport);
	store_be16(m + 30, k.rport);
	store_be32(m + 32, c->iss.v);
	cksum_add(&sum, m, sizeof(m));
	store_be16(m + 2, cksum_end(&sum));
	kit_packet(&k, IP_PROTO_ICMP, m, sizeof(m));
	assert_int_equal(tcp_dropped(k.s, DROP_ICMP_NO_CONN), 1);
	assert_int_equal(c->state, TCP_SYN_SENT);
	tcp_close(c, k.now);
	kit_fini(&k);
}

/* RFC 5927 section 4: a SYN-ACK that did not reach anybody.  What may be the path's alone
 * is left to time. */
static void some_errors_end_what_is_half_open(void **state)
{
	static const struct {
		uint8_t type, code;
		bool is_end;
	} kinds[] = { { 3, 0, true },  { 3, 1, true },  { 11, 0, true },
		      { 12, 0, true }, { 3, 2, false }, { 3, 3, false },
		      { 3, 4, false } };
	struct kit k;
	static struct kit_frame f;

	kit_begin(&k);
	assert_int_equal(tcp_listen(k.s, NULL, KIT_PORT, 8, &k.listener), 0);
	for (unsigned i = 0; i < ARRAY_LEN(kinds); i++) {
		uint32_t n = k.s->pool_reqsks.n_free;

		k.rport++;
		k.seq = (seq32){ KIT_PEER_ISS };
		kit_in(&k, TCP_SYN, NULL, 0);
		assert_true(kit_out(&k, &f));
		kit_icmp(&k, kinds[i].type, kinds[i].code, 1300, f.seg.seq);
		assert_int_equal(k.s->pool_reqsks.n_free,
				 kinds[i].is_end ? n : n - 1);
	}
	kit_fini(&k);
}

/* What is under way fits: nothing was lost. */
static void a_small_segment_is_not_sent_again_for_its_size(void **state)
{
	struct kit k;
	struct tcp_conn *c = kit_open_one(&k);

	kit_write(&k, c, 100);
	assert_int_equal(kit_drain(&k), 1);
	kit_icmp(&k, 3, 4, 1300, c->snd_una);
	assert_int_equal(c->mss, 1260);
	assert_int_equal(c->ca_state, CA_OPEN);
	assert_int_equal(kit_drain(&k), 0);
	kit_close_one(&k, c);
}

/* What was cut is sent again when the probe of the tail falls due, and not probed. */
static void a_path_that_shrinks_ends_the_probe_of_the_tail(void **state)
{
	static struct kit_frame f;
	struct kit k;

	kit_begin(&k);
	struct tcp_conn *c = kit_connect(&k);
	kit_wait(&k, 50 * NS_PER_MS);
	kit_in(&k, TCP_SYN | TCP_ACK, NULL, 0);
	kit_write(&k, c, 5000);
	kit_drain(&k);
	seq32 una = c->snd_una;
	assert_int_equal(c->rtx_kind, RTX_TLP);
	kit_icmp(&k, 3, 4, 1300, una);
	/* The port was full, and is asked for frames when it is time. */
	kit_wait(&k, 110 * NS_PER_MS);
	for (unsigned i = 0; kit_out(&k, &f); i++) {
		assert_true(f.len <= 1260);
		if (!i)
			assert_true(seq_eq(f.seg.seq, una));
	}
	assert_false(c->rec.is_tlp_out);
	kit_close_one(&k, c);
}

static void a_half_open_connection_goes_when_its_host_is_not_there(void **state)
{
	struct kit k;
	static struct kit_frame f;

	kit_begin(&k);
	assert_int_equal(tcp_listen(k.s, NULL, KIT_PORT, 8, &k.listener), 0);
	kit_in(&k, TCP_SYN, NULL, 0);
	assert_true(kit_out(&k, &f));
	kit_icmp(&k, 3, 1, 0, seq_add(f.seg.seq, 1));
	assert_int_equal(k.s->pool_reqsks.n_free, k.s->pool_reqsks.n - 1);
	kit_icmp(&k, 3, 3, 0, f.seg.seq);
	assert_int_equal(k.s->pool_reqsks.n_free, k.s->pool_reqsks.n - 1);
	kit_icmp(&k, 3, 1, 0, f.seg.seq);
	assert_int_equal(k.s->pool_reqsks.n_free, k.s->pool_reqsks.n);
	kit_icmp(&k, 3, 1, 0, f.seg.seq);
	assert_int_equal(tcp_dropped(k.s, DROP_ICMP_NO_CONN), 1);
	tcp_unlisten(k.listener, k.now);
	kit_fini(&k);
}

/* --- RFC 6069 --- */

static uint64_t time_out_in(const struct kit *k, const struct tcp_conn *c)
{
	return c->rtx_at_ns > k->now ? c->rtx_at_ns - k->now : 0;
}

static void doublings_are_taken_back_one_by_one(void **state)
{
	for (int is_v6 = 0; is_v6 < 2; is_v6++) {
		struct tcp_config cfg = kit_config(is_v6);
		struct kit k;
		uint8_t type = is_v6 ? 1 : 3;

		kit_init(&k, &cfg);
		struct tcp_conn *c = kit_established(&k);
		kit_write(&k, c, 100);
		/* Nothing was sent again yet. */
		kit_drain(&k);
		kit_icmp(&k, type, 0, 0, c->snd_una);
		uint64_t first = conn_rto_base_ns(c);
		while (c->n_rtx < 4) {
			kit_wait(&k, NS_PER_MS);
			kit_drain(&k);
		}
		assert_true(time_out_in(&k, c) > 15 * first);
		/* Of another number, and that there is nobody. */
		kit_icmp(&k, type, 0, 0, c->snd_nxt);
		kit_icmp(&k, type, is_v6 ? 4 : 3, 0, c->snd_una);
		kit_icmp(&k, type, 5, 0, c->snd_una);
		assert_int_equal(c->n_rtx, 4);
		kit_icmp(&k, type, 0, 0, c->snd_una);
		assert_int_equal(c->n_rtx, 3);
		assert_true(time_out_in(&k, c) > 7 * first);
		assert_true(time_out_in(&k, c) <= 8 * first);
		for (int i = 0; i < 20; i++)
			kit_icmp(&k, type, 0, 0, c->snd_una);
		assert_int_equal(c->n_rtx, 0);
		assert_true(time_out_in(&k, c) <= first);
		kit_wait(&k, 2 * first);
		assert_int_equal(kit_drain(&k), 1);
		kit_close_one(&k, c);
	}
}

/* The time-out ends early, at the user's; but it began when we sent. */
static void a_user_timeout_makes_no_time_out_older(void **state)
{
	struct kit k;
	struct tcp_conn *c = kit_open_one(&k);

	tcp_set_user_timeout(c, 10000);
	kit_write(&k, c, 100);
	kit_drain(&k);
	while (c->n_rtx < 5) {
		kit_wait(&k, NS_PER_MS);
		kit_drain(&k);
	}
	assert_true(conn_rto_ns(c) > time_out_in(&k, c) + NS_PER_S);
	kit_icmp(&k, 3, 0, 0, c->snd_una);
	assert_int_equal(c->n_rtx, 4);
	assert_true(time_out_in(&k, c) > conn_rto_ns(c) - 10 * NS_PER_MS);
	/* Nor does it end later than the user's. */
	kit_wait(&k, NS_PER_S);
	uint64_t until = c->rtx_since_ns + 10 * NS_PER_S;
	c->rto_at_ns = c->rtx_at_ns = until - NS_PER_MS;
	k.now = until + NS_PER_S;
	kit_icmp(&k, 3, 0, 0, c->snd_una);
	assert_true(c->rtx_at_ns <= until);
	kit_wait(&k, NS_PER_MS);
	assert_int_equal(c->state, TCP_CLOSED);
	kit_close_one(&k, c);
}

static void a_probe_of_the_window_is_not_hurried(void **state)
{
	struct kit k;

	struct tcp_conn *c = kit_open_one(&k);
	c->snd_wnd = 0;
	kit_write(&k, c, 100);
	kit_drain(&k);
	kit_wait(&k, 2 * NS_PER_S);
	kit_drain(&k);
	uint8_t n = c->n_rtx;
	assert_true(n);
	kit_icmp(&k, 3, 0, 0, c->snd_una);
	assert_int_equal(c->n_rtx, n);
	kit_close_one(&k, c);
}

/* However often routers say that they have no way: RFC 9293 section 3.8.3. */
static void errors_do_not_prolong_patience(void **state)
{
	struct kit k;

	struct tcp_conn *c = kit_open_one(&k);
	kit_write(&k, c, 100);
	uint64_t from = k.now;
	while (c->state != TCP_CLOSED) {
		kit_wait(&k, 50 * NS_PER_MS);
		if (kit_drain(&k))
			kit_icmp(&k, 3, 0, 0, c->snd_una);
		assert_true(k.now - from < 1000 * NS_PER_S);
	}
	assert_true(k.now - from >= DATA_PATIENCE_NS);
	assert_int_equal(tcp_error(c), -ENETUNREACH);
	tcp_close(c, k.now);
	kit_fini(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_error_ends_an_open_at_once),
		cmocka_unit_test(an_error_does_not_end_what_is_open),
		cmocka_unit_test(an_answer_makes_an_error_forgotten),
		cmocka_unit_test(
		    a_number_that_is_not_under_way_changes_nothing),
		cmocka_unit_test(an_error_ends_what_both_ends_open),
		cmocka_unit_test(an_error_about_anothers_segment_is_not_ours),
		cmocka_unit_test(some_errors_end_what_is_half_open),
		cmocka_unit_test(
		    a_small_segment_is_not_sent_again_for_its_size),
		cmocka_unit_test(
		    a_path_that_shrinks_ends_the_probe_of_the_tail),
		cmocka_unit_test(
		    a_half_open_connection_goes_when_its_host_is_not_there),
		cmocka_unit_test(doublings_are_taken_back_one_by_one),
		cmocka_unit_test(a_user_timeout_makes_no_time_out_older),
		cmocka_unit_test(a_probe_of_the_window_is_not_hurried),
		cmocka_unit_test(errors_do_not_prolong_patience),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
