/* SPDX-License-Identifier: MIT */
/*
 * tcp/cc_hystart.c - slow start, and how it ends before the queue is full
 *
 * A round lasts one round trip.  When the smallest RTT of a round exceeds that of the round
 * before by an eighth (4 ms at least, 16 ms at most), a queue on the path has begun to
 * fill.  Then cwnd grows by a quarter of the usual amount for five rounds, and slow start
 * ends.  If the RTT falls again meanwhile, it was jitter, and slow start goes on.
 *
 * This applies to the first slow start of a connection only.  As in Linux, one ACK may add
 * any amount, because one ACK may answer a whole batch of segments: the peer and our own
 * port both collect frames.
 *
 * Spec: RFC 9406, RFC 5681 section 3.1
 */
#include "tcp/conn.h"

#define RTT_MIN_STEP_US 4000u
#define RTT_MAX_STEP_US 16000u
#define RTT_SAMPLES 8
#define CSS_DIVISOR 4
#define CSS_ROUNDS 5

void hystart_init(struct tcp_conn *c)
{
	c->cc_state.hystart = (struct hystart){ .round_end = c->snd_nxt };
}

static void round_begin(struct tcp_conn *c, struct hystart *h)
{
	h->last_min_us = h->min_us;
	h->min_us = 0;
	h->n_samples = 0;
	h->round_end = c->snd_nxt;
	if (h->css_rounds && ++h->css_rounds > CSS_ROUNDS) {
		c->cc_state = (union tcp_cc_state){ 0 };
		c->ssthresh = c->cwnd;
	}
}

static void sample(struct hystart *h, uint32_t rtt_us)
{
	uint32_t step = h->last_min_us / 8;

	if (!h->min_us || rtt_us < h->min_us)
		h->min_us = rtt_us;
	if (h->n_samples < RTT_SAMPLES && ++h->n_samples < RTT_SAMPLES)
		return;
	step = step > RTT_MIN_STEP_US ? MIN(step, RTT_MAX_STEP_US)
				      : RTT_MIN_STEP_US;
	if (h->css_rounds) {
		if (h->min_us < h->css_base_us)
			h->css_rounds = 0;
	} else if (h->last_min_us && h->min_us >= h->last_min_us + step) {
		h->css_base_us = h->min_us;
		h->css_rounds = 1;
	}
}

/* How much an ACK of @acked bytes adds to cwnd. */
static uint32_t hystart_grow(struct tcp_conn *c, uint32_t acked,
			     uint32_t rtt_us)
{
	struct hystart *h = &c->cc_state.hystart;

	if (rtt_us)
		sample(h, rtt_us);
	acked = h->css_rounds ? acked / CSS_DIVISOR : acked;
	if (seq_le(h->round_end, c->snd_una))
		round_begin(c, h);
	return acked;
}

uint32_t cc_slow_start(struct tcp_conn *c, uint32_t acked, uint32_t rtt_us)
{
	if (c->cwnd >= c->ssthresh)
		return acked;
	if (c->ssthresh >= SSTHRESH_MAX) {
		c->cwnd += hystart_grow(c, acked, rtt_us);
		return 0;
	}
	uint32_t n = MIN(acked, c->ssthresh - c->cwnd);

	c->cwnd += n;
	return acked - n;
}
