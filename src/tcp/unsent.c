/* SPDX-License-Identifier: MIT */
/*
 * tcp/unsent.c - bytes that were never sent: how many may leave now, and as what
 *
 *     tx.c -> unsent_send(): windows, Nagle, records -> a range, a frame -> tx.c
 *
 * The peer's window and the congestion window limit what leaves.  Nagle's algorithm, the
 * program's cork and the end of a record decide whether a small segment may leave.  What
 * leaves becomes the last range in flight.
 *
 * Spec: RFC 9293 3.8.6, RFC 1122 4.2.3.4, RFC 5681, RFC 896 (Nagle), RFC 2861
 */
#include "tcp/ctl.h"
#include "tcp/pmtu.h"
#include "tcp/rcv.h"
#include "tcp/snd.h"
#include "tcp/stack.h"
#include "tcp/timer.h"

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
	uint32_t most = MIN(avail, usable),
		 n = MIN(most, conn_frame_room(c, room));
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
static COLD uint32_t probe_bytes(struct tcp_conn *c, uint32_t avail)
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
static COLD void era_note(struct tcp_conn *c, struct range *r)
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

	*n = (struct next_seg){ .room = conn_seg_room(c), .avail = all };
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

/* Sends the next segment of new bytes, or the FIN.  Return: whether there is one that may
 * be sent now. */
bool unsent_send(struct tcp_conn *c, struct tcp_frame *f)
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
	range_send(c, f, r, n.bytes);
	range_sent(c, r);
	if (c->rec.has_lowat)
		conn_news(c);
	chrono_set(c, is_room_awaited(c) ? CHRONO_SNDBUF_LIMITED : CHRONO_BUSY);
	return true;
}
