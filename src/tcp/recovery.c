/* SPDX-License-Identifier: MIT */
/*
 * tcp/recovery.c - the congestion window when something was lost, or seems to be
 *
 *              loss              time-out
 *     OPEN ----------> RECOVERY ----------> LOSS
 *      |  ECE                                |
 *      +-----> CWR         ... each until snd_una is at recover, or it is undone
 *
 * At the start of an episode the algorithm (cc.h) says how far the window falls.  In
 * CWR and RECOVERY each ACK lowers it in proportion to what has arrived (PRR).  An
 * episode is undone when something shows that nothing was lost: the echo of a timestamp
 * from before the first retransmission (Eifel); DSACKs for everything that was sent
 * again; or, after a time-out, the arrival of a range that was sent once (F-RTO).
 *
 * Spec: RFC 9937 (PRR), 3522 and 4015 (Eifel), 3708 (DSACK), 5682 (F-RTO), 3168 (ECN),
 *       6582
 */
#include "tcp/snd.h"
#include "tcp/work.h"

/* --- proportional rate reduction --- */

/* RFC 9937 section 6.2: cwnd is what is in flight plus what may be sent now. */
static void prr_update(struct tcp_conn *c, uint32_t delivered, bool is_safe)
{
	struct tcp_recovery *r = &c->rec;
	uint32_t pipe = conn_pipe(c), goal = c->ssthresh;
	int64_t n;

	r->prr_delivered += delivered;
	if (pipe > goal) {
		n = (int64_t)(((uint64_t)r->prr_delivered * goal + r->flight -
			       1) /
			      r->flight) -
		    r->prr_out;
	} else {
		n = (int64_t)r->prr_delivered - r->prr_out;
		n = n > delivered ? n : delivered;
		n += is_safe ? c->mss : 0;
		n = n < (int64_t)goal - pipe ? n : (int64_t)goal - pipe;
	}
	/* The first retransmission leaves at once. */
	if (!r->prr_out && n < c->mss)
		n = c->mss;
	c->cwnd = pipe + (uint32_t)(n > 0 ? n : 0);
}

/* --- episodes --- */

/* RFC 5681: the window falls once for all losses of one flight.  @flight: bytes in
 * flight before the ACK that reports the loss */
static void episode_begin(struct tcp_conn *c, uint32_t flight)
{
	struct tcp_recovery *r = &c->rec;

	/* Nothing is in flight if everything was SACKed before. */
	r->flight = flight ? flight : 1;
	r->prr_delivered = r->prr_out = 0;
	r->prior_cwnd = c->cwnd;
	r->prior_ssthresh = c->ssthresh;
	r->undo_from = c->snd_una;
	r->undo_bytes = 0;
	r->may_undo = true;
	r->has_retx = false;
	c->ssthresh = c->cc->ssthresh(c);
	if (c->flags & CONN_ECN)
		c->flags |= CONN_CWR_PENDING;
}

static void recovery_enter(struct tcp_conn *c, uint32_t flight)
{
	if (c->ca_state == CA_OPEN)
		episode_begin(c, flight);
	c->recover = c->snd_nxt;
	c->ca_state = CA_RECOVERY;
	c->rec.is_tlp_out = false;
	prr_update(c, 0, false);
	conn_set_pending(c, TX_DATA | TX_FORCE);
}

/* RFC 3168 section 6.1.2: react as to a loss, although nothing is lost. */
static void cwr_enter(struct tcp_conn *c, uint32_t flight)
{
	/* RFC 3168 halves cwnd, whether it was used or not. */
	episode_begin(c, c->cwnd);
	c->rec.flight = flight ? flight : 1;
	c->rec.may_undo = false;
	c->recover = c->snd_nxt;
	c->ca_state = CA_CWR;
}

/* RFC 6298 (5.4) to (5.6), RFC 5681 section 3.1 (4). */
void recovery_timeout(struct tcp_conn *c)
{
	bool is_new = c->ca_state == CA_OPEN;

	if (is_new)
		episode_begin(c, seq_len(c->snd_una, c->snd_nxt));
	if (c->ca_state != CA_LOSS) {
		c->recover = c->snd_nxt;
		if (c->cc->timed_out)
			c->cc->timed_out(c);
	}
	c->rec.frto =
	    c->rec.may_undo && (is_new || c->n_rtx) ? FRTO_BEGUN : FRTO_NONE;
	c->rec.is_tlp_out = false;
	ecn_timeout(c);
	c->ca_state = CA_LOSS;
	c->cwnd = c->mss;
	c->n_reno_sacks = 0;
	c->n_dupacks = 0;
	sent_mark_all_lost(c);
}

static void episode_end(struct tcp_conn *c)
{
	if (c->ca_state != CA_LOSS)
		c->cwnd = c->ssthresh;
	if (c->ca_state != CA_CWR)
		rack_recovered(c);
	c->ca_state = CA_OPEN;
	c->rec.frto = FRTO_NONE;
	c->n_dupacks = 0;
	c->n_reno_sacks = 0;
}

/* Ends the episode, or begins one if something is lost; @flight as above. */
void recovery_update(struct tcp_conn *c, uint32_t flight)
{
	/* CWR ends when the peer has acknowledged something that was sent after the
	 * window fell. */
	if (c->ca_state != CA_OPEN &&
	    seq_lt(c->recover, seq_add(c->snd_una, c->ca_state != CA_CWR)))
		episode_end(c);
	if (c->ca_state > CA_CWR || !c->lost_bytes)
		return;
	/* Only a probe of the path's MTU is lost: that is no congestion. */
	if (c->flags & CONN_PROBE_LOST)
		conn_set_pending(c, TX_DATA | TX_FORCE);
	else
		recovery_enter(c, flight);
}

/* --- undo --- */

static void undo(struct tcp_conn *c)
{
	struct tcp_recovery *r = &c->rec;

	c->cwnd = c->cwnd > r->prior_cwnd ? c->cwnd : r->prior_cwnd;
	if (c->ssthresh < r->prior_ssthresh)
		c->ssthresh = r->prior_ssthresh;
	c->cc->undo(c);
	sent_unmark_lost(c);
	r->may_undo = false;
	r->frto = FRTO_NONE;
	c->ca_state = CA_OPEN;
	c->n_rtx = 0;
	c->n_dupacks = 0;
	c->n_reno_sacks = 0;
}

/* RFC 3522: the ACK answers a segment that was sent before the first retransmission. */
static bool is_eifel(const struct tcp_conn *c, const struct tcp_seg *seg,
		     uint32_t acked)
{
	const struct tcp_recovery *r = &c->rec;

	return acked && c->flags & CONN_TS && seg->has_ts &&
	       seq_lt(r->retx_first, seg->ack) &&
	       (int32_t)(seg->tsecr - r->retx_ts) < 0;
}

/* A range is sent again during the episode. */
void recovery_retx(struct tcp_conn *c, const struct range *range)
{
	struct tcp_recovery *r = &c->rec;

	if (!r->has_retx) {
		r->has_retx = true;
		r->retx_ts = conn_tsval(c);
		r->retx_first = range->seq;
	}
	r->undo_bytes += range->len;
}

/* RFC 3708: the peer has received @b twice. */
static void dsack_rx(struct tcp_conn *c, struct tcp_sack b)
{
	struct tcp_recovery *r = &c->rec;
	uint32_t n = seq_len(b.from, b.to);

	c->n_dsacks += n > c->mss ? (n + c->mss - 1) / c->mss : 1;
	/* The duplicate of a tail loss probe says nothing about reordering. */
	if (!r->is_tlp_out || !seq_eq(b.to, r->tlp_end))
		rack_duplicate(c);
	if (r->may_undo && seq_le(r->undo_from, b.from) &&
	    seq_le(b.to, c->snd_nxt))
		r->undo_bytes -= MIN(n, r->undo_bytes);
}

/* RFC 2883 section 4: the first block reports a duplicate if it lies below the ACK or
 * in the second block.  Return: whether it does. */
static bool find_dsack(struct tcp_conn *c, const struct tcp_seg *seg)
{
	const struct tcp_sack *b = seg->sacks;

	if (!seg->n_sacks || !seq_lt(b->from, b->to) ||
	    seq_len(b->from, b->to) > c->max_wnd)
		return false;
	if (!seq_le(b->to, seg->ack) &&
	    !(seg->n_sacks > 1 && seq_le(b[1].from, b->from) &&
	      seq_le(b->to, b[1].to)))
		return false;
	dsack_rx(c, *b);
	return true;
}

static bool try_undo(struct tcp_conn *c, const struct tcp_seg *seg,
		     uint32_t acked)
{
	const struct tcp_recovery *r = &c->rec;

	if (!r->may_undo || !r->has_retx)
		return false;
	if (r->undo_bytes && !is_eifel(c, seg, acked))
		return false;
	/* Something arrived late or twice, so the path reorders. */
	if (c->ca_state != CA_LOSS)
		c->flags |= CONN_REORDERS;
	undo(c);
	return true;
}

/* RFC 5682, with SACK its section 3: after a time-out we send the first segment again
 * and then new ones.  If a range that was sent once arrives, it was not lost. */
static void frto_rx(struct tcp_conn *c, uint32_t acked,
		    const struct ack_told *t)
{
	struct tcp_recovery *r = &c->rec;
	bool has_sack = c->flags & CONN_SACK;

	if (r->frto == FRTO_NONE)
		return;
	assert(c->ca_state == CA_LOSS);
	if (t->is_original && (has_sack || r->frto == FRTO_NEW)) {
		undo(c);
	} else if (!acked) {
		/* A duplicate ACK: something is missing indeed. */
		r->frto = FRTO_NONE;
	} else if (r->frto == FRTO_BEGUN) {
		r->frto = conn_has_unsent(c) && c->snd_wnd >= 2u * c->mss
			      ? FRTO_NEW
			      : FRTO_NONE;
	} else {
		/* Parts of what was sent again have arrived. */
		r->frto = FRTO_NONE;
	}
}

/* Applies an ACK to the episode, or begins one. */
void recovery_rx(struct tcp_conn *c, const struct tcp_seg *seg, uint32_t acked,
		 const struct ack_told *t)
{
	bool has_dsack = c->flags & CONN_SACK && find_dsack(c, seg);
	uint32_t flight = conn_pipe(c) + c->lost_bytes + t->delivered;
	uint32_t lost;

	if (tlp_acked(c, seg, t->is_dup, has_dsack) && c->ca_state == CA_OPEN) {
		episode_begin(c, flight);
		c->rec.may_undo = false;
		c->cwnd = c->ssthresh;
	}
	if (!try_undo(c, seg, acked))
		frto_rx(c, acked, t);
	lost = c->lost_bytes;
	if (c->flags & CONN_SACK && c->sent.head &&
	    (c->sacked_bytes || c->ca_state != CA_OPEN))
		rack_detect(c, seg->len ? WORK_TEXT : WORK_MAX);
	recovery_update(c, flight);
	if (seg->flags & TCP_ECE && c->flags & CONN_ECN &&
	    c->ca_state == CA_OPEN)
		cwr_enter(c, flight);
	if (c->ca_state == CA_RECOVERY || c->ca_state == CA_CWR)
		prr_update(c, t->delivered, acked && c->lost_bytes <= lost);
}
