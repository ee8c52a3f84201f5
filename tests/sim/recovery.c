/* SPDX-License-Identifier: MIT */
/*
 * tests/sim/recovery.c - what is lost, late or held back, and what becomes of it
 *
 * Each test is one small world: which packets a wire loses is said by number, in the
 * order in which that wire is given them.
 */
#include "unit.h"
#include "world.h"

#define MS NS_PER_MS

/* One connection over 10 ms each way, which carries @n bytes to the server. */
static struct world_config upload(uint32_t n)
{
	return (struct world_config){
		.seed = 1,
		.stack = { world_stack(CLIENT, false),
			   world_stack(SERVER, false) },
		.wire = { { .delay_ns = 10 * MS }, { .delay_ns = 10 * MS } },
		.n_pairs = 1,
		.plan = { { { .n_bytes = n } }, { { 0 } } },
		.rx_extents = 256,
	};
}

/* Runs to the end, in which all bytes are there. */
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

/* One connection's bytes, which nobody reads, take all of the server's frames; the
 * other connection's SYN comes a second later. */
static void a_syn_is_answered_though_readers_hold_all_frames(void **state)
{
	struct world_config cfg = upload(200000);
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

static void what_nobody_disturbs_arrives(void **state)
{
	struct world_config cfg = upload(100000);
	static struct world w;

	run_well(&w, &cfg);
	world_fini(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_nobody_disturbs_arrives),
		cmocka_unit_test(
		    a_syn_is_answered_though_readers_hold_all_frames),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
