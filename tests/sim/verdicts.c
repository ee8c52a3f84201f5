/* SPDX-License-Identifier: MIT */
/*
 * tests/sim/verdicts.c - what the swarm's judge excuses, and what it does not
 *
 * For an excuse there is a world that needs it, and a similar one that must not get it.
 */
#include "unit.h"
#include "swarm.h"

#define MS NS_PER_MS
#define BIT(name) (1ull << FAULT_##name)

static struct world w;

static struct swarm_verdict judge(uint64_t faults)
{
	struct swarm_verdict v;

	swarm_judge(&w, faults, false, &v);
	return v;
}

/* Before its host loses its power, all packets of the client except the SYN are 150 ms
 * late. */
static void delay(struct world *world, int from, const uint8_t *p, uint32_t len)
{
	struct wire *wire = &world->wire[CLIENT];

	if (from != CLIENT)
		return;
	bool is_late = wire->n_sent && world->cfg.reboot_at_ns;
	wire->model.reorder = is_late ? 1000000 : 0;
	wire->model.reorder_ns = 150 * MS;
}

/* The client begins again just before its first ACK arrives.  If the server has no
 * memory, it answers both SYNs with cookies. */
static void begin_anew(bool has_memory)
{
	struct world_config cfg = world_plain(3000, 3000);

	cfg.heals_at_ns = NS_PER_S;
	cfg.reboot_at_ns = 165 * MS;
	cfg.reboot_host = CLIENT;
	cfg.has_cookies = true;
	if (!has_memory) {
		cfg.steal_every_ns = 10 * NS_PER_S;
		cfg.steal_ns = 178 * MS;
	}
	world_init(&w, &cfg);
	w.on_sent = delay;
}

/* The ACK of the first cookie opens a connection, although a second SYN has arrived.
 * Both ends are open with unrelated numbers, and no segment resets either of them. */
static void who_has_two_cookies_may_time_out(void **state)
{
	uint64_t on = BIT(reboot) | BIT(steal);

	begin_anew(false);
	world_run(&w, 500 * NS_PER_S);
	const struct end *mine = &w.ends[CLIENT][0], *peer = &w.ends[SERVER][0];
	assert_int_equal(tcp_dropped(w.stack[SERVER], DROP_SYN_COOKIE), 2);
	assert_true(mine->was_open && !mine->is_done);
	assert_true(peer->conn && !peer->is_done);
	assert_false(seq_eq(mine->iss, peer->conn->irs));
	struct swarm_verdict v = judge(on);
	assert_true(v.is_good);
	assert_int_equal(v.n_excused[EXCUSE_two_cookies], 2);
	world_run(&w, 2000 * NS_PER_S);
	assert_int_equal(mine->err, -ETIMEDOUT);
	assert_true(peer->is_done && peer->done_ns > mine->done_ns);
	assert_true(judge(on).is_good);
	assert_null(world_leftover(&w));
	world_fini(&w);
}

/* With memory there is a struct tcp_reqsk, which a second SYN does not replace. */
static void who_has_one_must_not(void **state)
{
	static struct tcp_conn still = { .state = TCP_ESTABLISHED };
	uint64_t on = BIT(reboot);

	begin_anew(true);
	world_run(&w, 500 * NS_PER_S);
	struct end *mine = &w.ends[CLIENT][0];
	assert_int_equal(tcp_dropped(w.stack[SERVER], DROP_SYN_COOKIE), 0);
	assert_true(mine->is_done && !mine->err);
	assert_true(judge(on).is_good);
	mine->err = -ETIMEDOUT;
	assert_false(judge(on).is_good);
	mine->err = 0;
	mine->is_done = false;
	mine->conn = &still;
	assert_false(judge(on).is_good);
	world_fini(&w);
}

/* The client's answer resets the server's old connection, and nothing that the client
 * sends after that arrives. */
static void cut_off(struct world *world, int from, const uint8_t *p,
		    uint32_t len)
{
	world->wire[CLIENT].model.loss = world->now_ns > 85 * MS ? 1000000 : 0;
}

/* The client's FIN arrives before its host loses its power.  The server's program
 * accepts the connection later, and its first write reports a reset behind the FIN: a
 * broken pipe. */
static void who_was_reset_behind_the_end_has_a_broken_pipe(void **state)
{
	struct world_config cfg = world_plain(1, 1);

	cfg.reboot_at_ns = 60 * MS;
	cfg.reboot_host = CLIENT;
	cfg.accept_every_ns = NS_PER_S;
	cfg.plan[CLIENT][0].user_timeout_ms = 2000;
	world_init(&w, &cfg);
	w.accept_at_ns = NS_PER_S;
	w.on_sent = cut_off;
	world_run(&w, 10 * NS_PER_S);
	const struct end *mine = &w.ends[SERVER][0];
	struct end *peer = &w.ends[CLIENT][0];
	assert_int_equal(mine->err, -EPIPE);
	assert_int_equal(peer->err, -ETIMEDOUT);
	struct swarm_verdict v = judge(BIT(reboot));
	assert_true(v.is_good);
	assert_int_equal(v.n_excused[EXCUSE_rebooted], 1);
	assert_int_equal(v.n_excused[EXCUSE_patience], 1);
	peer->was_shut = false;
	assert_false(judge(BIT(reboot)).is_good);
	world_fini(&w);
}

/* The client's program has closed.  Everything that it sent after its SYN is lost,
 * until its user time-out ends. */
static void who_was_given_up_before_it_was_open_is_not_there(void **state)
{
	struct world_config cfg = world_plain(1, 1);

	cfg.wire[CLIENT].drop_mask = ~1ull;
	cfg.heals_at_ns = 2 * NS_PER_S;
	cfg.plan[CLIENT][0].closes_early = true;
	cfg.plan[CLIENT][0].user_timeout_ms = 700;
	world_init(&w, &cfg);
	world_run(&w, 100 * NS_PER_S);
	assert_false(w.ends[SERVER][0].conn || w.ends[SERVER][0].is_done);
	assert_true(w.ends[CLIENT][0].is_done && !w.ends[CLIENT][0].err);
	assert_true(judge(BIT(mask)).is_good);
	w.cfg.plan[CLIENT][0].user_timeout_ms = 0;
	assert_false(judge(BIT(mask)).is_good);
	world_fini(&w);
}

/* The peer has closed and then aborted.  A read returns the end, and no event follows. */
static void who_accepts_what_is_over_comes_to_an_end(void **state)
{
	struct world_config cfg = world_plain(0, 0);

	cfg.accept_every_ns = NS_PER_S;
	cfg.plan[CLIENT][0].abort_at_ns = 35 * MS;
	world_init(&w, &cfg);
	w.accept_at_ns = NS_PER_S;
	assert_true(world_run(&w, 10 * NS_PER_S));
	assert_true(w.ends[SERVER][0].got_eof);
	assert_true(judge(BIT(abort)).is_good);
	world_fini(&w);
}

/* In the last round, all packets of the client except the SYN are 1.5 s late.  The
 * SYN-ACK that the server sends again is lost, and a router reports it. */
static void lose_again(struct world *world, int from, const uint8_t *p,
		       uint32_t len)
{
	static unsigned n_sent[2];
	struct wire_model *m = &world->wire[from].model;

	if (world->ends[CLIENT][0].round < world->cfg.n_again) {
		n_sent[CLIENT] = n_sent[SERVER] = 0;
		return;
	}
	n_sent[from]++;
	if (from == CLIENT) {
		m->reorder = n_sent[from] > 1 ? 1000000 : 0;
		m->reorder_ns = 1500 * MS;
		return;
	}
	m->hole_every_ns = m->hole_ns = n_sent[from] == 2;
	m->tells_lost = 1000000;
}

/* The router's error ends the server's half of a connection that the client has opened,
 * as in Linux (tests/script/icmp/syn_rcvd.pkt).  The same holds for a second
 * connection, when the server's program is done with the first. */
static void who_was_open_at_one_end_alone_is_reset(void **state)
{
	for (uint32_t n_again = 0; n_again < 2; n_again++) {
		struct world_config cfg = world_plain(0, 0);

		cfg.n_again = n_again;
		world_init(&w, &cfg);
		w.on_sent = lose_again;
		world_run(&w, 200 * NS_PER_S);
		const struct end *mine = &w.ends[CLIENT][0];
		struct end *peer = &w.ends[SERVER][0];
		assert_int_equal(mine->round, n_again);
		assert_true(mine->was_open);
		assert_int_equal(mine->err, -ECONNRESET);
		assert_int_equal(peer->round, 0);
		assert_int_equal(peer->is_done, n_again);
		assert_true(judge(BIT(unreach)).is_good);
		assert_null(world_leftover(&w));
		assert_false(judge(0).is_good);
		/* If the program had accepted the connection, no router's error would
		 * have ended it. */
		peer->round = mine->round;
		peer->is_done = true;
		assert_false(judge(BIT(unreach)).is_good);
		world_fini(&w);
	}
}

/* The first packet arrives a second time, much later. */
static void replay_first(struct world *world, int from, const uint8_t *p,
			 uint32_t len)
{
	struct wire *wire = &world->wire[CLIENT];

	if (from != CLIENT || wire->n_sent)
		return;
	wire->model.reorder = 1000000;
	wire->model.reorder_ns = 800 * MS;
	wire_send(wire, p, len, true, world->now_ns);
	wire->model.reorder = 0;
}

/* The client does not read, so the server is not done when its host loses its power.
 * An old SYN then makes a half-open connection there, and keepalive ends the client's
 * connection. */
static void who_asks_half_a_connection_hears_nothing(void **state)
{
	const uint64_t on = BIT(reboot) | BIT(replay);
	struct world_config cfg = world_plain(200000, 1 << 20);

	cfg.reboot_at_ns = 700 * MS;
	cfg.reboot_host = SERVER;
	cfg.plan[CLIENT][0].read_from_ns = 100 * NS_PER_S;
	cfg.plan[CLIENT][0].keep_idle_s = 1;
	cfg.plan[CLIENT][0].keep_interval_s = 1;
	cfg.plan[CLIENT][0].keep_probes = 2;
	world_init(&w, &cfg);
	w.on_sent = replay_first;
	world_run(&w, 10 * NS_PER_S);
	struct end *mine = &w.ends[CLIENT][0];
	assert_int_equal(mine->err, -ETIMEDOUT);
	struct swarm_verdict v = judge(on);
	assert_true(v.is_good);
	assert_int_equal(v.n_excused[EXCUSE_half_forgotten], 1);
	assert_false(judge(BIT(reboot)).is_good);
	assert_false(judge(BIT(replay)).is_good);
	w.cfg.plan[CLIENT][0].keep_idle_s = 0;
	assert_false(judge(on).is_good);
	world_fini(&w);
}

/* There is one end with some bytes, and no reason for more than two long time-outs. */
static void a_deadline_is_three_times_the_ideal_and_two_time_outs(void **state)
{
	struct world_config cfg = world_plain(1000, 0);
	const uint64_t idle = swarm_deadline(&cfg);

	assert_in_range(idle, 2 * RTO_MAX_NS, 2 * RTO_MAX_NS + 60 * NS_PER_S);
	cfg.jump_ns = NS_PER_S;
	assert_int_equal(swarm_deadline(&cfg), idle);
	/* Nothing loses whole flights, so timestamps do not matter. */
	cfg.stack[CLIENT].offers = 0;
	assert_int_equal(swarm_deadline(&cfg), idle);
	cfg.rx_extents = 16;
	cfg.plan[CLIENT][0].n_bytes = 80000;
	assert_true(swarm_deadline(&cfg) >= idle + 10 * RTO_MAX_NS);
}

/* Two clients are on two hosts; the deadline waits for the one with small buffers. */
static void each_host_has_the_time_that_its_buffers_need(void **state)
{
	struct world_config cfg = world_plain(0, 0);

	cfg.n_stacks = 3;
	cfg.stack[2] = cfg.stack[CLIENT];
	cfg.wire[2] = cfg.wire[CLIENT];
	cfg.n_pairs = 2;
	cfg.plan[CLIENT][1].n_bytes = 40000000;
	uint64_t ns = swarm_deadline(&cfg);
	cfg.stack[CLIENT].snd_buf = 2000;
	assert_int_equal(swarm_deadline(&cfg), ns);
	cfg.stack[2].snd_buf = 2000;
	assert_true(swarm_deadline(&cfg) > 10 * ns);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_has_two_cookies_may_time_out),
		cmocka_unit_test(who_has_one_must_not),
		cmocka_unit_test(
		    who_was_given_up_before_it_was_open_is_not_there),
		cmocka_unit_test(who_accepts_what_is_over_comes_to_an_end),
		cmocka_unit_test(who_was_open_at_one_end_alone_is_reset),
		cmocka_unit_test(who_asks_half_a_connection_hears_nothing),
		cmocka_unit_test(
		    a_deadline_is_three_times_the_ideal_and_two_time_outs),
		cmocka_unit_test(each_host_has_the_time_that_its_buffers_need),
		cmocka_unit_test(
		    who_was_reset_behind_the_end_has_a_broken_pipe),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
