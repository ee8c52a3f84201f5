/* SPDX-License-Identifier: MIT */
/*
 * tests/sim/recovery.c - segments that are lost, late or delayed, and how the sender recovers
 *
 * Each test is a small world.  A number says which packets a wire loses: it counts the
 * packets that this wire was given.
 */
#include "unit.h"
#include "world.h"

#define MS NS_PER_MS

/* Runs the world to the end and checks that all bytes have arrived. */
static void run_well(struct world *w, const struct world_config *cfg)
{
	world_init(w, cfg);
	assert_true(world_run(w, 600 * NS_PER_S));
	for (int i = 0; i < 2; i++)
		for (uint32_t p = 0; p < cfg->n_pairs; p++) {
			assert_int_equal(w->ends[i][p].err, 0);
			assert_int_equal(w->ends[i][p].n_got,
					 cfg->plan[!i][p].n_bytes);
		}
}

/* Return: when both ends are done. */
static uint64_t time_of(struct world *w)
{
	while (!w->ends[CLIENT][0].is_done || !w->ends[SERVER][0].is_done)
		assert_true(world_step(w));
	return w->now_ns;
}

/* Nobody reads the first connection, so its bytes take all frames of the server.  The
 * SYN of a second connection arrives one second later. */
static void a_syn_is_answered_though_readers_hold_all_frames(void **state)
{
	struct world_config cfg = world_plain(200000, 0);
	static struct world w;

	cfg.rx_extents = 16;
	cfg.n_pairs = 2;
	cfg.plan[SERVER][0].read_from_ns = 20 * NS_PER_S;
	/* The second connection's first SYN. */
	cfg.wire[CLIENT].drop_mask = 1 << 1;
	world_init(&w, &cfg);
	world_run(&w, 5 * NS_PER_S);
	assert_true(w.ends[CLIENT][1].is_done);
	assert_int_equal(w.ends[CLIENT][1].err, 0);
	assert_false(w.ends[SERVER][0].n_got);
	assert_true(tcp_dropped(w.stack[SERVER], DROP_FRAME_POOL) > 0);
	assert_true(world_run(&w, 600 * NS_PER_S));
	assert_int_equal(w.ends[SERVER][0].n_got, 200000);
	world_fini(&w);
}

/* Both ends connect.  The server's SYN and its first SYN-ACKs are lost.  The server
 * answers each SYN of the client, so the connection is open after three seconds. */
static void in_a_simultaneous_open_each_syn_is_answered(void **state)
{
	struct world_config cfg = world_plain(1000, 0);
	static struct world w;

	cfg.is_simultaneous = true;
	cfg.wire[SERVER].drop_mask = 0xf;
	world_init(&w, &cfg);
	assert_true(world_run(&w, 2500 * MS));
	world_fini(&w);
}

static void what_nobody_disturbs_arrives(void **state)
{
	struct world_config cfg = world_plain(100000, 0);
	static struct world w;

	run_well(&w, &cfg);
	world_fini(&w);
}

/* --- the tail --- */

/* Ten segments leave at once.  The last three are lost, and no ACK shows it. */
static void a_lost_tail_is_probed_before_the_time_out(void **state)
{
	struct world_config cfg = world_plain(14480, 0);
	static struct world w;

	cfg.wire[CLIENT].drop_mask = 7 << 8;
	world_init(&w, &cfg);
	assert_true(world_run(&w, 180 * MS));
	world_fini(&w);
}

/* The receiver may delay its ACK, so the sender waits for it. */
static void a_single_segment_is_not_probed_before_its_ack_may_come(void **state)
{
	struct world_config cfg = world_plain(100, 0);
	static struct world w;

	cfg.wire[CLIENT].drop_mask = 1 << 1;
	world_init(&w, &cfg);
	world_run(&w, 220 * MS);
	assert_int_equal(w.ends[SERVER][0].n_got, 0);
	assert_true(world_run(&w, 300 * MS));
	world_fini(&w);
}

/* --- what is lost --- */

static uint64_t frames_of(const struct world_config *cfg, uint64_t *ns)
{
	static struct world w;

	world_init(&w, cfg);
	*ns = time_of(&w);
	uint64_t n = w.wire[CLIENT].n_sent;
	world_fini(&w);
	return n;
}

static void one_loss_costs_one_segment_and_no_time_out(void **state)
{
	struct world_config cfg = world_plain(100000, 0);
	uint64_t clean_ns, ns;

	uint64_t clean = frames_of(&cfg, &clean_ns);
	cfg.wire[CLIENT].drop_mask = 1 << 20;
	assert_int_equal(frames_of(&cfg, &ns), clean + 1);
	assert_true(ns < clean_ns + 100 * MS);
}

/* Packet 20 is lost, and so is its retransmission, packet 31.  A segment that was sent
 * after it shows that. */
static void a_lost_retransmission_is_found_without_a_time_out(void **state)
{
	struct world_config cfg = world_plain(200000, 0);
	static struct world w;

	for (unsigned i = 29; i < 34; i++) {
		cfg.wire[CLIENT].drop_mask = 1 << 20 | UINT64_C(1) << i;
		world_init(&w, &cfg);
		while (!w.ends[CLIENT][0].is_done) {
			const struct tcp_conn *c = w.ends[CLIENT][0].conn;

			assert_int_not_equal(c->ca_state, CA_LOSS);
			world_step(&w);
		}
		world_fini(&w);
	}
}

/* --- what only seemed to be lost --- */

static const struct tcp_conn *sender(const struct world *w)
{
	return w->ends[CLIENT][0].conn;
}

/* Packets to the server take longer for a while. */
static void delay_spike(struct world *w, uint32_t ms)
{
	bool is_slow = w->now_ns >= 300 * MS && w->now_ns < 320 * MS;

	w->wire[CLIENT].model.delay_ns = (is_slow ? ms : 10u) * MS;
}

/* Return: whether the sender's window equals the receiver's when the delayed bytes are
 * acknowledged, and slow start is not over. */
static bool spike_is_forgotten(uint32_t offers)
{
	struct world_config cfg = world_plain(20000000, 0);
	static struct world w;
	uint32_t low = UINT32_MAX;
	bool is_forgotten;

	cfg.stack[CLIENT].offers = offers;
	cfg.stack[SERVER].rcv_buf = 1 << 17;
	cfg.wire[CLIENT].rate_bps = 50000000;
	world_init(&w, &cfg);
	w.before_send = delay_spike;
	w.mask = 400;
	while (w.now_ns < 900 * MS) {
		world_step(&w);
		if (w.now_ns > 300 * MS)
			low = MIN(low, sender(&w)->cwnd);
	}
	is_forgotten =
	    sender(&w)->ssthresh == SSTHRESH_MAX && sender(&w)->cwnd >= 1 << 17;
	/* So there was a time-out. */
	assert_int_equal(low, sender(&w)->mss);
	assert_true(world_run(&w, 600 * NS_PER_S));
	assert_int_equal(w.ends[SERVER][0].n_got, 20000000);
	world_fini(&w);
	return is_forgotten;
}

static void a_time_out_in_a_spike_is_undone_by_timestamps(void **state)
{
	assert_true(spike_is_forgotten(TCP_OFFER_TS | TCP_OFFER_WSCALE));
}

static void a_time_out_in_a_spike_is_undone_by_f_rto(void **state)
{
	assert_true(spike_is_forgotten(TCP_OFFER_SACK | TCP_OFFER_WSCALE));
	assert_true(spike_is_forgotten(TCP_OFFER_WSCALE));
}

/* Packets 40 and 41 arrive 15 ms late. */
static void two_late(struct world *w, uint32_t mask)
{
	bool is_late = w->wire[CLIENT].n_sent / 2 == 20;

	w->wire[CLIENT].model.reorder = is_late ? 1000000 : 0;
	w->wire[CLIENT].model.reorder_ns = 15 * MS;
}

static uint32_t window_after_reordering(uint32_t offers)
{
	struct world_config cfg = world_plain(20000000, 0);
	static struct world w;
	uint32_t n_falls = 0, ssthresh;

	cfg.stack[CLIENT].offers = offers;
	world_init(&w, &cfg);
	w.before_send = two_late;
	while (w.now_ns < 400 * MS) {
		world_step(&w);
		n_falls += sender(&w) && sender(&w)->ca_state == CA_RECOVERY;
	}
	assert_true(n_falls);
	assert_true(sender(&w)->flags & CONN_REORDERS);
	ssthresh = sender(&w)->ssthresh;
	world_fini(&w);
	return ssthresh;
}

/* Nothing was lost, so slow start goes on. */
static void a_recovery_is_undone_by_timestamps(void **state)
{
	assert_true(window_after_reordering(TCP_OFFER_ALL) >= 1u << 30);
}

static void a_recovery_is_undone_by_duplicates(void **state)
{
	assert_true(window_after_reordering(TCP_OFFER_SACK |
					    TCP_OFFER_WSCALE) >= 1u << 30);
}

/* --- ECN --- */

/* Return: whether the client has agreed on ECN when the connection is open. */
static bool agrees_on_ecn(enum tcp_ecn mine, enum tcp_ecn peers,
			  uint64_t drop_mask)
{
	struct world_config cfg = world_plain(100000, 0);
	static struct world w;

	cfg.stack[CLIENT].ecn = (uint8_t)mine;
	cfg.stack[SERVER].ecn = (uint8_t)peers;
	cfg.wire[CLIENT].drop_mask = drop_mask;
	world_init(&w, &cfg);
	while (sender(&w)->state < TCP_ESTABLISHED)
		world_step(&w);
	bool is_agreed = sender(&w)->flags & CONN_ECN;
	assert_true(world_run(&w, 600 * NS_PER_S));
	assert_int_equal(w.ends[SERVER][0].n_got, 100000);
	world_fini(&w);
	return is_agreed;
}

static void ecn_is_agreed_if_one_asks_and_the_other_will(void **state)
{
	assert_true(agrees_on_ecn(TCP_ECN_ASK, TCP_ECN_ACCEPT, 0));
	assert_true(agrees_on_ecn(TCP_ECN_ASK, TCP_ECN_ASK, 0));
	assert_false(agrees_on_ecn(TCP_ECN_ACCEPT, TCP_ECN_ASK, 0));
	assert_false(agrees_on_ecn(TCP_ECN_ASK, TCP_ECN_OFF, 0));
	/* A middlebox may have dropped the lost SYN because of ECN. */
	assert_false(agrees_on_ecn(TCP_ECN_ASK, TCP_ECN_ACCEPT, 1));
}

/* The wire loses marked packets. */
static void lose_what_is_marked(struct world *w, uint32_t mask)
{
	const struct tcp_conn *c = sender(w);
	bool is_lost = false;

	if (c && c->flags & CONN_ECN && !(c->flags & CONN_ECT_OFF) &&
	    !list_is_empty(&c->flight)) {
		const struct range *r =
		    container_of(c->flight.prev, struct range, link);

		is_lost = !(r->flags & RANGE_RETX);
	}
	w->wire[CLIENT].model.loss = is_lost ? 1000000 : 0;
}

static void a_path_that_drops_what_is_marked_is_found_out(void **state)
{
	struct world_config cfg = world_plain(300000, 0);
	static struct world w;

	cfg.stack[CLIENT].ecn = TCP_ECN_ASK;
	world_init(&w, &cfg);
	w.before_send = lose_what_is_marked;
	assert_true(time_of(&w) < 10 * NS_PER_S);
	assert_int_equal(w.ends[SERVER][0].n_got, 300000);
	world_fini(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_nobody_disturbs_arrives),
		cmocka_unit_test(
		    a_syn_is_answered_though_readers_hold_all_frames),
		cmocka_unit_test(in_a_simultaneous_open_each_syn_is_answered),
		cmocka_unit_test(a_lost_tail_is_probed_before_the_time_out),
		cmocka_unit_test(
		    a_single_segment_is_not_probed_before_its_ack_may_come),
		cmocka_unit_test(one_loss_costs_one_segment_and_no_time_out),
		cmocka_unit_test(
		    a_lost_retransmission_is_found_without_a_time_out),
		cmocka_unit_test(a_time_out_in_a_spike_is_undone_by_timestamps),
		cmocka_unit_test(a_time_out_in_a_spike_is_undone_by_f_rto),
		cmocka_unit_test(a_recovery_is_undone_by_timestamps),
		cmocka_unit_test(a_recovery_is_undone_by_duplicates),
		cmocka_unit_test(ecn_is_agreed_if_one_asks_and_the_other_will),
		cmocka_unit_test(a_path_that_drops_what_is_marked_is_found_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
