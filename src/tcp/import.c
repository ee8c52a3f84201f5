/* SPDX-License-Identifier: MIT */
/*
 * tcp/import.c - goes on with a connection that was elsewhere; see export.h
 *
 *     struct tcp_image, bytes -> is_sound() -> tcp_import(): a struct tcp_conn
 *
 * The image is input: it comes from the kernel, or from memory that is shared with
 * another process.  Numbers that contradict each other are refused.  Others are limited
 * to what the engine itself would reach.
 *
 * What was sent and not acknowledged becomes one range.  It counts as sent again, because
 * we do not know when it was sent: its ACK is no sample of the RTT (Karn).  From the
 * first loss on, a second range is lost, as after a time-out.  The peer's next SACK
 * blocks tell what of it has arrived.
 */
#include "tcp/calls.h"
#include "tcp/ctl.h"
#include "tcp/export.h"
#include "tcp/opt.h"
#include "tcp/pmtu.h"
#include "tcp/rcv.h"
#include "tcp/snd.h"
#include "tcp/stack.h"
#include "tcp/timer.h"

#define BYTES_MAX (1u << 30) /* of a queue or a window */
#define US_PER_MS UINT64_C(1000)
#define RANGES_NEEDED 4 /* two queues; what was sent, and what was lost */

static uint32_t clip(uint32_t v, uint32_t least, uint32_t most)
{
	v = MIN(v, most);
	return v > least ? v : least;
}

static bool is_extent_right(const struct extent *e, uint32_t bytes)
{
	return bytes <= BYTES_MAX && (e ? e->cap >= bytes : !bytes);
}

static bool is_sound(const struct tcp_image *x, const struct extent *queued,
		     const struct extent *unread)
{
	seq32 edge = seq_add(x->rcv_wup, x->rcv_wnd);

	uint32_t sent = seq_len(x->snd_una, x->snd_nxt);
	uint32_t all = seq_len(x->snd_una, x->snd_end);

	if (sent > all || seq_len(x->snd_una, x->snd_lost) > sent)
		return false;
	if (x->rcv_wnd > BYTES_MAX || x->snd_wnd > x->max_wnd ||
	    x->max_wnd > BYTES_MAX || x->snd_wscale > TCP_WSCALE_MAX ||
	    x->rcv_wscale > TCP_WSCALE_MAX)
		return false;
	if (!x->has_wscale && (x->snd_wscale || x->rcv_wscale))
		return false;
	if (seq_len(x->rcv_wup, x->rcv_nxt) > x->rcv_wnd ||
	    !seq_le(x->snd_wl1, edge))
		return false;
	return is_extent_right(queued, all) &&
	       is_extent_right(unread, x->n_unread) && x->lport && x->rport &&
	       ip_addr_is_v4(&x->laddr) == ip_addr_is_v4(&x->raddr) &&
	       ip_addr_is_host(&x->raddr);
}

/* The sequence number of a SYN, if @bytes bytes followed it and the next number is @now.
 * *@wraps: how often the numbers have passed 0 since. */
static seq32 first_number(seq32 now, uint64_t bytes, uint16_t *wraps)
{
	seq32 first = { now.v - (uint32_t)bytes - 1 };

	*wraps = (uint16_t)((first.v + bytes + 1) >> 32);
	return first;
}

static struct range *piece_new(struct tcp_conn *c, struct extent *e, seq32 seq,
			       uint32_t len)
{
	struct range *r = pool_get(&c->stack->pool_ranges);

	*r = (struct range){ .ext = extent_get(e), .seq = seq, .len = len };
	return r;
}

static void agree(struct tcp_conn *c, const struct tcp_image *x)
{
	c->maxseg = x->maxseg;
	c->rcv_wscale = x->rcv_wscale & 15;
	conn_agree(c,
		   (x->has_ts ? TCP_OFFER_TS : 0u) |
		       (x->has_sack ? TCP_OFFER_SACK : 0u) |
		       (x->has_wscale ? TCP_OFFER_WSCALE : 0u),
		   x->mss_clamp, x->snd_wscale);
	c->flags |= (x->has_ecn ? CONN_ECN : 0u) |
		    (x->has_ecn && x->is_ecn_echo ? CONN_ECN_ECHO : 0u);
	c->is_ts_us = x->is_ts_us;
	c->ts_off = x->tsval - ts_clock(c->stack, c->is_ts_us);
	/* No timestamp is old compared with one that was seen so long ago. */
	c->ts_recent_s = now_sec(c->stack) - PAWS_S;
	pmtu_resume(c, x->path_mtu);
}

static void go_on_receiving(struct tcp_conn *c, const struct tcp_image *x,
			    struct extent *unread)
{
	c->irs = first_number(x->rcv_nxt, x->bytes_received, &c->rcv_wraps);
	c->rcv_nxt = x->rcv_nxt;
	c->last_ack_sent = x->rcv_wup;
	c->rcv_adv = seq_add(x->rcv_wup, x->rcv_wnd);
	c->rcv_rtt_us = x->rcv_rtt_us;
	if (x->rcv_mss)
		c->rcv_mss = MIN(x->rcv_mss, c->mss_max);
	if (x->n_unread)
		rcvq_resume(c, piece_new(c, unread,
					 seq_sub(x->rcv_nxt, x->n_unread),
					 x->n_unread));
	if (x->is_rcv_buf_set)
		tcp_set_rcv_buf(c, x->rcv_buf);
	rcv_tune_init(c);
	/* The buffer may have grown; it never falls below what it was. */
	if (!x->is_rcv_buf_set && x->rcv_buf > c->rcv_buf)
		c->rcv_buf = MIN(x->rcv_buf, BYTES_MAX);
}

/* The bytes from @from to @to were sent, and @is_lost says whether that was in vain. */
static void add_sent(struct tcp_conn *c, seq32 from, seq32 to, bool is_lost)
{
	struct range *r = pool_get(&c->stack->pool_ranges);

	*r = (struct range){ .seq = from,
			     .len = seq_len(from, to),
			     .flags = RANGE_RETX,
			     .room = c->mss,
			     .xmit_ns = c->stack->now_ns,
			     .piece = c->sndq.head };
	list_init(&r->link);
	list_add_tail(&c->flight, &r->link);
	if (c->sent.tail)
		c->sent.tail->next = r;
	else
		c->sent.head = r;
	c->sent.tail = r;
	c->again_out += r->len;
	if (is_lost)
		sent_mark_lost(c, r);
}

/* What was sent and not acknowledged. */
static void go_on_with_sent(struct tcp_conn *c, const struct tcp_image *x)
{
	if (!seq_eq(x->snd_una, x->snd_lost))
		add_sent(c, x->snd_una, x->snd_lost, false);
	if (!seq_eq(x->snd_lost, x->snd_nxt))
		add_sent(c, x->snd_lost, x->snd_nxt, true);
	c->flight_max = seq_len(x->snd_una, x->snd_nxt);
	/* It may end with a small segment (Nagle). */
	c->snd_sml = c->snd_nxt;
	/* There may have been a tail loss probe.  If each move allowed another one, there
	 * would be no time-out. */
	c->rec.is_tlp_out = true;
	c->rec.tlp_end = c->snd_nxt;
	if (!x->is_lossy && !c->lost_bytes)
		return;
	c->ca_state = CA_LOSS;
	c->recover = c->snd_nxt;
}

static void go_on_sending(struct tcp_conn *c, const struct tcp_image *x,
			  struct extent *queued)
{
	seq32 una = x->snd_una;

	c->iss = first_number(una, x->bytes_acked, &c->snd_wraps);
	c->snd_una = c->snd_sml = c->snd_up = c->sack_high = una;
	c->snd_nxt = c->flight_seq = x->snd_nxt;
	c->snd_end = x->snd_end;
	c->recover = seq_sub(una, 1);
	c->snd_wnd = x->snd_wnd;
	c->max_wnd = x->max_wnd;
	c->snd_wl1 = x->snd_wl1;
	c->snd_wl2 = una;
	if (!seq_eq(una, x->snd_end))
		sndq_append(
		    c, piece_new(c, queued, una, seq_len(una, x->snd_end)));
	if (!seq_eq(una, x->snd_nxt))
		go_on_with_sent(c, x);
	if (!seq_eq(una, x->snd_end))
		chrono_set(c, CHRONO_BUSY);
}

static void go_on_with_path(struct tcp_conn *c, const struct tcp_image *x)
{
	if (x->ssthresh && x->ssthresh < SSTHRESH_MAX) {
		c->ssthresh = clip(x->ssthresh, 2u * c->mss, SSTHRESH_MAX - 1);
		c->cc_state = (union tcp_cc_state){ 0 };
	}
	if (x->cwnd)
		c->cwnd = clip(x->cwnd, c->mss, BYTES_MAX);
	if (x->is_lossy)
		c->cwnd = MIN(c->cwnd, c->ssthresh);
	c->srtt_8us = 8 * MIN(x->rtt_us, UINT32_MAX / 8);
	c->rttvar_us = x->rttvar_us;
	c->min_rtt_us = c->half_rtt_us = x->min_rtt_us;
	if (x->rto_us)
		c->rto_us = clip(x->rto_us, RTO_MIN_NS / NS_PER_US,
				 RTO_MAX_NS / NS_PER_US);
}

static void go_on_with_counters(struct tcp_conn *c, const struct tcp_image *x)
{
	c->n_in = x->n_in;
	c->n_out = x->n_out;
	c->n_data_in = x->n_data_in;
	c->n_data_out = x->n_data_out;
	c->n_again = x->n_again;
	c->again_bytes = x->again_bytes;
}

static void set_options(struct tcp_conn *c, const struct tcp_image *x)
{
	c->flags &= ~(uint32_t)CONN_PACED;
	c->flags |= (x->has_nodelay ? CONN_NODELAY : 0u) |
		    (x->has_cork ? CONN_CORK : 0u) |
		    (x->is_oob_inline ? CONN_OOB_INLINE : 0u) |
		    (x->resets_on_close ? CONN_LINGER_0 : 0u) |
		    (x->is_paced ? CONN_PACED : 0u);
	if (x->is_snd_buf_set)
		tcp_set_snd_buf(c, x->snd_buf);
	tcp_set_window_clamp(c, x->wnd_clamp);
	tcp_set_rcv_lowat(c, x->rcv_lowat);
	tcp_set_notsent_lowat(c, x->notsent_lowat);
	tcp_set_user_timeout(c, x->user_timeout_ms);
	tcp_set_fin_timeout(c, x->fin_timeout_s);
}

static uint64_t ago_ns(const struct tcp_conn *c, uint64_t us)
{
	uint64_t now = c->stack->now_ns;

	return us < now / NS_PER_US ? now - us * NS_PER_US : 1;
}

/* The connection is established: its timers go on where they were. */
static void go_on_with_times(struct tcp_conn *c, const struct tcp_image *x)
{
	uint32_t now = now_ms(c->stack);

	c->last_tx_ns = ago_ns(c, x->tx_ms_ago * US_PER_MS);
	c->last_rx_ms = now - x->rx_ms_ago;
	c->last_data_rx_ms = now - x->data_rx_ms_ago;
	c->n_probes = x->n_probes;
	if (!seq_eq(x->snd_una, x->snd_end) || x->is_shut) {
		c->n_rtx = MIN(x->n_backoffs, (uint8_t)DATA_RETRIES);
		conn_late_since(c, x->late_us ? ago_ns(c, x->late_us) : 0);
	}
	if (x->keep_idle_s)
		tcp_set_keepalive(c, x->keep_idle_s, x->keep_interval_s,
				  x->keep_probes, c->stack->now_ns);
	conn_timers_resume(c, x->rtx_left_us * NS_PER_US,
			   x->keep_left_ms * NS_PER_MS);
}

/* Sets what may have to be sent now. */
static void set_pending(struct tcp_conn *c, const struct tcp_image *x)
{
	conn_set_pending_data(c);
	/* Nobody has timed the ACK of what arrived last. */
	if (!seq_eq(x->rcv_wup, x->rcv_nxt) || x->is_peer_shut ||
	    rcv_window_is_news(c))
		conn_set_pending(c, TX_ACK);
}

static int flow_free(struct tcp_stack *s, const struct flow *f)
{
	struct flow *is = flow_find(s, f->laddr, f->lport, &f->raddr, f->rport);

	if (!is)
		return 0;
	if (is->kind != FLOW_TIME_WAIT)
		return -EADDRINUSE;
	/* The connection was opened elsewhere, after the one in TIME-WAIT. */
	tw_free(s, container_of(is, struct tcp_tw, flow));
	return 0;
}

int tcp_import(struct tcp_stack *s, const struct tcp_image *x,
	       struct extent *queued, struct extent *unread, uint64_t now_ns,
	       struct tcp_conn **out)
{
	struct flow f = { .raddr = x->raddr,
			  .lport = x->lport,
			  .rport = x->rport,
			  .kind = FLOW_CONN };
	int laddr = stack_addr(s, &x->laddr), err;

	stack_at(s, now_ns);
	if (!is_sound(x, queued, unread))
		return -EINVAL;
	if (laddr < 0)
		return laddr;
	if (tcp_image_is_young(x))
		return -EBUSY;
	f.laddr = (uint8_t)laddr;
	if (!s->pool_conns.n_free || s->pool_ranges.n_free < RANGES_NEEDED)
		return -ENOBUFS;
	err = flow_free(s, &f);
	if (err)
		return err;
	struct tcp_conn *c = conn_new(s, &f);
	agree(c, x);
	go_on_receiving(c, x, unread);
	go_on_sending(c, x, queued);
	set_options(c, x);
	go_on_with_path(c, x);
	go_on_with_counters(c, x);
	tcp_set_state(c, TCP_ESTABLISHED);
	go_on_with_times(c, x);
	if (x->is_peer_shut) {
		rcvq_end(c);
		tcp_set_state(c, TCP_CLOSE_WAIT);
	}
	set_pending(c, x);
	if (x->is_shut)
		err = tcp_shutdown(c, now_ns);
	assert(!err);
	*out = c;
	return 0;
}
