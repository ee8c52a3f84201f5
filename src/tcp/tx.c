/* SPDX-License-Identifier: MIT */
/*
 * tcp/tx.c - turns what is pending into frames, one at a time
 *
 *     conn_set_pending(), tx_reply() -> tcp_tx() -> struct tcp_frame -> the port
 *
 * Replies of no whole connection leave first.  Then the connections with something
 * pending send one frame each, round robin: a SYN; a probe; what was lost; what is new
 * (unsent.c); and an ACK alone if no other frame has carried it.
 *
 * Nothing is sent beyond the peer's window except probes, and nothing beyond the
 * congestion window except the first range of a recovery.
 *
 * Spec: RFC 9293 3.8.6, RFC 5681, RFC 6675, RFC 8985
 */
#include "tcp/ctl.h"
#include "tcp/pmtu.h"
#include "tcp/rcv.h"
#include "tcp/snd.h"
#include "tcp/stack.h"
#include "tcp/timer.h"

void conn_set_pending(struct tcp_conn *c, unsigned what)
{
	if (c->state == TCP_CLOSED)
		return;
	if (!c->tx_pending)
		list_add_tail(&c->stack->pending, &c->pending_link);
	c->tx_pending |= (uint8_t)what;
}

static void clear_pending(struct tcp_conn *c, unsigned what)
{
	c->tx_pending &= (uint8_t)~what;
	if (!c->tx_pending)
		list_del(&c->pending_link);
}

/* Bytes or a FIN to be sent, now or later. */
static bool has_to_send(const struct tcp_conn *c)
{
	return conn_has_unsent(c) || c->lost_bytes;
}

/* Something has changed that may allow data to be sent. */
void conn_set_pending_data(struct tcp_conn *c)
{
	if (has_to_send(c)) {
		conn_set_pending(c, TX_DATA);
		return;
	}
	c->flags &= ~(uint32_t)CONN_CWND_LIMITED;
	conn_rtx_update(c, false);
}

uint32_t conn_tsval(const struct tcp_conn *c)
{
	return ts_clock(c->stack, c->is_ts_us) + c->ts_off;
}

/* How long ago we sent the timestamp @ts; negative: we have not sent it yet. */
int64_t conn_ts_age_us(const struct tcp_conn *c, uint32_t ts)
{
	int32_t ticks = (int32_t)(conn_tsval(c) - ts);

	return c->is_ts_us ? ticks : (int64_t)ticks * 1000;
}

/* --- segments --- */

/* The window field.  rcv_adv keeps what it promises. */
static uint16_t window_field(struct tcp_conn *c)
{
	rcv_window_update(c);
	uint32_t wnd = seq_len(c->rcv_nxt, c->rcv_adv) >> c->rcv_wscale;
	return (uint16_t)MIN(wnd, 65535u);
}

/* Fills the fields that all segments of an established connection share, and does what
 * follows from sending an ACK. */
static void seg_begin(struct tcp_conn *c, struct tcp_seg *seg, seq32 seq,
		      unsigned flags)
{
	seg->sport = c->flow.lport;
	seg->dport = c->flow.rport;
	seg->seq = seq;
	seg->ack = c->rcv_nxt;
	seg->flags = (uint8_t)(flags | TCP_ACK);
	seg->wnd = window_field(c);
	seg->urg = 0;
	seg->has_ts = c->flags & CONN_TS;
	seg->tsval = conn_tsval(c);
	seg->tsecr = c->ts_recent;

	if (c->flags & CONN_URG_OUT && urg_pointer(c, seq, &seg->urg))
		seg->flags |= TCP_URG;
	if (c->flags & CONN_ECN_ECHO)
		seg->flags |= TCP_ECE;
	seg->n_sacks = (uint8_t)rcvq_sacks(c, seg->sacks);
	c->flags &= ~(uint32_t)CONN_DSACK;
	c->last_ack_sent = c->rcv_nxt;
	delack_end(c);
	if (c->n_quick)
		c->n_quick--;
	c->n_out++;
	clear_pending(c, TX_ACK);
}

static bool send_alone(struct tcp_conn *c, struct tcp_frame *f, seq32 seq)
{
	struct tcp_seg seg;

	seg_begin(c, &seg, seq, 0);
	frame_finish(c->stack, f, c->flow.laddr, &c->flow.raddr, &seg, 0);
	return true;
}

static COLD bool send_syn(struct tcp_conn *c, struct tcp_frame *f)
{
	struct tcp_stack *s = c->stack;
	bool is_reply = c->state == TCP_SYN_RCVD;
	uint32_t offers = s->cfg.offers;
	struct tcp_seg seg = { .sport = c->flow.lport,
			       .dport = c->flow.rport,
			       .seq = c->iss,
			       .flags = (uint8_t)(TCP_SYN | ecn_syn_flags(c)),
			       .mss = stack_mss(s, &c->flow.raddr, c->maxseg) };

	clear_pending(c, TX_SYN | TX_ACK);
	if (is_reply) {
		seg.flags |= TCP_ACK;
		seg.ack = c->rcv_nxt;
		offers &= (c->flags & CONN_TS ? TCP_OFFER_TS : 0u) |
			  (c->flags & CONN_SACK ? TCP_OFFER_SACK : 0u) |
			  (c->flags & CONN_WSCALE ? TCP_OFFER_WSCALE : 0u);
	}
	seg.has_ts = offers & TCP_OFFER_TS;
	seg.tsval = conn_tsval(c);
	/* From the peer's SYN, or from the connection in TIME-WAIT whose ports we use
	 * again. */
	seg.tsecr = c->ts_recent;
	seg.is_sack_ok = offers & TCP_OFFER_SACK;
	if (!c->last_tx_ns && !is_reply)
		rcv_promise(c);
	seg.wscale = offers & TCP_OFFER_WSCALE ? c->rcv_wscale : TCP_NO_WSCALE;
	seg.wnd = (uint16_t)c->rcv_space;
	c->n_out++;
	c->last_tx_ns = s->now_ns;
	frame_finish(s, f, c->flow.laddr, &c->flow.raddr, &seg, 0);
	return true;
}

/* --- data --- */

/* The payload of one segment beside the SACK blocks that it will carry. */
uint32_t conn_seg_room(const struct tcp_conn *c)
{
	struct tcp_sack sacks[TCP_SACK_MAX];
	uint32_t n = rcvq_sacks(c, sacks);

	return c->mss - (n ? 4 + 8 * n : 0);
}

/* The payload of one frame. */
uint32_t conn_frame_room(const struct tcp_conn *c, uint32_t room)
{
	uint32_t most = c->stack->cfg.gso_max;

	/* The urgent pointer counts from the start of each segment. */
	if (most < 2 * room || c->flags & CONN_URG_OUT)
		return room;
	return pace_frame(c, most - most % room, room);
}

/* @r has been sent and is the last one in flight. */
void range_sent(struct tcp_conn *c, struct range *r)
{
	list_del(&r->link);
	list_add_tail(&c->flight, &r->link);
	r->xmit_ns = c->last_tx_ns = c->stack->now_ns;
	if (c->ca_state == CA_CWR || c->ca_state == CA_RECOVERY)
		c->rec.prr_out += r->len;
	if (r->flags & RANGE_RETX)
		recovery_retx(c, r);
	clear_pending(c, TX_FORCE | TX_PUSH | TX_TLP);
	pace_sent(c, r->len);
	if (c->rtx_kind == RTX_PERSIST) {
		c->n_rtx = 0;
		conn_late_since(c, 0);
	}
	/* RFC 6675 section 6: the retransmission of the first hole gets a full
	 * time-out, because an older one could fire before its ACK arrives. */
	if (r->flags & RANGE_RETX && r == c->sent.head)
		conn_rtx_update(c, true);
	else
		conn_rtx_sent(c);
}

/* RFC 9293 section 3.9.1.2, as in Linux.  PSH marks the end of what the program gave,
 * unless more follows (MSG_MORE).  It also marks frames that the port cuts into
 * segments: a receiver (GRO) joins these segments up to the PSH. */
static bool has_push(const struct tcp_conn *c, const struct range *r,
		     uint32_t bytes, uint32_t n_segs)
{
	bool is_end = seq_eq(seq_add(r->seq, bytes), c->snd_end);

	if (!bytes)
		return false;
	return n_segs > 1 || r->flags & RANGE_EOR ||
	       (is_end && (!c->rec.has_more || c->tx_pending & TX_PUSH));
}

void range_send(struct tcp_conn *c, struct tcp_frame *f, const struct range *r,
		uint32_t bytes)
{
	uint32_t room = r->flags & RANGE_PROBE ? bytes : conn_seg_room(c);

	uint32_t n_segs = bytes > room ? (bytes + room - 1) / room : 1;

	f->gso_size = bytes > room ? (uint16_t)room : 0;
	c->n_out += n_segs - 1;
	c->n_data_out += n_segs;
	if (r->flags & RANGE_RETX) {
		c->n_again += n_segs;
		c->again_bytes += bytes;
	}
	struct tcp_seg seg;

	seg_begin(c, &seg, r->seq,
		  (has_push(c, r, bytes, n_segs) ? TCP_PSH : 0u) |
		      (r->flags & RANGE_FIN ? TCP_FIN : 0u));
	uint8_t ecn = ecn_tx(c, r, bytes, &seg);
	frame_finish(c->stack, f, c->flow.laddr, &c->flow.raddr, &seg, ecn);
	if (c->rec.may_fragment) {
		ip_allow_fragments(
		    f->head, (uint16_t)(c->ts_off + c->stack->n_cuttable));
		c->stack->n_cuttable += n_segs;
	}
}

/* How much of a range fits the peer's window.  A peer may shrink its window (RFC 9293
 * section 3.8.6); we send the first range again anyway. */
static COLD uint32_t again_window(const struct tcp_conn *c,
				  const struct range *r)
{
	seq32 edge = seq_add(c->snd_una, c->snd_wnd);

	if (seq_lt(r->seq, edge))
		return seq_len(r->seq, edge);
	return r == c->sent.head ? c->mss : 0;
}

/* Sends a range again, or as much of it as fits a frame and the window. */
static COLD void send_again(struct tcp_conn *c, struct tcp_frame *f,
			    struct range *r)
{
	uint32_t window = again_window(c, r),
		 room = MIN(conn_seg_room(c), window);
	uint32_t bytes = r->len - !!(r->flags & RANGE_FIN);
	bool may_split = sent_may_split(c);
	uint32_t want = MIN(conn_frame_room(c, room), window);
	struct range *piece = range_piece(c, r);

	if (bytes > room && may_split)
		want = room;
	uint32_t got = frame_gather(f, &piece, r->seq, MIN(bytes, want));
	work_add(&c->stack->work, (int32_t)f->n_pieces);
	if (got < bytes && may_split) {
		sent_split_there(c, r, seq_add(r->seq, got), piece);
		bytes = got;
	}
	r->room = room;
	range_again(c, r);
	struct range part = *r;
	/* The range could be neither split nor sent whole: RACK finds the rest lost
	 * again. */
	if (got < bytes)
		part.flags &= (uint8_t)~RANGE_FIN;
	range_send(c, f, &part, got);
	range_sent(c, r);
}

/* Sends the first lost range. */
static bool send_lost(struct tcp_conn *c, struct tcp_frame *f)
{
	struct range *r = sent_first_lost(c);
	uint32_t pipe;

	if (!r)
		return false;
	/* RFC 9293 section 3.8.6: of what lies beyond a shrunk window, send only the
	 * first range again.  Its ACK tells when there is room. */
	if (!again_window(c, r))
		return false;
	pipe = conn_pipe(c);
	if (pipe && pipe + c->mss > c->cwnd && !(c->tx_pending & TX_FORCE))
		return false;
	send_again(c, f, r);
	return true;
}

/* RFC 8985 section 7.3: a new segment, or the last one again. */
static COLD bool send_tlp(struct tcp_conn *c, struct tcp_frame *f)
{
	struct range *r = c->sent.tail;

	if (!tlp_may_probe(c)) {
		clear_pending(c, TX_TLP);
		return false;
	}
	if (unsent_send(c, f)) {
		tlp_sent(c, false);
		return true;
	}
	if (r->len > c->mss && sent_split(c, r, seq_sub(range_end(r), c->mss)))
		r = r->next;
	if (!again_window(c, r))
		r = c->sent.head;
	send_again(c, f, r);
	tlp_sent(c, true);
	return true;
}

static bool send_data(struct tcp_conn *c, struct tcp_frame *f)
{
	c->flags &= ~(uint32_t)CONN_CWND_LIMITED;
	if (c->tx_pending & TX_TLP && send_tlp(c, f))
		return true;
	if (!(c->tx_pending & (TX_FORCE | TX_PUSH)) && !pace_may_send(c))
		return false;
	if (c->rec.frto == FRTO_NEW) {
		if (unsent_send(c, f))
			return true;
		/* RFC 5682 section 2.1 (2b): new bytes first; their ACK tells whether
		 * anything is lost. */
		if (seq_lt(c->recover, c->snd_nxt))
			return false;
	}
	return send_lost(c, f) || unsent_send(c, f);
}

/* The peer has not acknowledged our SYN, whose timer is armed.  RFC 9293 section
 * 3.10.4: a program that has closed sends only a FIN, which need not wait for the ACK. */
static bool open_tx(struct tcp_conn *c, struct tcp_frame *f)
{
	bool is_ack = c->tx_pending & TX_ACK, is_sent = false;
	uint64_t syn_ns = c->last_tx_ns;

	clear_pending(c, UINT8_MAX);
	if (c->flags & CONN_ORPHAN)
		is_sent = unsent_send(c, f);
	c->last_tx_ns = syn_ns; /* its ACK is the first sample of the RTT */
	return is_sent || (is_ack && send_alone(c, f, c->snd_nxt));
}

static bool conn_tx(struct tcp_conn *c, struct tcp_frame *f)
{
	if (c->state == TCP_SYN_SENT || c->state == TCP_SYN_RCVD)
		return c->tx_pending & TX_SYN ? send_syn(c, f) : open_tx(c, f);
	/* The peer's answer arrived before we sent the SYN again. */
	if (c->tx_pending & TX_SYN)
		clear_pending(c, TX_SYN);
	if (c->tx_pending & TX_PROBE) {
		clear_pending(c, TX_PROBE);
		/* An old sequence number, to which the peer must answer. */
		return send_alone(c, f, seq_sub(c->snd_una, 1));
	}
	if (c->tx_pending & TX_DATA) {
		bool is_sent = send_data(c, f);

		if (!is_sent || !has_to_send(c)) {
			clear_pending(c, TX_DATA | TX_FORCE | TX_PUSH | TX_TLP);
			conn_rtx_update(c, false);
		}
		if (is_sent)
			return true;
	}
	if (c->tx_pending & TX_ACK)
		return send_alone(c, f, c->snd_nxt);
	return false;
}

bool tcp_tx(struct tcp_stack *s, struct tcp_frame *f, uint64_t now_ns)
{
	stack_at(s, now_ns);
	f->n_pieces = 0;
	f->len = 0;
	f->gso_size = 0;
	f->conn = NULL;
	if (s->reply_tail != s->reply_head) {
		const struct tcp_reply *r =
		    &s->replies[s->reply_tail++ % TX_REPLIES];

		frame_finish(s, f, r->laddr, &r->raddr, &r->seg, 0);
		return true;
	}
	while (!list_is_empty(&s->pending)) {
		struct tcp_conn *c = container_of(
		    s->pending.next, struct tcp_conn, pending_link);

		if (conn_tx(c, f)) {
			f->conn = c;
			/* Let the other connections send. */
			if (c->tx_pending) {
				list_del(&c->pending_link);
				list_add_tail(&s->pending, &c->pending_link);
			}
			return true;
		}
		assert(!c->tx_pending);
	}
	return false;
}
