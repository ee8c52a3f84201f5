/* SPDX-License-Identifier: MIT */
/*
 * tcp/reset.c - segments that a stranger could have sent: which reset we believe
 *
 *     rx.c -> rst_rx()       ->  conn_reset(), which the program hears of
 *     rx.c -> conn_refuse()  ->  a challenge ACK, which the real peer answers
 *
 * A stranger who does not see the connection guesses its numbers (RFC 5961).  So we believe
 * a reset only if its number is at the edge of what has arrived.  Every other doubtful
 * segment is counted, and at most two a second get a challenge ACK.
 */
#include "tcp/ctl.h"
#include "tcp/rcv.h"
#include "tcp/snd.h"
#include "tcp/stack.h"

/* Asks for a challenge ACK, two per second at most (RFC 5961 section 7).  Each
 * connection has its own limit: a shared one would tell strangers about other
 * connections. */
static void challenge(struct tcp_conn *c)
{
	uint32_t now = now_ms(c->stack);

	if (c->challenge_ms && now - c->challenge_ms < CHALLENGE_NS / NS_PER_MS)
		return;
	c->challenge_ms = now ? now : 1;
	conn_set_pending(c, TX_ACK);
}

void conn_refuse(struct tcp_conn *c, enum drop_reason why)
{
	drop(c->stack, why);
	challenge(c);
}

/* If bytes of the peer are lost on the path, its reset comes with a number behind the
 * bytes that did arrive.  Our SACK has told that number to the peer and to nobody
 * else. */
static bool is_behind_all(const struct tcp_conn *c, seq32 seq)
{
	const struct range *run = run_last(c);

	return run && c->flags & CONN_SACK && seq_eq(seq, range_end(run->last));
}

/* Return: whether the program wants to have the end of the connection elsewhere. */
bool conn_is_end_held(struct tcp_conn *c, enum tcp_end end)
{
	if (!c->holds_end || c->state != TCP_ESTABLISHED)
		return false;
	if (c->held_end < end) {
		c->held_end = (uint8_t)end & 3;
		conn_news(c);
	}
	return true;
}

/* The peer has reset the connection. */
void conn_reset(struct tcp_conn *c)
{
	switch (c->state) {
	case TCP_SYN_RCVD:
		conn_fail(c, -ECONNREFUSED);
		break;
	case TCP_CLOSING:
	case TCP_LAST_ACK:
		tcp_set_state(c, TCP_CLOSED);
		break;
	case TCP_CLOSE_WAIT:
		conn_fail(c, -EPIPE);
		break;
	default:
		conn_fail(c, -ECONNRESET);
	}
}

/* "Second, check the RST bit", with RFC 5961 section 3. */
void rst_rx(struct tcp_conn *c, const struct tcp_seg *seg)
{
	if (!seq_eq(seg->seq, c->rcv_nxt) && !is_behind_all(c, seg->seq))
		conn_refuse(c, DROP_RESET_SEQ);
	else if (!conn_is_end_held(c, TCP_END_RESET))
		conn_reset(c);
}
