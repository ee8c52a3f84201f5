/* SPDX-License-Identifier: MIT */
/*
 * tests/sim/world_app.c - the programs at the ends of connections
 *
 * Each does what its plan says, looks at every byte that it reads, and is told of the
 * end of its connection once.
 */
#include "world.h"

/* A prime: bytes that went astray by a power of two, or by segments, show. */
#define PERIOD 65521

static uint8_t pattern[PERIOD + WORLD_CHUNK];

const uint8_t *world_bytes(const struct end *e, uint32_t off)
{
	if (!pattern[0]) {
		uint64_t z = 1;

		for (uint32_t i = 0; i < PERIOD; i++) {
			z = z * 6364136223846793005ull + 1442695040888963407ull;
			pattern[i] = (uint8_t)(z >> 56);
		}
		pattern[0] = 1;
		for (uint32_t i = 0; i < WORLD_CHUNK; i++)
			pattern[PERIOD + i] = pattern[i % PERIOD];
	}
	return pattern +
	       ((uint64_t)off + e->pair * 7919u + e->side * 31337u) % PERIOD;
}

void world_connect(struct world *w, struct end *e, uint16_t lport,
		   uint16_t rport)
{
	const struct world_config *cfg = &w->cfg;
	struct tcp_stack *s = w->stack[world_host(w, e->side, e->pair)];
	const struct tcp_stack *peer =
	    w->stack[world_host(w, (enum side) !e->side, e->pair)];
	int err = tcp_connect(s, &s->cfg.addrs[0], lport, &peer->cfg.addrs[0],
			      rport, w->now_ns, &e->conn);

	assert(!err);
	tcp_set_user(e->conn, e);
	tcp_set_nodelay(e->conn, cfg->plan[e->side][e->pair].has_nodelay,
			w->now_ns);
}

static void end_over(struct world *w, struct end *e, int err)
{
	e->conn = NULL;
	e->is_done = true;
	e->done_ns = w->now_ns;
	e->err = err;
	e->n_ended++;
	assert(e->n_ended == 1);
}

/* What follows the last byte. */
static void end_shut(struct world *w, struct end *e, const struct end_plan *p)
{
	e->is_shut = true;
	if (p->closes_early) {
		tcp_close(e->conn, world_clock(w));
		end_over(w, e, 0);
		return;
	}
	int err = tcp_shutdown(e->conn, world_clock(w));
	assert(!err);
}

static void end_write(struct world *w, struct end *e, const struct end_plan *p)
{
	while (e->n_sent < p->n_bytes) {
		uint32_t n = MIN(p->n_bytes - e->n_sent, (uint32_t)WORLD_CHUNK);

		n = p->write_max ? MIN(n, p->write_max) : n;
		ssize_t took = tcp_send(e->conn, world_bytes(e, e->n_sent), n,
					world_clock(w));
		if (took == -EAGAIN)
			return;
		if (took < 0) {
			tcp_close(e->conn, w->now_ns);
			end_over(w, e, (int)took);
			return;
		}
		assert(took && took <= (ssize_t)n);
		e->n_sent += (uint32_t)took;
	}
	if (!e->is_shut && e->conn->state >= TCP_ESTABLISHED)
		end_shut(w, e, p);
}

/* Programs that hold frames give them back in the order in which they got them. */
void world_release(struct world *w, uint64_t until_ns)
{
	uint32_t n = 0;

	while (n < w->n_held && w->held[n].until_ns <= until_ns)
		extent_put(w->held[n++].e);
	w->n_held -= n;
	memmove(w->held, w->held + n, w->n_held * sizeof(w->held[0]));
}

static void hold(struct world *w, struct tcp_conn *c, uint64_t hold_ns)
{
	if (!hold_ns || w->n_held == WORLD_HELD)
		return;
	uint64_t until = w->now_ns + hold_ns;
	if (w->n_held && until < w->held[w->n_held - 1].until_ns)
		until = w->held[w->n_held - 1].until_ns;
	w->held[w->n_held].e = extent_get(c->rcvq.head->ext);
	w->held[w->n_held++].until_ns = until;
}

static void take(struct world *w, struct end *e, const uint8_t *data,
		 uint32_t n, const struct end_plan *p)
{
	const struct end *from = &w->ends[!e->side][e->pair];

	assert(n <= WORLD_CHUNK);
	assert(w->cfg.is_mutated ||
	       !memcmp(data, world_bytes(from, e->n_got), n));
	assert(w->cfg.is_mutated || e->n_got + n <= from->n_sent);
	e->n_got += n;
	hold(w, e->conn, p->hold_ns);
	tcp_consume(e->conn, n, world_clock(w));
}

/* The bytes are over: by an error, or as they should. */
static void end_eof(struct world *w, struct end *e, int err)
{
	e->got_eof = e->got_eof || !err;
	if (!err && !e->is_shut)
		return;
	tcp_close(e->conn, w->now_ns);
	end_over(w, e, err);
}

static void end_read(struct world *w, struct end *e, const struct end_plan *p)
{
	uint32_t left = p->read_max ? p->read_max : UINT32_MAX;
	const uint8_t *data;
	ssize_t n;

	if (w->now_ns < p->read_from_ns || w->now_ns < e->read_at_ns)
		return;
	while (left && (n = tcp_peek(e->conn, &data)) > 0) {
		uint32_t part = MIN((uint32_t)n, left);

		take(w, e, data, part, p);
		left -= part;
		if (!left || !e->conn->rcvq_bytes)
			e->read_at_ns = w->now_ns + p->read_every_ns;
		n = -EAGAIN;
	}
	if (left && n != -EAGAIN)
		end_eof(w, e, (int)n);
}

static void end_act(struct world *w, struct end *e)
{
	const struct end_plan *p = &w->cfg.plan[e->side][e->pair];

	if (!e->conn)
		return;
	if (p->abort_at_ns && w->now_ns >= p->abort_at_ns) {
		tcp_abort(e->conn, world_clock(w));
		end_over(w, e, -ECONNABORTED);
		return;
	}
	if (e->conn->state >= TCP_ESTABLISHED)
		e->was_open = true;
	end_write(w, e, p);
	if (e->conn)
		end_read(w, e, p);
}

/* Connections that nobody has opened come from packets that others made. */
static bool is_stray(const struct world *w, uint32_t pair)
{
	const struct end *e;

	if (pair >= w->cfg.n_pairs)
		return true;
	e = &w->ends[SERVER][pair];
	return e->conn || e->is_done;
}

/* A SYN cookie is good for a minute, so that a segment that comes late or again can
 * open its connection once more when that is gone (RFC 4987 section 3.6). */
static bool may_have_strays(const struct world *w)
{
	return w->cfg.is_mutated || w->cfg.has_cookies;
}

static void accept_all(struct world *w)
{
	struct tcp_conn *c;

	while ((c = tcp_accept(w->listener))) {
		uint32_t pair = c->flow.rport - (uint32_t)WORLD_ACTIVE_PORT;

		if (is_stray(w, pair)) {
			assert(may_have_strays(w));
			tcp_abort(c, w->now_ns);
			continue;
		}
		w->ends[SERVER][pair].conn = c;
		tcp_set_user(c, &w->ends[SERVER][pair]);
		tcp_set_nodelay(c, w->cfg.plan[SERVER][pair].has_nodelay,
				w->now_ns);
	}
}

void world_programs(struct world *w)
{
	world_release(w, w->now_ns);
	accept_all(w);
	for (int i = 0; i < 2; i++)
		for (uint32_t p = 0; p < w->cfg.n_pairs; p++)
			end_act(w, &w->ends[i][p]);
	for (uint32_t i = 0; i < w->cfg.n_stacks; i++)
		while (tcp_next_ready(w->stack[i]))
			;
}

uint64_t world_programs_next(const struct world *w)
{
	uint64_t at = w->n_held ? w->held[0].until_ns : UINT64_MAX;

	for (int i = 0; i < 2; i++)
		for (uint32_t p = 0; p < w->cfg.n_pairs; p++) {
			const struct end *e = &w->ends[i][p];
			const struct end_plan *plan = &w->cfg.plan[i][p];
			const uint64_t wakes[] = { plan->read_from_ns,
						   e->read_at_ns,
						   plan->abort_at_ns };

			for (unsigned k = 0; e->conn && k < 3; k++)
				if (wakes[k] > w->now_ns)
					at = MIN(at, wakes[k]);
		}
	return at;
}
