/* SPDX-License-Identifier: MIT */
/*
 * tests/sim/world_reboot.c - a host that loses its power, and comes back
 *
 * Its connections are gone without a word.  Programs on a client connect again, from the
 * port that they had: the server still has the old connection, or what is left of it.
 */
#include "world.h"

#include <stdlib.h>

void world_end_anew(struct world *w, struct end *e)
{
	const struct end *peer = &w->ends[!e->side][e->pair];

	if (e->round == peer->round)
		return;
	/* Another could not have been opened beside it. */
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

static void connect_again(struct world *w, struct end *e)
{
	*e = (struct end){ .side = e->side,
			   .pair = e->pair,
			   .round = e->round + 1,
			   .was_shut = e->is_shut };
	world_connect(w, e, (uint16_t)(WORLD_ACTIVE_PORT + e->pair),
		      WORLD_PORT);
}

/* The stack begins anew, with another secret. */
static void stack_again(struct world *w, uint32_t i)
{
	struct tcp_stack *s = w->stack[i];

	/* What programs hold may lie in its own memory. */
	world_release(w, UINT64_MAX);
	world_port_forget(w, i);
	tcp_stack_fini(s);
	world_lent_back(w);
	assert(s->pool_extents.n_free == s->pool_extents.n);
	for (uint32_t k = 0; k < WORLD_BLOCKS; k++) {
		free(w->blocks[i][k]);
		w->blocks[i][k] = NULL;
	}
	w->cfg.stack[i].key.k[0] ^= world_random(w);
	w->stack[i] =
	    tcp_stack_init(w->stack_mem[i], &w->cfg.stack[i], w->now_ns);
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
	stack_again(w, i);
	if (i == SERVER)
		w->listener = NULL;
	for (uint32_t k = 0; k < n; k++)
		if (i != SERVER && !w->cfg.is_simultaneous)
			connect_again(w, ends[k]);
}
