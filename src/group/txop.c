/* SPDX-License-Identifier: MIT */
/* group/txop.c - see group/txop.h */
#include <stdlib.h>

#include "group/txop.h"

#define OPS_A_SLAB 256

/* Type-stable: operations move between groups with their sockets. */
static struct lock lock;
static struct txop *free_ops;

COLD bool txops_refill(struct group *g)
{
	GUARD(&lock);
	if (!free_ops) {
		struct txop *slab = calloc(OPS_A_SLAB, sizeof(*slab));

		for (int i = 0; slab && i < OPS_A_SLAB; i++) {
			slab[i].next = free_ops;
			free_ops = &slab[i];
		}
	}
	for (int i = 0; i < OPS_A_SLAB && free_ops; i++) {
		struct txop *op = free_ops;

		free_ops = op->next;
		op->next = g->free_ops;
		g->free_ops = op;
		g->n_free_ops++;
	}
	return g->free_ops;
}

void op_free(struct group *g, struct txop *op)
{
	if (op->copy)
		chunk_put(g ? &g->pool : NULL, op->copy);
	if (g) {
		op->next = g->free_ops;
		g->free_ops = op;
		g->n_free_ops++;
		return;
	}
	GUARD(&lock);
	op->next = free_ops;
	free_ops = op;
}

void txops_fini(struct group *g)
{
	GUARD(&lock);
	while (g->free_ops) {
		struct txop *op = g->free_ops;

		g->free_ops = op->next;
		op->next = free_ops;
		free_ops = op;
	}
	g->n_free_ops = 0;
}

void txops_after_fork(void)
{
	lock = (struct lock){ 0 };
	free_ops = NULL;
}

void txq_drop(struct gsock *s)
{
	while (s->first) {
		struct txop *op = s->first;

		s->first = op->next;
		op_free(NULL, op);
	}
	s->out = s->last = NULL;
	s->n_comps = 0;
}
