/* SPDX-License-Identifier: MIT */
/*
 * tests/sim/scenarios_wire.c - two of our stacks, and a path with one fault
 *
 * Each test is a small world, or several with one number that varies.  The swarm
 * combines faults.
 */
#include "unit.h"
#include "world.h"

#define MS NS_PER_MS

static struct world w;

/* Runs until everything has arrived.  Return: when, ns */
static uint64_t arrives(const struct world_config *cfg, uint64_t limit_ns)
{
	uint64_t at = 0;

	world_init(&w, cfg);
	assert_true(world_run(&w, limit_ns));
	for (int i = 0; i < 2; i++)
		for (uint32_t p = 0; p < cfg->n_pairs; p++) {
			const struct end *e = &w.ends[i][p];

			assert_int_equal(e->err, 0);
			assert_int_equal(e->n_got, cfg->plan[!i][p].n_bytes);
			at = e->done_ns > at ? e->done_ns : at;
		}
	world_fini(&w);
	return at;
}

/* --- opening --- */

static void any_options_of_both_ends_open(void **state)
{
	for (unsigned a = 0; a <= TCP_OFFER_ALL; a++)
		for (unsigned b = 0; b <= TCP_OFFER_ALL; b++)
			for (unsigned mss = 0; mss < 2; mss++) {
				struct world_config cfg =
				    world_plain(30000, 30000);

				cfg.stack[CLIENT].offers = a;
				cfg.stack[SERVER].offers = b;
				cfg.wire[0].strip = cfg.wire[1].strip =
				    mss ? STRIP_MSS : 0;
				arrives(&cfg, 5 * NS_PER_S);
			}
}

/* The first k packets of one direction are lost, beginning with the SYN or the
 * SYN-ACK. */
static void a_handshake_survives_losses(void **state)
{
	for (unsigned side = 0; side < 2; side++)
		for (unsigned lost = 1; lost <= 5; lost++) {
			struct world_config cfg = world_plain(1000, 1000);

			cfg.wire[side].drop_mask = (1u << lost) - 1;
			uint64_t ns = arrives(&cfg, 100 * NS_PER_S);
			assert_true(ns >= NS_PER_S);
		}
	for (unsigned lost = 1; lost <= 6; lost++) {
		struct world_config cfg = world_plain(0, 5000);

		/* The ACK of the SYN-ACK is lost, and the packets that replace it. */
		cfg.wire[CLIENT].drop_mask = ((1u << lost) - 1) << 1;
		arrives(&cfg, 100 * NS_PER_S);
	}
}

/* Both ends connect, one of them up to a round trip later. */
static void a_simultaneous_open_works_at_any_skew(void **state)
{
	for (unsigned ms = 0; ms <= 24; ms += 4) {
		struct world_config cfg = world_plain(3000, 3000);

		cfg.is_simultaneous = true;
		cfg.wire[SERVER].delay_ns += ms * MS;
		arrives(&cfg, 20 * NS_PER_S);
	}
}

/* Both ends connect, and one or both close before the connection is open.  The FIN
 * arrives, whichever packets are lost. */
static void who_closes_while_both_open_is_heard(void **state)
{
	for (unsigned how = 0; how < 2048; how++) {
		struct world_config cfg = world_plain(0, 0);

		cfg.is_simultaneous = true;
		cfg.plan[CLIENT][0].closes_early = true;
		cfg.plan[SERVER][0].closes_early = how & 1;
		cfg.wire[CLIENT].drop_mask = how >> 1 & 31;
		cfg.wire[SERVER].drop_mask = how >> 6 & 31;
		arrives(&cfg, 200 * NS_PER_S);
		assert_true(w.ends[SERVER][0].got_eof || how & 1);
	}
}

/* --- loss --- */

/* A flight of 64 segments loses one.  Only the last one needs a timer, which is the
 * tail loss probe; none needs a time-out. */
static void each_single_loss_of_a_flight_is_repaired(void **state)
{
	struct world_config cfg = world_plain(64 * 1448, 0);
	uint64_t best = arrives(&cfg, 20 * NS_PER_S);

	for (unsigned i = 1; i < 64; i++) {
		cfg.wire[CLIENT].drop_mask = 1ull << i;
		assert_true(arrives(&cfg, 20 * NS_PER_S) <= best + 200 * MS);
	}
}

static void bursts_of_losses_are_repaired(void **state)
{
	struct world_config cfg = world_plain(64 * 1448, 0);

	for (unsigned n = 2; n <= 20; n++)
		for (unsigned at = 2; at + n < 60; at += 7) {
			cfg.wire[CLIENT].drop_mask = ((1ull << n) - 1) << at;
			arrives(&cfg, 30 * NS_PER_S);
		}
}

static void packets_that_overtake_each_other_arrive(void **state)
{
	for (unsigned depth = 1; depth <= 64; depth *= 2) {
		struct world_config cfg = world_plain(2000000, 0);

		cfg.wire[CLIENT].rate_bps = 100000000;
		cfg.wire[CLIENT].reorder = 20000;
		cfg.wire[CLIENT].reorder_ns = depth * 120000;
		arrives(&cfg, 60 * NS_PER_S);
	}
}

static void half_of_the_acks_suffice(void **state)
{
	struct world_config cfg = world_plain(2000000, 0);
	uint64_t best = arrives(&cfg, 60 * NS_PER_S);

	cfg.wire[SERVER].loss_acks = 500000;
	assert_true(arrives(&cfg, 60 * NS_PER_S) < 4 * best);
}

static void acks_that_come_in_bunches_do_no_harm(void **state)
{
	struct world_config cfg = world_plain(2000000, 0);

	cfg.wire[SERVER].jitter_ns = 10 * MS;
	arrives(&cfg, 60 * NS_PER_S);
}

static void what_comes_merged_or_split_is_the_same(void **state)
{
	for (unsigned i = 0; i < 4; i++) {
		struct world_config cfg = world_plain(500000, 500000);

		for (unsigned k = 0; k < 2; k++) {
			cfg.wire[k].split = i & 1 ? 500000 : 0;
			cfg.wire[k].merge = i & 2 ? 900000 : 0;
			cfg.wire[k].merge_bytes = 9000;
			cfg.wire[k].jitter_ns = MS;
		}
		arrives(&cfg, 60 * NS_PER_S);
	}
}

/* --- windows and sizes --- */

static void a_reader_who_comes_late_gets_all(void **state)
{
	for (unsigned lost = 0; lost < 2; lost++) {
		struct world_config cfg = world_plain(1000000, 0);

		cfg.plan[SERVER][0].read_from_ns = 30 * NS_PER_S;
		/* Window updates are lost, too. */
		cfg.wire[SERVER].loss_acks = lost ? 500000 : 0;
		arrives(&cfg, 300 * NS_PER_S);
	}
}

static void segments_of_all_sizes_work(void **state)
{
	static const uint16_t clamps[] = { 48, 64, 100, 536, 1220 };

	for (unsigned i = 0; i < ARRAY_LEN(clamps); i++) {
		struct world_config cfg = world_plain(50000, 50000);

		cfg.wire[0].clamp_mss = cfg.wire[1].clamp_mss = clamps[i];
		arrives(&cfg, 60 * NS_PER_S);
	}
	for (uint32_t mtu = 576; mtu <= 9000; mtu += 702) {
		struct world_config cfg = world_plain(200000, 200000);

		cfg.stack[SERVER].mtu = mtu;
		cfg.stack[CLIENT].mtu = 9576 - mtu;
		arrives(&cfg, 60 * NS_PER_S);
	}
}

/* Windows from 2 KB to the largest that a scale can express; a long fast path is
 * filled. */
static void windows_of_all_scales_work(void **state)
{
	for (unsigned shift = 11; shift <= 24; shift++) {
		struct world_config cfg = world_plain(300000, 0);

		cfg.stack[SERVER].rcv_buf = 1u << shift;
		arrives(&cfg, 600 * NS_PER_S);
	}
}

/* RFC 9293 section 3.4: sequence numbers wrap in the middle of the stream. */
static void numbers_wrap(void **state)
{
	struct world_config cfg = world_plain(1000000, 1000000);
	uint32_t iss = 0;

	/* Find a key whose ISN lies shortly before the wrap. */
	for (uint64_t key = 1; iss < UINT32_MAX - 200000; key++) {
		cfg.stack[CLIENT].key.k[0] = key;
		world_init(&w, &cfg);
		iss = w.ends[CLIENT][0].conn->iss.v;
		world_fini(&w);
	}
	cfg.wire[0].loss = 10000;
	arrives(&cfg, 60 * NS_PER_S);
}

/* --- the path's MTU --- */

static void a_path_that_becomes_narrow_is_noticed(void **state)
{
	for (unsigned v6 = 0; v6 < 2; v6++) {
		struct world_config cfg = world_plain(1000000, 0);

		for (unsigned i = 0; i < 2; i++) {
			cfg.stack[i] = world_stack((enum side)i, v6);
			cfg.stack[i].mtu = 9000;
			cfg.wire[i].mtu = 1280;
			cfg.wire[i].mtu_from_ns = 50 * MS;
			cfg.wire[i].tells_mtu = true;
		}
		arrives(&cfg, 60 * NS_PER_S);
	}
}

static void a_narrow_path_that_says_nothing_is_found(void **state)
{
	struct world_config cfg = world_plain(300000, 0);

	for (unsigned i = 0; i < 2; i++) {
		cfg.wire[i].mtu = 1280;
		cfg.wire[i].mtu_from_ns = 50 * MS;
	}
	arrives(&cfg, 300 * NS_PER_S);
}

static void forged_messages_do_not_narrow_a_path(void **state)
{
	struct world_config cfg = world_plain(1000000, 0);
	uint64_t best = arrives(&cfg, 60 * NS_PER_S);

	cfg.wire[CLIENT].forge_mtu = 1000000;
	assert_true(arrives(&cfg, 60 * NS_PER_S) <= best + MS);
}

static void forged_resets_that_miss_do_no_harm(void **state)
{
	struct world_config cfg = world_plain(1000000, 1000000);

	cfg.wire[0].forge_rst = cfg.wire[1].forge_rst = 200000;
	arrives(&cfg, 60 * NS_PER_S);
}

/* --- ECN --- */

static void marks_of_all_kinds_are_survived(void **state)
{
	for (unsigned i = 0; i < 4; i++) {
		struct world_config cfg = world_plain(300000, 300000);

		cfg.wire[0].mark = i & 1 ? 1000000 : 300000;
		cfg.wire[1].bleaches = i & 2;
		arrives(&cfg, 120 * NS_PER_S);
	}
}

/* --- closing --- */

/* Each end does something different after its last byte, over a path that loses and
 * reorders.  An end that has not closed gets everything that was sent. */
static void ends_close_in_every_way(void **state)
{
	for (unsigned how = 0; how < 64; how++) {
		struct world_config cfg =
		    world_plain(how & 1 ? 40000 : 0, how & 2 ? 40000 : 0);

		cfg.seed = how;
		cfg.wire[0].loss = how & 4 ? 50000 : 0;
		cfg.wire[1].reorder = how & 4 ? 100000 : 0;
		cfg.wire[1].reorder_ns = 15 * MS;
		cfg.plan[CLIENT][0].closes_early = how & 8;
		cfg.plan[SERVER][0].read_from_ns = how & 16 ? NS_PER_S : 0;
		cfg.plan[SERVER][0].abort_at_ns = how & 32 ? 200 * MS : 0;
		world_init(&w, &cfg);
		world_run(&w, 600 * NS_PER_S);
		const struct end *c = &w.ends[CLIENT][0];
		const struct end *s = &w.ends[SERVER][0];
		assert_true(s->is_done);
		assert_true(c->is_done);
		bool is_orderly = !(how & (8 | 32));
		if (is_orderly || (!(how & 32) && !cfg.plan[SERVER][0].n_bytes))
			assert_int_equal(s->n_got, cfg.plan[CLIENT][0].n_bytes);
		while (world_step(&w))
			;
		for (unsigned i = 0; i < 2; i++)
			assert_int_equal(w.stack[i]->pool_conns.n_free,
					 w.stack[i]->pool_conns.n);
		world_fini(&w);
	}
}

/* One program is gone and the peer never closes: FIN-WAIT-2 ends after a minute. */
static void nobody_waits_for_a_peer_for_ever(void **state)
{
	struct world_config cfg = world_plain(10, 0);

	cfg.plan[CLIENT][0].closes_early = true;
	cfg.plan[SERVER][0].read_from_ns = UINT64_MAX / 2;
	cfg.plan[SERVER][0].n_bytes = 1;
	cfg.plan[SERVER][0].write_max = 1;
	cfg.stack[SERVER].snd_buf = 4096;
	world_init(&w, &cfg);
	world_run_until(&w, 130 * NS_PER_S);
	assert_int_equal(w.stack[CLIENT]->pool_conns.n_free,
			 w.stack[CLIENT]->pool_conns.n);
	world_fini(&w);
}

/* --- hosts --- */

/* All memory is gone for 50 ms, from the k-th millisecond on. */
static void no_memory_at_any_moment_is_survived(void **state)
{
	for (unsigned ms = 0; ms < 400; ms += 3) {
		struct world_config cfg = world_plain(200000, 50000);

		cfg.seed = ms;
		cfg.steal_every_ns = 400 * MS + ms * MS;
		cfg.steal_ns = 50 * MS;
		cfg.has_cookies = true;
		cfg.heals_at_ns = 3 * NS_PER_S;
		arrives(&cfg, 120 * NS_PER_S);
	}
}

/* Frames wait in the port while their bytes are acknowledged, and their memory is used
 * again. */
static void a_late_frame_carries_the_bytes_it_was_made_of(void **state)
{
	struct world_config cfg = world_plain(3000000, 0);

	cfg.port_frames = 32;
	cfg.port_hold_ns = 40 * MS;
	cfg.wire[CLIENT].loss = 20000;
	cfg.stack[CLIENT].n_extents = 32;
	arrives(&cfg, 600 * NS_PER_S);
}

static void a_host_that_stands_still_goes_on(void **state)
{
	static const uint64_t stalls[] = { 1, 50, 200, 1000, 5000 };

	for (unsigned i = 0; i < ARRAY_LEN(stalls); i++) {
		struct world_config cfg = world_plain(500000, 500000);

		cfg.stall_ns = stalls[i] * MS;
		arrives(&cfg, 3000 * NS_PER_S);
	}
}

static void the_same_seed_is_the_same_world(void **state)
{
	struct world_config cfg = world_plain(300000, 300000);
	uint64_t traces[2];

	cfg.wire[0].loss = cfg.wire[1].loss = 50000;
	cfg.wire[0].jitter_ns = 5 * MS;
	for (int i = 0; i < 2; i++) {
		world_init(&w, &cfg);
		world_run(&w, 600 * NS_PER_S);
		traces[i] = w.trace;
		world_fini(&w);
	}
	assert_int_equal(traces[0], traces[1]);
}

/* --- timers --- */

/* The wires are cut while nothing is sent; RFC 9293 section 3.8.4. */
static void a_silent_peer_is_asked_and_given_up(void **state)
{
	for (unsigned is_dead = 0; is_dead < 2; is_dead++) {
		struct world_config cfg = world_plain(0, 0);

		/* The programs do nothing. */
		for (unsigned i = 0; i < 2; i++) {
			cfg.plan[i][0].n_bytes = 1 << 30;
			cfg.plan[i][0].write_max = 1;
			cfg.stack[i].snd_buf = 4096;
		}
		world_init(&w, &cfg);
		world_run_until(&w, 100 * MS);
		struct tcp_conn *c = w.ends[CLIENT][0].conn;
		w.cfg.plan[CLIENT][0].n_bytes = w.ends[CLIENT][0].n_sent;
		w.cfg.plan[SERVER][0].n_bytes = w.ends[SERVER][0].n_sent;
		w.ends[CLIENT][0].is_shut = w.ends[SERVER][0].is_shut = true;
		world_run_until(&w, 10 * NS_PER_S);
		tcp_set_keepalive(c, 60, 10, 5, w.now_ns);
		for (unsigned i = 0; is_dead && i < 2; i++)
			w.wire[i].model.loss = 1000000;
		world_run_until(&w, 100 * NS_PER_S);
		assert_false(w.ends[CLIENT][0].is_done);
		world_run_until(&w, 10000 * NS_PER_S);
		assert_int_equal(w.ends[CLIENT][0].is_done, is_dead);
		assert_int_equal(w.ends[CLIENT][0].err,
				 is_dead ? -ETIMEDOUT : 0);
		world_fini(&w);
	}
}

/* As in Linux, keepalive probes until the user time-out, however many probes that
 * takes. */
static void who_is_patient_asks_often(void **state)
{
	struct world_config cfg = world_plain(0, 0);

	world_init(&w, &cfg);
	w.ends[CLIENT][0].is_shut = w.ends[SERVER][0].is_shut = true;
	world_run_until(&w, NS_PER_S);
	struct tcp_conn *c = w.ends[CLIENT][0].conn;
	tcp_set_keepalive(c, 1, 1, 3, w.now_ns);
	tcp_set_user_timeout(c, 40000);
	for (unsigned i = 0; i < 2; i++)
		w.wire[i].model.loss = 1000000;
	world_run_until(&w, 39 * NS_PER_S);
	assert_true(c->n_probes > DATA_RETRIES);
	assert_false(w.ends[CLIENT][0].is_done);
	world_run_until(&w, 45 * NS_PER_S);
	assert_int_equal(w.ends[CLIENT][0].err, -ETIMEDOUT);
	world_fini(&w);
}

/* RFC 5482's meaning, TCP_USER_TIMEOUT: for text, for probes, and for an open. */
static void a_user_timeout_ends_what_does_not_go_on(void **state)
{
	for (unsigned how = 0; how < 3; how++) {
		struct world_config cfg = world_plain(1000000, 0);

		if (how == 1)
			cfg.plan[SERVER][0].read_from_ns = UINT64_MAX / 2;
		if (how == 2)
			cfg.wire[CLIENT].loss = 1000000;
		world_init(&w, &cfg);
		tcp_set_user_timeout(w.ends[CLIENT][0].conn, 5000);
		world_run_until(&w, 60 * MS);
		for (unsigned i = 0; how == 0 && i < 2; i++)
			w.wire[i].model.loss = 1000000;
		if (how == 1) {
			world_run_until(&w, 3 * NS_PER_S);
			w.wire[SERVER].model.loss = 1000000;
		}
		world_run_until(&w, 60 * NS_PER_S);
		assert_true(w.ends[CLIENT][0].is_done);
		assert_int_equal(w.ends[CLIENT][0].err, -ETIMEDOUT);
		assert_true(w.ends[CLIENT][0].done_ns < 30 * NS_PER_S);
		world_fini(&w);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_options_of_both_ends_open),
		cmocka_unit_test(a_handshake_survives_losses),
		cmocka_unit_test(a_simultaneous_open_works_at_any_skew),
		cmocka_unit_test(who_closes_while_both_open_is_heard),
		cmocka_unit_test(each_single_loss_of_a_flight_is_repaired),
		cmocka_unit_test(bursts_of_losses_are_repaired),
		cmocka_unit_test(packets_that_overtake_each_other_arrive),
		cmocka_unit_test(half_of_the_acks_suffice),
		cmocka_unit_test(acks_that_come_in_bunches_do_no_harm),
		cmocka_unit_test(what_comes_merged_or_split_is_the_same),
		cmocka_unit_test(a_reader_who_comes_late_gets_all),
		cmocka_unit_test(segments_of_all_sizes_work),
		cmocka_unit_test(windows_of_all_scales_work),
		cmocka_unit_test(numbers_wrap),
		cmocka_unit_test(a_path_that_becomes_narrow_is_noticed),
		cmocka_unit_test(a_narrow_path_that_says_nothing_is_found),
		cmocka_unit_test(forged_messages_do_not_narrow_a_path),
		cmocka_unit_test(forged_resets_that_miss_do_no_harm),
		cmocka_unit_test(marks_of_all_kinds_are_survived),
		cmocka_unit_test(ends_close_in_every_way),
		cmocka_unit_test(nobody_waits_for_a_peer_for_ever),
		cmocka_unit_test(no_memory_at_any_moment_is_survived),
		cmocka_unit_test(a_late_frame_carries_the_bytes_it_was_made_of),
		cmocka_unit_test(a_host_that_stands_still_goes_on),
		cmocka_unit_test(the_same_seed_is_the_same_world),
		cmocka_unit_test(a_silent_peer_is_asked_and_given_up),
		cmocka_unit_test(who_is_patient_asks_often),
		cmocka_unit_test(a_user_timeout_ends_what_does_not_go_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
