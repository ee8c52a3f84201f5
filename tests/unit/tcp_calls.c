/* SPDX-License-Identifier: MIT */
/*
 * tests/unit/tcp_calls.c - what the program's calls do and refuse, state by state
 *
 * The errors are those that tcp.h promises.
 */
#include "tcp_kit.h"

static struct kit k;
static struct tcp_conn *c;
static struct kit_frame f;

/* Both ends open at once: SYN_RCVD, as a whole connection. */
static void open_at_once(void)
{
	c = kit_connect(&k);
	kit_in(&k, TCP_SYN, NULL, 0);
	assert_int_equal(c->state, TCP_SYN_RCVD);
	kit_expect(&k, &f, TCP_SYN | TCP_ACK);
}

/* The segment before is the last one, and has the flags @all of @mask. */
static void expect_last(unsigned mask, unsigned all)
{
	assert_true(kit_out(&k, &f));
	assert_int_equal(f.seg.flags & mask, all);
	assert_false(kit_out(&k, &f));
}

/* Both SYNs crossed, and the peer's answer is there before ours could leave. */
static void an_answer_that_is_not_needed_any_more_is_an_ack(void **state)
{
	kit_begin(&k);
	c = kit_connect(&k);
	kit_in(&k, TCP_SYN, NULL, 0);
	struct tcp_seg seg = kit_seg(&k, TCP_SYN | TCP_ACK);
	seg.seq = seq_sub(k.seq, 1);
	seg.mss = 1460;
	kit_segment(&k, &seg, NULL);
	assert_int_equal(c->state, TCP_ESTABLISHED);
	kit_expect(&k, &f, TCP_ACK);
	assert_true(seq_eq(f.seg.ack, k.seq));
	kit_expect_none(&k);
	kit_close_one(&k, c);
}

/* --- tcp_listen(), tcp_connect() --- */

static void a_port_has_one_listener_an_address(void **state)
{
	struct tcp_config cfg = kit_config(false);
	struct ip_addr second = ip_addr_v4(0x0a000009);
	struct tcp_listener *l[4], *none = NULL;

	cfg.addrs[cfg.n_addrs++] = second;
	kit_init(&k, &cfg);
	assert_int_equal(tcp_listen(k.s, NULL, 80, 1, &l[0]), 0);
	assert_int_equal(tcp_listen(k.s, NULL, 80, 1, &none), -EADDRINUSE);
	assert_int_equal(tcp_listen(k.s, &k.me, 80, 1, &l[1]), 0);
	assert_int_equal(tcp_listen(k.s, &second, 80, 1, &l[2]), 0);
	assert_int_equal(tcp_listen(k.s, &second, 80, 1, &none), -EADDRINUSE);
	assert_int_equal(tcp_listen(k.s, &k.me, 81, 1, &l[3]), 0);
	assert_int_equal(tcp_listen(k.s, &k.peer, 80, 1, &none),
			 -EADDRNOTAVAIL);
	assert_null(none);
	/* Who has left leaves the port. */
	tcp_unlisten(l[2], k.now);
	assert_int_equal(tcp_listen(k.s, &second, 80, 1, &l[2]), 0);
	kit_fini(&k);
}

static void there_is_an_end_to_listeners(void **state)
{
	struct tcp_listener *l[TCP_LISTENERS_MAX], *more = NULL;

	kit_begin(&k);
	for (unsigned i = 0; i < TCP_LISTENERS_MAX; i++)
		assert_int_equal(
		    tcp_listen(k.s, NULL, (uint16_t)(100 + i), 1, &l[i]), 0);
	assert_int_equal(tcp_listen(k.s, NULL, 99, 1, &more), -ENFILE);
	assert_null(more);
	tcp_unlisten(l[7], k.now);
	assert_int_equal(tcp_listen(k.s, NULL, 99, 1, &more), 0);
	kit_fini(&k);
}

/* RFC 9293 section 3.10.4: what others have begun goes on. */
static void a_listener_that_ends_takes_its_own_opens_along(void **state)
{
	struct tcp_listener *l[2];

	kit_begin(&k);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(
		    tcp_listen(k.s, NULL, (uint16_t)(80 + i), 0, &l[i]), 0);
		k.lport = (uint16_t)(80 + i);
		k.seq = (seq32){ KIT_PEER_ISS };
		kit_in(&k, TCP_SYN, NULL, 0);
		assert_int_equal(kit_drain(&k), 1);
	}
	tcp_unlisten(l[0], k.now);
	/* Of 81; a backlog of 0 has room for one. */
	kit_in(&k, TCP_ACK, NULL, 0);
	assert_int_equal(kit_drain(&k), 0);
	c = tcp_accept(l[1]);
	assert_non_null(c);
	k.lport = 80;
	kit_in(&k, TCP_ACK, NULL, 0);
	expect_last(TCP_RST, TCP_RST);
	k.lport = 81;
	kit_close_one(&k, c);
}

static void an_open_says_why_it_cannot_be(void **state)
{
	struct tcp_config cfg = kit_config(false);
	struct ip_addr group = ip_addr_v4(0xe0000001), v6 = { { 0x20, 1 } };
	struct tcp_conn *more = NULL;

	cfg.n_conns = 2;
	kit_init(&k, &cfg);
	c = kit_connect(&k);
	assert_int_equal(tcp_connect(k.s, &k.peer, 0, &k.me, 80, k.now, &more),
			 -EADDRNOTAVAIL);
	assert_int_equal(tcp_connect(k.s, &k.me, 0, &v6, 80, k.now, &more),
			 -EAFNOSUPPORT);
	assert_int_equal(tcp_connect(k.s, &k.me, 0, &group, 80, k.now, &more),
			 -ENETUNREACH);
	assert_int_equal(tcp_connect(k.s, &k.me, KIT_PORT, &k.peer,
				     KIT_PEER_PORT, k.now, &more),
			 -EADDRINUSE);
	assert_null(more);
	assert_int_equal(tcp_connect(k.s, &k.me, 0, &k.peer, 80, k.now, &more),
			 0);
	more = NULL;
	assert_int_equal(tcp_connect(k.s, &k.me, 0, &k.peer, 81, k.now, &more),
			 -ENOBUFS);
	assert_null(more);
	kit_drain(&k);
	kit_fini(&k);
}

/* RFC 6056 section 3.3: the search goes round, and ends. */
static void each_port_is_used_once(void **state)
{
	const uint32_t n = PORT_LAST - PORT_FIRST + 1;
	static bool is_used[PORT_LAST + 1];
	struct tcp_config cfg = kit_config(false);
	struct tcp_conn *other = NULL;

	cfg.n_conns = n + 1;
	kit_init(&k, &cfg);
	for (uint32_t i = 0; i < n; i++) {
		assert_int_equal(
		    tcp_connect(k.s, &k.me, 0, &k.peer, 80, k.now, &c), 0);
		assert_in_range(c->flow.lport, PORT_FIRST, PORT_LAST);
		assert_false(is_used[c->flow.lport]);
		is_used[c->flow.lport] = true;
	}
	assert_int_equal(tcp_connect(k.s, &k.me, 0, &k.peer, 80, k.now, &other),
			 -EADDRNOTAVAIL);
	assert_null(other);
	/* To another port of the peer's it is another name. */
	assert_int_equal(tcp_connect(k.s, &k.me, 0, &k.peer, 81, k.now, &other),
			 0);
	uint16_t port = c->flow.lport;
	tcp_abort(c, k.now);
	assert_int_equal(tcp_connect(k.s, &k.me, 0, &k.peer, 80, k.now, &c), 0);
	assert_int_equal(c->flow.lport, port);
	kit_fini(&k);
}

/* RFC 7323 section 2.3: 14 is the most. */
static void a_gigabyte_is_offered_by_the_largest_scale(void **state)
{
	struct tcp_config cfg = kit_config(false);

	cfg.rcv_buf_max = 1u << 30;
	kit_init(&k, &cfg);
	assert_int_equal(tcp_connect(k.s, &k.me, 0, &k.peer, 80, k.now, &c), 0);
	assert_true(kit_out(&k, &f));
	assert_int_equal(f.seg.wscale, 14);
	kit_fini(&k);
}

/* --- states that are not open --- */

static void before_the_peer_answers_nothing_is_sent(void **state)
{
	kit_begin(&k);
	c = kit_connect(&k);
	assert_int_equal(tcp_send(c, "abc", 3, k.now), -EAGAIN);
	assert_int_equal(tcp_shutdown(c, k.now), -ENOTCONN);
	/* A SYN is no byte. */
	assert_int_equal(tcp_unacked_bytes(c), 0);
	assert_int_equal(tcp_unsent_bytes(c), 0);
	assert_false(tcp_poll(c) & TCP_WRITABLE);
	kit_in(&k, TCP_SYN | TCP_ACK, NULL, 0);
	assert_true(tcp_poll(c) & TCP_WRITABLE);
	assert_int_equal(tcp_send(c, "abc", 3, k.now), 3);
	assert_int_equal(tcp_unacked_bytes(c), 3);
	kit_close_one(&k, c);
}

/* As Linux does; RFC 9293 section 3.10.4 would not wait. */
static void a_shutdown_in_syn_rcvd_waits_for_the_peer(void **state)
{
	kit_begin(&k);
	open_at_once();
	assert_int_equal(tcp_send(c, "abc", 3, k.now), -EAGAIN);
	assert_int_equal(tcp_shutdown(c, k.now), 0);
	assert_int_equal(tcp_send(c, "abc", 3, k.now), -EPIPE);
	assert_int_equal(kit_drain(&k), 0);
	assert_int_equal(c->state, TCP_SYN_RCVD);
	kit_in(&k, TCP_ACK, NULL, 0);
	assert_int_equal(c->state, TCP_FIN_WAIT_1);
	expect_last(TCP_FIN, TCP_FIN);
	kit_in(&k, TCP_ACK, NULL, 0);
	assert_int_equal(c->state, TCP_FIN_WAIT_2);
	kit_fini(&k);
}

/* RFC 9293 section 3.10.4: "form a FIN segment and send it"; of one ACK of both and of two,
 * and when the program has shut it before. */
static void a_close_in_syn_rcvd_sends_its_fin(void **state)
{
	for (unsigned how = 0; how < 4; how++) {
		kit_begin(&k);
		open_at_once();
		seq32 fin = k.ack;
		if (how & 1)
			assert_int_equal(tcp_shutdown(c, k.now), 0);
		tcp_close(c, k.now);
		expect_last(TCP_FIN | TCP_SYN | TCP_ACK, TCP_FIN | TCP_ACK);
		assert_true(seq_eq(f.seg.seq, fin));
		kit_wait(&k, 100 * NS_PER_MS);
		if (how & 2) {
			k.ack = fin;
			kit_in(&k, TCP_ACK, NULL, 0);
			assert_int_equal(c->state, TCP_FIN_WAIT_1);
			/* The round trip that the SYN has told. */
			assert_true(c->rto_at_ns - k.now < NS_PER_S / 2);
			kit_wait(&k, NS_PER_S / 2);
			expect_last(TCP_FIN | TCP_SYN, TCP_FIN);
		}
		kit_in(&k, TCP_ACK, NULL, 0);
		assert_int_equal(c->state, TCP_FIN_WAIT_2);
		kit_fini(&k);
	}
}

/* What is sent again is our SYN, without which a FIN says nothing; then the FIN. */
static void a_syn_before_a_fin_is_sent_again_first(void **state)
{
	kit_begin(&k);
	open_at_once();
	seq32 fin = k.ack;
	tcp_close(c, k.now);
	expect_last(TCP_FIN, TCP_FIN);
	for (unsigned i = 0; i < 3; i++) {
		kit_wait(&k, 30 * NS_PER_S);
		while (kit_out(&k, &f))
			assert_int_equal(f.seg.flags, TCP_SYN | TCP_ACK);
	}
	k.ack = fin;
	kit_in(&k, TCP_ACK, NULL, 0);
	assert_int_equal(c->state, TCP_FIN_WAIT_1);
	kit_wait(&k, 4 * NS_PER_S);
	kit_expect(&k, &f, TCP_FIN | TCP_ACK);
	kit_drain(&k);
	kit_in(&k, TCP_ACK, NULL, 0);
	assert_int_equal(c->state, TCP_FIN_WAIT_2);
	kit_fini(&k);
}

/* Nothing goes behind the edge of the window of the peer's SYN, and no ACK of what was not
 * sent opens. */
static void a_close_in_syn_rcvd_without_a_window_waits(void **state)
{
	kit_begin(&k);
	c = kit_connect(&k);
	struct tcp_seg seg = kit_seg(&k, TCP_SYN);
	seg.wnd = 1;
	seg.mss = 1460;
	kit_segment(&k, &seg, NULL);
	k.seq = seq_add(k.seq, 1);
	assert_int_equal(kit_drain(&k), 1);
	tcp_close(c, k.now);
	assert_int_equal(kit_drain(&k), 0);
	k.ack = seq_add(k.ack, 1);
	kit_in(&k, TCP_ACK, NULL, 0);
	expect_last(TCP_RST, TCP_RST);
	k.ack = seq_sub(k.ack, 1);
	kit_in(&k, TCP_ACK, NULL, 0);
	assert_int_equal(c->state, TCP_FIN_WAIT_1);
	expect_last(TCP_FIN, TCP_FIN);
	kit_fini(&k);
}

static void what_is_over_refuses_all(void **state)
{
	const uint8_t *data;

	c = kit_open_one(&k);
	kit_in(&k, TCP_RST | TCP_ACK, NULL, 0);
	assert_int_equal(tcp_poll(c) & (TCP_ERROR | TCP_HUNG_UP),
			 TCP_ERROR | TCP_HUNG_UP);
	assert_int_equal(tcp_send(c, "abc", 3, k.now), -ECONNRESET);
	assert_int_equal(tcp_send(c, "abc", 3, k.now), -EPIPE);
	assert_int_equal(tcp_shutdown(c, k.now), -ENOTCONN);
	assert_int_equal(tcp_peek(c, &data), 0);
	assert_int_equal(tcp_unacked_bytes(c), 0);
	tcp_close(c, k.now);
	assert_int_equal(kit_drain(&k), 0);
	kit_fini(&k);
}

/* Whatever is set, in whichever state: nothing is sent that must not be, and no timer
 * is left behind. */
static void options_may_be_set_in_every_state(void **state)
{
	for (int step = 0; step < 6; step++) {
		kit_begin(&k);
		c = step == 1 ? NULL : kit_connect(&k);
		if (step == 1)
			open_at_once();
		if (step >= 2)
			kit_in(&k, TCP_SYN | TCP_ACK, NULL, 0);
		if (step == 3)
			kit_in(&k, TCP_FIN | TCP_ACK, NULL, 0);
		if (step == 4)
			assert_int_equal(tcp_shutdown(c, k.now), 0);
		if (step == 5)
			kit_in(&k, TCP_RST | TCP_ACK, NULL, 0);
		kit_drain(&k);
		uint8_t before = c->state;
		for (int is_on = 1; is_on >= 0; is_on--) {
			tcp_set_nodelay(c, is_on, k.now);
			tcp_set_cork(c, is_on, k.now);
			tcp_set_pacing(c, is_on, k.now);
			tcp_set_quickack(c, is_on, k.now);
			tcp_set_oob_inline(c, is_on);
			tcp_set_linger(c, is_on);
			tcp_set_keepalive(c, is_on ? 100 : 0, 1, 1, k.now);
			kit_check(&k);
			assert_int_equal(kit_drain(&k), 0);
		}
		assert_int_equal(c->state, before);
		if (before == TCP_CLOSED)
			assert_true(tcp_next_ns(k.s) == UINT64_MAX);
		kit_close_one(&k, c);
	}
}

/* --- events --- */

static void a_full_buffer_is_not_writable(void **state)
{
	struct tcp_config cfg = kit_config(false);

	cfg.snd_buf = 5000;
	kit_init(&k, &cfg);
	c = kit_established(&k);
	kit_write(&k, c, 5000);
	assert_false(tcp_poll(c) & TCP_WRITABLE);
	assert_int_equal(tcp_send(c, "abc", 3, k.now), -EAGAIN);
	kit_drain(&k);
	assert_false(tcp_poll(c) & TCP_WRITABLE);
	kit_in(&k, TCP_ACK, NULL, 0);
	assert_true(tcp_poll(c) & TCP_WRITABLE);
	kit_close_one(&k, c);
}

static void both_ends_must_close_to_hang_up(void **state)
{
	c = kit_open_one(&k);
	kit_in(&k, TCP_FIN | TCP_ACK, NULL, 0);
	assert_int_equal(tcp_poll(c) & (TCP_PEER_CLOSED | TCP_HUNG_UP),
			 TCP_PEER_CLOSED);
	assert_int_equal(tcp_shutdown(c, k.now), 0);
	assert_int_equal(c->state, TCP_LAST_ACK);
	assert_true(tcp_poll(c) & TCP_HUNG_UP);
	/* Nothing can be sent, and who tries is not kept waiting. */
	assert_true(tcp_poll(c) & TCP_WRITABLE);
	assert_int_equal(tcp_send(c, "abc", 3, k.now), -EPIPE);
	kit_close_one(&k, c);
}

/* --- the end --- */

/* RFC 2525 section 2.17, RFC 9293 section 3.10.5: behind both FINs an abort has nothing
 * to tell, unless bytes are lost. */
static void what_is_lost_unread_is_told_in_last_ack(void **state)
{
	for (int has_bytes = 0; has_bytes < 2; has_bytes++) {
		c = kit_open_one(&k);
		kit_in(&k, TCP_FIN | TCP_ACK, "abc", has_bytes ? 3 : 0);
		assert_int_equal(tcp_shutdown(c, k.now), 0);
		assert_true(kit_out(&k, &f));
		assert_true(f.seg.flags & TCP_FIN);
		assert_int_equal(c->state, TCP_LAST_ACK);
		tcp_set_linger(c, true);
		tcp_close(c, k.now);
		if (has_bytes)
			expect_last(TCP_RST, TCP_RST);
		else
			assert_int_equal(kit_drain(&k), 0);
		assert_int_equal(k.s->pool_conns.n_free, k.s->pool_conns.n);
		kit_fini(&k);
	}
}

/* --- how it is sent --- */

static void what_is_paced_goes_in_parts(void **state)
{
	kit_begin(&k);
	c = kit_connect(&k);
	kit_wait(&k, 100 * NS_PER_MS);
	kit_in(&k, TCP_SYN | TCP_ACK, NULL, 0);
	kit_drain(&k);
	tcp_set_pacing(c, true, k.now);
	kit_write(&k, c, 10u * c->mss);
	unsigned n = kit_drain(&k), more;
	assert_in_range(n, 1, 5);
	kit_wait(&k, 15 * NS_PER_MS);
	more = kit_drain(&k);
	assert_in_range(more, 1, 4);
	/* The rest waits for nothing any more. */
	tcp_set_pacing(c, false, k.now);
	assert_int_equal(n + more + kit_drain(&k), 10);
	kit_close_one(&k, c);
}

/* Where a port sums, it finds the pseudo-header's sum in the field. */
static void a_port_that_sums_completes_the_checksum(void **state)
{
	static uint8_t packet[IP_MAX];

	for (int is_v6 = 0; is_v6 < 2; is_v6++) {
		struct tcp_config cfg = kit_config(is_v6);

		cfg.has_port_sums = true;
		kit_init(&k, &cfg);
		c = kit_established(&k);
		kit_write(&k, c, 1001);
		assert_true(kit_out(&k, &f));
		uint32_t len = f.head_len + f.len;
		uint8_t *l4 = packet + f.ip_len;
		struct ip_packet ip;
		struct cksum sum = { 0 };
		memcpy(packet, f.head, f.head_len);
		memcpy(packet + f.head_len, f.payload, f.len);
		assert_int_equal(ip_parse(packet, len, &ip), 0);
		assert_false(tcp_sum_is_good(&ip, l4));
		cksum_add(&sum, l4, len - f.ip_len);
		store_be16(l4 + 16, cksum_end(&sum));
		assert_true(tcp_sum_is_good(&ip, l4));
		kit_close_one(&k, c);
	}
}

/* RFC 9293 section 3.6: a peer that says nothing holds what was closed, for a while. */
static void orphans_have_a_limit(void **state)
{
	struct tcp_config cfg = kit_config(false);

	cfg.n_conns = 8;
	cfg.n_orphans = 3;
	kit_init(&k, &cfg);
	for (uint32_t i = 0; i < 5; i++) {
		k.rport++;
		c = kit_accepted(&k);
		tcp_close(c, k.now);
		assert_true(kit_out(&k, &f));
		assert_int_equal(f.seg.flags & (TCP_FIN | TCP_RST),
				 i < 3 ? TCP_FIN : TCP_RST);
		kit_expect_none(&k);
	}
	assert_int_equal(tcp_orphans(k.s).n, 3);
	assert_int_equal(tcp_orphans(k.s).n_reset, 2);
	/* Those are given up in time, and then there is room. */
	kit_wait(&k, 300 * NS_PER_S);
	kit_drain(&k);
	assert_int_equal(tcp_orphans(k.s).n, 0);
	assert_int_equal(k.s->pool_conns.n_free, 8);
	kit_fini(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
		    an_answer_that_is_not_needed_any_more_is_an_ack),
		cmocka_unit_test(a_port_has_one_listener_an_address),
		cmocka_unit_test(there_is_an_end_to_listeners),
		cmocka_unit_test(
		    a_listener_that_ends_takes_its_own_opens_along),
		cmocka_unit_test(an_open_says_why_it_cannot_be),
		cmocka_unit_test(each_port_is_used_once),
		cmocka_unit_test(a_gigabyte_is_offered_by_the_largest_scale),
		cmocka_unit_test(before_the_peer_answers_nothing_is_sent),
		cmocka_unit_test(a_shutdown_in_syn_rcvd_waits_for_the_peer),
		cmocka_unit_test(a_close_in_syn_rcvd_sends_its_fin),
		cmocka_unit_test(a_syn_before_a_fin_is_sent_again_first),
		cmocka_unit_test(a_close_in_syn_rcvd_without_a_window_waits),
		cmocka_unit_test(what_is_over_refuses_all),
		cmocka_unit_test(options_may_be_set_in_every_state),
		cmocka_unit_test(a_full_buffer_is_not_writable),
		cmocka_unit_test(both_ends_must_close_to_hang_up),
		cmocka_unit_test(what_is_lost_unread_is_told_in_last_ack),
		cmocka_unit_test(what_is_paced_goes_in_parts),
		cmocka_unit_test(a_port_that_sums_completes_the_checksum),
		cmocka_unit_test(orphans_have_a_limit),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
