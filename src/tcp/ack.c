/* SPDX-License-Identifier: MIT */
/*
 * tcp/ack.c - what an ACK says about what was sent
 *
 *     sent: [range][range SACKED][range LOST]...   snd_una .. snd_nxt, no gaps
 *
 * An ACK takes ranges away from the front, marks others as SACKED, and so tells by
 * RACK which of those that were sent earlier are lost.  What is lost is sent again by
 * tx.c, before anything new.  Without SACK, three duplicate ACKs say that the first
 * range is lost, and each partial ACK the next (NewReno).
 *
 * A range that cannot be split for want of memory keeps its marks: it is sent again
 * as a whole, later at worst.
 *
 * Spec: RFC 9293 3.10.7.4 "fifth", 5681, 6298, 6582, 6675, 8985
 */
#include "tcp/conn.h"

#define CWND_MAX (1u << 30)

static seq32 node_end(const struct node *n) { return seq_add(n->seq, n->len); }

/* RFC 6298 section 2; the variance's part is 200 ms at least, as in Linux. */
void rtt_sample(struct tcp_conn *c, uint64_t rtt_ns)
{
	uint64_t diff =
	    rtt_ns > c->srtt_ns ? rtt_ns - c->srtt_ns : c->srtt_ns - rtt_ns;

	if (!c->srtt_ns) {
		c->srtt_ns = rtt_ns ? rtt_ns : 1;
		c->rttvar_ns = rtt_ns / 2;
	} else {
		c->rttvar_ns = (3 * c->rttvar_ns + diff) / 4;
		c->srtt_ns = (7 * c->srtt_ns + rtt_ns) / 8;
	}
	uint64_t var = 4 * c->rttvar_ns;
	c->rto_ns = c->srtt_ns + (var > RTO_MIN_NS ? var : RTO_MIN_NS);
	c->rto_ns = MIN(c->rto_ns, RTO_MAX_NS);
	uint32_t us = (uint32_t)MIN(rtt_ns / NS_PER_US, (uint64_t)UINT32_MAX);
	if (!c->min_rtt_us || us < c->min_rtt_us)
		c->min_rtt_us = us ? us : 1;
}

/* What one ACK has told so far. */
struct told {
	uint64_t rtt_ns; /* 0: no sample; Karn: of ranges that were sent once */
	uint32_t delivered; /* bytes that were acknowledged or SACKED */
};

/* RFC 8985 section 6.2, steps 1 to 3: a range has arrived. */
static void range_arrived(struct tcp_conn *c, const struct node *n,
			  struct told *t)
{
	uint64_t rtt = c->stack->now_ns - n->xmit_ns;
	bool is_retx = n->flags & NODE_RETX;

	t->delivered += n->len;
	if (n->flags & NODE_PROBE)
		pmtu_probe_arrived(c);
	if (!is_retx) {
		t->rtt_ns = rtt ? rtt : 1;
		if (seq_lt(node_end(n), c->sack_high))
			c->flags |= CONN_REORDERS;
	} else if (rtt / NS_PER_US < c->min_rtt_us) {
		return; /* it was the first copy that arrived */
	}
	if (n->xmit_ns > c->rack_xmit_ns ||
	    (n->xmit_ns == c->rack_xmit_ns &&
	     seq_lt(c->rack_end, node_end(n)))) {
		c->rack_xmit_ns = n->xmit_ns;
		c->rack_end = node_end(n);
		c->rack_rtt_us =
		    (uint32_t)MIN(rtt / NS_PER_US, (uint64_t)UINT32_MAX);
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

static void sent_acked(struct tcp_conn *c, seq32 ack, struct told *t)
{
	while (c->sent.head && seq_lt(c->sent.head->seq, ack)) {
		struct node *n = c->sent.head;

		if (seq_lt(ack, node_end(n))) {
			uint32_t part = seq_len(n->seq, ack);

			uncount(c, n, part);
			n->seq = ack;
			n->len -= part;
			t->delivered += part;
			return;
		}
		if (!(n->flags & NODE_SACKED))
			range_arrived(c, n, t);
		uncount(c, n, n->len);
		c->sent.head = n->next;
		if (!n->next)
			c->sent.tail = NULL;
		pool_put(&c->stack->pool_nodes, n);
	}
}

/* The send queue's bytes before @ack are not needed any more. */
static void sndq_acked(struct tcp_conn *c, seq32 ack)
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
		c->sndq.head = n->next;
		if (!n->next)
			c->sndq.tail = NULL;
		extent_put(n->ext);
		pool_put(&c->stack->pool_nodes, n);
	}
}

void sent_free(struct tcp_conn *c)
{
	struct told t = { 0 };

	if (c->sent.head)
		sent_acked(c, c->snd_nxt, &t);
	if (c->sndq.head)
		sndq_acked(c, c->snd_end);
	assert(!c->sent.head);
	assert(!c->sndq.head);
}

/* Makes a range end at @at, which lies within it; the rest is a range of its own. */
bool sent_split(struct tcp_conn *c, struct node *n, seq32 at)
{
	struct node *rest = pool_get(&c->stack->pool_nodes);

	if (!rest)
		return false;
	*rest = *n;
	rest->seq = at;
	rest->len = seq_len(at, node_end(n));
	n->len = seq_len(n->seq, at);
	if (n->flags & NODE_PROBE)
		c->mtu_probe = 0; /* cut on its way: it tells nothing */
	rest->flags &= (uint8_t)~NODE_PROBE;
	n->flags &= (uint8_t) ~(NODE_FIN | NODE_PROBE);
	n->next = rest;
	if (c->sent.tail == n)
		c->sent.tail = rest;
	return true;
}

static void mark_sacked(struct tcp_conn *c, struct node *n, struct told *t)
{
	uncount(c, n, n->len);
	n->flags &= (uint8_t)~NODE_LOST;
	range_arrived(c, n, t);
	n->flags |= NODE_SACKED;
	c->sacked_bytes += n->len;
	c->sack_high = seq_max(c->sack_high, node_end(n));
}

static void block_rx(struct tcp_conn *c, struct tcp_sack b, struct told *t)
{
	/* A block that was acknowledged already tells of a duplicate (RFC 2883);
	 * one beyond what was sent tells nothing. */
	if (!seq_lt(b.from, b.to) || seq_lt(b.from, c->snd_una) ||
	    seq_lt(c->snd_nxt, b.to))
		return;
	for (struct node *n = c->sent.head; n && seq_lt(n->seq, b.to);
	     n = n->next) {
		if (n->flags & NODE_SACKED || !seq_lt(b.from, node_end(n)))
			continue;
		if (seq_lt(n->seq, b.from)) {
			if (!sent_split(c, n, b.from))
				return;
			continue;
		}
		if (seq_lt(b.to, node_end(n)) && !sent_split(c, n, b.to))
			return;
		mark_sacked(c, n, t);
	}
}

static void mark_lost(struct tcp_conn *c, struct node *n)
{
	c->flags &= ~(uint32_t)CONN_PROBE_LOST;
	if (n->flags & NODE_PROBE) {
		c->flags |= c->lost_bytes ? 0u : CONN_PROBE_LOST;
		n->flags &= (uint8_t)~NODE_PROBE;
		pmtu_probe_lost(c);
	}
	n->flags |= NODE_LOST;
	c->lost_bytes += n->len;
}

/* RFC 8985 section 6.2, step 4: how long a hole may be reordering. */
static uint64_t reo_wnd_ns(const struct tcp_conn *c)
{
	if (!(c->flags & CONN_REORDERS) &&
	    (c->ca_state != CA_OPEN ||
	     c->sacked_bytes >= (uint32_t)DUP_THRESH * c->mss))
		return 0;
	return MIN(c->min_rtt_us * NS_PER_US / 4, c->srtt_ns);
}

static bool was_sent_before(const struct node *n, uint64_t xmit_ns, seq32 end)
{
	return n->xmit_ns < xmit_ns ||
	       (n->xmit_ns == xmit_ns && seq_lt(node_end(n), end));
}

/* RFC 8985 section 6.2, step 5. */
void ack_rack_detect(struct tcp_conn *c)
{
	uint64_t now = c->stack->now_ns, last = 0;
	uint64_t wait = c->rack_rtt_us * NS_PER_US + reo_wnd_ns(c);

	for (struct node *n = c->sent.head; n; n = n->next) {
		if (n->flags & (NODE_SACKED | NODE_LOST) ||
		    !was_sent_before(n, c->rack_xmit_ns, c->rack_end))
			continue;
		if (n->xmit_ns + wait <= now)
			mark_lost(c, n);
		else if (n->xmit_ns + wait > last)
			last = n->xmit_ns + wait;
	}
	if (last && (c->rtx_kind != RTX_RTO || last < c->rtx_at_ns)) {
		c->rtx_kind = RTX_REO;
		c->rtx_at_ns = last;
		conn_timer_sync(c);
	}
}

/* RFC 6298 (5.4): after a time-out everything is sent again that is not known to have
 * arrived; if even the first range is "known", the peer has forgotten what it SACKed
 * (RFC 2018 section 8). */
void ack_mark_all_lost(struct tcp_conn *c)
{
	bool reneges = c->sent.head && c->sent.head->flags & NODE_SACKED;

	for (struct node *n = c->sent.head; n; n = n->next) {
		if (n->flags & NODE_SACKED && reneges) {
			uncount(c, n, n->len);
			n->flags &= (uint8_t)~NODE_SACKED;
		}
		if (!(n->flags & (NODE_SACKED | NODE_LOST)))
			mark_lost(c, n);
	}
	c->n_reno_sacks = 0;
	c->n_dupacks = 0;
}

static void head_lost(struct tcp_conn *c)
{
	struct node *n = c->sent.head;

	if (!n || n->flags & (NODE_LOST | NODE_SACKED))
		return;
	if (n->len > c->mss)
		sent_split(c, n, seq_add(n->seq, c->mss));
	mark_lost(c, n);
}

/* Without SACK: RFC 5681 section 3.2, RFC 6582. */
static void reno_rx(struct tcp_conn *c, const struct tcp_seg *seg,
		    uint32_t acked, bool is_dup)
{
	if (acked) {
		uint32_t n = acked / c->mss;

		c->n_dupacks = 0;
		c->n_reno_sacks =
		    c->ca_state == CA_RECOVERY && c->n_reno_sacks > n
			? c->n_reno_sacks - n
			: 0;
		if (c->ca_state == CA_RECOVERY && seq_lt(seg->ack, c->recover))
			head_lost(c);
		return;
	}
	if (!is_dup || c->ca_state == CA_LOSS)
		return;
	c->n_reno_sacks++;
	if (c->n_dupacks < UINT8_MAX)
		c->n_dupacks++;
	if (c->n_dupacks == DUP_THRESH && c->ca_state == CA_OPEN &&
	    seq_lt(c->recover, c->snd_una))
		head_lost(c);
}

/* A segment that fills a hole has an older number than those behind the hole, whose
 * window it must not keep: besides RFC 9293's test, an ACK that is new brings the
 * window that belongs to it. */
static void window_rx(struct tcp_conn *c, const struct tcp_seg *seg,
		      bool is_new)
{
	if (!is_new && !seq_lt(c->snd_wl1, seg->seq) &&
	    !(seq_eq(c->snd_wl1, seg->seq) && seq_le(c->snd_wl2, seg->ack)))
		return;
	c->snd_wnd = (uint32_t)seg->wnd << c->snd_wscale;
	c->max_wnd = c->snd_wnd > c->max_wnd ? c->snd_wnd : c->max_wnd;
	c->snd_wl1 = seg->seq;
	c->snd_wl2 = seg->ack;
}

/* RFC 5681: the window falls once for all that was lost in one flight. */
static void recovery_enter(struct tcp_conn *c)
{
	if (!(c->flags & CONN_PROBE_LOST)) {
		c->ssthresh = c->cc->ssthresh(c);
		c->cwnd = c->ssthresh;
	}
	c->recover = c->snd_nxt;
	c->ca_state = CA_RECOVERY;
	conn_due(c, TX_DATA | TX_FORCE);
}

void recovery_update(struct tcp_conn *c)
{
	if (c->ca_state != CA_OPEN && seq_le(c->recover, c->snd_una)) {
		c->ca_state = CA_OPEN;
		c->n_dupacks = 0;
		c->n_reno_sacks = 0;
	}
	if (c->ca_state == CA_OPEN && c->lost_bytes)
		recovery_enter(c);
}

/* RFC 7661: a window that was not used does not grow. */
static void window_grow(struct tcp_conn *c, uint32_t acked, uint32_t flight)
{
	bool is_used = c->flags & CONN_CWND_LIMITED ||
		       (c->cwnd < c->ssthresh && c->cwnd < 2 * flight);

	if (!acked || c->ca_state == CA_RECOVERY || !is_used)
		return;
	c->cc->on_ack(c, acked);
	c->cwnd = MIN(c->cwnd, CWND_MAX);
}

/* An ACK of snd_una .. snd_nxt, or a duplicate.  Calls nothing that ends @c. */
void ack_rx(struct tcp_conn *c, const struct tcp_seg *seg)
{
	struct told t = { 0 };
	uint32_t flight = seq_len(c->snd_una, c->snd_nxt), acked = 0;
	uint32_t wnd_before = c->snd_wnd;

	if (seq_lt(c->snd_una, seg->ack)) {
		acked = seq_len(c->snd_una, seg->ack);
		sent_acked(c, seg->ack, &t);
		sndq_acked(c, seg->ack);
		c->snd_una = seg->ack;
		c->n_rtx = 0;
		c->rtx_since_ns = 0;
		conn_news(c);
	}
	window_rx(c, seg, acked > 0);
	c->n_probes = 0;
	if (c->flags & CONN_SACK) {
		for (unsigned i = 0; i < seg->n_sacks; i++)
			block_rx(c, seg->sacks[i], &t);
	} else {
		reno_rx(c, seg, acked,
			seq_eq(seg->ack, c->snd_una) && flight && !seg->len &&
			    !(seg->flags & TCP_FIN) &&
			    c->snd_wnd == wnd_before);
	}
	if (t.rtt_ns)
		rtt_sample(c, t.rtt_ns);
	conn_rtx_update(c, acked > 0);
	if (c->flags & CONN_SACK && c->sent.head &&
	    (c->sacked_bytes || c->ca_state != CA_OPEN))
		ack_rack_detect(c);
	recovery_update(c);
	window_grow(c, acked, flight);
	if (c->ca_state == CA_OPEN && acked)
		c->recover = seq_sub(c->snd_una, 1);
	conn_due(c, TX_DATA);
}
