/* SPDX-License-Identifier: MIT */
/*
 * tcp/export.c - what somebody else needs to go on with a connection; see export.h
 *
 *     struct tcp_conn -> tcp_export(): numbers
 *                     -> tcp_export_queued(), tcp_export_unread(): bytes
 *
 * None of this changes the connection.  Times are counted from now, because another stack
 * has another clock.  They are rounded up, so that a connection that moves often meets its
 * deadlines.
 *
 * A call visits all pieces of a queue, as one that closes a connection does.
 */
#include <errno.h>

#include "tcp/export.h"
#include "tcp/info.h"
#include "tcp/rcv.h"
#include "tcp/snd.h"
#include "tcp/stack.h"
#include "tcp/timer.h"

/* How many of @unit remain until @at_ns, 1 at least; 0: it never comes. */
static uint32_t left(const struct tcp_conn *c, uint64_t at_ns, uint64_t unit)
{
	uint64_t now = c->stack->now_ns;

	if (at_ns == WHEEL_NEVER)
		return 0;
	return at_ns > now ? (uint32_t)MIN((at_ns - now + unit - 1) / unit,
					   (uint64_t)UINT32_MAX)
			   : 1;
}

static seq32 first_lost(const struct tcp_conn *c)
{
	const struct range *r = c->lost_bytes ? c->sent.head : NULL;

	while (r && !range_is_lost(c, r))
		r = r->next;
	return r ? r->seq : c->snd_nxt;
}

static void put_numbers(const struct tcp_conn *c, struct tcp_image *x)
{
	x->laddr = c->stack->cfg.addrs[c->flow.laddr];
	x->raddr = c->flow.raddr;
	x->lport = c->flow.lport;
	x->rport = c->flow.rport;
	x->is_shut = c->flags & CONN_SHUT_WR;
	x->is_peer_shut = c->flags & CONN_FIN_RCVD;
	x->snd_una = c->snd_una;
	x->snd_nxt = seq_min(c->snd_nxt, c->snd_end);
	x->snd_lost = seq_min(first_lost(c), x->snd_nxt);
	x->snd_end = c->snd_end;
	x->rcv_nxt = seq_sub(c->rcv_nxt, x->is_peer_shut);
	x->n_unread = c->rcvq_bytes;
	x->snd_wl1 = c->snd_wl1;
	x->snd_wnd = c->snd_wnd;
	x->max_wnd = c->max_wnd;
	x->rcv_wup = seq_min(c->last_ack_sent, x->rcv_nxt);
	x->rcv_wnd = seq_len(x->rcv_wup, c->rcv_adv);
}

static void put_agreed(const struct tcp_conn *c, struct tcp_image *x)
{
	x->has_ts = c->flags & CONN_TS;
	x->has_sack = c->flags & CONN_SACK;
	x->has_wscale = c->flags & CONN_WSCALE;
	x->has_ecn = c->flags & CONN_ECN;
	x->is_ecn_echo = c->flags & CONN_ECN_ECHO;
	x->snd_wscale = c->snd_wscale;
	x->rcv_wscale = c->rcv_wscale;
	x->mss_clamp = (uint16_t)(c->mss_max + (x->has_ts ? TS_BYTES : 0));
	x->is_ts_us = c->is_ts_us;
	x->tsval = conn_tsval(c);
}

static void put_path(const struct tcp_conn *c, struct tcp_image *x)
{
	x->cwnd = c->cwnd;
	x->ssthresh = c->ssthresh >= SSTHRESH_MAX ? 0 : c->ssthresh;
	x->is_lossy = c->ca_state >= CA_RECOVERY;
	x->rtt_us = c->srtt_8us / 8;
	x->rttvar_us = c->rttvar_us;
	x->min_rtt_us = c->min_rtt_us;
	x->rto_us = c->rto_us;
	x->rcv_rtt_us = c->rcv_rtt_us;
	x->rcv_mss = c->rcv_mss;
	x->path_mtu = c->path_mtu;
}

static void put_times(const struct tcp_conn *c, struct tcp_image *x)
{
	bool is_persist = c->rtx_kind == RTX_PERSIST;
	uint64_t now = c->stack->now_ns;

	x->n_backoffs = c->n_rtx;
	x->n_probes = c->n_probes;
	/* While a probe or the reordering window is timed, rto_at_ns has the RTO. */
	if (c->rtx_kind != RTX_NONE)
		x->rtx_left_us = left(
		    c, is_persist ? c->rtx_at_ns : c->rto_at_ns, NS_PER_US);
	if (c->rtx_since_ns)
		x->late_us = (now - c->rtx_since_ns) / NS_PER_US + 1;
	x->tx_ms_ago = (uint32_t)((now - c->last_tx_ns) / NS_PER_MS);
	x->rx_ms_ago = now_ms(c->stack) - c->last_rx_ms;
	x->data_rx_ms_ago = now_ms(c->stack) - c->last_data_rx_ms;
	x->keep_left_ms = left(c, c->life_at_ns, NS_PER_MS);
}

static void put_options(const struct tcp_conn *c, struct tcp_image *x)
{
	x->has_nodelay = c->flags & CONN_NODELAY;
	x->has_cork = c->flags & CONN_CORK;
	x->is_oob_inline = c->flags & CONN_OOB_INLINE;
	x->resets_on_close = c->flags & CONN_LINGER_0;
	x->is_paced = c->flags & CONN_PACED;
	x->is_rcv_buf_set = c->flags & CONN_RCV_BUF_SET;
	x->is_snd_buf_set = c->flags & CONN_SND_BUF_SET;
	x->rcv_buf = c->rcv_buf;
	x->snd_buf = c->snd_buf;
	x->wnd_clamp = c->wnd_clamp;
	x->rcv_lowat = c->rcv_lowat;
	x->notsent_lowat = c->notsent_lowat;
	x->user_timeout_ms = c->user_timeout_ms;
	x->keep_idle_s = c->keep_idle_s;
	x->keep_interval_s = c->keep_interval_s;
	x->keep_probes = c->keep_probes;
	x->maxseg = c->maxseg;
	x->fin_timeout_s = c->fin_timeout_s;
}

static void put_counters(const struct tcp_conn *c, struct tcp_image *x)
{
	struct tcp_conn_info i;

	tcp_get_info(c, &i, c->stack->now_ns);
	x->bytes_acked = i.tcpi_bytes_acked;
	x->bytes_received = i.tcpi_bytes_received;
	x->again_bytes = c->again_bytes;
	x->n_in = c->n_in;
	x->n_out = c->n_out;
	x->n_data_in = c->n_data_in;
	x->n_data_out = c->n_data_out;
	x->n_again = c->n_again;
}

/* In all other states, there is nothing to go on with, or no number for our FIN. */
static bool is_state_right(const struct tcp_conn *c)
{
	return c->state >= TCP_ESTABLISHED && c->state != TCP_FIN_WAIT_2 &&
	       c->state != TCP_TIME_WAIT;
}

int tcp_export(const struct tcp_conn *c, struct tcp_image *out, uint64_t now_ns)
{
	struct tcp_image x = { 0 };

	stack_at(c->stack, now_ns);
	if (!is_state_right(c) || c->listener)
		return -EINVAL;
	if (c->flags & (CONN_URG_IN | CONN_URG_OUT))
		return -EBUSY;
	put_numbers(c, &x);
	put_agreed(c, &x);
	put_path(c, &x);
	put_times(c, &x);
	put_options(c, &x);
	put_counters(c, &x);
	if (tcp_image_is_young(&x))
		return -EBUSY;
	*out = x;
	return 0;
}

void tcp_export_numbers(const struct tcp_conn *c, struct tcp_numbers *out)
{
	seq32 wup = seq_min(c->last_ack_sent, c->rcv_nxt);

	*out = (struct tcp_numbers){
		.snd_una = c->snd_una,
		.snd_nxt = seq_min(c->snd_nxt, c->snd_end),
		.snd_end = c->snd_end,
		.rcv_nxt = c->rcv_nxt,
		.n_unread = c->rcvq_bytes,
		.snd_wl1 = c->snd_wl1,
		.snd_wnd = c->snd_wnd,
		.max_wnd = c->max_wnd,
		.rcv_wup = wup,
		.rcv_wnd = seq_len(wup, c->rcv_adv),
		.tsval = conn_tsval(c),
	};
}

static uint32_t queue_copy(const struct queue *q, uint8_t *buf, uint32_t cap)
{
	uint32_t done = 0;

	for (const struct range *r = q->head; r && done < cap; r = r->next) {
		uint32_t part = MIN(r->len, cap - done);

		memcpy(buf + done, r->ext->data + r->off, part);
		done += part;
	}
	return done;
}

uint32_t tcp_export_queued(const struct tcp_conn *c, void *buf, uint32_t cap)
{
	return queue_copy(&c->sndq, buf, cap);
}

uint32_t tcp_export_unread(const struct tcp_conn *c, void *buf, uint32_t cap)
{
	return queue_copy(&c->rcvq, buf, cap);
}

bool tcp_is_quiet(const struct tcp_conn *c)
{
	return seq_eq(c->snd_una, c->snd_nxt) && !conn_has_unsent(c) &&
	       seq_eq(c->last_ack_sent, c->rcv_nxt) && !c->oooq &&
	       !c->tx_pending;
}

enum tcp_end tcp_held_end(const struct tcp_conn *c) { return c->held_end; }

void tcp_hold_end(struct tcp_conn *c, bool is_on, uint64_t now_ns)
{
	enum tcp_end held = c->held_end;

	stack_at(c->stack, now_ns);
	c->holds_end = is_on;
	if (is_on)
		return;
	c->held_end = TCP_END_NONE;
	if (c->state != TCP_ESTABLISHED)
		return;
	if (held == TCP_END_RESET) {
		conn_reset(c);
	} else if (held == TCP_END_FIN) {
		rcvq_end(c);
		conn_peer_shut(c);
	}
}
