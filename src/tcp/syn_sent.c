/* SPDX-License-Identifier: MIT */
/*
 * tcp/syn_sent.c - what an arriving segment does while we open a connection
 *
 *     rx.c -> syn_sent_rx() -> ESTABLISHED; SYN-RCVD, if both ends open; or CLOSED
 *
 * The steps of RFC 9293 section 3.10.7.3, in its order.  A segment that answers none of
 * our SYNs changes nothing, except that the SYN may be sent again sooner.
 */
#include "tcp/ctl.h"
#include "tcp/rcv.h"
#include "tcp/snd.h"
#include "tcp/stack.h"
#include "tcp/timer.h"

/* 3.10.7.3, "fourth": takes the peer's SYN or SYN-ACK. */
static void syn_sent_take(struct tcp_conn *c, const struct tcp_seg *seg)
{
	uint32_t offers =
	    (seg->has_ts ? TCP_OFFER_TS : 0u) |
	    (seg->is_sack_ok ? TCP_OFFER_SACK : 0u) |
	    (seg->wscale != TCP_NO_WSCALE ? TCP_OFFER_WSCALE : 0u);

	c->irs = seg->seq;
	c->rcv_nxt = seg->seq;
	conn_rcv_advance(c, 1);
	if (!c->last_tx_ns)
		rcv_promise(c);
	c->rcv_adv = seq_add(c->rcv_nxt, c->rcv_space);
	c->last_ack_sent = c->rcv_nxt;
	conn_set_options(c, offers, seg->mss, seg->wscale);
	ecn_syn_rx(c, seg);
	if (c->flags & CONN_TS) {
		c->ts_recent = seg->tsval;
		c->ts_recent_s = now_sec(c->stack);
	}
	/* The window of a SYN is not scaled. */
	c->snd_wnd = c->max_wnd = seg->wnd;
	c->snd_wl1 = seg->seq;
	c->snd_wl2 = seg->ack;
}

/* The peer still has an old connection, which our reset ends.  Send the SYN again soon,
 * once. */
static void syn_sent_again(struct tcp_conn *c)
{
	if (c->n_rtx)
		return;
	c->rtx_at_ns = c->stack->now_ns + SYN_SOON_NS;
	conn_timer_sync(c);
}

/* RFC 7323 section 3.2: the peer must echo a timestamp of one of our SYNs.  Anything
 * else belongs to an old connection, or is a guess. */
static bool is_echo_wrong(const struct tcp_conn *c, const struct tcp_seg *seg)
{
	uint32_t first = (uint32_t)(c->rtx_since_ns / NS_PER_MS) + c->ts_off;

	return seg->has_ts && seg->tsecr &&
	       c->stack->cfg.offers & TCP_OFFER_TS &&
	       seg->tsecr - first > conn_tsval(c) - first;
}

/* 3.10.7.3: SYN-SENT */
void syn_sent_rx(struct tcp_conn *c, struct arrival *a)
{
	struct tcp_seg *seg = &a->seg;

	/* First: the ACK bit. */
	if (seg->flags & TCP_ACK && !seq_eq(seg->ack, c->snd_nxt)) {
		drop(c->stack, DROP_SYN_SENT_ACK);
		tx_reset_for(c->stack, a);
		syn_sent_again(c);
		return;
	}
	if (seg->flags & TCP_ACK && is_echo_wrong(c, seg)) {
		drop(c->stack, DROP_SYN_SENT_ACK);
		tx_reset_for(c->stack, a);
		return;
	}
	/* Second: the RST bit. */
	if (seg->flags & TCP_RST) {
		if (seg->flags & TCP_ACK)
			conn_fail(c, -ECONNREFUSED);
		else
			drop(c->stack, DROP_RESET_ALONE);
		return;
	}
	/* Third: security.  There is none. */
	/* Fourth: the SYN bit. */
	if (!(seg->flags & TCP_SYN)) {
		drop(c->stack, DROP_NO_ACK_FLAG);
		return;
	}
	syn_sent_take(c, seg);
	if (!(seg->flags & TCP_ACK)) {
		/* From here on every retry counts and doubles the time-out. */
		c->n_rtx -= MIN(c->n_rtx, (uint8_t)SYN_LINEAR);
		tcp_set_state(c, TCP_SYN_RCVD);
		conn_set_pending(c, TX_SYN);
		return;
	}
	conn_una_set(c, seg->ack);
	conn_established(c, seg);
	conn_set_pending(c, TX_ACK);
	/* Fifth: ignore text and FIN on a SYN-ACK.  The peer sends them again. */
}
