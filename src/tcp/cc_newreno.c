/* SPDX-License-Identifier: MIT */
/* tcp/cc_newreno.c - the window of RFC 5681 */
#include "tcp/conn.h"

uint32_t cc_slow_start(struct tcp_conn *c, uint32_t acked)
{
	if (c->cwnd >= c->ssthresh)
		return acked;
	uint32_t n = MIN(acked, c->ssthresh - c->cwnd);

	c->cwnd += n;
	return acked - n;
}

static void newreno_init(struct tcp_conn *c) { c->cc_state.reno_acked = 0; }

/* One segment more for each window of bytes: RFC 5681 section 3.1 (3). */
static void newreno_on_ack(struct tcp_conn *c, uint32_t acked)
{
	uint32_t *sum = &c->cc_state.reno_acked;

	*sum += cc_slow_start(c, acked);
	if (*sum >= c->cwnd) {
		*sum -= c->cwnd;
		c->cwnd += c->mss;
	}
}

static uint32_t newreno_ssthresh(struct tcp_conn *c)
{
	uint32_t half = c->rec.flight / 2, two = 2u * c->mss;

	c->cc_state.reno_acked = 0;
	return half > two ? half : two;
}

const struct tcp_cc tcp_newreno = {
	.name = "newreno",
	.init = newreno_init,
	.on_ack = newreno_on_ack,
	.ssthresh = newreno_ssthresh,
};
