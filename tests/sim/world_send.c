/* SPDX-License-Identifier: MIT */
/*
 * tests/sim/world_send.c - what programs send: copied or lent, urgent or not
 *
 *     world_send(): the next bytes -> tcp_send_as(), or tcp_send_lent()
 *     tcp_next_returned()          -> world_lent_back()
 *
 * Lent bytes come back once, when they were acknowledged or their connection is over.
 * The program then overwrites them, so a stack that still reads them is caught.
 */
#include "world.h"

#include <stdlib.h>

#define LENT_MAX 64
#define LENT_BYTES 20000
#define POISON 0xee

struct lent {
	struct tcp_lent z;
	const struct end *end;
	const struct tcp_conn *conn;
	uint32_t round, off, len;
	uint32_t n_moves;
	bool is_out;
	uint8_t data[LENT_BYTES];
};

static struct lent *lent_free(struct world *w)
{
	if (!w->lent)
		w->lent = calloc(LENT_MAX, sizeof(*w->lent));
	assert(w->lent);
	for (uint32_t i = 0; i < LENT_MAX; i++)
		if (!w->lent[i].is_out)
			return &w->lent[i];
	return NULL;
}

static ssize_t lend(struct world *w, struct end *e, struct lent *l, uint32_t n)
{
	n = MIN(n, (uint32_t)LENT_BYTES);
	memcpy(l->data, world_bytes(e, e->n_sent), n);
	int err = tcp_send_lent(e->conn, &l->z, l->data, n, world_clock(w));
	if (err) {
		memset(l->data, POISON, n);
		return err;
	}
	l->is_out = true;
	l->end = e;
	l->conn = e->conn;
	l->round = e->round;
	l->n_moves = e->n_moves;
	l->off = e->n_sent;
	l->len = n;
	return n;
}

static ssize_t copy(struct world *w, struct end *e, const struct end_plan *p,
		    uint32_t n)
{
	unsigned how = 0;
	uint32_t left = p->urgent_every
			    ? p->urgent_every - e->n_sent % p->urgent_every
			    : UINT32_MAX;

	if (left <= n) {
		n = left;
		how |= TCP_SEND_URGENT;
	}
	if (p->toggle_every_ns && world_random(w) % 8 == 0)
		how |= TCP_SEND_MORE;
	ssize_t took = tcp_send_as(e->conn, world_bytes(e, e->n_sent), n, how,
				   world_clock(w));
	if (took > 0 && how & TCP_SEND_URGENT)
		e->urgent[e->n_urgent++ % WORLD_URGENT] =
		    e->n_sent + (uint32_t)took - 1;
	return took;
}

ssize_t world_send(struct world *w, struct end *e, uint32_t n)
{
	const struct end_plan *p = &w->cfg.plan[e->side][e->pair];
	struct lent *l = p->lends && world_random(w) % 2 ? lent_free(w) : NULL;

	return l ? lend(w, e, l, n) : copy(w, e, p, n);
}

/* Looks at the last WORLD_URGENT marks: no end has as many in flight. */
bool world_is_urgent(const struct end *e, uint32_t off)
{
	for (uint32_t i = 0; i < MIN(e->n_urgent, (uint32_t)WORLD_URGENT); i++)
		if (e->urgent[i] == off)
			return true;
	return false;
}

static void take_back(struct lent *l)
{
	const struct tcp_conn *c = l->end->conn;

	assert(l->is_out);
	/* Another connection may have the same memory after its program began again, or
	 * the connection has moved. */
	if (c && c == l->conn && l->round == l->end->round &&
	    l->n_moves == l->end->n_moves && c->state != TCP_CLOSED)
		assert(
		    seq_le(seq_add(c->iss, 1 + l->off + l->len), c->snd_una));
	l->is_out = false;
	memset(l->data, POISON, l->len);
}

void world_lent_back(struct world *w)
{
	struct tcp_lent *z;

	for (uint32_t i = 0; w->lent && i < w->n_stacks; i++)
		while ((z = tcp_next_returned(w->stack[i])))
			take_back(container_of(z, struct lent, z));
}

/* Called when the stacks are gone. */
void world_lent_fini(struct world *w)
{
	world_lent_back(w);
	for (uint32_t i = 0; w->lent && i < LENT_MAX; i++)
		assert(!w->lent[i].is_out);
	free(w->lent);
}
