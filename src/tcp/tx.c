/* SPDX-License-Identifier: MIT */
/*
 * tcp/tx.c - turns what is pending into frames, one at a time
 *
 *     conn_set_pending(), tx_reply() -> tcp_tx() -> struct tcp_frame -> the port
 *
 * Replies of no whole connection leave first.  Then the connections with something
 * pending send one frame each, round robin: a SYN; a probe; what was lost; what is new;
 * and an ACK alone if no other frame has carried it.
 *
 * Nothing is sent beyond the peer's window except probes, and nothing beyond the
 * congestion window except the first range of a recovery.
 *
 * Spec: RFC 9293 3.8.6, RFC 1122 4.2.3.4, RFC 5681, RFC 896 (Nagle)
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
	return now_ms(c->stack) + c->ts_off;
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

static bool send_syn(struct tcp_conn *c, struct tcp_frame *f)
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
static uint32_t seg_room(const struct tcp_conn *c)
{
	struct tcp_sack sacks[TCP_SACK_MAX];
	uint32_t n = rcvq_sacks(c, sacks);

	return c->mss - (n ? 4 + 8 * n : 0);
}

/* The payload of one frame. */
static uint32_t frame_room(const struct tcp_conn *c, uint32_t room)
{
	uint32_t most = c->stack->cfg.gso_max;

	/* The urgent pointer counts from the start of each segment. */
	if (most < 2 * room || c->flags & CONN_URG_OUT)
		return room;
	return pace_frame(c, most - most % room, room);
}

/* @r has been sent and is the last one in flight. */
static void range_sent(struct tcp_conn *c, struct range *r)
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

static void send_range(struct tcp_conn *c, struct tcp_frame *f,
		       const struct range *r, uint32_t bytes)
{
	uint32_t room = r->flags & RANGE_PROBE ? bytes : seg_room(c);

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
	if (c->rec.is_cut_allowed) {
		ip_allow_cut(f->head,
			     (uint16_t)(c->ts_off + c->stack->n_cuttable));
		c->stack->n_cuttable += n_segs;
	}
}

/* How much of a range fits the peer's window.  A peer may shrink its window (RFC 9293
 * section 3.8.6); we send the first range again anyway. */
static uint32_t again_window(const struct tcp_conn *c, const struct range *r)
{
	seq32 edge = seq_add(c->snd_una, c->snd_wnd);

	if (seq_lt(r->seq, edge))
		return seq_len(r->seq, edge);
	return r == c->sent.head ? c->mss : 0;
}

/* Sends a range again, or as much of it as fits a frame and the window. */
static void send_again(struct tcp_conn *c, struct tcp_frame *f, struct range *r)
{
	uint32_t window = again_window(c, r), room = MIN(seg_room(c), window);
	uint32_t bytes = r->len - !!(r->flags & RANGE_FIN);
	bool may_split = sent_may_split(c);
	uint32_t want = MIN(frame_room(c, room), window);
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
	send_range(c, f, &part, got);
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

/* Bytes beyond snd_nxt that fit the peer's window. */
static uint32_t usable_window(const struct tcp_conn *c)
{
	seq32 edge = seq_add(c->snd_una, c->snd_wnd);

	return seq_lt(c->snd_nxt, edge) ? seq_len(c->snd_nxt, edge) : 0;
}

/* How many bytes both windows allow to be sent now. */
uint32_t conn_sendable(const struct tcp_conn *c)
{
	uint32_t pipe = conn_pipe(c), usable = usable_window(c);
	uint32_t cwnd = c->cwnd > pipe ? c->cwnd - pipe : 0;

	return MIN(cwnd, usable);
}

static bool nagle_holds(const struct tcp_conn *c)
{
	if (c->flags & (CONN_SHUT_WR | CONN_PUSH_ALL | CONN_URG_OUT) ||
	    c->tx_pending & TX_PUSH)
		return false;
	/* New bytes tell whether anything is lost: RFC 5682 section 2.1. */
	if (c->rec.frto == FRTO_NEW)
		return false;
	if (c->flags & (CONN_CORK | CONN_MORE))
		return true;
	if (c->flags & CONN_NODELAY)
		return false;
	/* Minshall: one small segment may be in flight. */
	return seq_lt(c->snd_una, c->snd_sml) && seq_le(c->snd_sml, c->snd_nxt);
}

/* How many bytes the next frame of new bytes may have, one segment or several; 0:
 * none. */
static uint32_t new_bytes(struct tcp_conn *c, uint32_t room, uint32_t avail,
			  bool is_all)
{
	uint32_t pipe = conn_pipe(c), usable = usable_window(c);
	uint32_t most = MIN(avail, usable), n = MIN(most, frame_room(c, room));
	uint32_t cwnd = c->cwnd > pipe ? c->cwnd - pipe : 0;

	if (!n)
		return 0;
	if (c->tx_pending & TX_TLP)
		return MIN(n, room);
	if (pipe && cwnd < MIN(n, room)) {
		c->flags |= CONN_CWND_LIMITED;
		return 0;
	}
	if (n >= room) {
		n = MIN(n, cwnd > room ? cwnd : room);
		return n < 2 * room ? room : n - n % room;
	}
	/* RFC 1122 section 4.2.3.4: send a small segment only at the end of the bytes,
	 * or if the window never was much larger. */
	if (n < avail)
		return n >= c->max_wnd / 2 || c->tx_pending & TX_PUSH ? n : 0;
	return is_all && nagle_holds(c) ? 0 : n;
}

/* The payload of a probe of the path's MTU, sent instead of the next segment; 0: no
 * probe. */
static uint32_t probe_bytes(struct tcp_conn *c, uint32_t avail)
{
	uint32_t pipe = conn_pipe(c);

	if (c->cwnd <= pipe)
		return 0;
	avail = MIN(avail, usable_window(c));
	return pmtu_probe_size(c, MIN(avail, c->cwnd - pipe));
}

static struct range *range_new(struct tcp_conn *c)
{
	struct pool *p = &c->stack->pool_ranges;

	/* The rest of the pool is reserved for bytes that arrive, and for splits. */
	return p->n_free < p->n / 8 ? NULL : pool_get(p);
}

/* Puts the range into the current era.  When it is the only one in flight, eras begin
 * anew. */
static void era_note(struct tcp_conn *c, struct range *r)
{
	if (c->sent.head == r) {
		c->era = 0;
		c->rec.has_era = c->is_era_lost = false;
	}
	r->era = c->era;
}

static void range_add(struct tcp_conn *c, struct range *r)
{
	if (c->sent.tail)
		c->sent.tail->next = r;
	else
		c->sent.head = r;
	c->sent.tail = r;
	c->snd_nxt = seq_add(c->snd_nxt, r->len);
	if (c->rec.has_era)
		era_note(c, r);
}

/* RFC 5681 section 4.1 and RFC 2861: halve cwnd for each time-out that a pause has
 * lasted, because the path may have changed. */
static void restart_after_idle(struct tcp_conn *c)
{
	uint32_t initial = INITIAL_WINDOW * (uint32_t)c->mss;
	uint64_t idle_ns = c->stack->now_ns - c->last_tx_ns;
	uint64_t rto_ns = conn_rto_base_ns(c);

	if (c->sent.head || !c->last_tx_ns)
		return;
	if (c->cc->idle)
		c->cc->idle(c, idle_ns);
	if (idle_ns <= rto_ns || c->cwnd <= initial)
		return;
	if (c->ssthresh < c->cwnd / 4 * 3)
		c->ssthresh = c->cwnd / 4 * 3;
	for (; idle_ns > rto_ns && c->cwnd > initial; idle_ns -= rto_ns)
		c->cwnd /= 2;
	c->cwnd = c->cwnd > initial ? c->cwnd : initial;
}

/* New bytes wait for lost ones, unless F-RTO needs them to find out whether these are
 * lost. */
static bool is_behind_lost(const struct tcp_conn *c)
{
	return c->lost_bytes && c->rec.frto != FRTO_NEW;
}

/* Whether the peer's window, and not cwnd, keeps @bytes or a FIN from being sent. */
static bool is_window_short(const struct tcp_conn *c, uint32_t bytes)
{
	return !(c->flags & CONN_CWND_LIMITED) &&
	       usable_window(c) < bytes + !bytes;
}

/* The send buffer was full and is empty now except for what is in flight, and the
 * program has more. */
static bool is_room_awaited(const struct tcp_conn *c)
{
	return c->rec.wants_room && !conn_has_unsent(c) &&
	       !(c->flags & CONN_SHUT_WR);
}

/* Something new was sent, or could not be.  Notes the most bytes in flight, and whether
 * cwnd was the limit, until everything in flight now is acknowledged.  While the ACKs
 * of a burst arrive, less and less is in flight; but all of them show what the path has
 * carried.  Linux does the same. */
static void flight_seen(struct tcp_conn *c)
{
	uint32_t flight = seq_len(c->snd_una, c->snd_nxt);
	bool is_used =
	    c->flags & CONN_CWND_LIMITED || conn_pipe(c) + c->mss > c->cwnd;

	if (!is_used && seq_lt(c->snd_una, c->flight_seq) &&
	    (c->rec.is_cwnd_used || flight <= c->flight_max))
		return;
	c->rec.is_cwnd_used = is_used;
	c->flight_max = flight;
	c->flight_seq = c->snd_nxt;
}

/* The next segment of new data, or the FIN. */
struct next_seg {
	struct range *piece; /* of the send queue, where it begins; NULL: not
			      * looked up */
	uint32_t room;       /* bytes at most in a segment */
	uint32_t avail;      /* bytes not sent, up to the end of a record */
	uint32_t bytes;      /* that it carries */
	uint32_t probe;      /* the same if it probes the path's MTU, else 0 */
	bool has_fin;
};

/* Decide what the next segment carries.  False: nothing may be sent now. */
static bool next_plan(struct tcp_conn *c, struct next_seg *n)
{
	uint32_t all = seq_len(c->snd_nxt, c->snd_end);

	*n = (struct next_seg){ .room = seg_room(c), .avail = all };
	if (c->rec.has_eor && all) {
		n->piece = sndq_next(c);
		if (!n->piece)
			return false;
		n->avail = record_bytes(c, n->piece, all);
	}
	if (n->avail)
		n->bytes = new_bytes(c, n->room, n->avail, n->avail == all);
	if (n->bytes && c->flags & CONN_MTU_LOW &&
	    (n->probe = probe_bytes(c, n->avail)))
		n->bytes = n->probe;
	n->has_fin =
	    (c->flags & (CONN_SHUT_WR | CONN_FIN_SENT)) == CONN_SHUT_WR &&
	    n->bytes == all && usable_window(c) > n->bytes;
	if (!n->bytes && !n->has_fin) {
		if (c->flags & CONN_CWND_LIMITED)
			flight_seen(c);
		chrono_set(c, is_window_short(c, MIN(n->avail, n->room))
				  ? CHRONO_RWND_LIMITED
				  : CHRONO_BUSY);
		return false;
	}
	return !n->bytes || n->piece || (n->piece = sndq_next(c));
}

/* The range of the segment, whose bytes are gathered into @f.  The frame may hold fewer
 * bytes than were planned.  NULL: no memory. */
static struct range *next_range(struct tcp_conn *c, struct tcp_frame *f,
				struct next_seg *n)
{
	struct range *r = range_new(c);

	if (!r)
		return NULL;
	*r = (struct range){ .seq = c->snd_nxt,
			     .room = n->room,
			     .piece = n->piece };
	list_init(&r->link);
	if (n->bytes &&
	    frame_gather(f, &n->piece, c->snd_nxt, n->bytes) < n->bytes) {
		n->bytes = f->len;
		n->has_fin = false;
		n->probe = 0;
	}
	if (c->rec.has_eor && n->bytes == n->avail)
		r->flags |= RANGE_EOR;
	if (n->probe) {
		r->flags |= RANGE_PROBE;
		pmtu_probe_sent(c);
	}
	if (n->has_fin) {
		r->flags |= RANGE_FIN;
		c->flags |= CONN_FIN_SENT;
	}
	r->len = n->bytes + n->has_fin;
	return r;
}

static bool send_new(struct tcp_conn *c, struct tcp_frame *f)
{
	struct next_seg n;

	if (!conn_has_unsent(c) || is_behind_lost(c))
		return false;
	restart_after_idle(c);
	if (!next_plan(c, &n))
		return false;
	struct range *r = next_range(c, f, &n);
	if (!r)
		return false;
	if (n.bytes != n.room && n.bytes % n.room && !n.probe)
		c->snd_sml = seq_add(c->snd_nxt, n.bytes);
	if (f->n_pieces > 1)
		work_add(&c->stack->work, (int32_t)f->n_pieces);
	range_add(c, r);
	flight_seen(c);
	if (c->n_data_in &&
	    (now_ms(c->stack) - c->last_data_rx_ms) * NS_PER_MS < DELACK_NS)
		c->flags |= CONN_PINGPONG;
	send_range(c, f, r, n.bytes);
	range_sent(c, r);
	if (c->rec.has_lowat)
		conn_news(c);
	chrono_set(c, is_room_awaited(c) ? CHRONO_SNDBUF_LIMITED : CHRONO_BUSY);
	return true;
}

/* RFC 8985 section 7.3: a new segment, or the last one again. */
static bool send_tlp(struct tcp_conn *c, struct tcp_frame *f)
{
	struct range *r = c->sent.tail;

	if (!tlp_may_probe(c)) {
		clear_pending(c, TX_TLP);
		return false;
	}
	if (send_new(c, f)) {
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
		if (send_new(c, f))
			return true;
		/* RFC 5682 section 2.1 (2b): new bytes first; their ACK tells whether
		 * anything is lost. */
		if (seq_lt(c->recover, c->snd_nxt))
			return false;
	}
	return send_lost(c, f) || send_new(c, f);
}

/* The peer has not acknowledged our SYN, whose timer is armed.  RFC 9293 section
 * 3.10.4: a program that has closed sends only a FIN, which need not wait for the ACK. */
static bool open_tx(struct tcp_conn *c, struct tcp_frame *f)
{
	bool is_ack = c->tx_pending & TX_ACK, is_sent = false;
	uint64_t syn_ns = c->last_tx_ns;

	clear_pending(c, UINT8_MAX);
	if (c->flags & CONN_ORPHAN)
		is_sent = send_new(c, f);
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
