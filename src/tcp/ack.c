/* SPDX-License-Identifier: MIT */
/*
 * tcp/ack.c - what an ACK says about what was sent
 *
 *     ACK -> sent.c: ranges arrive -> rack.c: others are lost -> recovery.c: cwnd
 *
 * Without SACK, three duplicate ACKs mean that the first range is lost, and each
 * partial ACK means that the next one is (NewReno).
 *
 * Spec: RFC 9293 3.10.7.4 "fifth", 5681, 6298, 6582, 7661
 */
#include "tcp/ctl.h"
#include "tcp/snd.h"
#include "tcp/stack.h"
#include "tcp/timer.h"

#define CWND_MAX (1u << 30)
#define RTT_HALF_MS 150000u

/* RFC 8985 section 6.2, step 1: the smallest round trip of the last 150 to 300 s.  Time
 * is divided into periods of 150 s, and the result is the smallest round trip of the
 * current period and of the one before.  After hours without a segment, a connection
 * may take an old period for the one before. */
static void min_rtt_sample(struct tcp_conn *c, uint32_t us)
{
	uint8_t half = (uint8_t)(now_ms(c->stack) / RTT_HALF_MS);

	if (half != c->rec.rtt_half) {
		bool is_next = half == (uint8_t)(c->rec.rtt_half + 1);

		c->min_rtt_us = is_next ? c->half_rtt_us : us;
		c->half_rtt_us = us;
		c->rec.rtt_half = half;
	}
	if (!c->half_rtt_us || us < c->half_rtt_us)
		c->half_rtt_us = us;
	if (!c->min_rtt_us || us < c->min_rtt_us)
		c->min_rtt_us = us;
}

/* RFC 6298 section 2; the variance adds 200 ms at least, as in Linux.  @last_ns: the
 * round trip of the path, without the delay of a delayed ACK. */
void rtt_sample(struct tcp_conn *c, uint64_t rtt_ns, uint64_t last_ns)
{
	uint64_t srtt_ns = conn_srtt_ns(c);
	uint64_t diff = rtt_ns > srtt_ns ? rtt_ns - srtt_ns : srtt_ns - rtt_ns;

	if (!c->srtt_8us) {
		srtt_ns = rtt_ns;
		c->rttvar_us = clip_us(rtt_ns / 2);
	} else {
		srtt_ns = (7 * srtt_ns + rtt_ns) / 8;
		c->rttvar_us =
		    clip_us((3 * (c->rttvar_us * NS_PER_US) + diff) / 4);
	}
	c->srtt_8us = clip_us(8 * srtt_ns);
	if (!c->srtt_8us)
		c->srtt_8us = 1;
	uint64_t var = 4 * (c->rttvar_us * NS_PER_US);
	uint64_t rto_ns = srtt_ns + (var > RTO_MIN_NS ? var : RTO_MIN_NS);
	c->rto_us = clip_us(MIN(rto_ns, RTO_MAX_NS));
	uint32_t us = clip_us(last_ns);
	min_rtt_sample(c, us ? us : 1);
}

static void head_lost(struct tcp_conn *c)
{
	struct range *r = c->sent.head;

	if (r->flags & RANGE_SACKED || range_is_lost(c, r))
		return;
	if (r->len > c->mss)
		sent_split(c, r, seq_add(r->seq, c->mss));
	sent_mark_lost(c, r);
}

/* Without SACK: RFC 5681 section 3.2, RFC 6582. */
static void reno_rx(struct tcp_conn *c, const struct tcp_seg *seg,
		    uint32_t acked, bool is_dup, struct ack_told *t)
{
	if (acked) {
		uint32_t n = acked / c->mss;

		/* The duplicate ACKs have counted these bytes already. */
		t->delivered -=
		    MIN(t->delivered, c->n_reno_sacks * (uint32_t)c->mss);
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
	t->delivered += c->mss;
	if (c->n_dupacks < UINT8_MAX)
		c->n_dupacks++;
	if (c->n_dupacks == DUP_THRESH && c->ca_state <= CA_CWR &&
	    seq_lt(c->recover, c->snd_una))
		head_lost(c);
}

/* RFC 9293's test compares sequence numbers first.  A segment that fills a hole has a
 * lower number than those behind the hole, although its window is newer.  So an ACK
 * that is new always updates the window.  An ACK that is older than snd_una never does:
 * the same window, counted from a later number, would reach too far. */
static void window_rx(struct tcp_conn *c, const struct tcp_seg *seg,
		      bool is_new)
{
	if (seq_lt(seg->ack, c->snd_una))
		return;
	if (!is_new && !seq_lt(c->snd_wl1, seg->seq) &&
	    !(seq_eq(c->snd_wl1, seg->seq) && seq_le(c->snd_wl2, seg->ack)))
		return;
	c->snd_wnd = (uint32_t)seg->wnd << c->snd_wscale;
	c->max_wnd = c->snd_wnd > c->max_wnd ? c->snd_wnd : c->max_wnd;
	c->snd_wl1 = seg->seq;
	c->snd_wl2 = seg->ack;
}

/* RFC 2861 section 3.2: after an RTO in which a part of cwnd was unused, cwnd falls
 * halfway to the part that was used. */
static void window_decay(struct tcp_conn *c, uint32_t flight)
{
	uint32_t initial = INITIAL_WINDOW * (uint32_t)c->mss;
	uint32_t now = now_ms(c->stack);

	c->cwnd_used = c->cwnd_used > flight ? c->cwnd_used : flight;
	if ((now - c->cwnd_used_ms) * NS_PER_MS < conn_rto_base_ns(c))
		return;
	uint32_t used = c->cwnd_used > initial ? c->cwnd_used : initial;
	if (used < c->cwnd) {
		uint32_t keep = c->cwnd / 4 * 3;

		c->ssthresh = c->ssthresh > keep ? c->ssthresh : keep;
		c->cwnd = (c->cwnd + used) / 2;
	}
	c->cwnd_used = 0;
	c->cwnd_used_ms = now;
}

/* RFC 7661: a window that is not used does not grow. */
static void window_grow(struct tcp_conn *c, const struct ack_told *t,
			uint32_t flight)
{
	bool is_used = c->rec.is_cwnd_used ||
		       (c->cwnd < c->ssthresh && c->cwnd < 2 * c->flight_max);

	if (c->ca_state == CA_RECOVERY || c->ca_state == CA_CWR)
		return;
	if (!is_used) {
		window_decay(c, flight);
		return;
	}
	c->cwnd_used = 0;
	c->cwnd_used_ms = now_ms(c->stack);
	c->cc->on_ack(c, t->delivered, (uint32_t)(t->last_rtt_ns / NS_PER_US));
	c->cwnd = MIN(c->cwnd, CWND_MAX);
}

/* Karn's algorithm ignores segments that were sent twice.  An echoed timestamp tells
 * which of the two the ACK answers (RFC 7323 section 4), as exactly as its clock ticks.
 * Return: the round trip, or 0: unknown */
uint64_t timestamp_rtt(const struct tcp_conn *c, const struct tcp_seg *seg)
{
	int64_t us = conn_ts_age_us(c, seg->tsecr);

	if (!(c->flags & CONN_TS) || !seg->has_ts || !seg->tsecr || us < 0)
		return 0;
	return us ? (uint64_t)us * NS_PER_US : NS_PER_MS / 2;
}

/* A peer that only sends repeats our last number in every segment: that is no duplicate
 * ACK. */
static bool is_nothing_new(const struct tcp_conn *c, const struct tcp_seg *seg)
{
	return seg->len && seq_eq(seg->ack, c->snd_nxt) &&
	       seq_eq(c->snd_una, c->snd_nxt) && c->rtx_kind == RTX_NONE &&
	       c->ca_state == CA_OPEN && !conn_has_unsent(c) && !seg->n_sacks &&
	       !(seg->flags & TCP_ECE);
}

/* On a path that reorders much, SACKed bytes say as much about the order as
 * acknowledged ones.  Linux does the same. */
static bool is_order_unlikely(const struct tcp_conn *c)
{
	return c->rec.reordering > DUP_THRESH;
}

/* An ACK from snd_una to snd_nxt, or a duplicate. */
static void ack_take(struct tcp_conn *c, const struct tcp_seg *seg)
{
	struct ack_told t = { 0 };
	uint32_t flight = seq_len(c->snd_una, c->snd_nxt), acked = 0;
	uint32_t wnd_before = c->snd_wnd;

	if (seq_lt(c->snd_una, seg->ack)) {
		acked = seq_len(c->snd_una, seg->ack);
		sent_acked(c, seg->ack, &t);
		sndq_acked(c, seg->ack);
		conn_una_set(c, seg->ack);
		/* RFC 6298 section 5: a time-out that was backed off stays so until
		 * there is a new sample (Karn). */
		dassert(c->rtx_kind != RTX_PERSIST);
		c->rto_us = clip_us(conn_rto_ns(c));
		c->n_rtx = 0;
		if (c->rec.is_late)
			conn_late_since(c, 0);
		chrono_acked(c);
		conn_news(c);
	}
	bool is_newer = seq_lt(c->snd_wl1, seg->seq);
	window_rx(c, seg, acked > 0);
	t.is_dup =
	    !acked && !is_newer && !seg_span(seg) && c->snd_wnd == wnd_before;
	c->n_probes = 0;
	if (c->flags & CONN_SACK)
		sent_sacked(c, seg, &t);
	else
		reno_rx(c, seg, acked,
			seq_eq(seg->ack, c->snd_una) && flight && !seg->len &&
			    !(seg->flags & TCP_FIN) && c->snd_wnd == wnd_before,
			&t);
	if (acked && !t.rtt_ns)
		t.rtt_ns = t.last_rtt_ns = timestamp_rtt(c, seg);
	if (t.rtt_ns)
		rtt_sample(c, t.rtt_ns, t.last_rtt_ns);
	conn_rtx_update(c, acked > 0);
	recovery_rx(c, seg, acked, &t);
	if (c->rtx_kind == RTX_TLP)
		conn_rtx_update(c, false);
	if (t.delivered && (acked || (t.sacked && is_order_unlikely(c))))
		window_grow(c, &t, flight);
	if (c->ca_state == CA_OPEN && acked)
		c->recover = seq_sub(c->snd_una, 1);
	conn_set_pending_data(c);
}

/* Does not close or free @c. */
void ack_rx(struct tcp_conn *c, const struct tcp_seg *seg)
{
	if (!is_nothing_new(c, seg)) {
		ack_take(c, seg);
		return;
	}
	window_rx(c, seg, false);
	c->n_probes = 0;
}
