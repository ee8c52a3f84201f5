/* SPDX-License-Identifier: MIT */
/*
 * tcp/delack.c - delayed ACKs: they wait 40 ms for a segment that carries them
 *
 *     bytes arrive -> delack_begin() -> the ring, by time -> delack_expired() -> timer.c
 *     an ACK leaves -> delack_end()
 *
 * All delayed ACKs wait equally long, so a ring keeps them in order of time.  When an
 * ACK leaves earlier, its entry stays in the ring and is struck out.  So the expiry of
 * a struck entry does not touch the connection.  The connections of the next entries
 * are fetched into the cache ahead of time.  Both matter with many connections.
 *
 * The ring has half as many entries again as there are connections.  When three
 * quarters of them are in use, each new entry also sweeps a few struck ones out.
 *
 * Spec: RFC 1122 section 4.2.3.2, RFC 9293 section 3.8.6.3
 */
#include "tcp/snd.h"
#include "tcp/stack.h"
#include "tcp/timer.h"

#define AHEAD 8 /* how far ahead connections are fetched */
#define SKIP 16 /* struck entries that a call removes */
#define SWEEP 4 /* entries that a call of sweep() visits */

uint32_t delack_slots(uint32_t n_conns) { return n_conns + n_conns / 2 + 8; }

static struct delack *entry(struct delack_queue *q, uint32_t nth)
{
	uint32_t i = q->head + nth;

	return &q->ring[i < q->n_slots ? i : i - q->n_slots];
}

static void count_down(uint32_t *n) { *n -= *n > 0; }

/* Removes the first entry, and struck ones that follow it. */
static void shift(struct tcp_stack *s)
{
	struct delack_queue *q = &s->delacks;
	int32_t n_skipped = 0;

	do {
		q->head = q->head + 1 < q->n_slots ? q->head + 1 : 0;
		q->n--;
		count_down(&q->n_seen);
		count_down(&q->n_kept);
	} while (q->n && !entry(q, 0)->conn && n_skipped++ < SKIP);
	work_add(&s->work, n_skipped);
}

/* Removes the last entry, and struck ones before it. */
static void pop(struct tcp_stack *s)
{
	struct delack_queue *q = &s->delacks;
	int32_t n_skipped = 0;

	do
		q->n--;
	while (q->n && !entry(q, q->n - 1)->conn && n_skipped++ < SKIP);
	work_add(&s->work, n_skipped);
}

static void put(struct delack_queue *q, struct delack *e, struct tcp_conn *c,
		uint64_t at_ns)
{
	*e = (struct delack){ c, at_ns };
	c->delack_slot = (uint32_t)(e - q->ring) + 1;
}

/*
 * Moves entries over those that are struck out.  Their order stays:
 *
 *     [kept ...][struck out ...][not seen ...]
 */
static void sweep(struct tcp_stack *s)
{
	struct delack_queue *q = &s->delacks;

	work_add(&s->work, SWEEP);
	for (unsigned i = 0; i < SWEEP && q->n_seen < q->n; i++) {
		struct delack *e = entry(q, q->n_seen++);
		struct tcp_conn *c = e->conn;

		if (!c)
			continue;
		e->conn = NULL;
		put(q, entry(q, q->n_kept++), c, e->at_ns);
	}
	if (q->n_seen < q->n)
		return;
	q->n = MIN(q->n, q->n_kept);
	q->is_swept = false;
}

static void sweep_begin(struct delack_queue *q)
{
	q->n_seen = q->n_kept = 0;
	q->is_swept = true;
}

/* The bytes that arrived are acknowledged within DELACK_NS; at once if the ring is
 * full. */
void delack_begin(struct tcp_conn *c)
{
	struct delack_queue *q = &c->stack->delacks;

	if (c->delack_slot)
		return;
	if (q->n > q->n_slots - q->n_slots / 4 && !q->is_swept)
		sweep_begin(q);
	if (q->is_swept)
		sweep(c->stack);
	if (q->n == q->n_slots) {
		conn_set_pending(c, TX_ACK);
		return;
	}
	put(q, entry(q, q->n++), c, c->stack->now_ns + DELACK_NS);
}

/* An ACK has left, or none will. */
void delack_strike(struct tcp_conn *c)
{
	struct delack_queue *q = &c->stack->delacks;
	struct delack *e = &q->ring[c->delack_slot - 1];

	dassert(e->conn == c);
	e->conn = NULL;
	c->delack_slot = 0;
	if (e == entry(q, 0))
		shift(c->stack);
	else if (e == entry(q, q->n - 1))
		pop(c->stack);
}

/* Return: a connection whose delayed ACK must leave now, or NULL. */
struct tcp_conn *delack_expired(struct tcp_stack *s)
{
	struct delack_queue *q = &s->delacks;

	if (q->n && !entry(q, 0)->conn)
		shift(s);
	if (delack_next_ns(s) > s->now_ns || !entry(q, 0)->conn)
		return NULL;
	struct tcp_conn *c = entry(q, 0)->conn;
	const struct tcp_conn *soon = entry(q, AHEAD)->conn;

	if (q->n > AHEAD && soon)
		conn_fetch(soon, CONN_LINES_RX);
	c->delack_slot = 0;
	shift(s);
	return c;
}

uint64_t delack_next_ns(const struct tcp_stack *s)
{
	const struct delack_queue *q = &s->delacks;

	return q->n ? q->ring[q->head].at_ns : WHEEL_NEVER;
}
