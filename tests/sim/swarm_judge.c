/* SPDX-License-Identifier: MIT */
/* tests/sim/swarm_judge.c - what is to be expected of a world's ends; see swarm.h */
#include "swarm.h"

#include <stdio.h>

#define BIT(name) (1ull << FAULT_##name)
/* What ends connections, or can: where a host has frames for one program only, others'
 * segments may find none each time that they come; and a SYN cookie is known by the
 * first number, so that what overtakes the first segment is reset. */
#define MAY_BREAK (BIT(kill) | BIT(few_frames) | BIT(steal))
/* What can lose seven SYNs in a row, or all answers to them. */
#define LOSES_SYNS                                                             \
	(BIT(burst) | BIT(hole) | BIT(mask) | BIT(nth) | BIT(steal) | BIT(jump))

#define FLIGHT_LOST 8000 /* bytes that arrive at least between two time-outs */

static uint32_t n_hosts(const struct world_config *c)
{
	return c->n_stacks ? c->n_stacks : 2;
}

/* --- how long it may take --- */

/* Bytes that a connection's end can have under way, with what memory there is. */
static uint64_t flight(const struct world_config *c, unsigned from, unsigned to)
{
	const struct tcp_config *s = &c->stack[from];
	uint64_t mine = (uint64_t)s->n_extents * s->extent_bytes / c->n_pairs;
	uint64_t theirs =
	    (uint64_t)c->rx_extents * MIN(s->mtu, 1280u) / c->n_pairs;
	uint64_t n = MIN(s->snd_buf, c->stack[to].rcv_buf);

	n = MIN(n, mine / 2);
	n = MIN(n, theirs / 2);
	n = MIN(n, (uint64_t)s->n_nodes / 4 * 500 / c->n_pairs);
	return n > 500 ? n : 500;
}

static uint64_t end_ideal(const struct world_config *c, unsigned side,
			  uint32_t pair)
{
	const struct end_plan *p = &c->plan[side][pair];
	const struct end_plan *reader = &c->plan[!side][pair];
	const struct wire_model *m = &c->wire[side];
	uint64_t turn = m->delay_ns + m->jitter_ns + c->wire[!side].delay_ns +
			c->wire[!side].jitter_ns + reader->hold_ns +
			60 * NS_PER_MS;
	uint64_t ns = (p->n_bytes / flight(c, side, !side) + 30) * turn;

	if (m->rate_bps)
		ns += (uint64_t)p->n_bytes * c->n_pairs * 10 * NS_PER_S /
		      m->rate_bps;
	/* Small segments, each of which waits for the one before it. */
	if (p->write_max)
		ns += p->n_bytes / p->write_max * (turn / 4 + NS_PER_MS);
	if (reader->read_every_ns)
		ns += (p->n_bytes / reader->read_max + 1) *
		      (reader->read_every_ns + turn);
	return ns;
}

static bool has_timestamps(const struct world_config *c)
{
	for (unsigned i = 0; i < n_hosts(c); i++)
		if (!(c->stack[i].offers & TCP_OFFER_TS) ||
		    c->wire[i].strip & STRIP_TS)
			return false;
	return true;
}

/* Ten times what it takes at best, and three of the longest time-outs, from when all
 * is well and everybody reads. */
uint64_t swarm_deadline(const struct world_config *c)
{
	uint64_t from = c->heals_at_ns, longest = 0;
	uint32_t most = 0; /* bytes of an end */

	for (unsigned side = 0; side < 2; side++)
		for (uint32_t i = 0; i < c->n_pairs; i++) {
			const struct end_plan *p = &c->plan[side][i];
			uint64_t starts =
			    p->abort_at_ns ? p->abort_at_ns : p->read_from_ns;
			uint64_t ns = end_ideal(c, side, i);

			longest = ns > longest ? ns : longest;
			most = p->n_bytes > most ? p->n_bytes : most;
			from = starts > from ? starts : from;
		}
	/* Flights that are lost whole leave no sample of the RTT (Karn) but that of a
	 * timestamp, so a time-out that a jump of the clock or back-off made long
	 * stays so. */
	uint64_t n_rtos = has_timestamps(c) ? 3 : 3 + most / FLIGHT_LOST;
	uint64_t times = c->jump_ns ? 100 : 10;
	return from + times * longest + n_rtos * RTO_MAX_NS;
}

/* --- how it may end --- */

static bool may_stay_shut(const struct world *w, uint64_t on)
{
	uint32_t bad = 0;

	for (unsigned i = 0; i < n_hosts(&w->cfg); i++) {
		const struct wire_model *m = &w->cfg.wire[i];

		bad += m->loss + m->corrupt + m->truncate;
	}
	return bad >= 250000 || on & LOSES_SYNS;
}

/* Not there any more, and it never was: by a time-out, or by the reset of a peer that
 * has given up. */
static bool gave_up(const struct end *e)
{
	return e->is_done && !e->n_got &&
	       (e->err == -ETIMEDOUT || e->err == -ECONNRESET ||
		e->err == -ECONNREFUSED);
}

/* The open failed as opens may: one end has given up, and the other end, too, or it
 * was never there. */
static bool is_unopened(const struct world *w, uint64_t on, uint32_t pair)
{
	const struct end *c = &w->ends[CLIENT][pair];
	const struct end *s = &w->ends[SERVER][pair];

	return may_stay_shut(w, on) && gave_up(c) &&
	       (gave_up(s) || (!s->conn && !s->is_done));
}

/* Whether what happened to an end was to be expected of its plan and its peer's. */
static bool is_good(const struct world *w, const struct swarm_how *how,
		    unsigned side, uint32_t pair)
{
	const struct end *e = &w->ends[side][pair];
	const struct end_plan *mine = &w->cfg.plan[side][pair];
	const struct end_plan *peers = &w->cfg.plan[!side][pair];
	bool may_break = mine->abort_at_ns || peers->abort_at_ns ||
			 mine->closes_early || peers->closes_early ||
			 swarm_faults(how) & MAY_BREAK;

	/* A reset may be lost, and who only waits for bytes never learns of it. */
	if (may_break && !how->is_strict)
		return e->is_done || !e->conn || e->is_shut;
	return e->is_done && !e->err && e->got_eof &&
	       e->n_got == peers->n_bytes;
}

static void say(const struct world *w, unsigned side, uint32_t pair,
		struct swarm_verdict *out)
{
	const struct end *e = &w->ends[side][pair];

	out->is_good = false;
	snprintf(out->why, sizeof(out->why),
		 "at %.3f s: side %u pair %u: done %d, error %d, end %d, sent "
		 "%u of %u, got %u of %u, state %s",
		 (double)w->now_ns / 1e9, side, pair, e->is_done, e->err,
		 e->got_eof, e->n_sent, w->cfg.plan[side][pair].n_bytes,
		 e->n_got, w->cfg.plan[!side][pair].n_bytes,
		 e->conn ? tcp_state_name(e->conn->state) : "-");
}

void swarm_judge(const struct world *w, const struct swarm_how *how,
		 struct swarm_verdict *out)
{
	uint64_t on = swarm_faults(how);

	*out = (struct swarm_verdict){ .is_good = true };
	if (w->cfg.is_mutated)
		return;
	for (uint32_t p = 0; p < w->cfg.n_pairs; p++) {
		if (!how->is_strict && is_unopened(w, on, p)) {
			out->n_unopened++;
			continue;
		}
		for (unsigned side = 0; side < 2; side++)
			if (!is_good(w, how, side, p)) {
				say(w, side, p, out);
				return;
			}
	}
}
