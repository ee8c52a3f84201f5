/* SPDX-License-Identifier: MIT */
/*
 * tcp/lost.c - which of the ranges that were sent are lost
 *
 *     in flight --rack.c--> lost, or lost again --tx.c--> in flight
 *     all of them --a time-out--> lost --it was wrong--> in flight
 *
 * A time-out marks all ranges as lost, and an undo unmarks all of them.  There may be
 * many thousands, so neither touches any range: it joins lists, counts bytes as a
 * whole, and begins a new era.  RANGE_LOST is valid in a range whose era is the
 * connection's era.  In an older range is_era_lost counts instead, the value with which
 * the current era began.
 *
 * The list "lost" has ranges in the order of their numbers, in which they were sent
 * first.  After a time-out it has all lost ranges in any order; we then find them along
 * the queue "sent" from lost_at on.  The list "again" has ranges that were lost after
 * they had been sent again, in the order in which we noticed.  The range with the
 * lowest number in both lists is sent first.
 *
 * Spec: RFC 6298 (5.4), RFC 6675 section 4 (NextSeg), RFC 2018 section 8
 */
#include "tcp/pmtu.h"
#include "tcp/snd.h"
#include "tcp/stack.h"

/* Subtracts @bytes of a range from the counters that its flags belong to. */
void range_uncount(struct tcp_conn *c, const struct range *r, uint32_t bytes)
{
	bool is_again = r->flags & RANGE_RETX;

	if (r->flags & RANGE_SACKED) {
		c->sacked_bytes -= bytes;
	} else if (range_is_lost(c, r)) {
		c->lost_bytes -= bytes;
		c->again_lost -= is_again ? bytes : 0;
	} else if (is_again) {
		c->again_out -= bytes;
	}
}

static struct range *range_of(struct list *l)
{
	return container_of(l, struct range, link);
}

static struct range *first_of(struct list *l)
{
	return list_is_empty(l) ? NULL : range_of(l->next);
}

/* The first lost range of those that a time-out has marked or that were sent once. */
static struct range *first_once(struct tcp_conn *c)
{
	struct range *r = c->lost_at;

	if (!r)
		return first_of(&c->lost);
	while (r && seq_lt(r->seq, c->lost_end) && !range_is_lost(c, r)) {
		work_add(&c->stack->work, 1);
		r = r->next;
	}
	if (r && seq_lt(r->seq, c->lost_end)) {
		c->lost_at = r;
		r->flags |= RANGE_HINT;
		return r;
	}
	c->lost_at = NULL;
	return first_of(&c->lost);
}

/* The lost range to send first, or NULL. */
struct range *sent_first_lost(struct tcp_conn *c)
{
	struct range *once, *again;

	if (!c->lost_bytes)
		return NULL;
	once = first_once(c);
	again = first_of(&c->again);
	if (!once || !again)
		return once ? once : again;
	return seq_lt(again->seq, once->seq) ? again : once;
}

void sent_mark_lost(struct tcp_conn *c, struct range *r)
{
	bool is_again = r->flags & RANGE_RETX;

	c->flags &= ~(uint32_t)CONN_PROBE_LOST;
	if (range_is_probe(c, r)) {
		c->flags |= c->lost_bytes ? 0u : CONN_PROBE_LOST;
		pmtu_probe_lost(c);
	}
	range_uncount(c, r, r->len);
	r->flags = (uint8_t)((r->flags & ~RANGE_PROBE) | RANGE_LOST);
	r->era = c->era;
	c->lost_bytes += r->len;
	c->again_lost += is_again ? r->len : 0;
	list_del(&r->link);
	list_add_tail(is_again ? &c->again : &c->lost, &r->link);
}

/* Ranges that exist now are lost or not, as @is_lost says. */
static void era_begin(struct tcp_conn *c, bool is_lost)
{
	c->era++;
	c->rec.has_era = true;
	c->is_era_lost = is_lost;
	c->is_rack_late = false;
}

/* RFC 2018 section 8: the first range is SACKed and not acknowledged, so the peer has
 * dropped bytes that it had reported.  Unmarks the first SACKed ranges.  If there are
 * more of them, the next time-out finds them. */
static void renege(struct tcp_conn *c)
{
	struct range *r = c->sent.head;

	if (!(r->flags & RANGE_SACKED))
		return;
	c->n_sacks_known = 0;
	for (unsigned i = 0; r && i < WORK_RENEGE; i++, r = r->next) {
		work_add(&c->stack->work, 1);
		if (!(r->flags & RANGE_SACKED))
			continue;
		range_uncount(c, r, r->len);
		r->flags &= (uint8_t)~RANGE_SACKED;
		c->again_out += r->flags & RANGE_RETX ? r->len : 0;
		list_init(&r->link);
		list_add_tail(&c->flight, &r->link);
	}
}

/* RFC 6298 (5.4): after a time-out we send again everything that the peer has not
 * reported. */
void sent_mark_all_lost(struct tcp_conn *c)
{
	renege(c);
	c->flags &= ~(uint32_t)CONN_PROBE_LOST;
	if (c->mtu_probe)
		pmtu_probe_lost(c);
	era_begin(c, true);
	list_splice_tail(&c->lost, &c->again);
	list_splice_tail(&c->lost, &c->flight);
	c->lost_bytes = seq_len(c->snd_una, c->snd_nxt) - c->sacked_bytes;
	c->again_lost += c->again_out;
	c->again_out = 0;
	c->lost_at = c->sent.head;
	c->lost_at->flags |= RANGE_HINT;
	c->lost_end = c->snd_nxt;
}

/* The ranges that we took for lost are in flight. */
void sent_unmark_lost(struct tcp_conn *c)
{
	if (!c->lost_bytes)
		return;
	era_begin(c, false);
	c->mtu_probe = 0; /* a probe in flight will tell nothing */
	list_splice_tail(&c->lost, &c->again);
	list_splice_tail(&c->lost, &c->flight);
	list_splice_tail(&c->flight, &c->lost);
	c->lost_bytes = 0;
	c->again_out += c->again_lost;
	c->again_lost = 0;
	c->lost_at = NULL;
}
