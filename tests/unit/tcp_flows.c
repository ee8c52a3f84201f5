/* SPDX-License-Identifier: MIT */
/*
 * tests/unit/tcp_flows.c - whom a segment is for: listeners, half-open, open, TIME-WAIT
 *
 * What is short of room says so, and goes on when there is some.
 */
#include "tcp_kit.h"

static struct kit k;
static struct tcp_conn *c;
static struct kit_frame f;

static void listen_here(uint32_t backlog)
{
	assert_int_equal(tcp_listen(k.s, NULL, KIT_PORT, backlog, &k.listener),
			 0);
}

/* The peer's next connection: of its next port. */
static void next_peer(void)
{
	k.rport++;
	k.seq = (seq32){ KIT_PEER_ISS };
}

/* A segment at @off from the peer's next number, which stays. */
static void segment_at(unsigned flags, int32_t off, uint32_t len)
{
	seq32 seq = k.seq;

	k.seq = seq_add(seq, (uint32_t)off);
	kit_in(&k, flags, len ? "text" : NULL, len);
	k.seq = seq;
}

/* --- the table --- */

#define N_PEERS 764

/* Whether some bucket has more flows than ways. */
static bool has_chain(void)
{
	for (uint32_t i = 0; i < k.s->n_buckets; i++)
		if (k.s->buckets[i].more)
			return true;
	return false;
}

/* Names that share all but an address, in a table with fewer buckets than would keep
 * them apart. */
static void peers_that_share_ports_are_told_apart(void **state)
{
	static struct tcp_conn *conns[N_PEERS];
	static seq32 seqs[N_PEERS], acks[N_PEERS];
	struct tcp_config cfg = kit_config(false);
	const uint8_t *data;

	cfg.addrs[cfg.n_addrs++] = ip_addr_v4(0x0a000002);
	cfg.n_conns = N_PEERS;
	cfg.n_reqsks = 4;
	kit_init(&k, &cfg);
	for (uint32_t i = 0; i < N_PEERS; i++) {
		k.me = cfg.addrs[i % 2];
		k.peer = ip_addr_v4(0x0a010000 + i / 2);
		k.seq = (seq32){ KIT_PEER_ISS };
		conns[i] = kit_accepted(&k);
		seqs[i] = k.seq;
		acks[i] = k.ack;
	}
	for (uint32_t i = 0; i < N_PEERS; i++) {
		uint8_t byte = (uint8_t)i;

		k.me = cfg.addrs[i % 2];
		k.peer = ip_addr_v4(0x0a010000 + i / 2);
		k.seq = seqs[i];
		k.ack = acks[i];
		kit_in(&k, TCP_ACK, &byte, 1);
	}
	for (uint32_t i = 0; i < N_PEERS; i++) {
		assert_int_equal(tcp_peek(conns[i], &data), 1);
		assert_int_equal(data[0], (uint8_t)i);
		tcp_consume(conns[i], 1, k.now);
	}
	kit_drain(&k);
	assert_true(has_chain());
	/* Some go, and the others are found where they are now. */
	for (uint32_t i = 0; i < N_PEERS; i++)
		if (i % 3)
			tcp_abort(conns[i], k.now);
	for (uint32_t i = 0; i < N_PEERS; i++) {
		struct ip_addr peer = ip_addr_v4(0x0a010000 + i / 2);
		const struct flow *at = flow_find(
		    k.s, (uint8_t)(i % 2), KIT_PORT, &peer, KIT_PEER_PORT);

		assert_ptr_equal(at, i % 3 ? NULL : &conns[i]->flow);
	}
	for (uint32_t i = 0; i < N_PEERS; i += 3)
		tcp_abort(conns[i], k.now);
	kit_drain(&k);
	for (uint32_t i = 0; i < k.s->n_buckets; i++)
		assert_int_equal(k.s->buckets[i].id[0] | k.s->buckets[i].more,
				 0);
	kit_fini(&k);
}

static void so_many_answers_wait_and_no_more(void **state)
{
	kit_begin(&k);
	for (unsigned i = 0; i < TX_REPLIES + 44; i++, next_peer())
		kit_in(&k, TCP_SYN, NULL, 0);
	assert_int_equal(tcp_dropped(k.s, DROP_NO_CONN), TX_REPLIES + 44);
	assert_int_equal(tcp_dropped(k.s, DROP_REPLY_LIMIT), 44);
	assert_int_equal(kit_drain(&k), TX_REPLIES);
	kit_in(&k, TCP_SYN, NULL, 0);
	kit_expect(&k, &f, TCP_RST | TCP_ACK);
	kit_fini(&k);
}

/* RFC 9293 section 3.10.7: what others are meant by is not answered. */
static void what_is_not_for_tcp_here_is_counted(void **state)
{
	static const uint8_t datagram[8];
	struct ip_addr other = ip_addr_v4(0x0a000063), me;

	kit_begin(&k);
	listen_here(8);
	me = k.me;
	k.me = other;
	kit_in(&k, TCP_SYN, NULL, 0);
	assert_int_equal(tcp_dropped(k.s, DROP_NOT_OURS), 1);
	k.me = me;
	kit_packet(&k, IP_PROTO_UDP, datagram, sizeof(datagram));
	assert_int_equal(tcp_dropped(k.s, DROP_IP_PROTOCOL), 1);
	kit_expect_none(&k);
	kit_fini(&k);
}

/* --- listeners --- */

static void nobody_listens_at_port_0(void **state)
{
	kit_begin(&k);
	listen_here(8);
	k.lport = 0;
	kit_in(&k, TCP_SYN, NULL, 0);
	kit_expect(&k, &f, TCP_RST | TCP_ACK);
	assert_int_equal(k.s->pool_reqsks.n_free, k.s->pool_reqsks.n);
	kit_fini(&k);
}

static void the_listener_of_an_address_comes_first(void **state)
{
	struct tcp_config cfg = kit_config(false);
	struct tcp_listener *any, *one;

	cfg.addrs[cfg.n_addrs++] = ip_addr_v4(0x0a000009);
	cfg.addrs[cfg.n_addrs++] = ip_addr_v4(0x0a00000a);
	kit_init(&k, &cfg);
	assert_int_equal(tcp_listen(k.s, &cfg.addrs[1], KIT_PORT, 8, &one), 0);
	/* To another address there is nobody yet. */
	kit_in(&k, TCP_SYN, NULL, 0);
	kit_expect(&k, &f, TCP_RST | TCP_ACK);
	assert_int_equal(tcp_listen(k.s, NULL, KIT_PORT, 8, &any), 0);
	for (unsigned i = 0; i < 3; i++) {
		next_peer();
		k.me = cfg.addrs[i];
		kit_in(&k, TCP_SYN, NULL, 0);
		assert_int_equal(kit_drain(&k), 1);
		kit_in(&k, TCP_ACK, NULL, 0);
		assert_int_equal(tcp_accept(one) != NULL, i == 1);
		assert_int_equal(tcp_accept(any) != NULL, i != 1);
	}
	kit_fini(&k);
}

/* --- half-open --- */

/* The peer's ACK comes again, or our SYN-ACK makes it come again. */
static void an_open_waits_for_room_in_the_queue(void **state)
{
	struct tcp_conn *first;

	kit_begin(&k);
	listen_here(1);
	kit_in(&k, TCP_SYN, NULL, 0);
	kit_drain(&k);
	seq32 seq = k.seq, ack = k.ack;
	next_peer();
	kit_in(&k, TCP_SYN, NULL, 0);
	kit_drain(&k);
	kit_in(&k, TCP_ACK, NULL, 0);
	assert_int_equal(k.listener->n_accept, 1);
	k.rport--;
	k.seq = seq;
	k.ack = ack;
	kit_in(&k, TCP_ACK, NULL, 0);
	kit_expect_none(&k);
	assert_int_equal(tcp_dropped(k.s, DROP_BACKLOG), 1);
	first = tcp_accept(k.listener);
	assert_non_null(first);
	assert_null(tcp_accept(k.listener));
	kit_wait(&k, 1100 * NS_PER_MS);
	kit_expect(&k, &f, TCP_SYN | TCP_ACK);
	kit_in(&k, TCP_ACK, NULL, 0);
	c = tcp_accept(k.listener);
	assert_non_null(c);
	assert_ptr_not_equal(c, first);
	kit_fini(&k);
}

static void an_open_waits_for_memory(void **state)
{
	struct tcp_config cfg = kit_config(false);

	cfg.n_conns = 1;
	kit_init(&k, &cfg);
	c = kit_accepted(&k);
	next_peer();
	kit_in(&k, TCP_SYN, NULL, 0);
	kit_expect(&k, &f, TCP_SYN | TCP_ACK);
	kit_in(&k, TCP_ACK, "text", 4);
	kit_expect_none(&k);
	assert_null(tcp_accept(k.listener));
	assert_int_equal(tcp_dropped(k.s, DROP_CONN_POOL), 1);
	tcp_abort(c, k.now);
	kit_drain(&k);
	segment_at(TCP_ACK, -4, 4);
	c = tcp_accept(k.listener);
	assert_non_null(c);
	assert_int_equal(tcp_readable_bytes(c), 4);
	kit_fini(&k);
}

/* RFC 5961 section 7. */
static void what_is_half_open_answers_twice_a_second(void **state)
{
	kit_begin(&k);
	listen_here(8);
	kit_in(&k, TCP_SYN, NULL, 0);
	kit_drain(&k);
	for (int i = 0; i < 2; i++) {
		for (int n = 0; n < 5; n++)
			segment_at(TCP_ACK, 1 << 20, 0);
		kit_expect(&k, &f, TCP_ACK);
		assert_true(seq_eq(f.seg.ack, k.seq));
		kit_expect_none(&k);
		/* Text costs its sender as much as its answer. */
		for (int n = 0; n < 5; n++)
			segment_at(TCP_ACK, 1 << 20, 4);
		assert_int_equal(kit_drain(&k), 5);
		kit_wait(&k, CHALLENGE_NS + 2 * NS_PER_MS);
	}
	kit_fini(&k);
}

/* RFC 5961 section 3.2, RFC 9293 section 3.10.7.4 for SYN-RECEIVED. */
static void a_reset_ends_an_open_at_the_edge_alone(void **state)
{
	static const int32_t offs[] = { -1, 1, 1000, 1 << 20, 0 };

	kit_begin(&k);
	listen_here(8);
	kit_in(&k, TCP_SYN, NULL, 0);
	kit_drain(&k);
	for (unsigned i = 0; i < ARRAY_LEN(offs); i++) {
		bool is_edge = !offs[i];
		bool in_window = offs[i] > 0 && offs[i] < 65536;

		kit_wait(&k, (i == 1 ? CHALLENGE_NS + 2 * NS_PER_MS : 0));
		segment_at(TCP_RST, offs[i], 0);
		assert_int_equal(k.s->pool_reqsks.n_free,
				 k.s->pool_reqsks.n - !is_edge);
		/* The second of them would be answered too soon. */
		assert_int_equal(kit_drain(&k), in_window && i == 1);
	}
	kit_fini(&k);
}

/* RFC 7323 section 5.2: "A RST segment [...] is not subjected to PAWS". */
static void a_reset_ends_an_open_whatever_its_timestamp(void **state)
{
	kit_begin(&k);
	listen_here(8);
	k.tsval = 1000;
	kit_in(&k, TCP_SYN, NULL, 0);
	kit_drain(&k);
	k.tsval = 500;
	kit_in(&k, TCP_ACK, NULL, 0);
	assert_int_equal(tcp_dropped(k.s, DROP_PAWS), 1);
	assert_int_equal(k.s->pool_reqsks.n_free, k.s->pool_reqsks.n - 1);
	kit_in(&k, TCP_RST, NULL, 0);
	assert_int_equal(k.s->pool_reqsks.n_free, k.s->pool_reqsks.n);
	kit_fini(&k);
}

/* RFC 3168 section 6.1.1.1: who was not answered asks without, in the end. */
static void a_syn_again_may_ask_for_less(void **state)
{
	kit_begin(&k);
	listen_here(8);
	for (int i = 0; i < 4; i++) {
		bool asks = i < 2;

		k.now += NS_PER_S; /* or it is not answered */
		k.seq = (seq32){ KIT_PEER_ISS };
		kit_in(&k, TCP_SYN | (asks ? TCP_ECE | TCP_CWR : 0), NULL, 0);
		kit_expect(&k, &f, TCP_SYN | TCP_ACK | (asks ? TCP_ECE : 0));
	}
	kit_in(&k, TCP_ACK, NULL, 0);
	c = tcp_accept(k.listener);
	assert_non_null(c);
	kit_write(&k, c, 10);
	assert_true(kit_out(&k, &f));
	/* Byte 1 of the IP header: not marked as capable, either. */
	assert_int_equal(f.head[1] & 3, 0);
	kit_fini(&k);
}

/* --- TIME-WAIT --- */

static void enter_time_wait(void)
{
	tcp_close(c, k.now);
	kit_drain(&k);
	kit_in(&k, TCP_FIN | TCP_ACK, NULL, 0);
	kit_drain(&k);
}

static uint32_t n_waits(void) { return k.s->pool_tws.n - k.s->pool_tws.n_free; }

/* RFC 9293 section 3.6.1 allows it where memory is short: the oldest is the safest. */
static void the_oldest_in_time_wait_gives_way(void **state)
{
	struct tcp_config cfg = kit_config(false);
	static seq32 seqs[6], acks[6];

	cfg.n_reqsks = 4;
	kit_init(&k, &cfg);
	listen_here(8);
	for (unsigned i = 0; i < 6; i++) {
		next_peer();
		c = kit_accepted(&k);
		enter_time_wait();
		seqs[i] = k.seq;
		acks[i] = k.ack;
		kit_wait(&k, NS_PER_S);
	}
	assert_int_equal(n_waits(), 4);
	/* The FIN again, as if our ACK had been lost. */
	for (unsigned i = 0; i < 6; i++) {
		k.rport = (uint16_t)(KIT_PEER_PORT + 1 + i);
		k.seq = seq_sub(seqs[i], 1);
		k.ack = acks[i];
		kit_in(&k, TCP_FIN | TCP_ACK, NULL, 0);
		kit_expect(&k, &f, i < 2 ? TCP_RST : TCP_ACK);
	}
	kit_fini(&k);
}

/* RFC 9293 section 3.6.1: a sequence number larger than any that was used. */
static void a_name_used_again_begins_behind_its_numbers(void **state)
{
	kit_begin(&k);
	c = kit_accepted(&k);
	c->cwnd = 1 << 20;
	kit_write(&k, c, 200000);
	kit_drain(&k);
	enter_time_wait();
	assert_int_equal(n_waits(), 1);
	seq32 end = k.ack;
	/* So soon that the clock of the numbers has not passed what was sent. */
	k.seq = seq_add(k.seq, 1000);
	kit_in(&k, TCP_SYN, NULL, 0);
	kit_expect(&k, &f, TCP_SYN | TCP_ACK);
	assert_true(seq_lt(end, f.seg.seq));
	assert_int_equal(n_waits(), 0);
	kit_fini(&k);
}

/* RFC 6191 section 2: of the same instant, the number tells. */
static void of_one_timestamp_the_number_tells(void **state)
{
	for (int is_later = 0; is_later < 2; is_later++) {
		kit_begin(&k);
		k.tsval = 1000;
		c = kit_accepted(&k);
		enter_time_wait();
		segment_at(TCP_SYN, is_later ? 1000 : -1000, 0);
		kit_expect(&k, &f, is_later ? TCP_SYN | TCP_ACK : TCP_ACK);
		assert_int_equal(n_waits(), !is_later);
		kit_fini(&k);
	}
}

/* A SYN that nobody listens for leaves TIME-WAIT as it is. */
static void a_syn_that_opens_nothing_ends_nothing(void **state)
{
	c = kit_open_one(&k);
	enter_time_wait();
	/* Told of what is here each time, its sender resets it. */
	for (int n = 0; n < 3; n++) {
		segment_at(TCP_SYN, 1000, 0);
		kit_expect(&k, &f, TCP_ACK);
		assert_true(seq_eq(f.seg.ack, k.seq));
	}
	assert_int_equal(n_waits(), 1);
	kit_fini(&k);
}

/* RFC 1337 section 3, fix F1. */
static void no_reset_ends_a_time_wait_that_is_safe(void **state)
{
	for (unsigned is_safe = 0; is_safe < 2; is_safe++) {
		struct tcp_config cfg = kit_config(false);

		cfg.is_time_wait_safe = is_safe;
		kit_init(&k, &cfg);
		c = kit_established(&k);
		enter_time_wait();
		segment_at(TCP_RST, 1, 0);
		assert_int_equal(n_waits(), 1);
		segment_at(TCP_RST, 0, 0);
		kit_expect_none(&k);
		assert_int_equal(n_waits(), is_safe);
		kit_fini(&k);
	}
}

/* RFC 5961 section 7; text costs its sender as much as its answer. */
static void time_wait_answers_what_is_cheap_twice_a_second(void **state)
{
	c = kit_open_one(&k);
	enter_time_wait();
	for (int i = 0; i < 3; i++) {
		for (int n = 0; n < 5; n++)
			segment_at(TCP_SYN, -1000, n % 2 ? 4 : 0);
		assert_int_equal(kit_drain(&k), 1);
		for (int n = 0; n < 5; n++)
			segment_at(TCP_ACK, -4, 4);
		assert_int_equal(kit_drain(&k), 5);
		kit_wait(&k, CHALLENGE_NS + 2 * NS_PER_MS);
	}
	assert_int_equal(n_waits(), 1);
	kit_fini(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(peers_that_share_ports_are_told_apart),
		cmocka_unit_test(so_many_answers_wait_and_no_more),
		cmocka_unit_test(what_is_not_for_tcp_here_is_counted),
		cmocka_unit_test(nobody_listens_at_port_0),
		cmocka_unit_test(the_listener_of_an_address_comes_first),
		cmocka_unit_test(an_open_waits_for_room_in_the_queue),
		cmocka_unit_test(an_open_waits_for_memory),
		cmocka_unit_test(what_is_half_open_answers_twice_a_second),
		cmocka_unit_test(a_reset_ends_an_open_at_the_edge_alone),
		cmocka_unit_test(a_reset_ends_an_open_whatever_its_timestamp),
		cmocka_unit_test(a_syn_again_may_ask_for_less),
		cmocka_unit_test(the_oldest_in_time_wait_gives_way),
		cmocka_unit_test(a_name_used_again_begins_behind_its_numbers),
		cmocka_unit_test(of_one_timestamp_the_number_tells),
		cmocka_unit_test(a_syn_that_opens_nothing_ends_nothing),
		cmocka_unit_test(no_reset_ends_a_time_wait_that_is_safe),
		cmocka_unit_test(
		    time_wait_answers_what_is_cheap_twice_a_second),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
