/* SPDX-License-Identifier: MIT */
/*
 * tcp/sent.c - the ranges of sequence numbers that were sent and not yet acknowledged
 *
 *     sent: [range][range SACKED][range LOST]...   snd_una .. snd_nxt, no gaps
 *
 * A range that is not SACKed is in flight or lost (lost.c).  Those in flight are on a
 * list, in the order in which they were sent.  Neighbours that are SACKed are joined
 * into one range.  Each range knows the piece of the send queue in which it begins.
 *
 * The search for a SACK block begins near where the block probably lies: where the last
 * block ended, or at the highest SACKed range.  The blocks of the last ACK are
 * remembered, because most of them come again.  A search that has visited WORK_SACK
 * ranges stops; the peer repeats its blocks, and the search for the next ACK continues
 * there.
 *
 * A range that should be split stays whole if there is no memory for its second part.
 * In the worst case we send all of it again.
 *
 * Spec: RFC 2018, RFC 6675 section 4, RFC 8985 section 5.2
 */
#include "tcp/pmtu.h"
#include "tcp/snd.h"
#include "tcp/stack.h"
#include "tcp/timer.h"

/* A range has arrived after one that was sent later. */
static COLD void range_reordered(struct tcp_conn *c, const struct range *r,
				 struct ack_told *t)
{
	uint32_t bytes = seq_len(r->seq, c->sack_high);
	uint32_t far = (bytes + c->mss - 1) / c->mss;

	c->flags |= CONN_REORDERS;
	far = MIN(far, (uint32_t)UINT8_MAX);
	if (far > c->rec.reordering)
		c->rec.reordering = (uint8_t)far;
	if (!t->is_reordered && c->rec.n_reorders < UINT8_MAX)
		c->rec.n_reorders++;
	t->is_reordered = true;
}

/* Whether the range contains the probe of the path's MTU that is in flight. */
bool range_is_probe(const struct tcp_conn *c, const struct range *r)
{
	return r->flags & RANGE_PROBE && c->mtu_probe && r->era == c->era;
}

/* RFC 8985 section 6.2, steps 1 to 3: a range has arrived. */
static void range_arrived(struct tcp_conn *c, const struct range *r,
			  struct ack_told *t)
{
	uint64_t rtt = c->stack->now_ns - r->xmit_ns;
	bool is_retx = r->flags & RANGE_RETX;

	/* sent_free() frees ranges that have not arrived. */
	if (c->state == TCP_CLOSED)
		return;
	t->delivered += r->len;
	if (range_is_probe(c, r))
		pmtu_probe_arrived(c);
	if (!is_retx) {
		c->rec.n_marked_lost = 0;
		/* It was taken for lost, so its delay is not a round trip of the path. */
		if (!range_is_lost(c, r)) {
			t->last_rtt_ns = rtt ? rtt : 1;
			t->rtt_ns = t->rtt_ns ? t->rtt_ns : t->last_rtt_ns;
		}
		if (c->sacked_bytes && seq_lt(range_end(r), c->sack_high))
			range_reordered(c, r, t);
		if (seq_le(range_end(r), c->recover))
			t->is_original = true;
	} else if (rtt / NS_PER_US < c->min_rtt_us) {
		return; /* the first copy has arrived */
	}
	/* Take the round trip of the range that arrived last, whenever it was sent.  If
	 * it has waited behind a hole, other ranges may have to wait as long. */
	c->rack_rtt_us = clip_us(rtt);
	if (r->xmit_ns > c->rack_xmit_ns ||
	    (r->xmit_ns == c->rack_xmit_ns &&
	     seq_lt(c->rack_end, range_end(r)))) {
		c->rack_xmit_ns = r->xmit_ns;
		c->rack_end = range_end(r);
	}
}

/* Makes hints that point to @r point to @to, which may be NULL. */
static void hints_move(struct tcp_conn *c, const struct range *r,
		       struct range *to)
{
	if (!(r->flags & RANGE_HINT))
		return;
	for (unsigned i = 0; i < ARRAY_LEN(c->sack_hints); i++)
		if (c->sack_hints[i] == r)
			c->sack_hints[i] = to;
	if (c->lost_at == r)
		c->lost_at = to;
	if (to)
		to->flags |= RANGE_HINT;
}

/* Frees the first range: the peer has acknowledged it. */
static void head_acked(struct tcp_conn *c, struct ack_told *t)
{
	struct range *r = c->sent.head;

	if (!(r->flags & RANGE_SACKED)) {
		range_arrived(c, r, t);
		list_del(&r->link);
	}
	if (r->flags & (RANGE_SACKED | RANGE_RETX) || c->lost_bytes)
		range_uncount(c, r, r->len);
	hints_move(c, r, r->next);
	c->sent.head = r->next;
	if (!r->next)
		c->sent.tail = NULL;
	pool_put(&c->stack->pool_ranges, r);
}

/* The first @part bytes of a range have arrived.  Less than a segment says nothing
 * about other ranges. */
static COLD void head_acked_partly(struct tcp_conn *c, struct range *r,
				   uint32_t part, struct ack_told *t)
{
	struct range done = *r;

	done.len = part;
	done.flags &= (uint8_t)~RANGE_PROBE;
	if (!(r->flags & RANGE_SACKED) && part >= c->mss)
		range_arrived(c, &done, t);
	else
		t->delivered += r->flags & RANGE_SACKED ? 0 : part;
	range_uncount(c, r, part);
	r->piece = NULL;
	r->seq = seq_add(r->seq, part);
	r->len -= part;
}

/* Everything before @ack has arrived. */
void sent_acked(struct tcp_conn *c, seq32 ack, struct ack_told *t)
{
	bool fills_hole = false;

	while (c->sent.head && seq_lt(c->sent.head->seq, ack)) {
		struct range *r = c->sent.head;

		fills_hole |= r->flags & RANGE_RETX;
		if (seq_lt(ack, range_end(r))) {
			head_acked_partly(c, r, seq_len(r->seq, ack), t);
			break;
		}
		head_acked(c, t);
	}
	/* The bytes behind the hole have waited for it, as long as the time-out.  A
	 * round trip that includes this wait would make the next time-out even longer. */
	if (fills_hole)
		t->rtt_ns = t->last_rtt_ns = 0;
}

/* The last ranges of the pool are reserved for bytes that arrive in order. */
bool sent_may_split(const struct tcp_conn *c)
{
	const struct pool *p = &c->stack->pool_ranges;

	return p->n_free > p->n / 16;
}

/* Ends the range at @at, which lies in it and in @piece.  The rest becomes a new range.
 * The caller has asked sent_may_split(). */
void sent_split_there(struct tcp_conn *c, struct range *r, seq32 at,
		      struct range *piece)
{
	struct range *rest = pool_get(&c->stack->pool_ranges);

	*rest = *r;
	rest->seq = at;
	rest->len = seq_len(at, range_end(r));
	rest->piece = piece;
	r->len = seq_len(r->seq, at);
	if (range_is_probe(c, r))
		c->mtu_probe = 0; /* a probe that was cut tells nothing */
	rest->flags &= (uint8_t) ~(RANGE_PROBE | RANGE_HINT);
	r->flags &= (uint8_t) ~(RANGE_FIN | RANGE_PROBE | RANGE_EOR);
	r->next = rest;
	list_add_tail(r->link.next, &rest->link);
	if (c->sent.tail == r)
		c->sent.tail = rest;
}

/* Splits a range at @at, which lies in it.  Return: whether it could */
bool sent_split(struct tcp_conn *c, struct range *r, seq32 at)
{
	struct range *piece = range_piece(c, r);

	if (!sent_may_split(c))
		return false;
	/* A range usually lies in few pieces.  One that the peer has reneged on may lie
	 * in many. */
	for (unsigned i = 0; piece && seq_le(range_end(piece), at); i++) {
		if (i > TCP_FRAME_PIECES)
			return false;
		piece = piece->next;
		work_add(&c->stack->work, 1);
	}
	sent_split_there(c, r, at, piece);
	return true;
}

/* A range is about to be sent again. */
void range_again(struct tcp_conn *c, struct range *r)
{
	bool is_probe = range_is_probe(c, r);

	range_uncount(c, r, r->len);
	r->flags &= (uint8_t) ~(RANGE_LOST | (is_probe ? 0 : RANGE_PROBE));
	r->flags |= RANGE_RETX;
	r->era = c->era;
	c->again_out += r->len;
}

static void hint_set(struct tcp_conn *c, unsigned which, struct range *r)
{
	c->sack_hints[which] = r;
	r->flags |= RANGE_HINT;
}

enum { HINT_LAST, HINT_HIGHEST, HINT_SEARCH };

/* Joins @gone, the SACKed range behind @r, to @r. */
static void sacked_join(struct tcp_conn *c, struct range *r, struct range *gone)
{
	r->len += gone->len;
	r->flags |= gone->flags;
	r->xmit_ns = r->xmit_ns > gone->xmit_ns ? r->xmit_ns : gone->xmit_ns;
	r->end_piece = gone->end_piece;
	r->end_seq = gone->end_seq;
	r->next = gone->next;
	if (!r->next)
		c->sent.tail = r;
	hints_move(c, gone, r);
	pool_put(&c->stack->pool_ranges, gone);
}

/* Joins @r, which was just SACKed, with its SACKed neighbours.  Return: the joined
 * range. */
static struct range *sacked_merge(struct tcp_conn *c, struct range *prev,
				  struct range *r)
{
	if (prev && prev->flags & RANGE_SACKED) {
		sacked_join(c, prev, r);
		work_add(&c->stack->work, -1);
		r = prev;
	}
	while (r->next && r->next->flags & RANGE_SACKED)
		sacked_join(c, r, r->next);
	hint_set(c, HINT_LAST, r);
	if (seq_eq(range_end(r), c->sack_high))
		hint_set(c, HINT_HIGHEST, r);
	return r;
}

static void mark_sacked(struct tcp_conn *c, struct range *r, struct ack_told *t)
{
	list_del(&r->link);
	range_arrived(c, r, t);
	range_uncount(c, r, r->len);
	t->sacked += r->len;
	r->flags &= (uint8_t) ~(RANGE_LOST | RANGE_PROBE);
	r->flags |= RANGE_SACKED;
	r->end_piece = r->piece;
	r->end_seq = r->seq;
	/* The places of old blocks say nothing about new ones. */
	c->sack_high = c->sacked_bytes ? seq_max(c->sack_high, range_end(r))
				       : range_end(r);
	c->sacked_bytes += r->len;
}

/* How much of a range a block covers: whole segments, or the rest of the range, as in
 * Linux; a FIN may be missing.  So a peer that acknowledges single bytes here and there
 * cannot make us split a range for each of them. */
static bool block_part(const struct range *r, const struct tcp_sack *b,
		       seq32 *from, seq32 *to)
{
	seq32 end = seq_sub(range_end(r), !!(r->flags & RANGE_FIN));

	*from = r->seq;
	*to = seq_lt(b->to, range_end(r)) ? end : range_end(r);
	if (seq_lt(r->seq, b->from)) {
		uint32_t before = seq_len(r->seq, b->from) + r->room - 1;

		*from = seq_add(r->seq, before - before % r->room);
	}
	if (seq_lt(b->to, end)) {
		uint32_t until = seq_len(r->seq, b->to);

		*to = seq_add(r->seq, until - until % r->room);
	}
	return seq_lt(*from, *to);
}

/* A range at or before @at to begin the search with.  It is the first of all, or ends
 * before @at, or is SACKed.  So the search also learns whether the range before the
 * block is SACKed. */
static struct range *search_begin(const struct tcp_conn *c, seq32 at)
{
	struct range *best = c->sent.head;

	for (unsigned i = 0; i < ARRAY_LEN(c->sack_hints); i++) {
		struct range *r = c->sack_hints[i];

		if (r && seq_le(r->seq, at) && seq_le(best->seq, r->seq) &&
		    (r->flags & RANGE_SACKED || seq_le(range_end(r), at)))
			best = r;
	}
	return best;
}

/* Finds the first range that ends behind @at, and the one before it if that is known.
 * Return: whether it was found. */
static bool block_find(struct tcp_conn *c, seq32 at, int32_t work_max,
		       struct range **prev, struct range **first)
{
	struct range *r = search_begin(c, at);

	for (*prev = NULL; r && seq_le(range_end(r), at); r = r->next) {
		if (c->stack->work.n >= work_max) {
			hint_set(c, HINT_SEARCH, r);
			return false;
		}
		work_add(&c->stack->work, 1);
		*prev = r;
	}
	*first = r;
	return true;
}

/* Return: whether everything of the block that can be marked is marked. */
static bool block_mark(struct tcp_conn *c, struct tcp_sack b, int32_t work_max,
		       struct ack_told *t)
{
	struct range *prev, *r;

	if (!block_find(c, b.from, work_max, &prev, &r))
		return false;
	for (; r && seq_lt(r->seq, b.to); prev = r, r = r->next) {
		seq32 from, to;

		if (c->stack->work.n >= work_max)
			return false;
		work_add(&c->stack->work, 1);
		if (r->flags & RANGE_SACKED || !block_part(r, &b, &from, &to))
			continue;
		if (seq_lt(r->seq, from)) {
			if (!sent_split(c, r, from))
				return false;
			continue;
		}
		if (seq_lt(to, range_end(r)) && !sent_split(c, r, to))
			return false;
		mark_sacked(c, r, t);
		r = sacked_merge(c, prev, r);
	}
	return true;
}

static bool is_known(const struct tcp_conn *c, struct tcp_sack b)
{
	for (unsigned i = 0; i < c->n_sacks_known; i++)
		if (seq_le(c->sacks_known[i].from, b.from) &&
		    seq_le(b.to, c->sacks_known[i].to))
			return true;
	return false;
}

/* Selects the blocks of what is in flight and sorts them.  Unsorted, a lower block
 * would look like reordering.  A block below snd_una reports a duplicate (RFC 2883),
 * and one beyond snd_nxt is meaningless. */
static unsigned blocks_sort(const struct tcp_conn *c, const struct tcp_seg *seg,
			    struct tcp_sack *out)
{
	unsigned n = 0;

	for (unsigned i = 0; i < seg->n_sacks; i++) {
		struct tcp_sack b = seg->sacks[i];
		unsigned at = n;

		if (!seq_lt(b.from, b.to) || seq_lt(b.from, c->snd_una) ||
		    seq_lt(c->snd_nxt, b.to))
			continue;
		for (; at && seq_lt(b.from, out[at - 1].from); at--)
			out[at] = out[at - 1];
		out[at] = b;
		n++;
	}
	return n;
}

/* Takes the SACK blocks of an ACK. */
void sent_sacked(struct tcp_conn *c, const struct tcp_seg *seg,
		 struct ack_told *t)
{
	struct tcp_sack blocks[TCP_SACK_MAX];
	unsigned n = blocks_sort(c, seg, blocks), n_marked = 0;
	int32_t most = seg->len ? WORK_TEXT / 2 : WORK_SACK;

	if (n && !c->sacked_bytes)
		c->n_sacks_known = 0;
	for (unsigned i = 0; i < n; i++)
		if (is_known(c, blocks[i]) || block_mark(c, blocks[i], most, t))
			blocks[n_marked++] = blocks[i];
	n_marked = MIN(n_marked, (unsigned)SACKS_KNOWN);
	if (!n)
		return;
	memcpy(c->sacks_known, blocks, sizeof(blocks[0]) * n_marked);
	c->n_sacks_known = (uint8_t)n_marked;
}

/* Frees the bytes of the send queue before @ack. */
void sndq_acked(struct tcp_conn *c, seq32 ack)
{
	while (c->sndq.head && seq_lt(c->sndq.head->seq, ack)) {
		struct range *r = c->sndq.head;

		if (seq_lt(ack, range_end(r))) {
			uint32_t part = seq_len(r->seq, ack);

			r->seq = ack;
			r->off += part;
			r->len -= part;
			return;
		}
		c->sndq.head = r->next;
		if (!r->next)
			c->sndq.tail = NULL;
		extent_put_to_reuse(r->ext, r->off + r->len);
		pool_put(&c->stack->pool_ranges, r);
	}
}

void sent_free(struct tcp_conn *c)
{
	struct ack_told t = { 0 };

	if (c->sent.head)
		sent_acked(c, c->snd_nxt, &t);
	if (c->sndq.head)
		sndq_acked(c, c->snd_end);
	assert(!c->sent.head);
	assert(!c->sndq.head);
}
