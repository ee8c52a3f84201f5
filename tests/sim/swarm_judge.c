/* SPDX-License-Identifier: MIT */
/*
 * tests/sim/swarm_judge.c - what we expect of the ends of a world's connections; see swarm.h
 *
 * A perfect end has got all of the peer's bytes and its FIN, has sent all of its own, and has
 * no error.  Each other end needs an excuse: excuses.def lists them, with what must have
 * happened.  swarm_deadline() says when all ends must be done.
 */
#include "swarm.h"

#include <stdio.h>

#define BIT(name) (1ull << FAULT_##name)
/* Faults that can make a peer look silent although it is there. */
#define SILENCES                                                               \
	(BIT(loss) | BIT(burst) | BIT(loss_acks) | BIT(nth) | BIT(mask) |      \
	 BIT(hole) | BIT(corrupt) | BIT(truncate) | BIT(mtu_hole) |            \
	 BIT(rate) | BIT(stall) | BIT(jump) | BIT(gap))

/* Faults that never cause a reset, nor a segment for a connection that is over. */
#define NO_RESETS                                                              \
	(BIT(clamp) | BIT(split) | BIT(merge) | BIT(mark) | BIT(bleach) |      \
	 BIT(strip) | BIT(forge_mtu) | BIT(forge_icmp) | BIT(slow) |           \
	 BIT(hold) | BIT(small) | BIT(gso) | BIT(options) | BIT(buffers) |     \
	 BIT(mtus) | BIT(stacks) | BIT(crowd) | BIT(v6) | BIT(lend) |          \
	 BIT(tune) | BIT(urgent) | BIT(toggle) | BIT(accept) | BIT(budget))

/* The fewest bytes that arrive between two time-outs of a host that loses whole flights: in
 * full segments; in the segments of a sender that was told no MSS; and where a host has less
 * than one frame for each connection. */
#define FLIGHT_LOST 8000
#define FLIGHT_LOST_SMALL 3000
#define FLIGHT_LOST_MOST 500
#define FRAMES_ENOUGH                                                          \
	32             /* of a connection; swarm.c gives it 512 or 16 in all */
#define RANGES_FEW 128 /* of a host */

static uint32_t n_hosts(const struct world_config *c)
{
	return c->n_stacks ? c->n_stacks : 2;
}

/* --- how long it may take --- */

/* Bytes that one end can have in flight, with its share of the memory. */
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
	/* Other connections may hold all memory for received segments. */
	if (c->stack[to].rcv_mem)
		n = 0;
	return n > 500 ? n : 500;
}

/* How long an end takes to send its bytes when nothing goes wrong: a flight in each round trip,
 * 30 round trips to open and close, and what the bottleneck and the reader need. */
static uint64_t end_ideal(const struct world_config *c, unsigned side,
			  uint32_t pair)
{
	const struct end_plan *p = &c->plan[side][pair];
	const struct end_plan *reader = &c->plan[!side][pair];
	unsigned from = (unsigned)world_host(c, (enum side)side, pair);
	unsigned to = (unsigned)world_host(c, (enum side) !side, pair);
	const struct wire_model *m = &c->wire[from];
	uint64_t rtt_ns =
	    m->delay_ns + wire_jitter_most(m) + c->wire[to].delay_ns +
	    wire_jitter_most(&c->wire[to]) + reader->hold_ns + 60 * NS_PER_MS;
	uint64_t most = flight(c, from, to);

	/* The program may make the buffer that small, and leave it so. */
	if (reader->toggle_every_ns)
		most = MIN(most, TOGGLE_BUF_MIN);
	uint64_t ns = (p->n_bytes / most + 30) * rtt_ns;

	if (m->rate_bps)
		ns += (uint64_t)p->n_bytes * c->n_pairs * 10 * NS_PER_S /
		      m->rate_bps;
	/* Small segments: each may wait for the ACK of the one before. */
	if (p->write_max)
		ns += p->n_bytes / p->write_max * (rtt_ns / 4 + NS_PER_MS);
	if (reader->read_every_ns)
		ns += (p->n_bytes / reader->read_max + 1) *
		      (reader->read_every_ns + rtt_ns);
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

/* Whether flights may be lost whole after the wires have healed: where a host lacks frames or
 * ranges, or a bottleneck's queue is short. */
static bool may_lose_flights(const struct world_config *c)
{
	if (c->rx_extents < FRAMES_ENOUGH * c->n_pairs)
		return true;
	for (unsigned i = 0; i < n_hosts(c); i++)
		if (c->stack[i].n_ranges <= RANGES_FEW || c->stack[i].rcv_mem ||
		    c->wire[i].queue_bytes)
			return true;
	return false;
}

/* How many groups of connections send one after the other, because a host has fewer extents
 * than connections: 1 if it has enough. */
static uint64_t n_groups(const struct world_config *c)
{
	uint32_t least = c->n_pairs;

	for (unsigned i = 0; i < n_hosts(c); i++)
		least = MIN(least, c->stack[i].n_extents);
	return (c->n_pairs + least - 1) / least;
}

/* Time-outs of RTO_MAX_NS that a connection may need besides three times its ideal time.
 *
 * Two: before the wires heal, the SYN or the data of either end may have backed off as far as
 * RTO_MAX_NS, and the wires may heal just after such a time-out has begun.  A connection that
 * waits for such a time-out keeps its extents.  So where a host has fewer extents than
 * connections, each group of connections that gets the extents may need two.
 *
 * More where whole flights are lost and there are no timestamps: a time-out that back-off, or
 * a jump of the clock, has made long stays so, because by Karn's rule flights that are lost
 * and sent again give no sample of the RTT.  Then each flight costs one. */
static uint64_t n_long_rtos(const struct world_config *c, uint32_t most)
{
	uint32_t arrives = is_mss_stripped(c) ? FLIGHT_LOST_SMALL : FLIGHT_LOST;
	uint64_t n = 2 * n_groups(c);

	if (has_timestamps(c) || !may_lose_flights(c))
		return n;
	if (c->rx_extents < 4 * c->n_pairs)
		arrives = FLIGHT_LOST_MOST;
	return n + most / arrives;
}

/* Three times what the slowest end takes at best, and some of the longest time-outs, counted
 * from when the wires have healed and all programs read.  A client that connects again does
 * so once for each round, and may first have to wait for the end of TIME-WAIT (60 s, which is
 * less than a long time-out). */
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
	return from + (1 + c->n_again) *
			  (3 * longest + n_long_rtos(c, most) * RTO_MAX_NS);
}

/* --- how it may end --- */

/* One end, and the other one. */
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

static bool is_perfect(const struct view *v)
{
	return v->mine->is_done && !v->mine->err && v->mine->got_eof &&
	       v->mine->n_got == v->peers_plan->n_bytes &&
	       v->mine->n_sent == v->my_plan->n_bytes;
}

static bool is_there(const struct end *e) { return e->conn || e->is_done; }

/* A SYN cookie is recognised by the ISN that it encodes.  A segment that overtakes its ACK is
 * reset.  So is the answer to an old cookie, after a SYN that came again was given another. */
static bool has_cookie_reset(const struct view *v)
{
	const struct tcp_stack *s = v->w->stack[SERVER];

	return tcp_dropped(s, DROP_SYN_COOKIE) &&
	       (tcp_dropped(s, DROP_LISTEN_ACK) ||
		tcp_dropped(s, DROP_SYN_RCVD_ACK));
}

/* Why the stack may end a connection of this plan with a time-out.  It may do so even after
 * the program has closed the connection. */
static enum excuse why_time_out(const struct view *v, const struct end_plan *p)
{
	if (p->user_timeout_ms)
		return EXCUSE_patience;
	if (v->on & BIT(few_frames))
		return EXCUSE_few_frames;
	if (p->keep_idle_s && v->on & SILENCES)
		return EXCUSE_keepalive;
	return EXCUSE_NONE;
}

/* A connection that its program has closed is given up after 51 s of retries at the earliest. */
#define ORPHAN_NS (51 * NS_PER_S)

static bool has_orphan_given_up(const struct view *v, const struct end *e)
{
	return e->is_done && !e->err && v->on & SILENCES &&
	       (!v->w->healed_ns || v->w->healed_ns >= e->done_ns + ORPHAN_NS);
}

/* The peer's program, or its stack, has given the connection up, and not because of a reset
 * of ours. */
static bool has_peer_left(const struct view *v)
{
	int err = v->peer->err;

	if (!v->peer->is_done)
		return false;
	return err ? !is_reset(err)
		   : v->peers_plan->closes_early ||
			 why_time_out(v, v->peers_plan) ||
			 has_orphan_given_up(v, v->peer);
}

/* The server's program has not accepted the connection, or is done with an earlier one.  Then a
 * router's error ends the half-open connection, although its SYN-ACK has arrived before. */
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

static bool has_rebooted(const struct view *v)
{
	return is_rebooted(v, v->mine) || is_rebooted(v, v->peer);
}

/* An old SYN that comes again makes a half-open connection at a host that lost its power.  That
 * answers unexpected segments with ACKs, not with resets.  The other end does not expect these
 * ACKs, so its keepalive hears nothing. */
static bool is_half_forgotten(const struct view *v)
{
	return v->on & BIT(replay) && v->my_plan->keep_idle_s &&
	       is_rebooted(v, v->peer);
}

/* Why the end may have been reset. */
static enum excuse why_reset(const struct view *v)
{
	if (v->on & BIT(kill))
		return EXCUSE_killed;
	if (v->on & BIT(unlisten))
		return EXCUSE_unlistened;
	if (has_rebooted(v))
		return EXCUSE_rebooted;
	if (has_peer_left(v))
		return EXCUSE_peer_left;
	if (has_cookie_reset(v))
		return EXCUSE_cookie;
	return has_lost_reqsk(v) ? EXCUSE_half_open : EXCUSE_NONE;
}

/* The peer has sent its FIN; or it had done so before its host lost its power, and our
 * connection is the one from before. */
static bool has_shut(const struct view *v)
{
	return v->peer->is_shut ||
	       (v->peer->was_shut && v->mine->round != v->peer->round);
}

/* The ACK of a SYN cookie opens a connection even after a later SYN from the same port was
 * given another cookie.  If the client has lost its power in between, it is open, too, with
 * numbers that the server's connection does not know.  Each end answers the other's segments
 * with ACKs, and neither resets (RFC 9293 section 3.10.7.4): only a time-out ends that. */
static bool has_two_cookies(const struct view *v)
{
	const struct end *client = v->mine->side == CLIENT ? v->mine : v->peer;

	return v->mine->round != v->peer->round && client->was_open &&
	       tcp_dropped(v->w->stack[SERVER], DROP_SYN_COOKIE) &&
	       is_there(v->peer) &&
	       (!v->peer->is_done ||
		(v->mine->is_done && v->peer->done_ns >= v->mine->done_ns));
}

/* The last SYN leaves after 67 s: four leave one second apart, then the time-out doubles.  None
 * leaves between the last one and the end of the open. */
#define LAST_SYN_NS (67 * NS_PER_S)

static bool has_healed_too_late(const struct view *v)
{
	return !v->mine->was_open && v->on & SILENCES &&
	       (!v->w->healed_ns || v->w->healed_ns >= LAST_SYN_NS);
}

/* Why the end may have timed out. */
static enum excuse why_timed_out(const struct view *v)
{
	enum excuse x = why_time_out(v, v->my_plan);

	if (x)
		return x;
	if (has_two_cookies(v))
		return EXCUSE_two_cookies;
	if (is_half_forgotten(v))
		return EXCUSE_half_forgotten;
	return has_healed_too_late(v) ? EXCUSE_syns_lost : EXCUSE_NONE;
}

/* Why the end may have the error that it has. */
static enum excuse why_error(const struct view *v)
{
	switch (v->mine->err) {
	case -ECONNABORTED: /* the program's own */
		if (v->my_plan->abort_at_ns)
			return EXCUSE_aborted;
		return is_rebooted(v, v->mine) ? EXCUSE_rebooted : EXCUSE_NONE;
	case -ETIMEDOUT:
		return why_timed_out(v);
	case -EHOSTUNREACH: /* ends an open, and explains a time-out */
		return v->on & BIT(unreach) && (!v->mine->was_open ||
						why_time_out(v, v->my_plan) ||
						has_two_cookies(v))
			   ? EXCUSE_unreachable
			   : EXCUSE_NONE;
	case -ECONNREFUSED:
		return v->mine->was_open ? EXCUSE_NONE : why_reset(v);
	case -EPIPE: /* a reset after the peer's FIN */
		return v->mine->got_eof || has_shut(v) ? why_reset(v)
						       : EXCUSE_NONE;
	case -ECONNRESET:
		return why_reset(v);
	}
	return EXCUSE_NONE;
}

/* Why the server's program may never have seen the connection. */
static enum excuse why_not_there(const struct view *v)
{
	/* The peer closed, and its stack gave up before its first ACK arrived. */
	if (v->peer->err || (v->peer->is_done && v->peers_plan->closes_early &&
			     why_time_out(v, v->peers_plan)))
		return EXCUSE_peer_left;
	if (v->on & BIT(unlisten))
		return EXCUSE_unlistened;
	if (has_cookie_reset(v))
		return EXCUSE_cookie;
	return has_rebooted(v) ? EXCUSE_rebooted : EXCUSE_NONE;
}

/* Why the end may not be done.  One that has closed and waits for the peer's bytes does not
 * learn that the peer is gone if the reset was lost; keepalive is for that. */
static enum excuse why_not_done(const struct view *v)
{
	const struct tcp_conn *c = v->mine->conn;

	if (c && c->state == TCP_FIN_WAIT_2 && !v->peer->conn &&
	    !v->my_plan->keep_idle_s && why_reset(v))
		return EXCUSE_reset_lost;
	return has_two_cookies(v) ? EXCUSE_two_cookies : EXCUSE_NONE;
}

/* The excuse of an end that is not perfect, or EXCUSE_NONE. */
static enum excuse excuse_of(const struct view *v)
{
	if (v->w->cfg.is_mutated)
		return EXCUSE_mutated;
	if (!is_there(v->mine))
		return why_not_there(v);
	if (!v->mine->is_done)
		return why_not_done(v);
	if (v->mine->err)
		return why_error(v);
	return v->my_plan->closes_early ? EXCUSE_closes_early : EXCUSE_NONE;
}

const char *swarm_excuse(enum excuse x)
{
	static const char *const whats[] = {
		[EXCUSE_NONE] = "none",
#define X(name, what) [EXCUSE_##name] = #name ": " what,
#include "excuses.def"
#undef X
	};
	return whats[x];
}

static bool is_good(const struct view *v, struct swarm_verdict *out)
{
	if (is_perfect(v))
		return true;
	enum excuse x = excuse_of(v);

	out->n_excused[x] += x != EXCUSE_NONE;
	return x != EXCUSE_NONE;
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
	if (!w->cfg.is_mutated && !(faults & ~NO_RESETS) && w->n_resets) {
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
			if (is_strict && !w->cfg.is_mutated ? is_perfect(&v)
							    : is_good(&v, out))
				continue;
			say(w, side, p, out);
			return;
		}
}
