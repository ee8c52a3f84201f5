/* SPDX-License-Identifier: MIT */
/*
 * tcp/cc_cubic.c - CUBIC: a window that depends on the time since the last loss
 *
 * W(t) = C * (t - K)^3 + W_max in segments and seconds, C 0.4, beta 0.7.  This file
 * counts in milliseconds and bytes, with whole numbers.  All products fit into 64 bits
 * for windows up to 2^30 bytes and times up to TIME_MAX_MS from K.
 *
 * Spec: RFC 9438
 */
#include "tcp/stack.h"
#include "tcp/timer.h"

#define BETA_NUM 7   /* of 10 */
#define ALPHA_NUM 9  /* 3 * (1 - beta) / (1 + beta) ... */
#define ALPHA_DEN 17 /* ... of which this is the other part */
#define TIME_MAX_MS 100000

/* The largest whole number whose cube is at most @x. */
static uint32_t cube_root(uint64_t x)
{
	uint32_t root = 0;

	for (int bit = 20; bit >= 0; bit--) {
		uint64_t r = root | 1u << bit;

		if (r * r * r <= x)
			root = (uint32_t)r;
	}
	return root;
}

static void cubic_init(struct tcp_conn *c)
{
	c->cc_state.cubic = (struct cubic){ 0 };
	hystart_init(c);
}

/* Section 4.2: K = cbrt((W_max - cwnd) / C).  K is in milliseconds, so we take the cube
 * root of segments * 10^9 / 0.4. */
static void epoch_begin(struct tcp_conn *c, struct cubic *q)
{
	q->epoch_ns = c->stack->now_ns;
	q->w_est = c->cwnd;
	q->est_acked = 0;
	q->origin = c->cwnd;
	q->k_ms = 0;
	if (c->cwnd < q->w_max) {
		uint64_t segs1000 =
		    (uint64_t)(q->w_max - c->cwnd) * 1000 / c->mss;

		q->k_ms = cube_root(segs1000 * 2500000);
		q->origin = q->w_max;
	}
}

/* W_cubic at @t_ms after the epoch, in bytes. */
static uint64_t w_cubic(const struct tcp_conn *c, const struct cubic *q,
			uint64_t t_ms)
{
	bool is_before = t_ms < q->k_ms;
	uint64_t d = is_before ? q->k_ms - t_ms : t_ms - q->k_ms;

	d = MIN(d, (uint64_t)TIME_MAX_MS);
	/* 0.4 * d^3 / 10^9 segments. */
	uint64_t delta = d * d * d / 1000000 * 4 * c->mss / 10000;
	if (!is_before)
		return q->origin + delta;
	return delta < q->origin ? q->origin - delta : 0;
}

/* Section 4.3: the window that Reno would have.  Until it is as large as before the
 * loss it grows more slowly than Reno's, because it has fallen by less. */
static void reno_grow(struct tcp_conn *c, struct cubic *q, uint32_t acked)
{
	uint64_t window = (uint64_t)ALPHA_DEN * c->cwnd;

	q->est_acked += (uint64_t)acked *
			(q->w_est < q->cwnd_prior ? ALPHA_NUM : ALPHA_DEN);
	uint64_t grows = q->est_acked * c->mss / window;
	q->w_est += (uint32_t)grows;
	q->est_acked -= grows * window / c->mss;
}

static void cubic_on_ack(struct tcp_conn *c, uint32_t acked, uint32_t rtt_us)
{
	struct cubic *q = &c->cc_state.cubic;

	acked = cc_slow_start(c, acked, rtt_us);
	if (!acked)
		return;
	if (!q->epoch_ns)
		epoch_begin(c, q);
	uint64_t t_ns = c->stack->now_ns - q->epoch_ns;
	reno_grow(c, q, acked);
	if (w_cubic(c, q, t_ns / NS_PER_MS) < q->w_est) {
		c->cwnd = c->cwnd > q->w_est ? c->cwnd : q->w_est;
		return;
	}
	/* Sections 4.4 and 4.5: the target is the curve one round trip from now, and at
	 * most one and a half times cwnd. */
	uint64_t target = w_cubic(c, q, (t_ns + conn_srtt_ns(c)) / NS_PER_MS);
	target = MIN(target, (uint64_t)c->cwnd * 3 / 2);
	if (target <= c->cwnd)
		return;
	/* Each acknowledged segment adds (target - cwnd) / cwnd of a segment. */
	uint64_t sum = (target - c->cwnd) * acked + q->acked;
	c->cwnd += (uint32_t)(sum / c->cwnd);
	q->acked = (uint32_t)(sum % c->cwnd);
}

/* Sections 4.6 and 4.7. */
static uint32_t cubic_ssthresh(struct tcp_conn *c)
{
	struct cubic was = c->cc_state.cubic;
	uint32_t cwnd = c->cwnd, two = 2u * c->mss;
	uint32_t less = (uint32_t)((uint64_t)cwnd * BETA_NUM / 10);
	uint32_t lesser = (uint32_t)((uint64_t)cwnd * (10 + BETA_NUM) / 20);

	if (c->ssthresh >= SSTHRESH_MAX)
		was = (struct cubic){ 0 };
	c->cc_state.cubic = (struct cubic){
		.w_max = cwnd < was.w_max ? lesser : cwnd,
		.cwnd_prior = cwnd,
		.undo_w_max = was.w_max,
		.undo_cwnd_prior = was.cwnd_prior,
	};
	return less > two ? less : two;
}

/* Section 4.8: the curve begins where slow start ends. */
static void cubic_timed_out(struct tcp_conn *c) { c->cc_state.cubic.w_max = 0; }

/* Section 4.9.2.  A new epoch goes on from cwnd to the same w_max. */
static void cubic_undo(struct tcp_conn *c)
{
	struct cubic was = c->cc_state.cubic;

	c->cc_state.cubic = (struct cubic){ .w_max = was.undo_w_max,
					    .cwnd_prior = was.undo_cwnd_prior };
	if (c->ssthresh >= SSTHRESH_MAX)
		hystart_init(c);
}

/* Section 5.8: the curve does not advance while nothing is sent. */
static void cubic_idle(struct tcp_conn *c, uint64_t ns)
{
	struct cubic *q = &c->cc_state.cubic;

	/* The pause may have begun up to a round trip before the epoch. */
	if (c->ssthresh < SSTHRESH_MAX && q->epoch_ns)
		q->epoch_ns = MIN(q->epoch_ns + ns, c->stack->now_ns);
}

const struct tcp_cc tcp_cubic = {
	.name = "cubic",
	.init = cubic_init,
	.on_ack = cubic_on_ack,
	.ssthresh = cubic_ssthresh,
	.timed_out = cubic_timed_out,
	.undo = cubic_undo,
	.idle = cubic_idle,
};
