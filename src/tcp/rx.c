/* SPDX-License-Identifier: MIT */
/*
 * tcp/rx.c - what one arriving segment does to a connection
 *
 *     demux.c -> conn_rx(): the state's part of RFC 9293 -> ack.c, urg.c, rcvq.c
 *                    |
 *                    +-> syn_sent.c, reset.c
 *
 * The code judges a segment in the order of RFC 9293 section 3.10.7, and the comments
 * name its steps.  It sends nothing: it sets what is pending, and tx.c sends it.
 *
 * On return:
 *   I1  snd_una <= snd_nxt, and neither has moved back
 *   I2  rcv_nxt and rcv_adv have not moved back
 *   I3  a queue refers to the payload, or a drop_reason counts it
 */
#include "tcp/ctl.h"
#include "tcp/rcv.h"
#include "tcp/snd.h"
#include "tcp/stack.h"
#include "tcp/timer.h"

/* RFC 7323 section 5.3 (R1): an old duplicate has an old timestamp. */
static bool is_paws_old(const struct tcp_conn *c, const struct tcp_seg *seg)
{
	return c->flags & CONN_TS && seg->has_ts &&
	       (int32_t)(seg->tsval - c->ts_recent) < 0 &&
	       now_sec(c->stack) - c->ts_recent_s < PAWS_S;
}

/* Section 3.4's test.  We include the right edge of the window, because a peer that has
 * used up the window sends its ACKs from there.  trim() removes what lies beyond the
 * edge. */
static bool is_acceptable(const struct tcp_conn *c, const struct tcp_seg *seg)
{
	uint32_t span = seg_span(seg);
	seq32 end = seq_add(seg->seq, span);

	if (seq_lt(c->rcv_adv, seg->seq))
		return false;
	return span ? seq_lt(c->rcv_nxt, end) : seq_le(c->rcv_nxt, seg->seq);
}

/* Reports a segment, or the part of it, that we have received before (DSACK). */
static void note_duplicate(struct tcp_conn *c, const struct tcp_seg *seg)
{
	seq32 end = seq_add(seg->seq, seg->len);
	struct tcp_sack d = { seg->seq, seq_min(end, c->rcv_nxt) };

	if (!seg->len || !seq_lt(seg->seq, c->rcv_nxt))
		return;
	/* A DSACK reports the last duplicate.  Duplicates that follow each other are
	 * reported as one. */
	if (c->flags & CONN_DSACK && seq_eq(d.from, c->dsack.to))
		d.from = c->dsack.from;
	c->dsack = d;
	c->flags |= CONN_DSACK;
}

/* "First, check sequence number".  Return: whether to go on. */
static bool check_sequence(struct tcp_conn *c, const struct tcp_seg *seg)
{
	if (!(seg->flags & TCP_RST) && is_paws_old(c, seg)) {
		if (seg_span(seg) && !(seg->flags & TCP_SYN)) {
			drop(c->stack, DROP_PAWS);
			conn_set_pending(c, TX_ACK);
		} else {
			conn_refuse(c, DROP_PAWS);
		}
		return false;
	}
	if (!is_acceptable(c, seg)) {
		if (seg->flags & TCP_RST) {
			drop(c->stack, DROP_WINDOW);
		} else if (seg->flags & TCP_SYN) {
			conn_refuse(c, DROP_SYN_IN_WINDOW);
		} else if (seg->len || seg->flags & TCP_FIN) {
			/* Our ACK may have been lost, so send it again.  An attacker
			 * cannot use this to amplify traffic: his segment is as long as
			 * our ACK. */
			note_duplicate(c, seg);
			drop(c->stack, DROP_DUPLICATE);
			conn_set_pending(c, TX_ACK);
		} else {
			conn_refuse(c, DROP_WINDOW);
		}
		return false;
	}
	return true;
}

/* Removes what lies outside of the window, so the first byte is at rcv_nxt or later. */
static void trim(struct tcp_conn *c, struct arrival *a)
{
	struct tcp_seg *seg = &a->seg;

	if (seq_lt(seg->seq, c->rcv_nxt)) {
		uint32_t have = seq_len(seg->seq, c->rcv_nxt);

		note_duplicate(c, seg);
		if (have >= seg->len)
			have = seg->len;
		seg->seq = seq_add(seg->seq, have);
		seg->len -= have;
		a->off += have;
	}
	if (seq_lt(c->rcv_adv, seq_add(seg->seq, seg->len))) {
		seg->len = seq_len(seg->seq, c->rcv_adv);
		seg->flags &= (uint8_t)~TCP_FIN;
		drop(c->stack, DROP_WINDOW);
		conn_set_pending(c, TX_ACK);
	}
}

/* "Fifth, check the ACK field", as far as all states share it.  RFC 5961 section 5.2. */
static bool check_ack(struct tcp_conn *c, const struct tcp_seg *seg)
{
	if (seq_lt(c->snd_nxt, seg->ack)) {
		conn_refuse(c, DROP_ACK_AHEAD);
		return false;
	}
	if (!seq_lt(seg->ack, c->snd_una))
		return true;
	/* A number that we have never sent is no old acknowledgement, either. */
	uint64_t sent =
	    ((uint64_t)c->snd_wraps << 32 | c->snd_una.v) - c->iss.v;
	uint32_t old = (uint32_t)MIN((uint64_t)c->max_wnd, sent);
	if (seq_lt(seg->ack, seq_sub(c->snd_una, old))) {
		conn_refuse(c, DROP_ACK_OLD);
		return false;
	}
	return true;
}

/* RFC 7323 section 4.3: we echo the timestamp of the oldest segment that we have not
 * acknowledged.  We do so only after the ACK field was checked.  Otherwise a stranger
 * who guesses a sequence number alone could make us reject all segments of the peer as
 * old. */
static void note_timestamp(struct tcp_conn *c, const struct tcp_seg *seg)
{
	if (!seg->has_ts || !(c->flags & CONN_TS) ||
	    seq_lt(c->last_ack_sent, seg->seq) || seq_lt(seg->ack, c->snd_una))
		return;
	c->ts_recent = seg->tsval;
	c->ts_recent_s = now_sec(c->stack);
}

/* Handles the ACK of our FIN.  Return: whether the connection goes on. */
static bool fin_is_acked(struct tcp_conn *c)
{
	if (!(c->flags & CONN_FIN_SENT) || !seq_eq(c->snd_una, c->snd_nxt))
		return true;
	switch (c->state) {
	case TCP_FIN_WAIT_1:
		tcp_set_state(c, TCP_FIN_WAIT_2);
		return true;
	case TCP_CLOSING:
		conn_enter_time_wait(c);
		return false;
	case TCP_LAST_ACK:
		tcp_set_state(c, TCP_CLOSED);
		return false;
	}
	return true;
}

/* Whether @ack acknowledges our SYN, and perhaps a FIN that followed it at once. */
static bool is_open_acked(const struct tcp_conn *c, seq32 ack)
{
	return seq_lt(c->iss, ack) && seq_le(ack, c->snd_nxt);
}

/* We have already sent a FIN.  RFC 9293 section 3.10.4 would have us in FIN-WAIT-1, and
 * that state does not answer a bad ACK with a reset. */
static void open_refuse(struct tcp_conn *c, struct arrival *a)
{
	if (c->flags & CONN_FIN_SENT) {
		conn_refuse(c, DROP_SYN_RCVD_ACK);
		return;
	}
	drop(c->stack, DROP_SYN_RCVD_ACK);
	tx_reset_for(c->stack, a);
}

/* "Fifth".  Return: whether to go on with the text. */
static bool ack_field_rx(struct tcp_conn *c, struct arrival *a)
{
	if (c->state == TCP_SYN_RCVD) {
		if (!is_open_acked(c, a->seg.ack)) {
			open_refuse(c, a);
			return false;
		}
		conn_una_set(c, seq_add(c->iss, 1));
		c->snd_wnd = (uint32_t)a->seg.wnd << c->snd_wscale;
		c->max_wnd = c->snd_wnd;
		c->snd_wl1 = a->seg.seq;
		c->snd_wl2 = a->seg.ack;
		conn_established(c, &a->seg);
	}
	if (!check_ack(c, &a->seg))
		return false;
	note_timestamp(c, &a->seg);
	c->soft_err = 0; /* the path works again */
	ack_rx(c, &a->seg);
	c->flags &= ~(uint32_t)CONN_MORE;
	if (c->flags & CONN_URG_OUT && seq_le(c->snd_up, c->snd_una))
		c->flags &= ~(uint32_t)CONN_URG_OUT;
	return fin_is_acked(c);
}

/* The peer should hear of what has happened soon. */
static void quick_again(struct tcp_conn *c)
{
	c->n_quick = QUICK_ACKS;
	c->flags &= ~(uint32_t)CONN_PINGPONG;
}

/* Decides when to acknowledge the bytes that arrived: at once if something is wrong
 * with them or many have arrived, else with the next segment or after a delay. */
static void ack_schedule(struct tcp_conn *c, bool is_unusual)
{
	uint32_t n = seq_len(c->last_ack_sent, c->rcv_nxt);

	bool is_quick = c->n_quick && !(c->flags & CONN_PINGPONG);

	if (is_unusual || c->oooq)
		quick_again(c);
	if (is_unusual || c->oooq || is_quick || n >= 2u * c->rcv_mss) {
		conn_set_pending(c, TX_ACK);
	} else {
		delack_begin(c);
	}
}

/* Notes the size of the peer's segments, and a pause before this one. */
static void note_arrival(struct tcp_conn *c, uint32_t len)
{
	if (len > c->rcv_mss)
		c->rcv_mss = (uint16_t)MIN(len, (uint32_t)c->mss_max);
	uint64_t pause_ns = (now_ms(c->stack) - c->last_data_rx_ms) * NS_PER_MS;
	if (!c->n_data_in ||
	    (pause_ns > RTO_MIN_NS && pause_ns > conn_rto_base_ns(c)))
		c->n_quick = QUICK_ACKS;
	c->last_data_rx_ms = now_ms(c->stack);
	c->n_data_in++;
}

/* Takes a FIN that came without text, when all bytes before it have arrived. */
static void fin_alone_take(struct tcp_conn *c)
{
	if ((c->flags & (CONN_FIN_ALONE | CONN_FIN_RCVD)) != CONN_FIN_ALONE ||
	    !seq_eq(c->rcv_nxt, c->fin_at) || conn_is_end_held(c, TCP_END_FIN))
		return;
	rcvq_end(c);
}

/* The peer's FIN was taken. */
void conn_peer_shut(struct tcp_conn *c)
{
	conn_set_pending(c, TX_ACK);
	switch (c->state) {
	case TCP_ESTABLISHED:
		tcp_set_state(c, TCP_CLOSE_WAIT);
		break;
	case TCP_FIN_WAIT_1:
		/* The peer has not acknowledged our FIN, or the state would be
		 * FIN_WAIT_2. */
		tcp_set_state(c, TCP_CLOSING);
		break;
	default:
		dassert(c->state == TCP_FIN_WAIT_2);
		conn_enter_time_wait(c);
	}
}

/* A FIN that may have to be held is treated as one without text. */
static void fin_split(struct tcp_conn *c, struct tcp_seg *seg)
{
	c->fin_at = seq_add(seg->seq, seg->len);
	c->flags |= CONN_FIN_ALONE;
	seg->flags &= (uint8_t)~TCP_FIN;
}

/* "Seventh, process the segment text", and "eighth, check the FIN bit".  The segment
 * begins at rcv_nxt or later. */
static void text_rx(struct tcp_conn *c, struct arrival *a)
{
	struct tcp_seg *seg = &a->seg;
	seq32 before = c->rcv_nxt;

	if (c->flags & CONN_FIN_RCVD) {
		/* "This should not occur": ignore it. */
		drop(c->stack, DROP_AFTER_FIN);
		return;
	}
	if (seg->len) {
		bool had_gap = c->oooq != NULL;

		if (c->holds_end && seg->flags & TCP_FIN)
			fin_split(c, seg);
		note_arrival(c, seg->len);
		rcv_rtt_sample(c, seg);
		c->was_pushed = seg->flags & TCP_PSH;
		bool is_kept = rcvq_add(c, a);

		ack_schedule(c, !is_kept || had_gap);
	} else {
		dassert(seg->flags & TCP_FIN);
		c->fin_at = seg->seq;
		c->flags |= CONN_FIN_ALONE;
		conn_set_pending(c, TX_ACK);
	}
	fin_alone_take(c);
	if (!seq_eq(before, c->rcv_nxt))
		conn_news(c);
	if (c->flags & CONN_FIN_RCVD)
		conn_peer_shut(c);
}

/* The peer's SYN again, in SYN-RECEIVED.  False: nothing in the segment is new. */
static bool syn_again_rx(struct tcp_conn *c, struct tcp_seg *seg)
{
	unsigned kind = seg->flags & (TCP_SYN | TCP_ACK | TCP_RST);

	if (!seq_eq(seg->seq, c->irs))
		return true;
	/* The peer sends its SYN again: our SYN-ACK was lost. */
	if (kind == TCP_SYN && !(c->flags & CONN_FIN_SENT)) {
		drop(c->stack, DROP_DUPLICATE);
		conn_set_pending(c, TX_SYN);
		return false;
	}
	/* In a simultaneous open the peer sends its SYN a second time, with the ACK of
	 * ours.  Only the ACK is new. */
	if (kind == (TCP_SYN | TCP_ACK) && is_open_acked(c, seg->ack)) {
		seg->flags &= (uint8_t)~TCP_SYN;
		seg->seq = seq_add(seg->seq, 1);
		/* The window of a SYN is not scaled (RFC 7323 section 2.2), but the
		 * code below reads it as a scaled one. */
		seg->wnd >>= c->snd_wscale;
		conn_set_pending(c, TX_ACK);
	}
	return true;
}

/* 3.10.7.4: the other states */
static void synchronised_rx(struct tcp_conn *c, struct arrival *a)
{
	struct tcp_seg *seg = &a->seg;

	if (c->state == TCP_SYN_RCVD && !syn_again_rx(c, seg))
		return;
	/* First. */
	if (!check_sequence(c, seg))
		return;
	/* Second. */
	if (seg->flags & TCP_RST) {
		rst_rx(c, seg);
		return;
	}
	/* Third: security.  There is none. */
	/* Fourth: the SYN bit; RFC 5961 section 4. */
	if (seg->flags & TCP_SYN) {
		conn_refuse(c, DROP_SYN_IN_WINDOW);
		return;
	}
	/* Fifth. */
	if (!(seg->flags & TCP_ACK)) {
		drop(c->stack, DROP_NO_ACK_FLAG);
		return;
	}
	c->last_rx_ms = now_ms(c->stack);
	if (!ack_field_rx(c, a))
		return;
	ecn_rx(c, a);
	/* Sixth: the urgent pointer. */
	if (seg->flags & TCP_URG || c->flags & CONN_URG_IN)
		urg_rx(c, a);
	/* Seventh and eighth. */
	trim(c, a);
	if (!seg->len && !(seg->flags & TCP_FIN))
		return;
	if (seg->len && c->flags & CONN_ORPHAN && !(c->flags & CONN_FIN_RCVD)) {
		/* No program will read the bytes.  The reset tells the peer. */
		drop(c->stack, DROP_ORPHAN_DATA);
		tx_reset_for(c->stack, a);
		tcp_set_state(c, TCP_CLOSED);
		return;
	}
	text_rx(c, a);
}

void conn_rx(struct tcp_conn *c, struct arrival *a)
{
	dassert(c->state != TCP_CLOSED);
	c->n_in++;
	if (c->state == TCP_SYN_SENT)
		syn_sent_rx(c, a);
	else
		synchronised_rx(c, a);
}
