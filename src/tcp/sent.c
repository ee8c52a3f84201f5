/* SPDX-License-Identifier: MIT */
/*
 * tcp/sent.c - the ranges of sequence space that were sent and not yet acknowledged
 *
 *     sent: [range][range SACKED][range LOST]...   snd_una .. snd_nxt, no gaps
 *
 * A range that has not arrived is in flight, on a list in the order in which they were
 * sent, or it is lost: see lost.c.  Ranges that were SACKED and touch become one.  Each
 * range knows the piece of the send queue in which it begins.
 *
 * A block of an ACK is looked for from places near which it is likely to begin: where the
 * last block ended, and where the highest range is that was SACKED.  The blocks of the last
 * ACK are remembered, because most of them come again.  When the search is not over after
 * WORK_SACK ranges, the block is left alone, and the next ACK's search goes on from there:
 * the peer repeats its blocks.
 *
 * A range that cannot be split for want of memory keeps its marks: it is sent again
 * as a whole, later at worst.
 *
 * Spec: RFC 2018, RFC 6675 section 4, RFC 8985 section 5.2
 */
#include "tcp/conn.h"

/* @n has come behind what was sent after it. */
static void range_reordered(struct tcp_conn *c, const struct range *r,
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

/* Whether the probe of the path that is under way is in the range. */
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

	/* What is given up when the connection is over has not arrived. */
	if (c->state == TCP_CLOSED)
		return;
	t->delivered += r->len;
	if (range_is_probe(c, r))
		pmtu_probe_arrived(c);
	if (!is_retx) {
		c->rec.n_marked_lost = 0;
		/* What was given up as lost was heard of late, not slow. */
		if (!range_is_lost(c, r)) {
			t->last_rtt_ns = rtt ? rtt : 1;
			t->rtt_ns = t->rtt_ns ? t->rtt_ns : t->last_rtt_ns;
		}
		if (c->sacked_bytes && seq_lt(range_end(r), c->sack_high))
			range_reordered(c, r, t);
		if (seq_le(range_end(r), c->recover))
			t->is_original = true;
	} else if (rtt / NS_PER_US < c->min_rtt_us) {
		return; /* it was the first copy that arrived */
	}
	/* The last one's, whenever it was sent: who waited long behind a hole lets others
	 * wait as long. */
	c->rack_rtt_us = clip_us(rtt);
	if (r->xmit_ns > c->rack_xmit_ns ||
	    (r->xmit_ns == c->rack_xmit_ns &&
	     seq_lt(c->rack_end, range_end(r)))) {
		c->rack_xmit_ns = r->xmit_ns;
		c->rack_end = range_end(r);
	}
}

/* What refers to @n refers to @to now, which may be NULL. */
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

/* The ACK of the first range; its memory is given back. */
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

/* The first @part bytes of a range have arrived; what is less than a segment tells of
 * nothing else. */
static void head_acked_partly(struct tcp_conn *c, struct range *r,
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

/* All before @ack has arrived. */
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
	/* What stood behind the hole has waited for its ACK, not travelled: as long as
	 * the time-out was, which would make the next one longer still. */
	if (fills_hole)
		t->rtt_ns = t->last_rtt_ns = 0;
}

/* The last ones of the pool are for what comes in order. */
bool sent_may_split(const struct tcp_conn *c)
{
	const struct pool *p = &c->stack->pool_ranges;

	return p->n_free > p->n / 16;
}

/* Makes a range end at @at, which lies within it and in @piece; the rest is a range of its
 * own.  sent_may_split() has said yes. */
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
		c->mtu_probe = 0; /* cut on its way: it tells nothing */
	rest->flags &= (uint8_t) ~(RANGE_PROBE | RANGE_HINT);
	r->flags &= (uint8_t) ~(RANGE_FIN | RANGE_PROBE | RANGE_EOR);
	r->next = rest;
	list_add_tail(r->link.next, &rest->link);
	if (c->sent.tail == r)
		c->sent.tail = rest;
}

/* Return: whether the range ends at @at, which lies within it. */
bool sent_split(struct tcp_conn *c, struct range *r, seq32 at)
{
	struct range *piece = range_piece(c, r);

	if (!sent_may_split(c))
		return false;
	/* What was sent is in few pieces; what the peer has forgotten may be in many. */
	for (unsigned i = 0; piece && seq_le(range_end(piece), at); i++) {
		if (i > TCP_FRAME_PIECES)
			return false;
		piece = piece->next;
		work_add(&c->stack->work, 1);
	}
	sent_split_there(c, r, at, piece);
	return true;
}

/* The range leaves again. */
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

/* @gone, which is behind @n, and SACKED as it is, becomes a part of it. */
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

/* @n, which was just SACKED, becomes one with its neighbours if they are.
 * Return: what it is part of now. */
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
	/* Where blocks were long ago tells nothing of those that come now. */
	c->sack_high = c->sacked_bytes ? seq_max(c->sack_high, range_end(r))
				       : range_end(r);
	c->sacked_bytes += r->len;
}

/* What a block tells of a range: whole segments, and what is left at its end, as Linux has
 * it; a FIN may be left out.  Who acknowledges bytes here and there gets no range for each. */
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

/* A range that begins at @at or before it, and is the first, or ends before @at, or was
 * SACKED: so it is known whether the one before the block's first was SACKED. */
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

/* The first range that ends behind @at, and the one before it, if that is known.
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

/* Return: whether all of the block is marked that can be. */
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

/* The blocks of what is in flight, in their order, or a low one would look as if the
 * path reordered.  One that was acknowledged already tells of a duplicate (RFC 2883);
 * one beyond what was sent tells nothing. */
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

/* What an ACK's blocks tell. */
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

/* The send queue's bytes before @ack are not needed any more. */
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
		extent_put_to_reuse(r->ext);
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
