/* SPDX-License-Identifier: MIT */
/*
 * tcp/runs.c - the runs of bytes out of order: found by their number, and by age
 *
 *     rcvq.c: pieces in a list -> runs of them -> a tree by number, a list by who came last
 *
 * A run is known by its first piece, which has the links.  The tree is a treap: a search
 * tree whose upper nodes have the higher priorities, which are random, so that no sender
 * can make it deep.  Links are ids of the pool of nodes; 0: none.
 *
 * Who runs it: rcvq.c, for what comes out of order.
 */
#include "tcp/conn.h"

static struct range *run_at(const struct tcp_conn *c, uint32_t id)
{
	return pool_at(&c->stack->pool_ranges, id - 1);
}

static uint32_t run_id(const struct tcp_conn *c, const struct range *r)
{
	return pool_index(&c->stack->pool_ranges, r) + 1;
}

/* What strangers cannot guess. */
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

/* Where the id stands of the run that begins at @seq, or of one with less priority
 * in whose place a run that begins there belongs. */
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

/* Runs of a tree that begin before @seq, and the others. */
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

/* Something of the run has come: it is the newest. */
void run_came(struct tcp_conn *c, struct range *r)
{
	if (c->ooo_newest == run_id(c, r))
		return;
	age_forget(c, r);
	age_begin(c, r);
}

/* A run that is new. */
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

/* The run is in the tree no more. */
void run_gone(struct tcp_conn *c, struct range *r)
{
	age_forget(c, r);
	if (!--c->n_ooo)
		list_del(&c->ooo_link);
}

/* The run is a part of the one before it. */
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

/* @n, which lies right before the run, is its first piece now. */
void run_replace(struct tcp_conn *c, struct range *run, struct range *r)
{
	*place_of(c, run->seq, 0) = run_id(c, r);
	r->room = run->room;
	r->run.left = run->run.left;
	r->run.right = run->run.right;
	age_forget(c, run);
	age_begin(c, r);
}

/* All runs that begin at @seq or before it leave the tree; the caller calls run_gone() for
 * each of them. */
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

/* The last run that begins at @at or before it, or NULL. */
struct range *run_find(const struct tcp_conn *c, seq32 at)
{
	struct range *found = NULL, *r;
	uint32_t id = c->ooo_root;

	/* Most come behind what came just before. */
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

/* The last run of all, or NULL. */
struct range *run_last(const struct tcp_conn *c)
{
	struct range *r = NULL;

	for (uint32_t id = c->ooo_root; id; id = r->run.right) {
		r = run_at(c, id);
		work_add(&c->stack->work, 1);
	}
	return r;
}

/* Of the runs that came last: the newest if @n is NULL, or the one before @n. */
const struct range *run_by_age(const struct tcp_conn *c, const struct range *r)
{
	uint32_t id = r ? r->run.older : c->ooo_newest;

	return id ? run_at(c, id) : NULL;
}
