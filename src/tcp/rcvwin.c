/* SPDX-License-Identifier: MIT */
/*
 * tcp/rcvwin.c - the receive window, and the limits of memory behind it
 *
 *     what the program has read in a round trip -> rcv_tune() -> the buffer's size
 *     the buffer, less what waits in it         -> rcv_window_update() -> rcv_adv
 *
 * The window promises bytes.  But a received piece keeps the whole frame that it came
 * in, so a connection also has a limit of memory, several times its buffer.  When small
 * pieces come near that limit, the window no longer moves, and new small pieces are
 * copied together.  Frames beyond the limit are dropped, although the window promised
 * room for them.
 *
 * The stack may have a limit for all connections.  Then a connection may use at most
 * what is left of it.  When little is left, connections that use more than their share
 * drop what is out of order (rcvq.c).  Bytes in order are never dropped.
 *
 * Spec: RFC 9293 section 3.8.6.2.2; the tuning is Linux's "dynamic right-sizing"
 */
#include "tcp/opt.h"
#include "tcp/rcv.h"
#include "tcp/snd.h"
#include "tcp/stack.h"

#define MEM_FACTOR 4u          /* memory of a connection, in buffers */
#define MEM_LEAST (256u << 10) /* frames may be large, and buffers small */
#define MEM_MOST (3u << 30)    /* the counter has 32 bits */
#define RTT_MAX_US 60000000

uint32_t rcv_mem_max(const struct tcp_conn *c)
{
	const struct tcp_stack *s = c->stack;
	uint64_t own = (uint64_t)MEM_FACTOR * c->rcv_buf + MEM_LEAST;

	own = MIN(own, (uint64_t)MEM_MOST);
	if (!s->cfg.rcv_mem)
		return (uint32_t)own;
	uint64_t left =
	    s->cfg.rcv_mem > s->rcv_mem ? s->cfg.rcv_mem - s->rcv_mem : 0;
	return (uint32_t)MIN(left, own);
}

/* --- what a SYN says --- */

/* The window scale for the largest size that the buffer may reach.  @set: the size that
 * the program has chosen for good; 0: the configuration's sizes count */
uint8_t rcv_scale(const struct tcp_stack *s, uint32_t set)
{
	const struct tcp_config *cfg = &s->cfg;
	uint32_t most = cfg->rcv_buf;
	uint8_t n = 0;

	if (cfg->rcv_buf_max > most)
		most = cfg->rcv_buf_max;
	if (set)
		most = set;
	while (n < TCP_WSCALE_MAX && 65535u << n < most)
		n++;
	return n;
}

/* The window of a SYN, which is not scaled: whole segments, as in Linux. */
uint32_t rcv_first(const struct tcp_stack *s, uint32_t set, uint32_t mss)
{
	uint32_t buf = set ? set : s->cfg.rcv_buf;

	return MIN(buf > mss ? buf - buf % mss : buf, 65535u);
}

/* Fixes the scale and the window of our SYN.  That is when the SYN is about to leave
 * for the first time, or when the peer's SYN arrives before.  They stay until the peer
 * answers, even if the program changes the buffer. */
void rcv_promise(struct tcp_conn *c)
{
	uint32_t set = c->flags & CONN_RCV_BUF_SET ? c->rcv_buf : 0;
	uint32_t mss = stack_mss(c->stack, &c->flow.raddr, c->maxseg);

	c->rcv_wscale = rcv_scale(c->stack, set) & 15;
	c->rcv_space = rcv_first(c->stack, set, mss);
}

/* --- the window --- */

/* The smallest window that we offer: two units of the scale, which are 32 KB for a
 * scale of 14.  With one unit, the rest of a used window would round down to 0. */
static uint32_t window_least(const struct tcp_conn *c)
{
	return 2u << c->rcv_wscale;
}

/* The window when there is nothing to read. */
static uint32_t window_full(const struct tcp_conn *c)
{
	uint32_t least = window_least(c), full = c->rcv_buf;

	if (c->wnd_clamp)
		full = MIN(full, c->wnd_clamp);
	return full > least ? full : least;
}

/* The largest right edge that the buffer, the memory and the window field allow. */
static seq32 right_edge(const struct tcp_conn *c)
{
	uint32_t full = window_full(c), least = window_least(c);
	uint32_t buf = c->rcv_buf > least ? c->rcv_buf : least;
	uint32_t room = buf > c->rcvq_bytes ? buf - c->rcvq_bytes : 0;
	uint32_t max = rcv_mem_max(c);
	uint32_t mem = max > c->rcv_mem ? max - c->rcv_mem : 0;

	/* A connection that holds no bytes may always receive the next ones. */
	if (mem <= UINT16_MAX && !c->rcvq.head) {
		least = least > c->mss_max ? least : c->mss_max;
		mem = mem > least ? mem : least;
	}
	mem = MIN(mem, full);
	room = MIN(room, mem);
	return seq_add(c->rcv_nxt, MIN(room, 65535u << c->rcv_wscale));
}

/* Moves the right edge as far as there is room, but by a segment at least. */
void rcv_window_update(struct tcp_conn *c)
{
	seq32 edge = right_edge(c);

	if (c->flags & CONN_FIN_RCVD)
		return;
	if (seq_lt(c->rcv_adv, edge) &&
	    seq_len(c->rcv_adv, edge) >=
		MIN((uint32_t)c->mss, window_full(c) / 2))
		c->rcv_adv = edge;
}

/* Whether the window can grow to twice what the peer knows, so that it needs an ACK
 * now.  A lower limit would send an ACK for each read. */
bool rcv_window_is_news(const struct tcp_conn *c)
{
	seq32 edge = right_edge(c);

	return seq_lt(c->rcv_adv, edge) &&
	       seq_len(c->rcv_nxt, edge) / 2 >=
		   seq_len(c->rcv_nxt, c->rcv_adv) &&
	       seq_len(c->rcv_adv, edge) >=
		   MIN(2u * c->mss, window_full(c) / 2);
}

/* Whether the peer can send little more before the program reads. */
bool rcv_window_is_used_up(const struct tcp_conn *c)
{
	return seq_len(c->rcv_nxt, c->rcv_adv) <= c->rcv_mss ||
	       c->rcv_mem > rcv_mem_max(c) / 2;
}

static uint32_t now_us(const struct tcp_conn *c)
{
	return (uint32_t)(c->stack->now_ns / NS_PER_US);
}

void rcv_tune_init(struct tcp_conn *c)
{
	if (!(c->flags & CONN_RCV_BUF_SET))
		c->rcv_buf = c->stack->cfg.rcv_buf;
	c->rcv_space = MIN(c->rcv_buf, INITIAL_WINDOW * (uint32_t)c->mss_max);
	c->rcv_copied = conn_copied(c);
	c->rcv_space_us = now_us(c);
}

/* A side that only receives gets no ACKs to measure.  But each segment echoes our
 * timestamp that its sender saw last.  The first segment that echoes a new timestamp is
 * the sample. */
void rcv_rtt_sample(struct tcp_conn *c, const struct tcp_seg *seg)
{
	int64_t age_us = conn_ts_age_us(c, seg->tsecr);

	if (!(c->flags & CONN_TS) || !seg->has_ts || !seg->tsecr ||
	    seg->tsecr == c->rcv_rtt_tsecr || age_us < 0 || age_us > RTT_MAX_US)
		return;
	c->rcv_rtt_tsecr = seg->tsecr;
	uint32_t us = age_us ? (uint32_t)age_us : 1000;
	c->rcv_rtt_us =
	    c->rcv_rtt_us ? c->rcv_rtt_us - c->rcv_rtt_us / 8 + us / 8 : us;
}

static uint32_t rtt_us(const struct tcp_conn *c)
{
	if (c->rcv_rtt_us)
		return c->rcv_rtt_us;
	return c->srtt_8us / 8;
}

/* Called after a read.  A buffer of twice the bytes read in a round trip never limits
 * the sender.  When that number has grown, we leave room for as much growth in the next
 * one. */
void rcv_tune(struct tcp_conn *c)
{
	uint32_t max = c->stack->cfg.rcv_buf_max, rtt = rtt_us(c);

	if (c->rcv_buf >= max || c->flags & CONN_RCV_BUF_SET || !rtt ||
	    now_us(c) - c->rcv_space_us < rtt)
		return;
	uint32_t copied = seq_len(c->rcv_copied, conn_copied(c));
	if (copied > c->rcv_space) {
		uint64_t grown = copied - c->rcv_space;
		uint64_t want = 2ull * copied + 16u * c->mss_max;

		want += 2 * want * grown / c->rcv_space;
		if (want > c->rcv_buf)
			c->rcv_buf = (uint32_t)MIN(want, (uint64_t)max);
		c->rcv_space = copied;
	}
	c->rcv_copied = conn_copied(c);
	c->rcv_space_us = now_us(c);
}

static uint32_t buf_bytes(uint32_t asked)
{
	asked = MIN(asked, 1u << 30);
	return asked > RCV_BUF_MIN ? asked : RCV_BUF_MIN;
}

void tcp_set_rcv_buf(struct tcp_conn *c, uint32_t bytes)
{
	c->rcv_buf = buf_bytes(bytes);
	c->flags |= CONN_RCV_BUF_SET;
}

void tcp_set_listen_rcv_buf(struct tcp_listener *l, uint32_t bytes)
{
	l->rcv_buf = buf_bytes(bytes);
}
