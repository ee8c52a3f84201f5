/* SPDX-License-Identifier: MIT */
/*
 * tests/unit/tcp_icmp.c - what routers and hosts say about our segments
 *
 * RFC 1122 section 4.2.3.9, RFC 5461, RFC 5927; the errnos are Linux's.
 */
#include "tcp_kit.h"

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
	struct tcp_config cfg = kit_config(false);
	struct kit k;

	kit_init(&k, &cfg);
	struct tcp_conn *c = kit_established(&k);
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
		tcp_abort(c, k.now);
		kit_drain(&k);
		kit_fini(&k);
	}
}

static void a_half_open_connection_goes_when_its_host_is_not_there(void **state)
{
	struct tcp_config cfg = kit_config(false);
	struct kit k;
	static struct kit_frame f;

	kit_init(&k, &cfg);
	assert_int_equal(tcp_listen(k.s, NULL, KIT_PORT, 8, &k.listener), 0);
	kit_in(&k, TCP_SYN, NULL, 0);
	assert_true(kit_out(&k, &f));
	kit_icmp(&k, 3, 1, 0, seq_add(f.seg.seq, 1));
	assert_int_equal(k.s->pool_syns.n_free, k.s->pool_syns.n - 1);
	kit_icmp(&k, 3, 3, 0, f.seg.seq);
	assert_int_equal(k.s->pool_syns.n_free, k.s->pool_syns.n - 1);
	kit_icmp(&k, 3, 1, 0, f.seg.seq);
	assert_int_equal(k.s->pool_syns.n_free, k.s->pool_syns.n);
	kit_icmp(&k, 3, 1, 0, f.seg.seq);
	assert_int_equal(tcp_dropped(k.s, DROP_ICMP_NO_CONN), 1);
	tcp_unlisten(k.listener, k.now);
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
		cmocka_unit_test(
		    a_half_open_connection_goes_when_its_host_is_not_there),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
