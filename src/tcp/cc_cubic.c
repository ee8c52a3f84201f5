/* SPDX-License-Identifier: MIT */
/*
 * tcp/cc_cubic.c - CUBIC: a window that depends on the time since the last loss
 *
 * W(t) = C * (t - K)^3 + W_max in segments and seconds, C 0.4, beta 0.7; in whole
 * numbers here: milliseconds, bytes.  All products fit into 64 bits for windows of up
 * to 2^30 bytes and times of up to TIME_MAX_MS from K.
 * Spec: RFC 9438
 */
#include "tcp/conn.h"

#define BETA_NUM 7 /* of 10 */
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
}

/* Section 4.2: K = cbrt((W_max - cwnd) / C); with milliseconds, the cube root is of
 * segments * 10^9 / 0.4. */
static void epoch_begin(struct tcp_conn *c, struct cubic *q)
{
	q->epoch_ns = c->stack->now_ns;
	q->w_est = c->cwnd;
	q->origin = c->cwnd;
	q->k_ms = 0;
	if (c->cwnd < q->w_max) {
		uint64_t segs1000 = (q->w_max - c->cwnd) * 1000 / c->mss;

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

/* Section 4.3: as fast as Reno would be, with alpha 3 * (1 - beta) / (1 + beta). */
static uint64_t reno_friendly(struct tcp_conn *c, struct cubic *q,
			      uint32_t acked)
{
	uint64_t grows = (uint64_t)acked * c->mss / c->cwnd;

	q->w_est += q->w_est < q->w_max ? grows * 9 / 17 : grows;
	return q->w_est;
}

static void cubic_on_ack(struct tcp_conn *c, uint32_t acked)
{
	struct cubic *q = &c->cc_state.cubic;

	acked = cc_slow_start(c, acked);
	if (!acked)
		return;
	if (!q->epoch_ns)
		epoch_begin(c, q);
	uint64_t t_ms =
	    (c->stack->now_ns - q->epoch_ns + c->srtt_ns) / NS_PER_MS;
	uint64_t target = w_cubic(c, q, t_ms), est = reno_friendly(c, q, acked);

	/* Section 4.2: not more than half as much again in a round trip. */
	target = MIN(target, (uint64_t)c->cwnd * 3 / 2);
	target = target > est ? target : est;
	if (target <= c->cwnd)
		return;
	/* (target - cwnd) / cwnd of a segment for each segment acknowledged. */
	uint64_t sum = (target - c->cwnd) * acked + q->acked;
	c->cwnd += (uint32_t)(sum / c->cwnd);
	q->acked = (uint32_t)(sum % c->cwnd);
}

/* Sections 4.6 and 4.7. */
static uint32_t cubic_ssthresh(struct tcp_conn *c)
{
	struct cubic *q = &c->cc_state.cubic;
	uint64_t cwnd = c->cwnd, two = 2u * c->mss;
	bool is_faster = cwnd < q->w_max;

	q->w_max = is_faster ? cwnd * (10 + BETA_NUM) / 20 : cwnd;
	q->epoch_ns = 0;
	q->acked = 0;
	uint64_t less = cwnd * BETA_NUM / 10;
	return (uint32_t)(less > two ? less : two);
}

const struct tcp_cc tcp_cubic = {
	.name = "cubic",
	.init = cubic_init,
	.on_ack = cubic_on_ack,
	.ssthresh = cubic_ssthresh,
};
