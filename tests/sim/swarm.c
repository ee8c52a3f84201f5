/* SPDX-License-Identifier: MIT */
/* tests/sim/swarm.c - makes a world from a seed; see swarm.h */
#include "swarm.h"

#define RX_FRAMES 512 /* of a connection */

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
#define PICK32(...) ((uint32_t)PICK(__VA_ARGS__))

/* Each wire has the fault with a chance of three in four. */
#define EACH_WIRE(c, m)                                                        \
	for (struct wire_model *m = (c)->wire, *end_ = m + WORLD_STACKS;       \
	     m < end_; m++)                                                    \
		if (!one_in(4))
#define EACH_STACK(c, s)                                                       \
	for (struct tcp_config *s = (c)->stack, *end_ = s + WORLD_STACKS;      \
	     s < end_; s++)
#define EACH_PLAN(c, p)                                                        \
	for (struct end_plan *p = (c)->plan[0],                                \
			     *end_ = (c)->plan[0] + 2 * WORLD_PAIRS;           \
	     p < end_; p++)

/* --- wires --- */

static void fault_loss(struct world_config *c)
{
	EACH_WIRE (c, m)
		m->loss = PICK32(1000, 10000, 10000, 50000, 200000);
}

static void fault_burst(struct world_config *c)
{
	EACH_WIRE (c, m) {
		m->burst_begins = PICK32(500, 2000, 10000);
		m->burst_ends = PICK32(50000, 200000, 500000);
		m->burst_loss = PICK32(300000, 1000000);
	}
}

static void fault_loss_acks(struct world_config *c)
{
	EACH_WIRE (c, m)
		m->loss_acks = PICK32(10000, 200000, 500000);
}

static void fault_nth(struct world_config *c)
{
	EACH_WIRE (c, m)
		m->drop_nth = 2 + below(100);
}

static void fault_mask(struct world_config *c)
{
	EACH_WIRE (c, m)
		m->drop_mask = random_next() & random_next();
}

static void fault_hole(struct world_config *c)
{
	EACH_WIRE (c, m) {
		m->hole_every_ns = PICK(1, 3, 10) * NS_PER_S;
		m->hole_ns = PICK(10, 300, 900, 3000) * NS_PER_MS;
		m->hole_ns = MIN(m->hole_ns, m->hole_every_ns * 3 / 4);
	}
}

static void fault_duplicate(struct world_config *c)
{
	EACH_WIRE (c, m)
		m->duplicate = PICK32(1000, 50000, 300000);
}

static void fault_reorder(struct world_config *c)
{
	EACH_WIRE (c, m) {
		m->reorder = PICK32(1000, 50000, 300000);
		m->reorder_ns = PICK(1000, 1000000, 100000000);
	}
}

static void fault_jitter(struct world_config *c)
{
	EACH_WIRE (c, m) {
		m->jitter_ns = 1 + m->delay_ns / 2;
		m->jitter = PICK32(JITTER_EVEN, JITTER_NORMAL, JITTER_PARETO);
	}
}

static void fault_corrupt(struct world_config *c)
{
	EACH_WIRE (c, m)
		m->corrupt = PICK32(1000, 50000);
}

static void fault_mutate(struct world_config *c)
{
	c->is_mutated = true;
	EACH_WIRE (c, m)
		m->mutate = 20000;
}

static void fault_truncate(struct world_config *c)
{
	EACH_WIRE (c, m)
		m->truncate = PICK32(1000, 50000);
}

static void fault_rate(struct world_config *c)
{
	uint64_t bps = PICK(1000000, 10000000, 100000000, 1000000000);

	for (unsigned i = 0; i < WORLD_STACKS; i++)
		c->wire[i].rate_bps = one_in(3) ? bps * 4 : bps;
}

static void fault_queue(struct world_config *c)
{
	EACH_WIRE (c, m) {
		m->queue_bytes = 20000 + below(100000);
		m->red = PICK32(0, 0, 20000, 100000);
	}
}

static void fault_mtu(struct world_config *c)
{
	EACH_WIRE (c, m) {
		m->mtu = PICK32(1280, 1400);
		m->tells_mtu = true;
		m->mtu_from_ns = random_next() % NS_PER_S;
	}
}

static void fault_mtu_hole(struct world_config *c)
{
	EACH_WIRE (c, m) {
		m->mtu = PICK32(1280, 1400);
		m->tells_mtu = false;
		m->mtu_from_ns = random_next() % NS_PER_S;
	}
}

static void fault_forge_mtu(struct world_config *c)
{
	EACH_WIRE (c, m)
		m->forge_mtu = PICK32(1000, 50000);
}

/* Both directions lose the same options. */
static void fault_strip(struct world_config *c)
{
	uint32_t what = below(STRIP_ALL + 1);

	for (unsigned i = 0; i < WORLD_STACKS; i++)
		c->wire[i].strip = what;
}

static void fault_clamp(struct world_config *c)
{
	EACH_WIRE (c, m)
		m->clamp_mss = (uint16_t)PICK(216, 536, 1000, 1400);
}

static void fault_split(struct world_config *c)
{
	EACH_WIRE (c, m)
		m->split = PICK32(1000, 50000, 500000);
}

static void fault_merge(struct world_config *c)
{
	EACH_WIRE (c, m) {
		m->merge = PICK32(100000, 900000);
		m->merge_bytes = 9000;
	}
}

static void fault_forge_rst(struct world_config *c)
{
	EACH_WIRE (c, m)
		m->forge_rst = PICK32(1000, 50000);
}

static void fault_kill(struct world_config *c)
{
	EACH_WIRE (c, m)
		m->kill = PICK32(100, 1000);
}

static void fault_replay(struct world_config *c)
{
	EACH_WIRE (c, m) {
		m->replay = PICK32(1000, 20000);
		m->replay_ns = PICK(1, 100, 10000) * NS_PER_MS;
	}
}

static void fault_mark(struct world_config *c)
{
	EACH_WIRE (c, m) {
		m->mark = PICK32(1000, 50000, 1000000);
		m->mark_queue_bytes = PICK32(0, 10000);
	}
}

static void fault_bleach(struct world_config *c)
{
	EACH_WIRE (c, m)
		m->bleaches = true;
}

/* --- hosts --- */

static void fault_steal(struct world_config *c)
{
	c->steal_every_ns = PICK(100, 1000, 5000) * NS_PER_MS;
	c->has_cookies = true;
	/* A theft takes all elements one by one, so the pools are small. */
	EACH_STACK (c, s) {
		s->n_ranges = 1024;
		s->n_extents = 128;
	}
	c->steal_ns = c->steal_every_ns / PICK(2, 4, 20);
}

static void fault_few_ranges(struct world_config *c)
{
	EACH_STACK (c, s)
		s->n_ranges = 128;
}

static void fault_few_extents(struct world_config *c)
{
	EACH_STACK (c, s)
		s->n_extents = 8;
}

/* Whole flights are lost when there is no frame, so a transfer takes long. */
static void fault_few_frames(struct world_config *c)
{
	c->rx_extents = 16;
	EACH_PLAN (c, p)
		p->n_bytes = MIN(p->n_bytes, 300000u);
}

static void fault_port(struct world_config *c)
{
	c->port_frames = PICK32(1, 4, 32);
	c->port_hold_ns = PICK(0, 1000, 1000000, 50000000);
}

static void fault_stall(struct world_config *c)
{
	c->stall_ns = PICK(1000000, 100000000, 500000000);
}

static void fault_jump(struct world_config *c)
{
	c->jump_ns = PICK(1, 10) * NS_PER_S;
}

static void fault_slip(struct world_config *c)
{
	c->slip_ns = PICK(1000, 1000000, 10 * NS_PER_S);
}

/* --- programs --- */

static void fault_slow(struct world_config *c)
{
	EACH_PLAN (c, p) {
		if (!one_in(3))
			continue;
		p->read_max = 1 + below(20000);
		p->read_every_ns = 1 + below(50000000);
		p->n_bytes = MIN(p->n_bytes, 200000u);
	}
}

static void fault_late(struct world_config *c)
{
	EACH_PLAN (c, p) {
		if (one_in(3))
			p->read_from_ns = random_next() % (20 * NS_PER_S);
		if (!one_in(12))
			continue;
		p->read_from_ns = UINT64_MAX / 2;
		/* While memory is short, other ends may be given up meanwhile. */
		p->abort_at_ns = 1 + random_next() % (60 * NS_PER_S);
	}
}

static void fault_hold(struct world_config *c)
{
	EACH_PLAN (c, p)
		p->hold_ns = PICK(0, 1000000, 300000000);
}

static void fault_abort(struct world_config *c)
{
	EACH_PLAN (c, p)
		if (one_in(6))
			p->abort_at_ns = 1 + random_next() % (5 * NS_PER_S);
}

static void fault_early(struct world_config *c)
{
	EACH_PLAN (c, p)
		p->closes_early = one_in(6);
}

static void fault_small(struct world_config *c)
{
	EACH_PLAN (c, p) {
		p->write_max = PICK32(0, 100, 536, 1460, 4000);
		p->has_nodelay = one_in(2);
		if (p->write_max == 100)
			p->n_bytes = MIN(p->n_bytes, 100000u);
	}
}

static void fault_gso(struct world_config *c)
{
	EACH_STACK (c, s)
		s->gso_max = PICK32(0, 20000, 65000);
	c->carries_gso = one_in(2);
}

static void fault_options(struct world_config *c)
{
	EACH_STACK (c, s)
		s->offers = below((uint32_t)TCP_OFFER_ALL + 1);
}

static void fault_buffers(struct world_config *c)
{
	EACH_STACK (c, s) {
		s->snd_buf = PICK32(2000, 16384, 65536, 1 << 20);
		s->rcv_buf = PICK32(2048, 16384, 65535, 1 << 20);
	}
}

static void fault_mtus(struct world_config *c)
{
	bool is_v6 = !ip_addr_is_v4(&c->stack[0].addrs[0]);

	EACH_STACK (c, s)
		s->mtu = is_v6 ? PICK32(1280, 1500, 9000)
			       : PICK32(576, 1280, 1500, 9000);
}

static void fault_stacks(struct world_config *c)
{
	c->n_stacks = 3 + below(WORLD_STACKS - 2);
	c->n_pairs += c->n_stacks - 2;
}

static void fault_crowd(struct world_config *c)
{
	c->n_pairs = 4 + below(one_in(6) ? WORLD_PAIRS - 4 : 12);
	EACH_PLAN (c, p)
		p->n_bytes /= 4;
}

static void fault_both(struct world_config *c) { c->is_simultaneous = true; }

static void fault_v6(struct world_config *c)
{
	for (unsigned i = 0; i < WORLD_STACKS; i++)
		c->stack[i].addrs[0] = world_stack((enum side)i, true).addrs[0];
}

static void fault_lend(struct world_config *c)
{
	EACH_PLAN (c, p)
		p->lends = one_in(2);
}

static void fault_grow(struct world_config *c)
{
	c->grows = true;
	c->has_cookies = true;
	EACH_STACK (c, s) {
		s->n_blocks = WORLD_BLOCKS;
		s->n_ranges = PICK32(64, 128, 1000);
		s->n_extents = PICK32(2, 8, 100);
		s->n_reqsks = PICK32(1, 4, 16);
	}
}

static void fault_tune(struct world_config *c)
{
	EACH_STACK (c, s) {
		s->rcv_buf = PICK32(4096, 16384, 65536);
		s->snd_buf = PICK32(4096, 16384, 65536);
		s->rcv_buf_max = PICK32(0, 1 << 18, 1 << 22);
		s->snd_buf_max = PICK32(0, 1 << 18, 1 << 22);
	}
}

/* The urgent pointer reaches 64 KB at most, so no more may wait.  Nor may there be more
 * urgent bytes than a world remembers. */
static void fault_urgent(struct world_config *c)
{
	EACH_STACK (c, s) {
		s->snd_buf = MIN(s->snd_buf, 60000u);
		s->snd_buf_max = 0;
	}
	EACH_PLAN (c, p) {
		p->reads_inline = one_in(3);
		if (one_in(2))
			continue;
		p->urgent_every = 500 + below(PICK32(1, 20000, 100000));
		p->n_bytes = MIN(p->n_bytes, p->urgent_every * 500u);
	}
}

static void fault_toggle(struct world_config *c)
{
	EACH_PLAN (c, p) {
		if (one_in(3))
			continue;
		p->toggle_every_ns = PICK(1, 30, 500) * NS_PER_MS;
		p->n_bytes = MIN(p->n_bytes, 200000u);
	}
}

static void fault_keepalive(struct world_config *c)
{
	EACH_PLAN (c, p) {
		if (one_in(3))
			continue;
		p->keep_idle_s = (uint16_t)(1 + below(10));
		p->keep_interval_s = (uint16_t)(1 + below(3));
		p->keep_probes = (uint8_t)(1 + below(9));
	}
}

static void fault_patience(struct world_config *c)
{
	EACH_PLAN (c, p)
		p->user_timeout_ms =
		    PICK32(0, 500 + below(1000), 5000 + below(60000));
}

static void fault_unreach(struct world_config *c)
{
	EACH_WIRE (c, m)
		m->tells_lost = PICK32(50000, 1000000);
}

static void fault_forge_icmp(struct world_config *c)
{
	EACH_WIRE (c, m)
		m->forge_error = PICK32(1000, 50000, 500000);
}

static void fault_unlisten(struct world_config *c)
{
	c->unlisten_every_ns = PICK(2, 20, 200, 2000) * NS_PER_MS;
}

static void fault_accept(struct world_config *c)
{
	c->accept_every_ns = PICK(1, 100, 3000) * NS_PER_MS;
}

static void fault_zero_window(struct world_config *c)
{
	EACH_WIRE (c, m)
		m->zero_window = PICK32(1000, 20000, 300000);
}

static void fault_gap(struct world_config *c)
{
	EACH_WIRE (c, m) {
		m->gap = PICK32(1000, 50000);
		m->gap_packets = 1 + below(30);
	}
}

static void fault_reboot(struct world_config *c)
{
	c->reboot_at_ns =
	    2000000 + random_next() % PICK(NS_PER_S / 10, 5 * NS_PER_S);
	c->reboot_host = below(WORLD_STACKS);
}

/* An end with little memory gets one segment at a time. */
static void fault_budget(struct world_config *c)
{
	EACH_STACK (c, s)
		s->rcv_mem = PICK(100000, 400000, 2000000);
	EACH_PLAN (c, p)
		p->n_bytes = MIN(p->n_bytes, 2000000u);
}

/* Each host has one port for each connection, or one more. */
static void fault_again(struct world_config *c)
{
	uint32_t n = c->n_pairs + below(2);

	c->n_again = 1 + below(3);
	EACH_STACK (c, s) {
		s->reuse = (uint8_t)below(TCP_REUSE_NEVER + 1);
		s->ports =
		    (struct tcp_ports){ WORLD_ACTIVE_PORT,
					(uint16_t)(WORLD_ACTIVE_PORT + n - 1) };
	}
	EACH_PLAN (c, p)
		p->n_bytes = MIN(p->n_bytes, 1000000u);
}

static const struct {
	const char *name;
	void (*add)(struct world_config *c);
} faults[] = {
#define F(name, what) { #name, fault_##name },
#include "faults.def"
#undef F
};

/* --- the world --- */

const char *swarm_fault_name(enum fault f) { return faults[f].name; }

/* These faults break every connection or blind the checks, so they are rare. */
static bool is_rare(enum fault f)
{
	return f == FAULT_mutate || f == FAULT_kill || f == FAULT_both ||
	       f == FAULT_mtu_hole || f == FAULT_unlisten;
}

uint64_t swarm_faults(const struct swarm_how *how)
{
	uint64_t on = 0;

	static_assert(FAULTS <= 64, "a bit each");
	rng = how->seed * 1000003;
	uint32_t chance = PICK32(3, 6, 15);
	for (unsigned f = 0; f < FAULTS; f++)
		if (below(is_rare((enum fault)f) ? 120 : 40) < chance)
			on |= 1ull << f;
	return on & ~how->off;
}

static void base_stack(struct tcp_config *s, unsigned i)
{
	*s = world_stack((enum side)i, false);
	s->key.k[0] = random_next();
	s->key.k[1] = random_next();
	s->cc = one_in(2) ? &tcp_newreno : &tcp_cubic;
	s->ecn = (uint8_t)below(TCP_ECN_OFF + 1);
	s->is_paced = one_in(4);
}

static void base_plan(struct end_plan *p)
{
	p->n_bytes = PICK32(0, 1, 5000, 100000, 2000000, 30000000, 75000000);
	p->n_bytes = p->n_bytes ? 1 + below(p->n_bytes) : 0;
}

/* No fault: programs and peers notice nothing. */
static void moves(const struct swarm_how *how, struct world_config *c)
{
	bool is_some;

	rng = how->seed * 64 + FAULTS;
	is_some = one_in(6);
	if (how->moves == MOVES_ALL || (how->moves == MOVES_SOME && is_some))
		c->move_every_ns = PICK(10, 100, 1000) * NS_PER_MS;
	c->holds_ends = one_in(2);
}

static void limit(const struct swarm_how *how, struct world_config *c)
{
	if (how->pairs_max)
		c->n_pairs = MIN(c->n_pairs, how->pairs_max);
	if (how->heal_ms)
		c->heals_at_ns = how->heal_ms * NS_PER_MS;
	/* A connection begins again for one reason only.  Ends that both connect need
	 * fixed ports. */
	if (c->reboot_at_ns || c->is_simultaneous)
		c->n_again = 0;
	EACH_PLAN (c, p)
		if (how->bytes_max)
			p->n_bytes = MIN(p->n_bytes, how->bytes_max);
	/* Enough frames for all windows, unless too few frames are the fault. */
	if (c->rx_extents == RX_FRAMES && !c->steal_every_ns)
		c->rx_extents = RX_FRAMES * c->n_pairs;
	/* A large frame is one packet, and the MTU of the path does not apply. */
	for (unsigned i = 0; c->carries_gso && i < WORLD_STACKS; i++) {
		c->wire[i].mtu = 0;
		c->wire[i].merge_bytes = 60000;
	}
}

void swarm_make(const struct swarm_how *how, struct world_config *out)
{
	uint64_t on = swarm_faults(how);

	rng = how->seed;
	*out =
	    (struct world_config){ .seed = how->seed, .rx_extents = RX_FRAMES };
	out->n_pairs = 1 + below(3);
	out->heals_at_ns = (1 + below(20)) * NS_PER_S;
	/* Never 0: without a delay, packets could go around for ever at one instant. */
	uint64_t delay_ns =
	    PICK(1000, 25000, 500000, 10000000, 50000000, 150000000);
	for (unsigned i = 0; i < WORLD_STACKS; i++) {
		base_stack(&out->stack[i], i);
		out->wire[i].delay_ns = delay_ns;
	}
	EACH_PLAN (out, p)
		base_plan(p);
	if (on >> FAULT_v6 & 1)
		fault_v6(out);
	for (unsigned f = 0; f < FAULTS; f++) {
		rng = how->seed * 64 + f;
		if (on >> f & 1)
			faults[f].add(out);
	}
	limit(how, out);
	moves(how, out);
}
