/* SPDX-License-Identifier: MIT */
/*
 * tcp/sent.c - the ranges of sequence space that were sent and not yet acknowledged
 *
 *     sent: [range][range SACKED][range LOST]...   snd_una .. snd_nxt, no gaps
 *
 * Each range that has not arrived is on one of two lists: of those in flight, in the
 * order in which they were sent; or of those that are lost, by sequence number.  So
 * neither detection nor retransmission looks through ranges that do not concern it.
 * Ranges that were SACKED and touch become one.  Where the last block lay is kept as
 * a hint, and so are the blocks of the last ACK, most of which come again.
 *
 * A range that cannot be split for want of memory keeps its marks: it is sent again
 * as a whole, later at worst.
 *
 * Spec: RFC 2018, RFC 6675 section 4, RFC 8985 section 5.2
 */
#include "tcp/conn.h"

/* @n has come behind what was sent after it. */
static void range_reordered(struct tcp_conn *c, const struct node *n,
			    struct ack_told *t)
{
	uint32_t bytes = seq_len(n->seq, c->sack_high);
	uint32_t far = (bytes + c->mss - 1) / c->mss;

	c->flags |= CONN_REORDERS;
	far = MIN(far, (uint32_t)UINT8_MAX);
	if (far > c->rec.reordering)
		c->rec.reordering = (uint8_t)far;
	if (!t->is_reordered && c->rec.n_reorders < UINT8_MAX)
		c->rec.n_reorders++;
	t->is_reordered = true;
}

/* RFC 8985 section 6.2, steps 1 to 3: a range has arrived. */
static void range_arrived(struct tcp_conn *c, const struct node *n,
			  struct ack_told *t)
{
	uint64_t rtt = c->stack->now_ns - n->xmit_ns;
	bool is_retx = n->flags & NODE_RETX;

	/* What is given up when the connection is over has not arrived. */
	if (c->state == TCP_CLOSED)
		return;
	t->delivered += n->len;
	if (n->flags & NODE_PROBE)
		pmtu_probe_arrived(c);
	if (!is_retx) {
		c->rec.n_marked_lost = 0;
		/* What was given up as lost was heard of late, not slow. */
		if (!(n->flags & NODE_LOST)) {
			t->last_rtt_ns = rtt ? rtt : 1;
			t->rtt_ns = t->rtt_ns ? t->rtt_ns : t->last_rtt_ns;
		}
		if (c->sacked_bytes && seq_lt(node_end(n), c->sack_high))
			range_reordered(c, n, t);
		if (seq_le(node_end(n), c->recover))
			t->is_original = true;
	} else if (rtt / NS_PER_US < c->min_rtt_us) {
		return; /* it was the first copy that arrived */
	}
	if (n->xmit_ns > c->rack_xmit_ns ||
	    (n->xmit_ns == c->rack_xmit_ns &&
	     seq_lt(c->rack_end, node_end(n)))) {
		c->rack_xmit_ns = n->xmit_ns;
		c->rack_end = node_end(n);
		c->rack_rtt_us = clip_us(rtt);
	}
}

/* @n bytes of a range with its marks are counted no longer. */
static void uncount(struct tcp_conn *c, const struct node *n, uint32_t bytes)
{
	if (n->flags & NODE_SACKED)
		c->sacked_bytes -= bytes;
	if (n->flags & NODE_LOST)
		c->lost_bytes -= bytes;
}

/* The ACK of the first range; its memory is given back. */
static void head_acked(struct tcp_conn *c, struct ack_told *t)
{
	struct node *n = c->sent.head;

	if (!(n->flags & NODE_SACKED)) {
		range_arrived(c, n, t);
		list_del(&n->link);
	}
	uncount(c, n, n->len);
	if (n->flags & NODE_SACKED && c->sack_hint == n)
		c->sack_hint = NULL;
	c->sent.head = n->next;
	if (!n->next)
		c->sent.tail = NULL;
	pool_put(&c->stack->pool_nodes, n);
}

/* The first @part bytes of a range have arrived; what is less than a segment tells of
 * nothing else. */
static void head_acked_partly(struct tcp_conn *c, struct node *n, uint32_t part,
			      struct ack_told *t)
{
	struct node done = *n;

	done.len = part;
	done.flags &= (uint8_t)~NODE_PROBE;
	if (!(n->flags & NODE_SACKED) && part >= c->mss)
		range_arrived(c, &done, t);
	else
		t->delivered += n->flags & NODE_SACKED ? 0 : part;
	uncount(c, n, part);
	n->seq = seq_add(n->seq, part);
	n->len -= part;
}

/* All before @ack has arrived. */
void sent_acked(struct tcp_conn *c, seq32 ack, struct ack_told *t)
{
	bool fills_hole = false;

	while (c->sent.head && seq_lt(c->sent.head->seq, ack)) {
		struct node *n = c->sent.head;

		fills_hole |= n->flags & NODE_RETX;
		if (seq_lt(ack, node_end(n))) {
			head_acked_partly(c, n, seq_len(n->seq, ack), t);
			break;
		}
		head_acked(c, t);
	}
	/* What stood behind the hole has waited for its ACK, not travelled: as long as
	 * the time-out was, which would make the next one longer still. */
	if (fills_hole)
		t->rtt_ns = t->last_rtt_ns = 0;
}

/* Makes a range end at @at, which lies within it; the rest is a range of its own. */
bool sent_split(struct tcp_conn *c, struct node *n, seq32 at)
{
	struct pool *p = &c->stack->pool_nodes;
	/* The last ones are for what comes in order. */
	struct node *rest = p->n_free > p->n / 16 ? pool_get(p) : NULL;

	if (!rest)
		return false;
	*rest = *n;
	rest->seq = at;
	rest->len = seq_len(at, node_end(n));
	n->len = seq_len(n->seq, at);
	if (n->flags & NODE_PROBE)
		c->mtu_probe = 0; /* cut on its way: it tells nothing */
	rest->flags &= (uint8_t)~NODE_PROBE;
	n->flags &= (uint8_t) ~(NODE_FIN | NODE_PROBE | NODE_EOR);
	n->next = rest;
	list_add_tail(n->link.next, &rest->link);
	if (c->sent.tail == n)
		c->sent.tail = rest;
	return true;
}

/* @n, which was just SACKED, becomes one with its neighbours if they are.
 * Return: what it is part of now. */
static struct node *sacked_merge(struct tcp_conn *c, struct node *prev,
				 struct node *n)
{
	if (prev && prev->flags & NODE_SACKED)
		n = prev;
	while (n->next && n->next->flags & NODE_SACKED) {
		struct node *gone = n->next;

		n->len += gone->len;
		n->flags |= gone->flags;
		n->xmit_ns =
		    n->xmit_ns > gone->xmit_ns ? n->xmit_ns : gone->xmit_ns;
		n->next = gone->next;
		if (!n->next)
			c->sent.tail = n;
		pool_put(&c->stack->pool_nodes, gone);
	}
	c->sack_hint = n;
	return n;
}

static void mark_sacked(struct tcp_conn *c, struct node *n, struct ack_told *t)
{
	uncount(c, n, n->len);
	list_del(&n->link);
	range_arrived(c, n, t);
	t->sacked += n->len;
	n->flags &= (uint8_t) ~(NODE_LOST | NODE_PROBE);
	n->flags |= NODE_SACKED;
	/* Where blocks were long ago tells nothing of those that come now. */
	c->sack_high =
	    c->sacked_bytes ? seq_max(c->sack_high, node_end(n)) : node_end(n);
	c->sacked_bytes += n->len;
}

/* What a block tells of a range: whole segments, and what is left at its end, as Linux has
 * it; a FIN may be left out.  Who acknowledges bytes here and there gets no range for each. */
static bool block_part(const struct node *n, const struct tcp_sack *b,
		       seq32 *from, seq32 *to)
{
	seq32 end = seq_sub(node_end(n), !!(n->flags & NODE_FIN));

	*from = n->seq;
	*to = seq_lt(b->to, node_end(n)) ? end : node_end(n);
	if (seq_lt(n->seq, b->from)) {
		uint32_t before = seq_len(n->seq, b->from) + n->room - 1;

		*from = seq_add(n->seq, before - before % n->room);
	}
	if (seq_lt(b->to, end)) {
		uint32_t until = seq_len(n->seq, b->to);

		*to = seq_add(n->seq, until - until % n->room);
	}
	return seq_lt(*from, *to);
}

/* Return: whether all of the block is marked that can be. */
static bool block_mark(struct tcp_conn *c, struct tcp_sack b,
		       struct ack_told *t)
{
	struct node *prev = NULL, *n = c->sent.head;

	if (c->sack_hint && seq_le(c->sack_hint->seq, b.from))
		n = c->sack_hint;
	for (; n && seq_lt(n->seq, b.to); prev = n, n = n->next) {
		seq32 from, to;

		if (n->flags & NODE_SACKED || !seq_lt(b.from, node_end(n)) ||
		    !block_part(n, &b, &from, &to))
			continue;
		if (seq_lt(n->seq, from)) {
			if (!sent_split(c, n, from))
				return false;
			continue;
		}
		if (seq_lt(to, node_end(n)) && !sent_split(c, n, to))
			return false;
		mark_sacked(c, n, t);
		n = sacked_merge(c, prev, n);
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

	if (n && !c->sacked_bytes)
		c->n_sacks_known = 0;
	for (unsigned i = 0; i < n; i++)
		if (is_known(c, blocks[i]) || block_mark(c, blocks[i], t))
			blocks[n_marked++] = blocks[i];
	n_marked = MIN(n_marked, (unsigned)SACKS_KNOWN);
	if (!n)
		return;
	memcpy(c->sacks_known, blocks, sizeof(blocks[0]) * n_marked);
	c->n_sacks_known = (uint8_t)n_marked;
}

static struct node *lost_at(struct list *l)
{
	return container_of(l, struct node, link);
}

/* The range that is lost and comes first, or NULL. */
struct node *sent_first_lost(struct tcp_conn *c)
{
	return c->lost_bytes ? lost_at(c->lost.next) : NULL;
}

/* Most are found in their order, and what was sent again and lost again comes before
 * the others: both ends of the list are looked at first. */
void sent_mark_lost(struct tcp_conn *c, struct node *n)
{
	struct list *at = c->lost.prev;

	c->flags &= ~(uint32_t)CONN_PROBE_LOST;
	if (n->flags & NODE_PROBE) {
		c->flags |= c->lost_bytes ? 0u : CONN_PROBE_LOST;
		n->flags &= (uint8_t)~NODE_PROBE;
		pmtu_probe_lost(c);
	}
	n->flags |= NODE_LOST;
	c->lost_bytes += n->len;
	list_del(&n->link);
	if (!list_is_empty(&c->lost) &&
	    seq_lt(n->seq, lost_at(c->lost.next)->seq))
		at = &c->lost;
	while (at != &c->lost && seq_lt(n->seq, lost_at(at)->seq))
		at = at->prev;
	list_add_tail(at->next, &n->link);
}

/* RFC 6298 (5.4): after a time-out everything is sent again that is not known to have
 * arrived; if even the first range is "known", the peer has forgotten what it SACKed
 * (RFC 2018 section 8). */
void sent_mark_all_lost(struct tcp_conn *c)
{
	bool reneges = c->sent.head->flags & NODE_SACKED;

	if (reneges) {
		c->n_sacks_known = 0;
		c->sack_hint = NULL;
	}
	for (struct node *n = c->sent.head; n; n = n->next) {
		if (n->flags & NODE_SACKED && reneges) {
			uncount(c, n, n->len);
			n->flags &= (uint8_t)~NODE_SACKED;
		}
		if (!(n->flags & (NODE_SACKED | NODE_LOST)))
			sent_mark_lost(c, n);
	}
}

/* What was taken for lost is in flight after all. */
void sent_unmark_lost(struct tcp_conn *c)
{
	struct node *n;

	while ((n = sent_first_lost(c))) {
		struct list *at = c->flight.next;

		n->flags &= (uint8_t)~NODE_LOST;
		c->lost_bytes -= n->len;
		list_del(&n->link);
		while (at != &c->flight && lost_at(at)->xmit_ns <= n->xmit_ns)
			at = at->next;
		list_add_tail(at, &n->link);
	}
}

/* The send queue's bytes before @ack are not needed any more. */
void sndq_acked(struct tcp_conn *c, seq32 ack)
{
	while (c->sndq.head && seq_lt(c->sndq.head->seq, ack)) {
		struct node *n = c->sndq.head;

		if (seq_lt(ack, node_end(n))) {
			uint32_t part = seq_len(n->seq, ack);

			n->seq = ack;
			n->off += part;
			n->len -= part;
			return;
		}
		for (unsigned i = 0; i < ARRAY_LEN(c->sndq_hints); i++)
			if (n->flags & NODE_HINT && c->sndq_hints[i] == n)
				c->sndq_hints[i] = NULL;
		c->sndq.head = n->next;
		if (!n->next)
			c->sndq.tail = NULL;
		extent_put_to_reuse(n->ext);
		pool_put(&c->stack->pool_nodes, n);
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
