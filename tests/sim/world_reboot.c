/* SPDX-License-Identifier: MIT */
/*
 * tests/sim/world_reboot.c - programs that connect again
 *
 * In one fault a host loses its power and comes back.  Its connections are gone without
 * a word.  Its clients connect again from the same ports, while the server still has
 * the old connections or what is left of them.
 *
 * In another one both ends have done everything, and a second later the client does it
 * again.  Its stack chooses one of a few ports, so it uses one in TIME-WAIT, or waits.
 */
#include "world.h"

#include <stdlib.h>

void world_end_anew(struct world *w, struct end *e)
{
	const struct end *peer = &w->ends[!e->side][e->pair];

	if (e->round == peer->round)
		return;
	/* Another connection with the same ports could not exist beside it. */
	if (e->conn) {
		assert(e->conn->state == TCP_CLOSED);
		tcp_close(e->conn, w->now_ns);
	}
	*e = (struct end){ .side = e->side,
			   .pair = e->pair,
			   .round = peer->round };
}

static void forget_end(struct world *w, struct end *e)
{
	e->conn = NULL;
	e->is_done = true;
	e->done_ns = w->now_ns;
	e->err = -ECONNABORTED;
	e->n_ended++;
}

#define AGAIN_NS NS_PER_S

/* Return: as tcp_connect(); if it fails, the end does not change. */
MUST_CHECK static int connect_again(struct world *w, struct end *e,
				    uint16_t port)
{
	struct end was = *e;

	*e = (struct end){ .side = e->side,
			   .pair = e->pair,
			   .round = e->round + 1,
			   .was_shut = e->is_shut };
	int err = world_connect(w, e, port, WORLD_PORT);
	if (err)
		*e = was;
	return err;
}

/* Makes a new stack with another secret. */
static void stack_again(struct world *w, uint32_t i)
{
	struct tcp_stack *s = w->stack[i];

	/* The frames that programs keep may lie in the stack's own memory. */
	world_release(w, UINT64_MAX);
	world_port_forget(w, i);
	tcp_stack_fini(s);
	world_lent_back(w);
	assert(s->pool_extents.n_free == s->pool_extents.n);
	for (uint32_t k = 0; k < WORLD_BLOCKS; k++) {
		free(w->blocks[i][k]);
		w->blocks[i][k] = NULL;
	}
	struct tcp_config c = w->cfg.stack[world_host_of(w, i)];
	c.key.k[0] ^= world_random(w);
	c.ports_kept = s->cfg.ports_kept;
	w->stack[i] = tcp_stack_init(w->stack_mem[i], &c, w->now_ns);
}

void world_reboot(struct world *w)
{
	struct end *ends[2 * WORLD_PAIRS];
	uint32_t i = w->cfg.reboot_host % w->cfg.n_stacks, n = 0;

	if (!w->cfg.reboot_at_ns || w->now_ns < w->cfg.reboot_at_ns)
		return;
	w->cfg.reboot_at_ns = 0;
	world_steal_end(w);
	for (int side = 0; side < 2; side++)
		for (uint32_t p = 0; p < w->cfg.n_pairs; p++)
			if (world_host(&w->cfg, (enum side)side, p) == (int)i &&
			    w->ends[side][p].conn)
				ends[n++] = &w->ends[side][p];
	for (uint32_t k = 0; k < n; k++)
		forget_end(w, ends[k]);
	for (uint32_t k = i; k < w->n_stacks; k += w->cfg.n_stacks)
		stack_again(w, k);
	if (i == SERVER)
		w->listener = NULL;
	for (uint32_t k = 0; k < n; k++) {
		struct end *e = ends[k];
		uint32_t port = WORLD_ACTIVE_PORT + e->pair;

		if (i == SERVER || w->cfg.is_simultaneous)
			continue;
		int err = connect_again(w, e, (uint16_t)port);
		assert(!err);
	}
}

/* --- when all went well --- */

static bool is_well(const struct end *e) { return e->is_done && !e->err; }

/* Return: when the pair connects again; UINT64_MAX: never, or not yet */
static uint64_t again_at(const struct world *w, uint32_t pair)
{
	const struct end *e = &w->ends[CLIENT][pair],
			 *peer = &w->ends[SERVER][pair];

	if (e->round >= w->cfg.n_again || e->round != peer->round ||
	    !is_well(e) || !is_well(peer))
		return UINT64_MAX;
	uint64_t at = e->done_ns > peer->done_ns ? e->done_ns : peer->done_ns;
	return at + AGAIN_NS;
}

uint64_t world_again_next(const struct world *w)
{
	uint64_t at = UINT64_MAX;

	for (uint32_t p = 0; w->cfg.n_again && p < w->cfg.n_pairs; p++)
		at = MIN(at, again_at(w, p));
	return at > w->again_at_ns || at == UINT64_MAX ? at : w->again_at_ns;
}

/* Tries again later if there is no port or no memory. */
void world_again(struct world *w)
{
	if (w->now_ns < w->again_at_ns)
		return;
	for (uint32_t p = 0; w->cfg.n_again && p < w->cfg.n_pairs; p++) {
		if (again_at(w, p) > w->now_ns)
			continue;
		int err = connect_again(w, &w->ends[CLIENT][p], 0);
		assert(!err || err == -EADDRNOTAVAIL || err == -ENOBUFS);
		if (err)
			w->again_at_ns = w->now_ns + AGAIN_NS;
	}
}
