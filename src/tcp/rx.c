/* SPDX-License-Identifier: MIT */
/*
 * tcp/rx.c - what one arriving segment does to a connection
 *
 *     demux.c -> conn_rx(): the state's part of RFC 9293 -> ack.c, urg.c, rcvq.c
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
#include "tcp/export.h"
#include "tcp/rcv.h"
#include "tcp/snd.h"
#include "tcp/stack.h"
#include "tcp/timer.h"

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

static void refuse(struct tcp_conn *c, enum drop_reason why)
{
	drop(c->stack, why);
	challenge(c);
}

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
static void syn_sent_rx(struct tcp_conn *c, struct arrival *a)
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
			refuse(c, DROP_PAWS);
		}
		return false;
	}
	if (!is_acceptable(c, seg)) {
		if (seg->flags & TCP_RST) {
			drop(c->stack, DROP_WINDOW);
		} else if (seg->flags & TCP_SYN) {
			refuse(c, DROP_SYN_IN_WINDOW);
		} else if (seg->len || seg->flags & TCP_FIN) {
			/* Our ACK may have been lost, so send it again.  An attacker
			 * cannot use this to amplify traffic: his segment is as long as
			 * our ACK. */
			note_duplicate(c, seg);
			drop(c->stack, DROP_DUPLICATE);
			conn_set_pending(c, TX_ACK);
		} else {
			refuse(c, DROP_WINDOW);
		}
		return false;
	}
	return true;
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
static bool is_end_held(struct tcp_conn *c, enum tcp_end end)
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
static void rst_rx(struct tcp_conn *c, const struct tcp_seg *seg)
{
	if (!seq_eq(seg->seq, c->rcv_nxt) && !is_behind_all(c, seg->seq))
		refuse(c, DROP_RESET_SEQ);
	else if (!is_end_held(c, TCP_END_RESET))
		conn_reset(c);
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
		refuse(c, DROP_ACK_AHEAD);
		return false;
	}
	if (!seq_lt(seg->ack, c->snd_una))
		return true;
	/* A number that we have never sent is no old acknowledgement, either. */
	uint64_t sent =
	    ((uint64_t)c->snd_wraps << 32 | c->snd_una.v) - c->iss.v;
	uint32_t old = (uint32_t)MIN((uint64_t)c->max_wnd, sent);
	if (seq_lt(seg->ack, seq_sub(c->snd_una, old))) {
		refuse(c, DROP_ACK_OLD);
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
		refuse(c, DROP_SYN_RCVD_ACK);
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
	    !seq_eq(c->rcv_nxt, c->fin_at) || is_end_held(c, TCP_END_FIN))
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

/* 3.10.7.4: the other states */
static void synchronised_rx(struct tcp_conn *c, struct arrival *a)
{
	struct tcp_seg *seg = &a->seg;

	/* The peer sends its SYN again: our SYN-ACK was lost. */
	if (c->state == TCP_SYN_RCVD && !(c->flags & CONN_FIN_SENT) &&
	    seq_eq(seg->seq, c->irs) &&
	    (seg->flags & (TCP_SYN | TCP_ACK | TCP_RST)) == TCP_SYN) {
		drop(c->stack, DROP_DUPLICATE);
		conn_set_pending(c, TX_SYN);
		return;
	}
	/* In a simultaneous open the peer sends its SYN a second time, with the ACK of
	 * ours.  Only the ACK is new. */
	if (c->state == TCP_SYN_RCVD && seq_eq(seg->seq, c->irs) &&
	    (seg->flags & (TCP_SYN | TCP_ACK | TCP_RST)) ==
		(TCP_SYN | TCP_ACK) &&
	    is_open_acked(c, seg->ack)) {
		seg->flags &= (uint8_t)~TCP_SYN;
		seg->seq = seq_add(seg->seq, 1);
		/* The window of a SYN is not scaled (RFC 7323 section 2.2), but the
		 * code below reads it as a scaled one. */
		seg->wnd >>= c->snd_wscale;
		conn_set_pending(c, TX_ACK);
	}
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
		refuse(c, DROP_SYN_IN_WINDOW);
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
