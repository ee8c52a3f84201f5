/* SPDX-License-Identifier: MIT */
/*
 * tests/unit/tcp_patience.c - how long peers are waited for, asked, and given up
 *
 * Opens, shut windows, silent peers, and half-closed ones.
 */
#include "tcp_kit.h"
#include "tcp/timer.h"

static struct kit k;
static struct tcp_conn *c;
static struct kit_frame f;

/* --- opening --- */

/* RFC 9293 section 3.5.1, figure 9: the reset ends what the peer has kept; our SYN goes
 * again soon, but only once. */
static void a_wrong_answer_hurries_the_syn_once(void **state)
{
	for (int is_late = 0; is_late < 2; is_late++) {
		kit_begin(&k);
		c = kit_connect(&k);
		if (is_late) {
			kit_wait(&k, 1100 * NS_PER_MS);
			assert_int_equal(kit_drain(&k), 1);
		}
		seq32 ack = k.ack;
		k.ack = seq_add(ack, 1000);
		kit_in(&k, TCP_ACK, NULL, 0);
		kit_expect(&k, &f, TCP_RST);
		assert_true(seq_eq(f.seg.seq, seq_add(ack, 1000)));
		kit_wait(&k, SYN_SOON_NS + 2 * NS_PER_MS);
		assert_int_equal(kit_drain(&k), !is_late);
		assert_int_equal(c->state, TCP_SYN_SENT);
		kit_fini(&k);
	}
}

/* RFC 9293 section 3.10.7.4, "fifth", for SYN-RECEIVED; of two that open at once. */
static void a_wrong_ack_in_syn_rcvd_is_reset(void **state)
{
	kit_begin(&k);
	c = kit_connect(&k);
	kit_in(&k, TCP_SYN, NULL, 0);
	assert_int_equal(kit_drain(&k), 1);
	seq32 ack = k.ack;
	k.ack = seq_add(ack, 1000);
	kit_in(&k, TCP_ACK, NULL, 0);
	kit_expect(&k, &f, TCP_RST);
	assert_true(seq_eq(f.seg.seq, seq_add(ack, 1000)));
	/* What is too old is told what is awaited. */
	k.ack = ack;
	k.seq = seq_sub(k.seq, 1);
	kit_in(&k, TCP_ACK, NULL, 0);
	k.seq = seq_add(k.seq, 1);
	kit_expect(&k, &f, TCP_ACK);
	assert_true(seq_eq(f.seg.ack, k.seq));
	kit_expect_none(&k);
	assert_int_equal(c->state, TCP_SYN_RCVD);
	kit_in(&k, TCP_ACK, NULL, 0);
	assert_int_equal(c->state, TCP_ESTABLISHED);
	kit_fini(&k);
}

/* The retries that do not count in SYN-SENT do not count afterwards, either: whose SYN
 * comes late is waited for, not given up at once. */
static void a_peer_that_opens_late_is_waited_for(void **state)
{
	kit_begin(&k);
	c = kit_connect(&k);
	kit_wait(&k, 30 * NS_PER_S);
	assert_true(c->n_rtx > SYN_RETRIES);
	kit_drain(&k);
	kit_in(&k, TCP_SYN, NULL, 0);
	assert_int_equal(kit_drain(&k), 1);
	for (unsigned i = 0; i < 2; i++) {
		kit_wait(&k, 20 * NS_PER_S);
		assert_int_equal(c->state, TCP_SYN_RCVD);
		kit_expect(&k, &f, TCP_SYN | TCP_ACK);
		kit_drain(&k);
	}
	kit_in(&k, TCP_ACK, NULL, 0);
	assert_int_equal(c->state, TCP_ESTABLISHED);
	kit_fini(&k);
}

/* The longest that a half-open connection lives is 63 seconds; what was deferred for
 * longer was forgotten, though the peer was there. */
static void an_open_is_not_deferred_for_ever(void **state)
{
	kit_begin(&k);
	assert_int_equal(tcp_listen(k.s, NULL, KIT_PORT, 8, &k.listener), 0);
	tcp_set_defer_accept(k.listener, 1000);
	kit_in(&k, TCP_SYN, NULL, 0);
	assert_int_equal(kit_drain(&k), 1);
	kit_in(&k, TCP_ACK, NULL, 0);
	uint64_t from = k.now;
	while (!(c = tcp_accept(k.listener))) {
		assert_true(k.now - from < 64 * NS_PER_S);
		kit_wait(&k, 100 * NS_PER_MS);
		/* The peer answers what it is asked. */
		if (kit_out(&k, &f)) {
			assert_int_equal(f.seg.flags, TCP_SYN | TCP_ACK);
			kit_in(&k, TCP_ACK, NULL, 0);
		}
	}
	assert_true(k.now - from > 30 * NS_PER_S);
	kit_fini(&k);
}

/* Linux takes 127 at most.  More were counted by a byte that came round. */
static void no_number_of_retries_is_for_ever(void **state)
{
	kit_begin(&k);
	c = kit_connect(&k);
	tcp_set_syn_retries(c, UINT8_MAX);
	for (int i = 0; i < 300 && c->state == TCP_SYN_SENT; i++) {
		kit_wait(&k, 120 * NS_PER_S);
		kit_drain(&k);
	}
	assert_int_equal(tcp_error(c), -ETIMEDOUT);
	kit_close_one(&k, c);
}

/* --- keepalive --- */

/* Linux refuses to ask without a pause, or never; at each tick is what it was. */
static void a_silent_peer_is_asked_once_a_second_at_most(void **state)
{
	c = kit_open_one(&k);
	tcp_set_keepalive(c, 1, 0, 0, k.now);
	kit_wait(&k, 1100 * NS_PER_MS);
	assert_int_equal(kit_drain(&k), 1);
	assert_int_equal(c->state, TCP_ESTABLISHED);
	kit_in(&k, TCP_ACK, NULL, 0);
	tcp_set_user_timeout(c, 100000);
	unsigned n = 0;
	for (int i = 0; i < 50; i++) {
		kit_wait(&k, 100 * NS_PER_MS);
		n += kit_drain(&k);
	}
	assert_in_range(n, 3, 5);
	kit_close_one(&k, c);
}

/* RFC 9293 section 3.8.4: an idle connection is one that is open. */
static void an_open_is_not_asked_whether_it_lives(void **state)
{
	kit_begin(&k);
	c = kit_connect(&k);
	tcp_set_syn_retries(c, 1);
	tcp_set_keepalive(c, 1, 1, 9, k.now);
	for (int i = 0; i < 8; i++) {
		kit_wait(&k, 500 * NS_PER_MS);
		while (kit_out(&k, &f))
			assert_int_equal(f.seg.flags, TCP_SYN);
	}
	kit_in(&k, TCP_SYN | TCP_ACK, NULL, 0);
	assert_int_equal(kit_drain(&k), 1);
	kit_wait(&k, 1100 * NS_PER_MS);
	assert_true(kit_out(&k, &f));
	assert_true(seq_eq(f.seg.seq, seq_sub(c->snd_una, 1)));
	kit_close_one(&k, c);
}

/* What the program still has is kept as long as the peer answers. */
static void half_closed_a_peer_is_asked_and_kept(void **state)
{
	c = kit_open_one(&k);
	tcp_set_keepalive(c, 20, 5, 3, k.now);
	assert_int_equal(tcp_shutdown(c, k.now), 0);
	kit_drain(&k);
	kit_in(&k, TCP_ACK, NULL, 0);
	assert_int_equal(c->state, TCP_FIN_WAIT_2);
	for (int i = 0; i < 20; i++) {
		kit_wait(&k, 21 * NS_PER_S);
		assert_int_equal(kit_drain(&k), 1);
		kit_in(&k, TCP_ACK, NULL, 0);
	}
	assert_int_equal(c->state, TCP_FIN_WAIT_2);
	kit_wait(&k, 40 * NS_PER_S);
	assert_int_equal(tcp_error(c), -ETIMEDOUT);
	kit_close_one(&k, c);
}

/* --- shut windows --- */

/* RFC 9293 section 3.8.6.1, RFC 1122 section 4.2.2.17: kept open while probes are
 * answered; who answers none of them is gone.  Sooner when nobody has the connection. */
static void who_answers_no_probe_is_given_up(void **state)
{
	for (int is_orphan = 0; is_orphan < 2; is_orphan++) {
		unsigned n_probes = 0;

		c = kit_open_one(&k);
		kit_window(&k, 0);
		kit_write(&k, c, 10);
		kit_expect_none(&k);
		if (is_orphan)
			tcp_close(c, k.now);
		while (k.s->pool_conns.n_free < k.s->pool_conns.n &&
		       c->state != TCP_CLOSED) {
			kit_wait(&k, 50 * NS_PER_MS);
			n_probes += kit_drain(&k);
			assert_true(k.now < 10000 * NS_PER_S);
		}
		assert_int_equal(n_probes,
				 is_orphan ? ORPHAN_RETRIES : DATA_RETRIES);
		if (is_orphan) {
			kit_fini(&k);
			continue;
		}
		assert_int_equal(tcp_error(c), -ETIMEDOUT);
		kit_close_one(&k, c);
	}
}

/* As Linux: a window that nobody opens holds no memory for ever that nobody has. */
static void an_orphan_is_not_kept_by_a_shut_window(void **state)
{
	c = kit_open_one(&k);
	kit_window(&k, 0);
	kit_write(&k, c, 10);
	tcp_close(c, k.now);
	uint64_t from = k.now;
	while (k.s->pool_conns.n_free < k.s->pool_conns.n) {
		kit_wait(&k, 50 * NS_PER_MS);
		if (kit_drain(&k))
			kit_window(&k, 0);
		assert_true(k.now - from < 600 * NS_PER_S);
	}
	assert_true(k.now - from > 100 * NS_PER_S);
	kit_drain(&k);
	kit_fini(&k);
}

/* RFC 9293 section 3.8.6.1: so is one that was taken back when bytes were under way, which
 * the peer had no room for; but not for ever if it says nothing. */
static void a_window_that_was_taken_back_is_borne(void **state)
{
	unsigned n = 0;

	c = kit_open_one(&k);
	seq32 una = k.ack;
	kit_write(&k, c, 10);
	assert_int_equal(kit_drain(&k), 1);
	for (uint64_t from = k.now; k.now - from < 7200 * NS_PER_S;) {
		k.ack = una;
		kit_window(&k, 0);
		kit_wait(&k, NS_PER_S);
		n += kit_drain(&k);
		assert_int_equal(c->state, TCP_ESTABLISHED);
	}
	assert_true(n > 50 && n < 100);
	uint64_t from = k.now;
	while (c->state != TCP_CLOSED) {
		kit_wait(&k, NS_PER_S);
		kit_drain(&k);
		assert_true(k.now - from < 1100 * NS_PER_S);
	}
	assert_int_equal(tcp_error(c), -ETIMEDOUT);
	kit_close_one(&k, c);
}

/* ... nor for ever, if nobody has the connection; a time-out that began long counted fewer
 * retries than it takes to give up. */
static void an_orphan_is_not_kept_by_a_window_taken_back(void **state)
{
	kit_begin(&k);
	c = kit_connect(&k);
	kit_wait(&k, 1100 * NS_PER_MS);
	assert_int_equal(kit_drain(&k), 1);
	kit_in(&k, TCP_SYN | TCP_ACK, NULL, 0);
	assert_int_equal(kit_drain(&k), 1);
	assert_true(conn_rto_base_ns(c) == RTO_AFTER_SYN_NS);
	seq32 una = k.ack;
	kit_write(&k, c, 10);
	assert_int_equal(kit_drain(&k), 1);
	k.ack = una;
	kit_window(&k, 0);
	tcp_close(c, k.now);
	uint64_t from = k.now;
	while (k.s->pool_conns.n_free < k.s->pool_conns.n) {
		kit_wait(&k, NS_PER_S);
		kit_drain(&k);
		assert_true(k.now - from < 600 * NS_PER_S);
	}
	assert_true(k.now - from > 100 * NS_PER_S);
	kit_fini(&k);
}

/* --- no memory --- */

/* All pieces that queues are made of, as a list by their first words. */
static void *take_ranges(void)
{
	void *list = NULL, **n;

	while ((n = pool_get(&k.s->pool_ranges))) {
		*n = list;
		list = n;
	}
	return list;
}

static void give_ranges(void *list)
{
	while (list) {
		void *next = *(void **)list;

		pool_put(&k.s->pool_ranges, list);
		list = next;
	}
}

/* The peer was given up that had not been asked for anything, and the bytes of a program
 * that had closed were lost. */
static void who_has_no_memory_to_send_does_not_blame_the_peer(void **state)
{
	for (int is_orphan = 0; is_orphan < 2; is_orphan++) {
		c = kit_open_one(&k);
		kit_write(&k, c, 10);
		void *ranges = take_ranges();
		if (is_orphan)
			tcp_close(c, k.now);
		for (int i = 0; i < 3000; i++) {
			kit_wait(&k, NS_PER_S);
			kit_expect_none(&k);
		}
		assert_int_equal(c->state,
				 is_orphan ? TCP_FIN_WAIT_1 : TCP_ESTABLISHED);
		give_ranges(ranges);
		kit_wait(&k, NS_PER_S);
		assert_true(kit_out(&k, &f));
		assert_int_equal(f.len, 10);
		if (!is_orphan)
			tcp_abort(c, k.now);
		kit_fini(&k);
	}
}

/* Patience begins when something was sent. */
static void a_wait_for_memory_is_none_for_the_peer(void **state)
{
	c = kit_open_one(&k);
	tcp_set_user_timeout(c, 10000);
	kit_write(&k, c, 10);
	void *ranges = take_ranges();
	for (int i = 0; i < 8; i++) {
		kit_expect_none(&k);
		kit_wait(&k, NS_PER_S);
	}
	give_ranges(ranges);
	kit_wait(&k, NS_PER_S);
	assert_true(kit_out(&k, &f));
	kit_wait(&k, 9 * NS_PER_S);
	assert_int_equal(c->state, TCP_ESTABLISHED);
	kit_wait(&k, 2 * NS_PER_S);
	assert_int_equal(tcp_error(c), -ETIMEDOUT);
	kit_close_one(&k, c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_wrong_answer_hurries_the_syn_once),
		cmocka_unit_test(a_wrong_ack_in_syn_rcvd_is_reset),
		cmocka_unit_test(a_peer_that_opens_late_is_waited_for),
		cmocka_unit_test(an_open_is_not_deferred_for_ever),
		cmocka_unit_test(no_number_of_retries_is_for_ever),
		cmocka_unit_test(a_silent_peer_is_asked_once_a_second_at_most),
		cmocka_unit_test(an_open_is_not_asked_whether_it_lives),
		cmocka_unit_test(half_closed_a_peer_is_asked_and_kept),
		cmocka_unit_test(who_answers_no_probe_is_given_up),
		cmocka_unit_test(
		    who_has_no_memory_to_send_does_not_blame_the_peer),
		cmocka_unit_test(a_wait_for_memory_is_none_for_the_peer),
		cmocka_unit_test(an_orphan_is_not_kept_by_a_shut_window),
		cmocka_unit_test(a_window_that_was_taken_back_is_borne),
		cmocka_unit_test(an_orphan_is_not_kept_by_a_window_taken_back),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
