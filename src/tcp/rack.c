/* SPDX-License-Identifier: MIT */
/*
 * tcp/rack.c - RACK-TLP: what time says about loss
 *
 * A range is lost if a range that was sent later has arrived, and the reordering window
 * has passed since.  That window is 0 until the path has reordered something.  Then it
 * is a quarter of the smallest round trip, and grows in each round in which a duplicate
 * (DSACK) shows that it was too small.
 *
 * If no ACK arrives at all, a tail loss probe precedes the time-out: a new segment, or
 * the last one again.  Suppose an ACK covers more than the probe's end and reports no
 * duplicate.  Then the tail was lost and the probe has repaired it, so the window falls
 * as for any loss.
 *
 * Spec: RFC 8985
 */
#include "tcp/snd.h"
#include "tcp/stack.h"
#include "tcp/timer.h"

#define REO_STEPS_MAX 16 /* quarters of a round trip */
#define REO_PERSIST 16   /* recoveries without a DSACK until it shrinks */
#define TLP_ACK_DELAY_NS (200 * NS_PER_MS) /* of the slowest receiver */
#define TLP_MARGIN_NS (2 * NS_PER_MS)      /* for clocks and polls */

/* Section 6.2, step 4: how long a hole may be mere reordering. */
static uint64_t reo_wnd_ns(const struct tcp_conn *c)
{
	uint64_t quarter = c->min_rtt_us * NS_PER_US / 4;

	if (!(c->flags & CONN_REORDERS) &&
	    (c->ca_state >= CA_RECOVERY ||
	     c->sacked_bytes >= (uint32_t)DUP_THRESH * c->mss))
		return 0;
	return MIN(quarter * (1u + c->rec.reo_steps), conn_srtt_ns(c));
}

/* Section 6.2, step 4: an ACK has reported a duplicate. */
void rack_duplicate(struct tcp_conn *c)
{
	struct tcp_recovery *r = &c->rec;

	/* reo_round outside of what is in flight was set long ago. */
	if (seq_lt(c->snd_una, r->reo_round) &&
	    seq_le(r->reo_round, c->snd_nxt))
		return;
	r->reo_round = c->snd_nxt;
	r->reo_persist = REO_PERSIST;
	if (r->reo_steps < REO_STEPS_MAX)
		r->reo_steps++;
}

void rack_recovered(struct tcp_conn *c)
{
	if (c->rec.reo_persist && !--c->rec.reo_persist)
		c->rec.reo_steps = 0;
}

static bool is_sent_before(const struct range *r, uint64_t xmit_ns, seq32 end)
{
	return r->xmit_ns < xmit_ns ||
	       (r->xmit_ns == xmit_ns && seq_lt(range_end(r), end));
}

/* Section 6.2, step 5: marks the ranges that are lost by now.  Arms the timer for the
 * first range that may become lost later, or for those that this call has no work left
 * for. */
void rack_detect(struct tcp_conn *c, int32_t work_max)
{
	uint64_t now = c->stack->now_ns;
	uint64_t wait = c->rack_rtt_us * NS_PER_US + reo_wnd_ns(c);
	struct list *l = c->flight.next;

	c->is_rack_late = false;
	while (l != &c->flight) {
		struct range *r = container_of(l, struct range, link);

		/* Ranges that were sent at the same instant are in the list's order. */
		if (!is_sent_before(r, c->rack_xmit_ns, c->rack_end))
			return;
		l = l->next;
		if (r->xmit_ns + wait > now) {
			rtx_arm_reo(c, r->xmit_ns + wait);
			return;
		}
		if (c->stack->work.n >= work_max) {
			c->is_rack_late = true;
			rtx_arm_reo(c, now);
			return;
		}
		work_add(&c->stack->work, 1);
		sent_mark_lost(c, r);
	}
}

/* --- the tail loss probe --- */

/* Section 7.2: whether a tail loss probe may be sent. */
bool tlp_may_probe(const struct tcp_conn *c)
{
	return c->flags & CONN_SACK && c->ca_state == CA_OPEN &&
	       !c->sacked_bytes && !c->lost_bytes && !c->rec.is_tlp_out &&
	       c->sent.head && c->srtt_8us;
}

/* The time-out of the probe for a flight of several segments. */
uint64_t tlp_least_ns(const struct tcp_conn *c)
{
	return 2 * conn_srtt_ns(c) + TLP_MARGIN_NS;
}

uint64_t tlp_timeout_ns(const struct tcp_conn *c)
{
	bool is_alone = c->sent.head == c->sent.tail &&
			seq_len(c->snd_una, c->snd_nxt) <= c->mss;

	return is_alone ? 2 * conn_srtt_ns(c) + TLP_ACK_DELAY_NS
			: tlp_least_ns(c);
}

/* The probe has been sent. */
void tlp_sent(struct tcp_conn *c, bool is_retx)
{
	c->rec.is_tlp_out = true;
	c->rec.is_tlp_retx = is_retx;
	c->rec.tlp_end = c->snd_nxt;
}

/* Section 7.4.2.  Return: whether the window must fall. */
bool tlp_acked(struct tcp_conn *c, const struct tcp_seg *seg, bool is_dup,
	       bool has_dsack)
{
	struct tcp_recovery *r = &c->rec;

	if (!r->is_tlp_out || seq_lt(seg->ack, r->tlp_end))
		return false;
	if (!r->is_tlp_retx ||
	    (has_dsack && seq_eq(seg->sacks[0].to, r->tlp_end))) {
		r->is_tlp_out = false;
	} else if (seq_lt(r->tlp_end, seg->ack)) {
		r->is_tlp_out = false;
		return true;
	} else if (is_dup && !seg->n_sacks) {
		/* This ACK answers the probe; an earlier one has answered the
		 * original. */
		r->is_tlp_out = false;
	}
	return false;
}
