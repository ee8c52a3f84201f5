/* SPDX-License-Identifier: MIT */
/* tests/sim/swarm_judge.c - what is to be expected of a world's ends; see swarm.h */
#include "swarm.h"

#include <stdio.h>

#define BIT(name) (1ull << FAULT_##name)
/* What makes a peer that is there look as if it were not. */
#define SILENCES                                                               \
	(BIT(loss) | BIT(burst) | BIT(loss_acks) | BIT(nth) | BIT(mask) |      \
	 BIT(hole) | BIT(corrupt) | BIT(truncate) | BIT(mtu_hole) |            \
	 BIT(rate) | BIT(stall) | BIT(jump) | BIT(gap))

/* What is no reason for a reset, nor for a segment that comes when its connection is
 * over. */
#define NO_RESETS                                                              \
	(BIT(clamp) | BIT(split) | BIT(merge) | BIT(mark) | BIT(bleach) |      \
	 BIT(strip) | BIT(forge_mtu) | BIT(forge_icmp) | BIT(slow) |           \
	 BIT(hold) | BIT(small) | BIT(gso) | BIT(options) | BIT(buffers) |     \
	 BIT(mtus) | BIT(stacks) | BIT(crowd) | BIT(v6) | BIT(lend) |          \
	 BIT(tune) | BIT(urgent) | BIT(toggle) | BIT(accept) | BIT(budget))

/* Bytes that arrive at least between two time-outs, in full segments or in those of who was
 * not told of a size, and where a host has not a frame for each connection. */
#define FLIGHT_LOST 8000
#define FLIGHT_LOST_SMALL 3000
#define FLIGHT_LOST_MOST 500

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
	n = MIN(n, (uint64_t)s->n_ranges / 4 * 500 / c->n_pairs);
	/* Others may hold all of what there is for received segments. */
	if (c->stack[to].rcv_mem)
		n = 0;
	return n > 500 ? n : 500;
}

static uint64_t end_ideal(const struct world_config *c, unsigned side,
			  uint32_t pair)
{
	const struct end_plan *p = &c->plan[side][pair];
	const struct end_plan *reader = &c->plan[!side][pair];
	unsigned from = (unsigned)world_host(c, (enum side)side, pair);
	unsigned to = (unsigned)world_host(c, (enum side) !side, pair);
	const struct wire_model *m = &c->wire[from];
	uint64_t turn = m->delay_ns + wire_jitter_most(m) +
			c->wire[to].delay_ns + wire_jitter_most(&c->wire[to]) +
			reader->hold_ns + 60 * NS_PER_MS;
	uint64_t most = flight(c, from, to);

	/* A buffer may be made as small as that, and stay so. */
	if (reader->toggle_every_ns)
		most = MIN(most, TOGGLE_BUF_MIN);
	uint64_t ns = (p->n_bytes / most + 30) * turn;

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

static bool is_mss_stripped(const struct world_config *c)
{
	for (unsigned i = 0; i < n_hosts(c); i++)
		if (c->wire[i].strip & STRIP_MSS)
			return true;
	return false;
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
	uint32_t arrives = is_mss_stripped(c) ? FLIGHT_LOST_SMALL : FLIGHT_LOST;
	if (c->rx_extents < 4 * c->n_pairs)
		arrives = FLIGHT_LOST_MOST;
	uint64_t n_rtos = has_timestamps(c) ? 3 : 3 + most / arrives;
	uint64_t times = c->jump_ns ? 100 : 10;
	return from +
	       (1 + c->n_again) * (times * longest + n_rtos * RTO_MAX_NS);
}

/* --- how it may end --- */

/* An end and the other one. */
struct view {
	const struct world *w;
	const struct end *mine, *peer;
	const struct end_plan *my_plan, *peers_plan;
	uint64_t on; /* faults */
};

static bool is_reset(int err)
{
	return err == -ECONNRESET || err == -EPIPE || err == -ECONNREFUSED;
}

/* All that the peer has sent is there, and it has closed. */
static bool is_complete(const struct view *v)
{
	return v->mine->got_eof && v->mine->n_got == v->peers_plan->n_bytes &&
	       v->mine->n_sent == v->my_plan->n_bytes;
}

/* A SYN cookie is known by the first number behind it: who overtakes that is reset.  So
 * is who answers a cookie when a SYN that came again has been given another number. */
static bool has_reset_for_cookie(const struct view *v)
{
	const struct tcp_stack *s = v->w->stack[SERVER];

	return tcp_dropped(s, DROP_SYN_COOKIE) &&
	       (tcp_dropped(s, DROP_LISTEN_ACK) ||
		tcp_dropped(s, DROP_SYN_RCVD_ACK));
}

/* Also when the program has closed it and is gone.  Where a host has few frames, others'
 * segments may have them each time that this one's come. */
static bool may_time_out(const struct view *v, const struct end_plan *p)
{
	return p->user_timeout_ms || v->on & BIT(few_frames) ||
	       (p->keep_idle_s && v->on & SILENCES);
}

/* What nobody has any more is sent again for 51 s at least, and then given up. */
#define ORPHAN_NS (51 * NS_PER_S)

static bool has_orphan_given_up(const struct view *v, const struct end *e)
{
	return e->is_done && !e->err && v->on & SILENCES &&
	       (!v->w->healed_ns || v->w->healed_ns >= e->done_ns + ORPHAN_NS);
}

/* The peer's program, or its stack, has given the connection up, and not because of
 * us. */
static bool has_peer_left(const struct view *v)
{
	int err = v->peer->err;

	if (!v->peer->is_done)
		return false;
	return err ? !is_reset(err)
		   : v->peers_plan->closes_early ||
			 may_time_out(v, v->peers_plan) ||
			 has_orphan_given_up(v, v->peer);
}

static bool is_there(const struct end *e) { return e->conn || e->is_done; }

/* A router's word ends what has not been accepted, although the SYN-ACK has arrived once
 * before.  The peer's program may be done with an earlier connection. */
static bool has_lost_reqsk(const struct view *v)
{
	return v->on & BIT(unreach) &&
	       (!is_there(v->peer) || v->peer->round < v->mine->round);
}

static bool is_rebooted(const struct view *v, const struct end *e)
{
	const struct world_config *c = &v->w->cfg;

	return v->on & BIT(reboot) && world_host(c, e->side, e->pair) ==
					  (int)(c->reboot_host % c->n_stacks);
}

/* An old SYN that came again to a host that has lost its power is half a connection: it
 * answers what it does not expect by ACKs, not by resets, and they are not expected,
 * either, so keepalive hears nothing. */
static bool is_half_forgotten(const struct view *v)
{
	return v->on & BIT(replay) && v->my_plan->keep_idle_s &&
	       is_rebooted(v, v->peer);
}

static bool may_be_reset(const struct view *v)
{
	return v->on & (BIT(kill) | BIT(unlisten)) || is_rebooted(v, v->mine) ||
	       is_rebooted(v, v->peer) || has_peer_left(v) ||
	       has_reset_for_cookie(v) || has_lost_reqsk(v);
}

/* The peer has said that it has sent all; or has before its host lost its power, and
 * our connection is that one. */
static bool has_shut(const struct view *v)
{
	return v->peer->is_shut ||
	       (v->peer->was_shut && v->mine->round != v->peer->round);
}

/* The ACK of a SYN cookie opens even when a later SYN from the same port has been given
 * another cookie: who lost its power in between is open, too, with numbers that the
 * server's connection has never heard of.  Each answers the other's segments with ACKs,
 * and neither is reset (RFC 9293 section 3.10.7.4): only patience ends that. */
static bool is_estranged(const struct view *v)
{
	const struct end *client = v->mine->side == CLIENT ? v->mine : v->peer;

	return v->mine->round != v->peer->round && client->was_open &&
	       tcp_dropped(v->w->stack[SERVER], DROP_SYN_COOKIE) &&
	       is_there(v->peer) &&
	       (!v->peer->is_done ||
		(v->mine->is_done && v->peer->done_ns >= v->mine->done_ns));
}

/* All SYNs were lost, and none is sent between the last one, after 67 s, and the time-out:
 * four went after a second each, the others after twice as long each time. */
#define LAST_SYN_NS (67 * NS_PER_S)

static bool has_healed_too_late(const struct view *v)
{
	return !v->mine->was_open && v->on & SILENCES &&
	       (!v->w->healed_ns || v->w->healed_ns >= LAST_SYN_NS);
}

/* Whether the error is one that the end may have been told of. */
static bool is_error_right(const struct view *v)
{
	switch (v->mine->err) {
	case -ECONNABORTED: /* the program's own */
		return v->my_plan->abort_at_ns || is_rebooted(v, v->mine);
	case -ETIMEDOUT:
		return may_time_out(v, v->my_plan) || is_estranged(v) ||
		       is_half_forgotten(v) || has_healed_too_late(v);
	case -EHOSTUNREACH: /* ends an open, and explains a time-out */
		return v->on & BIT(unreach) &&
		       (!v->mine->was_open || may_time_out(v, v->my_plan) ||
			is_estranged(v));
	case -ECONNREFUSED:
		return !v->mine->was_open && may_be_reset(v);
	case -EPIPE: /* a reset behind the end of the peer's bytes */
		return (v->mine->got_eof || has_shut(v)) && may_be_reset(v);
	case -ECONNRESET:
		return may_be_reset(v);
	}
	return false;
}

/* Who has closed and waits for the peer's bytes never learns that it is gone, when its
 * reset was lost; keepalive is for that. */
static bool may_wait(const struct view *v)
{
	const struct tcp_conn *c = v->mine->conn;

	return c && c->state == TCP_FIN_WAIT_2 && !v->peer->conn &&
	       !v->my_plan->keep_idle_s && may_be_reset(v);
}

/* The peer has closed, and its patience was over before its first ACK arrived: what has
 * been sent since is reset. */
static bool has_peer_given_up(const struct view *v)
{
	return v->peer->err ||
	       (v->peer->is_done && v->peers_plan->closes_early &&
		may_time_out(v, v->peers_plan));
}

static bool is_good(const struct view *v)
{
	if (!is_there(v->mine))
		return has_peer_given_up(v) || v->on & BIT(unlisten) ||
		       has_reset_for_cookie(v) || is_rebooted(v, v->peer) ||
		       is_rebooted(v, v->mine);
	if (!v->mine->is_done)
		return may_wait(v) || is_estranged(v);
	if (v->mine->err)
		return is_error_right(v);
	return is_complete(v) || v->my_plan->closes_early;
}

static bool is_perfect(const struct view *v)
{
	return v->mine->is_done && !v->mine->err && is_complete(v);
}

static void say(const struct world *w, unsigned side, uint32_t pair,
		struct swarm_verdict *out)
{
	const struct end *e = &w->ends[side][pair];

	out->is_good = false;
	snprintf(out->why, sizeof(out->why),
		 "at %.3f s: side %u pair %u: done %d, error %d, end %d, sent "
		 "%u of %u, got %u of %u, state %s; peer %d, error %d",
		 (double)w->now_ns / 1e9, side, pair, e->is_done, e->err,
		 e->got_eof, e->n_sent, w->cfg.plan[side][pair].n_bytes,
		 e->n_got, w->cfg.plan[!side][pair].n_bytes,
		 e->conn ? tcp_state_name(e->conn->state) : "-",
		 w->ends[!side][pair].is_done, w->ends[!side][pair].err);
}

void swarm_judge(const struct world *w, uint64_t faults, bool is_strict,
		 struct swarm_verdict *out)
{
	*out = (struct swarm_verdict){ .is_good = true };
	if (w->cfg.is_mutated)
		return;
	if (!(faults & ~NO_RESETS) && w->n_resets) {
		out->is_good = false;
		snprintf(out->why, sizeof(out->why), "%llu resets, for nothing",
			 (unsigned long long)w->n_resets);
		return;
	}
	for (uint32_t p = 0; p < w->cfg.n_pairs; p++)
		for (unsigned side = 0; side < 2; side++) {
			struct view v = { w,
					  &w->ends[side][p],
					  &w->ends[!side][p],
					  &w->cfg.plan[side][p],
					  &w->cfg.plan[!side][p],
					  faults };

			out->n_unopened += v.mine->err && !v.mine->was_open;
			if (is_strict ? is_perfect(&v) : is_good(&v))
				continue;
			say(w, side, p, out);
			return;
		}
}
