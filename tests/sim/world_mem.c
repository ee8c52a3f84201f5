/* SPDX-License-Identifier: MIT */
/*
 * tests/sim/world_mem.c - memory that stacks lose for a while, and blocks that they are given
 *
 * One fault takes all free elements of the pools, and gives them back later.  Another
 * one makes the pools small, gives them blocks when they ask, takes unused blocks away
 * and overwrites them.
 */
#include "world.h"

#include <stdlib.h>

/* --- gone for a while --- */

static void steal(struct pool *p, uint32_t leave, void **list)
{
	while (p->n_free > leave) {
		void **e = pool_get(p);

		*e = *list;
		*list = e;
	}
}

static void give_back(struct pool *p, void **list)
{
	while (*list) {
		void **e = *list;

		*list = *e;
		pool_put(p, e);
	}
}

static void steal_or_give(struct world *w, bool is_stolen)
{
	for (uint32_t i = 0; i < w->n_stacks; i++) {
		struct tcp_stack *s = w->stack[i];
		struct pool *pools[] = { &s->pool_ranges, &s->pool_extents,
					 &s->pool_reqsks, &w->rx_pool[i] };

		for (unsigned k = 0; k < ARRAY_LEN(pools); k++) {
			uint32_t leave = pools[k] == &w->rx_pool[i]
					     ? (uint32_t)SIM_PORT_RESERVE
					     : 0;

			if (is_stolen)
				steal(pools[k], leave, &w->stolen[i][k]);
			else
				give_back(pools[k], &w->stolen[i][k]);
		}
	}
	w->has_stolen = is_stolen;
}

void world_steal(struct world *w)
{
	const struct world_config *c = &w->cfg;
	bool is_stolen =
	    c->steal_every_ns && w->now_ns % c->steal_every_ns < c->steal_ns;

	if (is_stolen || w->has_stolen)
		steal_or_give(w, is_stolen);
}

uint64_t world_steal_next(const struct world *w)
{
	const struct world_config *c = &w->cfg;

	if (!w->has_stolen)
		return UINT64_MAX;
	return w->now_ns - w->now_ns % c->steal_every_ns + c->steal_ns;
}

void world_steal_end(struct world *w)
{
	if (w->has_stolen)
		steal_or_give(w, false);
}

/* --- blocks --- */

#define SHRINK_EVERY 32 /* steps */
#define POISON 0xee
#define POISON_BYTES 8192 /* from the start: elements are taken from there on */

static void **slot_of(struct world *w, uint32_t i, const void *block)
{
	for (uint32_t k = 0; k < WORLD_BLOCKS; k++)
		if (w->blocks[i][k] == block)
			return &w->blocks[i][k];
	return NULL;
}

static void grow(struct world *w, uint32_t i)
{
	void **slot = slot_of(w, i, NULL);
	int which = tcp_wants(w->stack[i]);

	if (which < 0)
		return;
	assert(slot);
	*slot = aligned_alloc(TCP_BLOCK, TCP_BLOCK);
	assert(*slot);
	bool is_taken = tcp_grow(w->stack[i], (enum tcp_pool)which, *slot);
	assert(is_taken);
}

static void shrink(struct world *w, uint32_t i)
{
	void *block = tcp_shrink(w->stack[i]);

	if (!block)
		return;
	void **slot = slot_of(w, i, block);
	assert(slot);
	memset(block, POISON, POISON_BYTES);
	free(block);
	*slot = NULL;
}

void world_pools(struct world *w)
{
	for (uint32_t i = 0; w->cfg.grows && i < w->n_stacks; i++) {
		grow(w, i);
		if (w->n_steps % SHRINK_EVERY == 0)
			shrink(w, i);
	}
}

void world_pools_fini(struct world *w)
{
	for (uint32_t i = 0; i < w->n_stacks; i++)
		for (uint32_t k = 0; k < WORLD_BLOCKS; k++)
			free(w->blocks[i][k]);
}
