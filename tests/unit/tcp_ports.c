/* SPDX-License-Identifier: MIT */
/*
 * tests/unit/tcp_ports.c - which port a connection gets, what TIME-WAIT forbids, and
 * listeners that share a port
 */
#include "tcp_kit.h"

#define FIRST 40000

static struct kit k;
static struct kit_frame f;

static void begin(uint16_t first, uint16_t last, const uint8_t *kept)
{
	struct tcp_config cfg = kit_config(false);

	cfg.ports = (struct tcp_ports){ first, last };
	cfg.ports_kept = kept;
	kit_init(&k, &cfg);
}

/* A new connection's port; or a negative errno. */
static int port_in(uint16_t first, uint16_t last)
{
	struct tcp_conn *c;
	int err =
	    tcp_connect_within(k.s, &k.me, 0, (struct tcp_ports){ first, last },
			       &k.peer, KIT_PEER_PORT, k.now, &c);

	kit_drain(&k);
	return err ? err : c->flow.lport;
}

static void each_port_is_taken_once_every_second_one_first(void **state)
{
	unsigned seen = 0;

	begin(FIRST, FIRST + 6, NULL);
	for (int i = 0; i < 7; i++) {
		int port = port_in(0, 0);
		assert_in_range(port, FIRST, FIRST + 6);
		assert_int_equal(port % 2, i >= 4);
		assert_false(seen & 1u << (port - FIRST));
		seen |= 1u << (port - FIRST);
	}
	assert_int_equal(port_in(0, 0), -EADDRNOTAVAIL);
	kit_fini(&k);
	begin(65535, 65535, NULL);
	assert_int_equal(port_in(0, 0), 65535);
	assert_int_equal(port_in(0, 0), -EADDRNOTAVAIL);
	kit_fini(&k);
}

static void ports_that_are_kept_or_listened_to_are_not_chosen(void **state)
{
	static uint8_t kept[8192];
	struct tcp_listener *l;

	kept[FIRST / 8] = 0x0b; /* 40000, 40001 and 40003 */
	begin(FIRST, FIRST + 4, kept);
	assert_int_equal(tcp_listen(k.s, NULL, FIRST + 4, 1, &l), 0);
	assert_int_equal(port_in(0, 0), FIRST + 2);
	assert_int_equal(port_in(0, 0), -EADDRNOTAVAIL);
	tcp_unlisten(l, k.now);
	assert_int_equal(port_in(0, 0), FIRST + 4);
	kit_fini(&k);
}

static void a_wish_counts_where_it_lies_in_what_is_configured(void **state)
{
	begin(FIRST, FIRST + 100, NULL);
	assert_int_equal(port_in(FIRST + 7, FIRST + 7), FIRST + 7);
	assert_int_equal(port_in(FIRST + 7, FIRST + 7), -EADDRNOTAVAIL);
	assert_int_equal(port_in(FIRST + 9, FIRST + 8), -EINVAL);
	assert_int_equal(port_in(FIRST + 100, 0), FIRST + 100);
	assert_int_equal(port_in(0, FIRST), FIRST);
	assert_int_equal(port_in(FIRST + 99, 65535), FIRST + 99);
	assert_int_equal(port_in(1, FIRST + 1), FIRST + 1);
	/* All of it is outside: as if nothing were wished. */
	assert_in_range(port_in(10, 20), FIRST, FIRST + 100);
	kit_fini(&k);
}

/* --- TIME-WAIT --- */

/* One connection that is now in TIME-WAIT.  Return: its last number of ours */
static seq32 wait_begin(bool has_ts, uint8_t reuse)
{
	struct tcp_config cfg = kit_config(false);

	cfg.reuse = reuse;
	cfg.ports = (struct tcp_ports){ KIT_PORT, KIT_PORT };
	cfg.n_conns = 1;
	kit_init(&k, &cfg);
	k.tsval = has_ts ? 500 : 0;
	struct tcp_conn *c = kit_established(&k);
	tcp_close(c, k.now);
	assert_true(kit_out(&k, &f));
	assert_true(f.seg.flags & TCP_FIN);
	seq32 end = k.ack;
	kit_in(&k, TCP_FIN | TCP_ACK, NULL, 0);
	assert_int_equal(kit_drain(&k), 1);
	assert_int_equal(k.s->pool_conns.n_free, 1);
	assert_int_equal(k.s->pool_tws.n_free, k.s->pool_tws.n - 1);
	return end;
}

static int again(uint16_t lport, struct tcp_conn **c)
{
	return tcp_connect(k.s, &k.me, lport, &k.peer, KIT_PEER_PORT, k.now, c);
}

/* RFC 6191, the other way: its number is behind the old one's, whatever the clock. */
static void a_name_is_taken_again_when_timestamps_tell(void **state)
{
	struct tcp_conn *c;

	for (int is_named = 0; is_named < 2; is_named++) {
		seq32 end = wait_begin(true, TCP_REUSE_ALWAYS);
		uint16_t lport = is_named ? KIT_PORT : 0;

		if (!is_named) {
			kit_wait(&k, NS_PER_S);
			assert_int_equal(again(0, &c), -EADDRNOTAVAIL);
			kit_wait(&k, 2 * NS_PER_MS);
		}
		assert_int_equal(again(lport, &c), 0);
		assert_int_equal(k.s->pool_tws.n_free, k.s->pool_tws.n);
		assert_true(kit_out(&k, &f));
		assert_int_equal(f.seg.flags, TCP_SYN);
		assert_int_equal(f.seg.tsecr, 500);
		assert_true(seq_le(seq_add(end, 65536), f.seg.seq));
		kit_fini(&k);
	}
}

static void otherwise_a_name_in_time_wait_is_taken(void **state)
{
	struct tcp_conn *c;

	/* Without timestamps, never; what is chosen, as the configuration says. */
	wait_begin(false, TCP_REUSE_ALWAYS);
	kit_wait(&k, 5 * NS_PER_S);
	assert_int_equal(again(KIT_PORT, &c), -EADDRINUSE);
	assert_int_equal(again(0, &c), -EADDRNOTAVAIL);
	kit_wait(&k, 55 * NS_PER_S);
	assert_int_equal(again(KIT_PORT, &c), 0);
	kit_fini(&k);
	for (uint8_t reuse = TCP_REUSE_LOCAL; reuse <= TCP_REUSE_NEVER;
	     reuse += TCP_REUSE_NEVER - TCP_REUSE_LOCAL) {
		wait_begin(true, reuse);
		kit_wait(&k, 5 * NS_PER_S);
		assert_int_equal(again(0, &c), -EADDRNOTAVAIL);
		kit_fini(&k);
	}
}

/* A connection that cannot be made takes nothing along. */
static void without_memory_time_wait_stays(void **state)
{
	static const struct ip_addr other = {
		{ [10] = 255, 255, 10, 0, 0, 9 }
	};
	struct tcp_conn *c;

	wait_begin(true, TCP_REUSE_ALWAYS);
	assert_int_equal(tcp_connect(k.s, &k.me, 9, &other, 9, k.now, &c), 0);
	assert_int_equal(again(KIT_PORT, &c), -ENOBUFS);
	assert_int_equal(k.s->pool_tws.n_free, k.s->pool_tws.n - 1);
	kit_fini(&k);
}

/* --- ports that are shared --- */

/* SO_REUSEPORT: each peer has its listener, and the listeners about as many. */
static void listeners_share_a_port(void **state)
{
	struct tcp_config cfg = kit_config(false);
	struct tcp_listener *l[4], *other;
	uint32_t n[4] = { 0 };

	cfg.n_reqsks = 1000;
	cfg.n_conns = 1000;
	kit_init(&k, &cfg);
	for (int i = 0; i < 4; i++)
		assert_int_equal(
		    tcp_listen_shared(k.s, &k.me, KIT_PORT, 1000, &l[i]), 0);
	assert_int_equal(tcp_listen(k.s, &k.me, KIT_PORT, 1, &other),
			 -EADDRINUSE);
	/* One to all addresses is another matter, and comes second. */
	assert_int_equal(tcp_listen(k.s, NULL, KIT_PORT, 1, &other), 0);
	struct tcp_listener *last;
	assert_int_equal(tcp_listen_shared(k.s, NULL, KIT_PORT, 1, &last),
			 -EADDRINUSE);
	for (uint16_t i = 0; i < 400; i++) {
		k.rport = (uint16_t)(KIT_PEER_PORT + i);
		kit_in(&k, TCP_SYN, NULL, 0);
		/* The SYN again goes to the same. */
		k.seq = seq_sub(k.seq, 1);
		kit_in(&k, TCP_SYN, NULL, 0);
		kit_drain(&k);
		kit_in(&k, TCP_ACK, NULL, 0);
	}
	for (int i = 0; i < 4; i++) {
		n[i] = l[i]->n_accept;
		assert_in_range(n[i], 60, 140);
	}
	assert_int_equal(n[0] + n[1] + n[2] + n[3], 400);
	assert_int_equal(other->n_accept, 0);
	/* Those that are left share what comes then. */
	tcp_unlisten(l[1], k.now);
	tcp_unlisten(l[3], k.now);
	kit_drain(&k);
	for (uint16_t i = 0; i < 100; i++) {
		k.rport = (uint16_t)(KIT_PEER_PORT + 1000 + i);
		kit_in(&k, TCP_SYN, NULL, 0);
		kit_drain(&k);
		kit_in(&k, TCP_ACK, NULL, 0);
	}
	assert_int_equal(l[0]->n_accept + l[2]->n_accept, n[0] + n[2] + 100);
	assert_true(l[0]->n_accept > n[0] + 20);
	assert_true(l[2]->n_accept > n[2] + 20);
	kit_fini(&k);
}

/* A cookie's ACK comes to the listener that gave it. */
static void shared_listeners_know_their_cookies(void **state)
{
	struct tcp_config cfg = kit_config(false);
	struct tcp_listener *l[3];
	uint32_t n = 0;

	cfg.n_reqsks = 1;
	cfg.n_conns = 100;
	kit_init(&k, &cfg);
	for (int i = 0; i < 3; i++)
		assert_int_equal(
		    tcp_listen_shared(k.s, NULL, KIT_PORT, 100, &l[i]), 0);
	kit_in(&k, TCP_SYN, NULL, 0);
	kit_drain(&k);
	for (uint16_t i = 1; i <= 50; i++) {
		k.rport = (uint16_t)(KIT_PEER_PORT + i);
		kit_in(&k, TCP_SYN, NULL, 0);
		kit_drain(&k);
		kit_in(&k, TCP_ACK, NULL, 0);
	}
	assert_int_equal(tcp_dropped(k.s, DROP_SYN_COOKIE), 50);
	for (int i = 0; i < 3; i++)
		n += l[i]->n_accept;
	assert_int_equal(n, 50);
	kit_fini(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
		    each_port_is_taken_once_every_second_one_first),
		cmocka_unit_test(
		    ports_that_are_kept_or_listened_to_are_not_chosen),
		cmocka_unit_test(
		    a_wish_counts_where_it_lies_in_what_is_configured),
		cmocka_unit_test(a_name_is_taken_again_when_timestamps_tell),
		cmocka_unit_test(otherwise_a_name_in_time_wait_is_taken),
		cmocka_unit_test(without_memory_time_wait_stays),
		cmocka_unit_test(listeners_share_a_port),
		cmocka_unit_test(shared_listeners_know_their_cookies),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
