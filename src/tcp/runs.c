/* SPDX-License-Identifier: MIT */
/*
 * tcp/runs.c - finds the runs of bytes out of order, by number and by age
 *
 *     rcvq.c: pieces in a list -> runs of them -> a tree by number, a list by age
 *
 * The first piece of a run stands for it and has the links.  The tree is a treap: a
 * search tree in which each element has a higher priority than those below it.
 * Priorities are random, so no sender can make the tree deep.  A link is an index of
 * the pool of ranges, plus 1; 0: none.
 *
 * rcvq.c calls it for bytes that arrive out of order.
 */
#include "tcp/rcv.h"
#include "tcp/stack.h"

static struct range *run_at(const struct tcp_conn *c, uint32_t id)
{
	return pool_at(&c->stack->pool_ranges, id - 1);
}

static uint32_t run_id(const struct tcp_conn *c, const struct range *r)
{
	return pool_index(&c->stack->pool_ranges, r) + 1;
}

/* A number that strangers cannot guess. */
static uint32_t priority_new(struct tcp_stack *s)
{
	uint64_t x = s->cfg.key.k[0] ^ s->cfg.key.k[1] ^ ++s->n_runs;

	x = (x ^ x >> 31) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 29) * 0x94d049bb133111ebull;
	return (uint32_t)(x >> 32);
}

static bool is_above(const struct tcp_conn *c, uint32_t a, uint32_t b)
{
	return run_at(c, a)->room > run_at(c, b)->room;
}

/* Return: the link to the run that begins at @seq.  If there is none: the link to the
 * first run on the way down with a lower priority, which a new run at @seq replaces. */
static uint32_t *place_of(struct tcp_conn *c, seq32 seq, uint32_t priority)
{
	uint32_t *at = &c->ooo_root;

	while (*at) {
		struct range *r = run_at(c, *at);

		if (seq_eq(r->seq, seq) || r->room < priority)
			break;
		work_add(&c->stack->work, 1);
		at = seq_lt(seq, r->seq) ? &r->run.left : &r->run.right;
	}
	return at;
}

/* Splits a tree into the runs that begin before @seq, and the others. */
static void split(struct tcp_conn *c, uint32_t tree, seq32 seq,
		  uint32_t *before, uint32_t *others)
{
	while (tree) {
		struct range *r = run_at(c, tree);

		work_add(&c->stack->work, 1);
		if (seq_lt(r->seq, seq)) {
			*before = tree;
			before = &r->run.right;
			tree = *before;
		} else {
			*others = tree;
			others = &r->run.left;
			tree = *others;
		}
	}
	*before = *others = 0;
}

static void age_forget(struct tcp_conn *c, struct range *r)
{
	if (r->run.newer)
		run_at(c, r->run.newer)->run.older = r->run.older;
	else
		c->ooo_newest = r->run.older;
	if (r->run.older)
		run_at(c, r->run.older)->run.newer = r->run.newer;
}

static void age_begin(struct tcp_conn *c, struct range *r)
{
	uint32_t id = run_id(c, r);

	r->run.newer = 0;
	r->run.older = c->ooo_newest;
	if (c->ooo_newest)
		run_at(c, c->ooo_newest)->run.newer = id;
	c->ooo_newest = id;
}

/* Bytes of the run have arrived: it is the newest. */
void run_came(struct tcp_conn *c, struct range *r)
{
	if (c->ooo_newest == run_id(c, r))
		return;
	age_forget(c, r);
	age_begin(c, r);
}

/* Adds a new run. */
void run_insert(struct tcp_conn *c, struct range *r)
{
	uint32_t *at, rest;

	r->room = priority_new(c->stack);
	at = place_of(c, r->seq, r->room);
	rest = *at;
	*at = run_id(c, r);
	split(c, rest, r->seq, &r->run.left, &r->run.right);
	age_begin(c, r);
	if (!c->n_ooo++)
		list_add_tail(&c->stack->ooo, &c->ooo_link);
}

/* The run has left the tree. */
void run_gone(struct tcp_conn *c, struct range *r)
{
	age_forget(c, r);
	if (!--c->n_ooo)
		list_del(&c->ooo_link);
}

/* Removes a run that has become part of the one before it. */
void run_remove(struct tcp_conn *c, struct range *r)
{
	uint32_t *at = place_of(c, r->seq, 0);
	uint32_t left = r->run.left, right = r->run.right;

	while (left && right) {
		work_add(&c->stack->work, 1);
		if (is_above(c, left, right)) {
			*at = left;
			at = &run_at(c, left)->run.right;
			left = *at;
		} else {
			*at = right;
			at = &run_at(c, right)->run.left;
			right = *at;
		}
	}
	*at = left ? left : right;
	run_gone(c, r);
}

/* @r, which ends where @run begins, becomes the first piece of that run. */
void run_replace(struct tcp_conn *c, struct range *run, struct range *r)
{
	*place_of(c, run->seq, 0) = run_id(c, r);
	r->room = run->room;
	r->run.left = run->run.left;
	r->run.right = run->run.right;
	age_forget(c, run);
	age_begin(c, r);
}

/* Removes all runs that begin at @seq or before from the tree.  The caller calls
 * run_gone() for each of them. */
void runs_cut(struct tcp_conn *c, seq32 seq)
{
	uint32_t gone;

	split(c, c->ooo_root, seq_add(seq, 1), &gone, &c->ooo_root);
}

void runs_drop(struct tcp_conn *c)
{
	c->ooo_root = c->ooo_newest = c->n_ooo = 0;
	list_del(&c->ooo_link);
}

/* Return: the last run that begins at @at or before, or NULL. */
struct range *run_find(const struct tcp_conn *c, seq32 at)
{
	struct range *found = NULL, *r;
	uint32_t id = c->ooo_root;

	/* Most segments follow the one that arrived before. */
	if (id) {
		r = run_at(c, c->ooo_newest);
		if (seq_le(r->seq, at) &&
		    (!r->last->next || seq_lt(at, r->last->next->seq)))
			return r;
	}
	while (id) {
		r = run_at(c, id);
		work_add(&c->stack->work, 1);
		if (seq_le(r->seq, at))
			found = r;
		id = found == r ? r->run.right : r->run.left;
	}
	return found;
}

/* Return: the last run, or NULL. */
struct range *run_last(const struct tcp_conn *c)
{
	struct range *r = NULL;

	for (uint32_t id = c->ooo_root; id; id = r->run.right) {
		r = run_at(c, id);
		work_add(&c->stack->work, 1);
	}
	return r;
}

/* Return: the newest run if @r is NULL, else the next older one; or NULL. */
const struct range *run_by_age(const struct tcp_conn *c, const struct range *r)
{
	uint32_t id = r ? r->run.older : c->ooo_newest;

	return id ? run_at(c, id) : NULL;
}
