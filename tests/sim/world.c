/* SPDX-License-Identifier: MIT */
/* tests/sim/world.c - makes and ends stacks and their memory, and moves time; see
 * world.h */
#include "world.h"

#include <stdio.h>
#include <stdlib.h>

#include "proto/tcp/drive.h"

#define RX_CAP_GSO 66000
#define RX_CAP 9100 /* merged segments */
#define SECOND_KEY 0x5ec0

uint64_t world_random(struct world *w)
{
	uint64_t z = w->seed += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

static struct ip_addr addr_of(unsigned host, bool is_v6)
{
	struct ip_addr a = { { 0x20, 1, 0x0d,
			       0xb8, [15] = (uint8_t)(1 + host) } };

	return is_v6 ? a : ip_addr_v4(0x0a000001u + host);
}

struct tcp_config world_stack(enum side side, bool is_v6)
{
	return (struct tcp_config){
		.key = { { 0x1234 + side, 0x5678 } },
		.addrs = { addr_of(side, is_v6) },
		.n_addrs = 1,
		.mtu = 1500,
		.offers = TCP_OFFER_ALL,
		.snd_buf = 1 << 18,
		.rcv_buf = 1 << 18,
		.cc = &tcp_newreno,
		.n_conns = WORLD_PAIRS + 16,
		.n_orphans = WORLD_PAIRS + 16,
		.n_reqsks = WORLD_PAIRS + 16,
		.n_ranges = 8192,
		.n_extents = 1024,
		.extent_bytes = 4000,
	};
}

struct world_config world_plain(uint32_t up, uint32_t down)
{
	const uint64_t delay_ns = 10 * NS_PER_MS;

	return (struct world_config){
		.seed = 1,
		.n_stacks = 2,
		.stack = { world_stack(CLIENT, false),
			   world_stack(SERVER, false) },
		.wire = { { .delay_ns = delay_ns }, { .delay_ns = delay_ns } },
		.n_pairs = 1,
		.plan = { { { .n_bytes = up } }, { { .n_bytes = down } } },
		.rx_extents = 256,
	};
}

int world_host(const struct world_config *c, enum side side, uint32_t pair)
{
	uint32_t i = pair % (c->n_stacks ? c->n_stacks - 1 : 1);

	return side == SERVER ? SERVER : i ? (int)i + 1 : CLIENT;
}

/* A clock that slips back shows an instant before the last one. */
uint64_t world_clock(struct world *w)
{
	uint64_t slip =
	    w->cfg.slip_ns && world_random(w) % 8 == 0 ? w->cfg.slip_ns : 0;

	return w->now_ns > slip ? w->now_ns - slip : w->now_ns;
}

/* --- life --- */

/* The port's frames have the size of the largest packet: the window pays for whole
 * frames. */
static uint32_t rx_cap(const struct world_config *cfg)
{
	uint32_t most = 0;

	for (uint32_t i = 0; i < cfg->n_stacks; i++) {
		uint32_t mtu = cfg->stack[i].mtu;

		mtu = cfg->wire[i].merge ? RX_CAP : mtu;
		most = mtu > most ? mtu : most;
	}
	return cfg->carries_gso ? RX_CAP_GSO : most;
}

static void stack_init(struct world *w, uint32_t i)
{
	struct tcp_config c = w->cfg.stack[world_host_of(w, i)];
	uint32_t size = extent_size(rx_cap(&w->cfg));
	uint32_t n_rx = w->cfg.rx_extents + SIM_PORT_RESERVE;

	w->stack_mem[i] = aligned_alloc(64, tcp_stack_bytes(&c));
	w->rx_mem[i] = aligned_alloc(64, (size_t)size * n_rx);
	assert(w->stack_mem[i]);
	assert(w->rx_mem[i]);
	if (w->cfg.move_every_ns)
		c.ports_kept = w->ports_kept[world_host_of(w, i)];
	c.key.k[1] ^= i < w->cfg.n_stacks ? 0 : SECOND_KEY;
	w->stack[i] = tcp_stack_init(w->stack_mem[i], &c, w->now_ns);
	pool_init(&w->rx_pool[i], w->rx_mem[i], size, n_rx);
	if (i < w->cfg.n_stacks)
		wire_init(&w->wire[i], &w->cfg.wire[i], w->cfg.seed * 2 + i);
}

static void connect_pair(struct world *w, uint32_t pair)
{
	uint16_t port = (uint16_t)(WORLD_ACTIVE_PORT + pair);
	bool is_both = w->cfg.is_simultaneous;
	int err =
	    world_connect(w, &w->ends[CLIENT][pair], w->cfg.n_again ? 0 : port,
			  is_both ? port : WORLD_PORT);

	if (!err && is_both)
		err = world_connect(w, &w->ends[SERVER][pair], port, port);
	assert(!err);
}

void world_init(struct world *w, const struct world_config *cfg)
{
	*w =
	    (struct world){ .cfg = *cfg, .seed = cfg->seed, .now_ns = 1000000 };
	assert(cfg->n_pairs <= WORLD_PAIRS);
	if (!w->cfg.n_stacks)
		w->cfg.n_stacks = 2;
	w->n_stacks = w->cfg.n_stacks * (cfg->move_every_ns ? 2 : 1);
	for (uint32_t i = 0; i < w->n_stacks; i++)
		stack_init(w, i);
	for (unsigned side = 0; side < 2; side++)
		for (uint32_t p = 0; p < cfg->n_pairs; p++)
			w->ends[side][p] =
			    (struct end){ .side = (enum side)side, .pair = p };
	world_ports_init(w);
	w->is_loud = getenv("SIM_TRACE");
	if (w->is_loud)
		setvbuf(stdout, NULL, _IOLBF, 0);
	world_listen(w);
	for (uint32_t p = 0; p < cfg->n_pairs; p++)
		connect_pair(w, p);
}

void world_fini(struct world *w)
{
	world_steal_end(w);
	world_release(w, UINT64_MAX);
	world_ports_fini(w);
	for (uint32_t i = 0; i < w->n_stacks; i++)
		tcp_stack_fini(w->stack[i]);
	world_lent_fini(w);
	assert(!w->n_images);
	for (uint32_t i = 0; i < w->n_stacks; i++) {
		assert(w->stack[i]->pool_extents.n_free ==
		       w->stack[i]->pool_extents.n);
		assert(w->rx_pool[i].n_free == w->rx_pool[i].n);
		if (i < w->cfg.n_stacks)
			wire_fini(&w->wire[i]);
		free(w->stack_mem[i]);
		free(w->rx_mem[i]);
	}
	world_pools_fini(w);
}

/* --- time --- */

static uint64_t next_ns(const struct world *w)
{
	uint64_t at = MIN(world_programs_next(w), world_steal_next(w));

	for (uint32_t i = 0; i < w->cfg.n_stacks; i++)
		at = MIN(at, wire_next_ns(&w->wire[i]));
	for (uint32_t i = 0; i < w->n_stacks; i++) {
		uint64_t next = drive_next_ns(w->stack[i], &w->port[i].port);

		at = MIN(at, next);
	}
	return at;
}

static void heal(struct world *w)
{
	struct world_config *c = &w->cfg;

	for (uint32_t i = 0; i < c->n_stacks; i++)
		wire_heal(&w->wire[i]);
	c->stall_ns = c->jump_ns = c->slip_ns = c->port_hold_ns = 0;
	c->heals_at_ns = 0;
	w->healed_ns = w->now_ns;
	world_steal_end(w);
	c->steal_every_ns = 0;
	c->unlisten_every_ns = 0;
}

/* Moves time ahead: polls come late, and clocks jump. */
static void time_passes(struct world *w, uint64_t at)
{
	const struct world_config *c = &w->cfg;

	/* What the calls before the first step have made pending leaves at once. */
	if (w->n_steps && at > w->now_ns)
		w->now_ns = at;
	if (c->stall_ns && world_random(w) % 64 == 0)
		w->now_ns += world_random(w) % c->stall_ns;
	if (c->jump_ns && world_random(w) % 2048 == 0)
		w->now_ns += world_random(w) % c->jump_ns;
	if (c->heals_at_ns && w->now_ns >= c->heals_at_ns)
		heal(w);
	world_steal(w);
}

static void step(struct world *w, uint64_t at)
{
	time_passes(w, at);
	world_reboot(w);
	world_frames_in(w);
	world_programs(w);
	world_frames_out(w);
	world_lent_back(w);
	world_pools(w);
	world_check(w);
	w->n_steps++;
}

bool world_step(struct world *w)
{
	uint64_t at = next_ns(w);

	if (at == UINT64_MAX && w->n_steps)
		return false;
	step(w, at);
	return true;
}

static bool all_done(const struct world *w)
{
	for (int i = 0; i < 2; i++)
		for (uint32_t p = 0; p < w->cfg.n_pairs; p++)
			if (!w->ends[i][p].is_done)
				return false;
	return true;
}

bool world_run(struct world *w, uint64_t until_ns)
{
	while (w->now_ns < until_ns && world_step(w))
		;
	return all_done(w);
}

void world_run_until(struct world *w, uint64_t until_ns)
{
	while (w->now_ns < until_ns) {
		uint64_t at = next_ns(w);

		step(w, MIN(at, until_ns));
	}
}
