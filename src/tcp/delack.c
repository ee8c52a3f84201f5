/* SPDX-License-Identifier: MIT */
/*
 * tcp/delack.c - the ACKs that wait a moment for something to travel with
 *
 *     bytes came -> delack_begin() -> the ring, by time -> delack_expired() -> timer.c
 *     an ACK leaves -> delack_end()
 *
 * All of them wait equally long, so a ring is in order, and one that has left is struck
 * out where it stands.  With many connections this is what counts: of those whose ACK
 * has left nothing is touched when its time comes, and the others are fetched ahead.
 *
 * The first entry of the ring is never struck out.  There is place for half as many again
 * as there are connections; when all are in use, the struck ones go.
 *
 * Spec: RFC 1122 section 4.2.3.2, RFC 9293 section 3.8.6.3
 */
#include "tcp/conn.h"

#define AHEAD 8 /* connections that are fetched */

uint32_t delack_slots(uint32_t n_conns) { return n_conns + n_conns / 2 + 8; }

static struct delack *entry(struct delack_queue *q, uint32_t nth)
{
	uint32_t i = q->head + nth;

	return &q->ring[i < q->n_slots ? i : i - q->n_slots];
}

/* The first one is gone, and those behind it that are struck out. */
static void shift(struct delack_queue *q)
{
	do {
		q->head = q->head + 1 < q->n_slots ? q->head + 1 : 0;
		q->n--;
	} while (q->n && !entry(q, 0)->conn);
}

static void put(struct delack_queue *q, struct delack *e, struct tcp_conn *c,
		uint64_t at_ns)
{
	*e = (struct delack){ c, at_ns };
	c->delack_slot = (uint32_t)(e - q->ring) + 1;
}

/* Those that are struck out go; the order stays. */
static void compact(struct delack_queue *q)
{
	uint32_t n_kept = 0;

	for (uint32_t i = 0; i < q->n; i++) {
		struct delack *e = entry(q, i);

		if (e->conn)
			put(q, entry(q, n_kept++), e->conn, e->at_ns);
	}
	q->n = n_kept;
}

/* The bytes that came are acknowledged in DELACK_NS at the latest; at once if so many
 * wait that there is no place. */
void delack_begin(struct tcp_conn *c)
{
	struct delack_queue *q = &c->stack->delacks;

	if (c->delack_slot)
		return;
	if (q->n == q->n_slots)
		compact(q);
	if (q->n == q->n_slots) {
		conn_due(c, TX_ACK);
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
		shift(q);
}

/* Return: a connection whose ACK waits no longer, or NULL. */
struct tcp_conn *delack_expired(struct tcp_stack *s)
{
	struct delack_queue *q = &s->delacks;

	if (delack_next_ns(s) > s->now_ns)
		return NULL;
	struct tcp_conn *c = entry(q, 0)->conn;
	const struct tcp_conn *soon = entry(q, AHEAD)->conn;

	if (q->n > AHEAD && soon)
		conn_fetch(soon, CONN_LINES_RX);
	c->delack_slot = 0;
	shift(q);
	return c;
}

uint64_t delack_next_ns(const struct tcp_stack *s)
{
	const struct delack_queue *q = &s->delacks;

	return q->n ? q->ring[q->head].at_ns : WHEEL_NEVER;
}
