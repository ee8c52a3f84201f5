/* SPDX-License-Identifier: MIT */
/*
 * tests/sim/sim.c - many worlds, each made of its seed
 *
 *     sim SEED [N]     runs N seeds (1) from SEED on
 *
 * A seed chooses the stacks, the wires' faults, what the programs do, and which of
 * all that is left out: a fault that is always there hides others.  The wires heal
 * after a while; then everything must come to an end.  What breaks prints its seed
 * first.
 */
#include <stdio.h>
#include <stdlib.h>

#include "world.h"

static uint64_t rng;

static uint64_t random_next(void)
{
	uint64_t z = rng += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

static uint32_t below(uint32_t n) { return (uint32_t)(random_next() % n); }
static bool one_in(uint32_t n) { return !below(n); }

#define PICK(...)                                                              \
	({                                                                     \
		const uint64_t of[] = { __VA_ARGS__ };                         \
		of[below(ARRAY_LEN(of))];                                      \
	})

static struct wire_model make_wire(void)
{
	struct wire_model m = {
		.rate_bps = PICK(0, 0, 1000000, 10000000, 1000000000),
		.delay_ns =
		    PICK(0, 25000, 500000, 10000000, 50000000, 150000000),
		.loss = (uint32_t)PICK(0, 0, 1000, 10000, 50000, 200000),
	};

	if (one_in(3))
		m.jitter_ns = 1 + m.delay_ns / 2;
	if (m.rate_bps && one_in(2))
		m.queue_bytes = 20000 + below(100000);
	if (one_in(3))
		m.duplicate = (uint32_t)PICK(1000, 50000);
	if (one_in(3)) {
		m.reorder = (uint32_t)PICK(1000, 50000, 300000);
		m.reorder_ns = PICK(1000, 1000000, 100000000);
	}
	if (one_in(3))
		m.corrupt = (uint32_t)PICK(1000, 50000);
	return m;
}

static struct tcp_config make_stack(enum side side, bool is_v6)
{
	struct tcp_config c = world_stack(side, is_v6);

	c.key.k[0] = random_next();
	c.key.k[1] = random_next();
	c.mtu = (uint32_t)PICK(576, 1280, 1500, 1500, 9000);
	c.gso_max = (uint32_t)PICK(0, 0, 20000, 65000);
	c.offers = one_in(3) ? below(TCP_OFFER_ALL + 1) : TCP_OFFER_ALL;
	c.snd_buf = (uint32_t)PICK(2000, 16384, 65536, 1 << 18, 1 << 20);
	c.rcv_buf = (uint32_t)PICK(2048, 16384, 65535, 1 << 18, 1 << 20);
	c.cc = one_in(2) ? &tcp_newreno : &tcp_cubic;
	if (one_in(8))
		c.n_nodes = 128;
	if (one_in(8))
		c.n_extents = 8;
	return c;
}

static struct end_plan make_plan(void)
{
	struct end_plan p = {
		.n_bytes = (uint32_t)PICK(0, 1, 100, 5000, 60000, 300000),
		.write_max = (uint32_t)PICK(0, 0, 1460, 100, 4000),
		.has_nodelay = one_in(3),
	};

	p.n_bytes = p.n_bytes ? 1 + below(p.n_bytes) : 0;
	if (p.write_max == 100)
		p.n_bytes = MIN(p.n_bytes, 20000u);
	if (one_in(4)) {
		p.read_max = 1 + below(8000);
		p.read_every_ns = 1 + below(50000000);
	}
	if (one_in(8))
		p.read_from_ns = random_next() % (20 * NS_PER_S);
	if (one_in(10))
		p.abort_at_ns = 1 + random_next() % (5 * NS_PER_S);
	p.closes_early = one_in(12);
	return p;
}

static struct world_config make_world(uint64_t seed)
{
	struct world_config cfg = { .seed = seed };
	bool is_v6;

	rng = seed;
	is_v6 = one_in(3);
	cfg.n_pairs = 1 + below(one_in(2) ? 1 : WORLD_PAIRS);
	for (int i = 0; i < 2; i++) {
		cfg.stack[i] = make_stack((enum side)i, is_v6);
		cfg.wire[i] = make_wire();
		for (uint32_t p = 0; p < cfg.n_pairs; p++)
			cfg.plan[i][p] = make_plan();
	}
	cfg.heals_at_ns = (1 + below(20)) * NS_PER_S;
	cfg.stall_ns = one_in(4) ? PICK(1000000, 100000000, 500000000) : 0;
	cfg.rx_extents = (uint32_t)PICK(64, 256);
	cfg.carries_gso = one_in(3);
	cfg.is_simultaneous = one_in(8);
	if (one_in(16)) {
		cfg.is_mutated = true;
		cfg.wire[0].mutate = cfg.wire[1].mutate = 20000;
	}
	return cfg;
}

/* Seven SYNs, and all answers to them, are lost now and then where one round trip of
 * four fails at least. */
static bool open_failed(const struct world *w, uint32_t pair)
{
	const struct end *c = &w->ends[CLIENT][pair];
	const struct end *s = &w->ends[SERVER][pair];
	const struct wire_model *m = w->cfg.wire;

	return m[0].loss + m[0].corrupt + m[1].loss + m[1].corrupt >= 250000 &&
	       c->is_done && !c->was_open && c->err == -ETIMEDOUT && !s->conn &&
	       !s->was_open;
}

/* Whether what happened to an end was to be expected of its plan and its peer's. */
static bool is_good(const struct world *w, int side, uint32_t pair)
{
	const struct end *e = &w->ends[side][pair];
	const struct end_plan *mine = &w->cfg.plan[side][pair];
	const struct end_plan *peers = &w->cfg.plan[!side][pair];
	bool may_break = mine->abort_at_ns || peers->abort_at_ns ||
			 mine->closes_early || peers->closes_early;

	if (w->cfg.is_mutated || open_failed(w, pair))
		return true;
	/* A reset may be lost, and who only waits for bytes never learns of it. */
	if (may_break)
		return e->is_done || !e->conn || e->is_shut;
	return e->is_done && !e->err && e->got_eof &&
	       e->n_got == peers->n_bytes;
}

static uint64_t run(uint64_t seed, bool is_loud, uint64_t *frames)
{
	static struct world w;
	struct world_config cfg = make_world(seed);

	world_init(&w, &cfg);
	world_run(&w, cfg.heals_at_ns + 7200 * NS_PER_S);
	for (int i = 0; i < 2; i++)
		for (uint32_t p = 0; p < cfg.n_pairs; p++) {
			const struct end *e = &w.ends[i][p];

			if (is_good(&w, i, p))
				continue;
			printf("seed %llu: side %d pair %u: done %d, error "
			       "%d, end %d, sent %u of %u, got %u of %u, state "
			       "%s\n",
			       (unsigned long long)seed, i, p, e->is_done,
			       e->err, e->got_eof, e->n_sent,
			       cfg.plan[i][p].n_bytes, e->n_got,
			       cfg.plan[!i][p].n_bytes,
			       e->conn ? tcp_state_name(e->conn->state) : "-");
			exit(1);
		}
	if (is_loud)
		printf("seed %llu: %.3f s, %llu steps, %llu frames, trace "
		       "%016llx\n",
		       (unsigned long long)seed, (double)w.now_ns / 1e9,
		       (unsigned long long)w.n_steps,
		       (unsigned long long)w.n_frames,
		       (unsigned long long)w.trace);
	*frames += w.n_frames;
	uint64_t trace = w.trace;
	world_fini(&w);
	return trace;
}

int main(int argc, char **argv)
{
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1, frames = 0;
	uint64_t n = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;

	for (uint64_t i = 0; i < n; i++) {
		/* An assertion that fails says nothing of the seed. */
		fprintf(stderr, "\rseed %llu ", (unsigned long long)(seed + i));
		uint64_t trace = run(seed + i, n == 1, &frames);

		if (i % 16 == 0 && run(seed + i, false, &frames) != trace) {
			printf("seed %llu: two runs differ\n",
			       (unsigned long long)(seed + i));
			return 1;
		}
	}
	fprintf(stderr, "\r");
	printf("sim: %llu seeds from %llu, %llu frames, all well\n",
	       (unsigned long long)n, (unsigned long long)seed,
	       (unsigned long long)frames);
	return 0;
}
