/* SPDX-License-Identifier: MIT */
/* tcp/cc_newreno.c - the window of RFC 5681 */
#include "tcp/config.h"
#include "tcp/conn.h"

static void newreno_undo(struct tcp_conn *c)
{
	if (c->ssthresh >= SSTHRESH_MAX)
		hystart_init(c);
}

/* RFC 5681 section 3.1 (3): cwnd grows by one segment for each cwnd of acknowledged
 * bytes. */
static void newreno_on_ack(struct tcp_conn *c, uint32_t acked, uint32_t rtt_us)
{
	uint32_t *sum = &c->cc_state.reno_acked;

	acked = cc_slow_start(c, acked, rtt_us);
	if (!acked)
		return;
	*sum += acked;
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
	.init = hystart_init,
	.on_ack = newreno_on_ack,
	.ssthresh = newreno_ssthresh,
	.undo = newreno_undo,
};
